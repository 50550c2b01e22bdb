//! When each job runs next, for people and machines.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use super::jobs::Job;

/// So many next times of each job are told.
const NEXT: usize = 3;

/// When a job runs next.
#[derive(Debug, Serialize)]
pub struct Outlook {
    job: String,
    timezone: String,
    /// RFC 3339, with the zone's offset.
    next: Vec<String>,
    /// The same times in UTC.
    next_utc: Vec<String>,
}

/// When each job runs next after `now`.
pub fn outlook(jobs: &[Job], now: DateTime<Utc>) -> Vec<Outlook> {
    let of = |job: &Job| {
        let zone = job.times.zone();
        let following = std::iter::successors(job.times.next_after(now), |last| job.times.next_after(*last));
        let times: Vec<_> = following.take(NEXT).collect();
        let local = |time: &DateTime<Utc>| time.with_timezone(&zone).to_rfc3339_opts(SecondsFormat::Secs, false);
        let utc = |time: &DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Secs, true);
        Outlook {
            job: job.name.clone(),
            timezone: zone.name().to_string(),
            next: times.iter().map(local).collect(),
            next_utc: times.iter().map(utc).collect(),
        }
    };
    jobs.iter().map(of).collect()
}

/// The outlook as a person reads it: a line for each time.
pub fn table(outlook: &[Outlook]) -> String {
    let mut rows = vec![["job", "timezone", "next", "in UTC"]];
    for Outlook { job, timezone, next, next_utc } in outlook {
        let times = next.iter().zip(next_utc).enumerate();
        rows.extend(times.map(|(index, (local, utc))| match index {
            0 => [job.as_str(), timezone, local, utc],
            _ => ["", "", local, utc],
        }));
    }
    let widths: [usize; 4] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let line = |[job, timezone, local, utc]: &[&str; 4]| {
        let [w0, w1, w2, _] = widths;
        format!("{job:w0$}  {timezone:w1$}  {local:w2$}  {utc}")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
