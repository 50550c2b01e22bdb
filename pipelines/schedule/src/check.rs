//! Lists when each job runs next, for people and programs.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use super::jobs::Job;
use crate::output;

const NEXT: usize = 3;

#[derive(Debug, Serialize)]
pub struct Outlook {
    job: String,
    timezone: String,
    next: Vec<String>,
    next_utc: Vec<String>,
}

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

pub fn table(outlook: &[Outlook]) -> String {
    let rows = outlook.iter().flat_map(|Outlook { job, timezone, next, next_utc }| {
        next.iter().zip(next_utc).enumerate().map(move |(index, (local, utc))| {
            let first = |text: &str| if index == 0 { text.to_string() } else { String::new() };
            [first(job), first(timezone), local.clone(), utc.clone()]
        })
    });
    output::table(["job", "timezone", "next", "in UTC"], rows)
}
