//! Runs from and to an S3 server, with the answer cache next to the output.

use std::net::SocketAddr;

use crate::common::{Finished, Workplace};
use crate::stores::lake;
use crate::support::s3::{KEY, point};
use asap_test_support::{Call, Reply, Server};
use serde_json::Value;

fn execute(workplace: &Workplace, s3: SocketAddr, secret: &str, arguments: &[&str]) -> Finished {
    let mut command = workplace.command(arguments);
    point(&mut command, s3);
    command.env("AWS_SECRET_ACCESS_KEY", secret);
    Finished::of(&mut command)
}

/// A model that writes a thought for each question and keeps chains unchanged.
fn model(call: &Call) -> Reply {
    match call.between("chain_of_thought") {
        "" => Reply::text("Add the numbers."),
        chain => Reply::text(chain),
    }
}

#[test]
fn a_run_goes_on_from_the_answers_that_it_kept_on_s3() {
    let (workplace, s3) = lake();
    let server = Server::start(model);
    workplace.ask(&server);
    let run = |more: &[&str]| {
        let base = ["run", "asap", "--from", "s3://lake/corpus/", "--to", "s3://lake/out", "--format", "json"];
        execute(&workplace, s3, KEY.1, &[&base[..], more].concat())
    };
    run(&["--set", "asap.anchor.max_calls=5"]).ends(1, &["the budget is spent after 5 calls"]);
    let vacuum = ["table", "vacuum", "s3://lake/out", "--answers", "--format", "json"];
    let stats = execute(&workplace, s3, KEY.1, &[&vacuum[..], &["--dry-run"]].concat()).json();
    assert_eq!(stats["answers"], 5);

    let summary: Value = run(&[]).json();
    let calls = (summary["anchor"]["calls"].as_u64(), summary["anchor"]["cache_hits"].as_u64());
    assert_eq!((summary["rows_out"].as_u64(), calls), (Some(6), (Some(7), Some(5))), "{summary}");
    assert_eq!(run(&[]).json()["nothing_to_do"], true);
    assert_eq!(server.count(), 12);

    let gone = execute(&workplace, s3, KEY.1, &vacuum).json();
    assert_eq!((gone["answers"].as_u64(), gone["segments_after"].as_u64()), (Some(12), Some(1)), "{gone}");
    let create = "CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION 's3://lake/out'";
    let count = ["sql", "-q", "--format", "csv", "-c", create, "-c", "SELECT count(*) AS n FROM t"];
    assert_eq!(execute(&workplace, s3, KEY.1, &count).ok(), "n\n6\n");
}

#[test]
fn a_wrong_secret_is_said_before_anything_is_asked_and_is_not_shown() {
    let (workplace, s3) = lake();
    let wrong = "another-secret-9876543210";
    let failed = execute(&workplace, s3, wrong, &["sql", "--from", "s3://lake/corpus", "-c", "SELECT 1"]);
    let failed = failed.ends_in(&[1, 2], &["lacked the necessary privileges"]);
    assert!(!failed.stderr.contains(wrong) && !failed.stdout.contains(wrong));
}
