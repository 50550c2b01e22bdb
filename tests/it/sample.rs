//! The sample corpus in `data/sample`: its command, and how well its words predict labels.

use std::path::Path;
use std::process::{Command, Output};

fn asap(arguments: &[&str]) -> Output {
    let root = env!("CARGO_MANIFEST_DIR");
    Command::new(env!("CARGO_BIN_EXE_asap")).current_dir(root).args(arguments).output().unwrap()
}

#[test]
fn the_sample_is_what_its_command_writes() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("sample");
    let output = asap(&["sample", "--rows", "2000", "--seed", "1", "--to", to.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["codeforces-cots.parquet", "openr1-math.parquet"] {
        let committed = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample").join(name)).unwrap();
        assert!(std::fs::read(to.join(name)).unwrap() == committed, "the bytes of {name} differ");
    }
    let again = asap(&["sample", "--rows", "10", "--to", to.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"));
}

#[test]
fn no_word_tells_a_label() {
    // Reading the steps also checks that each has a label.
    let output = asap(&["sample", "--cues", "data/sample"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{table}{}", String::from_utf8_lossy(&output.stderr));
    for label in ["core", "check", "dead_end", "filler"] {
        assert!(table.contains(&format!("\n{label} (")), "{table}");
    }
}

#[test]
fn any_labelled_corpus_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("traces");
    let to = traces.to_str().unwrap();
    assert!(asap(&["sample", "--rows", "60", "--openers", "real", "--to", to]).status.success());
    let output = asap(&["sample", "--cues", to, "--labels", "labels"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{table}{}", String::from_utf8_lossy(&output.stderr));
    assert!(table.contains("information on its function") && table.contains("(median of the 60 of 60"), "{table}");

    let lines = folder.path().join("needed.jsonl");
    let row = r#"{"question": "1 + 1?", "cot": "Okay.\n\nSo 2.", "answer": "2", "needed": [false, true]}"#;
    std::fs::write(&lines, format!("{row}\n")).unwrap();
    let lines = lines.to_str().unwrap();
    let output = asap(&["sample", "--cues", lines, "--labels", "needed"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("\ntrue (50.0 % of steps)"), "{table}{}", String::from_utf8_lossy(&output.stderr));
    let output = asap(&["sample", "--cues", lines]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no column labels"));
}
