//! Scores of chains: tokenised once, asked of the model's thread once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use candle_core::Tensor;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::config::ModelConfig;
#[cfg(feature = "cuda")]
use super::cuda::CudaModel;
use super::decoder::Decoder;
use super::layer::IsWanted;
use super::ops::{Bf16Matrix, Projection};
use super::output::{Output, Target, TokenScore, targets_in};
use super::row::{Row, Scores, Wanted};
use super::thread::{Model, ModelThread, Request, RowKey};
use super::weights::Weights;
use super::{Computed, Dtype, LmError, PromptTemplate, Result, Tokenizer, prompt};
use crate::memo::{Memo, Memory, share};

/// A model's folder, loaded: the decoder on its thread and what its callers must know of it.
#[derive(Debug)]
pub struct LoadedModel {
    thread: ModelThread,
    /// Rows that went through the output layer.
    output_rows: Arc<AtomicU64>,
    /// Tokens that the model can read at once.
    window: usize,
    vocabulary: usize,
    notes: Vec<String>,
}

impl LoadedModel {
    /// Loads a folder in Hugging Face's layout and starts the model's thread. Scores are remembered within `memory`.
    ///
    /// # Errors
    /// If a file is missing, or config, weights and tokenizer do not fit each other.
    pub fn load(folder: &Path, computed: Computed, tokenizer: &Tokenizer, memory: &Arc<Memory>) -> Result<Self> {
        let config = ModelConfig::load(folder)?;
        let (vocabulary, notes) = (config.vocab_size, config.notes.clone());
        #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "a GPU's memory may hold less"))]
        let mut window = config.max_position_embeddings;
        if let Some(id) = tokenizer.largest_id().filter(|id| *id as usize >= vocabulary) {
            let found = format!("it has a token {id}, but config.json's vocab_size is {vocabulary}");
            return Err(LmError::Unsupported { path: folder.join("tokenizer.json"), found });
        }
        let (thread, output_rows) = match computed {
            Computed::Cpu(Dtype::F32) => spawn::<Tensor>(folder, config, memory)?,
            Computed::Cpu(Dtype::Bf16) => spawn::<Bf16Matrix>(folder, config, memory)?,
            #[cfg(feature = "cuda")]
            Computed::Cuda => {
                let model = CudaModel::load(folder, config)?;
                let output_rows = model.output_rows();
                window = window.min(model.longest());
                (ModelThread::spawn(model, memory)?, output_rows)
            }
        };
        Ok(Self { thread, output_rows, window, vocabulary, notes })
    }

    /// What in its config is not known, or not as it seems.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether its thread has ended.
    pub fn is_over(&self) -> bool {
        self.thread.is_over()
    }
}

/// The thread of a model whose projections are of type `M`, and the count of its output rows.
fn spawn<M: Projection + 'static>(
    folder: &Path,
    config: ModelConfig,
    memory: &Arc<Memory>,
) -> Result<(ModelThread, Arc<AtomicU64>)> {
    let weights = Weights::<M>::load(folder, &config)?;
    let output = Output::new(weights.output().clone());
    let output_rows = output.rows();
    let decoder = Decoder::new(config, weights);
    Ok((ModelThread::spawn(DecoderWithOutput { decoder, output }, memory)?, output_rows))
}

struct DecoderWithOutput<M> {
    decoder: Decoder<M>,
    output: Output,
}

impl<M: Projection> Model for DecoderWithOutput<M> {
    fn score(
        &mut self,
        ids: &[u32],
        lengths: &[usize],
        targets: &[Target],
        is_wanted: &IsWanted,
    ) -> Result<Vec<TokenScore>> {
        let mut scores = vec![TokenScore { surprisal: f32::NAN, entropy: f32::NAN }; targets.len()];
        if targets.is_empty() {
            return Ok(scores);
        }
        self.decoder.hidden_by_pass(ids, lengths, is_wanted, |rows, hidden| {
            let (places, own) = targets_in(&rows, targets);
            places.into_iter().zip(self.output.score(&hidden, &own)?).for_each(|(place, score)| scores[place] = score);
            Ok(())
        })?;
        Ok(scores)
    }
}

/// A model with a tokenizer and a prompt: what scores the chains of a query.
#[derive(Debug)]
pub struct Scorer {
    tokenizer: Arc<Tokenizer>,
    prompt: PromptTemplate,
    model: Arc<LoadedModel>,
    rows: Memo<RowKey, Tokenized>,
    /// Distinguishes rows of different prompts.
    prompt_key: RowKey,
    /// The token that begins a text: the tokenizer's BOS, else `<|endoftext|>`.
    start: Option<u32>,
}

/// A question and the steps of its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionAndSteps<'a> {
    /// The question.
    pub question: &'a str,
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
        prompt.render("1 + 1 = ?")?;
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
        let requests: Vec<Request> = prepared.asked().cloned().collect();
        let mut answers = match requests.is_empty() {
            true => vec![],
            false => self.model.thread.score(requests).await?,
        }
        .into_iter();
        let finish = |row| match row {
            PreparedRow::Known(scored) => Some(scored),
            PreparedRow::Asked(_) => answers.next().map(Scored::of),
        };
        Ok(prepared.rows.into_iter().filter_map(finish).collect())
    }

    /// Why a chain is longer than the model's window, in words; None if it fits.
    ///
    /// # Errors
    /// If the tokenizer or the prompt fails.
    pub fn too_long(&self, chain: &QuestionAndSteps) -> Result<Option<String>> {
        let chain = Reading::Chain(chain.clone());
        match self.tokenized(self.key(&chain), &chain) {
            Ok(tokenized) => Ok(tokenized.row.is_none().then(|| self.describe(&tokenized))),
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
            Some(row) => PreparedRow::Asked(Request { key, row: Arc::clone(row), wanted }),
            None => PreparedRow::Known(Scored::TooLong(self.describe(&tokenized))),
        })
    }

    fn tokenized(&self, key: RowKey, reading: &Reading) -> Result<Arc<Tokenized>> {
        if let Some(tokenized) = self.rows.get(&key) {
            return Ok(tokenized);
        }
        let row = match reading {
            Reading::Chain(chain) => Row::encode(&self.tokenizer, &self.prompt, chain.question, &chain.steps)?,
            Reading::Alone(step) => Row::alone(&self.tokenizer, self.start()?, step)?,
        };
        let tokens = row.ids.len();
        let row = (tokens <= self.model.window).then(|| Arc::new(row));
        let bytes = 128 + row.as_ref().map_or(0, |row| row.bytes());
        let tokenized = Arc::new(Tokenized { tokens, row });
        self.rows.insert(key, Arc::clone(&tokenized), bytes);
        Ok(tokenized)
    }

    fn describe(&self, tokenized: &Tokenized) -> String {
        let (tokens, window) = (in_thousands(tokenized.tokens), in_thousands(self.model.window));
        format!("{tokens} tokens with its prompt, the model's window is {window}")
    }

    fn start(&self) -> Result<u32> {
        let none = "the tokenizer names no token that begins a text: expected bos_token in tokenizer_config.json, or \
                    <|endoftext|>";
        self.start.ok_or_else(|| LmError::Tokenize(none.to_string()))
    }

    fn key(&self, reading: &Reading) -> RowKey {
        let (mut hash, question, steps) = match reading {
            Reading::Chain(chain) => (Sha256::new_with_prefix(self.prompt_key), chain.question, chain.steps.as_slice()),
            Reading::Alone(step) => (Sha256::new_with_prefix("alone"), "", std::slice::from_ref(step)),
        };
        for text in std::iter::once(&question).chain(steps) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
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
    Asked(Request),
}

impl Prepared {
    fn asked(&self) -> impl Iterator<Item = &Request> {
        self.rows.iter().filter_map(|row| match row {
            PreparedRow::Asked(request) => Some(request),
            PreparedRow::Known(_) => None,
        })
    }

    /// Rows that the model is asked for.
    pub fn calls(&self) -> usize {
        self.asked().count()
    }

    /// Rows whose scores were remembered.
    pub fn remembered(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row, PreparedRow::Known(Scored::Steps(_)))).count()
    }

    /// Tokens that the model is asked to read.
    pub fn tokens(&self) -> usize {
        self.asked().map(|request| request.row.ids.len()).sum()
    }
}

/// 32768 as 32,768.
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
mod tests {
    use super::*;
    use crate::pass::TOKENS_PER_PASS;
    use crate::testing::{Chain, chains, golden};

    fn scorer(name: &str, setting: &str) -> Scorer {
        scorer_in(Computed::Cpu(Dtype::F32), name, setting)
    }

    fn scorer_in(computed: Computed, name: &str, setting: &str) -> Scorer {
        let (folder, memory) = (golden(name), Arc::default());
        let tokenizer = Arc::new(Tokenizer::load_within(&folder, &memory).unwrap());
        let model = Arc::new(LoadedModel::load(&folder, computed, &tokenizer, &memory).unwrap());
        Scorer::new(&folder, Some(setting), tokenizer, model, &memory).unwrap()
    }

    fn score(scorer: &Scorer, chains: &[QuestionAndSteps], wanted: Wanted) -> Vec<Scored> {
        let readings: Vec<Reading> = chains.iter().cloned().map(Reading::Chain).collect();
        futures::executor::block_on(scorer.score(scorer.prepare(&readings, wanted).unwrap())).unwrap()
    }

    fn asked(chain: &Chain) -> QuestionAndSteps<'_> {
        QuestionAndSteps { question: &chain.question, steps: chain.steps.iter().map(String::as_str).collect() }
    }

    fn steps(scored: Scored) -> Arc<Scores> {
        match scored {
            Scored::Steps(scores) => scores,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn scores_agree_with_transformers() {
        for name in ["qwen2", "llama", "qwen3", "mistral", "yarn", "linear"] {
            let scorer = scorer(name, "{question}");
            let chains = chains(name);
            let asked: Vec<_> = chains.iter().map(asked).collect();
            let found = score(&scorer, &asked, Wanted::AllTokens);
            for (found, chain) in found.into_iter().map(steps).zip(&chains) {
                let close = |found: Option<f32>, expected: Option<f64>, tolerance: f64| match (found, expected) {
                    (Some(found), Some(expected)) => (f64::from(found) - expected).abs() < tolerance,
                    (found, expected) => found.is_none() && expected.is_none(),
                };
                assert_eq!(found.first.len(), chain.steps.len());
                for (i, first) in found.first.iter().enumerate() {
                    assert!(close(first.map(|token| token.surprisal), chain.surprisal[i], 1e-4), "{name} {chain:?}");
                    assert!(close(first.map(|token| token.entropy), chain.entropy[i], 1e-4), "{name} {chain:?}");
                    let expected = chain.perplexity[i];
                    let tolerance = 1e-4 * expected.unwrap_or_default();
                    assert!(close(found.perplexity[i], expected, tolerance), "{name} {chain:?} {found:?}");
                }
            }
        }
    }

    /// A line of `tests/goldens/scores_*.jsonl`.
    #[derive(serde::Deserialize)]
    struct BaselineScores {
        id: usize,
        step_entropy_sum: Vec<Option<f64>>,
        self_information: Vec<Option<f64>>,
    }

    #[test]
    fn baselines_agree_with_transformers() {
        for name in ["qwen2", "llama"] {
            let (scorer, chains) = (scorer(name, "{question}"), chains(name));
            let goldens = std::fs::read_to_string(golden(&format!("scores_{name}.jsonl"))).unwrap();
            for line in goldens.lines() {
                let expected: BaselineScores = serde_json::from_str(line).unwrap();
                let chain = &chains[expected.id];
                let found = steps(score(&scorer, &[asked(chain)], Wanted::AllTokens).remove(0));
                let alone: Vec<Reading> = chain.steps.iter().map(|step| Reading::Alone(step)).collect();
                let alone = scorer.prepare(&alone, Wanted::AllTokens).unwrap();
                let alone = futures::executor::block_on(scorer.score(alone)).unwrap();
                let alone: Vec<_> = alone.into_iter().map(|scored| steps(scored).perplexity[0].map(f32::ln)).collect();
                for (found, expected) in
                    [(&found.entropy, expected.step_entropy_sum), (&alone, expected.self_information)]
                {
                    assert_eq!(found.len(), expected.len());
                    for (found, expected) in found.iter().zip(expected) {
                        let close = |(a, b): (f32, f64)| (f64::from(a) - b).abs() < 1e-4 * b.max(1.0);
                        assert!(
                            found.zip(expected).map_or(found.is_none() && expected.is_none(), close),
                            "{name} {line}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn bf16_moves_scores_by_little() {
        for name in ["qwen2", "llama", "qwen3"] {
            let [whole, half] =
                [Dtype::F32, Dtype::Bf16].map(|dtype| scorer_in(Computed::Cpu(dtype), name, "{question}"));
            let chains = chains(name);
            let asked: Vec<_> = chains.iter().map(asked).collect();
            let [whole, half] = [whole, half].map(|scorer| score(&scorer, &asked, Wanted::FirstTokens));
            let mut differences = vec![];
            for (whole, half) in whole.into_iter().map(steps).zip(half.into_iter().map(steps)) {
                let pairs = whole.first.iter().zip(&half.first).filter_map(|(a, b)| Some(((*a)?, (*b)?)));
                differences.extend(pairs.map(|(a, b)| f64::from((a.surprisal - b.surprisal).abs())));
            }
            let mean = differences.iter().sum::<f64>() / differences.len() as f64;
            assert!(mean > 0.0 && mean < 0.02, "{name}: {mean}");
        }
    }

    #[test]
    fn a_row_longer_than_a_pass_is_scored_in_order() {
        let (scorer, chains) = (scorer("llama", "{question}"), chains("llama"));
        let rows: Vec<Row> = chains
            .iter()
            .map(asked)
            .map(|chain| Row::encode(&scorer.tokenizer, &scorer.prompt, chain.question, &chain.steps).unwrap())
            .collect();
        let ids: Vec<u32> = rows.iter().cycle().flat_map(|row| row.ids.clone()).take(TOKENS_PER_PASS + 700).collect();
        let folder = golden("llama");
        let decoder = Decoder::load(&folder).unwrap();
        let output = Output::new(decoder.weights.output().clone());
        let mut model = DecoderWithOutput { decoder, output };
        let rows = [TOKENS_PER_PASS + 500, 3, TOKENS_PER_PASS - 1, TOKENS_PER_PASS, 3];
        let targets = rows.map(|row| Target { row: row as u32, id: ids[row + 1] });
        let found = model.score(&ids, &[ids.len()], &targets, &|| true).unwrap();
        for (target, found) in targets.iter().zip(&found) {
            let alone = model.score(&ids, &[ids.len()], std::slice::from_ref(target), &|| true).unwrap();
            assert!((alone[0].surprisal - found.surprisal).abs() < 1e-5);
        }
        assert!((found[1].surprisal - found[4].surprisal).abs() < 1e-5);
    }

    #[test]
    fn only_the_rows_before_first_tokens_go_through_the_output_layer() {
        let scorer = scorer("qwen2", "{question}");
        let chains = chains("qwen2");
        let asked: Vec<_> = chains.iter().map(asked).collect();
        score(&scorer, &asked, Wanted::FirstTokens);
        let scored_steps = chains.iter().flat_map(|chain| &chain.surprisal).flatten().count();
        assert_eq!(scorer.output_rows(), scored_steps as u64);
    }

    #[test]
    fn a_batch_gives_what_single_rows_give_and_each_row_is_computed_once() {
        let (batch, single) = (scorer("llama", "{question}"), scorer("llama", "{question}"));
        let chains = chains("llama");
        let mut asked: Vec<_> = chains.iter().map(asked).collect();
        asked.extend_from_within(..10);
        let found = score(&batch, &asked, Wanted::FirstTokens);
        assert_eq!(batch.prefills(), chains.len() as u64);
        for (found, chain) in found.into_iter().map(steps).zip(&asked) {
            let alone = steps(score(&single, std::slice::from_ref(chain), Wanted::FirstTokens).remove(0));
            for (found, alone) in found.first.iter().zip(&alone.first) {
                let difference = found.zip(*alone).map_or(0.0, |(a, b)| (a.surprisal - b.surprisal).abs());
                assert!(difference < 1e-5 && found.is_some() == alone.is_some());
            }
        }
        assert_eq!(single.prefills(), chains.len() as u64);

        // All tokens take one more pass, which answers for first tokens too.
        let read = batch.tokenizer.tokenized_bytes();
        score(&batch, &asked, Wanted::AllTokens);
        score(&batch, &asked, Wanted::FirstTokens);
        assert_eq!(batch.prefills(), 2 * chains.len() as u64);
        assert_eq!(batch.tokenizer.tokenized_bytes(), read);
    }

    #[test]
    fn prompts_are_part_of_a_row() {
        let folder = golden("qwen2");
        let short = scorer("qwen2", "{question}");
        let long = Scorer::new(
            &folder,
            Some("{question} So: "),
            Arc::clone(&short.tokenizer),
            Arc::clone(&short.model),
            &Arc::default(),
        );
        let chain = QuestionAndSteps { question: "2 + 2?\n", steps: vec!["It is 4.", "", "Done."] };
        let first = |scorer: &Scorer| steps(score(scorer, std::slice::from_ref(&chain), Wanted::FirstTokens).remove(0));
        let (short, long) = (first(&short), first(&long.unwrap()));
        assert!(short.first[0].is_some() && short.first[2].is_some() && short.first[0] != long.first[0]);
        assert_eq!((short.first[1], long.first[1]), (None, None), "a step without text has no first token");
    }

    #[test]
    fn a_chain_beyond_the_window_says_so_in_numbers() {
        let scorer = scorer("qwen2", "{question}");
        let chain = QuestionAndSteps { question: "Count.", steps: vec!["7 "; 2500] };
        let why = "7,503 tokens with its prompt, the model's window is 4,096";
        let text = format!("Count.{}", ["7 "; 2500].join("\n\n"));
        assert_eq!(scorer.tokenizer.encode(&text, true).unwrap().ids.len(), 7503);
        assert_eq!(scorer.too_long(&chain).unwrap().as_deref(), Some(why));
        let scored = score(&scorer, &[chain], Wanted::FirstTokens);
        assert_eq!(scored, [Scored::TooLong(why.to_string())]);
        assert_eq!(scorer.prefills(), 0);
        let fits = QuestionAndSteps { question: "Count.", steps: vec!["1", "2"] };
        assert_eq!(scorer.too_long(&fits).unwrap(), None);
    }
}
