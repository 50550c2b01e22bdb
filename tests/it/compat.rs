//! What earlier versions wrote. Each folder of `tests/compat` is a set that `.ci/compat` made with the program of a version.
//! Its `refused.txt` has what this version refuses: lines `STEP: ERROR | SENTENCE`, with a sentence of the changelog.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use datafusion::arrow::ipc::reader::StreamReader;
use serde_json::Value;

use crate::common::{Workplace, files_below, json_lines, root};
use crate::runs::place::wait_until;
use crate::schedule::Scheduler;

/// At this address, no one answers.
const NOBODY: &str = "http://127.0.0.1:9/v1";

struct Set {
    workplace: Workplace,
    refused: BTreeMap<String, String>,
}

/// A copy of each set.
fn sets() -> Vec<Set> {
    let folders = root().join("tests/compat").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let sets: Vec<Set> = folders.filter(|folder| folder.is_dir()).map(|folder| Set::of(&folder)).collect();
    assert!(!sets.is_empty());
    sets
}

impl Set {
    fn of(folder: &Path) -> Self {
        let workplace = Workplace::empty();
        workplace.shell(&format!("cp -r {}/. .", folder.display())).ok();
        let refused = fs::read_to_string(folder.join("refused.txt")).unwrap_or_default();
        let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
        let changelog = changelog.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = |line: &str| {
            let (step, sentences) = line.split_once(": ").unwrap();
            let (error, of_changelog) = sentences.split_once(" | ").unwrap();
            assert!(changelog.contains(of_changelog), "the changelog does not say: {of_changelog}");
            (step.to_string(), error.to_string())
        };
        Self { workplace, refused: refused.lines().map(line).collect() }
    }

    /// Runs a command. Returns whether it succeeds; otherwise it is refused with the error of the set.
    #[track_caller]
    fn does(&self, step: &str, command: &str) -> bool {
        let finished = self.workplace.run(command.split(' '));
        let Some(error) = self.refused.get(step) else {
            finished.ok();
            return true;
        };
        finished.ends_in(&[1, 2], &[error]);
        false
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.workplace.path(file)).unwrap()
    }
}

#[test]
fn tables_of_earlier_versions_are_read() {
    for Set { workplace, .. } in sets() {
        for file in workplace.path("rows").read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            let table = file.file_stem().unwrap().to_str().unwrap().replace('-', "/");
            let order = if table == "eval" { "id" } else { "source['row']" };
            let rows = workplace.rows(&format!("SELECT * FROM '{table}' ORDER BY {order}"));
            assert_eq!(rows, json_lines(&fs::read_to_string(file).unwrap()), "{table}");
        }
        for command in ["table verify", "table status", "table history", "inspect", "view --to report.md"] {
            workplace.run(command.split(' ').chain(["whole"])).ok();
        }
        let sql = ["sql", "-q", "--from", "whole", "--format", "csv", "-c", "SELECT count(cot) AS rows FROM corpus"];
        assert_eq!(workplace.run(sql).ok(), "rows\n3\n");
    }
}

#[test]
fn outputs_of_earlier_versions_are_resumed() {
    for set in sets() {
        let resume = "run truncate --from in --to part";
        if !set.does("resume", resume) {
            set.workplace.run(format!("{resume} --new-generation").split(' ')).ok();
        }
        set.workplace.run(["table", "verify", "part"]).ok();
        let rows =
            "SELECT (SELECT count(*) FROM 'part') AS rows, (SELECT count(*) FROM 'part/.asap/rejects') AS rejects";
        assert_eq!(set.workplace.csv(&[rows]), "rows,rejects\n3,1\n");
    }
}

#[test]
fn answers_that_earlier_versions_paid_are_not_paid_again() {
    for Set { workplace, .. } in sets() {
        let run = "run asap --from in --to whole --new-generation --format json";
        let summary = workplace.run(run.split(' ')).json();
        assert_eq!((&summary["anchor"]["calls"], &summary["rows_out"]), (&0.into(), &3.into()), "{summary}");
        let held = json_lines(&fs::read_to_string(workplace.path("rows/whole.jsonl")).unwrap());
        let anchors = |rows: &[Value]| rows.iter().map(|row| row["anchor"].clone()).collect::<Vec<_>>();
        let now = workplace.rows("SELECT * FROM 'whole' ORDER BY source['row']");
        assert_eq!(anchors(&now), anchors(&held));
    }
}

#[test]
fn outputs_of_earlier_versions_are_exported() {
    for Set { workplace, .. } in sets() {
        workplace.run(["export", "whole", "--to", "new"]).ok();
        assert_eq!(workplace.csv(&["SELECT count(*) AS rows FROM 'new'"]), "rows\n3\n");
    }
}

#[test]
fn feeds_resume_after_positions_of_earlier_versions() {
    for set in sets() {
        let feed = format!("feed --data whole --model small --step 1 --resume {}", set.text("position.txt"));
        if set.does("feed", &format!("{feed} --count")) {
            let stream = set.workplace.command(feed.split(' ')).output().unwrap().stdout;
            assert_eq!(StreamReader::try_new(stream.as_slice(), None).unwrap().count(), 2);
        }
    }
}

#[test]
fn jobs_and_their_state_of_earlier_versions_are_taken_up() {
    for set in sets() {
        let workplace = &set.workplace;
        workplace.run(["schedule", "jobs.toml", "--check"]).ok();
        // The name of the state depends on the place of the jobs file.
        let folder = workplace.path("state/asap/schedule");
        let state = || files_below(&folder).into_iter().find(|file| file.ends_with(".json"));
        let jobs = set.text("jobs.toml");
        workplace.write("jobs.toml", jobs.replace("* * * * *", "0 0 1 1 *"));
        let scheduler = Scheduler::start(workplace);
        wait_until("the state", || state().is_some());
        scheduler.stop();
        workplace.write("jobs.toml", &jobs);
        fs::copy(workplace.path("state.json"), folder.join(state().unwrap())).unwrap();
        // A run that was missed since then starts at once.
        let report = Scheduler::start(workplace).report();
        assert_eq!((&report["job"], &report["code"]), (&"minute".into(), &0.into()), "{report}");
    }
}

#[test]
fn evaluations_of_earlier_versions_are_compared_and_graded_again() {
    for set in sets() {
        let workplace = &set.workplace;
        workplace.run(["eval", "--table", "earlier=eval"]).ok();
        workplace.run(["eval", "--compare", "eval", "eval"]).ok();
        let again = format!("eval --bench gsm8k --data problems.jsonl --endpoint {NOBODY} --model m --to eval");
        if set.does("grade", &again) {
            let rows = workplace.rows("SELECT * FROM 'eval' ORDER BY id");
            assert_eq!(rows.len(), json_lines(&set.text("rows/eval.jsonl")).len());
        }
    }
}
