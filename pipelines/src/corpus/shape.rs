//! Shapes of published datasets, recognised by their columns.
//!
//! | tried in this order | columns |
//! |---|---|
//! | [`Shape::Chain`] | `question`, `cot` and `answer` (the output of asap, too), or what a mapping names |
//! | [`Shape::Generation`] | `generation` or `generated_solution`, beside a question |
//! | [`Shape::Generations`] | `generations`, beside a question and verification flags |
//! | [`Shape::Chain`] | `deepseek_reasoning` and `deepseek_solution`, or `deepseek_thinking_trajectory` and `deepseek_attempt`, beside a question |
//! | [`Shape::Turns`] | `messages` or `conversations` |
//! | [`Shape::Chain`] | texts of which one is called as a question, one as a chain (`reasoning_content`, `thinking`, …) and one as an answer (`response`, `output`, …) |
//! | [`Shape::Generation`] | any text whose values hold think tags, beside a question |
//!
//! Names are taken as they are published, else without regard to case where that leaves one column.

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, config_err, exec_err};

use super::mapping::{ColumnMapping, SYNTAX};

/// Columns that hold the question, the likeliest first.
const QUESTIONS: [&str; 6] = ["prompt", "problem", "question", "instruction", "query", "input"];
/// Columns that hold a chain, with those that hold its answer.
const PAIRS: [(&str, &str); 2] =
    [("deepseek_reasoning", "deepseek_solution"), ("deepseek_thinking_trajectory", "deepseek_attempt")];
/// Columns that hold a chain beside an answer, the likeliest first.
const CHAINS: [&str; 8] =
    ["cot", "reasoning_content", "reasoning", "thinking", "think", "thought", "complex_cot", "chain_of_thought"];
/// Columns that hold an answer beside a chain, the likeliest first.
const ANSWERS: [&str; 6] = ["answer", "final_answer", "response", "output", "content", "solution"];
/// Columns that say which of several generations are correct.
const FLAGS: [&str; 2] = ["correctness_math_verify", "correctness_llama"];

/// Where the files of one schema hold question, chain and answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// Columns of their own for question, chain and answer.
    Chain { question: String, cot: String, answer: String },
    /// One text with the chain in think tags and the answer after them.
    Generation { question: String, generation: String },
    /// Several such texts, and lists of flags that say which of them are correct.
    Generations { question: String, generations: String, flags: Vec<String> },
    /// A conversation: a list of structs with role and content (or from and value), or a struct of such lists.
    Turns { turns: String },
}

/// The shape that a mapping gives to a schema, or the one that the names of its columns tell.
///
/// # Errors
/// If a mapping names a column that `file` does not have, or if a column is not of the type that its name promises.
pub(super) fn recognise(schema: &Schema, mapping: Option<&ColumnMapping>, file: &str) -> Result<Option<Shape>> {
    let Some(shape) = (match mapping {
        Some(mapping) => Some(mapped(schema, mapping, file)?),
        None => by_names(schema),
    }) else {
        return Ok(None);
    };
    check_types(schema, &shape, file)?;
    Ok(Some(shape))
}

fn mapped(schema: &Schema, mapping: &ColumnMapping, file: &str) -> Result<Shape> {
    let published = |name: &String| match schema.field_with_name(name) {
        Ok(_) => Ok(name.clone()),
        Err(_) => {
            config_err!("{file} has no column {name}{}; its columns are {}", nearest(schema, name), names(schema))
        }
    };
    let question = published(&mapping.question)?;
    let cot = published(&mapping.cot)?;
    Ok(match &mapping.answer {
        Some(answer) => Shape::Chain { question, cot, answer: published(answer)? },
        None => Shape::Generation { question, generation: cot },
    })
}

fn by_names(schema: &Schema) -> Option<Shape> {
    if let (Some(question), Some(cot)) = (find(schema, "question"), find(schema, "cot")) {
        return Some(match find(schema, "answer") {
            Some(answer) => Shape::Chain { question, cot, answer },
            None => Shape::Generation { question, generation: cot },
        });
    }
    if let Some(question) = question(schema) {
        if let Some(generation) = find(schema, "generation").or_else(|| find(schema, "generated_solution")) {
            return Some(Shape::Generation { question, generation });
        }
        if let Some(generations) = find(schema, "generations") {
            let flags = FLAGS.iter().filter_map(|name| find(schema, name)).collect();
            return Some(Shape::Generations { question, generations, flags });
        }
        let pairs = PAIRS.iter().map(|(cot, answer)| Some((find(schema, cot)?, find(schema, answer)?)));
        if let Some((cot, answer)) = pairs.flatten().next() {
            return Some(Shape::Chain { question, cot, answer });
        }
    }
    match find(schema, "messages").or_else(|| find(schema, "conversations")) {
        Some(turns) => Some(Shape::Turns { turns }),
        None => chain_and_answer(schema),
    }
}

/// Columns of text that are called as a question, a chain and an answer.
fn chain_and_answer(schema: &Schema) -> Option<Shape> {
    let named = |names: &[&str]| {
        let held = names.iter().filter_map(|name| find(schema, name));
        held.into_iter().find(|name| schema.field_with_name(name).is_ok_and(|field| is_text(field.data_type())))
    };
    Some(Shape::Chain { question: named(&QUESTIONS)?, cot: named(&CHAINS)?, answer: named(&ANSWERS)? })
}

/// The shape of a schema whose column `generation` was seen to hold think tags.
pub(super) fn with_tags(schema: &Schema, generation: &str) -> Option<Shape> {
    let question = question(schema).filter(|question| question != generation)?;
    Some(Shape::Generation { question, generation: generation.to_string() })
}

/// The columns of a schema that hold text.
pub(super) fn texts(schema: &Schema) -> Vec<usize> {
    (0..schema.fields().len()).filter(|index| is_text(schema.field(*index).data_type())).collect()
}

/// Refuses files whose columns fit no shape.
pub(super) fn refuse<T>(schema: &Schema, file: &str) -> Result<T> {
    exec_err!(
        "the columns of {file} fit no shape that is known: {}; say which hold what: --columns {SYNTAX}",
        names(schema)
    )
}

fn question(schema: &Schema) -> Option<String> {
    QUESTIONS.iter().find_map(|name| find(schema, name))
}

/// The column called `name`, else the only one that differs from it in case.
pub(super) fn find(schema: &Schema, name: &str) -> Option<String> {
    if schema.field_with_name(name).is_ok() {
        return Some(name.to_string());
    }
    let mut alike = schema.fields().iter().map(|field| field.name()).filter(|held| held.eq_ignore_ascii_case(name));
    alike.next().filter(|_| alike.next().is_none()).cloned()
}

fn names(schema: &Schema) -> String {
    let names: Vec<String> =
        schema.fields().iter().map(|field| format!("{} ({})", field.name(), field.data_type())).collect();
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}

fn nearest(schema: &Schema, name: &str) -> String {
    let likeness = |held: &FieldRef| strsim::jaro(&held.name().to_lowercase(), &name.to_lowercase());
    let best = schema.fields().iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best {
        Some(field) if likeness(field) > 0.7 => format!(" (did you mean {}?)", field.name()),
        _ => String::new(),
    }
}

fn check_types(schema: &Schema, shape: &Shape, file: &str) -> Result<()> {
    let check = |name: &String, fits: fn(&DataType) -> bool, expected: &str| match schema.field_with_name(name)? {
        field if fits(field.data_type()) => Ok(()),
        field => exec_err!("column {name} of {file} must be {expected}, found {}", field.data_type()),
    };
    match shape {
        Shape::Chain { question, cot, answer } => {
            [question, cot].into_iter().try_for_each(|name| check(name, is_text, "text"))?;
            check(
                answer,
                |found| is_text(found) || found.is_numeric() || *found == DataType::Boolean,
                "text or a number",
            )
        }
        Shape::Generation { question, generation } => {
            [question, generation].into_iter().try_for_each(|name| check(name, is_text, "text"))
        }
        Shape::Generations { question, generations, flags } => {
            check(question, is_text, "text")?;
            check(generations, |found| is_list_of(found, is_text), "a list of texts")?;
            let are_flags = |found: &DataType| is_list_of(found, |item| *item == DataType::Boolean || item.is_null());
            flags.iter().try_for_each(|name| check(name, are_flags, "a list of Booleans"))
        }
        Shape::Turns { turns } => {
            check(turns, are_turns, "a list of structs with role and content (or from and value), or a struct of lists")
        }
    }
}

fn is_text(found: &DataType) -> bool {
    match found {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

fn is_list_of(found: &DataType, fits: fn(&DataType) -> bool) -> bool {
    match found {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => fits(item.data_type()),
        other => other.is_null(),
    }
}

fn are_turns(found: &DataType) -> bool {
    let holds = |fields: &[FieldRef], fits: fn(&DataType) -> bool| {
        [["role", "content"], ["from", "value"]].iter().any(|names| {
            names.iter().all(|name| fields.iter().any(|field| field.name() == name && fits(field.data_type())))
        })
    };
    match found {
        DataType::Struct(fields) => holds(fields, |found| is_list_of(found, is_text)),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => match item.data_type() {
            DataType::Struct(fields) => holds(fields, is_text),
            other => other.is_null(),
        },
        other => other.is_null(),
    }
}
