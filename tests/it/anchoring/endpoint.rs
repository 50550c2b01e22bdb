//! Calls and rows when an endpoint is slow, limits, denies or dies, and when the user interrupts.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{corpus, execute, model, query, run, run_arguments, run_silent, settings, silent_pipeline, sql};
use crate::common::{Finished, Workplace};
use crate::server::{Call, Reply, Server};

/// Counts the answers in the user's answer cache.
fn kept(workplace: &Workplace) -> u64 {
    let mut command = workplace.command(&["cache", "stats", "--format", "json"]);
    let stats = Finished::from(command.env("XDG_CACHE_HOME", workplace.path("caches")).output().unwrap()).json();
    stats["answers"].as_u64().unwrap()
}

#[test]
fn a_call_under_way_is_joined_by_the_next_statement_and_kept() {
    let workplace = Workplace::new();
    corpus(&workplace, 100);
    let server = Server::start(|_| Reply::After(Duration::from_millis(300), Box::new(Reply::text("7"))));
    let first = "SELECT question FROM corpus WHERE ai_complete(question) = '7' LIMIT 1";
    let all = "SELECT count(ai_complete(question)) AS n FROM corpus";
    let answered = sql(&workplace, &server, &[], &[first, all]);
    assert!(answered.ok().ends_with("n\n100\n"), "{}", answered.stdout);
    assert_eq!(server.count(), 100);

    // Answers that arrive after a statement ended, early or by an error, are cached.
    for statement in [first, "SELECT 1 / (length(ai_complete(question)) - 1) FROM corpus"] {
        let (workplace, server) =
            (Workplace::new(), Server::start(|_| Reply::After(Duration::from_millis(100), Box::new(Reply::text("7")))));
        corpus(&workplace, 100);
        sql(&workplace, &server, &[], &[statement]);
        assert!(server.count() > 0);
        assert_eq!((kept(&workplace), server.answered()), (server.count() as u64, server.count()), "{statement}");
    }
}

#[test]
fn a_query_that_is_interrupted_twice_ends_at_once() {
    let workplace = Workplace::new();
    corpus(&workplace, 3);
    let server = Server::start(|_| Reply::Hang);
    let mut arguments =
        ["sql", "-q", "--from", "in", "-c", "SELECT ai_complete(question) FROM corpus"].map(str::to_string).to_vec();
    arguments.extend(settings(&server, &[]));
    let mut command = workplace.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    command.env("XDG_CACHE_HOME", workplace.path("caches")).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let wait = |is_true: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_true() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the awaited answers do not arrive");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait(&|| server.count() == 3);
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(said.any(|line| line.contains("a second signal ends the process immediately")));
    assert!(child.try_wait().unwrap().is_none());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

fn dead() -> [Reply; 5] {
    let quota = json!({ "error": { "message": "no money", "code": "insufficient_quota" } }).to_string();
    [
        Reply::error(400, "API key not valid. Please pass a valid API key."),
        Reply::error(402, "pay first"),
        Reply::error(401, "wrong key"),
        Reply::error(503, "gone fishing"),
        Reply::Status(429, Vec::new(), quota),
    ]
}

#[test]
fn a_run_whose_endpoint_dies_commits_nothing_wherever_it_does() {
    let quick = ["anchor.max_retries=0", "anchor.max_concurrent_requests=64"];
    for reply in dead() {
        // The last calls of a new run fail, after every other call was answered.
        let workplace = Workplace::new();
        corpus(&workplace, 30);
        let last = reply.clone();
        let server = Server::start(move |call| match call.number {
            0..45 => model(call),
            _ => Reply::After(Duration::from_millis(300), Box::new(last.clone())),
        });
        let failed = run(&workplace, "out", &server, &quick);
        assert_eq!(failed.code, 1, "{reply:?}: {}{}", failed.stdout, failed.stderr);
        assert!(!workplace.path("out/_delta_log").exists(), "{reply:?}");

        // All calls of a resumed run fail. Earlier answers do not prove that the endpoint is up.
        let server = Server::start(move |_| reply.clone());
        let failed = run(&workplace, "out", &server, &quick);
        assert!(failed.code == 1 && !workplace.path("out/_delta_log").exists(), "{}", failed.stderr);

        let server = Server::start(model);
        assert_eq!(run(&workplace, "out", &server, &quick).json()["rows_out"].as_u64(), Some(30));
    }
}

#[test]
fn one_denial_at_the_end_of_a_run_is_no_rows_own_fault() {
    let quick = ["anchor.max_retries=0", "anchor.max_concurrent_requests=64"];
    for reply in [Reply::error(402, "pay first"), Reply::error(403, "not you")] {
        let workplace = Workplace::new();
        corpus(&workplace, 10);
        // The denial arrives before the answers to earlier requests.
        let server = Server::start(move |call| match call.number {
            19 => reply.clone(),
            _ => Reply::After(Duration::from_millis(20), Box::new(model(call))),
        });
        let failed = run(&workplace, "out", &server, &quick);
        assert!(failed.code == 1 && failed.stderr.contains("are denied"), "{}{}", failed.stdout, failed.stderr);
        assert!(!workplace.path("out/_delta_log").exists());
        assert_eq!(run(&workplace, "out", &server, &quick).json()["rows_out"].as_u64(), Some(10));
        assert_eq!(server.count(), 21);
    }
}

#[test]
fn a_dead_endpoint_is_noticed_where_the_pipeline_does_not_show_it_and_where_rows_are_equal() {
    for reply in dead() {
        let workplace = Workplace::new();
        corpus(&workplace, 40);
        silent_pipeline(&workplace);
        let last = reply.clone();
        let server = Server::start(move |call| if call.number < 20 { Reply::text("yes") } else { last.clone() });
        let more = ["anchor.max_retries=0"];
        for _ in 0..2 {
            let failed = run_silent(&workplace, &server, &more);
            assert!(failed.code == 1 && !workplace.path("out/_delta_log").exists(), "{}", failed.stderr);
        }

        let workplace = Workplace::new();
        std::fs::create_dir_all(workplace.path("in")).unwrap();
        let equal = "SELECT 'What?' AS question, E'a\\n\\nb' AS cot, 'b' AS answer FROM (VALUES (1), (2))";
        workplace.run(&["sql", "-q", "-c", &format!("COPY ({equal}) TO 'in/rows.parquet'")]).ok();
        let server = Server::start(move |_| reply.clone());
        let failed = run(&workplace, "out", &server, &more);
        assert!(failed.code == 1 && failed.stderr.contains("none of 1 calls"), "{}", failed.stderr);
    }
}

#[test]
fn rows_that_are_refused_do_not_keep_a_run_from_going_on() {
    let workplace = Workplace::new();
    corpus(&workplace, 40);
    silent_pipeline(&workplace);
    // The endpoint permanently refuses the first rows of the corpus.
    let refuses = |call: &Call| (1..=25).any(|number| call.prompt() == format!("What is twice {number}?"));
    let server =
        Server::start(move |call| if refuses(call) { Reply::error(400, "content_filter") } else { Reply::text("yes") });
    let one = ["anchor.max_concurrent_requests=1"];
    let summary = run_silent(&workplace, &server, &one).json();
    assert_eq!((summary["rows_out"].as_u64(), summary["anchor"]["failed"].as_u64()), (Some(40), Some(25)));
}

#[test]
fn what_is_turned_down_alike_is_not_committed_before_the_verdict() {
    let workplace = Workplace::new();
    corpus(&workplace, 60);
    let server = Server::start(|call| match call.number {
        0..45 => model(call),
        number => {
            Reply::After(Duration::from_millis(20), Box::new(Reply::error(400, &format!("no, request {number}"))))
        }
    });
    let settings = ["anchor.max_concurrent_requests=2"];
    let mut arguments = run_arguments("asap", "out", &server, &settings);
    arguments.extend(["--slice-rows", "2", "--commit-every", "10ms"].map(str::to_string));
    let failed = execute(&workplace, &arguments);
    // Another call may be in flight when the twentieth is refused.
    let is_said =
        [20, 21].iter().any(|calls| failed.stderr.contains(&format!("the last {calls} calls to http://127.0.0.1")));
    assert!(failed.code == 1 && is_said, "{}", failed.stderr);
    assert!(failed.stderr.contains("with the same words") && failed.stderr.contains("400: no, request"));
    assert!(server.count() < 45 + 25, "{} requests", server.count());
    assert!(!workplace.path("out/.asap/rejects/_delta_log").exists());
    // The same command does the remaining rows once the endpoint is fixed.
    let server = Server::start(model);
    let mut arguments = run_arguments("asap", "out", &server, &settings);
    arguments.extend(["--slice-rows", "2"].map(str::to_string));
    execute(&workplace, &arguments).ok();
    assert_eq!(query(&workplace, "out", "csv", "SELECT count(*) AS n FROM t"), "n\n60\n");
}

#[test]
fn sql_ends_with_an_error_where_the_account_is_not_served() {
    let workplace = Workplace::new();
    corpus(&workplace, 60);
    let count = ["SELECT count(ai_complete(question)) AS n FROM corpus"];
    for (reply, answered, said) in [
        (Reply::error(400, "the workspace is suspended"), 20, "were turned down with the same words"),
        // Two calls remain.
        (Reply::error(400, "Your credit balance is too low"), 58, "are denied"),
    ] {
        let server = Server::start(move |call| if call.number < answered { Reply::text("yes") } else { reply.clone() });
        std::fs::remove_dir_all(workplace.path("caches")).unwrap_or_default();
        let failed = sql(&workplace, &server, &["anchor.max_concurrent_requests=1"], &count);
        assert!(failed.code == 1 && failed.stderr.contains(said), "{}{}", failed.stdout, failed.stderr);
    }
}

#[test]
fn a_limit_of_the_endpoint_costs_time_and_no_rows() {
    const ROWS: usize = 60;
    let workplace = Workplace::new();
    corpus(&workplace, ROWS);
    silent_pipeline(&workplace);
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
    let summary = run_silent(&workplace, &server, &["anchor.max_concurrent_requests=64"]).json();
    assert_eq!((summary["rows_out"].as_u64(), summary["anchor"]["failed"].as_u64()), (Some(ROWS as u64), Some(0)));
    // On a busy machine calls of one second reach the server in the next.
    assert!(server.count() <= ROWS * 2, "{} requests for {ROWS} answers", server.count());
}

#[test]
fn a_long_pause_is_announced_with_its_end() {
    let workplace = Workplace::new();
    corpus(&workplace, 30);
    silent_pipeline(&workplace);
    let after = vec![("retry-after", "600".to_string())];
    let server = Server::start(move |_| Reply::Status(429, after.clone(), String::new()));
    let given = ["run", "silent.sql", "--from", "in", "--to", "out"].map(str::to_string);
    let arguments: Vec<String> = given.into_iter().chain(settings(&server, &["anchor.max_retry_after=40"])).collect();
    let mut command = workplace.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
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
fn a_statement_tells_what_it_lost_and_asks_for_it_once() {
    let workplace = Workplace::new();
    corpus(&workplace, 7);
    let server = Server::start(|call| match call.number {
        0 => Reply::error(400, "not that"),
        _ => Reply::text("yes"),
    });
    let statement = "SELECT ai_complete('Is it ' || 'so?') AS a, ai_complete('Is it so?') AS b FROM corpus";
    let counted = format!("SELECT count(a) AS a, count(b) AS b, count(*) AS n FROM ({statement})");
    let told = sql(&workplace, &server, &["anchor.max_retries=0"], &[&counted]);
    assert_eq!((told.ok(), server.count()), ("a,b,n\n0,0,7\n", 1));
    assert!(told.stderr.contains("have no answer; the first: refused: 400: not that"), "{}", told.stderr);
    assert_eq!(sql(&workplace, &server, &[], &[&counted]).ok(), "a,b,n\n7,7,7\n");
}

#[test]
fn a_query_that_no_call_answers_is_an_error() {
    let workplace = Workplace::new();
    corpus(&workplace, 2);
    for reply in [Reply::error(401, "wrong key"), Reply::error(503, "gone fishing")] {
        let server = Server::start(move |_| reply.clone());
        let count = ["SELECT count(ai_complete(question)) AS n FROM corpus"];
        let failed = sql(&workplace, &server, &["anchor.max_retries=0"], &count);
        assert_eq!((failed.code, failed.stdout.as_str()), (1, "n\n0\n"), "{}", failed.stderr);
        assert!(failed.stderr.contains("error: none of 2 calls was answered"), "{}", failed.stderr);
    }
}

#[test]
fn a_language_model_whose_answers_are_all_rejected_ends_the_run_after_200_rows() {
    let workplace = Workplace::new();
    corpus(&workplace, 400);
    // Coarse chains that match no step of the original.
    let server = Server::start(|call| match model(call) {
        _ if call.prompt().contains("chain_of_thought") => Reply::text("xyzzy\n\nplugh"),
        other => other,
    });
    let few = ["anchor.max_concurrent_requests=4", "anchor.max_attempts=1"];
    let mut arguments = run_arguments("asap", "out", &server, &few);
    arguments.extend(["--slice-rows", "20", "--commit-every", "0s"].map(str::to_string));
    let failed = execute(&workplace, &arguments);
    assert!(failed.code == 3 && failed.stderr.contains("rows are all rejected (no_match "), "{}", failed.stderr);
    assert!(server.count() < 2 * 300, "{} requests", server.count());
    assert!(!workplace.path("out/.asap/rejects/_delta_log").exists());

    // An occasional valid pruning keeps the run going.
    let server = Server::start(|call| match call.between("chain_of_thought") {
        chain if !chain.is_empty() && !chain.contains('7') => Reply::text("xyzzy"),
        _ => model(call),
    });
    let mut arguments = run_arguments("asap", "other", &server, &few);
    arguments.extend(["--slice-rows", "20"].map(str::to_string));
    let summary = execute(&workplace, &arguments).json();
    assert_eq!(summary["rows_in"], 400);
    assert!(summary["rows_out"].as_u64().unwrap() > 0);
}
