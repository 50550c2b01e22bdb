//! A store that is unavailable: requests are retried for a while, then the command ends with exit code 75.

use crate::support::proxy::{Action, RequestHead};
use crate::support::s3;

use super::place::{File, Place, Running};

const A: File = ("a.parquet", 1..=6, "step");
const B: File = ("b.parquet", 11..=14, "step");

/// A run that retries for a second.
fn impatient(place: &Place, arguments: &[&str]) -> crate::common::Finished {
    let mut command = place.command(arguments);
    command.env("ASAP_STORE_RETRY_TIMEOUT", "1");
    Running::start(command).finish()
}

const RUN: [&str; 6] = ["run", "mine.sql", "--from", "s3://lake/in", "--to", "s3://lake/out"];

#[test]
fn an_outage_of_a_few_seconds_costs_no_run() {
    let place = Place::s3().with(&[A, B]);
    // More than the ten retries that clients of object stores make by default.
    place.proxy().fault(12, |head| head.gets("in/b.parquet"), Action::Status(503, "SlowDown"));
    place.makes(&[], &[A, B]);
}

#[test]
fn a_store_that_stays_unavailable_ends_in_try_later() {
    type IsMeant = fn(&RequestHead) -> bool;
    let everything: IsMeant = |_| true;
    let commits: IsMeant = |head| head.commits_rows("out");
    let shards: IsMeant = |head| head.method == "PUT" && head.path.ends_with(".parquet");
    let reads: IsMeant = |head| head.gets("in/b.parquet");
    for (is_meant, action) in [
        (everything, Action::Status(503, "SlowDown")),
        (everything, Action::Status(500, "InternalError")),
        (everything, Action::Cut),
        (shards, Action::Status(429, "SlowDown")),
        (commits, Action::Status(503, "SlowDown")),
        (reads, Action::Status(503, "SlowDown")),
    ] {
        let place = Place::s3().with(&[A, B]);
        place.proxy().faults(is_meant, action);
        impatient(&place, &RUN).ends(75, &[]);
        place.proxy().calm();
        impatient(&place, &RUN).ok();
        place.holds(&[A, B]);
    }
}

#[test]
fn a_store_that_refuses_connections_or_a_query_ends_in_try_later() {
    let place = Place::s3().with(&[A]);
    place.proxy().follow(|_| Action::Status(503, "SlowDown"));
    let query = ["sql", "--from", "s3://lake/in", "-c", "SELECT count(*) FROM corpus"];
    impatient(&place, &query).ends(75, &["The store is unavailable"]);

    let mut command = place.command(&RUN);
    // Nothing listens on this port: it is free again.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    s3::point(&mut command, free);
    command.env("ASAP_STORE_RETRY_TIMEOUT", "1");
    Running::start(command).finish().ends(75, &["The store is unavailable"]);

    // A permanent error is not an outage.
    place.proxy().follow(|_| Action::Status(403, "AccessDenied"));
    assert_eq!(impatient(&place, &RUN).code, 1);
}
