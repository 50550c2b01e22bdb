//! The recipe that compares pipelines on labelled chains.

use crate::common::{Workplace, json_lines, root};
use serde_json::Value;

/// Short labelled chains of the sample. The generator's core steps are needed and equally important.
const LABELLED: &str = "
    COPY (SELECT question, cot, answer, array_agg(label = 'core' ORDER BY step) AS needed,
              array_agg(CASE WHEN label = 'core' THEN 1.0 ELSE 0.0 END ORDER BY step) AS importance
          FROM (SELECT id, question, cot, answer, unnest(labels) AS label,
                    unnest(generate_series(1, CAST(cardinality(labels) AS BIGINT))) AS step
                FROM (SELECT id, question, cot, answer, labels FROM corpus
                      WHERE cardinality(labels) <= 18 LIMIT 10))
          GROUP BY id, question, cot, answer) TO 'labelled.parquet'";

/// Parses a figure such as `+1.5 ± 2.0 *`: points, half interval, and whether it is marked as a difference.
fn points(text: &str) -> (f64, f64, bool) {
    let (points, half) = text.split_once(" ± ").unwrap();
    let number = |text: &str| text.replace('−', "-").replace('+', "").parse::<f64>().unwrap();
    (number(points), number(half.trim_end_matches(" *")), half.ends_with('*'))
}

/// Runs the recipe over these chains. Returns a row per method and share.
fn compared() -> Vec<Value> {
    let workplace = Workplace::new();
    workplace.traces(9, 80, "traces");
    workplace.run(["sql", "-q", "--from", "traces", "-c", LABELLED]).ok();
    let recipe = root().join("docs/recipes/labels.sql").display().to_string();
    let printed = workplace.run(["sql", "-q", "--from", "labelled.parquet", "--format", "nd-json", "-f", &recipe]);
    let rows = json_lines(printed.ok());
    for row in &rows {
        let share = row["tokens kept, %"].as_f64().unwrap();
        let most = 100.0 * row["ratio"].as_f64().unwrap();
        assert!(share > most / 3.0 && share <= most + 0.1, "{row}");
        for figure in ["steps", "tokens", "precision", "importance", "its tokens", "mean"] {
            let (points, half, is_one) = points(row[figure].as_str().unwrap());
            // Both are rounded.
            let is_close = (points.abs() - half).abs() < 0.11;
            assert!(half >= 0.0 && (is_close || is_one == (points.abs() > half)), "{row}");
        }
        // Needed steps are the important ones here.
        assert_eq!((&row["steps"], &row["tokens"]), (&row["importance"], &row["its tokens"]));
    }
    rows
}

#[test]
fn pipelines_are_compared_with_chance_on_labelled_chains() {
    let rows = compared();
    assert_eq!(rows.len(), 14);
    assert!(rows.iter().all(|row| (&row["questions"], &row["chains"]) == (&10.into(), &10.into())), "{rows:?}");
    let of = |pipeline: &str| {
        points(rows.iter().find(|row| row["pipeline"] == pipeline).unwrap()["steps"].as_str().unwrap())
    };
    let random =
        rows.iter().filter(|row| row["pipeline"] == "random").flat_map(|row| row.as_object().unwrap().values());
    assert!(random.filter_map(Value::as_str).all(|text| !text.ends_with('*')), "a random order is marked as different");
    // The rules find the core of the sample; truncation does not.
    assert!(of("asap").2 && of("asap").0 > of("truncate").0 + 10.0, "{rows:?}");
}
