//! Reads the chain and the answer of a row, and its question in conversations, in one pass over its columns.
//!
//! | module | holds |
//! |---|---|
//! | [`conversation`] | one exchange of user and assistant in a conversation, or all of its turns |
//! | [`calls`], [`turns`] | calls and results, and the turns of conversations |
//! | [`history`] | earlier turns in a column of their own |
//! | [`response`] | the chain and the answer of a generation, or of separate texts |

pub(crate) mod calls;
mod conversation;
mod history;
mod response;
pub(crate) mod turns;

use std::borrow::Cow;
use std::sync::Arc;

use asap_kernels::steps::Separator;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder, StringViewArray, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_err, internal_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::messages;
use crate::settings::Settings;
use conversation::Conversation;
use history::History;
use response::{Response, Said};
use turns::Turn;
pub use turns::{ASKED, Lessons, are_turns, turns_type};

/// The function that reads a row, for the views of corpora. It returns a struct of texts, [`FIELDS`], and [`TURNS`].
///
/// The function is volatile, so that the engine neither copies its calls nor moves them: a query calls it once for all columns
/// that it uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReadRow {
    source: Source,
    /// Whether the last field is filled.
    has_text: bool,
    signature: Signature,
}

/// What the arguments of [`ReadRow`] are, with the names that errors give them. A generation, or columns, may have two more: the
/// earlier turns and the question after them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// One text with the chain in think tags.
    Generation { name: String },
    /// The chain, and the answer.
    Columns { chain: String, answer: String },
    /// Conversations, of which a row has at least one: what is read of them.
    Conversations { columns: Vec<String>, part: Part },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    Exchange,
    /// The question. Another column has the generation, or the chain and the answer, of which the conversation may have a copy.
    Question {
        may_have_answer: bool,
    },
    Response,
    /// The question in the first columns, this many, and the response in the others.
    Both {
        questions: usize,
    },
}

/// The texts of a row: `multi_turn` is why it is neither one exchange nor a conversation that asap reads, `text` the generation
/// or what the assistant said.
pub const FIELDS: [&str; 8] = ["question", "system", "cot", "answer", "multi_turn", "status", "error", "text"];

/// The field of the turns of a conversation.
pub const TURNS: &str = "turns";

#[derive(Default)]
struct Exchange<'a> {
    question: Option<Cow<'a, str>>,
    system: Option<Cow<'a, str>>,
    multi_turn: Option<String>,
}

#[derive(Default)]
struct Row<'a> {
    exchange: Exchange<'a>,
    response: Response<'a>,
    /// Of a conversation.
    turns: Option<Vec<Turn<'a>>>,
}

impl ReadRow {
    pub fn function(source: Source, has_text: bool) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self { source, has_text, signature: Signature::variadic_any(Volatility::Volatile) })
    }

    fn read(&self, columns: &[ArrayRef], rows: usize, separator: Separator) -> Result<ArrayRef> {
        match (&self.source, columns) {
            (Source::Generation { name }, [generations, history @ ..]) => {
                let (texts, history) = (texts(generations)?, History::new(history)?);
                let read = |row| {
                    let generation = text(&texts, row);
                    let said = Said { text: generation, chain: None };
                    let response = || Response::of_generation(generation, name);
                    let several = history.as_ref().and_then(|held| held.conversation(row, said, name, separator));
                    several.unwrap_or_else(|| Row { response: response(), ..Row::default() })
                };
                self.array((0..rows).map(read), None)
            }
            (Source::Columns { chain, answer }, [chains, answers, history @ ..]) => {
                let (held, history) = ([texts(chains)?, texts(answers)?], History::new(history)?);
                let read = |row| {
                    let [chain_held, answer_held] = held.each_ref().map(|texts| text(texts, row));
                    let said = Said { text: answer_held, chain: chain_held.map(Into::into) };
                    let response = || Response::of_columns(chain_held, answer_held, [chain, answer]);
                    let several = history.as_ref().and_then(|held| held.conversation(row, said, answer, separator));
                    several.unwrap_or_else(|| Row { response: response(), ..Row::default() })
                };
                self.array((0..rows).map(read), Some([chains, answers]))
            }
            (Source::Conversations { columns: names, part }, columns) if columns.len() == names.len() => {
                let conversations = columns.iter().map(Conversation::new).collect::<Result<Vec<_>>>()?;
                let read = |row| conversation::read(&conversations, names, *part, row, separator);
                self.array((0..rows).map(read), None)
            }
            (source, columns) => exec_err!("{source:?} cannot be read from {} columns", columns.len()),
        }
    }

    /// The rows as one array. If no chain or no answer differs from what its column holds, the column is that of the array.
    fn array<'a>(&self, rows: impl Iterator<Item = Row<'a>>, held: Option<[&ArrayRef; 2]>) -> Result<ArrayRef> {
        let rows: Vec<Row> = rows.collect();
        let column = |of: for<'r> fn(&'r Row<'_>) -> Option<&'r str>| -> ArrayRef {
            let bytes = rows.iter().filter_map(of).map(str::len).sum();
            let mut texts = StringBuilder::with_capacity(rows.len(), bytes);
            texts.extend(rows.iter().map(of));
            Arc::new(texts.finish())
        };
        let kept = |place: usize, is_changed: fn(&Response) -> bool| {
            held.map(|held| held[place]).filter(|_| !rows.iter().any(|row| is_changed(&row.response)))
        };
        let cot = match kept(0, |response| response.is_chain_changed) {
            Some(column) => cast(column, &DataType::Utf8)?,
            None => column(|row| row.response.cot.as_deref()),
        };
        let answer = match kept(1, |response| response.is_answer_changed) {
            Some(column) => cast(column, &DataType::Utf8)?,
            None => column(|row| row.response.answer.as_deref()),
        };
        let columns = vec![
            column(|row| row.exchange.question.as_deref()),
            column(|row| row.exchange.system.as_deref()),
            cot,
            answer,
            column(|row| row.exchange.multi_turn.as_deref()),
            column(|row| row.response.status),
            column(|row| row.response.error.as_deref()),
            column(if self.has_text { |row| row.response.text } else { |_| None }),
            turns::column(rows.iter().map(|row| row.turns.as_ref()))?,
        ];
        Ok(Arc::new(StructArray::try_new(fields(), columns, None)?))
    }
}

/// The function that joins the parts of a message to one text, with its thoughts in think tags.
pub fn text_of_parts() -> ScalarUDF {
    #[derive(Debug, PartialEq, Eq, Hash)]
    struct TextOfParts(Signature);

    impl ScalarUDFImpl for TextOfParts {
        fn name(&self) -> &str {
            "text_of_parts"
        }

        fn signature(&self) -> &Signature {
            &self.0
        }

        fn return_type(&self, _: &[DataType]) -> Result<DataType> {
            Ok(DataType::Utf8View)
        }

        fn invoke_with_args(&self, given: ScalarFunctionArgs) -> Result<ColumnarValue> {
            let [parts] = ColumnarValue::values_to_arrays(&given.args)?
                .try_into()
                .map_err(|_| internal_datafusion_err!("parts are one column"))?;
            Ok(ColumnarValue::Array(messages::texts_of(&parts)?))
        }
    }

    ScalarUDF::new_from_impl(TextOfParts(Signature::variadic_any(Volatility::Immutable)))
}

fn texts(column: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(column, &DataType::Utf8View)?.as_string_view().clone())
}

fn text(texts: &StringViewArray, row: usize) -> Option<&str> {
    texts.is_valid(row).then(|| texts.value(row))
}

fn fields() -> Fields {
    let texts = FIELDS.iter().map(|name| Field::new(*name, DataType::Utf8, true));
    texts.chain([Field::new(TURNS, turns_type(), true)]).collect()
}

impl ScalarUDFImpl for ReadRow {
    fn name(&self) -> &str {
        match &self.source {
            Source::Generation { .. } => "read_generation",
            Source::Columns { .. } => "read_columns",
            Source::Conversations { .. } => "read_conversation",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields()))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&given.args)?;
        let separator =
            Settings::of(&given.config_options).map_or(Separator::default(), |settings| settings.chain_steps);
        Ok(ColumnarValue::Array(self.read(&columns, given.number_rows, separator)?))
    }
}
