//! Reads a row by its shape, as expressions over the columns of the files.

use std::sync::Arc;

use asap_kernels::tags;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::functions::core::expr_fn::{coalesce, get_field};
use datafusion::functions::regex::expr_fn::regexp_like;
use datafusion::functions::string::expr_fn::{concat, contains, starts_with};
use datafusion::functions::unicode::expr_fn::character_length;
use datafusion::functions_nested::expr_fn::array_element;
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{Expr, ScalarUDF, cast, lit, not, when};

use crate::corpus::shape::chat_template::{self, RENDERED};
use crate::corpus::shape::expressions::{column, first_that, length, null_text, text};
use crate::corpus::shape::flags;
use crate::corpus::shape::generations::first_correct;
use crate::corpus::shape::path::item_fields;
use crate::corpus::shape::{Question, Response, Shape};

pub(crate) struct Functions {
    think: Arc<ScalarUDF>,
    response: Arc<ScalarUDF>,
    turns: Arc<ScalarUDF>,
}

impl Functions {
    pub(crate) fn of(session: &dyn Session) -> Result<Self> {
        let find = |name| {
            let function = session.scalar_functions().get(name).cloned();
            function.ok_or_else(|| plan_datafusion_err!("the session has no function {name}: use a session of asap"))
        };
        Ok(Self { think: find("cot_think")?, response: find("cot_response")?, turns: find("cot_turns")? })
    }

    /// The chain of a generation; NULL if it has no closing think tag.
    pub(crate) fn think(&self, generation: Expr) -> Expr {
        self.think.call(vec![generation])
    }

    fn turns_of(&self, conversation: &str, role: &str) -> Expr {
        self.turns.call(vec![column(conversation), lit(role)])
    }
}

pub(crate) struct Fault {
    pub when: Expr,
    pub status: &'static str,
    pub error: Expr,
}

pub(crate) struct Read {
    pub question: Expr,
    pub text: Expr,
    pub cot: Expr,
    pub answer: Expr,
    pub faults: Vec<Expr>,
}

pub(crate) struct Reading {
    pub question: Expr,
    pub system: Expr,
    pub text: Expr,
    pub chain: Option<Expr>,
    pub answer: Option<Expr>,
    /// Statuses that depend on the shape alone, each with its reason, which is NULL for good rows.
    pub faults: Vec<(&'static str, Expr)>,
    names: [String; 3],
}

impl Reading {
    pub(crate) fn new(schema: &Schema, shape: &Shape, functions: &Functions) -> Result<Self> {
        let mut faults = Vec::new();
        let (question, question_name) = match &shape.question {
            Question::Text(path) => {
                let question = text(path.expr(schema));
                match path.name().eq_ignore_ascii_case(RENDERED) {
                    true => {
                        faults.push(("multi_turn", chat_template::more_than_one_question(&question)?));
                        (chat_template::question(question)?, format!("column {path}"))
                    }
                    false => (question, format!("column {path}")),
                }
            }
            Question::Task { instruction, input } => (task(instruction, input)?, format!("column {instruction}")),
            Question::Turn(turns) => {
                let user = array_element(functions.turns_of(turns, "user"), lit(1));
                (user, format!("the user's turn in column {turns}"))
            }
        };
        if let Some(fault) = more_than_one_exchange(shape, functions)? {
            faults.push(("multi_turn", fault));
        }
        if let Some(flag) = &shape.flag {
            let kind = schema.field_with_name(flag)?.data_type();
            faults.push(("unverified", flags::fault(flag, kind)?));
        }
        let mut reading = Self {
            question,
            system: system(schema, shape, functions)?,
            text: null_text(),
            chain: None,
            answer: None,
            faults,
            names: [question_name, String::new(), String::new()],
        };
        reading.respond(schema, &shape.response, functions)?;
        Ok(reading)
    }

    fn respond(&mut self, schema: &Schema, response: &Response, functions: &Functions) -> Result<()> {
        match response {
            Response::Columns { cot, answer } => {
                self.text = text(cot.chain(schema));
                self.answer = Some(text(answer.expr(schema)));
                self.names[1] = format!("column {cot}");
                self.names[2] = format!("column {answer}");
            }
            Response::Generation(generation) => {
                self.text = text(generation.first_that(schema, |text| functions.think(text))?);
                self.names[1] = format!("column {generation}");
            }
            Response::Generations(generations) => {
                let (generation, fault) = first_correct(schema, generations)?;
                self.text = generation;
                self.faults.push(("unverified", fault));
                self.names[1] = format!("the chosen text of column {}", generations.list);
            }
            Response::Turn { turns, chain } => {
                self.text = array_element(functions.turns_of(turns, "assistant"), lit(1));
                self.names[1] = format!("the assistant's turn in column {turns}");
                if let Some(chain) = chain {
                    self.chain = Some(turn_field(schema, turns, chain)?);
                }
            }
        }
        Ok(())
    }

    /// The chain and the answer, by the tags of the text.
    pub(crate) fn tagged(
        &self,
        functions: &Functions,
        held: Expr,
        chain: Expr,
        answer: Expr,
        may_lack_answer: bool,
    ) -> Result<(Expr, Expr)> {
        let think = functions.think(held.clone());
        let response = functions.response.call(vec![held.clone()]);
        if self.chain.is_some() {
            let cot = when(is_blank(&chain), think).otherwise(chain.clone())?;
            // The content may also contain the chain.
            let answer = coalesce(vec![response, when(is_blank(&chain), null_text()).otherwise(held)?]);
            return Ok((text(cot), text(answer)));
        }
        if self.answer.is_none() {
            return Ok((text(think), text(response)));
        }
        // A chain in a separate column stays unchanged, even if it mentions tags. Only one that begins with a tag is a
        // whole generation.
        let begins = |tag: &str| starts_with(held.clone(), lit(tag));
        let is_generation = || disjunction(tags::openings().map(begins)).unwrap_or_else(|| lit(false));
        let read = when(is_generation(), coalesce(vec![think, held.clone()])).otherwise(held.clone())?;
        // The first character settles most chains cheaply.
        let cot = when(begins("<"), read).otherwise(held.clone())?;
        let answer = match may_lack_answer {
            true => coalesce(vec![answer, when(is_generation(), response).end()?]),
            // Avoids reading the chain for the answer.
            false => answer,
        };
        Ok((text(cot), text(answer)))
    }

    /// All conditions that reject a row. The first that applies is its status.
    pub(crate) fn faults(&self, read: &Read) -> Vec<Fault> {
        let [question, text, answer] = &self.names;
        let mut faults = Vec::new();
        let mut add = |when: Expr, status: &'static str, error: Expr| faults.push(Fault { when, status, error });
        for ((status, _), fault) in self.faults.iter().zip(&read.faults) {
            add(fault.clone().is_not_null(), status, fault.clone());
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
            let again = lit(format!("{text} has another think tag after its first closing think tag"));
            add(thinks_again(read), "tags_in_answer", again);
        }
        faults
    }
}

fn thinks_again(read: &Read) -> Expr {
    let holds = |tag: &str| contains(read.answer.clone(), lit(tag));
    let begins = |tag: &str| regexp_like(read.text.clone(), lit(format!(r"^\s*{tag}")), None);
    // Tags that are also words count only as the generation's own pair, or at the start of the answer.
    let words = tags::of_chains_that_begin().map(|(opening, closing)| {
        let own = holds(opening).or(holds(closing)).and(begins(opening));
        own.or(starts_with(read.answer.clone(), lit(opening)))
    });
    disjunction(tags::of_chains().map(holds).chain(words)).unwrap_or_else(|| lit(false))
}

/// The system prompt of a row: from its conversation or its rendered prompt, else from a column; NULL if blank.
fn system(schema: &Schema, shape: &Shape, functions: &Functions) -> Result<Expr> {
    let mut found = Vec::new();
    if let Some(turns) = shape.conversation() {
        found.push(text(array_element(functions.turns_of(turns, "system"), lit(1))));
    }
    if let Question::Text(path) = &shape.question
        && path.name().eq_ignore_ascii_case(RENDERED)
    {
        found.push(chat_template::system(text(path.expr(schema)))?);
    }
    found.extend(shape.system.iter().map(|name| text(column(name))));
    let found = found.into_iter().map(|held| when(is_blank(&held), null_text()).otherwise(held));
    let mut found = found.collect::<Result<Vec<_>>>()?;
    Ok(match found.len() {
        0 => null_text(),
        1 => found.remove(0),
        _ => coalesce(found),
    })
}

fn is_blank(text: &Expr) -> Expr {
    text.clone().is_null().or(not(regexp_like(text.clone(), lit(r"\S"), None)))
}

fn task(instruction: &str, input: &str) -> Result<Expr> {
    let [instruction, input] = [instruction, input].map(|name| text(column(name)));
    let both = concat(vec![instruction.clone(), lit("\n\n"), input.clone()]);
    when(is_blank(&input), instruction.clone()).when(is_blank(&instruction), input).otherwise(both)
}

fn turn_field(schema: &Schema, turns: &str, field: &str) -> Result<Expr> {
    let Some(fields) = item_fields(schema, turns) else {
        return plan_err!("column {turns} is not a list of messages");
    };
    let speaker = if fields.find("role").is_some() { "role" } else { "from" };
    let is_assistant =
        |message: Expr| text(get_field(message, speaker)).in_list(vec![lit("assistant"), lit("gpt")], false);
    let message = first_that(column(turns), DataType::Struct(fields.clone()), is_assistant)?;
    Ok(text(get_field(message, field)))
}

fn more_than_one_exchange(shape: &Shape, functions: &Functions) -> Result<Option<Expr>> {
    let mut counted = Vec::new();
    if let Question::Turn(turns) = &shape.question {
        counted.push((turns, "user"));
    }
    if let Response::Turn { turns, .. } = &shape.response {
        counted.push((turns, "assistant"));
    }
    let count = |(turns, role): &(&String, &str)| length(functions.turns_of(turns, role));
    let Some(is_long) = disjunction(counted.iter().map(|turns| count(turns).gt(lit(1_u64)))) else { return Ok(None) };
    let found = match counted.as_slice() {
        [user, assistant] if user.0 == assistant.0 => vec![
            text(count(user)),
            lit(" turns of the user and "),
            text(count(assistant)),
            lit(format!(" of the assistant in column {}, expected one of each", user.0)),
        ],
        counted => {
            let described = |(turns, role): &(&String, &str)| {
                [text(count(&(turns, role))), lit(format!(" turns of the {role} in column {turns}, expected one"))]
            };
            counted.iter().flat_map(described).collect()
        }
    };
    Ok(Some(when(is_long, concat(found)).end()?))
}
