//! The declaration of a SQL function: its name, its arguments and their types, and its documentation.

use asap_kernels::steps::Separator;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{DocSection, Documentation, ReturnFieldArgs};

use crate::messages;
use crate::output::list_of;
use crate::reading::turns::{are_turns, is_asked, turns_type};
use crate::trace::{empty_trace, is_trace};

const SECTION: DocSection = DocSection { include: true, label: "Chain of Thought Functions", description: None };

#[derive(Debug, Clone, Copy)]
pub(crate) struct Declaration {
    pub name: &'static str,
    /// Its last sentence says of a function of a publication whether it is as published, or differs and why. docs/paper.md has
    /// the same.
    pub about: &'static str,
    pub arguments: &'static [Argument],
    pub example: &'static str,
}

/// An argument of a function, with its documentation.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    pub name: &'static str,
    kind: Arg,
    /// What it is for.
    pub about: &'static str,
    /// Whether a call may leave it out.
    pub is_optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arg {
    Text,
    /// A text that names what separates steps. Another literal fails the query, and a row of a column gives NULL.
    Separator,
    Int,
    /// A number of any type, read as Float64. Outside 0 to 1, a literal fails the query, and a row of a column gives NULL.
    Ratio,
    /// A number of any type, read as Float64. Unless it is above 0 and at most 1, a literal fails the query, and a row of a
    /// column gives NULL.
    Share,
    TextList,
    IntList,
    FloatList,
    Conversation,
    /// What happened to the steps of a chain, as `cot_trace` returns it.
    Trace,
    /// The turns of a conversation, as the column `turns` of a corpus.
    Turns,
    /// A question: a text, or a conversation from which the system prompt and the question are read.
    Asked,
}

impl Argument {
    pub(crate) const fn new(name: &'static str, kind: Arg, about: &'static str) -> Self {
        Self { name, kind, about, is_optional: false }
    }

    pub(crate) const fn optional(name: &'static str, kind: Arg, about: &'static str) -> Self {
        Self { name, kind, about, is_optional: true }
    }

    /// What it holds: `text`, `int`, `number`, `texts`, `ints`, `numbers`, `trace` for structs that asap made, `conversation`,
    /// or `question` for a text or a conversation.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Arg::Text | Arg::Separator => "text",
            Arg::Int => "int",
            Arg::Ratio | Arg::Share => "number",
            Arg::TextList => "texts",
            Arg::IntList => "ints",
            Arg::FloatList => "numbers",
            Arg::Conversation => "conversation",
            Arg::Trace | Arg::Turns => "trace",
            Arg::Asked => "question",
        }
    }
}

impl Argument {
    /// What makes a value of this kind from one of another.
    fn advice(&self, found: &str) -> &'static str {
        match (self.kind, found) {
            (Arg::TextList, "a text") => ": cot_steps(cot) makes one",
            (Arg::Text, "a list of texts") => r": array_to_string(steps, E'\n\n') makes one",
            (Arg::Int, "a number") if self.name == "max_tokens" => {
                ": cot_budget(cot_tokens(cot)) makes one of the share asap.refine.ratio"
            }
            _ => "",
        }
    }
}

/// A type in words.
fn in_words(given: &DataType) -> &'static str {
    match (messages::item(given), given) {
        (Some(item), _) if Arg::Text.accepts(item) => "a list of texts",
        (Some(item), _) if item.is_numeric() => "a list of numbers",
        (Some(item), _) if item.is_nested() => "a list of structs",
        (Some(_), _) => "a list",
        (None, DataType::Struct(_)) => "a column with fields",
        (None, DataType::Boolean) => "a truth value",
        (None, given) if Arg::Text.accepts(given) => "a text",
        (None, given) if given.is_integer() => "a whole number",
        (None, given) if given.is_numeric() => "a number",
        (None, given) if given.is_temporal() => "a time",
        _ => "a value of another type",
    }
}

/// `argument!(name: Kind, "what it is for")`; with `name?`, a call may leave it out.
macro_rules! argument {
    ($name:ident: $kind:ident, $about:literal) => {
        $crate::declaration::Argument::new(stringify!($name), $crate::declaration::Arg::$kind, $about)
    };
    ($name:ident?: $kind:ident, $about:literal) => {
        $crate::declaration::Argument::optional(stringify!($name), $crate::declaration::Arg::$kind, $about)
    };
}

pub(crate) use argument;

impl Declaration {
    fn syntax(&self) -> String {
        let mut syntax = format!("{}(", self.name);
        for (place, argument) in self.arguments.iter().enumerate() {
            match (argument.is_optional, place > 0) {
                (true, true) => syntax.push_str(&format!(" [, {}]", argument.name)),
                (true, false) => syntax.push_str(&format!("[{}]", argument.name)),
                (false, true) => syntax.push_str(&format!(", {}", argument.name)),
                (false, false) => syntax.push_str(argument.name),
            }
        }
        syntax + ")"
    }

    pub(crate) fn documentation(&self) -> Documentation {
        let builder = Documentation::builder(SECTION, self.about, self.syntax()).with_sql_example(self.example);
        self.arguments.iter().fold(builder, |builder, of| builder.with_argument(of.name, of.about)).build()
    }

    pub(crate) fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let required = self.arguments.iter().filter(|argument| !argument.is_optional).count();
        if given.len() < required || given.len() > self.arguments.len() {
            let arguments = if given.len() == 1 { "argument" } else { "arguments" };
            return plan_err!("expected {}, found {} {arguments}", self.syntax(), given.len());
        }
        let mut types = Vec::with_capacity(given.len());
        for (argument, given) in self.arguments.iter().zip(given) {
            if !argument.kind.accepts(given) {
                let (name, expected, found) = (argument.name, argument.kind.describe(), in_words(given));
                let advice = argument.advice(found);
                return plan_err!("argument {name} of {} must be {expected}, found {found}{advice}", self.name);
            }
            types.push(argument.kind.read_as(given));
        }
        Ok(types)
    }

    /// Rejects a query with a literal outside of an argument's range. In a column such a number is a bad row and gives
    /// NULL.
    pub(crate) fn refuse_literals(&self, given: &ReturnFieldArgs<'_>) -> Result<()> {
        for (argument, literal) in self.arguments.iter().zip(given.scalar_arguments) {
            let Some(literal) = literal else { continue };
            let (name, function) = (argument.name, self.name);
            if argument.kind == Arg::Separator
                && let Some(text) = literal.try_as_str().flatten().filter(|text| Separator::named(text).is_none())
            {
                return plan_err!(
                    "argument {name} of {function} must be 'blank-line' or 'line', found '{}'",
                    text.replace('\n', "\\n")
                );
            }
            let Some(range) = argument.kind.range() else { continue };
            if let ScalarValue::Float64(Some(number)) = literal.cast_to(&DataType::Float64)?
                && !argument.kind.holds(number)
            {
                return plan_err!("argument {name} of {function} must be a number {range}, found {number}");
            }
        }
        Ok(())
    }
}

impl Arg {
    fn range(self) -> Option<&'static str> {
        match self {
            Arg::Ratio => Some("from 0 to 1"),
            Arg::Share => Some("above 0, at most 1"),
            _ => None,
        }
    }

    pub(crate) fn holds(self, number: f64) -> bool {
        match self {
            Arg::Ratio => (0.0..=1.0).contains(&number),
            Arg::Share => number > 0.0 && number <= 1.0,
            _ => true,
        }
    }

    /// Returns the type that the engine casts an argument to. Two forms are read later, in the columns: an integer
    /// beyond 63 bits must be a bad row and not a failed query, and a conversation has many forms.
    fn read_as(self, given: &DataType) -> DataType {
        match (self, given) {
            (Arg::Trace, DataType::Null) => empty_trace(),
            (Arg::Turns, DataType::Null) => turns_type(),
            (Arg::Int, DataType::UInt64) | (Arg::Conversation | Arg::Trace | Arg::Turns, _) => given.clone(),
            (Arg::Asked, given) if !Arg::Text.accepts(given) => given.clone(),
            (Arg::IntList, given) => {
                list_of(messages::item(given).map_or(DataType::Int64, |item| Arg::Int.read_as(item)))
            }
            (Arg::Text | Arg::Separator | Arg::Asked, _) => DataType::Utf8View,
            (Arg::Int, _) => DataType::Int64,
            (Arg::Ratio | Arg::Share, _) => DataType::Float64,
            (Arg::TextList, _) => list_of(DataType::Utf8View),
            (Arg::FloatList, _) => list_of(DataType::Float64),
        }
    }

    fn accepts(self, given: &DataType) -> bool {
        use DataType::{Dictionary, LargeUtf8, Null, Utf8, Utf8View};
        let items = |accepts: fn(&DataType) -> bool| messages::item(given).is_some_and(accepts);
        match (self, given) {
            (_, Null) | (Arg::Text, Utf8 | LargeUtf8 | Utf8View) => true,
            (Arg::Text, Dictionary(_, value)) => self.accepts(value),
            (Arg::Separator, given) => Arg::Text.accepts(given),
            (Arg::Int, given) => given.is_integer(),
            (Arg::Ratio | Arg::Share, given) => given.is_numeric(),
            (Arg::TextList, _) => items(|item| Arg::Text.accepts(item)),
            (Arg::IntList, _) => items(|item| Arg::Int.accepts(item)),
            (Arg::FloatList, _) => items(|item| item.is_null() || item.is_numeric()),
            (Arg::Conversation, given) => messages::is_conversation(given),
            (Arg::Trace, given) => is_trace(given),
            (Arg::Turns, given) => are_turns(given),
            (Arg::Asked, given) => {
                Arg::Text.accepts(given) || messages::is_conversation(given) || are_turns(given) || is_asked(given)
            }
            _ => false,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Arg::Text | Arg::Separator => "a text",
            Arg::Asked => "a text, or a list of structs with role and content",
            Arg::Int => "a whole number",
            Arg::Ratio | Arg::Share => "a number",
            Arg::TextList => "a list of texts",
            Arg::IntList => "a list of whole numbers",
            Arg::FloatList => "a list of numbers",
            Arg::Trace => "a list of structs with dropped, as the column steps of an output",
            Arg::Turns => "a list of structs with role and calls, as the column turns of a corpus",
            Arg::Conversation => {
                "a list of structs with role and content (or from and value), or a struct of two lists with these names"
            }
        }
    }
}
