//! The steps that anchoring without a language model keeps of labelled traces.

use std::collections::BTreeMap;

use asap_kernels::extractive;
use serde_json::Value;

use crate::common::{Workplace, root};

const ROWS: &str = "SELECT id, question, cot_steps(cot) AS steps, answer, labels FROM corpus WHERE source['row'] < 200";

/// Labelled rows of the sample, from both of its files.
fn rows() -> Vec<Value> {
    let sample = root().join("data/sample").display().to_string();
    let printed = Workplace::empty().run(["sql", "-q", "--format", "nd-json", "--from", &sample, "-c", ROWS]);
    crate::common::json_lines(printed.ok())
}

fn texts<'a>(row: &'a Value, column: &str) -> Vec<&'a str> {
    row[column].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// The direct thought of a row, and the steps that it needs.
fn anchored(row: &Value) -> (String, Vec<usize>) {
    let [question, answer] = ["question", "answer"].map(|column| row[column].as_str().unwrap());
    let thought = extractive::write(question, answer).unwrap();
    let kept = extractive::core(&texts(row, "steps"), &thought);
    (thought, kept)
}

#[test]
fn the_core_of_a_trace_is_kept() {
    // For each label, the number of steps and of kept steps.
    let mut steps: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for row in rows() {
        let kept = anchored(&row).1;
        for (step, label) in texts(&row, "labels").into_iter().enumerate() {
            let [all, kept_of_label] = steps.entry(label.to_string()).or_default();
            *all += 1;
            *kept_of_label += usize::from(kept.contains(&step));
        }
    }
    let recall = |label: &str| steps[label][1] as f64 / steps[label][0] as f64;
    let kept: usize = steps.values().map(|[_, kept]| kept).sum();
    assert!(recall("core") >= 0.9, "{steps:?}");
    assert!(steps["core"][1] as f64 / kept as f64 >= 0.7, "{steps:?}");
    for label in ["check", "dead_end", "filler"] {
        assert!(recall(label) <= 0.25, "{label} {steps:?}");
    }
}

#[test]
fn the_same_row_gives_the_same_every_time() {
    for row in rows().iter().take(200) {
        // Every hash map has a different seed, so one process reveals a dependence on iteration order.
        let first = anchored(row);
        for _ in 0..20 {
            assert_eq!(anchored(row), first, "{}", row["id"]);
        }
    }
}
