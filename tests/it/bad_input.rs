//! Bad input gives one clear error that names the cause, and leaves nothing half-written.

use std::fs;
use std::process::Command;

use crate::common::{Finished, Workplace};

/// A small model, independent of the one in `data`.
const MODEL: &str = "asap.scorer.model=tests/goldens/qwen2";

/// Runs a command that must fail with every text of `named` in its message, and leave no output.
#[track_caller]
fn refused(workplace: &Workplace, code: i32, arguments: &[&str], named: &[&str]) {
    let mut all = vec!["run", "pipelines/sql/truncate.sql", "--to", "out"];
    all.extend(arguments);
    check(workplace.run(&all), code, named);
    assert!(!workplace.path("out").exists(), "something was written");
}

#[track_caller]
fn check(finished: Finished, code: i32, named: &[&str]) {
    let Finished { stdout, stderr, .. } = finished.ends(code, named);
    assert_eq!(stdout, "");
    assert!(stderr.starts_with("error: "), "{stderr}");
}

#[test]
fn locations_that_hold_no_corpus() {
    let workplace = Workplace::new();
    refused(&workplace, 1, &["--from", "nowhere"], &["there is no file or folder nowhere\n"]);
    fs::create_dir(workplace.path("empty")).unwrap();
    refused(&workplace, 1, &["--from", "emty"], &["there is no file or folder emty (did you mean empty?)"]);
    let early = workplace.run(["run", "pipelines/sql/truncate.sql", "--to", "out", "--from", "empty"]);
    assert!(
        early.ok().contains("nothing to do")
            && early.stderr.contains("note: no Parquet files (*.parquet) or JSON lines (*.jsonl) found in empty")
    );
    assert!(!workplace.path("out").exists(), "something was written");
    workplace.write("json/a.jsonl", "{\"question\": \"q\"}\n");
    refused(&workplace, 1, &["--from", "json"], &["json/a.jsonl", "fit no shape", "question (text)"]);
    workplace.write("json/a.jsonl", "{\"question\": \"q");
    refused(&workplace, 1, &["--from", "json"], &["line 1 of", "json/a.jsonl", "not a complete JSON object"]);
    workplace.write("a.csv", "question,cot\nq,c\n");
    refused(&workplace, 1, &["--from", "a.csv"], &["a.csv", "CSV", "COPY"]);
    workplace.write("fake.parquet", "not a table");
    refused(&workplace, 1, &["--from", "fake.parquet"], &["fake.parquet is not a Parquet file"]);
    workplace.copy("SELECT 'q' AS question, 'c' AS cot, 'a' AS answer", "whole.parquet");
    let bytes = fs::read(workplace.path("whole.parquet")).unwrap();
    workplace.write("cut.parquet", &bytes[..bytes.len() - 20]);
    refused(&workplace, 1, &["--from", "cut.parquet"], &["cut.parquet", "cut short"]);
}

#[test]
fn columns_that_are_not_a_corpus() {
    let workplace = Workplace::new();
    workplace.copy("SELECT 1 AS \"Alpha\", 'x' AS beta", "odd.parquet");
    refused(&workplace, 1, &["--from", "odd.parquet"], &["Alpha", "beta", "--columns"]);
    refused(&workplace, 2, &["--from", "odd.parquet", "--columns", "question"], &["question=", "cot="]);
    let missing = ["--from", "odd.parquet", "--columns", "question=Alpha,cot=gamma,answer=beta"];
    refused(&workplace, 2, &missing, &["odd.parquet has no column gamma", "beta (text)"]);
    workplace.copy("SELECT 1 AS question, 'c' AS cot, 'a' AS answer", "typed.parquet");
    refused(&workplace, 1, &["--from", "typed.parquet"], &["question", "Int64", "typed.parquet"]);
}

#[test]
fn damage_within_a_file_is_reported_with_its_name() {
    let workplace = Workplace::new();
    for name in ["a", "b", "c"] {
        let rows = "SELECT 'q' || value AS question, repeat(md5(CAST(value AS VARCHAR)), 20) AS cot, 'a' AS answer FROM range(3000)";
        workplace.copy(rows, &format!("many/{name}.parquet"));
    }
    let path = workplace.path("many/b.parquet");
    let mut bytes = fs::read(&path).unwrap();
    let pages = bytes.len() / 4..bytes.len() / 2;
    bytes[pages].fill(0x5a);
    fs::write(path, bytes).unwrap();
    let query = |sql: &str| workplace.run(["sql", "-q", "--from", "many", "-c", sql]);
    check(query("SELECT count(DISTINCT cot) FROM corpus"), 1, &["many/b.parquet"]);
    query("SELECT count(*) FROM corpus").ok();
}

#[test]
fn settings_that_do_not_exist_or_have_the_wrong_type() {
    let workplace = Workplace::new();
    for (setting, named) in [
        ("asap.refine.max_token=3", &["did you mean asap.refine.max_tokens?"][..]),
        ("asap.refine.max_tokens=few", &["asap.refine.max_tokens takes", "few"]),
        ("asap.match.threshold", &["KEY=VALUE"]),
    ] {
        refused(&workplace, 2, &["--from", "data/sample", "--set", setting], named);
    }
    refused(&workplace, 2, &["--from", "data/sample", "--config", "no.toml"], &["no.toml"]);
    workplace.write("asap.toml", "[scorer]\nmodle = 'x'\n");
    refused(&workplace, 2, &["--from", "data/sample"], &["asap.scorer.model?", "asap.toml"]);
}

#[test]
fn variables_that_are_nearly_settings() {
    let workplace = Workplace::new();
    let given = |name: &str, value: &str, more: &[&str]| {
        let mut command = workplace.command([&["sql", "-q", "-c", "SELECT 1"], more].concat());
        Finished::of(command.env(name, value))
    };
    given("ASAP_REFINE_MAX_TOKEN", "5", &[])
        .ends(2, &["ASAP_REFINE_MAX_TOKEN is not a setting; did you mean ASAP_REFINE_MAX_TOKENS?"]);
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
fn text_that_the_scoring_model_does_not_know_is_reported_once() {
    let workplace = Workplace::new();
    let printed = |steps: &str| {
        let query = format!("SELECT count(cot_surprisal('q' || value, {steps})) FROM generate_series(1, 150)");
        workplace.run(["sql", "-q", "-c", &query]).ends(0, &[]).stderr.matches("no likelier than chance").count()
    };
    assert_eq!(printed("['让我们计算一下', '所以答案是' || value, '再检查一遍']"), 1);
    assert_eq!(printed("['We have 2 + 2 = 4.', 'So it is ' || value || '.', 'The answer is 4.']"), 0);
}

#[test]
fn models_that_cannot_be_loaded() {
    let workplace = Workplace::new();
    fs::create_dir(workplace.path("model")).unwrap();
    for (model, named) in [
        ("nowhere", &["asap.scorer.model = 'nowhere'", "there is no folder nowhere", "'small'"][..]),
        ("org/absent", &["hf download org/absent"]),
        ("model", &["asap.scorer.model = 'model'", "tokenizer.json"]),
    ] {
        refused(&workplace, 2, &["--from", "data/sample", "--set", &format!("asap.scorer.model={model}")], named);
    }
    for file in ["config.json", "tokenizer.json"] {
        fs::copy(workplace.path("tests/goldens/qwen2").join(file), workplace.path("model").join(file)).unwrap();
    }
    let scored = |workplace: &Workplace| {
        workplace.run("run without_anchor --from data/sample --to out --set asap.scorer.model=model".split(' '))
    };
    check(scored(&workplace), 2, &["asap.scorer.model = 'model'", "safetensors"]);
    let weights = "tests/goldens/llama/model.safetensors";
    fs::copy(workplace.path(weights), workplace.path("model/model.safetensors")).unwrap();
    check(scored(&workplace), 2, &["model.safetensors", "model.embed_tokens.weight", "1703", "2000"]);
    assert!(!workplace.path("out").exists());
}

#[test]
fn outputs_that_are_not_ours() {
    let workplace = Workplace::new();
    let run = |to: &str| {
        workplace.run(["run", "truncate", "--from", "data/sample", "--limit", "5", "--to", to, "--set", MODEL])
    };
    workplace.write("full/thesis.txt", "do not touch");
    check(run("full"), 1, &["full exists and is not a table of asap", "thesis.txt"]);
    assert_eq!(fs::read_dir(workplace.path("full")).unwrap().count(), 1);
    check(run("full/thesis.txt"), 2, &["expected a folder, found the file full/thesis.txt"]);
    assert_eq!(fs::read_to_string(workplace.path("full/thesis.txt")).unwrap(), "do not touch");
    // A run accepts an empty folder, and one that only contains asap's own files or leftovers of a killed run.
    fs::create_dir_all(workplace.path("ours/.asap")).unwrap();
    fs::create_dir_all(workplace.path("ours/_delta_log")).unwrap();
    workplace.write("ours/asap-0123/part-00000.zstd.parquet#1", "half");
    run("ours").ok();
    check(run("pct%41x"), 2, &["pct%41x: a % followed by two hexadecimal digits"]);
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
    let mut shell = Command::new("unshare");
    shell.args(["--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_asap"), MODEL]);
    let finished = Finished::of(shell.current_dir(workplace.path(""))).ends(75, &["No space left on device"]);
    assert_eq!(finished.stdout.trim(), "0", "files remain");
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

#[test]
fn a_refusal_names_a_way_out() {
    let workplace = Workplace::new();
    let inspect = |named: &str| workplace.run(["inspect", named]).stderr;
    let of_hub = inspect("open-r1/OpenR1-Math-220k");
    assert!(of_hub.contains("hf download --repo-type dataset open-r1/OpenR1-Math-220k"), "{of_hub}");
    assert!(!inspect("./traces").contains("hf download") && !inspect("a/b.parquet").contains("hf download"));
    // The layout of `save_to_disk` of datasets.
    for file in ["data-00000-of-00001.arrow", "state.json", "dataset_info.json"] {
        workplace.write(&format!("saved/{file}"), "{}");
    }
    let saved = inspect("saved");
    assert!(saved.contains("load_from_disk('") && saved.contains("/saved').to_parquet("), "{saved}");
    // Text in a column that is not marked as text.
    let rows = "SELECT arrow_cast('q', 'Binary') AS question, 'c' AS cot, 'a' AS answer";
    workplace.copy(rows, "binary.parquet");
    let binary = inspect("binary.parquet");
    let command = format!("asap sql -q -c \"{}\"", binary.split("-c \"").nth(1).unwrap().rsplit_once('"').unwrap().0);
    workplace.shell(&command).ok();
    assert_eq!(workplace.csv(&["SELECT question FROM cot_corpus('converted.parquet')"]), "question\nq\n");
}

#[test]
fn files_of_the_same_columns_fail_together() {
    let workplace = Workplace::new();
    for name in ["a", "b", "c"] {
        workplace.copy("SELECT 'x' AS note, 1 AS n", &format!("in/{name}.parquet"));
    }
    let found = workplace.run(["inspect", "in"]);
    assert!(found.stderr.contains("the same holds for b.parquet, c.parquet"), "{}", found.stderr);
    let run = workplace.run(["run", "truncate", "--from", "in", "--to", "out"]);
    for printed in [found.stderr, run.stderr] {
        assert_eq!(printed.matches("fit no shape").count(), 1, "{printed}");
    }
}
