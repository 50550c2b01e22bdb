//! When a job is to run: a cron expression in a time zone.

use chrono::{DateTime, LocalResult, NaiveDateTime, TimeZone, Utc};
use chrono_tz::{GapInfo, Tz};
use croner::Cron;
use croner::parser::{CronParser, Year};

/// Hours of a day.
const HOURS: usize = 24;

/// The times that a cron expression names in a time zone.
#[derive(Debug, Clone)]
pub struct Times {
    cron: Cron,
    zone: Tz,
    every_hour: bool,
}

impl Times {
    /// The times of `cron`: five fields, or six with seconds first.
    ///
    /// # Errors
    /// What is wrong with the expression, also if it names no time that ever comes.
    pub fn parse(cron: &str, zone: Tz) -> Result<Self, String> {
        let fault = |error: &dyn std::fmt::Display| {
            format!("expected a cron expression such as \"0 2 * * *\", found \"{cron}\": {error}")
        };
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let parsed = parser.parse(cron).map_err(|error| fault(&error))?;
        let every_hour = parsed.pattern.hours.values().len() == HOURS;
        let times = Self { cron: parsed, zone, every_hour };
        times.next_after(Utc::now()).map(|_| times).ok_or_else(|| fault(&"such a time never comes"))
    }

    /// The zone that the expression is read in.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// The first time after `since`; none if no such time comes.
    ///
    /// Where clocks change, a job of every hour follows the time that passes, and one of named hours the clock on the
    /// wall: a time that the clock shows twice comes once, one that it leaps over comes at the end of the leap.
    pub fn next_after(&self, since: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let since = since.with_timezone(&self.zone);
        if self.every_hour {
            return self.cron.find_next_occurrence(&since, false).ok().map(|time| time.to_utc());
        }
        let mut wall = since.naive_local();
        loop {
            wall = self.cron.find_next_occurrence(&wall, false).ok()?;
            let time = self.first_instant(wall)?;
            if time > since {
                return Some(time.to_utc());
            }
        }
    }

    /// When the clock on the wall first shows `wall` or, if it leaps over it, shows a later time.
    fn first_instant(&self, wall: NaiveDateTime) -> Option<DateTime<Tz>> {
        match self.zone.from_local_datetime(&wall) {
            LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => Some(time),
            LocalResult::None => GapInfo::new(&wall, &self.zone)?.end,
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use proptest::prelude::*;

    use super::*;

    const BERLIN: Tz = chrono_tz::Europe::Berlin;

    /// So many times of `cron` in Berlin after `since`, which has an offset, as the clock there shows them.
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
}
