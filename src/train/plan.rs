//! The cost of a training, printed before it begins: steps, memory, disk.

use asap_lm::config::ModelConfig;
use asap_lm::train::{Keep, Schedule, state_bytes};
use asap_pipelines::feed::Survey;

use super::settings::Settings;
use super::store::Folder;
use super::{TrainArgs, checkpoint};
use crate::failure::Failure;
use crate::output::{count, several};

/// Bytes per parameter in a checkpoint: the weight and two moments in f32.
const CHECKPOINT_BYTES: u64 = 12;
/// Bytes per token of waiting rows, next to the window being read: each token is in memory at most twice.
const WAITING_BYTES: u64 = 16;

#[derive(Debug)]
pub(super) struct Plan {
    pub parameters: u64,
    pub state: u64,
    pub pass: u64,
    pub pass_tokens: usize,
    pub keep: Keep,
    pub steps: Option<u64>,
}

impl Plan {
    /// Chooses which activations of a pass to keep: the most that fits in free memory.
    pub(super) fn new(
        settings: &Settings,
        config: &ModelConfig,
        survey: Option<&Survey>,
        keep: Option<Keep>,
    ) -> Result<Self, Failure> {
        let state = state_bytes(config)?;
        let longest = survey.map_or(settings.max_length, |survey| survey.longest as usize);
        let together = survey.map_or(usize::MAX, |survey| survey.tokens as usize);
        let pass_tokens = longest.max(settings.pass_tokens.min(together));
        let waiting = survey.map_or(0, |survey| survey.tokens.min(8192 * survey.longest)) * WAITING_BYTES;
        let free = free_memory();
        let left = free.map_or(u64::MAX, |free| free.saturating_sub(state + waiting));
        let Some(kept) = keep.or_else(|| Keep::most_within(left, config, pass_tokens)) else {
            let least = Keep::Inputs.bytes(config, pass_tokens);
            return Err(Failure::Failed(format!(
                "not enough memory: the training needs {} for the model and {} for a pass of {} tokens, but {} are \
                 free; lower --max-length and --pass-tokens, or use a smaller model",
                shown(state),
                shown(least),
                count(pass_tokens as u64),
                shown(free.unwrap_or_default())
            )));
        };
        let pass = kept.bytes(config, pass_tokens);
        if let Some(free) = free.filter(|free| state + pass > *free) {
            return Err(Failure::Failed(format!(
                "not enough memory: the training needs {} with --keep {}, but {} are free; omit --keep for the most \
                 that fits, or lower --max-length and --pass-tokens",
                shown(state + pass),
                kept,
                shown(free)
            )));
        }
        let steps = survey.map(|survey| survey.learned.div_ceil(settings.step_examples as u64) * settings.epochs);
        Ok(Self { parameters: state / 16, state, pass, pass_tokens, keep: kept, steps })
    }

    /// Checks that all checkpoints fit on disk. Existing ones already have their space.
    pub(crate) async fn check_disk(&self, out: &Folder, checkpoints: usize) -> Result<(), Failure> {
        let each = CHECKPOINT_BYTES * self.parameters;
        let needed = match out.local() {
            Some(_) => (each * (checkpoints as u64 + 1)).saturating_sub(out.bytes(checkpoint::FOLDER).await?),
            // Finished checkpoints are in the store.
            None => each,
        };
        match out.free_bytes().filter(|(_, free)| needed > *free) {
            None => Ok(()),
            Some((folder, free)) => Err(Failure::Failed(format!(
                "not enough disk: the training needs {} for {checkpoints} checkpoints and one in progress, but {} are \
                 free in {}; lower --checkpoints, or free some space",
                shown(needed),
                shown(free),
                folder.display()
            ))),
        }
    }

    pub(super) fn table(&self, settings: &Settings, survey: Option<&Survey>, args: &TrainArgs) -> String {
        let rows = match survey {
            Some(survey) => format!(
                "{} examples ({} tokens, the longest {}), {} cut, {} too long, {} held out, {} without a chain",
                count(survey.learned),
                count(survey.tokens),
                count(survey.longest),
                count(survey.cut),
                count(survey.too_long),
                count(survey.held_out.len() as u64),
                count(survey.rejected)
            ),
            None => "as a run commits them".to_string(),
        };
        let steps = self.steps.map_or("as many as there are rows".to_string(), count);
        let warmup = match (settings.warmup_steps, settings.follow) {
            (Some(steps), _) => format!("{} steps", count(steps as u64)),
            (None, true) => "0 steps".to_string(),
            (None, false) => format!("{} of all steps", settings.warmup),
        };
        let disk = CHECKPOINT_BYTES * self.parameters * (args.checkpoints as u64 + 1);
        [
            format!("rows       {rows}"),
            format!("length     at most {} tokens (--long {})", count(settings.max_length as u64), settings.long),
            format!(
                "steps      {steps} of {}, {}, seed {}",
                several(settings.step_examples as u64, "example"),
                several(settings.epochs, "epoch"),
                settings.seed
            ),
            format!(
                "rate       {:e} after a warm-up of {warmup}, down to {} of it; norm clipped at {}, weight decay {}",
                settings.learning_rate, settings.min_rate, settings.clip, settings.weight_decay
            ),
            format!(
                "memory     {} for {:.1} million parameters, {} for a pass of {} tokens (--keep {})",
                shown(self.state),
                self.parameters as f64 / 1e6,
                shown(self.pass),
                count(self.pass_tokens as u64),
                self.keep
            ),
            format!(
                "disk       {} for {} and one in progress, one every {}",
                shown(disk),
                several(args.checkpoints as u64, "checkpoint"),
                several(args.checkpoint_every, "step")
            ),
            format!("device     {}", args.device),
        ]
        .join("\n")
    }
}

#[derive(Debug, Clone)]
pub(super) enum Rates {
    Planned(Schedule),
    /// The first epoch uses the highest rate after the warm-up. The cosine spans the later epochs.
    Followed {
        first: Option<u64>,
        peak: f64,
        floor: f64,
        warmup_steps: usize,
        epochs: u64,
    },
}

impl Rates {
    pub(super) fn new(settings: &Settings, steps: Option<u64>, first: Option<u64>) -> Self {
        let (peak, floor) = (settings.learning_rate, settings.min_rate);
        let part = |steps: u64| (steps as f64 * settings.warmup).ceil() as usize;
        match steps {
            Some(steps) => {
                let warmup_steps = settings.warmup_steps.unwrap_or_else(|| part(steps));
                Self::Planned(Schedule { peak, floor, warmup_steps, total_steps: steps as usize })
            }
            None => {
                let warmup_steps = settings.warmup_steps.unwrap_or(0);
                Self::Followed { first, peak, floor, warmup_steps, epochs: settings.epochs }
            }
        }
    }

    pub(super) fn rate(&mut self, step: u64, epoch: u64) -> f64 {
        match self {
            Self::Planned(schedule) => schedule.rate(step as usize),
            Self::Followed { peak, warmup_steps, .. } if epoch == 0 => match *warmup_steps as u64 {
                warmup if step < warmup => *peak * step as f64 / warmup as f64,
                _ => *peak,
            },
            Self::Followed { first, peak, floor, epochs, .. } => {
                let first = *first.get_or_insert(step);
                let total_steps = (first * (*epochs - 1)) as usize;
                let schedule = Schedule { peak: *peak, floor: *floor, warmup_steps: 0, total_steps };
                schedule.rate((step - first) as usize)
            }
        }
    }

    /// The counted steps of the first epoch, if it is over and they were not known before.
    pub(super) fn first(&self) -> Option<u64> {
        match self {
            Self::Planned(_) => None,
            Self::Followed { first, .. } => *first,
        }
    }
}

fn shown(bytes: u64) -> String {
    match bytes {
        0..10_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        10_000_000..10_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Bytes of memory available to this process: those of the machine, or of its control group if that is less. None if
/// unknown.
fn free_memory() -> Option<u64> {
    let free = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = free.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let free = line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024;
    let group = |name: &str| {
        let text = std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let left = group("memory.max").zip(group("memory.current")).map(|(most, used)| most.saturating_sub(used));
    Some(left.map_or(free, |left| left.min(free)))
}
