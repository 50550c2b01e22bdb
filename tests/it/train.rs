//! What a user sees of `asap train`.

use std::fs;

use serde_json::{Value, json};

use crate::common::{Finished, Workplace};

fn config() -> Value {
    json!({
        "architectures": ["Qwen2ForCausalLM"], "dtype": "bfloat16", "hidden_act": "silu", "hidden_size": 32,
        "intermediate_size": 48, "max_position_embeddings": 4096, "model_type": "qwen2", "num_attention_heads": 2,
        "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "rope_theta": 1e4,
        "tie_word_embeddings": true, "vocab_size": 512,
    })
}

/// A workplace with 24 traces and a config.
fn prepared() -> Workplace {
    let workplace = Workplace::new();
    fs::write(workplace.path("config.json"), config().to_string()).unwrap();
    workplace.run(&["sample", "--rows", "24", "--seed", "9", "--to", "traces"]).ok();
    workplace
}

const TRAIN: [&str; 9] = ["train", "--init", "config.json", "--data", "traces", "--epochs", "1", "--accumulate", "2"];

#[test]
fn a_config_and_traces_become_a_model_that_scores() {
    let workplace = prepared();
    let train = |threads: &str, out: &str| {
        let more = ["--max-length", "600", "--learning-rate", "1e-2", "--held-back", "0.25", "--format", "json"];
        let mut command = workplace.command(&[&TRAIN[..], &more, &["--out", out]].concat());
        Finished::from(command.env("RAYON_NUM_THREADS", threads).output().unwrap())
    };
    let finished = train("1", "one");
    let summary = finished.json();
    assert!(finished.stderr.contains("were cut at 600 tokens"), "{}", finished.stderr);
    assert_eq!((&summary["traces"], &summary["held_back"]["traces"]), (&json!(18), &json!(6)));
    assert_eq!(summary["steps"], 9);
    let held_back = |key: &str| summary["held_back"][key].as_f64().unwrap();
    assert!(held_back("surprisal") < 6.0, "without training it is ln 512 = 6.2: {summary}");
    assert!(held_back("unigram_entropy") < 6.0, "{summary}");

    train("3", "three").ok();
    for file in ["model.safetensors", "tokenizer.json", "config.json"] {
        let read = |model: &str| fs::read(workplace.path(model).join(file)).unwrap();
        assert_eq!(read("one"), read("three"), "{file} depends on the number of cores");
    }
    let sql = "SELECT cot_surprisal('What is 2 + 2?', ['It is 4.', 'Yes, 4.'])[2] > 0 AS is_scored";
    let scored = workplace.run(&["sql", "--set", "asap.scorer.model=one", "-q", "--format", "csv", "-c", sql]);
    assert_eq!(scored.ok(), "is_scored\ntrue\n");
}

#[test]
fn what_cannot_be_trained_is_refused_and_leaves_nothing() {
    let workplace = prepared();
    let fails = |code: i32, more: &[&str], expected: &str| {
        let finished = workplace.run(&[&TRAIN[..], more].concat());
        assert_eq!(finished.code, code, "{}", finished.stderr);
        assert!(finished.stderr.contains(expected), "{}", finished.stderr);
        assert!(!workplace.path("model").exists() && !workplace.path("model.partial").exists());
    };
    fails(2, &["--out", "traces"], "traces exists; name a new folder");
    fails(1, &["--out", "model", "--max-length", "8"], "no trace to learn from");
    fails(1, &["--out", "model", "--learning-rate", "1e30"], "lower the learning rate");
    fails(2, &["--out", "model", "--held-back", "1"], "from 0 to below 1");

    let with = |key: &str, value: Value| {
        let mut config = config();
        config[key] = value;
        fs::write(workplace.path("config.json"), config.to_string()).unwrap();
    };
    with("hidden_act", json!("gelu"));
    fails(2, &["--out", "model"], "hidden_act 'gelu'");
    with("vocab_size", json!(100));
    fails(1, &["--out", "model"], "at least 259 tokens");
    fs::remove_file(workplace.path("config.json")).unwrap();
    fails(2, &["--out", "model"], "cannot read config.json");
}

#[test]
fn an_output_of_a_run_is_learned_from_as_its_log_says() {
    let workplace = prepared();
    let run = |ratio: &str| {
        fs::write(
            workplace.path("mine.sql"),
            format!(
                "SELECT * FROM pruned((SELECT *, cot_truncate(cot_steps(cot), {ratio}) AS kept FROM corpus), 'first')"
            ),
        )
        .unwrap();
        let model = "asap.scorer.model=tests/goldens/qwen2";
        let base = ["run", "mine.sql", "--from", "traces", "--to", "out", "--set", model, "--new-generation"];
        workplace.run(&base).ok();
    };
    let learn = |data: &str, out: &str| {
        let base =
            ["train", "--init", "config.json", "--data", data, "--epochs", "1", "--out", out, "--format", "json"];
        workplace.run(&base).json()
    };
    // The shards of the first generation are there still, and no rows any more.
    run("0.9");
    run("0.3");
    let (all, pruned) = (learn("traces", "all"), learn("out", "pruned"));
    assert_eq!((&all["traces"], &pruned["traces"], &pruned["rows_rejected"]), (&json!(24), &json!(24), &json!(0)));
    let tokens = |summary: &Value| summary["tokens"].as_u64().unwrap();
    assert!(tokens(&pruned) * 2 < tokens(&all), "{pruned} {all}");
}
