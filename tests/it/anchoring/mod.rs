//! Anchoring by a language model from the user's view: cost, answer cache, refusals and output.

mod dry_run;
mod endpoint;
mod tls;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{Finished, Workplace};
use crate::server::{Call, Reply, Server};
use serde_json::Value;

/// The environment variable of the key, and the key.
const KEY: (&str, &str) = ("LLM_KEY", "sk-0123456789-do-not-show");

/// A model that writes a thought for each question, and keeps the second and the last step of a chain.
fn model(call: &Call) -> Reply {
    let steps: Vec<&str> = call.between("chain_of_thought").split("\n\n").collect();
    match (steps.as_slice(), call.between("problem")) {
        ([_, second, .., last], _) => Reply::Text(format!("{second}\n\n{last}")),
        (_, problem) => Reply::Text(format!("Add the number of {problem} to itself.")),
    }
}

/// Writes `rows` distinct rows of four short steps each.
fn corpus(workplace: &Workplace, rows: usize) {
    std::fs::create_dir_all(workplace.path("in")).unwrap();
    let chain = "'We add ' || v || E' to itself.\\n\\nIt is ' || v || ' + ' || v || E'.\\n\\nOr is it ' || (3 * v) || E'?\\n\\nSo ' || (2 * v) || '.'";
    let query = format!(
        "SELECT 'What is twice ' || v || '?' AS question, {chain} AS cot, 'It is ' || (2 * v) || '.' AS answer \
         FROM (SELECT value AS v FROM generate_series(1, {rows}))"
    );
    workplace.run(&["sql", "-q", "-c", &format!("COPY ({query}) TO 'in/rows.parquet'")]).ok();
}

fn settings(server: &Server, more: &[&str]) -> Vec<String> {
    let base_url = format!("anchor.base_url={}", server.base_url());
    let given = [
        "scorer.model=tests/goldens/qwen2",
        "anchor.provider=openai",
        &base_url,
        "anchor.model=test-model",
        "anchor.max_tokens=256",
        "anchor.max_retries=1",
    ];
    let all = given.iter().chain(more).map(|setting| format!("asap.{setting}"));
    all.flat_map(|setting| ["--set".to_string(), setting]).collect()
}

fn run_arguments(pipeline: &str, to: &str, server: &Server, more: &[&str]) -> Vec<String> {
    let pipeline = format!("pipelines/sql/{pipeline}.sql");
    let run = ["run", &pipeline, "--from", "in", "--to", to, "--format", "json"].map(str::to_string);
    run.into_iter().chain(settings(server, more)).collect()
}

fn execute(workplace: &Workplace, arguments: &[String]) -> Finished {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    workplace.run(&arguments)
}

fn run(workplace: &Workplace, to: &str, server: &Server, more: &[&str]) -> Finished {
    execute(workplace, &run_arguments("asap", to, server, more))
}

fn paid(summary: &Value) -> (u64, u64) {
    (summary["anchor"]["calls"].as_u64().unwrap(), summary["anchor"]["cache_hits"].as_u64().unwrap())
}

fn query(workplace: &Workplace, table: &str, format: &str, query: &str) -> String {
    let create = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{table}'");
    workplace.run(&["sql", "-q", "--format", format, "-c", &create, "-c", query]).ok().to_string()
}

/// Copies the answer cache of an output to a new output.
fn take_answers(workplace: &Workplace, from: &str, to: &str) {
    let (from, to) = (workplace.path(&format!("{from}/.asap/cache")), workplace.path(&format!("{to}/.asap/cache")));
    std::fs::create_dir_all(&to).unwrap();
    for entry in from.read_dir().unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn what_was_paid_once_is_not_paid_again_unless_the_request_changes() {
    let workplace = Workplace::new();
    corpus(&workplace, 12);
    let server = Server::start(model);
    let prices = ["anchor.price_per_million_input_tokens=1000", "anchor.price_per_million_output_tokens=10000"];
    let summary = run(&workplace, "a", &server, &prices).json();
    assert_eq!((summary["rows_out"].as_u64(), paid(&summary)), (Some(12), (24, 0)));
    let anchor = &summary["anchor"];
    assert_eq!((anchor["tokens_in"].as_u64(), anchor["tokens_out"].as_u64()), (Some(2400), Some(240)));
    assert_eq!((anchor["retries"].as_u64(), anchor["cost"].as_f64().unwrap().round()), (Some(0), 5.0));
    let row = "SELECT anchor, anchor_tokens_in AS i, anchor_tokens_out AS o, cached, array_length(steps) AS steps \
               FROM t WHERE source['row'] = 4";
    let held = "anchor,i,o,cached,steps\nAdd the number of What is twice 5? to itself.,200,20,";
    assert_eq!(query(&workplace, "a", "csv", row), format!("{held}false,4\n"));
    assert_eq!(run(&workplace, "a", &server, &[]).json()["nothing_to_do"], true);

    take_answers(&workplace, "a", "b");
    assert_eq!(paid(&run(&workplace, "b", &server, &["anchor.timeout=20"]).json()), (0, 24));
    assert_eq!(query(&workplace, "b", "csv", row), format!("{held}true,4\n"));
    assert_eq!(server.count(), 24);

    take_answers(&workplace, "a", "c");
    assert_eq!(paid(&run(&workplace, "c", &server, &["anchor.model=other"]).json()), (24, 0));
    let refused = run(&workplace, "a", &server, &["anchor.model=other"]);
    assert!(
        refused.code == 1 && refused.stderr.contains("asap.anchor.model ('test-model' there, 'other' here)"),
        "{}",
        refused.stderr
    );

    std::fs::create_dir(workplace.path("prompts")).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("udfs/src/anchor/prompts");
    for (name, more) in [("anchor.md", ""), ("coarse.md", "\nBe brief.\n")] {
        let text = std::fs::read_to_string(shipped.join(name)).unwrap();
        std::fs::write(workplace.path("prompts").join(name), text + more).unwrap();
    }
    take_answers(&workplace, "a", "d");
    assert_eq!(paid(&run(&workplace, "d", &server, &["anchor.prompt_dir=prompts"]).json()), (12, 12));
    std::fs::write(workplace.path("prompts/coarse.md"), "{cot} {thought}").unwrap();
    let refused = run(&workplace, "e", &server, &["anchor.prompt_dir=prompts"]);
    assert!(refused.code == 2 && refused.stderr.contains("found {thought}"), "{}", refused.stderr);
    assert!(!workplace.path("e").exists());
}

fn dice(seed: u64, below: usize) -> usize {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize % below
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_as_one_that_is_not_and_pays_once() {
    const ROWS: usize = 2000;
    const KILLS: usize = 20;
    const AT_ONCE: usize = 32;
    let workplace = Workplace::new();
    corpus(&workplace, ROWS);
    let slow = |call: &Call| Reply::After(Duration::from_millis(2), Box::new(model(call)));
    let settings = ["anchor.max_concurrent_requests=32"];
    let whole = Server::start(slow);
    execute(&workplace, &run_arguments("without_surprisal", "whole", &whole, &settings)).ok();
    assert_eq!(whole.count(), 2 * ROWS);

    let server = Server::start(slow);
    let arguments = run_arguments("without_surprisal", "killed", &server, &settings);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for kill in 0..KILLS {
        let end = server.count() + 1 + dice(kill as u64, 2 * ROWS / KILLS - 1);
        let mut child = workplace.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while server.count() < end {
            assert!(child.try_wait().unwrap().is_none(), "it ended before kill {kill}");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!workplace.path("killed/_delta_log").exists());
    }
    let summary = workplace.run(&arguments).json();
    assert_eq!(summary["rows_out"].as_u64(), Some(ROWS as u64));
    assert!(paid(&summary).1 > 0);
    let rows = "SELECT * EXCEPT (cached) FROM t ORDER BY source['row']";
    let [killed, whole] = ["killed", "whole"].map(|table| query(&workplace, table, "nd-json", rows));
    assert!(killed == whole && killed.lines().count() == ROWS, "rows differ");
    let paid_twice = server.answered() - 2 * ROWS;
    assert!(paid_twice <= KILLS * (AT_ONCE + 64), "{paid_twice} calls were paid twice");
}

#[test]
fn a_spent_budget_ends_the_run_and_the_same_command_goes_on() {
    let workplace = Workplace::new();
    corpus(&workplace, 20);
    let server = Server::start(|call| Reply::After(Duration::from_millis(20), Box::new(model(call))));
    let refused = run(&workplace, "out", &server, &["anchor.max_calls=10"]);
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    for part in
        ["the budget is spent after 10 calls (1000 tokens in, 100 out", "asap.anchor.max_calls is 10", "is kept"]
    {
        assert!(refused.stderr.contains(part), "{part} in {}", refused.stderr);
    }
    assert!(!workplace.path("out/_delta_log").exists());

    let mut estimate = run_arguments("asap", "out", &server, &["anchor.price_per_million_input_tokens=1"]);
    estimate.push("--dry-run".to_string());
    assert_eq!(paid(&execute(&workplace, &estimate).json()), (30, 10));
    assert_eq!(server.count(), 10);
    assert_eq!(paid(&run(&workplace, "out", &server, &[]).json()), (30, 10));
    assert_eq!(server.count(), 40);
}

/// A pipeline that does not expose a failed call.
fn silent_pipeline(workplace: &Workplace) {
    let sql = "SELECT source, question, cot, answer, ai_complete(question) AS said, status, error FROM corpus";
    std::fs::write(workplace.path("silent.sql"), sql).unwrap();
}

fn run_silent(workplace: &Workplace, server: &Server, more: &[&str]) -> Finished {
    let given = ["run", "silent.sql", "--from", "in", "--to", "out", "--format", "json"].map(str::to_string);
    execute(workplace, &given.into_iter().chain(settings(server, more)).collect::<Vec<_>>())
}

#[test]
fn a_run_ends_by_its_budget_also_where_the_pipeline_does_not_show_it() {
    let workplace = Workplace::new();
    corpus(&workplace, 10);
    silent_pipeline(&workplace);
    let server = Server::start(|_| Reply::text("yes"));
    let refused = run_silent(&workplace, &server, &["anchor.max_calls=4"]);
    assert!(refused.code == 1 && refused.stderr.contains("budget is spent after 4 calls"), "{}", refused.stderr);
    assert!(!workplace.path("out/_delta_log").exists());
    let summary = run_silent(&workplace, &server, &["anchor.max_calls=6"]).json();
    assert_eq!((summary["rows_out"].as_u64(), paid(&summary)), (Some(10), (6, 4)));
}

#[test]
fn failures_that_the_pipeline_does_not_show_are_counted() {
    let workplace = Workplace::new();
    corpus(&workplace, 5);
    silent_pipeline(&workplace);
    let server = Server::start(|call| match call.number {
        0 => Reply::error(400, "no"),
        _ => Reply::text("yes"),
    });
    let summary = run_silent(&workplace, &server, &["anchor.max_concurrent_requests=1"]).json();
    assert_eq!((summary["rows_out"].as_u64(), summary["anchor"]["failed"].as_u64()), (Some(5), Some(1)));
}

#[test]
fn an_endpoint_that_is_down_or_denies_ends_the_run_before_it_rejects_a_lake() {
    let workplace = Workplace::new();
    corpus(&workplace, 200);
    // The first window, plus the calls that start before enough failures stop the run.
    for (status, said, most) in
        [(503, "asap.anchor.max_error_rate = 0.5", 8 + 20), (402, "the last 3 calls to http://127.0.0.1", 8 + 3)]
    {
        let server = Server::start(move |_| Reply::error(status, "gone fishing"));
        let failed = run(&workplace, "out", &server, &["anchor.max_retries=0"]);
        assert_eq!(failed.code, 1, "{}", failed.stdout);
        for part in ["calls to http://127.0.0.1", said, "gone fishing"] {
            assert!(failed.stderr.contains(part), "{part} in {}", failed.stderr);
        }
        assert!(server.count() <= most, "{} requests after {status}", server.count());
        assert!(!workplace.path("out/_delta_log").exists());
    }
}

#[test]
fn a_run_that_no_call_answers_commits_nothing_and_can_be_repeated() {
    let workplace = Workplace::new();
    corpus(&workplace, 2);
    let server = Server::start(|call| if call.number < 2 { Reply::error(401, "wrong key") } else { model(call) });
    let failed = run(&workplace, "out", &server, &[]);
    let said = "none of 2 calls was answered; the last failure: denied: 401: wrong key";
    assert!(failed.code == 1 && failed.stderr.contains(said), "{}", failed.stderr);
    assert!(!workplace.path("out/_delta_log").exists());
    assert_eq!(run(&workplace, "out", &server, &[]).json()["rows_out"].as_u64(), Some(2));
}

#[test]
fn calls_under_way_are_kept_when_a_run_ends_early() {
    let workplace = Workplace::new();
    corpus(&workplace, 30);
    // Three denials end the run while the others are in flight.
    let server = Server::start(|call| match call.number {
        0..3 => Reply::After(Duration::from_millis(300), Box::new(Reply::error(403, "no"))),
        _ => Reply::After(Duration::from_secs(1), Box::new(model(call))),
    });
    let settings = ["anchor.max_concurrent_requests=16", "anchor.max_retries=0", "on_error=fail"];
    let failed = run(&workplace, "out", &server, &settings);
    assert!(failed.code == 1 && failed.stderr.contains("denied"), "{}", failed.stderr);
    let answered = server.count() - 3;
    let stats = workplace.run(&["cache", "stats", "out", "--format", "json"]).json();
    assert_eq!(stats["answers"].as_u64(), Some(answered as u64), "{stats}");
    assert!(answered >= 5, "{answered}");
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in folder.read_dir().unwrap().map(Result::unwrap) {
        match entry.path().is_dir() {
            true => files(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}

#[test]
fn the_key_is_sent_and_shown_nowhere() {
    let workplace = Workplace::new();
    corpus(&workplace, 6);
    // The server echoes the request as an answer, a refusal and a failure.
    let server = Server::start(|call| {
        let header = call.head.lines().find(|line| line.starts_with("authorization")).unwrap_or_default();
        match call.number % 4 {
            0 => Reply::error(400, header),
            1 => Reply::error(503, header),
            2 => Reply::Text(format!("{header}\n\n{header}")),
            _ => model(call),
        }
    });
    let (variable, key) = KEY;
    let named = format!("anchor.api_key_env={variable}");
    let explain =
        ["sql", "--from", "in", "-c", "EXPLAIN ANALYZE VERBOSE SELECT cot_anchor(question, answer) FROM corpus"];
    let explain = explain.map(str::to_string).into_iter().chain(settings(&server, &[&named]));
    let mut texts = Vec::new();
    for arguments in [run_arguments("asap", "out", &server, &[&named]), explain.collect()] {
        let mut command = workplace.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.env(variable, key).env("XDG_CACHE_HOME", workplace.path("caches"));
        let finished = Finished::from(command.env("RUST_LOG", "trace").output().unwrap());
        finished.ok();
        texts.extend([finished.stdout.into_bytes(), finished.stderr.into_bytes()]);
    }
    let mut written = Vec::new();
    files(&workplace.path("out"), &mut written);
    files(&workplace.path("caches"), &mut written);
    let is_answers = |path: &&std::path::PathBuf| path.to_string_lossy().ends_with(".answers.parquet");
    assert!(written.iter().filter(is_answers).count() >= 2);
    let read = workplace.run(&["sql", "-q", "--format", "csv", "-c", "SELECT status, answer FROM 'out/.asap/cache'"]);
    assert!(read.ok().lines().count() > 2, "{}", read.stdout);
    texts.push(read.stdout.into_bytes());
    texts.extend(written.iter().map(|path| std::fs::read(path).unwrap()));
    assert!(texts.iter().all(|text| !text.windows(key.len()).any(|window| window == key.as_bytes())));
    assert!(server.calls().iter().all(|call| call.head.contains(&format!("authorization: Bearer {key}"))));
}

/// The arguments of `asap sql` over the corpus with `server` as the language model.
fn sql(workplace: &Workplace, server: &Server, more: &[&str], commands: &[&str]) -> Finished {
    let mut arguments = vec!["sql".to_string(), "-q".to_string(), "--from".to_string(), "in".to_string()];
    arguments.extend(["--format".to_string(), "csv".to_string()]);
    arguments.extend(commands.iter().flat_map(|command| ["-c".to_string(), command.to_string()]));
    arguments.extend(settings(server, more));
    let mut command = workplace.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    Finished::from(command.env("XDG_CACHE_HOME", workplace.path("caches")).output().unwrap())
}

#[test]
fn small_batches_do_not_keep_the_server_idle() {
    let workplace = Workplace::new();
    corpus(&workplace, 130);
    let server = Server::start(|_| Reply::After(Duration::from_millis(500), Box::new(Reply::text("yes"))));
    let commands = ["SET datafusion.execution.batch_size = 8", "SELECT count(ai_complete(question)) AS n FROM corpus"];
    assert_eq!(sql(&workplace, &server, &[], &commands).ok(), "n\n130\n");
    assert_eq!((server.count(), server.most_at_once()), (130, 64));
}

#[test]
fn a_query_shows_its_calls_and_the_next_finds_their_answers() {
    let workplace = Workplace::new();
    corpus(&workplace, 7);
    let server = Server::start(|call| match call.number {
        0 => Reply::error(503, "busy"),
        _ => Reply::text("yes"),
    });
    let explain = "EXPLAIN ANALYZE SELECT ai_complete(question), ai_complete('Is ' || 'it so?') FROM corpus";
    let shown = sql(&workplace, &server, &[], &[explain]);
    // Seven equal requests make one call.
    for counter in
        ["calls=9", "cache_hits=6", "retries=1", "tokens_in=800", "tokens_out=80", "time_waited=", "rows_in_flight="]
    {
        assert!(shown.ok().contains(counter), "{counter} in {}", shown.stdout);
    }
    let again = sql(&workplace, &server, &[], &["SELECT DISTINCT ai_complete(question) AS said FROM corpus"]);
    assert_eq!((again.ok(), server.count()), ("said\nyes\n", 9));
    let late = ["SET asap.anchor.provider = 'extractive'", "SELECT ai_complete('x')"];
    let refused = sql(&workplace, &server, &[], &late);
    assert!(refused.code != 0 && refused.stderr.contains("asks no language model"), "{}", refused.stderr);
}

#[test]
fn a_local_model_is_asked_without_a_server_and_remembered() {
    let workplace = Workplace::new();
    corpus(&workplace, 5);
    let run = |to: &str| {
        let base = ["run", "pipelines/sql/without_surprisal.sql", "--from", "in", "--to", to, "--format", "json"];
        let sets = [
            "--set",
            "asap.anchor.provider=local",
            "--set",
            "asap.anchor.model=data/model",
            "--set",
            "asap.anchor.max_tokens=40",
        ];
        // The model is too small for useful answers.
        let finished = workplace.run(&[&base[..], &sets[..]].concat());
        assert_eq!(finished.code, 3, "{}", finished.stderr);
        serde_json::from_str::<Value>(&finished.stdout).unwrap()
    };
    let summary = run("a");
    assert_eq!(summary["rows_out"].as_u64().unwrap() + summary["rows_rejected"].as_u64().unwrap(), 5);
    assert!(paid(&summary).0 >= 5 && summary["anchor"]["tokens_out"].as_u64().unwrap() >= 5, "{summary}");
    take_answers(&workplace, "a", "b");
    let again = run("b");
    assert_eq!((paid(&again).0, &again["rejects"]), (0, &summary["rejects"]));
    let long = ["-c", "SET asap.anchor.provider = 'local'", "-c", "SET asap.anchor.model = 'tests/goldens/qwen2'"];
    let ask = "SELECT cot_anchor('q', repeat('7 ', 5000))['error'] AS error";
    let error = workplace.shell(&format!(
        "XDG_CACHE_HOME=caches asap sql -q --format csv -c \"{}\" -c \"{}\" -c \"{ask}\"",
        long[1], long[3]
    ));
    assert!(error.ok().contains("the model's window is 4096"), "{}", error.stdout);
}

#[test]
fn what_may_be_spent_holds_for_all_runs_of_an_output_on_a_day() {
    let workplace = Workplace::new();
    corpus(&workplace, 40);
    let server = Server::start(model);
    // A call costs 1 and reserves a little more.
    let prices =
        ["anchor.price_per_million_output_tokens=100000", "anchor.max_tokens=20", "anchor.max_concurrent_requests=2"];
    let attempt = |most: &str| {
        let most = format!("anchor.max_cost={most}");
        run(&workplace, "a", &server, &[&prices[..], &[&most, "anchor.max_retries=0"]].concat())
    };
    let spent = |most: &str| {
        let finished = attempt(most);
        assert_eq!(finished.code, 1, "{}", finished.stderr);
        assert!(finished.stderr.contains("is spent on this output today"), "{}", finished.stderr);
    };
    spent("11");
    assert!((8..=11).contains(&server.count()), "{} calls for 11", server.count());
    // A cheaper call may still fit. The day's limit is never exceeded.
    spent("11");
    assert!((8..=11).contains(&server.count()), "{} calls for 11", server.count());
    spent("31");
    assert!((26..=31).contains(&server.count()), "{} calls for 31", server.count());
    attempt("200").ok();
    assert_eq!(server.count(), 80);
}

#[test]
fn what_answers_cost_above_their_reservations_counts_for_the_day() {
    let workplace = Workplace::new();
    corpus(&workplace, 40);
    // Reasoning that max_tokens does not limit: each answer costs 10 times its reservation.
    let server = Server::start(|call| match model(call) {
        Reply::Text(text) => {
            let answer = serde_json::json!({
                "choices": [{ "message": { "content": text }, "finish_reason": "stop" }],
                "usage": { "prompt_tokens": 100, "completion_tokens": 200 },
            });
            Reply::After(Duration::from_millis(100), Box::new(Reply::Json(answer)))
        }
        reply => reply,
    });
    let settings = [
        "anchor.price_per_million_output_tokens=50000",
        "anchor.max_tokens=20",
        "anchor.max_concurrent_requests=8",
        "anchor.max_cost=11",
    ];
    for _ in 0..3 {
        let failed = run(&workplace, "a", &server, &settings);
        assert!(failed.code == 1 && failed.stderr.contains("is spent on this output today"), "{}", failed.stderr);
        // The cost of the first 8 calls is known only after their answers.
        assert_eq!(server.count(), 8);
    }
    let failed = run(&workplace, "a", &server, &settings);
    assert!(failed.stderr.contains("80.000000 is spent"), "{}", failed.stderr);
}

fn both(workplace: &Workplace, arguments: &[String]) -> [i32; 2] {
    let start = || {
        let mut command = workplace.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.env("XDG_CACHE_HOME", workplace.path("caches"));
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    [start(), start()].map(|mut child| child.wait().unwrap().code().unwrap())
}

#[test]
fn two_processes_pay_for_a_request_once() {
    let slow = |call: &Call| Reply::After(std::time::Duration::from_millis(100), Box::new(model(call)));
    let workplace = Workplace::new();
    corpus(&workplace, 60);
    let server = Server::start(move |call| slow(call));
    // One slice, so both request the same rows at the same time.
    let codes = both(&workplace, &run_arguments("asap", "out", &server, &["anchor.max_concurrent_requests=8"]));
    assert!(codes.contains(&0) && codes.iter().all(|code| [0, 4].contains(code)), "{codes:?}");
    assert_eq!(server.count(), 120);

    let server = Server::start(move |call| slow(call));
    let query = ["sql", "-q", "--from", "in", "-c", "SELECT count(ai_complete(question)) AS n FROM corpus"];
    let mut arguments = query.map(str::to_string).to_vec();
    arguments.extend(settings(&server, &["anchor.max_concurrent_requests=8"]));
    assert_eq!(both(&workplace, &arguments), [0, 0]);
    assert_eq!(server.count(), 60);
}

#[test]
fn a_request_that_a_killed_process_claimed_is_asked_for_again() {
    let workplace = Workplace::new();
    corpus(&workplace, 4);
    let silent = Server::start(|_| Reply::Hang);
    let arguments = run_arguments("asap", "out", &silent, &[]);
    let mut command = workplace.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    while silent.count() < 4 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let server = Server::start(model);
    run(&workplace, "out", &server, &[]).ok();
    assert_eq!(server.count(), 8);
}
