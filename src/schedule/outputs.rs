//! Checks that jobs with one output fill it alike: a run refuses rows of another pipeline.

use asap_pipelines::{builtin, location};
use asap_schedule::jobs::Job;
use asap_udfs::settings::Effect;
use clap::FromArgMatches;

use super::flags::Flags;
use crate::config::{self, SettingArgs};

/// What a job writes, and where.
struct Written {
    to: String,
    pipeline: String,
    settings: Vec<(&'static str, String)>,
    /// Whether it deletes the rows of the other jobs before it writes its own.
    replaces: bool,
}

/// Checks that no two jobs write rows of different pipelines or settings to one output. The error names a job and the
/// other.
pub(super) fn check(flags: &Flags, jobs: &[Job]) -> Result<(), String> {
    let written: Vec<_> = jobs.iter().filter_map(|job| Some((&job.name, Written::of(flags, job)?))).collect();
    for (index, (name, own)) in written.iter().enumerate() {
        let same = |(_, other): &&(_, Written)| other.to == own.to && !(other.replaces && own.replaces);
        let Some((other, found)) = written[..index].iter().find(same) else { continue };
        let differs = if found.pipeline == own.pipeline {
            let all = found.settings.iter().chain(&own.settings);
            let is_same = |(key, _): &&(&str, String)| own.value(key) == found.value(key);
            let Some((key, _)) = all.into_iter().find(|pair| !is_same(pair)) else { continue };
            let [here, there] =
                [own, found].map(|job| job.value(key).map_or("not set".to_string(), |v| format!("'{v}'")));
            format!("with {key} {there} there, {here} here")
        } else {
            "with another pipeline".to_string()
        };
        return Err(format!(
            "jobs.{name}.to: jobs.{other} fills the same output {differs}, and the runs of one of them would fail: choose another \
             folder"
        ));
    }
    Ok(())
}

impl Written {
    fn of(flags: &Flags, job: &Job) -> Option<Self> {
        let given = flags.parsed(&job.arguments)?;
        let text = |name: &str| given.get_one::<String>(name).cloned();
        let to = text("to").map(|to| location::folder(&to).map_or(to, |url| url.to_string()))?;
        let sql = builtin::pipeline(&text("pipeline")?).ok()?;
        let words = sql.lines().filter(|line| !line.trim_start().starts_with("--")).flat_map(str::split_whitespace);
        let mut args = SettingArgs::from_arg_matches(&given).ok()?;
        for (flag, key) in [("max_tokens", "refine.max_tokens"), ("ratio", "refine.ratio")] {
            args.set.extend(text(flag).map(|value| format!("{key}={value}")));
        }
        let settings = config::load(&args).ok()?.of_results().into_iter();
        let settings = settings.filter(|(.., effect)| *effect == Effect::Results);
        let settings = settings.map(|(key, value, _)| (key, value)).collect();
        let replaces = given.get_flag("new_generation");
        Some(Self { to, pipeline: words.collect::<Vec<_>>().join(" "), settings, replaces })
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }
}
