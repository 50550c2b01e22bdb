//! The first steps of a new user outside of the project's folder. `cases` has more of them.

use std::fs;

use crate::common::{Workplace, root};

/// Pipelines that fit steps to a budget must not keep a heading alone, or nothing because of one long step.
#[test]
fn headings_stay_with_what_they_announce_and_a_long_step_takes_no_other_along() {
    let elsewhere = Workplace::empty();
    let equations = (2..8).map(|n| format!("So:\\n\\n{n} * 9 = {}, and the rest is as before.", n * 9));
    let long = "then and ".repeat(90);
    let chain = [long, equations.collect::<Vec<_>>().join("\\n\\n"), "That is 63.".to_string()].join("\\n\\n");
    elsewhere.write("traces.jsonl", format!(r#"{{"question": "What is 7 * 9?", "cot": "{chain}", "answer": "63"}}"#));
    let steps = |name: &str| {
        elsewhere.run(["run", name, "--from", "traces.jsonl", "--to", name, "--max-tokens", "80"]).ok();
        let rows = elsewhere.rows_of(name, "SELECT unnest(cot_steps(cot)) AS step FROM t");
        rows.iter().map(|row| row["step"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let kept = steps("perplexity_and_self_information");
    assert!(kept.len() > 3 && kept.len() < 14, "{kept:?}");
    for (place, step) in kept.iter().enumerate() {
        assert!(step != "So:" || kept[place + 1].contains(" * 9 = "), "{kept:?}");
        assert!(!step.contains(" * 9 = ") || kept[place - 1] == "So:", "{kept:?}");
    }
    assert_eq!(kept.last().map(String::as_str), Some("That is 63."));
    for name in ["asap", "without_anchor", "stage1_random"] {
        let kept = steps(name);
        assert!(!kept.is_empty() && kept.iter().all(|step| !step.starts_with("then")), "{name}: {kept:?}");
    }
}

#[test]
fn a_model_says_what_it_is_and_how_fast() {
    let elsewhere = Workplace::empty();
    let small = elsewhere.run(["model", "small", "--format", "json", "--tokens", "1000000"]).json();
    assert_eq!((&small["family"], &small["vocabulary"]), (&"Qwen2".into(), &2432.into()));
    assert!(small["prompt"].as_str().unwrap().contains("What is 17 + 25?"), "{small}");
    let [speed, seconds] = ["tokens_per_second", "corpus_seconds"].map(|key| small[key].as_f64().unwrap());
    assert!(speed > 0.0 && (seconds * speed - 1e6).abs() < 1.0, "{small}");
    // Chains have the lengths of a corpus of reasoning models, or of the given corpus.
    let about =
        |found: &serde_json::Value, tokens: u64| found["row_tokens"].as_u64().unwrap().abs_diff(tokens) * 8 < tokens;
    assert!(about(&small, 4096), "{small}");
    let chains = [10, 30].map(|steps| "So 1 + 1 = 2, and that is that.\\n\\n".repeat(steps));
    let rows = chains.map(|cot| format!(r#"{{"question": "q", "cot": "{cot}", "answer": "2"}}"#));
    elsewhere.write("chains.jsonl", rows.join("\n"));
    let of_corpus = elsewhere.run(["model", "small", "--format", "json", "--from", "chains.jsonl"]).json();
    let tokens = of_corpus["corpus_tokens"].as_u64().unwrap();
    assert!((300..1200).contains(&tokens) && about(&of_corpus, tokens / 2), "{of_corpus}");
    let weights = fs::metadata(root().join("data/model/model.safetensors")).unwrap().len();
    assert!(small["bytes_f32"].as_u64().unwrap().abs_diff(weights) < 8192, "{small} {weights}");
    // Windows that fit some steps, and none.
    for (window, fits) in [(200, true), (8, false)] {
        let folder = format!("./window-{window}");
        elsewhere.copy_model("tests/goldens/qwen2", &folder, "max_position_embeddings", window);
        let printed = elsewhere.run(["model", &folder, "--format", "json"]);
        match fits {
            true => assert!(printed.json()["row_tokens"].as_u64().unwrap() <= window, "{printed:?}"),
            false => assert!(printed.code == 1 && printed.stderr.contains("its window of 8 tokens"), "{printed:?}"),
        }
    }
    elsewhere.run(["model", "org/absent"]).ends(2, &["hf download org/absent"]);
}
