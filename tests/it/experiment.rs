//! `asap experiment`: kills, a resumed table, and bad input.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Finished, Workplace};

const SMOKE: [&str; 6] = ["experiment", "--preset", "smoke", "--arms", "core", "--to"];

/// Starts an experiment and kills it as soon as a part of it is there.
fn killed_when(workplace: &Workplace, to: &str, part: &str) {
    let mut child = workplace.command([&SMOKE[..], &[to]].concat());
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let part = workplace.path(&format!("{to}/{part}"));
    while !part.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_experiment_ends_with_the_same_table() {
    let workplace = Workplace::new();
    let run = |to: &str, more: &[&str]| Finished::of(&mut workplace.command([&SMOKE[..], &[to], more].concat()));
    let whole = run("whole", &["--format", "json"]).json();
    // While the sample is written, which cannot resume, and while a model is trained.
    killed_when(&workplace, "again", "seed-1/sample");
    killed_when(&workplace, "again", "seed-1/models/core");
    let again = run("again", &["--format", "json"]);
    assert_eq!(again.json(), whole);
    assert!(!again.stderr.contains("asap sample"), "a complete part runs again: {}", again.stderr);
    let report = |to: &str| std::fs::read_to_string(workplace.path(&format!("{to}/report.md"))).unwrap();
    assert_eq!(report("again"), report("whole"));

    let lines = whole["lines"].as_array().unwrap();
    let arms: Vec<&str> = lines.iter().map(|line| line["arm"].as_str().unwrap()).collect();
    assert_eq!(arms, ["base", "core", "random", "block"]);
    for (line, role) in lines.iter().zip(["before training", "ceiling: needed steps", "control", "control"]) {
        assert_eq!((&line["role"], line["over_random"].is_null()), (&json!(role), role == "control"), "{line}");
        assert!(report("whole").contains(&format!("| {} | {role} |", line["arm"].as_str().unwrap())));
    }
    assert!(lines[0]["kept"].is_null() && lines[3]["kept"].as_f64().unwrap() <= 0.25);
    asks_as_it_trained(&workplace);
    the_commands_run_by_hand(&workplace);

    // Another experiment needs another folder, and a file in the way is named.
    run("whole", &["--share", "0.5"]).ends(2, &["share was 0.25, and is now 0.5", "choose a new folder"]);
    workplace.write("full/a.txt", "a");
    run("full", &[]).ends(2, &["full is not empty and holds no experiment"]);
    a_base_model_that_solves_too_little_is_refused(&workplace);
}

/// With the smoke experiment's base model, which learned nothing, the preset mini ends before any arm.
fn a_base_model_that_solves_too_little_is_refused(workplace: &Workplace) {
    let identity = std::fs::read_to_string(workplace.path("whole/experiment.json")).unwrap();
    workplace.write("whole/experiment.json", identity.replace("smoke", "mini"));
    let refused = workplace.run(["experiment", "--preset", "mini", "--seeds", "1", "--arms", "core", "--to", "whole"]);
    refused.ends(1, &["the base model of seed 1 solves 0.0 % of the held-out problems", "expected at least 60 %"]);
}

/// The evaluation asks held-out questions with the prompt of the training data, and none of them is in it.
fn asks_as_it_trained(workplace: &Workplace) {
    let rows = workplace.rows(
        "SELECT count(DISTINCT prompt) AS asked, count(DISTINCT substr(prompt, 1, 60)) AS kinds FROM (
            SELECT prompt FROM 'whole/seed-1/eval/core'
            UNION ALL SELECT question FROM 'whole/seed-1/data/concise.parquet'
            UNION ALL SELECT question FROM 'whole/seed-1/data/mixed.parquet'
            UNION ALL SELECT question FROM 'whole/seed-1/data/original.parquet')",
    );
    assert_eq!(rows, [json!({ "asked": 40 + 8 + 6, "kinds": 1 })]);
}

fn the_commands_run_by_hand(workplace: &Workplace) {
    let commands = std::fs::read_to_string(workplace.path("whole/commands.sh")).unwrap();
    let evaluation = commands.lines().find(|line| line.contains("eval/core ")).unwrap();
    let again = workplace.shell(&format!("cd whole && {evaluation} && cat parts/seed-1-eval-core.json"));
    let summary: Value = again.json();
    assert_eq!(summary["budgets"].as_array().unwrap().len(), 3, "{summary}");
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    let workplace = Workplace::empty();
    for (flags, expected) in [
        (["--arms", "spirt"], "there is no arm spirt (did you mean spirit?); the arms are base, original, core,"),
        (["--arms", "tokenskip"], "there is no arm tokenskip"),
        (["--share", "0"], "above 0 and at most 1"),
        (["--seeds", "0"], "--seeds"),
        (["--preset", "large"], "--preset"),
    ] {
        workplace.run([&["experiment", "--to", "out"], &flags[..]].concat()).ends(2, &[expected]);
        assert!(!workplace.path("out").exists());
    }
}

/// Little room is reported before the first part.
#[test]
fn a_small_disk_is_named() {
    let workplace = Workplace::empty();
    std::fs::create_dir(workplace.path("small")).unwrap();
    let script = "mount -t tmpfs -o size=8m tmpfs small && exec \"$0\" experiment --preset smoke --to small/out";
    let mut shell = std::process::Command::new("unshare");
    shell.args(["--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_asap")]);
    let finished = Finished::of(shell.current_dir(workplace.path("")));
    let finished = finished.ends(1, &["not enough disk: the experiment needs", "free in small/out"]);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
}
