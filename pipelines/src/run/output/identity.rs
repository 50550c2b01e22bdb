//! The identity of a table: the parts of a pipeline that determine the result for a row. It is stored in the table, so
//! that a run with another pipeline is refused with a list of the differences.

use std::collections::BTreeMap;
use std::path::PathBuf;

use asap_kernels::front_end::Setting;
use datafusion::common::{DataFusionError, Result, config_err, internal_err, plan_datafusion_err};
use datafusion::sql::parser::DFParserBuilder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use asap_llm::provider::Provider;
use asap_udfs::anchor::prompts::Prompts;
use asap_udfs::settings::{Effect, PromptSet};
use asap_udfs::{Settings, scorers};

use crate::corpus::ColumnMapping;
use crate::run::content_hashes::{Contents, hex};
use crate::run::request::Originals;

/// The number of the rules of asap itself. docs/contributing.md says when it rises.
const RULES_VERSION: u32 = 7;

/// Before the key of a setting that names files.
const FILES_OF: &str = "files of ";
const ANCHOR_PROMPT: &str = "prompt of anchors";

/// The parts of a pipeline by name. Settings at their defaults are left out, so that a new setting changes no table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity(BTreeMap<String, String>);

impl Identity {
    /// The identity of a pipeline. Models and prompts enter by content, so a copy of them is the same.
    pub(crate) fn of(
        sql: &str,
        columns: Option<&ColumnMapping>,
        originals: &Originals,
        sample: Option<(u64, u64)>,
        settings: &Settings,
        contents: &mut Contents,
    ) -> Result<Self> {
        let mut parts = BTreeMap::new();
        parts.extend(sample.map(|(rows, seed)| ("--sample".to_string(), format!("{rows} --seed {seed}"))));
        if *originals != Originals::Needed {
            parts.insert("originals".to_string(), originals.to_string());
        }
        parts.insert("rules".to_string(), RULES_VERSION.to_string());
        parts.insert("sql".to_string(), hex(&Sha256::digest(without_comments(sql)?)));
        parts.extend(columns.map(|columns| ("columns".to_string(), columns.to_string())));
        let is_local = settings.anchor_provider == Provider::Local;
        for (key, value, effect) in settings.of_results() {
            match (key, effect) {
                (
                    "asap.scorer.model" | "asap.compressor.model" | "asap.anchor.prompts" | "asap.anchor.prompt_dir",
                    Effect::Files,
                )
                | (_, Effect::Backend) => {}
                ("asap.anchor.model", _) if is_local => {}
                (_, Effect::Files) => {
                    return internal_err!("the content of the files of {key} is not part of an identity");
                }
                _ => drop(parts.insert(key.to_string(), value)),
            }
        }
        let backend = scorers::identity(settings).into_iter();
        parts.extend(backend.map(|(name, value)| (name.to_string(), value)));
        for (setting, _, found) in models(settings) {
            // A missing folder adds nothing: a pipeline that needs the model is refused during planning.
            let Ok(folder) = found else { continue };
            parts.extend(contents.of_folder(&folder)?.map(|hash| (format!("{FILES_OF}{setting}"), hash)));
        }
        if settings.anchor_provider.is_language_model() {
            let prompts = Prompts::of(settings)?;
            parts.insert(ANCHOR_PROMPT.to_string(), prompts.anchor.hash().to_string());
            parts.insert("prompt of coarse prunings".to_string(), prompts.coarse.hash().to_string());
        }
        Ok(Self(parts))
    }

    /// Checks that models are there, of which this identity has files.
    ///
    /// # Errors
    /// Names the setting of the first one that is missing.
    pub(crate) fn check_models(&self, settings: &Settings) -> Result<()> {
        for (setting, named, found) in models(settings) {
            match found {
                Err(error) if !self.0.contains_key(&format!("{FILES_OF}{setting}")) => drop(error),
                Err(error) if error.is_unavailable() => return Err(DataFusionError::External(Box::new(error))),
                Err(error) => return config_err!("{} = '{named}': {error}", Setting(setting)),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// A hash of what determines the result of a pipeline for a row, including the version of asap.
    ///
    /// # Errors
    /// If the pipeline is no SQL, or the files of a model cannot be read.
    pub fn fingerprint(sql: &str, columns: Option<&ColumnMapping>, settings: &Settings) -> Result<String> {
        let mut settings = settings.clone();
        scorers::settle(&mut settings, None);
        let identity = Self::of(sql, columns, &Originals::Needed, None, &settings, &mut Contents::default())?;
        let mut hash = Sha256::new_with_prefix(crate::VERSION);
        for (name, value) in &identity.0 {
            hash.update(format!("{name:?}{value:?}"));
        }
        Ok(hex(&hash.finalize()))
    }

    pub(crate) fn parts(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        self.different(other).map(|key| difference(key, self.0.get(key), other.0.get(key))).collect()
    }

    /// Names what differs as a whole, to follow "was filled".
    pub(crate) fn kind_of_difference(&self, other: &Self) -> &'static str {
        let all = |of_kind: fn(&str) -> bool| self.different(other).all(|key| of_kind(key));
        match () {
            () if all(|key| key.starts_with("asap.refine.")) => "with another budget",
            () if self.0.get("rules") != other.0.get("rules") => "by other rules of asap",
            () if all(|key| key != "sql") => "with other settings",
            () => "by another pipeline",
        }
    }

    fn different<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a String> {
        let keys = self.0.keys().chain(other.0.keys().filter(|key| !self.0.contains_key(*key)));
        keys.filter(|key| self.0.get(*key) != other.0.get(*key))
    }
}

/// The settings that name models, with the names and the folders.
fn models(settings: &Settings) -> Vec<(&'static str, &str, asap_lm::Result<PathBuf>)> {
    let mut models = vec![("asap.scorer.model", settings.scorer_model.as_str(), settings.scorer_folder())];
    if let Some(named) = &settings.compressor_model {
        models.push(("asap.compressor.model", named, asap_lm::locate_folder(named)));
    }
    if settings.anchor_provider == Provider::Local {
        let named = settings.anchor_model.as_deref().unwrap_or_default();
        models.push(("asap.anchor.model", named, asap_lm::locate(named)));
    }
    models
}

fn difference(key: &str, held: Option<&String>, found: Option<&String>) -> String {
    // An output by asap's own engine holds no backend.
    let usual = if [scorers::BACKEND, scorers::ENCODER_BACKEND].contains(&key) { "'cpu'" } else { "not set" };
    let value = |value: Option<&String>| value.map_or(usual.to_string(), |value| format!("'{value}'"));
    match key {
        "sql" => "its SQL".to_string(),
        "rules" => "the rules of asap".to_string(),
        _ if key.starts_with("prompt") && held.is_some() && held == short_prompt(key).as_ref() => {
            format!(
                "the {key}, which is the one of {}=short there: set that to go on with its answers",
                Setting("asap.anchor.prompts")
            )
        }
        _ if key.starts_with("prompt") => format!("the {key}"),
        _ => match key.strip_prefix(FILES_OF) {
            Some(setting) => format!("the {FILES_OF}{}", Setting(setting)),
            None => format!("{} ({} there, {} here)", Setting(key), value(held), value(found)),
        },
    }
}

/// The hash of a short prompt, by its part of a pipeline.
fn short_prompt(key: &str) -> Option<String> {
    let short = Prompts::of(&Settings { anchor_prompts: PromptSet::Short, ..Settings::default() }).ok()?;
    Some(if key == ANCHOR_PROMPT { short.anchor } else { short.coarse }.hash().to_string())
}

fn without_comments(sql: &str) -> Result<String> {
    let statements = DFParserBuilder::new(sql).build()?.parse_statements()?;
    let texts: Vec<String> = statements.iter().map(|statement| statement.to_string()).collect();
    if texts.is_empty() {
        return Err(plan_datafusion_err!("the pipeline is empty: expected one SELECT over the table corpus"));
    }
    Ok(texts.join(";"))
}

#[cfg(test)]
mod tests {
    use asap_udfs::settings::Positive;

    use crate::run::output::identity::*;

    fn identity(sql: &str, settings: &Settings) -> Identity {
        Identity::of(sql, None, &Originals::Needed, None, settings, &mut Contents::default()).unwrap()
    }

    #[test]
    fn comments_and_defaults_are_no_part_of_a_pipeline() {
        let settings = Settings { scorer_model: "nowhere".to_string(), ..Settings::default() };
        let plain = identity("SELECT source, cot FROM corpus", &settings);
        assert_eq!(plain, identity("-- why\nSELECT source,\n  cot /* what */ FROM corpus", &settings));
        assert_eq!(plain.0.keys().collect::<Vec<_>>(), ["rules", "sql"]);
        let timeout = Settings { anchor_max_retries: 1, ..settings.clone() };
        assert_eq!(plain, identity("SELECT source, cot FROM corpus", &timeout));
    }

    #[test]
    fn what_is_different_is_named() {
        let settings = Settings { scorer_model: "nowhere".to_string(), ..Settings::default() };
        let short = Settings { refine_max_tokens: Some(Positive(160)), ..settings.clone() };
        let (held, found) =
            (identity("SELECT source FROM corpus", &settings), identity("SELECT 1 FROM corpus", &short));
        let differences = held.differences(&found);
        assert_eq!(differences, ["its SQL", "asap.refine.max_tokens (not set there, '160' here)"]);
        assert_eq!(held.kind_of_difference(&found), "by another pipeline");
        assert_eq!(held.kind_of_difference(&identity("SELECT source FROM corpus", &short)), "with another budget");
        let by_model = Settings { anchor_provider: Provider::Openai, anchor_model: Some("m".to_string()), ..settings };
        let with_short = Settings { anchor_prompts: PromptSet::Short, ..by_model.clone() };
        let [short, paper] = [&with_short, &by_model].map(|settings| identity("SELECT source FROM corpus", settings));
        let differences = short.differences(&paper);
        assert!(
            differences.len() == 2 && differences[0].contains("asap.anchor.prompts=short there"),
            "{differences:?}"
        );
        assert!(!paper.differences(&short).concat().contains("short"));
        let mut old = held.clone();
        old.0.insert("rules".to_string(), "5".to_string());
        assert_eq!(old.kind_of_difference(&held), "by other rules of asap");
        assert_eq!(serde_json::from_str::<Identity>(&serde_json::to_string(&held).unwrap()).unwrap(), held);
    }
}
