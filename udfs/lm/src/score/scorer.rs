//! Scores of chains. Each chain is tokenized once and sent to the model's thread once.

use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::backend::Asks;
use crate::example::Example;
use crate::score::loaded::LoadedModel;
use crate::score::row::{QuestionAndSteps, RowTokens, Scores, Wanted};
use crate::score::thread::{Request, RowKey};
use crate::text::prompt::named_token;
use crate::{LmError, PromptTemplate, Result, Tokenizer, ops};
use asap_kernels::memo::{Memo, Memory, share};

#[derive(Debug)]
pub struct Scorer {
    tokenizer: Arc<Tokenizer>,
    prompt: PromptTemplate,
    model: Arc<LoadedModel>,
    rows: Memo<RowKey, Tokenized>,
    prompt_key: RowKey,
    start: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reading<'a> {
    /// A chain after its question.
    Chain(QuestionAndSteps<'a>),
    /// A single step after the token that begins a text.
    Alone(&'a str),
    /// An answer after a chain, and also after the chain without each of its steps if these are `left_out`.
    Answer { chain: QuestionAndSteps<'a>, answer: &'a str, left_out: bool },
    /// An answer after a chain, in a box that the model also fills itself; without a box if it does not `state` one.
    Survival { chain: QuestionAndSteps<'a>, answer: &'a str, states: bool },
    /// A training example, whose learned pieces are the steps.
    Example(&'a Example),
}

impl<'a> Reading<'a> {
    /// The steps of the chain that it is about.
    pub fn steps(&self) -> &[&'a str] {
        match self {
            Self::Chain(chain) | Self::Answer { chain, .. } | Self::Survival { chain, .. } => &chain.steps,
            Self::Alone(step) => std::slice::from_ref(step),
            Self::Example(_) => &[],
        }
    }
}

/// The whole chain, and the chain without each of its steps if these are `left_out`.
fn chains<'a>(chain: &QuestionAndSteps<'a>, left_out: bool) -> impl Iterator<Item = QuestionAndSteps<'a>> {
    let texts = if left_out { chain.steps.len() } else { 0 };
    let without = |place: usize| (0..chain.steps.len()).filter(|step| *step != place).collect::<Vec<_>>();
    std::iter::once(chain.clone()).chain((0..texts).map(move |place| chain.with_steps(&without(place))))
}

/// A row, or its length in tokens if that exceeds the model's window.
type Tokenized = std::result::Result<Arc<RowTokens>, usize>;

/// The scores of a row, or why it has none.
#[derive(Debug, Clone, PartialEq)]
pub enum Scored {
    Steps(Arc<Scores>),
    /// The row exceeds the model's window; with a message.
    TooLong(String),
    /// The model produced NaN or infinite values.
    NotFinite,
    /// The prompt cannot be rendered for the question; with a message.
    NoPrompt(String),
    /// The backend failed on it; with a message.
    Rejected(String),
}

impl Scored {
    fn of_scores(scores: Arc<Scores>) -> Self {
        if scores.is_finite() { Self::Steps(scores) } else { Self::NotFinite }
    }
}

impl Scorer {
    /// A scorer with a prompt from `folder` and the setting `asap.scorer.prompt`. Rows are cached within `memory`.
    pub fn new(
        folder: &Path,
        setting: Option<&str>,
        tokenizer: Arc<Tokenizer>,
        model: Arc<LoadedModel>,
        memory: &Arc<Memory>,
    ) -> Result<Self> {
        let prompt = PromptTemplate::load(folder, setting)?;
        let prompt_key = Sha256::digest(format!("{setting:?}")).into();
        // The tokenizer's BOS, otherwise `<|endoftext|>`, as in GPT-2 and Qwen.
        let start = named_token(folder, &tokenizer, "bos_token")?.or_else(|| tokenizer.id("<|endoftext|>"));
        Ok(Self { tokenizer, prompt, model, rows: Memo::new(memory, share::ROWS), prompt_key, start })
    }

    /// Tokenizes readings on all cores and builds the requests to the model; cached scores need no request.
    ///
    /// # Errors
    /// If the tokenizer or the prompt fails, or a single step is to be read but no token begins a text.
    pub fn prepare(&self, readings: &[Reading], wanted: Wanted) -> Result<Prepared> {
        let row = |reading| self.prepare_row(reading, wanted);
        let rows = ops::on_cores(|| readings.par_iter().map(row).collect::<Result<_>>())?;
        Ok(Prepared { rows })
    }

    /// Returns the scores of prepared rows, in order. Duplicate rows are computed once.
    pub async fn score(&self, prepared: Prepared) -> Result<Vec<Scored>> {
        let requests: Vec<Request> = prepared.requests().cloned().collect();
        let answers = if requests.is_empty() { vec![] } else { self.model.thread.score(requests).await? };
        let mut answers = answers.into_iter();
        let finish = |row| match row {
            PreparedRow::Known(scored) => Some(scored),
            PreparedRow::Requested(_) => {
                answers.next().map(|answer| answer.map_or_else(Scored::Rejected, Scored::of_scores))
            }
        };
        Ok(prepared.rows.into_iter().filter_map(finish).collect())
    }

    /// Returns a message if a chain, with its answer if given, exceeds the model's window; None if it fits.
    pub fn too_long(&self, chain: &QuestionAndSteps, answer: Option<&str>) -> Result<Option<String>> {
        let chain = chain.clone();
        let reading = match answer {
            Some(answer) => Reading::Answer { chain, answer, left_out: false },
            None => Reading::Chain(chain),
        };
        match self.row(self.key(&reading), &reading)? {
            Err(Scored::TooLong(why)) => Ok(Some(why)),
            // Without a prompt it has neither a length nor a score.
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Returns the text of each step's first token, or why the chain has no scores. A step without a score has no text.
    pub fn first_tokens(&self, chain: &QuestionAndSteps) -> Result<std::result::Result<Vec<Option<String>>, Scored>> {
        let reading = Reading::Chain(chain.clone());
        let text = |id: Option<u32>| id.map(|id| self.tokenizer.text(&[id])).transpose();
        match self.row(self.key(&reading), &reading)? {
            Ok(row) => row.first_tokens().map(text).collect::<Result<_>>().map(Ok),
            Err(scored) => Ok(Err(scored)),
        }
    }

    /// The prompt before chains.
    pub fn prompt(&self) -> &PromptTemplate {
        &self.prompt
    }

    /// The surprisal in nats of a token drawn uniformly from the vocabulary.
    pub fn chance(&self) -> f32 {
        (self.model.vocabulary as f32).ln()
    }

    /// Checks that the model's backend answers what a function asks.
    ///
    /// # Errors
    /// [`LmError::Refused`] if it does not.
    pub fn check(&self, asks: Asks) -> Result<()> {
        self.model.thread.check(asks)
    }

    /// The longest row, in tokens.
    pub fn window(&self) -> usize {
        self.model.window
    }

    pub fn is_over(&self) -> bool {
        self.model.is_over()
    }

    fn prepare_row(&self, reading: &Reading, wanted: Wanted) -> Result<PreparedRow> {
        let key = self.key(reading);
        if let Some(scores) = self.model.thread.known(key, wanted) {
            return Ok(PreparedRow::Known(Scored::of_scores(scores)));
        }
        Ok(match self.row(key, reading)? {
            Ok(row) => PreparedRow::Requested(Request { key, row, wanted }),
            Err(scored) => PreparedRow::Known(scored),
        })
    }

    /// The row of a reading, or why it has no scores.
    fn row(&self, key: RowKey, reading: &Reading) -> Result<std::result::Result<Arc<RowTokens>, Scored>> {
        match self.tokenized(key, reading) {
            Ok(tokenized) => {
                let row = tokenized.as_ref().as_ref().map(Arc::clone);
                Ok(row.map_err(|tokens| Scored::TooLong(self.describe(*tokens, reading))))
            }
            // A template may raise an error for one question; only that row fails.
            Err(LmError::Prompt(why)) => Ok(Err(Scored::NoPrompt(why))),
            Err(error) => Err(error),
        }
    }

    fn tokenized(&self, key: RowKey, reading: &Reading) -> Result<Arc<Tokenized>> {
        if let Some(tokenized) = self.rows.get(&key) {
            return Ok(tokenized);
        }
        let row = match reading {
            Reading::Chain(chain) => RowTokens::encode(&self.tokenizer, &self.prompt, chain)?,
            Reading::Alone(step) => RowTokens::alone(&self.tokenizer, self.start()?, step)?,
            Reading::Example(example) => RowTokens::of_example(example),
            Reading::Answer { chain, answer, left_out } => {
                RowTokens::with_answer(&self.tokenizer, &self.prompt, chains(chain, *left_out), answer)?
            }
            Reading::Survival { chain, answer, states } => {
                let said: Vec<_> = chain.turns.iter().map(|turn| &turn.text).collect();
                let question = self.key(&(chain.question, said));
                RowTokens::checked(&self.tokenizer, &self.prompt, chain, answer, *states, question)?
            }
        };
        let tokens = row.longest();
        let fits = tokens <= self.model.window;
        let bytes = 128 + if fits { row.bytes() } else { 0 };
        let tokenized = Arc::new(if fits { Ok(Arc::new(row)) } else { Err(tokens) });
        self.rows.insert(key, Arc::clone(&tokenized), bytes);
        Ok(tokenized)
    }

    fn describe(&self, tokens: usize, reading: &Reading) -> String {
        let (tokens, window) = (in_thousands(tokens), in_thousands(self.model.window));
        let texts = match reading {
            Reading::Answer { .. } | Reading::Survival { .. } | Reading::Example(_) => "prompt and answer",
            Reading::Chain(_) | Reading::Alone(_) => "prompt",
        };
        format!("{tokens} tokens with its {texts}, the model's window is {window}")
    }

    fn start(&self) -> Result<u32> {
        let none = "found no token that begins a text: expected bos_token in tokenizer_config.json, or <|endoftext|>";
        self.start.ok_or_else(|| LmError::Tokenize(none.to_string()))
    }

    fn key(&self, of: &impl Hash) -> RowKey {
        let mut hash = Sha(Sha256::new_with_prefix(self.prompt_key));
        of.hash(&mut hash);
        hash.0.finalize().into()
    }
}

/// SHA-256 of a value; keys of [`Hasher::finish`] would be too short.
struct Sha(Sha256);

impl Hasher for Sha {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

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
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", in_thousands(number / 1000), number % 1000),
    }
}

#[cfg(test)]
mod tests;
