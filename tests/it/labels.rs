//! What pipelines keep, step by step, against what the generator knows of its traces: the front page's table and the
//! trace of the pipelines' README. `UPDATE=1 cargo test --test it labels` writes both.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::common::{Workplace, check_numbers, check_section};
use serde_json::Value;

const SEEDS: [u32; 3] = [101, 102, 103];
const OPENERS: [&str; 2] = ["even", "real"];
const ROWS: &str = "60";
/// The method and what it is held against are measured each time, the others, which read whole chains, when the table is
/// written.
const MEASURED: [&str; 5] = ["asap", "without_anchor", "without_surprisal", "random", "truncate"];
const WRITTEN: [&str; 3] = ["spirit", "step_entropy", "attribution"];
/// Small enough that stage 2 has work left after stage 1.
const BUDGET: &str = "asap.refine.max_tokens=256";

/// The rows of a query over the output of a run.
fn query(workplace: &Workplace, table: &str, sql: &str) -> Vec<Value> {
    let create = format!("CREATE EXTERNAL TABLE pruned STORED AS DELTATABLE LOCATION '{table}'");
    let finished = workplace.run(&["sql", "-q", "--format", "json", "-c", &create, "-c", sql]);
    finished.json().as_array().unwrap().clone()
}

/// Runs a pipeline over the traces of a seed and returns where its output lies.
fn prune(workplace: &Workplace, pipeline: &str, openers: &str, seed: u32) -> String {
    let (traces, output) = (format!("{openers}-{seed}"), format!("out/{pipeline}-{openers}-{seed}"));
    let run = ["run", pipeline, "--from", &traces, "--to", &output, "--set", BUDGET, "--format", "json"];
    assert_eq!(workplace.run(&run).json()["rows_rejected"], 0);
    output
}

/// What a pipeline kept of the traces of one seed.
struct Kept {
    /// The part of all tokens.
    tokens: f64,
    /// The part of the kept steps that is core.
    precision: f64,
    /// The part of the core that was kept.
    recall: f64,
}

/// A figure of what was kept.
type Figure = fn(&Kept) -> f64;

fn measure(workplace: &Workplace, output: &str) -> Kept {
    let sql = "SELECT label, count(*) AS steps, count(*) FILTER (WHERE step['dropped'] IS NULL) AS kept, \
               (SELECT sum(pruned_tokens) / sum(CAST(original_tokens AS DOUBLE)) FROM pruned) AS tokens \
               FROM (SELECT unnest(labels) AS label, unnest(steps) AS step FROM pruned) GROUP BY label";
    let rows = query(workplace, output, sql);
    let counts: BTreeMap<String, (f64, f64)> = rows
        .iter()
        .map(|row| {
            (row["label"].as_str().unwrap().into(), (row["steps"].as_f64().unwrap(), row["kept"].as_f64().unwrap()))
        })
        .collect();
    let all: f64 = counts.values().map(|(_, kept)| kept).sum();
    let (core, kept) = counts["core"];
    Kept { tokens: rows[0]["tokens"].as_f64().unwrap(), precision: kept / all, recall: kept / core }
}

/// The figures of a pipeline over the samples of some openers, as cells of the table, and its recall.
fn cells(workplace: &Workplace, pipeline: &str, openers: &str) -> (String, f64) {
    let kept = SEEDS.map(|seed| measure(workplace, &prune(workplace, pipeline, openers, seed)));
    let mean = |value: Figure| kept.iter().map(value).sum::<f64>() / kept.len() as f64;
    let half_range = |value: Figure| {
        let values = kept.iter().map(value);
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

/// The line of a pipeline as the README has it.
fn held_line(pipeline: &str) -> String {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let begins = format!("| `{pipeline}` |");
    readme.lines().find(|line| line.starts_with(&begins)).unwrap().to_string() + "\n"
}

#[test]
fn asap_keeps_the_core_of_a_chain() {
    let workplace = Workplace::new();
    for openers in OPENERS {
        for seed in SEEDS.map(|seed| seed.to_string()) {
            let to = format!("{openers}-{seed}");
            workplace.run(&["sample", "--rows", ROWS, "--seed", &seed, "--openers", openers, "--to", &to]).ok();
        }
    }
    let mut table = "| | even openers | | | | | real openers | | | | |\n|---|---|---|---|---|---|---|---|---|---|---|\n\
                     | pipeline | tokens kept | precision | ± | recall | ± | tokens kept | precision | ± | recall | ± |\n"
        .to_string();
    let mut recalls = BTreeMap::new();
    for pipeline in MEASURED.into_iter().chain(WRITTEN) {
        if WRITTEN.contains(&pipeline) && std::env::var_os("UPDATE").is_none() {
            table.push_str(&held_line(pipeline));
            continue;
        }
        write!(table, "| `{pipeline}` |").unwrap();
        for openers in OPENERS {
            let (cells, recall) = cells(&workplace, pipeline, openers);
            table.push_str(&cells);
            recalls.insert((pipeline, openers), recall);
        }
        table.push('\n');
    }
    check_numbers("README.md", "labels", &table, 0.02);
    for baseline in ["random", "truncate"] {
        for openers in OPENERS {
            assert!(recalls[&("asap", openers)] > recalls[&(baseline, openers)] + 0.1, "{table}");
        }
    }
    check_trace(&workplace);
}

/// The shortest trace of 12 steps or more that lost some in both stages and kept some.
fn check_trace(workplace: &Workplace) {
    let steps = "WITH flat AS (\
           SELECT id, unnest(steps) AS step, unnest(labels) AS label, unnest(cot_steps(original_cot)) AS text FROM pruned \
           WHERE source['file'] LIKE '%math%'), \
         staged AS (SELECT id, step['step'] AS step, coalesce(step['dropped'], 'kept') AS stage, label, text FROM flat), \
         chosen AS (SELECT id FROM staged GROUP BY id HAVING count(DISTINCT stage) = 3 AND count(*) >= 12 ORDER BY count(*), id LIMIT 1) \
         SELECT stage, label, text FROM staged WHERE id IN (SELECT id FROM chosen) ORDER BY step";
    let line = |row: &Value| {
        let [stage, label, text] = ["stage", "label", "text"].map(|key| row[key].as_str().unwrap());
        let indented = text.replace('\n', &format!("\n{:21}", ""));
        format!("{stage:<11}{label:<10}{indented}\n")
    };
    let lines: String = query(workplace, "out/asap-even-101", steps).iter().map(line).collect();
    check_section("pipelines/README.md", "trace", &format!("```text\n{lines}```\n"));
}
