//! `asap feed`: streams rows as training tokens, in Arrow batches for a trainer.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use asap_llm::Llm;
use asap_lm::example::Long;
use asap_lm::locate_tokenizer;
use asap_pipelines::corpus::ColumnMapping;
use asap_pipelines::feed::{Counts, Deciding, Encoder, Fed, Feed, FeedConfig, Loss, Mark, Position, Rows, StepSize};
use asap_pipelines::reasons::Reasons;
use asap_pipelines::session::session;
use asap_udfs::Settings;
use clap::Args;
use datafusion::arrow::array::{ArrayRef, Int32Builder, ListBuilder, RecordBatch, StringBuilder};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::StreamWriter;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use crate::config;
use crate::failure::Failure;
use crate::output::{at_least_one, count, note, parsed, print, reasons, without_system};
use crate::progress::while_opening;

const READER_CHECKED_EVERY: Duration = Duration::from_secs(1);

/// Write rows as training tokens to stdout in Arrow's stream format, one batch per step
///
/// A batch has the columns input_ids, labels (-100 on what is not learned) and position (the place after the row). To
/// continue after a batch, pass its last position to --resume. The next rows are the same, even if your reader had read ahead.
///
/// With --world, the trainers share each step, and the last position of a step is the same for all trainers. All
/// trainers get equally many batches. If the last step of an epoch has too few rows, some trainers get a copy of a row,
/// with all labels -100.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap feed --data out/pruned --model Qwen/Qwen2.5-0.5B --epochs 3 > steps.arrow
  asap feed --data out/pruned --model Qwen/Qwen2.5-0.5B --rank 1 --world 4 --resume \"$POSITION\"
  asap feed --data out/pruned --model Qwen/Qwen2.5-0.5B --step-tokens 16384 --world 4 --count

In Python, asap.torch.FeedDataset wraps the stream in a PyTorch IterableDataset.")]
pub struct FeedArgs {
    /// Read rows from a Delta table, or a folder or file of Parquet or JSON lines
    #[arg(long, value_name = "LOC")]
    data: String,
    /// Use the tokenizer and chat template of this model: a folder, or org/name on the Hub
    #[arg(long, value_name = "DIR")]
    model: String,
    /// Name the question, cot and answer columns if asap cannot recognize them
    #[arg(long, value_name = "question=…,cot=…,answer=…", value_parser = parsed::<ColumnMapping>)]
    columns: Option<ColumnMapping>,
    /// Write each row N times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one::<u64>)]
    epochs: u64,
    /// Set the maximum tokens of an example, up to the model's window
    #[arg(long, value_name = "TOKENS", default_value_t = 16_384, value_parser = at_least_one::<usize>)]
    max_length: usize,
    /// Drop examples longer than --max-length, or cut them (a model trained on cut chains may not learn to stop)
    #[arg(long, value_name = "drop|cut", default_value = "drop")]
    long: Long,
    /// Learn whole chains, or only the steps that a pipeline kept. Its dropped steps stay as context
    #[arg(long, value_name = "all|kept", default_value = "all")]
    loss: Loss,
    /// Set the number of rows per step, for each trainer. A conversation may have several examples
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one::<usize>)]
    step: usize,
    /// Fill each step with at most this many tokens, for each trainer. A longer example gets its own step
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one::<usize>, conflicts_with = "step")]
    step_tokens: Option<usize>,
    /// Seed the row order: the same seed gives the same steps
    #[arg(long, value_name = "S", default_value_t = 42)]
    seed: u64,
    /// Set the index of this trainer among --world trainers, from 0. Each trainer gets its own part of each step
    #[arg(long, value_name = "R", default_value_t = 0)]
    rank: u64,
    /// Share each step among W trainers
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    world: u64,
    /// Read new rows after each commit of a run. The first epoch ends when the run is finished
    #[arg(long)]
    follow: bool,
    /// Resume after a position that asap feed wrote for the same data and options. --epochs, the size of a step, --rank
    /// and --world may differ
    #[arg(long, value_name = "POSITION", value_parser = parsed::<Mark>)]
    resume: Option<Mark>,
    /// Write a JSON object instead of tokens: the numbers of examples, tokens and learned tokens of an epoch, its
    /// longest example, the rows left out, the steps of all epochs, and the position before the first row. With
    /// --resume, count the version of the data that the position belongs to. With --follow, count the rows committed so
    /// far
    #[arg(long)]
    count: bool,
}

#[derive(Debug, Default, Serialize)]
struct Total {
    examples: u64,
    tokens: u64,
    /// Those of `tokens` that are learned.
    learned: u64,
    longest: u64,
    cut: u64,
    too_long: u64,
    rejected: u64,
    /// Why rows are rejected.
    reasons: Reasons,
    /// Examples whose system prompt the chat template does not print.
    without_system: u64,
    steps: u64,
    position: String,
}

pub async fn run(args: FeedArgs) -> Result<(), Failure> {
    config::apply()?;
    let encoder = Encoder::load(&locate_tokenizer(&args.model)?, args.max_length, args.long)?;
    let encoder = Arc::new(Encoder { loss: args.loss, ..encoder });
    let max_length = count(encoder.max_length as u64);
    let context = session(Settings::default(), &Llm::default())?;
    let config = FeedConfig {
        location: args.data.clone(),
        columns: args.columns,
        epochs: args.epochs,
        seed: args.seed,
        follow: args.follow,
        resume: args.resume.as_ref().map(|mark| match args.count {
            true => Position { epoch: 0, window: 0, row: 0, ..mark.position },
            false => mark.position,
        }),
        part: (args.rank, args.world),
    };
    let size = args.step_tokens.map_or(StepSize::Rows(args.step), StepSize::Tokens);
    let rows = while_opening(std::slice::from_ref(&args.data), Rows::open(&context, &config)).await?;
    let deciding = Deciding::of(&rows, &config, &encoder);
    if let Some(mark) = &args.resume {
        mark.check(&deciding)?;
    }
    if args.count {
        return print_total(rows, config, encoder, size, &deciding).await;
    }
    let (mut feed, schema) = (Feed::begin(rows, config, encoder)?, batch(&[], "")?.schema());
    feed.notes.iter().for_each(note);
    let stream = || StreamWriter::try_new_buffered(std::io::stdout(), &schema).map_err(failed);
    // The stream begins with the first step, so that an earlier error leaves no output.
    let mut begun = None;
    loop {
        let step = tokio::select! {
            step = feed.next_share(size) => step?,
            () = reader_gone() => return Err(Failure::ReaderGone),
        };
        let Some(step) = step else { break };
        let writer = match &mut begun {
            Some(writer) => writer,
            None => begun.insert(stream()?),
        };
        writer.write(&batch(&step, &deciding.to_string())?).and_then(|()| writer.flush()).map_err(failed)?;
    }
    let Counts { examples, cut, too_long, rejected, reasons: why, without_system: unsaid, .. } = feed.counts;
    let [long, wrong] = [too_long, rejected].map(count);
    let lost = format!("{long} have more than {max_length} tokens, {wrong} rejected{}", reasons(&why));
    if examples == 0 {
        return Err(Failure::Failed(format!("{} has no row to train on: {lost}", args.data)));
    }
    if too_long + rejected > 0 {
        note(format!("rows were left out: {lost}"));
    }
    without_system(unsaid).iter().for_each(note);
    if cut > 0 {
        note(format!("{} of {} rows were cut at {max_length} tokens", count(cut), count(examples)));
    }
    let mut writer = begun.map_or_else(stream, Ok)?;
    writer.finish().and_then(|()| writer.flush()).map_err(failed)
}

async fn print_total(
    mut rows: Rows,
    mut config: FeedConfig,
    encoder: Arc<Encoder>,
    size: StepSize,
    deciding: &Deciding,
) -> Result<(), Failure> {
    rows.stop_following();
    // An epoch has as many steps as any other, unless the order of its rows decides how they fill the steps.
    let repeats = match size {
        StepSize::Rows(_) => std::mem::replace(&mut config.epochs, 1),
        StepSize::Tokens(_) => 1,
    };
    let mut feed = Feed::begin(rows, config, encoder)?;
    let mut total = Total { position: format!("{}:{deciding}", feed.start), ..Total::default() };
    while let Some(step) = feed.next_step(size).await? {
        total.steps += repeats;
        let first_epoch = step.iter().flatten().filter(|fed| fed.position.epoch == 0);
        let is_copy = |fed: &&Fed| fed.examples.iter().all(|example| example.learned.is_empty());
        let rows: Vec<&Fed> = first_epoch.filter(|fed| !is_copy(fed)).collect();
        total.examples += rows.len() as u64;
        for example in rows.into_iter().flat_map(|fed| &fed.examples) {
            let tokens = example.ids.len() as u64;
            total.tokens += tokens;
            total.learned += example.learned_tokens() as u64;
            total.longest = total.longest.max(tokens);
        }
    }
    feed.notes.iter().for_each(note);
    let Counts { cut, too_long, rejected, reasons, without_system, .. } = feed.counts;
    Ok(print(&serde_json::to_string(&Total { cut, too_long, rejected, reasons, without_system, ..total })?)?)
}

/// Waits until no process can read our output any more. A feed that waits for new rows does not write, and would not
/// notice that its trainer was killed.
async fn reader_gone() {
    let closed = PollFlags::POLLERR | PollFlags::POLLHUP;
    loop {
        tokio::time::sleep(READER_CHECKED_EVERY).await;
        let stdout = std::io::stdout();
        let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        let is_polled = poll(&mut polled, PollTimeout::ZERO).is_ok();
        if is_polled && polled[0].revents().is_some_and(|found| found.intersects(closed)) {
            return;
        }
    }
}

fn failed(error: ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, error) => error.into(),
        other => Failure::Failed(other.to_string()),
    }
}

/// A step as a batch. Each position includes the options that decide the rows.
fn batch(step: &[Fed], deciding: &str) -> Result<RecordBatch, Failure> {
    let (mut ids, mut labels) = (ListBuilder::new(Int32Builder::new()), ListBuilder::new(Int32Builder::new()));
    let mut positions = StringBuilder::new();
    for Fed { examples, position, .. } in step {
        let position = format!("{position}:{deciding}");
        for example in examples {
            ids.append_value(example.input_ids().map(Some));
            labels.append_value(example.labels().map(Some));
            positions.append_value(&position);
        }
    }
    let columns: [(&str, ArrayRef); 3] = [
        ("input_ids", Arc::new(ids.finish())),
        ("labels", Arc::new(labels.finish())),
        ("position", Arc::new(positions.finish())),
    ];
    RecordBatch::try_from_iter(columns).map_err(failed)
}
