//! What makes a training the same training: with the same settings it goes on, with others it is another one.

use std::path::Path;

use asap_pipelines::feed::{Position, Rows};
use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TrainArgs;
use super::store::Folder;
use crate::failure::Failure;

/// The file that says which training a folder is of, written before anything else.
pub(crate) const FILE: &str = "settings.json";

/// The setting with which a training may go on though it was another one.
const PASS_TOKENS: &str = "pass_tokens";

/// Everything that changes the trained weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Settings {
    /// The hash of the model that it begins with, or of the config of a new one.
    pub base: String,
    /// Where the rows are, whichever way it was typed.
    pub data: String,
    /// Which columns are question, chain and answer, as typed.
    pub columns: Option<String>,
    /// How often each row is seen.
    pub epochs: u64,
    /// The most tokens of an example.
    pub max_length: usize,
    /// What becomes of longer ones.
    pub long: String,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// The part of all steps that warms up.
    pub warmup: f64,
    /// Steps that warm up, in its place.
    pub warmup_steps: Option<usize>,
    /// The last rate, as a part of the highest.
    pub min_rate: f64,
    /// The gradient's norm is brought down to this.
    pub clip: f64,
    /// What matrices lose per step, as a part of the rate.
    pub weight_decay: f64,
    /// Examples of a step.
    pub step_examples: usize,
    /// The most tokens that go through the model together; of the weights it changes the last bits alone, and another number
    /// does not make another training.
    pub pass_tokens: usize,
    /// Of first weights and orders.
    pub seed: u64,
    /// The part of the questions whose rows are held out.
    pub held_out: f64,
    /// Whether rows are taken as a run commits them.
    pub follow: bool,
}

impl Settings {
    /// Where the rows are, as people know it: what lies below the working directory is named from there.
    pub(super) fn data(&self) -> String {
        let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
        let relative = Path::new(&self.data).strip_prefix(here).ok().filter(|path| !path.as_os_str().is_empty());
        relative.map_or_else(|| self.data.clone(), |path| path.display().to_string())
    }

    /// The first setting that another training had otherwise: its name, what it had, and what is asked for now.
    pub(super) fn difference(&self, held: &Self) -> Option<String> {
        let (Ok(Value::Object(asked)), Ok(Value::Object(held))) =
            (serde_json::to_value(self), serde_json::to_value(held))
        else {
            return None;
        };
        let differs = |name: &&String| *name != PASS_TOKENS && asked.get(*name) != held.get(*name);
        let name = asked.keys().find(differs)?;
        let shown = |of: &serde_json::Map<String, Value>| of.get(name).map_or("nothing".to_string(), Value::to_string);
        Some(format!("{name} was {}, and is {} now", shown(&held), shown(&asked)))
    }
}

/// What a folder is a training of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Started {
    /// The settings.
    pub settings: Settings,
    /// The version of the table with which it began: a training that was killed before its first checkpoint begins with the same
    /// rows.
    pub version: u64,
    /// The id of that table; None of other files.
    pub table: Option<String>,
}

impl Started {
    /// The training that a folder holds; None if it holds none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) async fn held(out: &Folder) -> Result<Option<Self>, Failure> {
        let Some(text) = out.read(FILE).await? else { return Ok(None) };
        let held = serde_json::from_slice(&text);
        held.map(Some)
            .map_err(|error| Failure::Failed(format!("{}: {FILE} was written by another asap: {error}", out.shown())))
    }

    /// The first setting that is another one now, as [`Settings::difference`] puts it. Rows that were moved are the same data.
    pub(crate) async fn difference(
        &self,
        context: &SessionContext,
        args: &TrainArgs,
        now: &Settings,
    ) -> Option<String> {
        let mut before = self.settings.clone();
        if before.data != now.data && self.is_data_of(context, args).await {
            before.data.clone_from(&now.data);
        }
        now.difference(&before)
    }

    async fn is_data_of(&self, context: &SessionContext, args: &TrainArgs) -> bool {
        let begun = Position { version: self.version, epoch: 0, window: 0, row: 0 };
        Rows::open(context, &args.feed(Some(begun))).await.is_ok_and(|rows| rows.table == self.table)
    }

    /// Makes a folder that of this training.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub(crate) async fn hold(&self, out: &Folder) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| Failure::Failed(error.to_string()))?;
        out.write(FILE, text).await
    }
}
