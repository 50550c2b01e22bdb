//! `pipelines/sql/tokenskip.sql` against the rows of the published code.

use std::fs;

use crate::common::{Workplace, json_lines, root};
use serde_json::{Value, json};

/// One token per match of `\w{1,4}|[^\w\s]`, which is the weight of a word in the goldens.
fn tokenizer() -> Value {
    let matches = json!({"type": "Split", "pattern": {"Regex": r"[\p{L}\p{N}_]{1,4}|[^\p{L}\p{N}_\s]"},
        "behavior": "Removed", "invert": true});
    json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": matches, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}})
}

#[test]
fn rows_are_those_of_the_published_code_but_for_their_answers_unless_those_are_asked_for_too() {
    let goldens = json_lines(&fs::read_to_string(root().join("tests/goldens/tokenskip.jsonl")).unwrap());
    let workplace = Workplace::new();
    let row = |row: &Value| json!({"id": row["id"].to_string(), "question": row["question"], "cot": row["cot"], "answer": row["answer"]});
    let mut rows: String = goldens.iter().map(|golden| format!("{}\n", row(golden))).collect();
    // The published code knows no programs: they stay as they are.
    let program = "So:\n```python\nprint(2 + 3)\n```";
    let code = json!({"id": "code", "question": goldens[0]["question"], "cot": goldens[0]["cot"], "answer": program});
    rows.push_str(&code.to_string());
    workplace.write("chains.jsonl", rows);
    workplace.write("words/tokenizer.json", tokenizer().to_string());

    // The published code draws with Python's generator, the pipeline with a hash of the row. The test uses the draws of
    // the goldens.
    let pipeline = fs::read_to_string(root().join("pipelines/sql/tokenskip.sql")).unwrap();
    let (before, rest) = pipeline.split_once("['1.0', '0.9',").unwrap();
    let (_, after) = rest.split_once(" AS gamma").unwrap();
    let drawn =
        goldens.iter().map(|golden| format!(" WHEN '{}' THEN '{:?}'", golden["id"], golden["gamma"].as_f64().unwrap()));
    let drawn = drawn.collect::<String>();
    workplace.write("given.sql", format!("{before}CASE id{drawn} ELSE '0.5' END AS gamma{after}"));

    let encoder = root().join("tests/goldens/llmlingua2/xlm-roberta-large-tiny");
    let encoder = format!("asap.compressor.model={}", encoder.display());
    let run = ["sql", "-q", "--from", "chains.jsonl", "-f", "given.sql", "--format", "nd-json"];
    let settings = ["--set", &encoder, "--set", "asap.scorer.model=words"];
    let found = ["original", "sentence"].map(|answer| {
        let answer = format!("asap.tokenskip.answer={answer}");
        json_lines(workplace.run([&run[..], &settings[..], &["--set", &answer]].concat()).ok())
    });
    assert_eq!(found.each_ref().map(Vec::len), [goldens.len() + 1; 2]);
    assert!(found.iter().flatten().filter(|row| row["id"] == "code").all(|row| row["answer"] == program));
    for golden in &goldens {
        let id = golden["id"].to_string();
        let [original, row] = found.each_ref().map(|rows| rows.iter().find(|row| row["id"] == id.as_str()).unwrap());
        let content = |column: &str| &row[column][0]["content"];
        assert_eq!((content("prompt"), content("completion")), (&golden["input"], &golden["output"]), "{row}");
        // A trainer that reads these columns trains on the same question, chain and answer.
        let output = |row: &Value| format!("{}\n\n{}", row["cot"].as_str().unwrap(), row["answer"].as_str().unwrap());
        assert_eq!((&row["question"], &Value::from(output(row))), (&golden["input"], &golden["output"]), "{row}");
        assert_eq!([&original["question"], &original["cot"]], [&row["question"], &row["cot"]]);
        assert_eq!(original["answer"], golden["answer"]);
        assert_eq!(original["completion"][0]["content"], output(original));
    }
}
