//! Converts a job's keys to arguments of `asap run`, whose parser defines the flags and their values.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use toml::{Table, Value};

use crate::config::{self, SettingArgs};
use crate::failure::Failure;
use crate::output::first_paragraph;
use crate::run::RunArgs;
use asap_udfs::typo;

const FORMAT: &str = "format";

pub(super) struct Flags {
    command: Command,
}

impl Flags {
    pub(super) fn of_run() -> Self {
        let command = RunArgs::augment_args(Command::new("asap run"));
        let mut command = command.no_binary_name(true).disable_help_flag(true);
        // Flags know how many values they take only after this.
        command.build();
        Self { command }
    }

    /// The arguments of `asap run` for a job's table. The keys `other_keys` are not flags.
    pub(super) fn arguments(&self, job: &Table, other_keys: &[&str]) -> Result<Vec<String>, Vec<(String, String)>> {
        let mut faults = self.unknown(job, other_keys);
        let mut given = Vec::new();
        // In the parser's order, which positional arguments need.
        for flag in self.command.get_arguments() {
            let Some(value) = job.get(key(flag)).filter(|_| key(flag) != FORMAT) else { continue };
            match values(flag, value).and_then(|values| self.check(flag, &values).map(|()| values)) {
                Ok(values) => given.push((flag, values)),
                Err(fault) => faults.push((key(flag).to_string(), fault)),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let arguments = compose(&given);
        let parsed = self.command.clone().try_get_matches_from(&arguments).map_err(|error| self.explain(&error))?;
        check_settings(&parsed)?;
        Ok(arguments)
    }

    /// The arguments of a job, as `asap run` parses them.
    pub(super) fn parsed(&self, arguments: &[String]) -> Option<ArgMatches> {
        self.command.clone().try_get_matches_from(arguments).ok()
    }

    fn unknown(&self, job: &Table, other_keys: &[&str]) -> Vec<(String, String)> {
        let known: Vec<_> = self.command.get_arguments().map(key).chain(other_keys.iter().copied()).collect();
        let fault = |found: &String| match found.as_str() {
            FORMAT => Some("json for every job; leave it out".to_string()),
            found if known.contains(&found) => None,
            found => Some(match config::setting_of_flag(found) {
                Some(key) => format!("is a setting: write \"{key}\" = … in the table `set` of the job"),
                None => format!("asap run has no such flag{}", typo::hint(found, known.iter().copied())),
            }),
        };
        job.keys().filter_map(|key| Some((key.clone(), fault(key)?))).collect()
    }

    /// Checks the values of one flag, independently of the others.
    fn check(&self, flag: &Arg, values: &[String]) -> Result<(), String> {
        let command = self.command.clone().mut_args(|flag| flag.required(false));
        match command.try_get_matches_from(compose(&[(flag, values.to_vec())])) {
            Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => Err(first_paragraph(&error)),
            _ => Ok(()),
        }
    }

    fn explain(&self, error: &clap::Error) -> Vec<(String, String)> {
        match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) if error.kind() == ErrorKind::MissingRequiredArgument => {
                let of = |shown: &String| self.command.get_arguments().find(|flag| flag.to_string() == *shown);
                let name = |shown: &String| of(shown).map_or(shown.clone(), |flag| key(flag).to_string());
                missing.iter().map(|shown| (name(shown), "is missing".to_string())).collect()
            }
            _ => vec![(String::new(), first_paragraph(error))],
        }
    }
}

fn key(flag: &Arg) -> &str {
    flag.get_long().unwrap_or(flag.get_id().as_str())
}

/// The values of a flag. For a flag without values, one empty text for each time it is set.
fn values(flag: &Arg, value: &Value) -> Result<Vec<String>, String> {
    match (flag.get_action().takes_values(), value) {
        (false, Value::Boolean(is_set)) => Ok(vec![String::new(); usize::from(*is_set)]),
        (false, found) => Err(format!("expected true or false, found {found}")),
        (true, Value::Array(items)) => items.iter().map(single).collect(),
        (true, Value::Table(pairs)) if takes_pairs(flag) => {
            Ok(config::flatten(pairs).into_iter().map(|(key, value)| format!("{key}={value}")).collect())
        }
        (true, value) => Ok(vec![single(value)?]),
    }
}

fn takes_pairs(flag: &Arg) -> bool {
    flag.get_value_names().is_some_and(|names| names.iter().any(|name| name == "KEY=VALUE"))
}

fn single(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) | Value::Table(_) => Err(format!("expected a value or a list of values, found {value}")),
        value => Ok(value.to_string()),
    }
}

/// Composes a command line of flags with their values; positional arguments come last.
fn compose(given: &[(&Arg, Vec<String>)]) -> Vec<String> {
    let (bare, flags): (Vec<_>, Vec<_>) = given.iter().partition(|(flag, _)| flag.is_positional());
    let as_flags = flags.into_iter().flat_map(|(flag, values)| {
        values.iter().map(|value| match flag.get_action().takes_values() {
            true => format!("--{}={value}", key(flag)),
            false => format!("--{}", key(flag)),
        })
    });
    let json = format!("--{FORMAT}=json");
    let bare = bare.into_iter().flat_map(|(_, values)| values.clone());
    as_flags.chain([json, "--".to_string()]).chain(bare).collect()
}

/// Checks the settings as `asap run` would load them: those of file and environment, then those of the job.
fn check_settings(parsed: &ArgMatches) -> Result<(), Vec<(String, String)>> {
    let fault = |key: &str, message: String| (key.to_string(), message);
    let SettingArgs { set, config } =
        SettingArgs::from_arg_matches(parsed).map_err(|error| vec![fault("", first_paragraph(&error))])?;
    let check = |set: Vec<String>| match config::load(&SettingArgs { set, config: config.clone() }) {
        Err(Failure::Usage(message) | Failure::Failed(message) | Failure::Refused(message)) => Some(message),
        _ => None,
    };
    if let Some(message) = check(Vec::new()) {
        return Err(vec![fault("config", message)]);
    }
    let faults: Vec<_> = set.into_iter().filter_map(|pair| Some(fault("set", check(vec![pair])?))).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
