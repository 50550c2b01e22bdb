//! The settings that identify a training. The same settings resume it; others make another training.

use std::path::Path;

use asap_pipelines::feed::{Loss, Position, Rows};
use clap::Args;
use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Request;

/// The file in an output folder that says which training it holds. It is written before any other file.
pub(crate) use asap_lm::TRAINING_BEGUN as FILE;

/// The only setting that may differ when a training resumes.
const PASS_TOKENS: &str = "pass_tokens";

/// Everything that changes the trained weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Settings {
    /// The hash of the base model, or of the config of a new one.
    pub base: String,
    /// The canonical location of the rows.
    pub data: String,
    pub columns: Option<String>,
    pub epochs: u64,
    pub max_length: usize,
    pub long: String,
    /// Trainings of earlier versions learn all.
    #[serde(default)]
    pub loss: Loss,
    #[serde(flatten)]
    pub steps: StepSettings,
    pub step_examples: usize,
    /// Changes only the last bits of the weights, so a training may resume with another value.
    pub pass_tokens: usize,
    pub seed: u64,
    pub held_out: f64,
    pub follow: bool,
}

/// How far each step moves the weights.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct StepSettings {
    /// Set the highest learning rate
    #[arg(long, value_name = "RATE", default_value_t = 4e-5, value_parser = above_zero)]
    pub learning_rate: f64,
    /// Set the fraction of steps used for warm-up
    #[arg(long, value_name = "FRACTION", default_value_t = 0.03, value_parser = fraction)]
    pub warmup: f64,
    /// Set the warm-up length in steps (overrides --warmup)
    #[arg(long, value_name = "N")]
    pub warmup_steps: Option<usize>,
    /// Set the final learning rate, as a fraction of the highest. After the warm-up, the rate falls from the highest to
    /// the final rate along a cosine
    #[arg(long, value_name = "FRACTION", default_value_t = 0.1, value_parser = fraction)]
    pub min_rate: f64,
    /// Clip the gradient norm to this value
    #[arg(long, value_name = "NORM", default_value_t = 0.2, value_parser = above_zero)]
    pub clip: f64,
    /// Set AdamW's weight decay, for matrices only: each step multiplies matrices by 1 - learning rate * DECAY
    #[arg(long, value_name = "DECAY", default_value_t = 0.0, value_parser = fraction)]
    pub weight_decay: f64,
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number above 0, such as 3e-3".to_string())
}

pub fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to below 1, such as 0.05".to_string())
}

impl Settings {
    /// The location of the rows for people: relative to the working directory if it is below.
    pub(super) fn data(&self) -> String {
        let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
        let relative = Path::new(&self.data).strip_prefix(here).ok().filter(|path| !path.as_os_str().is_empty());
        relative.map_or_else(|| self.data.clone(), |path| path.display().to_string())
    }

    /// Describes the first setting that differs: its name, its old value and its new value.
    pub(super) fn difference(&self, held: &Self) -> Option<String> {
        let (Ok(Value::Object(asked)), Ok(Value::Object(held))) =
            (serde_json::to_value(self), serde_json::to_value(held))
        else {
            return None;
        };
        let differs = |name: &&String| *name != PASS_TOKENS && asked.get(*name) != held.get(*name);
        let name = asked.keys().find(differs)?;
        let shown = |of: &serde_json::Map<String, Value>| of.get(name).map_or("nothing".to_string(), Value::to_string);
        Some(format!("{name} was {}, and is now {}", shown(&held), shown(&asked)))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Started {
    pub settings: Settings,
    /// The version of the table at the start. A training killed before its first checkpoint begins again with the same
    /// rows.
    pub version: u64,
    /// The id of that table; None for other files.
    pub table: Option<String>,
}

impl Started {
    /// Compares the settings as [`Settings::difference`] does. Moved rows are the same data.
    pub(crate) async fn difference(&self, context: &SessionContext, args: &Request, now: &Settings) -> Option<String> {
        let mut before = self.settings.clone();
        if before.data != now.data {
            let begun = Position { version: self.version, epoch: 0, window: 0, row: 0 };
            let rows = Rows::open(context, &args.feed(Some(begun))).await;
            if rows.is_ok_and(|rows| rows.table == self.table) {
                before.data.clone_from(&now.data);
            }
        }
        now.difference(&before)
    }
}
