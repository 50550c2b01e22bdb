//! The first steps of a new user: inspect files and models, run the included pipelines, outside of the project's
//! folder.

use std::fs;
use std::process::Command;

use crate::common::{Finished, Workplace};

/// The binary in a folder without files of the project.
struct Elsewhere(tempfile::TempDir);

impl Elsewhere {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = Command::new(env!("CARGO_BIN_EXE_asap"));
        command.args(arguments).current_dir(self.0.path()).env("HOME", self.0.path());
        for variable in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"] {
            command.env_remove(variable);
        }
        Finished::from(command.output().unwrap())
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.0.path().join(name), content).unwrap();
    }
}

fn traces(rows: usize) -> String {
    let row = |n: usize| {
        let chain = format!(
            "We need {n} + 1.\\n\\nLet me think about it.\\n\\nSo {n} + 1 = {}.\\n\\nThat is {}.",
            n + 1,
            n + 1
        );
        format!(r#"{{"question": "What is {n} + 1?", "reasoning_content": "{chain}", "content": "{}"}}"#, n + 1) + "\n"
    };
    (0..rows).map(row).collect()
}

#[test]
fn json_lines_are_pruned_by_what_the_binary_brings() {
    let elsewhere = Elsewhere::new();
    elsewhere.write("traces.jsonl", &traces(40));
    let run = [
        "run",
        "asap",
        "--from",
        "traces.jsonl",
        "--to",
        "out",
        "--set",
        "asap.refine.max_tokens=30",
        "--format",
        "json",
    ];
    let summary = elsewhere.run(&run).json();
    assert_eq!((&summary["rows_in"], &summary["rows_out"]), (&40.into(), &40.into()));
    assert_eq!(elsewhere.run(&run).json()["rows_in"], 0);
    let sql = "SELECT count(*) AS n FROM cot_corpus('traces.jsonl') WHERE status IS NULL";
    assert_eq!(elsewhere.run(&["sql", "-q", "--format", "json", "-c", sql]).json()[0]["n"], 40);
    // A file with an additional row is a different file.
    elsewhere.write("traces.jsonl", &traces(41));
    let again = elsewhere.run(&[&run[..], &["--on-change", "reprocess"]].concat()).json();
    assert_eq!((&again["rows_in"], &again["rows_out"]), (&41.into(), &41.into()));
    assert!(elsewhere.run(&["verify", "out"]).ok().contains("41"));
}

/// The pipelines that are compared with the method.
const BASELINES: [&str; 9] = [
    "random",
    "truncate",
    "spirit",
    "spirit_greedy",
    "step_entropy",
    "selective_context",
    "attribution",
    "answer_gain",
    "earliest_correct",
];

#[test]
fn pipelines_that_are_brought_can_be_read_and_changed() {
    let elsewhere = Elsewhere::new();
    elsewhere.write("traces.jsonl", &traces(5));
    for name in
        ["asap", "perplexity_and_self_information", "without_anchor", "without_surprisal"].into_iter().chain(BASELINES)
    {
        let printed = elsewhere.run(&["run", name, "--print"]);
        assert!(printed.ok().contains("FROM pruned(("), "{name}: {}", printed.stdout);
        elsewhere.write("mine.sql", &printed.stdout);
        elsewhere.run(&["run", "mine.sql", "--from", "traces.jsonl", "--to", &format!("out/{name}")]).ok();
        // The same pipeline under another name.
        let again =
            elsewhere.run(&["run", name, "--from", "traces.jsonl", "--to", &format!("out/{name}"), "--format", "json"]);
        assert_eq!(again.json()["rows_in"], 0);
    }
    for name in ["asp", "recommended"] {
        let unknown = elsewhere.run(&["run", name, "--from", "traces.jsonl", "--to", "out/x"]);
        assert!(unknown.code == 2 && unknown.stderr.contains("asap includes asap, without_anchor"), "{unknown:?}");
    }
}

#[test]
fn baselines_bring_chains_to_the_budget_each_in_its_way() {
    let elsewhere = Elsewhere::new();
    elsewhere.write("traces.jsonl", &traces(5));
    let mut kept = std::collections::BTreeSet::new();
    for name in BASELINES {
        let out = format!("out/{name}");
        let run = ["run", name, "--from", "traces.jsonl", "--to", &out, "--set", "asap.refine.max_tokens=24"];
        elsewhere.run(&run).ok();
        let table = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{out}'");
        let sql = "SELECT cot, original_tokens, pruned_tokens FROM t ORDER BY question";
        let rows = elsewhere.run(&["sql", "-q", "--format", "json", "-c", &table, "-c", sql]).json();
        for row in rows.as_array().unwrap() {
            let [before, after] = ["original_tokens", "pruned_tokens"].map(|key| row[key].as_u64().unwrap());
            assert!(before > 24 && (1..=24).contains(&after), "{name}: {row}");
        }
        assert_eq!(rows.as_array().unwrap().len(), 5, "{name}");
        kept.insert(rows.to_string());
    }
    assert!(kept.len() > 3, "{kept:?}");
}

/// Pipelines that fit steps to a budget must not keep a heading alone, or nothing because of one long step.
#[test]
fn headings_stay_with_what_they_announce_and_a_long_step_takes_no_other_along() {
    let elsewhere = Elsewhere::new();
    let equations = (2..8).map(|n| format!("So:\\n\\n{n} * 9 = {}, and the rest is as before.", n * 9));
    let long = "then and ".repeat(90);
    let chain = [long, equations.collect::<Vec<_>>().join("\\n\\n"), "That is 63.".to_string()].join("\\n\\n");
    elsewhere.write("traces.jsonl", &format!(r#"{{"question": "What is 7 * 9?", "cot": "{chain}", "answer": "63"}}"#));
    let steps = |name: &str| {
        let run = ["run", name, "--from", "traces.jsonl", "--to", name, "--set", "asap.refine.max_tokens=80"];
        elsewhere.run(&run).ok();
        let table = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{name}'");
        let sql = "SELECT unnest(cot_steps(cot)) AS step FROM t";
        let rows = elsewhere.run(&["sql", "-q", "--format", "json", "-c", &table, "-c", sql]).json();
        let text = |row: &serde_json::Value| row["step"].as_str().unwrap().to_string();
        rows.as_array().unwrap().iter().map(text).collect::<Vec<_>>()
    };
    let kept = steps("perplexity_and_self_information");
    assert!(kept.len() > 3 && kept.len() < 14, "{kept:?}");
    for (place, step) in kept.iter().enumerate() {
        assert!(step != "So:" || kept[place + 1].contains(" * 9 = "), "{kept:?}");
        assert!(!step.contains(" * 9 = ") || kept[place - 1] == "So:", "{kept:?}");
    }
    assert_eq!(kept.last().map(String::as_str), Some("That is 63."));
    for name in ["asap", "without_anchor", "without_surprisal"] {
        let kept = steps(name);
        assert!(!kept.is_empty() && kept.iter().all(|step| !step.starts_with("then")), "{name}: {kept:?}");
    }
}

/// Runs of one input are compared by ratios whose denominator does not depend on the rejects of each run.
#[test]
fn original_chains_are_counted_alike_by_every_pipeline() {
    let elsewhere = Elsewhere::new();
    let middle = |n: usize| "then and ".repeat(if n.is_multiple_of(2) { 90 } else { 2 });
    let chain = |n: usize| format!("So {n} + {n} is asked.\\n\\n{}\\n\\nIt is {}.", middle(n), 2 * n);
    let row =
        |n: usize| format!(r#"{{"question": "What is {n} + {n}?", "cot": "{}", "answer": "{}"}}"#, chain(n), 2 * n);
    elsewhere.write("traces.jsonl", &(0..12).map(row).collect::<Vec<_>>().join("\n"));
    let [all, random, asap, entropy] = ["truncate", "random", "asap", "step_entropy"].map(|name| {
        let run = ["run", name, "--from", "traces.jsonl", "--to", name, "--set", "asap.refine.max_tokens=40"];
        elsewhere.run(&[&run[..], &["--format", "json"]].concat()).json()
    });
    assert_eq!(all["rows_out"], 12, "{all}");
    assert!(random["rejects"]["emptied"].as_u64().unwrap() > 0, "{random}");
    assert!(asap["rejects"]["emptied"].is_null(), "{asap}");
    for other in [random, asap, entropy] {
        assert_eq!((&other["tokens_in"], &other["steps_in"]), (&all["tokens_in"], &all["steps_in"]), "{other}");
    }
}

#[test]
fn chains_are_compressed_word_by_word() {
    let elsewhere = Elsewhere::new();
    elsewhere.write("traces.jsonl", &traces(12));
    let none = elsewhere.run(&["run", "llmlingua2", "--from", "traces.jsonl", "--to", "out/none"]);
    assert!(none.code == 2 && none.stderr.contains("asap.compressor.model is not set"), "{none:?}");
    let no_classifier = format!("asap.compressor.model={}/tests/goldens/qwen2", env!("CARGO_MANIFEST_DIR"));
    let none =
        elsewhere.run(&["run", "llmlingua2", "--from", "traces.jsonl", "--to", "out/none", "--set", &no_classifier]);
    assert!(none.code == 2 && none.stderr.contains("config.json"), "{none:?}");

    let encoder = "tests/goldens/llmlingua2/xlm-roberta-large-tiny";
    let encoder = format!("asap.compressor.model={}/{encoder}", env!("CARGO_MANIFEST_DIR"));
    let prune = |pipeline: &str| {
        let run = ["run", pipeline, "--from", "traces.jsonl", "--to", pipeline, "--set", "asap.refine.ratio=0.5"];
        elsewhere.run(&[&run[..], &["--set", &encoder]].concat()).ok();
        let table = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{pipeline}'");
        let rows = elsewhere.run(&["sql", "-q", "--format", "json", "-c", &table, "-c", "SELECT * FROM t"]).json();
        assert_eq!(rows.as_array().unwrap().len(), 12, "{pipeline}");
        rows.as_array().unwrap().clone()
    };
    let content = |row: &serde_json::Value, column: &str| row[column][0]["content"].as_str().unwrap().to_string();
    for row in prune("llmlingua2") {
        let [before, after] = ["original_tokens", "pruned_tokens"].map(|key| row[key].as_f64().unwrap());
        assert!(after > 0.2 * before && after < 0.8 * before, "{row}");
        assert!(content(&row, "completion").contains(row["cot"].as_str().unwrap()), "{row}");
    }
    let mut shares = std::collections::BTreeSet::new();
    for row in prune("tokenskip") {
        let [gamma, cot, question] = ["gamma", "cot", "question"].map(|key| row[key].as_str().unwrap());
        let told = format!("{question}<|eot_id|>{gamma}<|eot_id|>");
        assert_eq!(content(&row, "prompt"), if gamma == "1.0" { question.to_string() } else { told });
        let output = content(&row, "completion");
        let tail = output.strip_prefix(cot).unwrap();
        assert!(tail.starts_with("\n\nThe final answer is: $\\boxed{") && tail.ends_with("}$"), "{output}");
        shares.insert(gamma.to_string());
    }
    assert!(shares.len() > 2, "{shares:?}");
}

#[test]
fn baselines_are_brought_to_the_same_share_of_each_chain() {
    let elsewhere = Elsewhere::new();
    elsewhere.write("traces.jsonl", &traces(5));
    for name in ["asap", "perplexity_and_self_information", "without_surprisal"].into_iter().chain(BASELINES) {
        let run = ["run", name, "--from", "traces.jsonl", "--to", name, "--set", "asap.refine.ratio=0.5"];
        elsewhere.run(&run).ok();
        let table = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{name}'");
        let sql =
            "SELECT count(*) AS rows, count(*) FILTER (WHERE 2 * pruned_tokens <= original_tokens) AS halves FROM t";
        let found = elsewhere.run(&["sql", "-q", "--format", "json", "-c", &table, "-c", sql]).json();
        assert_eq!((&found[0]["rows"], &found[0]["halves"]), (&5.into(), &5.into()), "{name}");
    }
    let beyond = elsewhere.run(&["sql", "-c", "SET asap.refine.ratio = 1.5"]);
    assert!(beyond.stderr.contains("a number above 0 and at most 1, found '1.5'"), "{beyond:?}");
}

#[test]
fn a_model_says_what_it_is_and_how_fast() {
    let elsewhere = Elsewhere::new();
    let small = elsewhere.run(&["model", "small", "--format", "json", "--tokens", "1000000"]).json();
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
    elsewhere.write("chains.jsonl", &rows.join("\n"));
    let of_corpus = elsewhere.run(&["model", "small", "--format", "json", "--from", "chains.jsonl"]).json();
    let tokens = of_corpus["corpus_tokens"].as_u64().unwrap();
    assert!((300..1200).contains(&tokens) && about(&of_corpus, tokens / 2), "{of_corpus}");
    let weights = fs::metadata(format!("{}/data/model/model.safetensors", env!("CARGO_MANIFEST_DIR"))).unwrap().len();
    assert!(small["bytes_f32"].as_u64().unwrap().abs_diff(weights) < 8192, "{small} {weights}");
    // Windows that fit some steps, and none.
    let golden = format!("{}/tests/goldens/qwen2", env!("CARGO_MANIFEST_DIR"));
    for (window, fits) in [(200, true), (8, false)] {
        let folder = elsewhere.0.path().join(format!("window-{window}"));
        fs::create_dir(&folder).unwrap();
        for file in fs::read_dir(&golden).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
        let mut config: serde_json::Value =
            serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
        config["max_position_embeddings"] = window.into();
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
        let told = elsewhere.run(&["model", folder.to_str().unwrap(), "--format", "json"]);
        match fits {
            true => assert!(told.json()["row_tokens"].as_u64().unwrap() <= window, "{told:?}"),
            false => assert!(told.code == 1 && told.stderr.contains("its window of 8 tokens"), "{told:?}"),
        }
    }
    let absent = elsewhere.run(&["model", "org/absent"]);
    assert!(absent.code == 2 && absent.stderr.contains("hf download org/absent"), "{absent:?}");
}

#[test]
fn a_repository_in_the_cache_of_the_hub_scores() {
    let elsewhere = Elsewhere::new();
    let repository = elsewhere.0.path().join(".cache/huggingface/hub/models--org--tiny");
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::create_dir_all(repository.join("snapshots")).unwrap();
    fs::write(repository.join("refs/main"), "abc").unwrap();
    let golden = format!("{}/tests/goldens/qwen2", env!("CARGO_MANIFEST_DIR"));
    std::os::unix::fs::symlink(golden, repository.join("snapshots/abc")).unwrap();
    let sql = "SELECT cot_surprisal('q', ['a', 'b'])[1] AS nats";
    let scored =
        elsewhere.run(&["sql", "-q", "--format", "json", "-c", "SET asap.scorer.model = 'org/tiny'", "-c", sql]);
    assert!(scored.json()[0]["nats"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_output_holds_what_its_other_columns_do_not_say() {
    let workplace = Workplace::new();
    let rows = "SELECT 'q' || value AS prompt, '<think>a</think>b' AS generation, value AS n, 'x' AS note FROM range(3) \
                UNION ALL SELECT 'q', 'no tags', 9, 'y'";
    workplace.run(&["sql", "-q", "-c", &format!("COPY ({rows}) TO 'in/a.parquet'")]).ok();
    let columns = |to: &str, more: &[&str]| {
        let run = ["run", "truncate", "--from", "in", "--to", to];
        let done = workplace.run(&[&run[..], more].concat());
        done.ok();
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{to}'");
        let described = workplace.run(&["sql", "-q", "--format", "json", "-c", &sql, "-c", "DESCRIBE t"]).json();
        let names: Vec<String> =
            described.as_array().unwrap().iter().map(|row| row["column_name"].as_str().unwrap().to_string()).collect();
        (names, done.stderr)
    };
    let holds = |names: &[String], wanted: [bool; 4]| {
        for (name, is_held) in ["source_prompt", "generation", "n", "note"].iter().zip(wanted) {
            assert_eq!(names.iter().any(|held| held == name), is_held, "{name} in {names:?}");
        }
    };
    let (needed, told) = columns("needed", &[]);
    holds(&needed, [true, false, true, true]);
    assert!(told.contains("note: generation became question, cot, answer or system"), "{told}");
    holds(&columns("all", &["--originals", "all"]).0, [true; 4]);
    holds(&columns("none", &["--originals", "none"]).0, [false; 4]);
    holds(&columns("named", &["--originals", "note"]).0, [false, false, false, true]);
    // Rejects contain all columns for inspection.
    let sql = "CREATE EXTERNAL TABLE r STORED AS DELTATABLE LOCATION 'none/.asap/rejects'";
    let rejects =
        workplace.run(&["sql", "-q", "--format", "json", "-c", sql, "-c", "SELECT generation, status FROM r"]);
    assert_eq!(rejects.json()[0]["generation"], "no tags");
    let unknown = workplace.run(&["run", "truncate", "--from", "in", "--to", "x", "--originals", "nothing"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("--originals names nothing"), "{unknown:?}");
    let other = workplace.run(&["run", "truncate", "--from", "in", "--to", "all"]);
    assert!(other.code != 0 && other.stderr.contains("originals"), "{other:?}");
    // An additional file, while no column may be added.
    workplace.run(&["sql", "-q", "-c", &format!("COPY ({rows}) TO 'in/b.parquet'")]).ok();
    let more = ["run", "truncate", "--from", "in", "--to", "needed", "--on-schema-change", "fail", "--format", "json"];
    assert_eq!(workplace.run(&more).json()["rows_out"], 3);
}

#[test]
fn only_what_a_pipeline_passes_on_is_left_out() {
    let workplace = Workplace::new();
    let write = |file: &str, rows: &str| {
        workplace.run(&["sql", "-q", "-c", &format!("COPY ({rows}) TO '{file}'")]).ok();
    };
    write("in/a.parquet", "SELECT 'q1' AS problem, '<think>a</think>b' AS generation, 1 AS n");
    fs::write(
        workplace.path("cut.sql"),
        "SELECT source, left(question, 1) AS question, cot AS chain, status FROM corpus",
    )
    .unwrap();
    let columns = |to: &str| {
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{to}'");
        workplace.run(&["sql", "-q", "--format", "csv", "-c", &sql, "-c", "DESCRIBE t"]).ok().to_string()
    };
    workplace.run(&["run", "cut.sql", "--from", "in", "--to", "out"]).ok();
    assert!(columns("out").contains("problem") && columns("out").contains("generation"), "{}", columns("out"));
    // Left-out columns stay out, and are recognized where no column may be added, even after others were.
    let run = |more: &[&str]| {
        workplace.run(&[&["run", "truncate", "--from", "in", "--to", "kept", "--format", "json"][..], more].concat())
    };
    assert_eq!(run(&[]).json()["rows_out"], 1);
    write("in/b.parquet", "SELECT 'q2' AS question, 'a' AS cot, 'b' AS answer, 2 AS more");
    assert_eq!(run(&[]).json()["rows_out"], 1);
    write("in/c.parquet", "SELECT 'q3' AS problem, '<think>a</think>b' AS generation, 3 AS n");
    write("in/d.parquet", "SELECT 'q4' AS question, 'a' AS cot, 4 AS answer");
    assert_eq!(run(&["--on-schema-change", "fail"]).json()["rows_out"], 2);
    assert!(!columns("kept").contains("source_answer") && !columns("kept").contains("problem"), "{}", columns("kept"));
}

#[test]
fn stand_ins_are_named_wherever_a_set_is_told_of() {
    let elsewhere = Elsewhere::new();
    elsewhere.write("traces.jsonl", &traces(12));
    let prune = |pipeline: &str, settings: &[&str]| {
        let run = ["run", pipeline, "--from", "traces.jsonl", "--to", pipeline, "--set", "asap.refine.max_tokens=30"];
        let told = elsewhere.run(&[&run[..], settings].concat());
        elsewhere.run(&["export", pipeline, "--to", &format!("{pipeline}-set")]).ok();
        let card = fs::read_to_string(elsewhere.0.path().join(format!("{pipeline}-set/README.md"))).unwrap();
        (told, elsewhere.run(&["status", pipeline]).ok().to_string(), card)
    };
    let (told, status, card) = prune("asap", &[]);
    for text in [&told.stderr, &status, &card] {
        for setting in ["made with default models", "asap.anchor.provider", "asap.scorer.model", "set both"] {
            assert!(text.contains(setting), "{setting}: {text}");
        }
    }
    assert!(card.contains("| pipeline | asap |") && card.contains("| scored by | small |"), "{card}");
    assert!(told.stdout.contains("coarse"), "{}", told.stdout);

    // Without both stages, the small model still counts tokens. Stages that did not run have no lines.
    let (told, status, card) = prune("truncate", &[]);
    for text in [&told.stderr, &status, &card] {
        assert!(text.contains("tokens of asap's small model") && !text.contains("asap.anchor.provider"), "{text}");
    }
    assert!(told.stdout.contains("pruned") && !told.stdout.contains("coarse"), "{}", told.stdout);

    // A named folder is not the default model.
    let model = format!("asap.scorer.model={}/data/model", env!("CARGO_MANIFEST_DIR"));
    let (told, _, card) = prune("without_anchor", &["--set", &model]);
    assert!(!told.stderr.contains("default models") && card.contains("data/model |"), "{card}");
}

#[test]
fn a_run_of_which_nothing_is_left_tells_of_no_tokens() {
    let elsewhere = Elsewhere::new();
    elsewhere.write("none.jsonl", "{\"question\": \"Why?\", \"cot\": \"\", \"answer\": \"So.\"}\n");
    let told = elsewhere.run(&["run", "truncate", "--from", "none.jsonl", "--to", "out"]);
    assert!(told.code == 3 && told.stdout.contains("empty_chain 1"), "{}", told.stdout);
    assert!(!told.stdout.contains("original"), "{}", told.stdout);
}

#[test]
fn commands_of_the_prompt_are_told_from_sql() {
    let told = Elsewhere::new().run(&["sql", "-c", "\\d"]);
    assert!(told.code == 2 && told.stderr.contains("information_schema.tables"), "{}", told.stderr);
}

#[test]
fn json_lines_are_tables_and_are_written() {
    let elsewhere = Elsewhere::new();
    elsewhere.write("traces.jsonl", &traces(3));
    let copy = "COPY (SELECT question FROM 'traces.jsonl' WHERE question NOT LIKE '%1 +%') TO 'two.jsonl'";
    let counted =
        elsewhere.run(&["sql", "-q", "--format", "json", "-c", copy, "-c", "SELECT count(*) AS n FROM 'two.jsonl'"]);
    assert!(counted.ok().ends_with("[{\"n\":2}]\n"), "{}", counted.stdout);
    let lines = fs::read_to_string(elsewhere.0.path().join("two.jsonl")).unwrap();
    assert_eq!(lines.lines().next(), Some(r#"{"question":"What is 0 + 1?"}"#));
}
