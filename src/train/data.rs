//! The traces of a corpus as examples to learn.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use asap_kernels::tags;
use asap_lm::train::{END, Example, random};
use asap_lm::{PromptTemplate, Tokenizer};
use asap_pipelines::corpus::{ColumnMapping, Corpus};
use asap_pipelines::session::session;
use asap_udfs::Settings;
use asap_udfs::llm::Llm;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::functions::core::expr_ext::FieldAccessor;
use datafusion::prelude::{cast, col};

use crate::failure::Failure;
use crate::output::complain;

/// What is held back is drawn in this round of the seed; epochs have the rounds from 0.
const HOLD_BACK_ROUND: u64 = u64::MAX - 1;

/// A question with what a model should write about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// What was asked.
    pub question: String,
    /// The chain, the tag that closes it, and the answer: what follows a prompt that opened the chain.
    pub response: String,
}

/// The traces of a location.
#[derive(Debug)]
pub struct Traces {
    /// In the order of the files and their rows.
    pub traces: Vec<Trace>,
    /// Rows that have no chain to learn.
    pub rejected: usize,
}

/// Reads the traces of a location in any published shape.
///
/// # Errors
/// If nothing can be read there, or its columns fit no shape.
pub async fn read(location: &str, columns: Option<&ColumnMapping>) -> Result<Traces, Failure> {
    let context = session(Settings::default(), &Llm::default())?;
    let corpus = Corpus::open(&context.state(), location, columns).await?;
    corpus.notes.iter().for_each(|note| complain(&format!("note: {note}")));
    let rows = context.read_table(Arc::new(corpus.view(&context.state())?))?;
    let rows = rows.filter(col("status").is_null())?;
    // Files are read side by side, so rows come in any order, and a model depends on theirs.
    let rows = rows.sort_by(vec![col("source").field("file"), col("source").field("row")])?;
    let rows = rows.select(["question", "cot", "answer"].map(|column| cast(col(column), DataType::Utf8View)))?;
    let mut traces = Vec::new();
    for batch in rows.collect().await? {
        let [questions, cots, answers] = [0, 1, 2].map(|column| batch.column(column).as_string_view());
        for ((question, cot), answer) in questions.iter().zip(cots).zip(answers) {
            let (Some(question), Some(cot)) = (question, cot) else { continue };
            let response = tags::continuation(cot, answer.unwrap_or_default());
            traces.push(Trace { question: question.to_string(), response });
        }
    }
    let rejected = corpus.rows() as usize - traces.len();
    Ok(Traces { traces, rejected })
}

/// Holds a part of the traces back, drawn from the seed: what is to be learned, and what was held back.
pub fn divide(traces: Vec<Trace>, held_back: f64, seed: u64) -> (Vec<Trace>, Vec<Trace>) {
    let count = (traces.len() as f64 * held_back).round() as usize;
    let drawn: HashSet<usize> = random::order(traces.len(), seed, HOLD_BACK_ROUND).into_iter().take(count).collect();
    let (held_back, learned): (Vec<_>, Vec<_>) =
        traces.into_iter().enumerate().partition(|(index, _)| drawn.contains(index));
    let plain = |traces: Vec<(usize, Trace)>| traces.into_iter().map(|(_, trace)| trace).collect();
    (plain(learned), plain(held_back))
}

/// Everything that a tokenizer has to know.
pub fn texts(traces: &[Trace]) -> Vec<&str> {
    traces.iter().flat_map(|trace| [trace.question.as_str(), trace.response.as_str()]).collect()
}

/// Traces as tokens.
#[derive(Debug, Default)]
pub struct Examples {
    /// Those that have something to learn.
    pub examples: Vec<Example>,
    /// Tokens at which they were cut.
    pub max_length: usize,
    /// How many were cut.
    pub cut: usize,
    /// How many were left out: nothing of their response would be left.
    pub left_out: usize,
}

impl Examples {
    /// Renders traces as the scoring model sees them, with the end of the turn behind them, and cuts them.
    ///
    /// # Errors
    /// If a text cannot be tokenised.
    pub fn encode(
        traces: &[Trace],
        prompt: &PromptTemplate,
        tokenizer: &Tokenizer,
        max_length: usize,
    ) -> Result<Self, Failure> {
        let end = tokenizer.encode(END, false)?.ids[0];
        let mut examples = Self { max_length, ..Self::default() };
        for Trace { question, response } in traces {
            let mut example = Example::encode(tokenizer, &prompt.render(question)?, response, end)?;
            if example.prompt >= max_length {
                examples.left_out += 1;
                continue;
            }
            if example.ids.len() > max_length {
                examples.cut += 1;
                example.ids.truncate(max_length);
            }
            examples.examples.push(example);
        }
        Ok(examples)
    }
}

impl fmt::Display for Examples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cut, left_out, max_length, .. } = self;
        write!(
            f,
            "{cut} traces were cut at {max_length} tokens, {left_out} left out because their question alone is longer"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use asap_lm::train::{train_tokenizer, write_configs};

    fn traces(count: usize) -> Vec<Trace> {
        let trace = |i: usize| Trace { question: format!("question {i}"), response: "word ".repeat(i) };
        (0..count).map(trace).collect()
    }

    #[test]
    fn what_is_held_back_is_not_learned() {
        let (learned, held_back) = divide(traces(40), 0.25, 7);
        assert_eq!((learned.len(), held_back.len()), (30, 10));
        assert!(held_back.iter().all(|trace| !learned.contains(trace)));
        assert_eq!(divide(traces(40), 0.25, 7).1, held_back);
        assert_ne!(divide(traces(40), 0.25, 8).1, held_back);
        assert_eq!(divide(traces(40), 0.0, 7).0, traces(40));
    }

    #[test]
    fn long_traces_are_cut_and_those_without_a_response_left_out() {
        let folder = tempfile::TempDir::new().unwrap();
        train_tokenizer(&texts(&traces(40)), 300, folder.path()).unwrap();
        write_configs(&serde_json::json!({"max_position_embeddings": 4096}), folder.path()).unwrap();
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        let prompt = PromptTemplate::load(folder.path(), None).unwrap();
        let whole = Examples::encode(&traces(40), &prompt, &tokenizer, 1_000).unwrap();
        assert_eq!((whole.examples.len(), whole.cut, whole.left_out), (40, 0, 0));
        let end = whole.examples[0].response()[0];
        assert!(whole.examples.iter().all(|example| example.ids.last() == Some(&end)));

        let max_length = whole.examples[20].ids.len();
        let cut = Examples::encode(&traces(40), &prompt, &tokenizer, max_length).unwrap();
        assert!(cut.cut > 10 && cut.left_out == 0, "{cut}");
        assert!(cut.examples.iter().all(|example| example.ids.len() <= max_length && !example.response().is_empty()));
        let none = Examples::encode(&traces(40), &prompt, &tokenizer, 5).unwrap();
        assert_eq!((none.examples.len(), none.left_out), (0, 40));
    }
}
