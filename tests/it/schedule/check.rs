//! The output of `asap schedule --check`.

use asap::schedule::check::{outlook, table};
use asap::schedule::jobs::Job;
use asap::schedule::times::Times;
use chrono::DateTime;

#[test]
fn each_job_tells_its_next_times_in_its_zone_and_in_utc() {
    let job = |name: &str, cron: &str, zone: chrono_tz::Tz| {
        let times = Times::parse(cron, zone).unwrap();
        Job { name: name.to_string(), times, arguments: Vec::new() }
    };
    let jobs = [job("night", "30 2 * * *", chrono_tz::Europe::Berlin), job("each hour", "0 * * * *", chrono_tz::UTC)];
    let now = DateTime::parse_from_rfc3339("2026-03-27T23:30:00Z").unwrap().to_utc();
    insta::assert_snapshot!(table(&outlook(&jobs, now)), @r"
    job        timezone       next                       in UTC
    night      Europe/Berlin  2026-03-28T02:30:00+01:00  2026-03-28T01:30:00Z
                              2026-03-29T03:00:00+02:00  2026-03-29T01:00:00Z
                              2026-03-30T02:30:00+02:00  2026-03-30T00:30:00Z
    each hour  UTC            2026-03-28T00:00:00+00:00  2026-03-28T00:00:00Z
                              2026-03-28T01:00:00+00:00  2026-03-28T01:00:00Z
                              2026-03-28T02:00:00+00:00  2026-03-28T02:00:00Z
    ");
}
