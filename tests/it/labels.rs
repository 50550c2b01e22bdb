//! The kept steps of pipelines against the labels of generated traces. `UPDATE=1 cargo test --test it labels` writes them.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::common::{Workplace, check_numbers, root};
use serde_json::Value;

const SEEDS: [u32; 3] = [101, 102, 103];
const OPENERS: [&str; 2] = ["even", "real"];
const PIPELINES: [&str; 5] = ["asap", "without_anchor", "random", "truncate", "spirit"];
/// Pipelines whose model reads whole chains are measured only when the table is written, the others on each run.
const WRITTEN: [&str; 2] = ["without_anchor", "spirit"];
/// Small enough that stage 2 still has to drop steps after stage 1.
const BUDGET: &str = "asap.refine.max_tokens=256";

/// Runs a pipeline over all traces and returns the folder of its output.
fn prune(workplace: &Workplace, pipeline: &str) -> String {
    let output = format!("out/{pipeline}");
    assert_eq!(workplace.prune(pipeline, &output, &["--set", BUDGET]).json()["rows_rejected"], 0);
    output
}

struct Kept {
    /// The fraction of all tokens.
    tokens: f64,
    /// The fraction of the kept steps that are core.
    precision: f64,
    /// The fraction of the core steps that were kept.
    recall: f64,
}

type Figure = fn(&Kept) -> f64;

/// Returns the kept steps of each sample, by its folder.
fn measure(workplace: &Workplace, output: &str) -> BTreeMap<String, Kept> {
    let of_sample = "SELECT *, split_part(source['file'], '/', 1) AS sample FROM t";
    let sql = format!(
        "SELECT sample, label, count(*) AS steps, count(*) FILTER (WHERE step['dropped'] IS NULL) AS kept, \
         any_value(tokens) AS tokens FROM (SELECT sample, unnest(labels) AS label, unnest(steps) AS step, \
         sum(pruned_tokens) OVER (PARTITION BY sample) / sum(CAST(original_tokens AS DOUBLE)) OVER (PARTITION BY sample) \
         AS tokens FROM ({of_sample})) GROUP BY sample, label"
    );
    let mut samples: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in workplace.rows_of(output, &sql) {
        samples.entry(row["sample"].as_str().unwrap().to_string()).or_default().push(row);
    }
    let kept_of = |rows: Vec<Value>| {
        let all: f64 = rows.iter().map(|row| row["kept"].as_f64().unwrap()).sum();
        let core = rows.iter().find(|row| row["label"] == "core").unwrap();
        let [steps, kept] = ["steps", "kept"].map(|key| core[key].as_f64().unwrap());
        Kept { tokens: core["tokens"].as_f64().unwrap(), precision: kept / all, recall: kept / steps }
    };
    samples.into_iter().map(|(sample, rows)| (sample, kept_of(rows))).collect()
}

/// Returns the figures of the samples of some openers as table cells, and their recall.
fn cells(samples: &BTreeMap<String, Kept>, openers: &str) -> (String, f64) {
    let kept = SEEDS.map(|seed| &samples[&format!("{openers}-{seed}")]);
    let mean = |value: Figure| kept.iter().map(|kept| value(kept)).sum::<f64>() / kept.len() as f64;
    let half_range = |value: Figure| {
        let values = kept.iter().map(|kept| value(kept));
        (values.clone().fold(f64::MIN, f64::max) - values.fold(f64::MAX, f64::min)) / 2.0
    };
    let (precision, recall): (Figure, Figure) = (|kept| kept.precision, |kept| kept.recall);
    let cells = format!(
        " {:.3} | {:.2} | {:.2} | {:.2} | {:.2} |",
        mean(|kept| kept.tokens),
        mean(precision),
        half_range(precision),
        mean(recall),
        half_range(recall)
    );
    (cells, mean(recall))
}

fn held_line(pipeline: &str) -> String {
    let readme = std::fs::read_to_string(root().join("docs/evidence.md")).unwrap();
    let begins = format!("| `{pipeline}` |");
    let (_, section) = readme.split_once("<!-- labels").unwrap();
    section.lines().find(|line| line.starts_with(&begins)).unwrap().to_string() + "\n"
}

#[test]
fn asap_keeps_the_core_of_a_chain() {
    let workplace = Workplace::new();
    std::os::unix::fs::symlink(root().join("tests/traces/labelled"), workplace.path("in")).unwrap();
    let mut table = "| | even openers | | | | | real openers | | | | |\n|---|---|---|---|---|---|---|---|---|---|---|\n\
                     | pipeline | tokens kept | precision | ± | recall | ± | tokens kept | precision | ± | recall | ± |\n"
        .to_string();
    let mut recalls = BTreeMap::new();
    for pipeline in PIPELINES {
        if WRITTEN.contains(&pipeline) && std::env::var_os("UPDATE").is_none() {
            table.push_str(&held_line(pipeline));
            continue;
        }
        write!(table, "| `{pipeline}` |").unwrap();
        let samples = measure(&workplace, &prune(&workplace, pipeline));
        for openers in OPENERS {
            let (cells, recall) = cells(&samples, openers);
            table.push_str(&cells);
            recalls.insert((pipeline, openers), recall);
        }
        table.push('\n');
    }
    check_numbers("docs/evidence.md", "labels", &table, 0.02);
    for baseline in ["random", "truncate"] {
        for openers in OPENERS {
            assert!(recalls[&("asap", openers)] > recalls[&(baseline, openers)] + 0.1, "{table}");
        }
    }
}
