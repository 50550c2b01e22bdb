//! What rows teach a model at a maximum length, before a training.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use asap_lm::Asked;
use asap_lm::example::{Example, ExampleTemplate, Long};
use asap_pipelines::corpus::{ColumnMapping, Corpus};
use asap_pipelines::feed::{Encoder, Fed, Feed, FeedConfig, Loss, Rows, check_steps};
use asap_pipelines::reasons::Reasons;
use asap_pipelines::run::Observer;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::functions::core::expr_ext::FieldAccessor;
use datafusion::prelude::{Expr, SessionContext, cast, col};
use futures::StreamExt;
use rayon::prelude::*;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{count, percent, several, shortened, table, without_system};
use crate::progress::Bar;
use crate::rows::text;

/// The seed and the rows of a step of `asap feed`, by default.
const SEED: u64 = 42;
const READ: usize = 1024;
const SHOWN_ROWS: usize = 2;
const SHOWN_CHARACTERS: usize = 600;

#[derive(Debug, Serialize)]
pub(super) struct Lessons {
    model: String,
    max_length: u64,
    files: BTreeMap<String, Taught>,
    total: Taught,
    /// Steps of at most `max_length` tokens, as `asap feed --step-tokens` fills them, and the share of their places that
    /// stays empty.
    packed_steps: u64,
    packing_loss: f64,
    /// Why rows have nothing to learn.
    left_out: Reasons,
    /// Rows whose system prompt the chat template does not print.
    without_system: u64,
    /// Rows on which a chat template was tried. None without a chat template.
    template_tried: Option<u64>,
    /// What `--loss kept` learns. None without the steps of chains before pruning.
    loss_kept: Option<Masked>,
    sample: Vec<Marked>,
}

/// Chains before pruning whose dropped steps are context.
#[derive(Debug, Serialize)]
struct Masked {
    rows: u64,
    tokens: u64,
    learned: u64,
    left_out: u64,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Taught {
    rows: u64,
    tokens: u64,
    /// Tokens of responses, which a trainer learns.
    supervised: u64,
    /// Rows without a token to learn: rejects, and rows whose prompt fills the maximum length.
    nothing: u64,
    over: u64,
    /// Supervised tokens of rows over the maximum length: lost if a trainer drops these rows, and if it cuts them.
    lost_if_dropped: u64,
    lost_if_cut: u64,
    /// Rows that would be cut before their end token.
    no_end: u64,
    /// Rows whose chain the chat template drops.
    chain_dropped: u64,
}

/// The last example of a row, up to its last response. Earlier responses are in double brackets.
#[derive(Debug, Default, Serialize)]
struct Marked {
    file: String,
    row: u64,
    prompt: String,
    supervised: String,
}

impl Taught {
    fn add(&mut self, examples: &[Example], max_length: usize) {
        let supervised: usize = examples.iter().map(Example::learned_tokens).sum();
        self.tokens += examples.iter().map(|example| example.ids.len() as u64).sum::<u64>();
        self.supervised += supervised as u64;
        if examples.iter().any(|example| example.ids.len() > max_length) {
            let cut = examples.iter().flat_map(Example::places).filter(|place| *place >= max_length).count();
            self.over += 1;
            self.lost_if_dropped += supervised as u64;
            self.lost_if_cut += cut as u64;
            *if cut < supervised { &mut self.no_end } else { &mut self.nothing } += 1;
        }
    }
}

impl Lessons {
    pub(super) async fn read(
        context: &SessionContext,
        (location, columns): (&str, Option<&ColumnMapping>),
        corpus: &Corpus,
        (model, folder): (&str, &Path),
        max_length: usize,
    ) -> Result<Self, Failure> {
        let mut encoder = Encoder::load(folder, max_length, Long::Drop)?;
        // Longer rows are counted with all their tokens.
        let max_length = std::mem::replace(&mut encoder.max_length, usize::MAX);
        let encoder = Arc::new(encoder);
        let files = corpus.files().map(|(_, held)| (held.file.path.clone(), held.rows_left()));
        let mut files: BTreeMap<String, Taught> =
            files.map(|(file, rows)| (file, Taught { rows, nothing: rows, ..Taught::default() })).collect();
        let (location, columns) = (location.to_string(), columns.cloned());
        let config = FeedConfig { location, columns, epochs: 1, seed: SEED, follow: false, resume: None, part: (0, 1) };
        let rows = Rows::open(context, &config).await?;
        let loss_kept = match check_steps(corpus) {
            Ok(()) => Some(Masked::read(&rows, Encoder::load(folder, max_length, Long::Drop)?).await?),
            Err(_) => None,
        };
        let mut feed = Feed::begin(rows, config, Arc::clone(&encoder))?;
        let bar = Bar::new("tokenizing", false);
        bar.begin(corpus.rows(), 0);
        let (mut sample, mut packed) = (Vec::new(), Packed::default());
        let mut total = Taught { rows: corpus.rows(), nothing: corpus.rows(), ..Taught::default() };
        while let Some(step) = feed.next_rows(READ).await? {
            for fed in &step {
                for taught in files.get_mut(fed.source.0.as_ref()).into_iter().chain([&mut total]) {
                    taught.nothing -= 1;
                    taught.add(&fed.examples, max_length);
                }
                fed.examples.iter().for_each(|example| packed.add(example.ids.len(), max_length));
                if sample.len() < SHOWN_ROWS {
                    sample.push(Marked::new(&encoder, fed)?);
                }
            }
            bar.advance(step.len() as u64, 0);
        }
        bar.finish();
        let (mut left_out, unread) = (feed.counts.reasons.clone(), feed.counts.rejected);
        if total.nothing > unread {
            left_out.count("the prompt fills --max-length", total.nothing - unread);
        }
        let without_system = feed.counts.without_system;
        let tried = chains_kept(context, corpus, &encoder.template, &mut files).await?;
        total.chain_dropped = files.values().map(|taught| taught.chain_dropped).sum();
        let places = packed.steps * max_length as u64;
        Ok(Self {
            model: model.to_string(),
            max_length: max_length as u64,
            total,
            files,
            packed_steps: packed.steps,
            packing_loss: if places == 0 { 0.0 } else { 1.0 - packed.tokens as f64 / places as f64 },
            left_out,
            without_system,
            template_tried: (tried > 0).then_some(tried),
            loss_kept,
            sample,
        })
    }

    pub(super) fn table(&self) -> String {
        let limit = count(self.max_length);
        let row = |(file, taught): (&str, &Taught)| {
            let share = |part: u64| format!("{} ({})", count(part), percent(part as f64, taught.rows as f64));
            [
                file.to_string(),
                count(taught.rows),
                count(taught.tokens),
                percent(taught.supervised as f64, taught.tokens as f64),
                share(taught.nothing),
                share(taught.over),
                share(taught.no_end),
                percent(taught.lost_if_dropped as f64, taught.supervised as f64),
                percent(taught.lost_if_cut as f64, taught.supervised as f64),
                self.template_tried.map_or("-".to_string(), |_| share(taught.chain_dropped)),
            ]
        };
        let over = format!("over {limit}");
        let header = [
            "file",
            "rows",
            "tokens",
            "trained",
            "nothing trained",
            &over,
            "cut: no end",
            "lost if dropped",
            "lost if cut",
            "chain dropped",
        ];
        let files = self.files.iter().map(|(file, taught)| (file.as_str(), taught));
        let total = (self.files.len() > 1).then_some(("all", &self.total));
        let mut lines = vec![
            format!("what the rows teach, with the tokenizer and template of {}, at {limit} tokens a row", self.model),
            table(header, files.chain(total).map(row)),
            format!(
                "packing   {} of {} training steps of {limit} tokens is padding (asap feed --step-tokens)",
                percent(self.packing_loss, 1.0),
                count(self.packed_steps)
            ),
            match self.template_tried {
                None => "template  none: the model has no chat template".to_string(),
                Some(tried) => format!(
                    "template  drops the chain of {} of {} rows, if a trainer applies it; asap feed and asap train keep it",
                    count(self.total.chain_dropped),
                    count(tried)
                ),
            },
        ];
        lines.extend(self.loss_kept.iter().map(|Masked { rows, tokens, learned, left_out }| {
            format!(
                "loss      with --loss kept, {} of {} tokens are learned ({}), in {} before pruning; {} left out{}",
                count(*learned),
                count(*tokens),
                percent(*learned as f64, *tokens as f64),
                several(*rows, "chain"),
                count(*left_out),
                if *rows == 0 && *left_out > 0 { ": none has kept steps and fits --max-length" } else { "" }
            )
        }));
        let left_out = self.left_out.by_rows().into_iter();
        lines.extend(left_out.map(|(reason, rows)| format!("left out  {}: {reason}", several(rows, "row"))));
        lines.extend(without_system(self.without_system).map(|what| format!("system    {what}")));
        for Marked { file, row, prompt, supervised } in &self.sample {
            let [prompt, supervised] = [prompt, supervised].map(|text| shortened(Some(text), SHOWN_CHARACTERS));
            lines.push(format!("row {row} of {file}\n  {prompt} [[{supervised}]]"));
        }
        lines.join("\n")
    }
}

impl Masked {
    async fn read(rows: &Rows, encoder: Encoder) -> Result<Self, Failure> {
        let survey = rows.survey(&Arc::new(Encoder { loss: Loss::Kept, ..encoder })).await?;
        let left_out = survey.counts.too_long + survey.counts.rejected;
        Ok(Self { rows: survey.counts.examples, tokens: survey.tokens, learned: survey.learned, left_out })
    }
}

impl Marked {
    fn new(encoder: &Encoder, Fed { examples, source, .. }: &Fed) -> Result<Self, Failure> {
        let (mut prompt, mut from) = (String::new(), 0);
        let Some(Example { ids, learned }) = examples.last() else { return Ok(Self::default()) };
        let begin = learned.last().map_or(ids.len(), |last| last.start);
        for own in &learned[..learned.len().saturating_sub(1)] {
            let texts = [encoder.tokenizer.text(&ids[from..own.start])?, encoder.tokenizer.text(&ids[own.clone()])?];
            prompt.push_str(&format!("{}[[{}]]", texts[0], texts[1]));
            from = own.end;
        }
        prompt.push_str(&encoder.tokenizer.text(&ids[from..begin])?);
        let supervised = encoder.tokenizer.text(&ids[begin..])?;
        Ok(Self { file: source.0.to_string(), row: source.1, prompt, supervised })
    }
}

/// Steps filled with examples in the order of a feed, without those over the maximum.
#[derive(Default)]
struct Packed {
    steps: u64,
    tokens: u64,
    left: usize,
}

impl Packed {
    fn add(&mut self, tokens: usize, most: usize) {
        if tokens > most {
            return;
        }
        if self.steps == 0 || tokens > self.left {
            (self.steps, self.left) = (self.steps + 1, most);
        }
        self.left -= tokens;
        self.tokens += tokens as u64;
    }
}

/// Counts the chains that the chat template drops, and returns the number of rows on which it was tried.
async fn chains_kept(
    context: &SessionContext,
    corpus: &Corpus,
    template: &ExampleTemplate,
    files: &mut BTreeMap<String, Taught>,
) -> Result<u64, Failure> {
    let file: Expr = cast(col("source").field("file"), datafusion::arrow::datatypes::DataType::Utf8View);
    let rows = context.read_table(Arc::new(corpus.view(&context.state())?))?.filter(col("status").is_null())?;
    let columns = [file.alias("file")].into_iter().chain(["question", "cot", "answer", "system"].map(text));
    let mut batches = rows.select(columns.collect::<Vec<_>>())?.execute_stream().await?;
    let bar = Bar::new("trying the template", false);
    bar.begin(corpus.rows(), 0);
    let mut tried = 0;
    while let Some(batch) = batches.next().await {
        let batch: RecordBatch = batch?;
        let columns: Vec<_> = batch.columns().iter().map(|column| column.as_string_view()).collect();
        let at = |column: usize, row: usize| columns[column].is_valid(row).then(|| columns[column].value(row));
        let keeps = |row: usize| {
            let asked = Asked { system: at(4, row), question: at(1, row)? };
            template.keeps_chain(asked, [at(2, row)?, at(3, row).unwrap_or_default()])
        };
        let kept: Vec<Option<bool>> = (0..batch.num_rows()).into_par_iter().map(keeps).collect();
        for (row, kept) in kept.into_iter().enumerate().filter_map(|(row, kept)| Some((row, kept?))) {
            tried += 1;
            if let Some(taught) = files.get_mut(columns[0].value(row)) {
                taught.chain_dropped += u64::from(!kept);
            }
        }
        bar.advance(batch.num_rows() as u64, 0);
    }
    bar.finish();
    Ok(tried)
}
