//! The sample corpus in `data/sample`: its command, and how well its words predict labels.

use crate::common::{Workplace, root};

#[test]
fn the_sample_is_what_its_command_writes() {
    let workplace = Workplace::new();
    workplace.run(["sample", "--rows", "2000", "--seed", "1", "--to", "sample"]).ok();
    for name in ["codeforces-cots.parquet", "openr1-math.parquet"] {
        let committed = std::fs::read(root().join("data/sample").join(name)).unwrap();
        assert!(std::fs::read(workplace.path("sample").join(name)).unwrap() == committed, "the bytes of {name} differ");
    }
    workplace.run(["sample", "--rows", "10", "--to", "sample"]).ends(2, &["is not empty"]);
}

#[test]
fn no_word_tells_a_label() {
    // Reading the steps also checks that each has a label.
    let table = Workplace::new().run(["sample", "--cues", "data/sample"]);
    for label in ["core", "check", "dead_end", "filler"] {
        assert!(table.ok().contains(&format!("\n{label} (")), "{}", table.stdout);
    }
}

#[test]
fn any_labelled_corpus_is_judged() {
    let workplace = Workplace::new();
    workplace.run(["sample", "--rows", "60", "--openers", "real", "--to", "traces"]).ok();
    let table = workplace.run(["sample", "--cues", "traces", "--labels", "labels"]);
    for said in ["information on its function", "(median of the 60 of 60"] {
        assert!(table.ok().contains(said), "{said}: {}", table.stdout);
    }
    let row = r#"{"question": "1 + 1?", "cot": "Okay.\n\nSo 2.", "answer": "2", "needed": [false, true]}"#;
    workplace.write("needed.jsonl", format!("{row}\n"));
    let table = workplace.run(["sample", "--cues", "needed.jsonl", "--labels", "needed"]);
    assert!(table.stdout.contains("\ntrue (50.0 % of steps)"), "{table:?}");
    workplace.run(["sample", "--cues", "needed.jsonl"]).ends(2, &["has no column labels"]);
}
