//! The first steps of a new user: inspect files and models, run the included pipelines, outside of the project's
//! folder.

use std::fs;

use crate::common::{Finished, Workplace, root};

fn traces(rows: usize) -> String {
    let row = |n: usize| {
        let next = n + 1;
        let chain =
            format!("We need {n} + 1.\\n\\nLet me think about it.\\n\\nSo {n} + 1 = {next}.\\n\\nThat is {next}.");
        format!(r#"{{"question": "What is {n} + 1?", "reasoning_content": "{chain}", "content": "{next}"}}"#) + "\n"
    };
    (0..rows).map(row).collect()
}

/// A folder outside of the project with a file of traces.
fn elsewhere_with_traces(rows: usize) -> Workplace {
    let elsewhere = Workplace::empty();
    elsewhere.write("traces.jsonl", traces(rows));
    elsewhere
}

#[test]
fn json_lines_are_pruned_by_what_the_binary_adds() {
    let elsewhere = elsewhere_with_traces(40);
    let run = "run asap --from traces.jsonl --to out --set asap.refine.max_tokens=30 --format json".split(' ');
    let summary = elsewhere.run(run.clone()).json();
    assert_eq!((&summary["rows_in"], &summary["rows_out"]), (&40.into(), &40.into()));
    assert_eq!(elsewhere.run(run.clone()).json()["rows_in"], 0);
    let sql = "SELECT count(*) AS n FROM cot_corpus('traces.jsonl') WHERE status IS NULL";
    assert_eq!(elsewhere.csv(&[sql]), "n\n40\n");
    // A file with an additional row is a different file.
    elsewhere.write("traces.jsonl", traces(41));
    let again = elsewhere.run(run.chain(["--on-change", "reprocess"])).json();
    assert_eq!((&again["rows_in"], &again["rows_out"]), (&41.into(), &41.into()));
    assert!(elsewhere.run(["table", "verify", "out"]).ok().contains("41"));
}

/// Runs a pipeline over `traces.jsonl` with settings.
fn prune(elsewhere: &Workplace, pipeline: &str, to: &str, settings: &[&str]) -> Finished {
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let run = ["run", pipeline, "--from", "traces.jsonl", "--to", to, "--format", "json"];
    elsewhere.run(run.into_iter().chain(settings))
}

/// The pipelines that are compared with the method.
const BASELINES: &str = "random truncate block longest middle prefix suffix spirit spirit_greedy \
    step_entropy step_entropy_mean self_information_steps attribution answer_gain earliest_correct";

#[test]
fn pipelines_that_are_included_can_be_read_and_changed() {
    let elsewhere = elsewhere_with_traces(5);
    for name in ["asap", "perplexity_and_self_information", "without_anchor", "without_surprisal", "stage1_random"]
        .into_iter()
        .chain(BASELINES.split(' '))
    {
        let printed = elsewhere.run(["run", name, "--print"]);
        assert!(printed.ok().contains("FROM pruned(("), "{name}: {}", printed.stdout);
        elsewhere.write("mine.sql", &printed.stdout);
        let run = |pipeline: &str| prune(&elsewhere, pipeline, &format!("out/{name}"), &[]).json();
        run("mine.sql");
        // The same pipeline under another name.
        assert_eq!(run(name)["rows_in"], 0);
    }
    let misspelled = elsewhere.run(["run", "asap", "--print", "--set", "asap.refine.max_token=3"]);
    misspelled.ends(2, &["did you mean asap.refine.max_tokens?"]);
    for name in ["asp", "recommended"] {
        prune(&elsewhere, name, "out/x", &[]).ends(2, &["asap includes asap, without_anchor"]);
    }
}

#[test]
fn baselines_bring_chains_to_the_budget_each_in_its_way() {
    let elsewhere = elsewhere_with_traces(5);
    let mut kept = std::collections::BTreeSet::new();
    for name in BASELINES.split(' ') {
        prune(&elsewhere, name, name, &["asap.refine.max_tokens=24"]).ok();
        let sql = "SELECT cot, original_tokens, pruned_tokens FROM t ORDER BY question";
        let rows = elsewhere.rows_of(name, sql);
        for row in &rows {
            let [before, after] = ["original_tokens", "pruned_tokens"].map(|key| row[key].as_u64().unwrap());
            assert!(before > 24 && (1..=24).contains(&after), "{name}: {row}");
        }
        assert_eq!(rows.len(), 5, "{name}");
        kept.insert(format!("{rows:?}"));
    }
    assert!(kept.len() > 3, "{kept:?}");
}

/// Pipelines that fit steps to a budget must not keep a heading alone, or nothing because of one long step.
#[test]
fn headings_stay_with_what_they_announce_and_a_long_step_takes_no_other_along() {
    let elsewhere = Workplace::empty();
    let equations = (2..8).map(|n| format!("So:\\n\\n{n} * 9 = {}, and the rest is as before.", n * 9));
    let long = "then and ".repeat(90);
    let chain = [long, equations.collect::<Vec<_>>().join("\\n\\n"), "That is 63.".to_string()].join("\\n\\n");
    elsewhere.write("traces.jsonl", format!(r#"{{"question": "What is 7 * 9?", "cot": "{chain}", "answer": "63"}}"#));
    let steps = |name: &str| {
        prune(&elsewhere, name, name, &["asap.refine.max_tokens=80"]).ok();
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

/// Runs of one input are compared by ratios whose denominator does not depend on the rejects of each run.
#[test]
fn original_chains_are_counted_alike_by_every_pipeline() {
    let elsewhere = Workplace::empty();
    let middle = |n: usize| "then and ".repeat(if n.is_multiple_of(2) { 90 } else { 2 });
    let chain = |n: usize| format!("So {n} + {n} is asked.\\n\\n{}\\n\\nIt is {}.", middle(n), 2 * n);
    let row =
        |n: usize| format!(r#"{{"question": "What is {n} + {n}?", "cot": "{}", "answer": "{}"}}"#, chain(n), 2 * n);
    elsewhere.write("traces.jsonl", (0..12).map(row).collect::<Vec<_>>().join("\n"));
    let [all, random, asap, entropy] = ["truncate", "random", "asap", "step_entropy"]
        .map(|name| prune(&elsewhere, name, name, &["asap.refine.max_tokens=40"]).json());
    assert_eq!(all["rows_out"], 12, "{all}");
    assert!(random["rejects"]["emptied"].as_u64().unwrap() > 0, "{random}");
    assert!(asap["rejects"]["emptied"].is_null(), "{asap}");
    for other in [random, asap, entropy] {
        assert_eq!((&other["tokens_in"], &other["steps_in"]), (&all["tokens_in"], &all["steps_in"]), "{other}");
    }
}

#[test]
fn chains_are_compressed_word_by_word() {
    let elsewhere = elsewhere_with_traces(12);
    prune(&elsewhere, "llmlingua2", "none", &[]).ends(2, &["asap.compressor.model is not set"]);
    let no_classifier = format!("asap.compressor.model={}/tests/goldens/qwen2", root().display());
    prune(&elsewhere, "llmlingua2", "none", &[&no_classifier]).ends(2, &["config.json"]);

    let encoder = root().join("tests/goldens/llmlingua2/xlm-roberta-large-tiny");
    let encoder = format!("asap.compressor.model={}", encoder.display());
    let rows_of = |pipeline: &str| {
        prune(&elsewhere, pipeline, pipeline, &["asap.refine.ratio=0.5", &encoder]).ok();
        let rows = elsewhere.rows_of(pipeline, "SELECT * FROM t");
        assert_eq!(rows.len(), 12, "{pipeline}");
        rows
    };
    let content = |row: &serde_json::Value, column: &str| row[column][0]["content"].as_str().unwrap().to_string();
    for row in ["llmlingua2", "selective_context"].into_iter().flat_map(rows_of) {
        let [before, after] = ["original_tokens", "pruned_tokens"].map(|key| row[key].as_f64().unwrap());
        assert!(after > 0.2 * before && after < 0.8 * before, "{row}");
        assert!(content(&row, "completion").contains(row["cot"].as_str().unwrap()), "{row}");
    }
    let mut shares = std::collections::BTreeSet::new();
    for row in rows_of("tokenskip") {
        let [gamma, cot, question] = ["gamma", "cot", "question"].map(|key| row[key].as_str().unwrap());
        assert_eq!(question.ends_with(&format!("?<|eot_id|>{gamma}<|eot_id|>")), gamma != "1.0", "{question}");
        assert_eq!(content(&row, "prompt"), question);
        let output = content(&row, "completion");
        let tail = output.strip_prefix(cot).unwrap();
        assert!(tail.starts_with("\n\nThe final answer is: $\\boxed{") && tail.ends_with("}$"), "{output}");
        shares.insert(gamma.to_string());
    }
    assert!(shares.len() > 2, "{shares:?}");
}

#[test]
fn baselines_keep_the_same_share_of_each_chain() {
    let elsewhere = elsewhere_with_traces(5);
    for name in ["asap", "perplexity_and_self_information", "without_surprisal"].into_iter().chain(BASELINES.split(' '))
    {
        prune(&elsewhere, name, name, &["asap.refine.ratio=0.5"]).ok();
        let sql =
            "SELECT count(*) AS rows, count(*) FILTER (WHERE 2 * pruned_tokens <= original_tokens) AS halves FROM t";
        assert_eq!(elsewhere.csv_of(name, sql), "rows,halves\n5,5\n", "{name}");
    }
    let beyond = elsewhere.run(["sql", "-c", "SET asap.refine.ratio = 1.5"]);
    assert!(beyond.stderr.contains("a number above 0 and at most 1, found '1.5'"), "{beyond:?}");
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

#[test]
fn a_repository_in_the_cache_of_the_hub_scores() {
    let elsewhere = Workplace::empty();
    elsewhere.hub_model(".cache/huggingface", "org/tiny", "tests/goldens/qwen2");
    let sql = "SELECT cot_surprisal('q', ['a', 'b'])[1] > 0 AS is_scored";
    assert_eq!(elsewhere.csv(&["SET asap.scorer.model = 'org/tiny'", sql]), "is_scored\ntrue\n");
}

#[test]
fn an_output_holds_what_its_other_columns_do_not_say() {
    let workplace = Workplace::new();
    let rows = "SELECT 'q' || value AS prompt, '<think>a</think>b' AS generation, value AS n, 'x' AS note FROM range(3) \
                UNION ALL SELECT 'q', 'no tags', 9, 'y'";
    workplace.copy(rows, "in/a.parquet");
    let columns = |to: &str, more: &[&str]| {
        let done = workplace.prune("truncate", to, more).ends(0, &[]);
        let described = workplace.rows_of(to, "DESCRIBE t");
        let names = described.iter().map(|row| row["column_name"].as_str().unwrap().to_string());
        (names.collect::<Vec<_>>(), done.stderr)
    };
    let holds = |names: &[String], wanted: [bool; 4]| {
        for (name, is_held) in ["source_prompt", "generation", "n", "note"].iter().zip(wanted) {
            assert_eq!(names.iter().any(|held| held == name), is_held, "{name} in {names:?}");
        }
    };
    let (needed, printed) = columns("needed", &[]);
    holds(&needed, [true, false, true, true]);
    assert!(printed.contains("question, cot, answer and system hold: generation ("), "{printed}");
    holds(&columns("all", &["--originals", "all"]).0, [true; 4]);
    holds(&columns("none", &["--originals", "none"]).0, [false; 4]);
    holds(&columns("named", &["--originals", "note"]).0, [false, false, false, true]);
    // Rejects contain all columns for inspection.
    let rejects = workplace.rows_of("none/.asap/rejects", "SELECT generation, status FROM t");
    assert_eq!(rejects[0]["generation"], "no tags");
    workplace
        .run(["run", "truncate", "--from", "in", "--to", "x", "--originals", "nothing"])
        .ends(2, &["--originals names nothing"]);
    workplace.run(["run", "truncate", "--from", "in", "--to", "all"]).ends(1, &["originals"]);
    // An additional file, while no column may be added.
    workplace.copy(rows, "in/b.parquet");
    let more = workplace.prune("truncate", "needed", &["--on-schema-change", "fail"]).json();
    assert_eq!(more["rows_out"], 3);
}

#[test]
fn only_what_a_pipeline_passes_on_is_left_out() {
    let workplace = Workplace::new();
    let write = |file: &str, rows: &str| workplace.copy(rows, file);
    write("in/a.parquet", "SELECT 'q1' AS problem, '<think>a</think>b' AS generation, 1 AS n");
    workplace.write("cut.sql", "SELECT source, left(question, 1) AS question, cot AS chain, status FROM corpus");
    let columns = |to: &str| workplace.csv_of(to, "DESCRIBE t");
    workplace.prune("cut.sql", "out", &[]).ok();
    assert!(columns("out").contains("problem") && columns("out").contains("generation"), "{}", columns("out"));
    // Left-out columns stay out, and are recognized where no column may be added, even after others were.
    let run = |more: &[&str]| workplace.prune("truncate", "kept", more);
    assert_eq!(run(&[]).json()["rows_out"], 1);
    write("in/b.parquet", "SELECT 'q2' AS question, 'a' AS cot, 'b' AS answer, 2 AS more");
    assert_eq!(run(&[]).json()["rows_out"], 1);
    write("in/c.parquet", "SELECT 'q3' AS problem, '<think>a</think>b' AS generation, 3 AS n");
    write("in/d.parquet", "SELECT 'q4' AS question, 'a' AS cot, 4 AS answer");
    assert_eq!(run(&["--on-schema-change", "fail"]).json()["rows_out"], 2);
    assert!(!columns("kept").contains("source_answer") && !columns("kept").contains("problem"), "{}", columns("kept"));
}

#[test]
fn default_models_are_named_wherever_a_set_is_reported() {
    let elsewhere = elsewhere_with_traces(12);
    let prune = |pipeline: &str, settings: &[&str]| {
        let run = ["run", pipeline, "--from", "traces.jsonl", "--to", pipeline, "--set", "asap.refine.max_tokens=30"];
        let printed = elsewhere.run([&run[..], settings].concat());
        elsewhere.run(["export", pipeline, "--to", &format!("{pipeline}-set")]).ok();
        let card = fs::read_to_string(elsewhere.path(&format!("{pipeline}-set/README.md"))).unwrap();
        (printed, elsewhere.run(["table", "status", pipeline]).ok().to_string(), card)
    };
    let (printed, status, card) = prune("asap", &[]);
    for text in [&printed.stderr, &status, &card] {
        for setting in ["made with default models", "asap.anchor.provider", "asap.scorer.model", "Set both"] {
            assert!(text.contains(setting), "{setting}: {text}");
        }
    }
    assert!(card.contains("| pipeline | asap |") && card.contains("| scored by | small |"), "{card}");
    assert!(printed.stdout.contains("coarse"), "{}", printed.stdout);

    // Without both stages, the small model still counts tokens. Stages that did not run have no lines.
    let (printed, status, card) = prune("truncate", &[]);
    for text in [&printed.stderr, &status, &card] {
        assert!(text.contains("tokens of asap's small model") && !text.contains("asap.anchor.provider"), "{text}");
    }
    assert!(printed.stdout.contains("pruned") && !printed.stdout.contains("coarse"), "{}", printed.stdout);

    // A named folder is not the default model.
    let model = format!("asap.scorer.model={}/data/model", root().display());
    let (printed, _, card) = prune("without_anchor", &["--set", &model]);
    assert!(!printed.stderr.contains("default models") && card.contains("data/model |"), "{card}");
}

#[test]
fn a_run_of_which_nothing_is_left_tells_of_no_tokens() {
    let elsewhere = Workplace::empty();
    elsewhere.write("none.jsonl", "{\"question\": \"Why?\", \"cot\": \"\", \"answer\": \"So.\"}\n");
    let printed = elsewhere.run(["run", "truncate", "--from", "none.jsonl", "--to", "out"]);
    assert!(printed.code == 3 && printed.stdout.contains("empty_chain 1"), "{}", printed.stdout);
    assert!(!printed.stdout.contains("original"), "{}", printed.stdout);
}

#[test]
fn a_budget_has_flags_of_its_own() {
    let elsewhere = elsewhere_with_traces(3);
    elsewhere.write("asap.toml", "[refine]\nmax_tokens = 1\n");
    let run = |more: &[&str]| {
        let run = ["run", "truncate", "--from", "traces.jsonl", "--to", "out", "--format", "json"];
        elsewhere.run(run.iter().chain(more))
    };
    assert_eq!(run(&["--max-tokens", "24", "--ratio", "0.5"]).json()["rows_out"], 3);
    let set = ["--set", "asap.refine.max_tokens=24", "--set", "refine.ratio=0.50"];
    for same in [&set[..], &["--max-tokens", "24", "--ratio=0.5", "--set", "refine.max_tokens=024"]] {
        assert_eq!(run(same).json()["nothing_to_do"], true, "{same:?}");
    }
    run(&["--max-tokens", "30"]).ends(1, &["was filled with another budget", "'24' there, '30' here"]);
    let both = run(&["--max-tokens", "24", "--set", "refine.max_tokens=25"]);
    both.ends(2, &["--max-tokens 24 and --set asap.refine.max_tokens=25 differ: give only one of them"]);
    run(&["--ratio", "1.5"]).ends(2, &["--ratio", "found '1.5'"]);
    for none in ["0", "-1"] {
        let found = format!("a whole number of at least 1, found '{none}'");
        run(&["--max-tokens", none]).ends(2, &["--max-tokens", &found]);
    }
    run(&["--limit", "2", "--seed", "1"]).ends(2, &["add --sample N"]);
}

#[test]
fn a_run_reports_chains_that_stage_1_alone_made_short() {
    let elsewhere = elsewhere_with_traces(4);
    // The chains have 29 tokens, and 13 after stage 1.
    for (pipeline, budget, is_reported) in
        [("asap", "24", true), ("asap", "12", false), ("asap", "100", false), ("truncate", "24", false)]
    {
        let to = format!("{pipeline}-{budget}");
        let run = elsewhere.run(["run", pipeline, "--from", "traces.jsonl", "--to", &to, "--max-tokens", budget]);
        let said = "stage 1 already shortened 4 of 4 chains to at most the budget; stage 2 removed nothing from these";
        assert_eq!(run.ok().contains(said), is_reported, "{to}");
    }
}

#[test]
fn an_input_without_rows_is_called_empty() {
    let elsewhere = Workplace::empty();
    elsewhere.write("in/empty.jsonl", "");
    elsewhere.write("in/blank.jsonl", "\n\n");
    for place in ["in/empty.jsonl", "in/blank.jsonl", "in"] {
        assert!(elsewhere.run(["inspect", place]).ok().contains("empty: it has no rows"), "{place}");
    }
}

#[test]
fn commands_of_the_prompt_are_kept_apart_from_sql() {
    Workplace::empty().run(["sql", "-c", "\\d"]).ends(2, &["information_schema.tables"]);
}

#[test]
fn json_lines_are_tables_and_are_written() {
    let elsewhere = elsewhere_with_traces(3);
    let copy = "COPY (SELECT question FROM 'traces.jsonl' WHERE question NOT LIKE '%1 +%') TO 'two.jsonl'";
    let counted = elsewhere.csv(&[copy, "SELECT count(*) AS n FROM 'two.jsonl'"]);
    assert!(counted.ends_with("n\n2\n"), "{counted}");
    let lines = fs::read_to_string(elsewhere.path("two.jsonl")).unwrap();
    assert_eq!(lines.lines().next(), Some(r#"{"question":"What is 0 + 1?"}"#));
}
