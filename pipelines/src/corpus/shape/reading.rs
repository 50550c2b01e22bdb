//! Reads a row by its shape, as expressions over the columns of the files.

use std::sync::Arc;

use asap_kernels::tags;
use asap_udfs::messages;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::functions::core::expr_fn::{coalesce, get_field, named_struct};
use datafusion::functions::regex::expr_fn::{regexp_like, regexp_replace};
use datafusion::functions::string::expr_fn::{btrim, concat, lower};
use datafusion::functions::unicode::expr_fn::character_length;
use datafusion::functions_nested::expr_fn::{array_element, make_array};
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Expr, ScalarUDF, cast, lit, when};

use crate::corpus::shape::chat_template::{self, RENDERED};
use crate::corpus::shape::expressions::{
    column, first_case, first_filled, first_that, is_blank, length, null_text, text, without_nan,
};
use crate::corpus::shape::generations::first_correct;
use crate::corpus::shape::path::{Path, is_text, item_fields, turn_field};
use crate::corpus::shape::{Question, Response, Shape, flags, is_content};

const SPACE: &str = " \n\r\t";

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

    /// A chain in a column or a field of its own. It stays unchanged, even if it mentions tags. One that begins with a
    /// tag is a whole generation, and tags around one are left out.
    fn chain(&self, held: &Expr) -> Result<Expr> {
        let tags = |side: fn((&'static str, &'static str)) -> &'static str| any_of(tags::of_chains().map(side));
        let (openings, closings) = (tags(|(opening, _)| opening), tags(|(_, closing)| closing));
        let around = format!(r"^(?:\s*(?:{openings}))+\s*|\s*\n\s*(?:{closings})\s*$");
        let bare = regexp_replace(held.clone(), lit(around.clone()), lit(""), Some(lit("g")));
        let bare = when(regexp_like(held.clone(), lit(around), None), bare).otherwise(held.clone())?;
        when(is_tagged(held), coalesce(vec![self.think(held.clone()), bare.clone()])).otherwise(bare)
    }

    /// An answer next to a chain, without what may stand around the answer of a generation.
    fn answer(&self, held: &Expr) -> Result<Expr> {
        let bare = self.response.call(vec![concat(vec![lit("</think>"), held.clone()])]);
        let may_have = regexp_like(held.clone(), lit(r"^\s*[<\[]|[>\]\[]\s*$|<[|｜]"), None);
        let is_more = bare.clone().not_eq(btrim(vec![held.clone(), lit(SPACE)]));
        when(may_have.and(is_more), bare).otherwise(held.clone())
    }

    /// The texts of a role, from the first conversation that has one.
    fn turns_of(&self, conversation: &Path, role: &str) -> Result<Expr> {
        let each = conversation.each().map(|path| self.turns.call(vec![column(path.name()), lit(role)]));
        first_case(each.collect(), |turns| length(turns.clone()).gt(lit(0_u64)))
    }
}

pub(crate) struct Fault {
    pub when: Expr,
    pub status: &'static str,
    pub error: Expr,
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
            Question::Text { text: path, .. } => {
                let question = written_question(schema, &shape.question)?;
                let name = format!("column {}", path.described());
                match is_rendered(path) {
                    true => {
                        faults.push(("multi_turn", chat_template::more_than_one_question(&question)?));
                        (chat_template::question(question)?, name)
                    }
                    false => (question, name),
                }
            }
            Question::Turn(turns) => {
                let user = array_element(functions.turns_of(turns, "user")?, lit(1));
                (user, format!("the user's turn in column {}", turns.described()))
            }
        };
        if let Some(fault) = more_than_one_exchange(shape, functions)? {
            faults.push(("multi_turn", fault));
        }
        faults.extend(flags::fault(schema, &shape.flags)?.map(|fault| ("unverified", fault)));
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
                let kind = |path: &Path| path.data_type(schema).cloned().unwrap_or(DataType::Null);
                let said = |path: &Path| text(without_nan(path.expr(schema), &kind(path)));
                self.text = first_filled(cot.each().map(|path| text(path.chain(schema))).collect())?;
                self.answer = Some(first_filled(answer.each().map(said).collect())?);
                self.names[1] = format!("column {}", cot.described());
                self.names[2] = format!("column {}", answer.described());
            }
            Response::Generation(generation) => {
                let texts = generation.each().map(|path| path.first_that(schema, |text| functions.think(text)));
                self.text = first_filled(texts.map(|found| found.map(text)).collect::<Result<_>>()?)?;
                self.names[1] = format!("column {}", generation.described());
            }
            Response::Generations(generations) => {
                let (generation, fault) = first_correct(schema, generations)?;
                self.text = generation;
                self.faults.push(("unverified", fault));
                self.names[1] = format!("the chosen text of column {}", generations.list);
            }
            Response::Turn { turns, chains } => {
                self.text = array_element(functions.turns_of(turns, "assistant")?, lit(1));
                self.names[1] = format!("the assistant's turn in column {}", turns.described());
                if !chains.is_empty() {
                    self.chain = Some(turn_fields(schema, turns, chains, functions)?);
                }
            }
        }
        Ok(())
    }

    /// The chain and the answer, by the tags of the text.
    pub(crate) fn tagged(&self, functions: &Functions, held: Expr, chain: Expr, answer: Expr) -> Result<(Expr, Expr)> {
        let think = functions.think(held.clone());
        let response = functions.response.call(vec![held.clone()]);
        if self.chain.is_some() {
            let cot = when(is_blank(&chain), think).otherwise(functions.chain(&chain)?)?;
            // The content may also contain the chain.
            let said = functions.answer(&held)?;
            let answer = coalesce(vec![response, when(is_blank(&chain), null_text()).otherwise(said)?]);
            return Ok((text(cot), text(answer)));
        }
        if self.answer.is_none() {
            return Ok((text(think), text(response)));
        }
        // The answer may be a whole generation, too. If its chain is another one, the row is a reject.
        let (is_whole, own, is_missing) = (is_tagged(&answer), functions.think(answer.clone()), is_blank(&held));
        let same = vec![btrim(vec![held.clone(), lit(SPACE)]), think];
        let is_alike = is_missing.clone().or(own.clone().in_list(same, false));
        let said = when(is_blank(&answer).and(is_tagged(&held)), coalesce(vec![response, answer.clone()]))
            .when(is_whole.clone().and(is_alike), functions.response.call(vec![answer.clone()]))
            .when(is_whole.clone().and(own.clone().is_not_null()), answer.clone())
            .otherwise(functions.answer(&answer)?)?;
        let cot = when(is_missing.and(is_whole), own).otherwise(functions.chain(&held)?)?;
        Ok((text(cot), text(said)))
    }

    /// The names of the columns that hold [`Self::faults`].
    pub(crate) fn fault_names(&self) -> impl Iterator<Item = String> {
        (0..self.faults.len()).map(|index| format!("fault_{index}"))
    }

    /// All conditions that reject a row, of which `inner` returns a column. The first that applies is its status.
    pub(crate) fn faults(&self, inner: fn(&str) -> Expr) -> Vec<Fault> {
        let [question, text, answer] = &self.names;
        let read = ["question", "text", "cot", "answer"].map(inner);
        let [asked, held, chain, said] = &read;
        let mut faults = Vec::new();
        let mut add = |when: Expr, status: &'static str, error: Expr| faults.push(Fault { when, status, error });
        for ((status, _), name) in self.faults.iter().zip(self.fault_names()) {
            add(inner(&name).is_not_null(), status, inner(&name));
        }
        // A line that is not a JSON object is read as such a row.
        let is_empty = read.clone().map(Expr::is_null);
        let nothing = lit(format!(
            "{question} is NULL or empty, and so is all else that asap reads: the row is empty, or its line is not a JSON object"
        ));
        add(conjunction(is_empty).unwrap_or_else(|| lit(false)), "no_question", nothing);
        add(is_blank(asked), "no_question", lit(format!("{question} is NULL or empty")));
        if self.answer.is_some() {
            add(is_blank(chain), "empty_chain", lit(format!("{text} is NULL or empty")));
            add(is_blank(said), "no_answer", lit(format!("{answer} is NULL or empty")));
            let other = format!("{answer} begins with a think tag, and its chain is not that of {text}");
            add(is_tagged(said), "tags_in_answer", lit(other));
        } else {
            let length = cast(character_length(held.clone()), DataType::Utf8);
            let no_tags = vec![lit("no closing think tag in the "), length, lit(format!(" characters of {text}"))];
            add(is_blank(held), "no_generation", lit(format!("{text} is NULL or empty")));
            add(chain.clone().is_null(), "no_tags", concat(no_tags));
            add(is_blank(chain), "empty_chain", lit(format!("nothing between the think tags of {text}")));
            add(is_blank(said), "no_answer", lit(format!("nothing after the closing think tag of {text}")));
            let again = lit(format!("{text} has another think tag after its first closing think tag"));
            add(thinks_again(held, said), "tags_in_answer", again);
        }
        faults
    }
}

fn is_tagged(held: &Expr) -> Expr {
    regexp_like(held.clone(), lit(format!(r"^\s*(?:{})", any_of(tags::openings()))), None)
}

fn thinks_again(held: &Expr, answer: &Expr) -> Expr {
    let matches = |text: &Expr, pattern: String| regexp_like(text.clone(), lit(pattern), None);
    // Tags that are also words count only as the generation's own pair, or at the start of the answer.
    let own = tags::of_chains_that_begin().map(|(opening, closing)| {
        let pair = any_of([opening, closing].into_iter());
        matches(answer, pair).and(matches(held, format!(r"^\s*{}", any_of([opening].into_iter()))))
    });
    let words = any_of(tags::of_chains_that_begin().flat_map(|(opening, closing)| [opening, closing]));
    let openings = any_of(tags::of_chains_that_begin().map(|(opening, _)| opening));
    let of_chains = tags::of_chains().flat_map(|(opening, closing)| [opening, closing]);
    let any = format!("{}|^(?:{openings})", any_of(of_chains));
    // One search settles most answers.
    let own = matches(answer, words).and(disjunction(own).unwrap_or_else(|| lit(false)));
    matches(answer, any).or(own)
}

/// A pattern that matches any of these texts.
fn any_of<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let escaped = |text: &str| {
        let special = |character: char| r"\.+*?()|[]{}^$".contains(character);
        text.chars().flat_map(|held| special(held).then_some('\\').into_iter().chain([held])).collect::<String>()
    };
    texts.map(escaped).collect::<Vec<_>>().join("|")
}

/// The system prompt of a row: from its conversation or its rendered prompt, else from a column; NULL if blank.
fn system(schema: &Schema, shape: &Shape, functions: &Functions) -> Result<Expr> {
    let mut found = Vec::new();
    if let Some(turns) = shape.conversation() {
        found.push(text(array_element(functions.turns_of(turns, "system")?, lit(1))));
    }
    if let Question::Text { text: path, .. } = &shape.question
        && is_rendered(path)
    {
        found.push(chat_template::system(written_question(schema, &shape.question)?)?);
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

fn is_rendered(question: &Path) -> bool {
    question.each().any(|path| path.name().eq_ignore_ascii_case(RENDERED))
}

/// The question as its columns hold it, which may be a rendered prompt.
fn written_question(schema: &Schema, question: &Question) -> Result<Expr> {
    let Question::Text { text: texts, input } = question else { return Ok(null_text()) };
    let is_alone = texts.each().count() == 1;
    let each = texts.each().map(|path| match input.as_ref().filter(|_| is_alone || path.is_instruction()) {
        Some(input) => task(text(path.expr(schema)), text(column(input))),
        None => Ok(text(path.expr(schema))),
    });
    first_filled(each.collect::<Result<_>>()?)
}

fn task(instruction: Expr, input: Expr) -> Result<Expr> {
    let both = concat(vec![instruction.clone(), lit("\n\n"), input.clone()]);
    when(is_blank(&input), instruction.clone()).when(is_blank(&instruction), input).otherwise(both)
}

/// The first filled of these fields of the assistant's message.
fn turn_fields(schema: &Schema, turns: &Path, names: &[String], functions: &Functions) -> Result<Expr> {
    let joined = |roles: Expr, contents: Expr| {
        let turns = named_struct(vec![lit("role"), roles, lit("content"), contents]);
        text(array_element(functions.turns.call(vec![turns, lit("assistant")]), lit(1)))
    };
    let mut found = Vec::new();
    for turns in turns.each().map(Path::name) {
        let kind = |name: &&str| turn_field(schema, turns, name);
        let speakers: Vec<&str> = ["role", "from"].into_iter().filter(|name| kind(name).is_some()).collect();
        let held = names.iter().map(String::as_str).filter(|name| kind(name).is_some_and(is_content));
        let Some(fields) = item_fields(schema, turns) else {
            let of = |name: &str| get_field(column(turns), name);
            found.extend(held.filter_map(|name| Some(joined(of(speakers.first()?), of(name)))));
            continue;
        };
        let is_assistant = |message: Expr| {
            let names = messages::ASSISTANT.iter().map(|name| lit(*name)).collect::<Vec<_>>();
            let said = |name: &&str| lower(text(get_field(message.clone(), *name))).in_list(names.clone(), false);
            disjunction(speakers.iter().map(said)).unwrap_or_else(|| lit(false))
        };
        let message = first_that(column(turns), DataType::Struct(fields.clone()), is_assistant)?;
        found.extend(held.map(|name| {
            let value = get_field(message.clone(), name);
            match kind(&name).is_some_and(is_text) {
                true => text(value),
                false => joined(make_array(vec![lit(messages::ASSISTANT[0])]), make_array(vec![value])),
            }
        }));
    }
    first_filled(found)
}

fn more_than_one_exchange(shape: &Shape, functions: &Functions) -> Result<Option<Expr>> {
    let mut counted = Vec::new();
    if let Question::Turn(turns) = &shape.question {
        counted.push((turns, "user"));
    }
    if let Response::Turn { turns, .. } = &shape.response {
        counted.push((turns, "assistant"));
    }
    let count = |(turns, role): &(&Path, &str)| Ok(length(functions.turns_of(turns, role)?));
    let counts = counted.iter().map(count).collect::<Result<Vec<Expr>>>()?;
    let Some(is_long) = disjunction(counts.iter().map(|count| count.clone().gt(lit(1_u64)))) else { return Ok(None) };
    let found = match (counted.as_slice(), counts.as_slice()) {
        ([user, assistant], [users, assistants]) if user.0 == assistant.0 => vec![
            text(users.clone()),
            lit(" turns of the user and "),
            text(assistants.clone()),
            lit(format!(" of the assistant in column {}, expected one of each", user.0)),
        ],
        (counted, counts) => {
            let described = |((turns, role), count): (&(&Path, &str), &Expr)| {
                [text(count.clone()), lit(format!(" turns of the {role} in column {turns}, expected one"))]
            };
            counted.iter().zip(counts).flat_map(described).collect()
        }
    };
    Ok(Some(when(is_long, concat(found)).end()?))
}
