//! Calls and rows when an endpoint is slow, limits, denies or dies, and when the user interrupts.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::{arguments, ask, commits_nothing, corpus, model, run, run_silent, silent_pipeline, sql};
use crate::common::Workplace;
use crate::runs::place::wait_until;
use asap_test_support::{Call, Reply, Server};

/// Counts the answers in the user's answer cache.
fn kept(workplace: &Workplace) -> u64 {
    let vacuum = ["table", "vacuum", ".cache/asap", "--answers", "--dry-run", "--format", "json"];
    workplace.run(vacuum).json()["answers"].as_u64().unwrap()
}

#[test]
fn a_call_under_way_is_joined_by_the_next_statement_and_kept() {
    let workplace = corpus(100);
    let server = Server::start(|_| Reply::After(Duration::from_millis(300), Box::new(Reply::text("7"))));
    let first = "SELECT question FROM corpus WHERE ai_complete(question) = '7' LIMIT 1";
    let all = "SELECT count(ai_complete(question)) AS n FROM corpus";
    let answered = sql(&workplace, &server, &[], &[first, all]);
    assert!(answered.ok().ends_with("n\n100\n"), "{}", answered.stdout);
    assert_eq!(server.count(), 100);

    // Answers that arrive after a statement ended, early or by an error, are cached.
    for statement in [first, "SELECT 1 / (length(ai_complete(question)) - 1) FROM corpus"] {
        let workplace = corpus(100);
        let server = Server::start(|_| Reply::After(Duration::from_millis(100), Box::new(Reply::text("7"))));
        sql(&workplace, &server, &[], &[statement]);
        assert!(server.count() > 0);
        assert_eq!((kept(&workplace), server.answered()), (server.count() as u64, server.count()), "{statement}");
    }
}

#[test]
fn a_query_that_is_interrupted_twice_ends_at_once() {
    let workplace = corpus(3);
    let server = Server::start(|_| Reply::Hang);
    ask(&workplace, &server);
    let mut command =
        workplace.command(["sql", "-q", "--from", "in", "-c", "SELECT ai_complete(question) FROM corpus"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the calls", || server.count() == 3);
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(said.any(|line| line.contains("a second signal ends the process immediately")));
    assert!(child.try_wait().unwrap().is_none());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Replies of a dead endpoint, with the exit code of a command that gets nothing else.
fn dead() -> [(Reply, i32); 5] {
    let quota = json!({ "error": { "message": "no money", "code": "insufficient_quota" } }).to_string();
    [
        (Reply::error(400, "API key not valid. Please pass a valid API key."), 1),
        (Reply::error(402, "pay first"), 1),
        (Reply::error(401, "wrong key"), 1),
        (Reply::error(503, "gone fishing"), 75),
        (Reply::Status(429, Vec::new(), quota), 1),
    ]
}

#[test]
fn a_run_whose_endpoint_dies_commits_nothing_wherever_it_does() {
    let quick = ["asap.anchor.max_retries=0", "asap.anchor.max_concurrent_requests=64"];
    for (reply, code) in dead() {
        // The last calls of a new run fail, after every other call was answered.
        let workplace = corpus(30);
        let last = reply.clone();
        let server = Server::start(move |call| match call.number {
            0..45 => model(call),
            _ => Reply::After(Duration::from_millis(300), Box::new(last.clone())),
        });
        commits_nothing(&workplace, run(&workplace, "out", &server, &quick), code, &[]);

        // All calls of a resumed run fail. Earlier answers do not prove that the endpoint is up.
        let server = Server::start(move |_| reply.clone());
        commits_nothing(&workplace, run(&workplace, "out", &server, &quick), code, &[]);

        let server = Server::start(model);
        assert_eq!(run(&workplace, "out", &server, &quick).json()["rows_out"].as_u64(), Some(30));
    }
}

#[test]
fn a_dead_endpoint_is_noticed_where_the_pipeline_does_not_show_it_and_where_rows_are_equal() {
    for (reply, code) in dead() {
        let workplace = corpus(40);
        let last = reply.clone();
        let server = Server::start(move |call| if call.number < 20 { Reply::text("yes") } else { last.clone() });
        let more = ["asap.anchor.max_retries=0"];
        for _ in 0..2 {
            commits_nothing(&workplace, run_silent(&workplace, &server, &more), code, &[]);
        }

        let workplace = Workplace::new();
        let equal = "SELECT 'What?' AS question, E'a\\n\\nb' AS cot, 'b' AS answer FROM (VALUES (1), (2))";
        workplace.copy(equal, "in/rows.parquet");
        let server = Server::start(move |_| reply.clone());
        run(&workplace, "out", &server, &more).ends(code, &["none of 1 calls"]);
    }
}

#[test]
fn rows_that_are_refused_do_not_keep_a_run_from_going_on() {
    let workplace = corpus(40);
    // The endpoint permanently refuses the first rows of the corpus.
    let refuses = |call: &Call| (1..=25).any(|number| call.prompt() == format!("What is twice {number}?"));
    let server =
        Server::start(move |call| if refuses(call) { Reply::error(400, "content_filter") } else { Reply::text("yes") });
    let one = ["asap.anchor.max_concurrent_requests=1"];
    let summary = run_silent(&workplace, &server, &one).json();
    assert_eq!((summary["rows_out"].as_u64(), summary["anchor"]["failed"].as_u64()), (Some(40), Some(25)));
}

#[test]
fn what_is_turned_down_alike_is_not_committed_before_the_verdict() {
    let workplace = corpus(60);
    let server = Server::start(|call| match call.number {
        0..45 => model(call),
        number => {
            Reply::After(Duration::from_millis(20), Box::new(Reply::error(400, &format!("no, request {number}"))))
        }
    });
    ask(&workplace, &server);
    let arguments = arguments("asap", "out", &["asap.anchor.max_concurrent_requests=2"]);
    let failed = workplace.run([&arguments[..], &["--set=run.slice_rows=2", "--set=run.commit_seconds=0.01"]].concat());
    // Another call may be in flight when the twentieth is refused.
    let is_said =
        [20, 21].iter().any(|calls| failed.stderr.contains(&format!("the last {calls} calls to http://127.0.0.1")));
    assert!(is_said, "{}", failed.stderr);
    failed.ends(1, &["with the same words", "400: no, request"]);
    assert!(server.count() < 45 + 25, "{} requests", server.count());
    assert!(!workplace.path("out/.asap/rejects/_delta_log").exists());
    // The same command does the remaining rows once the endpoint is fixed.
    let server = Server::start(model);
    ask(&workplace, &server);
    workplace.run([&arguments[..], &["--set=run.slice_rows=2"]].concat()).ok();
    assert_eq!(workplace.csv_of("out", "SELECT count(*) AS n FROM t"), "n\n60\n");
}

#[test]
fn a_limit_of_the_endpoint_costs_time_and_no_rows() {
    const ROWS: usize = 60;
    let workplace = corpus(ROWS);
    // Twenty per second.
    let (begin, taken) =
        (std::time::Instant::now(), std::sync::Mutex::new(std::collections::HashMap::<u64, usize>::new()));
    let server = Server::start(move |_| {
        let mut taken = taken.lock().unwrap();
        let of_second = taken.entry(begin.elapsed().as_secs()).or_default();
        *of_second += 1;
        match *of_second <= 20 {
            true => Reply::After(Duration::from_millis(50), Box::new(Reply::text("yes"))),
            false => Reply::Status(429, vec![("retry-after", "1".to_string())], String::new()),
        }
    });
    let summary = run_silent(&workplace, &server, &["asap.anchor.max_concurrent_requests=64"]).json();
    assert_eq!((summary["rows_out"].as_u64(), summary["anchor"]["failed"].as_u64()), (Some(ROWS as u64), Some(0)));
    // On a busy machine calls of one second reach the server in the next.
    assert!(server.count() <= ROWS * 2, "{} requests for {ROWS} answers", server.count());
}

#[test]
fn a_long_pause_is_announced_with_its_end() {
    let workplace = corpus(30);
    let after = vec![("retry-after", "600".to_string())];
    let server = Server::start(move |_| Reply::Status(429, after.clone(), String::new()));
    ask(&workplace, &server);
    silent_pipeline(&workplace);
    let mut command = workplace.command(arguments("silent.sql", "out", &["asap.anchor.max_retry_after=40"]));
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = said.find(|line| line.contains("no call starts")).unwrap();
    for part in
        ["for 41 s, until 2", " UTC (rate_limited: 429", "asked for 600 s, asap.anchor.max_retry_after allows 40 s"]
    {
        assert!(line.contains(part), "{part} in {line}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_language_model_whose_answers_are_all_rejected_ends_the_run_after_200_rows() {
    let workplace = corpus(400);
    // Coarse chains that match no step of the original.
    let server = Server::start(|call| match model(call) {
        _ if call.prompt().contains("chain_of_thought") => Reply::text("xyzzy\n\nplugh"),
        other => other,
    });
    let few = ["asap.anchor.max_concurrent_requests=4", "asap.anchor.max_attempts=1"];
    ask(&workplace, &server);
    let sliced = ["--set=run.slice_rows=20", "--set=run.commit_seconds=0"];
    let failed = workplace.run([&arguments("asap", "out", &few)[..], &sliced].concat());
    failed.ends(3, &["rows are all rejected (no_match "]);
    assert!(server.count() < 2 * 300, "{} requests", server.count());
    assert!(!workplace.path("out/.asap/rejects/_delta_log").exists());

    // An occasional valid pruning keeps the run going.
    let server = Server::start(|call| match call.between("chain_of_thought") {
        chain if !chain.is_empty() && !chain.contains('7') => Reply::text("xyzzy"),
        _ => model(call),
    });
    ask(&workplace, &server);
    let summary = workplace.run([&arguments("asap", "other", &few)[..], &["--set=run.slice_rows=20"]].concat()).json();
    assert_eq!(summary["rows_in"], 400);
    assert!(summary["rows_out"].as_u64().unwrap() > 0);
}
