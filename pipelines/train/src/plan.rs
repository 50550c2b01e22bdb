//! The cost of a training, printed before it begins: steps, memory, disk.

use asap_lm::config::ModelConfig;
use asap_lm::train::{Keep, Schedule, state_bytes};
use asap_pipelines::feed::{Counts, Survey};

use super::settings::{Settings, StepSettings};
use super::store::Folder;
use super::{Request, checkpoint};
use crate::failure::Failure;
use crate::output::{count, reasons, several};

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
        let state = state_bytes(config);
        let longest = survey.map_or(settings.max_length, |survey| survey.longest as usize);
        let together = survey.map_or(usize::MAX, |survey| survey.tokens as usize);
        let pass_tokens = longest.max(settings.pass_tokens.min(together));
        let waiting = survey.map_or(0, |survey| survey.tokens.min(8192 * survey.longest_row)) * WAITING_BYTES;
        let free = free_memory();
        let left = free.map_or(u64::MAX, |free| free.saturating_sub(state + waiting));
        let Some(kept) = keep.or_else(|| Keep::most_within(left, config, pass_tokens)) else {
            let [model, pass] = [state, Keep::Inputs.bytes(config, pass_tokens)].map(shown);
            let (tokens, free) = (count(pass_tokens as u64), shown(free.unwrap_or_default()));
            return Err(Failure::Failed(format!(
                "not enough memory: the training needs {model} for the model and {pass} for a pass of {tokens} tokens, \
                 but {free} are free; lower --max-length and --pass-tokens, or use a smaller model"
            )));
        };
        let pass = kept.bytes(config, pass_tokens);
        if let Some(free) = free.filter(|free| state + pass > *free) {
            let [needed, free] = [state + pass, free].map(shown);
            return Err(Failure::Failed(format!(
                "not enough memory: the training needs {needed} with --keep {kept}, but {free} are free; omit --keep \
                 for the most that fits, or lower --max-length and --pass-tokens"
            )));
        }
        let steps =
            survey.map(|survey| survey.counts.examples.div_ceil(settings.step_examples as u64) * settings.epochs);
        Ok(Self { parameters: state / 16, state, pass, pass_tokens, keep: kept, steps })
    }

    /// Checks that all checkpoints fit on disk. Existing ones already have their space.
    pub(crate) async fn check_disk(&self, out: &Folder, checkpoints: usize) -> Result<(), Failure> {
        let each = CHECKPOINT_BYTES * self.parameters;
        let needed = match out.local() {
            Some(_) => {
                let held: u64 = out.list(checkpoint::FOLDER).await?.iter().map(|file| file.size).sum();
                (each * (checkpoints as u64 + 1)).saturating_sub(held)
            }
            // Finished checkpoints are in the store.
            None => each,
        };
        match out.free_bytes().filter(|(_, free)| needed > *free) {
            None => Ok(()),
            Some((folder, free)) => {
                let ([needed, free], folder) = ([needed, free].map(shown), folder.display());
                Err(Failure::Failed(format!(
                    "not enough disk: the training needs {needed} for {checkpoints} checkpoints and one in progress, \
                     but {free} are free in {folder}; lower --checkpoints, or free some space"
                )))
            }
        }
    }

    pub(super) fn table(&self, settings: &Settings, survey: Option<&Survey>, args: &Request) -> String {
        let Settings { steps: StepSettings { learning_rate, min_rate, clip, weight_decay, .. }, long, seed, .. } =
            settings;
        let warmup = match (settings.steps.warmup_steps, settings.follow) {
            (Some(steps), _) => format!("{} steps", count(steps as u64)),
            (None, true) => "0 steps".to_string(),
            (None, false) => format!("{} of all steps", settings.steps.warmup),
        };
        let steps = self.steps.map_or("as many as there are rows".to_string(), count);
        let (examples, epochs) = (several(settings.step_examples as u64, "example"), several(settings.epochs, "epoch"));
        let [length, pass_tokens] = [settings.max_length, self.pass_tokens].map(|tokens| count(tokens as u64));
        let disk = CHECKPOINT_BYTES * self.parameters * (args.checkpoints as u64 + 1);
        let [state, pass, disk] = [self.state, self.pass, disk].map(shown);
        let (millions, keep) = (self.parameters as f64 / 1e6, self.keep);
        let kept = several(args.checkpoints as u64, "checkpoint");
        let every = several(args.checkpoint_every, "step");
        [
            format!("rows       {}", survey.map_or("as a run commits them".to_string(), examples_of)),
            format!("length     at most {length} tokens (--long {long})"),
            format!("steps      {steps} of {examples}, {epochs}, seed {seed}"),
            format!(
                "rate       {learning_rate:e} after a warm-up of {warmup}, down to {min_rate} of it; norm clipped at \
                 {clip}, weight decay {weight_decay}"
            ),
            format!(
                "memory     {state} for {millions:.1} million parameters, {pass} for a pass of {pass_tokens} tokens \
                 (--keep {keep})"
            ),
            format!("disk       {disk} for {kept} and one that is being written; a checkpoint every {every}"),
            format!("device     {}", args.device),
        ]
        .join("\n")
    }
}

fn examples_of(survey: &Survey) -> String {
    let Survey { counts: Counts { examples, cut, too_long, held_out, rejected, .. }, tokens, learned, longest, .. } =
        *survey;
    let [examples, tokens, learned, longest] = [examples, tokens, learned, longest].map(count);
    let [cut, too_long, held_out, rejected] = [cut, too_long, held_out, rejected].map(count);
    format!(
        "{examples} examples ({tokens} tokens, {learned} of them learned, the longest {longest}), {cut} cut, {too_long} \
         too long, {held_out} held out, {rejected} rejected{}",
        reasons(&survey.counts.reasons)
    )
}

/// The learning rates of the steps. The cosine of a planned training spans all steps. A followed one does not know
/// them: its first epoch uses the highest rate after the warm-up, and the cosine spans the later epochs.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    peak: f64,
    floor: f64,
    warmup_steps: usize,
    epochs: u64,
    planned: Option<u64>,
    /// The number of steps of the first epoch, counted when it ends. None until then, and if it was planned.
    pub first: Option<u64>,
}

impl Rates {
    pub(super) fn new(settings: &Settings, planned: Option<u64>, first: Option<u64>) -> Self {
        let Settings { steps: StepSettings { learning_rate: peak, min_rate: floor, warmup, .. }, epochs, .. } =
            *settings;
        let part = || planned.map_or(0, |steps| (steps as f64 * warmup).ceil() as usize);
        let warmup_steps = settings.steps.warmup_steps.unwrap_or_else(part);
        Self { peak, floor, warmup_steps, epochs, planned, first: first.filter(|_| planned.is_none()) }
    }

    pub(super) fn rate(&mut self, step: u64, epoch: u64) -> f64 {
        let Self { peak, floor, warmup_steps, .. } = *self;
        match self.planned {
            Some(steps) => Schedule { peak, floor, warmup_steps, total_steps: steps as usize }.rate(step as usize),
            None if epoch > 0 => {
                let first = *self.first.get_or_insert(step);
                let total_steps = (first * (self.epochs - 1)) as usize;
                Schedule { peak, floor, warmup_steps: 0, total_steps }.rate((step - first) as usize)
            }
            None if step < warmup_steps as u64 => peak * step as f64 / warmup_steps as f64,
            None => peak,
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

/// Memory available to this process, in bytes: the machine's, or what its control group has left if that is less. None if
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
