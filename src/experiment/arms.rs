//! What a model is trained on.

use asap_pipelines::builtin;
use asap_udfs::typo;

use crate::failure::Failure;

/// The controls: random steps, and a random contiguous block.
pub(super) const RANDOM: &str = "random";
pub(super) const BLOCK: &str = "block";
pub(super) const SHORTEST_CORRECT: &str = "shortest_correct";
const BASE: &str = "base";
const ORIGINAL: &str = "original";
const CORE: &str = "core";

/// The arms without `--arms`, in the order of the report.
const ALL: [&str; 18] = [
    BASE,
    ORIGINAL,
    CORE,
    RANDOM,
    BLOCK,
    "prefix",
    SHORTEST_CORRECT,
    "asap",
    "without_anchor",
    "without_surprisal",
    "spirit",
    "step_entropy",
    "selective_context",
    "attribution",
    "pir",
    "answer_gain",
    "earliest_correct",
    "verified",
];

/// Pipelines that do not fit: they need an encoder, or prune nothing.
const UNFIT: &[&str] = &["llmlingua2", "tokenskip", "examples"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Arm {
    /// The base model without more training.
    Base,
    /// The verbose chains.
    Original,
    /// The steps that the labels call core.
    Core,
    Pipeline(String),
}

impl Arm {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Base => BASE,
            Self::Original => ORIGINAL,
            Self::Core => CORE,
            Self::Pipeline(name) => name,
        }
        .to_string()
    }

    pub(super) fn is_control(&self) -> bool {
        matches!(&*self.name(), RANDOM | BLOCK)
    }

    /// What the arm is in the design of the experiment.
    pub(super) fn role(&self) -> &'static str {
        match &*self.name() {
            BASE => "before training",
            ORIGINAL => "not pruned",
            CORE => "ceiling: needed steps",
            RANDOM | BLOCK => "control",
            "prefix" | "truncate" | "suffix" | "middle" | "longest" => "order without a model",
            SHORTEST_CORRECT => "own generations",
            "asap" => "the method",
            "without_anchor" | "without_surprisal" => "ablation",
            _ => "baseline",
        }
    }
}

/// The arms of an experiment, with the controls, each once.
///
/// # Errors
/// If a name is neither an arm nor a pipeline that fits.
pub(super) fn all(named: &[String]) -> Result<Vec<Arm>, Failure> {
    let mut names: Vec<&str> = vec![];
    let named = named.iter().map(String::as_str);
    let wanted: Vec<&str> = if named.len() == 0 { ALL.to_vec() } else { named.collect() };
    // The base model comes first, and its budget and the controls are in every experiment.
    for name in [BASE].into_iter().chain(wanted).chain([RANDOM, BLOCK]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().map(arm).collect()
}

fn arm(name: &str) -> Result<Arm, Failure> {
    let pipelines = || builtin::names().into_iter().filter(|name| !UNFIT.contains(name));
    match name {
        BASE => Ok(Arm::Base),
        ORIGINAL => Ok(Arm::Original),
        CORE => Ok(Arm::Core),
        name if pipelines().any(|known| known == name) => Ok(Arm::Pipeline(name.to_string())),
        name => {
            let known: Vec<&str> = [BASE, ORIGINAL, CORE].into_iter().chain(pipelines()).collect();
            let hint = typo::hint(name, known.iter().copied());
            Err(Failure::Usage(format!("there is no arm {name}{hint}; the arms are {}", known.join(", "))))
        }
    }
}
