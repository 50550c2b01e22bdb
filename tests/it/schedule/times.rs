//! Due times of jobs when clocks change.

use asap_schedule::times::Times;
use chrono::{DateTime, TimeDelta};
use chrono_tz::Tz;
use proptest::prelude::*;

const BERLIN: Tz = chrono_tz::Europe::Berlin;

/// Returns the next `count` times of `cron` in Berlin after `since`, in local time.
fn times(cron: &str, since: &str, count: usize) -> Vec<String> {
    let times = Times::parse(cron, BERLIN).unwrap();
    let since = DateTime::parse_from_rfc3339(since).unwrap().to_utc();
    let following = std::iter::successors(times.next_after(since), |last| times.next_after(*last));
    following.take(count).map(|time| time.with_timezone(&BERLIN).format("%d %H:%M %Z").to_string()).collect()
}

#[test]
fn a_time_that_the_clock_leaps_over_comes_once() {
    let eve = "2026-03-28T12:00:00+01:00";
    assert_eq!(times("30 2 * * *", eve, 2), ["29 03:00 CEST", "30 02:30 CEST"]);
    assert_eq!(times("0 2,14 * * *", eve, 3), ["28 14:00 CET", "29 03:00 CEST", "29 14:00 CEST"]);
    assert_eq!(times("*/20 2,3 29 3 *", eve, 3), ["29 03:00 CEST", "29 03:20 CEST", "29 03:40 CEST"]);
    assert_eq!(times("30 1,3 * * *", eve, 2), ["29 01:30 CET", "29 03:30 CEST"]);
}

#[test]
fn a_time_that_the_clock_shows_twice_comes_once() {
    let eve = "2026-10-24T12:00:00+02:00";
    assert_eq!(times("30 2 * * *", eve, 2), ["25 02:30 CEST", "26 02:30 CET"]);
    assert_eq!(times("0 */2 25 10 *", eve, 3), ["25 00:00 CEST", "25 02:00 CEST", "25 04:00 CET"]);
    assert_eq!(times("0,30 2 * * *", "2026-10-25T02:10:00+01:00", 1), ["26 02:00 CET"]);
}

#[test]
fn a_job_of_every_hour_follows_the_time_that_passes() {
    let autumn = times("0 * * * *", "2026-10-25T01:00:00+02:00", 3);
    assert_eq!(autumn, ["25 02:00 CEST", "25 02:00 CET", "25 03:00 CET"]);
    let spring = times("*/30 * * * *", "2026-03-29T01:00:00+01:00", 2);
    assert_eq!(spring, ["29 01:30 CET", "29 03:00 CEST"]);
    let seconds = Times::parse("* * * * * *", chrono_tz::UTC).unwrap();
    let since = DateTime::from_timestamp_millis(1_500).unwrap();
    assert_eq!(seconds.next_after(since), DateTime::from_timestamp_millis(2_000));
}

proptest! {
    #[test]
    fn no_time_of_every_hour_is_left_out_where_clocks_change(minutes in 0..3000i64, millis in 0..60_000i64) {
        let times = Times::parse("*/20 * * * *", BERLIN).unwrap();
        for eve in ["2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"] {
            let eve = DateTime::parse_from_rfc3339(eve).unwrap().to_utc();
            let since = eve + TimeDelta::minutes(minutes) + TimeDelta::milliseconds(millis);
            let next = eve + TimeDelta::minutes((minutes / 20 + 1) * 20);
            prop_assert_eq!(times.next_after(since), Some(next));
        }
    }
}

#[test]
fn faults_say_what_is_wrong() {
    let fault = |cron: &str| Times::parse(cron, BERLIN).unwrap_err();
    assert!(fault("0 0 30 2 *").ends_with("\"0 0 30 2 *\": such a time never comes"), "{}", fault("0 0 30 2 *"));
    for cron in ["", "61 * * * *", "* * * *", "0 0 0 1 1 * 2030", "nightly"] {
        assert!(fault(cron).starts_with("expected a cron expression"), "{cron}: {}", fault(cron));
    }
}
