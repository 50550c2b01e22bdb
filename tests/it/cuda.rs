//! A run on a GPU, or on the emulated one of `tests/cuda`, whose folder LD_LIBRARY_PATH names.

use serde_json::{Value, json};

use crate::common::{Finished, Workplace};

const AUTO: &str = "asap.scorer.backend = auto chose cuda";

fn run(workplace: &Workplace, more: &[&str]) -> Finished {
    let model = ["--set", "asap.scorer.model=tests/goldens/qwen2"];
    workplace.prune("without_anchor", "out", &[&model, more].concat())
}

#[test]
fn scores_land_on_the_card_whatever_their_dtype_and_an_output_stays_there() {
    let workplace = Workplace::new();
    workplace.traces(1, 2, "in");
    let card = json!({"backend": "cuda", "device": "cuda:0", "dtype": "f16"});
    let cpu = json!({"backend": "cpu", "device": "cpu", "dtype": "bf16"});
    let [bf16, f32] = ["bf16", "f32"].map(|dtype| format!("asap.scorer.dtype={dtype}"));
    let instead = |dtype: &str| format!("asap.scorer.dtype = {dtype}: asap's engine computes in f16 on GPUs");
    let cases: [(&[&str], &Value, &[&str]); 5] = [
        (&[], &card, &[AUTO]),
        (&["--set", &bf16], &card, &[AUTO, &instead("bf16")]),
        (&["--set", &f32], &card, &[AUTO, &instead("f32")]),
        (&["--set", &f32, "--set", "asap.scorer.device=cuda:0"], &card, &[&instead("f32")]),
        (&["--set", &bf16, "--set", "asap.scorer.device=cpu"], &cpu, &[]),
    ];
    for (given, place, said) in cases {
        let dry = run(&workplace, &[&["--dry-run"], given].concat());
        assert_eq!(dry.json()["scorer"], *place, "{given:?}");
        let warned: Vec<&str> = dry.stderr.lines().filter(|line| line.contains("asap.scorer.")).collect();
        assert_eq!(warned.len(), said.len(), "{given:?}: {warned:?}");
        assert!(warned.iter().zip(said).all(|(line, said)| line.contains(said)), "{given:?}: {warned:?}");
    }
    assert!(!workplace.path("out").exists());

    assert_eq!(run(&workplace, &["--set", &bf16]).json()["rows_out"], 2);
    let status = workplace.run(["table", "status", "out"]);
    assert!(status.ok().contains("asap.scorer.backend = cuda"), "{}", status.stdout);
    workplace.traces(1, 4, "in");
    let refused = run(&workplace, &["--on-change", "reprocess", "--set", "asap.scorer.device=cpu"]);
    refused.ends(1, &["asap.scorer.backend ('cuda' there, 'cpu' here)"]);
    assert_eq!(run(&workplace, &["--on-change", "reprocess"]).json()["rows_out"], 4);
}
