//! What a shape says about a row, as expressions over the columns of the files.

use std::sync::Arc;

use asap_udfs::kernels::tags::OPENING;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::Session;
use datafusion::common::{Column, Result, plan_datafusion_err};
use datafusion::functions::core::expr_fn::{coalesce, least};
use datafusion::functions::regex::expr_fn::regexp_like;
use datafusion::functions::string::expr_fn::{concat, starts_with};
use datafusion::functions::unicode::expr_fn::character_length;
use datafusion::functions_nested::expr_fn::{array_element, array_length, array_position};
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{Expr, ScalarUDF, cast, lit, not, when};
use datafusion::scalar::ScalarValue;

use super::shape::Shape;

/// A column by its name, whatever characters that has.
pub(super) fn column(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}

pub(super) fn text(expr: Expr) -> Expr {
    cast(expr, DataType::Utf8)
}

pub(super) fn null_text() -> Expr {
    lit(ScalarValue::Utf8(None))
}

/// The functions of asap that a view is built of.
pub(super) struct Functions {
    think: Arc<ScalarUDF>,
    response: Arc<ScalarUDF>,
    turns: Arc<ScalarUDF>,
}

impl Functions {
    pub fn of(session: &dyn Session) -> Result<Self> {
        let find = |name| {
            let function = session.scalar_functions().get(name).cloned();
            function.ok_or_else(|| plan_datafusion_err!("the session has no function {name}: build it with asap's"))
        };
        Ok(Self { think: find("cot_think")?, response: find("cot_response")?, turns: find("cot_turns")? })
    }

    fn turns_of(&self, conversation: &str, role: &str) -> Expr {
        self.turns.call(vec![column(conversation), lit(role)])
    }
}

/// Why a row cannot be pruned.
pub(super) struct Fault {
    pub when: Expr,
    pub status: &'static str,
    pub error: Expr,
}

/// Chain and answer, after the tags were read.
pub(super) struct Tagged {
    pub cot: Expr,
    pub answer: Expr,
}

/// The columns in which what was read of a row stands.
pub(super) struct Read {
    pub question: Expr,
    pub text: Expr,
    pub cot: Expr,
    pub answer: Expr,
    pub fault: Expr,
}

/// What a shape says about a row, before tags are read.
pub(super) struct Reading {
    pub question: Expr,
    /// The generation, or the chain where that has a column of its own.
    pub text: Expr,
    /// The answer where that has a column of its own.
    pub answer: Option<Expr>,
    /// Why the shape alone makes a row a reject; NULL for all other rows.
    pub fault: Option<Expr>,
    /// The status of such rows.
    fault_status: &'static str,
    /// What messages call question, text and answer.
    names: [String; 3],
}

impl Reading {
    pub fn new(schema: &Schema, shape: &Shape, functions: &Functions) -> Result<Self> {
        let text_column = |name: &str| text(column(name));
        let names = |question: &str, text: String, answer: String| [format!("column {question}"), text, answer];
        Ok(match shape {
            Shape::Chain { question, cot, answer } => Self {
                question: text_column(question),
                text: text_column(cot),
                answer: Some(text_column(answer)),
                fault: None,
                fault_status: "",
                names: names(question, format!("column {cot}"), format!("column {answer}")),
            },
            Shape::Generation { question, generation } => Self {
                question: text_column(question),
                text: text_column(generation),
                answer: None,
                fault: None,
                fault_status: "",
                names: names(question, format!("column {generation}"), String::new()),
            },
            Shape::Generations { question, generations, flags } => {
                let Chosen { generation, fault } = first_verified(schema, generations, flags)?;
                Self {
                    question: text_column(question),
                    text: generation,
                    answer: None,
                    fault: Some(fault),
                    fault_status: "unverified",
                    names: names(question, format!("the chosen text of column {generations}"), String::new()),
                }
            }
            Shape::Turns { turns } => Self {
                question: array_element(functions.turns_of(turns, "user"), lit(1)),
                text: array_element(functions.turns_of(turns, "assistant"), lit(1)),
                answer: None,
                fault: Some(more_than_one_exchange(turns, functions)?),
                fault_status: "multi_turn",
                names: [
                    format!("the user's turn in column {turns}"),
                    format!("the assistant's turn in column {turns}"),
                    String::new(),
                ],
            },
        })
    }

    /// Chain and answer, from the columns that hold `text` and, where it has one of its own, the answer.
    pub fn tagged(&self, functions: &Functions, held: Expr, answer: Expr, may_lack_answer: bool) -> Result<Tagged> {
        let think = functions.think.call(vec![held.clone()]);
        let response = functions.response.call(vec![held.clone()]);
        if self.answer.is_none() {
            return Ok(Tagged { cot: text(think), answer: text(response) });
        }
        // A chain in a column of its own is taken as it is, also where it speaks of tags; only one that begins with a tag is
        // a whole generation.
        let begins = |tag: &str| starts_with(held.clone(), lit(tag));
        let is_generation = || disjunction(OPENING.map(begins)).unwrap_or_else(|| lit(false));
        let read = when(is_generation(), coalesce(vec![think, held.clone()])).otherwise(held.clone())?;
        // Most chains are told apart by their first character.
        let cot = when(begins("<"), read).otherwise(held.clone())?;
        let answer = match may_lack_answer {
            true => coalesce(vec![answer, when(is_generation(), response).end()?]),
            // The chain need not be read for it.
            false => answer,
        };
        Ok(Tagged { cot: text(cot), answer: text(answer) })
    }

    /// Everything that makes a row a reject; the first that holds is its status.
    pub fn faults(&self, read: &Read) -> Vec<Fault> {
        let [question, text, answer] = &self.names;
        let mut faults = Vec::new();
        let mut add = |when: Expr, status: &'static str, error: Expr| faults.push(Fault { when, status, error });
        if self.fault.is_some() {
            add(read.fault.clone().is_not_null(), self.fault_status, read.fault.clone());
        }
        add(is_blank(&read.question), "no_question", lit(format!("{question} is NULL or empty")));
        if self.answer.is_some() {
            add(is_blank(&read.cot), "empty_chain", lit(format!("{text} is NULL or empty")));
            add(is_blank(&read.answer), "no_answer", lit(format!("{answer} is NULL or empty")));
        } else {
            let length = cast(character_length(read.text.clone()), DataType::Utf8);
            let no_tags = vec![lit("no closing think tag in the "), length, lit(format!(" characters of {text}"))];
            add(is_blank(&read.text), "no_generation", lit(format!("{text} is NULL or empty")));
            add(read.cot.clone().is_null(), "no_tags", concat(no_tags));
            add(is_blank(&read.cot), "empty_chain", lit(format!("nothing between the think tags of {text}")));
            add(is_blank(&read.answer), "no_answer", lit(format!("nothing after the closing think tag of {text}")));
        }
        faults
    }
}

fn is_blank(text: &Expr) -> Expr {
    text.clone().is_null().or(not(regexp_like(text.clone(), lit(r"\S"), None)))
}

struct Chosen {
    generation: Expr,
    fault: Expr,
}

/// The first of several generations that one of the flags calls correct.
fn first_verified(schema: &Schema, generations: &str, flags: &[String]) -> Result<Chosen> {
    let list_of =
        |name: &str, item: DataType| cast(column(name), DataType::List(Arc::new(Field::new_list_field(item, true))));
    let is_typed = |name: &&String| schema.field_with_name(name).is_ok_and(|field| !field.data_type().is_null());
    let first_true = |name: &String| array_position(list_of(name, DataType::Boolean), lit(true), lit(1));
    let positions: Vec<Expr> = flags.iter().filter(is_typed).map(first_true).collect();
    let position = match positions.as_slice() {
        [] => lit(ScalarValue::Int64(None)),
        [one] => cast(one.clone(), DataType::Int64),
        _ => cast(least(positions), DataType::Int64),
    };
    let generations_list = list_of(generations, DataType::Utf8);
    let by = if flags.is_empty() { "no column says which".to_string() } else { flags.join(", ") };
    let none = concat(vec![
        lit("none of the "),
        text(length(generations_list.clone())),
        lit(format!(" texts of column {generations} is verified as correct ({by})")),
    ]);
    let fault = when(position.clone().is_null(), none).end()?;
    Ok(Chosen { generation: array_element(generations_list, position), fault })
}

fn more_than_one_exchange(turns: &str, functions: &Functions) -> Result<Expr> {
    let [user, assistant] = ["user", "assistant"].map(|role| length(functions.turns_of(turns, role)));
    let is_long = user.clone().gt(lit(1_u64)).or(assistant.clone().gt(lit(1_u64)));
    let found = concat(vec![
        text(user),
        lit(" turns of the user and "),
        text(assistant),
        lit(format!(" of the assistant in column {turns}, expected one of each")),
    ]);
    when(is_long, found).end()
}

fn length(list: Expr) -> Expr {
    coalesce(vec![array_length(list), lit(0_u64)])
}
