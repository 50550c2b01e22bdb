//! Bad input gives one clear error that names the cause, and leaves nothing half-written.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{Finished, Workplace};

/// A small model, independent of the one in `data`.
const MODEL: &str = "asap.scorer.model=tests/goldens/qwen2";

/// Runs a command that must fail with every text of `named` in its message, and leave no output.
#[track_caller]
fn refused(workplace: &Workplace, code: i32, arguments: &[&str], named: &[&str]) {
    let mut all = vec!["run", "pipelines/sql/truncate.sql", "--to", "out"];
    all.extend(arguments);
    let finished = workplace.run(&all);
    check(&finished, code, named);
    assert!(!workplace.path("out").exists(), "something was written");
}

#[track_caller]
fn check(finished: &Finished, code: i32, named: &[&str]) {
    assert_eq!(finished.code, code, "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
    assert!(finished.stderr.starts_with("error: "), "{}", finished.stderr);
    for text in named {
        assert!(finished.stderr.contains(text), "no '{text}' in: {}", finished.stderr);
    }
}

fn write(workplace: &Workplace, file: &str, query: &str) {
    workplace.run(&["sql", "-q", "-c", &format!("COPY ({query}) TO '{file}'")]).ok();
}

#[test]
fn locations_that_hold_no_corpus() {
    let workplace = Workplace::new();
    refused(&workplace, 1, &["--from", "nowhere"], &["there is no file or folder nowhere"]);
    fs::create_dir(workplace.path("empty")).unwrap();
    let early = workplace.run(&["run", "pipelines/sql/truncate.sql", "--to", "out", "--from", "empty"]);
    assert!(
        early.ok().contains("nothing to do")
            && early.stderr.contains("note: no Parquet files (*.parquet) or JSON lines (*.jsonl) found in empty")
    );
    assert!(!workplace.path("out").exists(), "something was written");
    fs::create_dir(workplace.path("json")).unwrap();
    fs::write(workplace.path("json/a.jsonl"), "{\"question\": \"q\"}\n").unwrap();
    refused(&workplace, 1, &["--from", "json"], &["json/a.jsonl", "fit no shape", "question (text)"]);
    fs::write(workplace.path("json/a.jsonl"), "{\"question\": \"q\"}\n{\"question\": \"q").unwrap();
    refused(&workplace, 1, &["--from", "json"], &["line 2 of", "json/a.jsonl", "not a complete JSON object"]);
    fs::write(workplace.path("a.csv"), "question,cot\nq,c\n").unwrap();
    refused(&workplace, 1, &["--from", "a.csv"], &["a.csv", "CSV", "COPY"]);
    fs::write(workplace.path("fake.parquet"), "not a table").unwrap();
    refused(&workplace, 1, &["--from", "fake.parquet"], &["fake.parquet is not a Parquet file"]);
    write(&workplace, "whole.parquet", "SELECT 'q' AS question, 'c' AS cot, 'a' AS answer");
    let bytes = fs::read(workplace.path("whole.parquet")).unwrap();
    fs::write(workplace.path("cut.parquet"), &bytes[..bytes.len() - 20]).unwrap();
    refused(&workplace, 1, &["--from", "cut.parquet"], &["cut.parquet", "cut short"]);
}

#[test]
fn columns_that_are_not_a_corpus() {
    let workplace = Workplace::new();
    write(&workplace, "odd.parquet", "SELECT 1 AS \"Alpha\", 'x' AS beta");
    refused(&workplace, 1, &["--from", "odd.parquet"], &["Alpha", "beta", "--columns"]);
    refused(&workplace, 2, &["--from", "odd.parquet", "--columns", "question"], &["question=", "cot="]);
    let missing = ["--from", "odd.parquet", "--columns", "question=Alpha,cot=gamma,answer=beta"];
    refused(&workplace, 2, &missing, &["odd.parquet has no column gamma", "beta (text)"]);
    write(&workplace, "typed.parquet", "SELECT 1 AS question, 'c' AS cot, 'a' AS answer");
    refused(&workplace, 1, &["--from", "typed.parquet"], &["question", "Int64", "typed.parquet"]);
}

#[test]
fn damage_within_a_file_is_told_with_its_name() {
    let workplace = Workplace::new();
    for name in ["a", "b", "c"] {
        let rows = "SELECT 'q' || value AS question, repeat(md5(CAST(value AS VARCHAR)), 20) AS cot, 'a' AS answer FROM range(3000)";
        write(&workplace, &format!("many/{name}.parquet"), rows);
    }
    let path = workplace.path("many/b.parquet");
    let mut bytes = fs::read(&path).unwrap();
    let pages = bytes.len() / 4..bytes.len() / 2;
    bytes[pages].fill(0x5a);
    fs::write(path, bytes).unwrap();
    let query = |sql: &str| workplace.run(&["sql", "-q", "--from", "many", "-c", sql]);
    check(&query("SELECT count(DISTINCT cot) FROM corpus"), 1, &["many/b.parquet"]);
    query("SELECT count(*) FROM corpus").ok();
}

#[test]
fn settings_that_do_not_exist_or_have_the_wrong_type() {
    let workplace = Workplace::new();
    let from = ["--from", "data/sample", "--set"];
    refused(
        &workplace,
        2,
        &[&from[..], &["asap.refine.max_token=3"]].concat(),
        &["did you mean asap.refine.max_tokens?"],
    );
    refused(
        &workplace,
        2,
        &[&from[..], &["asap.refine.max_tokens=few"]].concat(),
        &["asap.refine.max_tokens takes", "few"],
    );
    refused(&workplace, 2, &[&from[..], &["asap.match.threshold"]].concat(), &["KEY=VALUE"]);
    refused(&workplace, 2, &["--from", "data/sample", "--config", "no.toml"], &["no.toml"]);
    fs::write(workplace.path("asap.toml"), "[scorer]\nmodle = 'x'\n").unwrap();
    refused(&workplace, 2, &["--from", "data/sample"], &["asap.scorer.model?", "asap.toml"]);
}

#[test]
fn variables_that_are_nearly_settings() {
    let workplace = Workplace::new();
    let given = |name: &str, value: &str, more: &[&str]| {
        let mut command = workplace.command(&[&["sql", "-q", "-c", "SELECT 1"], more].concat());
        Finished::from(command.env(name, value).output().unwrap())
    };
    let typo = given("ASAP_REFINE_MAX_TOKEN", "5", &[]);
    assert_eq!(typo.code, 2);
    assert!(
        typo.stderr.contains("ASAP_REFINE_MAX_TOKEN is not a setting; did you mean ASAP_REFINE_MAX_TOKENS?"),
        "{typo:?}"
    );
    let secret = given("ASAP_ANCHOR_API_KEY", "hunter2", &[]);
    assert!(secret.code == 2 && !secret.stderr.contains("hunter2"), "{secret:?}");
    given("ASAP_ANCHOR_API_KEY", "hunter2", &["--set", "asap.anchor.api_key_env=ASAP_ANCHOR_API_KEY"]).ok();
    given("ASAP_OF_ANOTHER_TOOL", "1", &[]).ok();
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let workplace = Workplace::new();
    for format in ["table", "csv", "tsv", "json", "nd-json", "automatic"] {
        let query = "SELECT value, repeat('x', 200) FROM generate_series(1, 20000)";
        let script =
            format!("(asap sql -q --format {format} -c \"{query}\"; echo $? > code) | head -1 > /dev/null; cat code");
        let ended = workplace.shell(&script);
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("0\n", ""), "{format}");
    }
}

#[test]
fn text_that_the_scoring_model_does_not_know_is_told_once() {
    let workplace = Workplace::new();
    let told = |steps: &str| {
        let query = format!("SELECT count(cot_surprisal('q' || value, {steps})) FROM generate_series(1, 150)");
        let ended = workplace.run(&["sql", "-q", "-c", &query]);
        ended.ok();
        ended.stderr.matches("no likelier than chance").count()
    };
    assert_eq!(told("['让我们计算一下', '所以答案是' || value, '再检查一遍']"), 1);
    assert_eq!(told("['We have 2 + 2 = 4.', 'So it is ' || value || '.', 'The answer is 4.']"), 0);
}

#[test]
fn models_that_cannot_be_loaded() {
    let workplace = Workplace::new();
    let missing = ["--from", "data/sample", "--set", "asap.scorer.model=nowhere"];
    refused(&workplace, 2, &missing, &["asap.scorer.model = 'nowhere'", "there is no folder nowhere", "'small'"]);
    let absent = ["--from", "data/sample", "--set", "asap.scorer.model=org/absent"];
    refused(&workplace, 2, &absent, &["hf download org/absent"]);
    fs::create_dir(workplace.path("model")).unwrap();
    let empty = ["--from", "data/sample", "--set", "asap.scorer.model=model"];
    refused(&workplace, 2, &empty, &["asap.scorer.model = 'model'", "tokenizer.json"]);
    for file in ["config.json", "tokenizer.json"] {
        fs::copy(workplace.path("tests/goldens/qwen2").join(file), workplace.path("model").join(file)).unwrap();
    }
    let scored = |workplace: &Workplace| {
        let arguments = ["run", "pipelines/sql/without_anchor.sql", "--from", "data/sample", "--to", "out"];
        workplace.run(&[&arguments[..], &["--set", "asap.scorer.model=model"]].concat())
    };
    check(&scored(&workplace), 2, &["asap.scorer.model = 'model'", "safetensors"]);
    let weights = "tests/goldens/llama/model.safetensors";
    fs::copy(workplace.path(weights), workplace.path("model/model.safetensors")).unwrap();
    check(&scored(&workplace), 2, &["model.safetensors", "model.embed_tokens.weight", "1703", "2000"]);
    assert!(!workplace.path("out").exists());
}

#[test]
fn outputs_that_are_not_ours() {
    let workplace = Workplace::new();
    let run = |to: &str| {
        let arguments = ["run", "pipelines/sql/truncate.sql", "--from", "data/sample", "--limit", "5", "--to", to];
        workplace.run(&[&arguments[..], &["--set", MODEL]].concat())
    };
    fs::create_dir(workplace.path("full")).unwrap();
    fs::write(workplace.path("full/thesis.txt"), "do not touch").unwrap();
    check(&run("full"), 1, &["full exists and is not a table of asap", "thesis.txt"]);
    assert_eq!(fs::read_dir(workplace.path("full")).unwrap().count(), 1);
    check(&run("full/thesis.txt"), 2, &["expected a folder, found the file full/thesis.txt"]);
    assert_eq!(fs::read_to_string(workplace.path("full/thesis.txt")).unwrap(), "do not touch");
    // A run accepts an empty folder, and one that only contains asap's own files or leftovers of a killed run.
    fs::create_dir_all(workplace.path("ours/.asap")).unwrap();
    fs::create_dir_all(workplace.path("ours/_delta_log")).unwrap();
    fs::create_dir_all(workplace.path("ours/asap-0123")).unwrap();
    fs::write(workplace.path("ours/asap-0123/part-00000.zstd.parquet#1"), "half").unwrap();
    run("ours").ok();
    check(&run("pct%41x"), 2, &["pct%41x: a % followed by two hexadecimal digits"]);
    let url = format!("file://{}", workplace.path("parent/url").display());
    run(&url).ok();
    assert!(workplace.path("parent/url/_delta_log").exists() && !workplace.path("parent/.asap").exists());
}

/// A file system of 400 KB that fills up in the middle of the run.
#[test]
fn a_full_file_system_is_an_error_that_leaves_nothing() {
    let workplace = Workplace::new();
    fs::create_dir(workplace.path("small")).unwrap();
    let script = "mount -t tmpfs -o size=400k tmpfs small && \
        { \"$0\" run pipelines/sql/truncate.sql --from data/sample --to small/out --set $1 >&2; code=$?; \
          find small -type f | wc -l; mount -o remount,size=64m small && \
          \"$0\" run pipelines/sql/truncate.sql --from data/sample --to small/out --set $1 >&2 || exit 9; exit $code; }";
    let output = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_asap"), MODEL])
        .current_dir(workplace.path(""))
        .output()
        .unwrap();
    let finished = Finished::from(output);
    assert_eq!(finished.code, 1, "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stderr.contains("No space left on device"), "{}", finished.stderr);
    assert_eq!(finished.stdout.trim(), "0", "files remain");
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

#[test]
fn an_interrupted_run_commits_what_is_finished_and_the_same_command_goes_on() {
    let workplace = Workplace::new();
    let arguments =
        "run pipelines/sql/without_surprisal.sql --from data/sample --to out --slice-rows 50 --commit-every 0s";
    let arguments: Vec<&str> = arguments.split(' ').chain(["--format", "json", "--set", MODEL]).collect();
    let mut child = workplace.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let first = workplace.path("out/_delta_log/00000000000000000001.json");
    while !first.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before the interrupt");
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let finished = Finished::from(child.wait_with_output().unwrap());
    assert_eq!(finished.code, 75, "{}", finished.stderr);
    assert!(finished.stderr.contains("run the same command to resume"), "{}", finished.stderr);
    let done: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    let rest = workplace.run(&arguments).json();
    let rows = |summary: &serde_json::Value| summary["rows_in"].as_u64().unwrap();
    assert!(rows(&done) > 0 && rows(&rest) > 0, "{done} {rest}");
    assert_eq!(rows(&done) + rows(&rest), 2000);
}

#[test]
fn a_refusal_names_a_way_out() {
    let workplace = Workplace::new();
    let inspect = |named: &str| workplace.run(&["inspect", named]).stderr;
    let of_hub = inspect("open-r1/OpenR1-Math-220k");
    assert!(of_hub.contains("hf download --repo-type dataset open-r1/OpenR1-Math-220k"), "{of_hub}");
    assert!(!inspect("./traces").contains("hf download") && !inspect("a/b.parquet").contains("hf download"));
    // The layout of `save_to_disk` of datasets.
    fs::create_dir(workplace.path("saved")).unwrap();
    for file in ["data-00000-of-00001.arrow", "state.json", "dataset_info.json"] {
        fs::write(workplace.path("saved").join(file), "{}").unwrap();
    }
    let saved = inspect("saved");
    assert!(saved.contains("load_from_disk('") && saved.contains("/saved').to_parquet("), "{saved}");
    // Text in a column that is not marked as text.
    let rows = "SELECT arrow_cast('q', 'Binary') AS question, 'c' AS cot, 'a' AS answer";
    workplace.run(&["sql", "-q", "-c", &format!("COPY ({rows}) TO 'binary.parquet'")]).ok();
    let binary = inspect("binary.parquet");
    let command = format!("asap sql -q -c \"{}\"", binary.split("-c \"").nth(1).unwrap().rsplit_once('"').unwrap().0);
    workplace.shell(&command).ok();
    let found = workplace.run(&[
        "sql",
        "-q",
        "--format",
        "csv",
        "--from",
        "converted.parquet",
        "-c",
        "SELECT question FROM corpus",
    ]);
    assert_eq!(found.ok(), "question\nq\n");
}

#[test]
fn files_of_the_same_columns_fail_together() {
    let workplace = Workplace::new();
    for name in ["a", "b", "c"] {
        let copy = format!("COPY (SELECT 'x' AS note, 1 AS n) TO 'in/{name}.parquet'");
        workplace.run(&["sql", "-q", "-c", &copy]).ok();
    }
    let found = workplace.run(&["inspect", "in"]);
    assert_eq!(found.stderr.matches("fit no shape").count(), 1, "{}", found.stderr);
    assert!(found.stderr.contains("the same holds for b.parquet, c.parquet"), "{}", found.stderr);
    let run = workplace.run(&["run", "truncate", "--from", "in", "--to", "out"]);
    assert_eq!(run.stderr.matches("fit no shape").count(), 1, "{}", run.stderr);
}
