//! Output of the command line: help, summaries, errors. `INSTA_UPDATE=always cargo test --test it cli` writes the
//! snapshots.

use crate::common::Workplace;

/// Masks seconds, which differ between runs, and removes the line that a slow command prints.
fn timeless(text: &str) -> String {
    let text = regex::Regex::new(r"(?m)^opening .*: [0-9]+ s\n").unwrap().replace_all(text, "");
    regex::Regex::new(r"[0-9]+\.[0-9] s").unwrap().replace_all(&text, "0.0 s").into_owned()
}

/// The help of a command without the flags that most commands have.
fn own_flags(help: &str) -> String {
    let common =
        ["--quiet", "--verbose", "--log <", "--wide", "--format <", "--set <", "--config <", "--help", "--version"];
    let (mut kept, mut is_common) = (String::new(), false);
    for line in help.lines() {
        let text = line.trim_start();
        match line.len() - text.len() {
            2 | 6 if text.starts_with('-') => is_common = common.iter().any(|flag| text.contains(flag)),
            0 | 2 if !text.is_empty() => is_common = false,
            _ => {}
        }
        if !is_common {
            kept += &format!("{line}\n");
        }
    }
    kept
}

#[test]
fn help_teaches_by_example() {
    let workplace = Workplace::new();
    let commands = ["inspect", "model", "view", "run", "sql", "table", "table vacuum", "schedule", "train"];
    let helps = commands.map(|command| own_flags(&workplace.transcript(&[&format!("asap {command} --help")])));
    insta::assert_snapshot!(workplace.transcript(&["asap --help"]) + &helps.concat());
}

#[test]
fn an_inspection_shows_what_is_read() {
    let workplace = Workplace::new();
    workplace.traces(7, 4, "traces");
    let shown = workplace.transcript(&["cd traces && asap inspect openr1-math.parquet --rows 1"]);
    let folder = regex::Regex::new(r"/[^ ]*/traces/").unwrap();
    insta::assert_snapshot!(folder.replace_all(&shown, "…/traces/"));
}

#[test]
fn a_run_and_its_repetition() {
    let run = "asap run pipelines/sql/without_surprisal.sql --from traces --to out";
    let workplace = Workplace::new();
    workplace.traces(7, 20, "traces");
    insta::assert_snapshot!(timeless(&workplace.transcript(&[run, run])));
}

#[test]
fn rejects_are_counted_by_reason() {
    let traces = "COPY (SELECT * FROM (VALUES ('q1', 'one step', 'a'), ('q2', '', 'a'), (NULL, 'one step', 'a'), \
                  ('q4', 'one step', NULL)) AS t (question, cot, answer)) TO 'in/traces.parquet'";
    let run = "asap run pipelines/sql/truncate.sql --from in --to out";
    let commands = ["mkdir in", &format!("asap sql -q -c \"{traces}\""), run];
    insta::assert_snapshot!(timeless(&Workplace::new().transcript(&commands)));
}

#[test]
fn errors_say_what_to_do() {
    let commands: Vec<&str> = include_str!("errors.txt").lines().collect();
    insta::assert_snapshot!(Workplace::new().transcript(&commands));
}
