//! Anchoring by a language model from the user's view: cost, answer cache, refusals and output.

mod dry_run;
mod endpoint;
mod forms;
mod tls;

use std::process::Stdio;
use std::time::Duration;

use crate::common::{Finished, Workplace, files_below, root};
use crate::runs::place::Running;
use asap_test_support::{Call, Reply, Server};
use serde_json::Value;

/// A model that writes a thought for each question, and keeps the second and the last step of a chain.
fn model(call: &Call) -> Reply {
    let steps: Vec<&str> = call.between("chain_of_thought").split("\n\n").collect();
    match (steps.as_slice(), call.between("problem")) {
        ([_, second, .., last], _) => Reply::Text(format!("{second}\n\n{last}")),
        (_, problem) => Reply::Text(format!("Add the number of {problem} to itself.")),
    }
}

/// A workplace with `rows` distinct rows of four short steps each.
fn corpus(rows: usize) -> Workplace {
    let workplace = Workplace::new();
    let chain = "'We add ' || v || E' to itself.\\n\\nIt is ' || v || ' + ' || v || E'.\\n\\nOr is it ' || (3 * v) || E'?\\n\\nSo ' || (2 * v) || '.'";
    let query = format!(
        "SELECT 'What is twice ' || v || '?' AS question, {chain} AS cot, 'It is ' || (2 * v) || '.' AS answer \
         FROM (SELECT value AS v FROM generate_series(1, {rows}))"
    );
    workplace.copy(&query, "in/rows.parquet");
    workplace
}

/// Calls `server` from now on.
fn ask(workplace: &Workplace, server: &Server) {
    let base_url = server.base_url();
    let anchor = "provider = 'openai'\nmodel = 'test-model'\nmax_tokens = 256\nmax_retries = 1";
    let settings = format!("scorer.model = 'tests/goldens/qwen2'\n[anchor]\n{anchor}\nbase_url = '{base_url}'\n");
    workplace.write("asap.toml", settings);
}

/// The arguments of a run with settings.
fn arguments<'a>(pipeline: &'a str, to: &'a str, settings: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", pipeline, "--from", "in", "--to", to, "--format", "json"];
    run.into_iter().chain(settings.iter().flat_map(|setting| ["--set", setting])).collect()
}

fn run(workplace: &Workplace, to: &str, server: &Server, settings: &[&str]) -> Finished {
    ask(workplace, server);
    workplace.run(arguments("asap", to, settings))
}

/// Checks that a run failed with a code and each of the texts, and committed nothing.
#[track_caller]
fn commits_nothing(workplace: &Workplace, run: Finished, code: i32, texts: &[&str]) {
    run.ends(code, texts);
    assert!(!workplace.path("out/_delta_log").exists());
}

fn paid(summary: &Value) -> (u64, u64) {
    (summary["anchor"]["calls"].as_u64().unwrap(), summary["anchor"]["cache_hits"].as_u64().unwrap())
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
    let workplace = corpus(12);
    let server = Server::start(model);
    let prices =
        ["asap.anchor.price_per_million_input_tokens=1000", "asap.anchor.price_per_million_output_tokens=10000"];
    let summary = run(&workplace, "a", &server, &prices).json();
    assert_eq!((summary["rows_out"].as_u64(), paid(&summary)), (Some(12), (24, 0)));
    let anchor = &summary["anchor"];
    assert_eq!((anchor["tokens_in"].as_u64(), anchor["tokens_out"].as_u64()), (Some(2400), Some(240)));
    assert_eq!((anchor["retries"].as_u64(), anchor["cost"].as_f64().unwrap().round()), (Some(0), 5.0));
    let row = "SELECT anchor, anchor_tokens_in AS i, anchor_tokens_out AS o, cached, array_length(steps) AS steps \
               FROM t WHERE source['row'] = 4";
    let held = "anchor,i,o,cached,steps\nAdd the number of What is twice 5? to itself.,200,20,";
    assert_eq!(workplace.csv_of("a", row), format!("{held}false,4\n"));
    assert_eq!(run(&workplace, "a", &server, &[]).json()["nothing_to_do"], true);

    take_answers(&workplace, "a", "b");
    assert_eq!(paid(&run(&workplace, "b", &server, &["asap.anchor.timeout=20"]).json()), (0, 24));
    assert_eq!(workplace.csv_of("b", row), format!("{held}true,4\n"));
    assert_eq!(server.count(), 24);

    // Outputs that share a folder pay once, and an output that has answers keeps to them.
    for (to, dir, expected) in [("f", "answers", (24, 0)), ("g", "answers", (0, 24)), ("h", "empty", (0, 24))] {
        if to == "h" {
            take_answers(&workplace, "a", to);
        }
        assert_eq!(paid(&run(&workplace, to, &server, &[&format!("asap.cache.dir={dir}")]).json()), expected, "{to}");
    }

    take_answers(&workplace, "a", "c");
    assert_eq!(paid(&run(&workplace, "c", &server, &["asap.anchor.model=other"]).json()), (24, 0));
    run(&workplace, "a", &server, &["asap.anchor.model=other"])
        .ends(1, &["asap.anchor.model ('test-model' there, 'other' here)"]);

    for (name, more) in [("anchor.md", ""), ("coarse.md", "\nBe brief.\n")] {
        let text = std::fs::read_to_string(root().join("udfs/src/anchor/prompts/paper").join(name)).unwrap();
        workplace.write(&format!("prompts/{name}"), text + more);
    }
    take_answers(&workplace, "a", "d");
    assert_eq!(paid(&run(&workplace, "d", &server, &["asap.anchor.prompt_dir=prompts"]).json()), (12, 12));
    workplace.write("prompts/coarse.md", "{cot} {thought}");
    run(&workplace, "e", &server, &["asap.anchor.prompt_dir=prompts"]).ends(2, &["found {thought}"]);
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
    let workplace = corpus(ROWS);
    let slow = |call: &Call| Reply::After(Duration::from_millis(2), Box::new(model(call)));
    let settings = ["asap.anchor.max_concurrent_requests=32"];
    let whole = Server::start(slow);
    ask(&workplace, &whole);
    workplace.run(arguments("without_surprisal", "whole", &settings)).ok();
    assert_eq!(whole.count(), 2 * ROWS);

    let server = Server::start(slow);
    ask(&workplace, &server);
    let arguments = arguments("without_surprisal", "killed", &settings);
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
    let [killed, whole] = ["killed", "whole"].map(|table| workplace.rows_of(table, rows));
    assert!(killed == whole && killed.len() == ROWS, "rows differ");
    let paid_twice = server.answered() - 2 * ROWS;
    assert!(paid_twice <= KILLS * (AT_ONCE + 64), "{paid_twice} calls were paid twice");
}

#[test]
fn a_spent_budget_ends_the_run_and_the_same_command_goes_on() {
    let workplace = corpus(20);
    let server = Server::start(|call| Reply::After(Duration::from_millis(20), Box::new(model(call))));
    let spent = [
        "the budget is spent after 10 calls (1000 tokens in, 100 out",
        "asap.anchor.max_calls allows 10 requests",
        "is kept",
    ];
    commits_nothing(&workplace, run(&workplace, "out", &server, &["asap.anchor.max_calls=10"]), 1, &spent);

    let mut estimate = arguments("asap", "out", &["asap.anchor.price_per_million_input_tokens=1"]);
    estimate.push("--dry-run");
    assert_eq!(paid(&workplace.run(estimate).json()), (30, 10));
    assert_eq!(server.count(), 10);
    assert_eq!(paid(&run(&workplace, "out", &server, &[]).json()), (30, 10));
    assert_eq!(server.count(), 40);
}

/// Runs a pipeline that does not expose a failed call.
fn run_silent(workplace: &Workplace, server: &Server, settings: &[&str]) -> Finished {
    silent_pipeline(workplace);
    ask(workplace, server);
    workplace.run(arguments("silent.sql", "out", settings))
}

fn silent_pipeline(workplace: &Workplace) {
    let sql = "SELECT source, question, cot, answer, ai_complete(question) AS said, status, error FROM corpus";
    workplace.write("silent.sql", sql);
}

#[test]
fn a_run_ends_by_its_budget_also_where_the_pipeline_does_not_show_it() {
    let workplace = corpus(10);
    let server = Server::start(|_| Reply::text("yes"));
    commits_nothing(
        &workplace,
        run_silent(&workplace, &server, &["asap.anchor.max_calls=4"]),
        1,
        &["budget is spent after 4 calls"],
    );
    let summary = run_silent(&workplace, &server, &["asap.anchor.max_calls=6"]).json();
    assert_eq!((summary["rows_out"].as_u64(), paid(&summary)), (Some(10), (6, 4)));
}

#[test]
fn an_endpoint_that_is_down_or_denies_ends_the_run_before_it_rejects_a_lake() {
    let workplace = corpus(200);
    // The first window, plus the calls that start before enough failures stop the run.
    for (status, said, most) in
        [(503, "asap.anchor.max_error_rate = 0.5", 8 + 20), (402, "the last 3 calls to http://127.0.0.1", 8 + 3)]
    {
        let server = Server::start(move |_| Reply::error(status, "gone fishing"));
        let failed = run(&workplace, "out", &server, &["asap.anchor.max_retries=0"]);
        let code = if status == 503 { 75 } else { 1 };
        commits_nothing(&workplace, failed, code, &["calls to http://127.0.0.1", said, "gone fishing"]);
        assert!(server.count() <= most, "{} requests after {status}", server.count());
    }
}

#[test]
fn a_run_that_no_call_answers_commits_nothing_and_can_be_repeated() {
    let workplace = corpus(2);
    let server = Server::start(|call| if call.number < 2 { Reply::error(401, "wrong key") } else { model(call) });
    let said = "none of 2 calls was answered; the last one: denied: 401: wrong key";
    commits_nothing(&workplace, run(&workplace, "out", &server, &[]), 1, &[said]);
    assert_eq!(run(&workplace, "out", &server, &[]).json()["rows_out"].as_u64(), Some(2));
}

#[test]
fn calls_under_way_are_kept_when_a_run_ends_early() {
    let workplace = corpus(30);
    // Three denials end the run while the others are in flight.
    let server = Server::start(|call| match call.number {
        0..3 => Reply::After(Duration::from_millis(300), Box::new(Reply::error(403, "no"))),
        _ => Reply::After(Duration::from_secs(1), Box::new(model(call))),
    });
    let settings = ["asap.anchor.max_concurrent_requests=16", "asap.anchor.max_retries=0", "asap.on_error=fail"];
    run(&workplace, "out", &server, &settings).ends(1, &["denied"]);
    let answered = server.count() - 3;
    let stats = workplace.run(["table", "vacuum", "out", "--answers", "--dry-run", "--format", "json"]).json();
    assert_eq!(stats["answers"].as_u64(), Some(answered as u64), "{stats}");
    assert!(answered >= 5, "{answered}");
}

#[test]
fn the_key_is_sent_and_shown_nowhere() {
    let workplace = corpus(6);
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
    let (variable, key) = ("LLM_KEY", "sk-0123456789-do-not-show");
    let named = format!("asap.anchor.api_key_env={variable}");
    ask(&workplace, &server);
    let sql = "EXPLAIN ANALYZE VERBOSE SELECT cot_anchor(question, answer) FROM corpus";
    let explain = vec!["sql", "--from", "in", "-c", sql, "--set", &named];
    let mut texts = Vec::new();
    for arguments in [arguments("asap", "out", &[&named]), explain] {
        let mut command = workplace.command(&arguments);
        let finished = Finished::of(command.env(variable, key).env("RUST_LOG", "trace"));
        finished.ok();
        texts.extend([finished.stdout.into_bytes(), finished.stderr.into_bytes()]);
    }
    let below = |folder: &'static str| {
        files_below(&workplace.path(folder)).into_iter().map(move |name| format!("{folder}/{name}"))
    };
    let written: Vec<String> = ["out", ".cache"].into_iter().flat_map(below).collect();
    assert!(written.iter().filter(|name| name.ends_with(".answers.parquet")).count() >= 2);
    let read = workplace.csv(&["SELECT status, answer FROM 'out/.asap/cache'"]);
    assert!(read.lines().count() > 2, "{read}");
    texts.push(read.into_bytes());
    texts.extend(written.iter().map(|name| std::fs::read(workplace.path(name)).unwrap()));
    assert!(texts.iter().all(|text| !text.windows(key.len()).any(|window| window == key.as_bytes())));
    assert!(server.calls().iter().all(|call| call.head.contains(&format!("authorization: Bearer {key}"))));
}

/// Runs statements over the corpus with `server` as the language model.
fn sql(workplace: &Workplace, server: &Server, settings: &[&str], statements: &[&str]) -> Finished {
    ask(workplace, server);
    let statements = statements.iter().flat_map(|statement| ["-c", statement]);
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let sql = ["sql", "-q", "--from", "in", "--format", "csv"];
    workplace.run(sql.into_iter().chain(statements).chain(settings))
}

#[test]
fn small_batches_do_not_keep_the_server_idle() {
    let workplace = corpus(130);
    let server = Server::start(|_| Reply::After(Duration::from_millis(500), Box::new(Reply::text("yes"))));
    let commands = ["SET datafusion.execution.batch_size = 8", "SELECT count(ai_complete(question)) AS n FROM corpus"];
    assert_eq!(sql(&workplace, &server, &[], &commands).ok(), "n\n130\n");
    assert_eq!((server.count(), server.most_at_once()), (130, 64));
}

#[test]
fn a_query_shows_its_calls_and_the_next_finds_their_answers() {
    let workplace = corpus(7);
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
    let workplace = corpus(5);
    let run = |to: &str| {
        let settings = ["asap.anchor.provider=local", "asap.anchor.model=data/model", "asap.anchor.max_tokens=40"];
        // The model is too small for useful answers.
        let finished = workplace.run(arguments("without_surprisal", to, &settings)).ends(3, &[]);
        serde_json::from_str::<Value>(&finished.stdout).unwrap()
    };
    let summary = run("a");
    assert_eq!(summary["rows_out"].as_u64().unwrap() + summary["rows_rejected"].as_u64().unwrap(), 5);
    assert!(paid(&summary).0 >= 5 && summary["anchor"]["tokens_out"].as_u64().unwrap() >= 5, "{summary}");
    take_answers(&workplace, "a", "b");
    let again = run("b");
    assert_eq!((paid(&again).0, &again["rejects"]), (0, &summary["rejects"]));
    let error = workplace.csv(&[
        "SET asap.anchor.provider = 'local'",
        "SET asap.anchor.model = 'tests/goldens/qwen2'",
        "SELECT cot_anchor('q', repeat('7 ', 5000))['error'] AS error",
    ]);
    assert!(error.contains("the model's window is 4096"), "{error}");
}

#[test]
fn what_may_be_spent_holds_for_all_runs_of_an_output_on_a_day() {
    let workplace = corpus(40);
    let server = Server::start(model);
    // A call costs 1 and reserves a little more.
    let prices = [
        "asap.anchor.price_per_million_output_tokens=100000",
        "asap.anchor.max_tokens=20",
        "asap.anchor.max_concurrent_requests=2",
    ];
    let attempt = |most: &str| {
        let most = format!("asap.anchor.max_cost={most}");
        run(&workplace, "a", &server, &[&prices[..], &[&most, "asap.anchor.max_retries=0"]].concat())
    };
    let spent = |most: &str| {
        attempt(most).ends(1, &["is spent on this output today"]);
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
    let workplace = corpus(40);
    // Reasoning that max_tokens does not limit: each answer costs 10 times its reservation.
    let server = Server::start(|call| match model(call) {
        Reply::Text(text) => {
            let answer = serde_json::json!({
                "choices": [{ "message": { "content": text }, "finish_reason": "stop" }],
                "usage": { "prompt_tokens": 100, "completion_tokens": 200 },
            });
            Reply::After(Duration::from_millis(500), Box::new(Reply::Json(answer)))
        }
        reply => reply,
    });
    let settings = [
        "asap.anchor.price_per_million_output_tokens=50000",
        "asap.anchor.max_tokens=20",
        "asap.anchor.max_concurrent_requests=8",
        "asap.anchor.max_cost=11",
    ];
    for _ in 0..3 {
        run(&workplace, "a", &server, &settings).ends(1, &["is spent on this output today"]);
        // The cost of the first 8 calls is known only after their answers.
        assert_eq!(server.count(), 8);
    }
    let failed = run(&workplace, "a", &server, &settings);
    assert!(failed.stderr.contains("80.000000 is spent"), "{}", failed.stderr);
}

fn both(workplace: &Workplace, arguments: &[&str]) -> [i32; 2] {
    let start = || workplace.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    [start(), start()].map(|mut child| child.wait().unwrap().code().unwrap())
}

#[test]
fn two_processes_pay_for_a_request_once() {
    let slow = |call: &Call| Reply::After(Duration::from_millis(100), Box::new(model(call)));
    let workplace = corpus(60);
    let server = Server::start(slow);
    ask(&workplace, &server);
    // One slice, so both request the same rows at the same time.
    let codes = both(&workplace, &arguments("asap", "out", &["asap.anchor.max_concurrent_requests=8"]));
    assert!(codes.contains(&0) && codes.iter().all(|code| [0, 4].contains(code)), "{codes:?}");
    assert_eq!(server.count(), 120);

    let server = Server::start(slow);
    ask(&workplace, &server);
    let query = ["sql", "-q", "--from", "in", "-c", "SELECT count(ai_complete(question)) AS n FROM corpus"];
    assert_eq!(both(&workplace, &[&query[..], &["--set", "asap.anchor.max_concurrent_requests=8"]].concat()), [0, 0]);
    assert_eq!(server.count(), 60);
}

#[test]
fn a_request_that_a_killed_process_claimed_is_asked_for_again() {
    let workplace = corpus(4);
    let silent = Server::start(|_| Reply::Hang);
    ask(&workplace, &silent);
    let mut killed = Running::start(workplace.command(arguments("asap", "out", &[])));
    killed.wait_until("the calls", || silent.count() == 4);
    killed.kill();
    let server = Server::start(model);
    run(&workplace, "out", &server, &[]).ok();
    assert_eq!(server.count(), 8);
}
