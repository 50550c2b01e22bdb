//! Walks as by Python's difflib, exact to the last bit. `tests/slt/goldens.slt` compares the other values.

use asap_kernels::gestalt::Gestalt;
use asap_kernels::matching::walk;
use asap_kernels::steps::strip;
use serde::Deserialize;

use crate::tests::functions::session::golden_path;

/// Two chains and the walk of Algorithm 1, with and without autojunk; indices from 0.
#[derive(Deserialize)]
struct Chains {
    original: String,
    coarse: String,
    tau: f64,
    difflib: Walked,
    plain: Walked,
}

#[derive(Deserialize)]
struct Walked {
    matches: Vec<usize>,
    /// In Python's format.
    similarities: Vec<String>,
    failed: Option<usize>,
}

fn sections(chain: &str) -> Vec<&str> {
    strip(chain).split("\n\n").map(strip).collect()
}

#[test]
fn walks_are_identical() {
    let text = std::fs::read_to_string(golden_path("walks.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 200);
    for (row, line) in text.lines().enumerate() {
        let Chains { original, coarse, tau, difflib, plain } = serde_json::from_str(line).unwrap();
        for (autojunk, expected) in [(false, plain), (true, difflib)] {
            let found = walk(&mut Gestalt::new(autojunk), &sections(&original), &sections(&coarse), tau);
            let (indices, similarities): (Vec<_>, Vec<_>) =
                found.matches.iter().map(|found| (found.step, found.similarity)).unzip();
            assert_eq!((indices, found.failed), (expected.matches, expected.failed), "row {row}");
            let expected = expected.similarities.iter().map(|text| text.parse().unwrap());
            assert_eq!(similarities, expected.collect::<Vec<f64>>(), "row {row}");
        }
    }
}
