//! Settings from a file, the environment and flags. Later sources win, in this order; SQL's `SET` comes last.

use std::collections::BTreeSet;
use std::path::PathBuf;

use asap_kernels::front_end::{Flag, Setting, either};
use asap_pipelines::location::set_retry_timeout;
use asap_udfs::{Settings, typo};
use clap::Args;
use datafusion::common::config::ExtensionOptions;
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use parking_lot::Mutex;

use crate::failure::Failure;
use crate::output::{error_line, note};

const PREFIX: &str = "ASAP_";

#[derive(Debug, Clone, Default, Args)]
pub struct SettingArgs {
    /// Set a setting, such as asap.refine.max_tokens=2048. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Read settings from this file [default: ./asap.toml, else $XDG_CONFIG_HOME/asap/config.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl SettingArgs {
    /// Adds the number of a flag that sets a setting, such as `--max-tokens`. A `--set` of this setting must agree.
    pub(crate) fn add(&mut self, flag: &str, key: &str, value: Option<String>) -> Result<(), Failure> {
        let Some(value) = value else { return Ok(()) };
        let mut pairs = self.set.iter().rev().filter_map(|pair| pair.split_once('='));
        let given = pairs.find(|(given, _)| given.trim().trim_start_matches("asap.") == key);
        let number = |text: &str| text.trim().parse::<f64>().ok();
        if let Some((_, given)) = given.filter(|(_, given)| number(given) != number(&value)) {
            let (flag, key) = (format!("{flag} {value}"), format!("asap.{key}"));
            let (flag, set, key) = (Flag(&flag), either("--set ", ""), Setting(&key));
            let what = format!("{flag} and {set}{key}={given} differ: give only one of them");
            return Err(Failure::Usage(what));
        }
        self.set.push(format!("{key}={value}"));
        Ok(())
    }
}

/// The former flags of `asap run`, and last parts of several keys of which one is usually meant, each with its setting.
const FLAGS_OF_SETTINGS: [(&str, &str); 7] = [
    ("slice-rows", "run.slice_rows"),
    ("target-shard-bytes", "run.shard_bytes"),
    ("commit-every", "run.commit_seconds"),
    ("grace", "run.grace_seconds"),
    ("device", "scorer.device"),
    ("backend", "scorer.backend"),
    ("model", "scorer.model"),
];

/// The setting that a flag without its own name meant: a former flag of `asap run`, or the last part of a key, such as
/// `dtype`.
pub(crate) fn setting_of_flag(flag: &str) -> Option<&'static str> {
    let meant = FLAGS_OF_SETTINGS.iter().find(|(own, _)| *own == flag).map(|(_, key)| *key);
    let mut named = Settings::KEYS.iter().filter(|key| key.rsplit('.').next() == Some(&flag.replace('-', "_")));
    meant.or_else(|| named.next().copied().filter(|_| named.next().is_none()))
}

/// Parses the value of a flag that sets this setting.
pub(crate) fn value_of(key: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |text| Settings::default().set(key, text).map(|()| text.to_string()).map_err(|error| error_line(&error))
}

/// Reads the settings of file, environment and flags. A failure names the one with the wrong key or value.
pub fn load(args: &SettingArgs) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    if let Some(path) = settings_file(args)? {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Failure::Usage(format!("cannot read the settings file {}: {error}", path.display())))?;
        // The line itself is not shown: it may hold a key where the name of a variable belongs.
        let wrong = |error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            Failure::Usage(format!(
                "the settings file {} is not TOML: line {line}: {}",
                path.display(),
                error.message()
            ))
        };
        let table: toml::Table = text.parse().map_err(wrong)?;
        for (key, value) in flatten(&table) {
            set(&mut settings, &key, &value, &path.display().to_string())?;
        }
    }
    for key in Settings::KEYS {
        let variable = variable_name(key);
        let Some(value) = std::env::var_os(&variable) else { continue };
        let not_text = |_| Failure::Usage(format!("{variable} must be UTF-8 text, found other bytes"));
        set(&mut settings, key, &value.into_string().map_err(not_text)?, &variable)?;
    }
    for pair in &args.set {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(Failure::Usage(format!("--set takes KEY=VALUE, found '{pair}'")));
        };
        let key_of =
            |part: &str| part.split_once('=').map(|(key, _)| key.trim().trim_start_matches("asap.").to_string());
        if value.split(',').skip(1).filter_map(key_of).any(|key| Settings::KEYS.contains(&key.as_str())) {
            return Err(Failure::Usage(format!("--set takes one setting, found '{pair}': repeat --set for each")));
        }
        set(&mut settings, key.trim(), value, either("--set", ""))?;
    }
    refuse_typos(&settings)?;
    set_retry_timeout(settings.store_retry_timeout.duration());
    settings.apply_hub();
    Ok(settings)
}

/// Applies the settings of file and environment that hold for the whole process.
pub(crate) fn apply() -> Result<(), Failure> {
    load(&SettingArgs::default()).map(drop)
}

/// Unknown variables that were reported.
static UNKNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn refuse_typos(settings: &Settings) -> Result<(), Failure> {
    let known: Vec<String> = Settings::KEYS.iter().map(|key| variable_name(key)).collect();
    let given = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in given.filter(|name| name.starts_with(PREFIX) && !known.contains(name)) {
        let nearest = typo::nearest(&name[PREFIX.len()..], known.iter().map(|name| &name[PREFIX.len()..]));
        let keys = [&settings.anchor_api_key_env, &settings.scorer_api_key_env];
        let is_key = keys.iter().any(|key| key.as_ref() == Some(&name));
        if let Some(nearest) = nearest.filter(|_| !is_key) {
            let what = format!("the variable {name} is not a setting; did you mean {PREFIX}{nearest}?");
            return Err(Failure::Usage(what));
        }
        if !is_key && UNKNOWN.lock().insert(name.clone()) {
            let ends = known.iter().filter(|known| known.ends_with(&name[PREFIX.len() - 1..]));
            let ends = ends.map(String::as_str).collect::<Vec<_>>().join(" or ");
            let hint = if ends.is_empty() { String::new() } else { format!(" (did you mean {ends}?)") };
            note(format!("the variable {name} has no effect: it names no setting{hint}"));
        }
    }
    Ok(())
}

fn variable_name(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

fn settings_file(args: &SettingArgs) -> Result<Option<PathBuf>, Failure> {
    if let Some(path) = &args.config {
        if !path.is_file() {
            return Err(Failure::Usage(format!("there is no settings file {}", path.display())));
        }
        return Ok(Some(path.clone()));
    }
    let shared = Xdg::new().ok().map(|user| user.config_dir());
    let candidates = [Some(PathBuf::from("asap.toml")), shared.map(|folder| folder.join("asap/config.toml"))];
    Ok(candidates.into_iter().flatten().find(|path| path.is_file()))
}

/// Flattens a table: `[scorer] model = "x"` and `"scorer.model" = "x"` both become `scorer.model`, `x`.
pub fn flatten(table: &toml::Table) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => {
                pairs.extend(flatten(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            toml::Value::String(text) => pairs.push((key.clone(), text.clone())),
            other => pairs.push((key.clone(), other.to_string())),
        }
    }
    pairs
}

/// Servers of models, none of which is a backend by its name.
const SERVERS: [&str; 6] = ["vllm", "sglang", "ollama", "openai", "llama.cpp", "tgi"];

fn set(settings: &mut Settings, key: &str, value: &str, from: &str) -> Result<(), Failure> {
    let key = key.strip_prefix("asap.").unwrap_or(key);
    let from = if from.is_empty() { String::new() } else { format!(" (from {from})") };
    let is_server = key == "scorer.backend" && SERVERS.contains(&value.to_lowercase().as_str());
    let hint = if is_server { "; 'served' asks a server, at asap.scorer.base_url" } else { "" };
    settings.set(key, value).map_err(|error| Failure::Usage(format!("{}{hint}{from}", error_line(&error))))
}
