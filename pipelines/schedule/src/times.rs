//! The times of a job: a cron expression in a time zone.

use chrono::{DateTime, LocalResult, NaiveDateTime, TimeZone, Utc};
use chrono_tz::{GapInfo, Tz};
use croner::Cron;
use croner::parser::{CronParser, Year};

const HOURS: usize = 24;

#[derive(Debug, Clone)]
pub struct Times {
    cron: Cron,
    zone: Tz,
    every_hour: bool,
}

impl Times {
    /// Parses `cron`: five fields, or six with seconds first. An expression whose time never comes is an error.
    pub fn parse(cron: &str, zone: Tz) -> Result<Self, String> {
        let fault = |error: &dyn std::fmt::Display| {
            format!(
                "expected a cron expression such as \"0 2 * * *\" (minute 0-59, hour 0-23, day 1-31, month 1-12, weekday 0-7), found \"{cron}\": {error}"
            )
        };
        let fields = cron.split_whitespace().count();
        if !cron.starts_with('@') && !(5..=6).contains(&fields) {
            return Err(fault(&format!("it has {fields} fields, not five or six")));
        }
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let parsed = parser.parse(cron).map_err(|error| fault(&error))?;
        let every_hour = parsed.pattern.hours.values().len() == HOURS;
        let times = Self { cron: parsed, zone, every_hour };
        times.next_after(Utc::now()).map(|_| times).ok_or_else(|| fault(&"such a time never comes"))
    }

    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// The first time after `since`, if any.
    ///
    /// When clocks change, an hourly job follows elapsed time. A job with named hours follows the wall clock: a
    /// repeated time comes once, and a skipped time comes at the end of the gap.
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

    /// When the wall clock first shows `wall` or, if it skips `wall`, a later time.
    fn first_instant(&self, wall: NaiveDateTime) -> Option<DateTime<Tz>> {
        match self.zone.from_local_datetime(&wall) {
            LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => Some(time),
            LocalResult::None => GapInfo::new(&wall, &self.zone)?.end,
        }
    }
}
