//! What makes a training the same training: with the same settings it goes on, with others it is another one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::Folder;
use crate::failure::Failure;

/// The file that says which training a folder is of, written before anything else.
pub const FILE: &str = "settings.json";

/// Everything that changes the trained weights. What only changes speed or memory is not here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The hash of the model that it begins with, or of the config of a new one.
    pub base: String,
    /// Where the rows are.
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
    /// The most tokens that go through the model together.
    pub pass_tokens: usize,
    /// Of first weights and orders.
    pub seed: u64,
    /// The part of the rows that is held back.
    pub held_back: f64,
    /// Whether rows are taken as a run commits them.
    pub follow: bool,
}

impl Settings {
    /// The first setting that another training had otherwise: its name, what it had, and what is asked for now.
    pub fn difference(&self, held: &Self) -> Option<String> {
        let (Ok(Value::Object(asked)), Ok(Value::Object(held))) =
            (serde_json::to_value(self), serde_json::to_value(held))
        else {
            return None;
        };
        let name = asked.keys().find(|name| asked.get(*name) != held.get(*name))?;
        let shown = |of: &serde_json::Map<String, Value>| of.get(name).map_or("nothing".to_string(), Value::to_string);
        Some(format!("{name} was {}, and is {} now", shown(&held), shown(&asked)))
    }
}

/// What a folder is a training of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    /// The settings.
    pub settings: Settings,
    /// The version of the table with which it began: a training that was killed before its first checkpoint begins with the same
    /// rows.
    pub version: u64,
}

impl Started {
    /// The training that a folder holds; None if it holds none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn held(out: &Folder) -> Result<Option<Self>, Failure> {
        let Some(text) = out.read(FILE).await? else { return Ok(None) };
        let held = serde_json::from_slice(&text);
        held.map(Some)
            .map_err(|error| Failure::Failed(format!("{}: {FILE} was written by another asap: {error}", out.shown())))
    }

    /// Makes a folder that of this training.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub async fn hold(&self, out: &Folder) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| Failure::Failed(error.to_string()))?;
        out.write(FILE, text).await
    }
}
