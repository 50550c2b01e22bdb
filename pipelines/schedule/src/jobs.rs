//! The jobs file: the runs and their times.

use asap_pipelines::builtin;
use std::path::Path;

use chrono_tz::{TZ_VARIANTS, Tz};
use toml::{Table, Value};

use super::times::Times;
use crate::failure::Failure;
use asap_udfs::typo;

const CRON: &str = "cron";
const TIMEZONE: &str = "timezone";
const PIPELINE: &str = "pipeline";

#[derive(Debug, Clone)]
pub struct Job {
    pub name: String,
    pub times: Times,
    /// The arguments of `asap run`.
    pub arguments: Vec<String>,
}

/// What is wrong, by key; without a key, with the whole job.
pub type Faults = Vec<(String, String)>;

/// The arguments of `asap run` for a job's table. The other keys are not flags.
pub type Arguments<'a> = &'a dyn Fn(&Table, &[&str]) -> Result<Vec<String>, Faults>;

/// Reads all jobs of a file, by name. A failure names each fault by job and key.
///
/// # Errors
/// If the file cannot be read, or a job is wrong.
pub fn read(path: &Path, arguments: Arguments) -> Result<Vec<Job>, Failure> {
    let file = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read the jobs file {file}: {error}")))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        Failure::Usage(format!("the jobs file {file} is not TOML: {}", error.to_string().trim_end()))
    })?;
    parse(&table, arguments)
        .map_err(|faults| Failure::Usage(format!("the jobs file {file} is wrong:\n{}", faults.join("\n"))))
}

fn parse(table: &Table, arguments: Arguments) -> Result<Vec<Job>, Vec<String>> {
    let other = table.keys().filter(|key| *key != "jobs");
    let mut faults: Vec<_> = other.map(|key| format!("{key}: a job is a table [jobs.NAME]")).collect();
    let given = table.get("jobs").and_then(Value::as_table).filter(|given| !given.is_empty());
    if given.is_none() {
        faults.push("jobs: there is no table [jobs.NAME]".to_string());
    }
    let mut jobs = Vec::new();
    for (name, job) in given.into_iter().flatten() {
        match job.as_table() {
            Some(job) => match read_job(arguments, name, job) {
                Ok(job) => jobs.push(job),
                Err(found) => faults.extend(found.into_iter().map(|(key, fault)| match key.as_str() {
                    "" => format!("jobs.{name}: {fault}"),
                    key => format!("jobs.{name}.{key}: {fault}"),
                })),
            },
            None => faults.push(format!("jobs.{name}: a job is a table [jobs.{name}], found {job}")),
        }
    }
    if faults.is_empty() { Ok(jobs) } else { Err(faults) }
}

fn read_job(arguments: Arguments, name: &str, job: &Table) -> Result<Job, Faults> {
    let mut faults = Vec::new();
    let mut kept = |key: &str, fault: String| faults.push((key.to_string(), fault));
    let zone = zone(job.get(TIMEZONE)).map_err(|fault| kept(TIMEZONE, fault)).ok();
    // The expression is checked even if the zone is wrong.
    let times = times(job.get(CRON), zone.unwrap_or_default()).map_err(|fault| kept(CRON, fault)).ok();
    let arguments = arguments(job, &[CRON, TIMEZONE]).map_err(|more| faults.extend(more)).ok();
    let pipeline = job.get(PIPELINE).and_then(Value::as_str).map(builtin::pipeline);
    if let Some(Err(fault)) = pipeline {
        faults.push((PIPELINE.to_string(), fault));
    }
    match (times, arguments) {
        (Some(times), Some(arguments)) if faults.is_empty() => Ok(Job { name: name.to_string(), times, arguments }),
        _ => Err(faults),
    }
}

fn times(value: Option<&Value>, zone: Tz) -> Result<Times, String> {
    match value {
        Some(Value::String(cron)) => Times::parse(cron, zone),
        Some(other) => Err(format!("expected a text such as \"0 2 * * *\", found {other}")),
        None => Err("is missing; \"0 2 * * *\" is every day at two".to_string()),
    }
}

fn zone(value: Option<&Value>) -> Result<Tz, String> {
    match value {
        None => Ok(Tz::UTC),
        Some(Value::String(name)) => name.parse().map_err(|_| {
            let mut names = TZ_VARIANTS.iter().map(|zone| zone.name());
            let city = names.clone().find(|zone| zone.ends_with(&format!("/{name}")));
            let hint = city.map_or_else(|| typo::hint(name, &mut names), |zone| format!(" (did you mean {zone}?)"));
            format!("there is no time zone {name}{hint}")
        }),
        Some(other) => Err(format!("expected a text such as \"Europe/Berlin\", found {other}")),
    }
}
