//! Single days, then random events of a scheduler.

use asap_schedule::plan::{Cause, Decision, PAUSE, Progress, TRY_LATER};
use asap_schedule::times::Times;
use chrono::{DateTime, TimeDelta, Timelike, Utc};
use proptest::prelude::*;

fn at(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(&format!("2026-11-{text}Z")).unwrap().to_utc()
}

fn times(cron: &str) -> Times {
    Times::parse(cron, chrono_tz::UTC).unwrap()
}

#[test]
fn a_job_starts_at_its_time_and_waits_for_the_next() {
    let daily = times("0 2 * * *");
    let mut progress = Progress::new(at("20T12:00:00"));
    let due = at("21T02:00:00");
    assert_eq!(progress.decide(&daily, at("21T01:59:59")), Decision::Wait(Some(due)));
    assert_eq!(progress.decide(&daily, due), Decision::Start(Cause::Due(due)));
    progress.start(Cause::Due(due), due);
    assert_eq!(progress.decide(&daily, at("21T02:01:00")), Decision::Running);
    progress.end(1, at("21T02:01:00"));
    assert_eq!(progress.decide(&daily, at("21T02:01:00")), Decision::Wait(Some(at("22T02:00:00"))));
}

#[test]
fn times_missed_by_a_long_run_or_a_long_sleep_are_made_up_once() {
    let hourly = times("0 * * * *");
    let mut progress = Progress::new(at("20T12:30:00"));
    for (start, end) in [("20T13:00:00", "20T16:20:00"), ("20T16:20:00", "20T16:21:00")] {
        let Decision::Start(cause) = progress.decide(&hourly, at(start)) else { panic!("not due at {start}") };
        progress.start(cause, at(start));
        progress.end(0, at(end));
    }
    assert_eq!(progress.decide(&hourly, at("20T16:21:00")), Decision::Wait(Some(at("20T17:00:00"))));
}

#[test]
fn a_run_that_asks_for_later_is_tried_again_after_growing_pauses_until_the_next_time() {
    let daily = times("0 0 * * *");
    let mut progress = Progress::new(at("20T12:00:00"));
    let mut now = at("21T00:00:00");
    let mut pauses = Vec::new();
    loop {
        let Decision::Start(cause) = progress.decide(&daily, now) else { panic!("not due at {now}") };
        if cause != Cause::Again && now > at("21T00:00:00") {
            break;
        }
        progress.start(cause, now);
        progress.end(TRY_LATER, now);
        let Decision::Wait(Some(next)) = progress.decide(&daily, now) else { panic!("no pause at {now}") };
        pauses.push((next - now).num_minutes());
        now = next;
    }
    assert_eq!((now, &pauses[..7]), (at("22T00:00:00"), &[1, 2, 4, 8, 16, 30, 30][..]));
    // The next due time starts over, and so does the count after success.
    progress.start(Cause::Due(now), now);
    progress.end(TRY_LATER, now);
    assert_eq!(progress.decide(&daily, now), Decision::Wait(Some(now + PAUSE)));
    progress.start(Cause::Again, now + PAUSE);
    progress.end(0, now + PAUSE);
    assert_eq!(progress.decide(&daily, now + PAUSE), Decision::Wait(Some(at("23T00:00:00"))));
}

#[test]
fn a_run_that_took_long_and_asks_for_later_pauses_too() {
    let each_minute = times("* * * * *");
    let mut progress = Progress::new(at("20T12:00:30"));
    progress.start(Cause::Due(at("20T12:01:00")), at("20T12:01:00"));
    progress.end(TRY_LATER, at("20T12:05:30"));
    assert_eq!(progress.decide(&each_minute, at("20T12:05:30")), Decision::Wait(Some(at("20T12:06:00"))));
}

#[test]
fn a_restart_tries_again_what_asked_for_it_and_nothing_else() {
    let daily = times("0 2 * * *");
    let (due, morning) = (at("21T02:00:00"), at("21T08:00:00"));
    let mut progress = Progress::new(at("20T12:00:00"));
    progress.start(Cause::Due(due), due);
    // The machine went down during the run, perhaps because of it.
    let restarted = Progress::new(progress.remembered());
    assert_eq!(restarted.decide(&daily, morning), Decision::Wait(Some(at("22T02:00:00"))));
    progress.end(TRY_LATER, at("21T02:10:00"));
    progress.start(Cause::Again, at("21T02:11:00"));
    progress.end(TRY_LATER, at("21T02:20:00"));
    let restarted = Progress::new(progress.remembered());
    assert_eq!(restarted.decide(&daily, morning), Decision::Start(Cause::Due(due)));
}

#[test]
fn a_clock_that_was_far_ahead_stops_no_job() {
    let daily = times("0 2 * * *");
    let ahead = at("20T12:00:00") + TimeDelta::days(5000);
    let mut progress = Progress::new(ahead);
    progress.start(Cause::Again, ahead);
    progress.end(TRY_LATER, ahead);
    progress.distrust(at("20T12:00:00"));
    let soon = at("20T12:30:00");
    assert_eq!(progress.decide(&daily, at("20T12:00:00")), Decision::Wait(Some(soon)));
    progress.start(Cause::Again, soon);
    progress.end(0, soon);
    assert_eq!(progress.decide(&daily, soon), Decision::Wait(Some(at("21T02:00:00"))));
}

/// The maximum by which the clock is set back: a pause of half an hour then still ends after the run before it.
const SET_BACK: TimeDelta = TimeDelta::minutes(25);

#[derive(Debug, Clone)]
enum Event {
    /// Seconds pass: many if the machine slept or the clock was set, a negative number if it was set back.
    Pass(i64),
    End(i32),
    Restart,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let pass = prop_oneof![4 => 1..600i64, 2 => 600..20_000i64, 1 => 20_000..300_000i64, 1 => -1_500..0i64];
    let code = prop_oneof![Just(0), Just(1), Just(TRY_LATER)];
    let event = prop_oneof![5 => pass.prop_map(Event::Pass), 4 => code.prop_map(Event::End), 1 => Just(Event::Restart)];
    proptest::collection::vec(event, 1..60)
}

/// Whether a cron expression matches a whole minute.
type Names = fn(DateTime<Utc>) -> bool;

const EXPRESSIONS: [(&str, Names); 3] = [
    ("*/7 * * * *", |time| time.minute() % 7 == 0),
    ("0 3 * * *", |time| (time.hour(), time.minute()) == (3, 0)),
    ("15 */5 * * *", |time| time.hour() % 5 == 0 && time.minute() == 15),
];

proptest! {
    #[test]
    fn each_start_has_a_time_of_its_own_and_none_overlaps(
        events in events(),
        (cron, is_named) in prop_oneof![Just(EXPRESSIONS[0]), Just(EXPRESSIONS[1]), Just(EXPRESSIONS[2])],
    ) {
        let (times, begin) = (times(cron), at("20T12:00:30"));
        let mut named = Vec::new();
        let mut looked_at = at("20T12:00:00");
        let (mut now, mut latest, mut progress) = (begin, begin, Progress::new(begin));
        // The time up to which due times are handled, and its value before the last one that was due.
        let (mut dealt_with, mut before) = (begin, begin);
        let mut asked_for_later = None;
        for event in events {
            match event {
                Event::Pass(seconds) => now = (now + TimeDelta::seconds(seconds)).max(latest - SET_BACK),
                Event::End(code) if progress.is_running => {
                    progress.end(code, now);
                    asked_for_later = (code == TRY_LATER).then_some(now);
                    dealt_with = asked_for_later.unwrap_or(dealt_with).max(dealt_with);
                }
                Event::End(_) => {}
                Event::Restart => {
                    let is_again = !progress.is_running && asked_for_later.is_some();
                    progress = Progress::new(progress.remembered());
                    (dealt_with, asked_for_later) = (if is_again { before } else { dealt_with }, None);
                }
            }
            latest = latest.max(now);
            while looked_at < now {
                looked_at += TimeDelta::minutes(1);
                named.extend(Some(looked_at).filter(|time| is_named(*time)));
            }
            let is_due = named.iter().any(|time| dealt_with < *time && *time <= now);
            progress.distrust(now);
            match progress.decide(&times, now) {
                Decision::Start(cause) => {
                    prop_assert!(!progress.is_running);
                    match cause {
                        Cause::Due(due) => {
                            prop_assert!(is_due && is_named(due) && due <= now);
                            before = dealt_with;
                        }
                        Cause::Again => {
                            prop_assert!(!is_due && asked_for_later.is_some_and(|ended| now >= ended + PAUSE));
                        }
                    }
                    progress.start(cause, now);
                    dealt_with = dealt_with.max(now);
                    // One run makes up for any number of missed times.
                    let mut done = progress.clone();
                    done.end(0, now);
                    prop_assert!(matches!(done.decide(&times, now), Decision::Wait(Some(_))));
                }
                Decision::Running => prop_assert!(progress.is_running),
                Decision::Wait(next) => prop_assert!(!is_due && next.is_some_and(|next| next > now)),
            }
        }
    }
}
