//! Scores of chains: tokenised once, asked of the model's thread once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::loaded::LoadedModel;
use super::row::{Over, Row, Scores, Wanted};
use super::thread::{Request, RowKey};
use super::{Asked, LmError, PromptTemplate, Result, Tokenizer, prompt};
use crate::memo::{Memo, Memory, share};
use asap_kernels::steps::join;

/// A model with a tokenizer and a prompt: what scores the chains of a query.
#[derive(Debug)]
pub struct Scorer {
    tokenizer: Arc<Tokenizer>,
    prompt: PromptTemplate,
    model: Arc<LoadedModel>,
    rows: Memo<RowKey, Tokenized>,
    prompt_key: RowKey,
    start: Option<u32>,
}

/// A question and the steps of its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionAndSteps<'a> {
    /// The question, with its system prompt.
    pub question: Asked<'a>,
    /// The steps; they are read joined by a blank line.
    pub steps: Vec<&'a str>,
}

/// What the model reads for scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<'a> {
    /// A chain behind its question.
    Chain(QuestionAndSteps<'a>),
    /// A step alone, behind the token that begins a text.
    Alone(&'a str),
    /// An answer behind a chain, and behind what is left of the chain.
    Answer {
        /// The chain.
        chain: QuestionAndSteps<'a>,
        /// The answer.
        answer: &'a str,
        /// What is left of it.
        left: Left,
        /// What is scored.
        over: Over,
    },
}

/// What is left of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// All steps but one, for each of them.
    AllButOne,
    /// The first steps: none, one, and so on to all but the last.
    First,
    /// Nothing: only the whole chain is read.
    Nothing,
}

impl Left {
    fn chains<'a>(self, steps: &'a [&'a str]) -> impl Iterator<Item = String> + 'a {
        let texts = if self == Self::Nothing { 0 } else { steps.len() };
        let left = (0..texts).map(move |place| {
            let behind = if self == Self::AllButOne { &steps[place + 1..] } else { &[] };
            join(steps[..place].iter().chain(behind).copied())
        });
        std::iter::once(join(steps.iter().copied())).chain(left)
    }
}

/// A row's length, and its tokens unless they are more than the model can read.
#[derive(Debug)]
struct Tokenized {
    tokens: usize,
    row: Option<Arc<Row>>,
}

/// The scores of a row, or why it has none.
#[derive(Debug, Clone, PartialEq)]
pub enum Scored {
    /// The scores, step by step.
    Steps(Arc<Scores>),
    /// The row is longer than the model's window, in words.
    TooLong(String),
    /// The model computed numbers that are none.
    NotFinite,
    /// The prompt cannot be rendered for its question, in words.
    NoPrompt(String),
}

impl Scored {
    fn of(scores: Arc<Scores>) -> Self {
        if scores.is_finite() { Self::Steps(scores) } else { Self::NotFinite }
    }
}

impl Scorer {
    /// A scorer of this model whose prompt is read from `folder` and the setting `asap.scorer.prompt`. Rows are remembered
    /// within `memory`.
    ///
    /// # Errors
    /// As [`PromptTemplate::load`], and if the prompt cannot be rendered.
    pub fn new(
        folder: &Path,
        setting: Option<&str>,
        tokenizer: Arc<Tokenizer>,
        model: Arc<LoadedModel>,
        memory: &Arc<Memory>,
    ) -> Result<Self> {
        let prompt = PromptTemplate::load(folder, setting)?;
        // A template that fails on every question fails here, before any row is read.
        prompt.render("1 + 1 = ?".into())?;
        let prompt_key = Sha256::digest(format!("{setting:?}")).into();
        let start = prompt::start(folder, &tokenizer)?;
        Ok(Self { tokenizer, prompt, model, rows: Memo::new(memory, share::ROWS), prompt_key, start })
    }

    /// What the model must be asked for these scores: the slow part, tokenising, on all cores. Rows that were scored lately
    /// are not asked for again.
    ///
    /// # Errors
    /// If the tokenizer or the prompt fails, or if a step is to be read alone and the tokenizer has no token that begins a
    /// text.
    pub fn prepare(&self, readings: &[Reading], wanted: Wanted) -> Result<Prepared> {
        let rows = readings.par_iter().map(|reading| self.prepare_row(reading, wanted)).collect::<Result<_>>()?;
        Ok(Prepared { rows })
    }

    /// The scores of what was prepared, in its order. Rows that are there twice are computed once.
    ///
    /// # Errors
    /// If the model fails.
    pub async fn score(&self, prepared: Prepared) -> Result<Vec<Scored>> {
        let requests: Vec<Request> = prepared.requests().cloned().collect();
        let mut answers = match requests.is_empty() {
            true => vec![],
            false => self.model.thread.score(requests).await?,
        }
        .into_iter();
        let finish = |row| match row {
            PreparedRow::Known(scored) => Some(scored),
            PreparedRow::Requested(_) => answers.next().map(Scored::of),
        };
        Ok(prepared.rows.into_iter().filter_map(finish).collect())
    }

    /// Why a chain, with its answer where one is given, is longer than the model's window, in words; None if it fits.
    ///
    /// # Errors
    /// If the tokenizer or the prompt fails.
    pub fn too_long(&self, chain: &QuestionAndSteps, answer: Option<&str>) -> Result<Option<String>> {
        let chain = chain.clone();
        let reading = match answer {
            Some(answer) => Reading::Answer { chain, answer, left: Left::Nothing, over: Over::Answer },
            None => Reading::Chain(chain),
        };
        match self.tokenized(self.key(&reading), &reading) {
            Ok(tokenized) => Ok(tokenized.row.is_none().then(|| self.describe(&tokenized, &reading))),
            // It has no length, and no score either.
            Err(LmError::Prompt(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The surprisal in nats of a token that is drawn from the vocabulary by chance.
    pub fn chance(&self) -> f32 {
        (self.model.vocabulary as f32).ln()
    }

    /// Whether the model's thread has ended.
    pub fn is_over(&self) -> bool {
        self.model.is_over()
    }

    /// Rows that went through the model so far.
    pub fn prefills(&self) -> u64 {
        self.model.thread.prefills()
    }

    /// Rows of hidden states that went through the output layer so far.
    pub fn output_rows(&self) -> u64 {
        self.model.output_rows.load(Ordering::Relaxed)
    }

    fn prepare_row(&self, reading: &Reading, wanted: Wanted) -> Result<PreparedRow> {
        let key = self.key(reading);
        if let Some(scores) = self.model.thread.known(key, wanted) {
            return Ok(PreparedRow::Known(Scored::of(scores)));
        }
        let tokenized = match self.tokenized(key, reading) {
            Ok(tokenized) => tokenized,
            // A template may raise for one question: that is the row's failure.
            Err(LmError::Prompt(why)) => return Ok(PreparedRow::Known(Scored::NoPrompt(why))),
            Err(error) => return Err(error),
        };
        Ok(match &tokenized.row {
            Some(row) => PreparedRow::Requested(Request { key, row: Arc::clone(row), wanted }),
            None => PreparedRow::Known(Scored::TooLong(self.describe(&tokenized, reading))),
        })
    }

    fn tokenized(&self, key: RowKey, reading: &Reading) -> Result<Arc<Tokenized>> {
        if let Some(tokenized) = self.rows.get(&key) {
            return Ok(tokenized);
        }
        let row = match reading {
            Reading::Chain(chain) => Row::encode(&self.tokenizer, &self.prompt, chain.question, &chain.steps)?,
            Reading::Alone(step) => Row::alone(&self.tokenizer, self.start()?, step)?,
            Reading::Answer { chain, answer, left, over } => {
                let chains = left.chains(&chain.steps);
                Row::with_answer(&self.tokenizer, &self.prompt, chain.question, chains, answer, *over)?
            }
        };
        let tokens = row.longest();
        let row = (tokens <= self.model.window).then(|| Arc::new(row));
        let bytes = 128 + row.as_ref().map_or(0, |row| row.bytes());
        let tokenized = Arc::new(Tokenized { tokens, row });
        self.rows.insert(key, Arc::clone(&tokenized), bytes);
        Ok(tokenized)
    }

    fn describe(&self, tokenized: &Tokenized, reading: &Reading) -> String {
        let (tokens, window) = (in_thousands(tokenized.tokens), in_thousands(self.model.window));
        let beside = if matches!(reading, Reading::Answer { .. }) { "prompt and answer" } else { "prompt" };
        format!("{tokens} tokens with its {beside}, the model's window is {window}")
    }

    fn start(&self) -> Result<u32> {
        let none = "the tokenizer names no token that begins a text: expected bos_token in tokenizer_config.json, or \
                    <|endoftext|>";
        self.start.ok_or_else(|| LmError::Tokenize(none.to_string()))
    }

    fn key(&self, reading: &Reading) -> RowKey {
        let mut hash = Sha256::new_with_prefix(self.prompt_key);
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        let (chain, kind) = match reading {
            Reading::Chain(chain) => (Some(chain), None),
            Reading::Alone(step) => {
                add(step);
                (None, Some("Alone".to_string()))
            }
            Reading::Answer { chain, answer, left, over } => {
                add(answer);
                (Some(chain), Some(format!("{left:?} {over:?}")))
            }
        };
        if let Some(chain) = chain {
            add(chain.question.system.unwrap_or_default());
            add(chain.question.question);
            chain.steps.iter().for_each(|step| add(step));
        }
        // No text is that long: what is read otherwise than as a chain has keys of its own.
        if let Some(kind) = kind {
            hash.update(u64::MAX.to_le_bytes());
            hash.update(kind);
        }
        hash.finalize().into()
    }
}

/// Chains whose scores are known, or are to be asked of the model.
#[derive(Debug)]
pub struct Prepared {
    rows: Vec<PreparedRow>,
}

#[derive(Debug)]
enum PreparedRow {
    Known(Scored),
    Requested(Request),
}

impl Prepared {
    fn requests(&self) -> impl Iterator<Item = &Request> {
        self.rows.iter().filter_map(|row| match row {
            PreparedRow::Requested(request) => Some(request),
            PreparedRow::Known(_) => None,
        })
    }

    pub fn calls(&self) -> usize {
        self.requests().count()
    }

    pub fn remembered(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row, PreparedRow::Known(Scored::Steps(_)))).count()
    }

    pub fn tokens(&self) -> usize {
        self.requests().map(|request| request.row.tokens()).sum()
    }
}

fn in_thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
