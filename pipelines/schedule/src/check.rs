//! Lists when each job runs next, for people and programs.

use asap_pipelines::corpus::Source;
use asap_pipelines::location;
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

/// Jobs with a local input that does not exist. A job may be scheduled before its input is there.
pub fn missing_inputs(jobs: &[Job]) -> Vec<(&str, &str)> {
    let is_missing = |from: &str| {
        let source = from.parse::<Source>().ok();
        let path = source.and_then(|source| location::local_path(&source.url));
        path.is_some_and(|path| !path.exists())
    };
    let mut missing = Vec::new();
    for job in jobs {
        let inputs = job.arguments.iter().filter_map(|argument| argument.strip_prefix("--from="));
        missing.extend(inputs.filter(|from| is_missing(from)).map(|from| (job.name.as_str(), from)));
    }
    missing
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
