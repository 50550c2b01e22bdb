//! The sample corpus in `data/sample`: what made it, and what its words give away.

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
        assert!(std::fs::read(to.join(name)).unwrap() == committed, "{name} has other bytes");
    }
    let again = asap(&["sample", "--rows", "10", "--to", to.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"));
}

#[test]
fn no_word_tells_a_label() {
    // Reading the steps also proves that each has its label.
    let output = asap(&["sample", "--cues", "data/sample"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{table}{}", String::from_utf8_lossy(&output.stderr));
    for label in ["core", "check", "dead_end", "filler"] {
        assert!(table.contains(&format!("\n{label} (")), "{table}");
    }
}
