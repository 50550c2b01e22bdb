//! What each pipeline keeps, step by step, against what the generator knows of its traces: the README's table by label
//! and its trace. `UPDATE=1 cargo test --test it labels` writes both.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::common::{Workplace, check_numbers, check_section};
use serde_json::Value;

const SEEDS: [u32; 3] = [101, 102, 103];
const ROWS: &str = "100";
const PIPELINES: [&str; 5] = ["asap", "without_anchor", "without_surprisal", "random", "truncate"];
const LABELS: [&str; 4] = ["core", "check", "dead_end", "filler"];
/// Small enough that stage 2 has work left after stage 1.
const BUDGET: &str = "asap.refine.max_tokens=256";

/// The rows of a query over the output of a run.
fn query(workplace: &Workplace, table: &str, sql: &str) -> Vec<Value> {
    let create = format!("CREATE EXTERNAL TABLE pruned STORED AS DELTATABLE LOCATION '{table}'");
    let finished = workplace.run(&["sql", "-q", "--format", "json", "-c", &create, "-c", sql]);
    finished.json().as_array().unwrap().clone()
}

/// Runs a pipeline over the traces of a seed and returns where its output lies.
fn prune(workplace: &Workplace, pipeline: &str, seed: u32) -> String {
    let (file, output) = (format!("pipelines/sql/{pipeline}.sql"), format!("out/{pipeline}-{seed}"));
    let run = ["run", &file, "--from", &seed.to_string(), "--to", &output, "--set", BUDGET, "--format", "json"];
    assert_eq!(workplace.run(&run).json()["rows_rejected"], 0);
    output
}

/// What a pipeline kept of the traces of one seed.
struct Kept {
    /// The part of all tokens.
    tokens: f64,
    /// Of each label: the part of the kept steps that bear it, and the part of its steps that were kept.
    labels: Vec<(f64, f64)>,
}

fn measure(workplace: &Workplace, output: &str) -> Kept {
    let tokens = "SELECT sum(pruned_tokens) / sum(CAST(original_tokens AS DOUBLE)) AS part FROM pruned";
    let steps = "SELECT label, count(*) AS steps, count(*) FILTER (WHERE step['dropped'] IS NULL) AS kept \
                 FROM (SELECT unnest(labels) AS label, unnest(steps) AS step FROM pruned) GROUP BY label";
    let counts: BTreeMap<String, (f64, f64)> = query(workplace, output, steps)
        .iter()
        .map(|row| {
            (row["label"].as_str().unwrap().into(), (row["steps"].as_f64().unwrap(), row["kept"].as_f64().unwrap()))
        })
        .collect();
    let all: f64 = counts.values().map(|(_, kept)| kept).sum();
    let of = |label: &&str| {
        let (steps, kept) = counts[*label];
        (kept / all, kept / steps)
    };
    Kept {
        tokens: query(workplace, output, tokens)[0]["part"].as_f64().unwrap(),
        labels: LABELS.iter().map(of).collect(),
    }
}

#[test]
fn asap_keeps_the_core_of_a_chain() {
    let workplace = Workplace::new();
    for seed in SEEDS.map(|seed| seed.to_string()) {
        workplace.run(&["sample", "--rows", ROWS, "--seed", &seed, "--to", &seed]).ok();
    }
    let mut table = "| pipeline | tokens kept | core | ± | check | dead end | filler |\n".to_string();
    table.push_str("|---|---|---|---|---|---|---|\n");
    let mut core_recalls = BTreeMap::new();
    for pipeline in PIPELINES {
        let kept = SEEDS.map(|seed| measure(&workplace, &prune(&workplace, pipeline, seed)));
        let mean = |value: &dyn Fn(&Kept) -> f64| kept.iter().map(value).sum::<f64>() / kept.len() as f64;
        let core = kept.iter().map(|kept| kept.labels[0].1);
        let spread = core.clone().fold(0.0, f64::max) - core.fold(1.0, f64::min);
        write!(table, "| `{pipeline}` | {:.3} ", mean(&|kept| kept.tokens)).unwrap();
        for label in 0..LABELS.len() {
            let [precision, recall] = [mean(&|kept| kept.labels[label].0), mean(&|kept| kept.labels[label].1)];
            write!(table, "| {precision:.2} / {recall:.2} ").unwrap();
            if label == 0 {
                write!(table, "| {:.2} ", spread / 2.0).unwrap();
            }
        }
        table.push_str("|\n");
        core_recalls.insert(pipeline, mean(&|kept| kept.labels[0].1));
    }
    check_numbers("labels", &table, 0.02);
    for baseline in ["random", "truncate"] {
        assert!(core_recalls["asap"] > core_recalls[baseline] + 0.1, "{table}");
    }
    check_trace(&workplace);
}

/// The shortest trace of 12 steps or more that lost some in both stages and kept some.
fn check_trace(workplace: &Workplace) {
    let steps = "WITH flat AS (\
           SELECT id, unnest(steps) AS step, unnest(cot_steps(original_cot)) AS text FROM pruned \
           WHERE source['file'] LIKE '%math%'), \
         staged AS (SELECT id, step['step'] AS step, coalesce(step['dropped'], 'kept') AS stage, text FROM flat), \
         chosen AS (SELECT id FROM staged GROUP BY id HAVING count(DISTINCT stage) = 3 AND count(*) >= 12 ORDER BY count(*), id LIMIT 1) \
         SELECT stage, text FROM staged WHERE id IN (SELECT id FROM chosen) ORDER BY step";
    let indented = |row: &Value, key: &str| row[key].as_str().unwrap().replace('\n', "\n           ");
    let line = |row: &Value| format!("{:<11}{}\n", indented(row, "stage"), indented(row, "text"));
    let lines: String = query(workplace, "out/asap-101", steps).iter().map(line).collect();
    check_section("trace", &format!("```text\n{lines}```\n"));
}
