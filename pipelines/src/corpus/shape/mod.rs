//! Shapes of published datasets, recognized by their columns: [`RULES`](crate::corpus::rules::RULES) in order, then think tags.
//!
//! Names match exactly, or else case-insensitively if only one column matches.

pub(crate) mod expressions;
pub(crate) mod flags;
pub(crate) mod generations;
pub(crate) mod mapping;
pub(crate) mod path;
pub(crate) mod reading;
pub(crate) mod repeats;
pub(crate) mod report;
pub(crate) mod types;

use std::fmt;

use asap_udfs::messages::TURN_CHAINS;
use asap_udfs::typo;
use datafusion::arrow::datatypes::{DataType, Fields, Schema};
use datafusion::common::{DataFusionError, Result, exec_err};

use crate::corpus::rules::{
    ANSWERS, BY_TAGS, BY_USER, CHAINS, CONVERSATIONS, FLAGS, Form, ITEM_TEXTS, OWN, QUESTIONS, RULES, Rule, SYSTEMS,
};
use crate::corpus::shape::mapping::ColumnMapping;
use crate::corpus::shape::path::{Path, is_text, item, item_fields, turn_field};
use crate::corpus::shape::types::{
    are_flags, are_turns, is_chain, is_content, is_generations, is_list, is_message, is_plain,
};
use crate::location::command;

const MESSAGES: &str = "a list of structs with role and content (or from and value; the content is text or a list of parts), or a \
    struct of lists";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub rule: &'static str,
    pub question: Question,
    pub response: Response,
    /// The columns of the system prompt, in addition to that of a conversation or of a rendered prompt.
    pub system: Vec<String>,
    /// Columns that mark correct rows. In each row, the first that is not NULL decides.
    pub flags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    /// With `input`, one of the texts is an instruction, and `input` the text that it is about.
    Text {
        text: Path,
        input: Option<String>,
    },
    Turn(Path),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Response {
    Columns {
        cot: Path,
        answer: Path,
    },
    /// One text with the chain in think tags and the answer after them. In a list, the first text with tags.
    Generation(Path),
    Generations(Generations),
    /// The assistant's turn, with the chain in tags or in separate fields.
    Turn {
        turns: Path,
        chains: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Generations {
    pub list: String,
    /// The struct fields of the text and of its correctness flag, each with others of its names.
    pub item: Option<(Vec<String>, Vec<String>)>,
    pub flags: Vec<String>,
}

pub(super) fn mapped(schema: &Schema, mapping: &ColumnMapping, file: &str) -> Result<Shape> {
    let published = |name: &String| {
        Path::resolve(schema, name).ok_or_else(|| {
            let columns = names(schema);
            let hint = typo::hint(name, schema.fields().iter().map(|field| field.name().as_str()));
            DataFusionError::Configuration(format!("{file} has no column {name}{hint}; its columns are {columns}"))
        })
    };
    let is_turns = |path: &Path| {
        path.whole_type(schema).is_some_and(|found| (are_turns(found) || is_message(found)) && !is_text(found))
    };
    // One text that holds both is a conversation, rendered by a chat template.
    let is_rendered = mapping.answer.is_none() && mapping.input.is_none() && mapping.question == mapping.cot;
    let question = match published(&mapping.question)? {
        path if mapping.input.is_none() && (is_turns(&path) || is_rendered) => Question::Turn(path),
        text => Question::Text { text, input: mapping.input.clone() },
    };
    let cot = published(&mapping.cot)?;
    let response = match &mapping.answer {
        Some(answer) => Response::Columns { cot, answer: published(answer)? },
        None if is_turns(&cot) || is_rendered => Response::turn(schema, cot),
        None if cot.is_column() && has_type(schema, cot.name(), is_generations) && !cot.is_text_column(schema) => {
            Generations::of(schema, cot.name().to_string(), FLAGS).first()
        }
        None => Response::Generation(cot),
    };
    let system = mapping.system.iter().map(|name| Ok(published(name)?.to_string())).collect::<Result<_>>()?;
    let shape = Shape { rule: BY_USER, question, response, system, flags: mapping.flag.iter().cloned().collect() };
    shape.check_types(schema, file)?;
    Ok(shape)
}

pub(super) fn by_names(schema: &Schema, file: &str) -> Result<Vec<Shape>> {
    let mut misfit = None;
    let mut shapes = Vec::new();
    for shape in RULES.iter().filter_map(|rule| rule.shape(schema)) {
        match shape.check_types(schema, file) {
            Ok(()) => shapes.push(shape),
            // These names are asap's own, so no other rule can apply.
            Err(error) if shape.rule == OWN => return Err(error),
            Err(error) => misfit = misfit.or(Some(error)),
        }
    }
    match misfit {
        Some(error) if shapes.is_empty() => Err(error),
        _ => Ok(shapes),
    }
}

/// The shape of a schema whose `generation` has think tags. None if no other column has the name and type of a
/// question.
pub(super) fn with_tags(schema: &Schema, generation: Path, file: &str) -> Option<Shape> {
    let question = question(schema, QUESTIONS)?.without(&generation);
    let is_apart = question != Question::Text { text: generation.clone(), input: None };
    let shape = Shape {
        rule: BY_TAGS,
        question,
        response: Response::Generation(generation),
        system: system(schema),
        flags: vec![],
    };
    (is_apart && shape.check_types(schema, file).is_ok()).then_some(shape)
}

/// The conversations within the structs of a schema.
pub(super) fn conversations_within(schema: &Schema) -> Vec<Path> {
    path::conversations_within(schema, |found| are_turns(found) || is_message(found))
}

/// The shape of a schema whose `conversation` has the response, and the question too unless a column has it.
pub(super) fn with_conversation(schema: &Schema, conversation: Path, file: &str) -> Option<Shape> {
    let mut shape = Shape::of_conversation(schema, conversation);
    shape.question = question(schema, QUESTIONS).unwrap_or(shape.question);
    shape.check_types(schema, file).is_ok().then_some(shape)
}

/// The shape of a schema whose generation is the text with one of these names. None without such a text or a question.
pub(super) fn named_as(names: &[&str], schema: &Schema, file: &str) -> Option<Shape> {
    let texts = ["generation", "completion"].iter().chain(names).filter_map(|name| find(schema, name));
    texts.filter_map(|name| with_tags(schema, Path::column(name), file)).next()
}

impl Rule {
    /// The shape of a schema with the columns of this rule, whatever their types.
    fn shape(&self, schema: &Schema) -> Option<Shape> {
        let pick = |names, fits| pick(schema, names, fits);
        let (question, response) = match self.form {
            Form::Columns => {
                let cot = pick(self.cot, is_chain)?;
                let answer = of_family(schema, cot.name(), |columns| self::pick(columns, self.answer, is_plain))?;
                let question = self.question(schema, cot.name())?;
                // asap's outputs have a source, and their chains may be empty. In other files, other columns fill gaps.
                if self.name != OWN || find(schema, "source").is_some() {
                    return Some(self.with(schema, question, Response::Columns { cot, answer }));
                }
                let or = |path: Path, others: Option<Path>| {
                    let others = others.iter().flat_map(Path::each).filter(|other| other.name() != path.name());
                    path.clone().or(others.map(|other| Path::column(other.name())))
                };
                let question = match question {
                    Question::Text { text, input: None } => {
                        Question::Text { text: or(text, pick(QUESTIONS, is_text)), input: None }
                    }
                    other => other,
                };
                let cot = or(cot, pick(CHAINS, is_chain));
                (question, Response::Columns { cot, answer: or(answer, pick(ANSWERS, is_plain)) })
            }
            Form::Generation => {
                let generation = pick(self.cot, is_text)?;
                (self.question(schema, generation.name())?, Response::Generation(generation))
            }
            Form::Generations { needs_flags } => {
                let lists = pick(self.cot, is_generations)?;
                let question = self.question(schema, lists.name())?;
                let mut all = lists.each().map(|list| Generations::of(schema, list.name().to_string(), self.answer));
                let generations = all.next()?;
                match generations.has_flags() {
                    false if needs_flags => return None,
                    // Without flags, no text is known to be correct.
                    false if generations.item.is_none() => (question, Response::Generations(generations)),
                    _ => (question, generations.first().or(all.map(Generations::first))),
                }
            }
            Form::Turns if self.question.is_empty() => {
                let turns = pick(self.cot, are_turns)?;
                (Question::Turn(turns.clone()), Response::turn(schema, turns))
            }
            Form::Turns => {
                let are = |path: &Path| has_type(schema, path.name(), are_turns);
                let prompt = pick(self.question, are_turns).filter(are)?;
                let first = pick(self.cot, |found| are_turns(found) || is_text(found))?;
                let response = match are(&first) {
                    true => Response::turn(schema, pick(self.cot, are_turns)?),
                    false => Response::Generation(pick(self.cot, is_text)?),
                };
                (Question::Turn(prompt), response)
            }
        };
        Some(self.with(schema, question, response))
    }

    fn with(&self, schema: &Schema, question: Question, response: Response) -> Shape {
        Shape { rule: self.name, question, response, system: system(schema), flags: vec![] }
    }

    fn question(&self, schema: &Schema, chain: &str) -> Option<Question> {
        of_family(schema, chain, |columns| question(columns, self.question))
    }
}

/// Finds columns for the same family as `name`. If some columns differ only in case, it prefers those that are
/// capitalized like `name`; else it searches all columns.
fn of_family<T>(schema: &Schema, name: &str, find: impl Fn(&Schema) -> Option<T>) -> Option<T> {
    let fields = schema.fields();
    let has_twins = fields.iter().enumerate().any(|(place, field)| {
        fields.iter().skip(place + 1).any(|other| other.name().eq_ignore_ascii_case(field.name()))
    });
    if !has_twins {
        return find(schema);
    }
    let has_capitals = |name: &str| name.contains(char::is_uppercase);
    let family = fields.iter().filter(|field| has_capitals(field.name()) == has_capitals(name)).cloned();
    find(&Schema::new(family.collect::<Fields>())).or_else(|| find(schema))
}

impl Question {
    /// This question, read from other columns where `generation` is one of several.
    fn without(self, generation: &Path) -> Self {
        match self {
            Self::Text { text, input } => Self::Text { text: text.without(generation), input },
            turn => turn,
        }
    }
}

impl Response {
    fn turn(schema: &Schema, turns: Path) -> Self {
        let conversations = || turns.each().filter_map(|turns| turns.whole_type(schema));
        let is_field = |name: &&&str| conversations().filter_map(|found| turn_field(found, name)).any(is_content);
        let chains = TURN_CHAINS.iter().filter(is_field).map(ToString::to_string).collect();
        Self::Turn { turns, chains }
    }

    /// This response, or in rows without it the first of `others`, if all are generations.
    fn or(self, others: impl Iterator<Item = Response>) -> Self {
        let path = |other| if let Self::Generation(path) = other { Some(path) } else { None };
        match self {
            Self::Generation(first) => Self::Generation(first.or(others.filter_map(path))),
            other => other,
        }
    }
}

impl Generations {
    fn of(schema: &Schema, list: String, flags: &[&str]) -> Self {
        let item = item_fields(schema, &list).and_then(|fields| {
            let named = |names: &[&str], fits: fn(&DataType) -> bool| {
                let found = names.iter().filter_map(|name| fields.find(name));
                let found = found.filter(|(_, field)| fits(field.data_type())).map(|(_, field)| field.name().clone());
                found.collect::<Vec<_>>()
            };
            Some((named(ITEM_TEXTS, is_text), named(flags, is_plain))).filter(|(texts, _)| !texts.is_empty())
        });
        let listed = |names| held(schema, names).filter(|name| has_type(schema, name, is_list));
        let flags = listed(flags).collect();
        Self { list, item, flags }
    }

    /// Reads the first correct generation or, without flags, the first with tags.
    fn first(self) -> Response {
        match &self.item {
            _ if self.has_flags() => Response::Generations(self),
            Some((texts, _)) => {
                let mut paths = texts.iter().map(|text| Path::column(&self.list).field(text));
                let first = paths.next().unwrap_or_else(|| Path::column(&self.list));
                Response::Generation(first.or(paths))
            }
            None => Response::Generation(Path::column(self.list)),
        }
    }

    pub(crate) fn described_flags(&self) -> String {
        let in_items = self.item.iter().flat_map(|(_, flags)| flags).map(|flag| format!("{}.{flag}", self.list));
        let flags: Vec<String> = self.flags.iter().cloned().chain(in_items).collect();
        if flags.is_empty() { "no column says which".to_string() } else { flags.join(", ") }
    }

    pub(crate) fn has_flags(&self) -> bool {
        !self.flags.is_empty() || self.item.as_ref().is_some_and(|(_, flags)| !flags.is_empty())
    }
}

fn question(schema: &Schema, names: &[&str]) -> Option<Question> {
    let Some(text) = pick(schema, names, is_text) else {
        // The chain may be next to a conversation that has no answer yet.
        let turns = pick(schema, CONVERSATIONS, are_turns).filter(|_| names == QUESTIONS)?;
        let is_typed = has_type(schema, turns.name(), |found| are_turns(found) && !found.is_null());
        return is_typed.then_some(Question::Turn(turns));
    };
    if has_type(schema, text.name(), are_turns) && !has_type(schema, text.name(), is_text) {
        return pick(schema, names, are_turns).map(Question::Turn);
    }
    let is_about = |input: &String| has_type(schema, input, is_text) && text.each().any(Path::is_instruction);
    let input = find(schema, "input").filter(is_about);
    Some(Question::Text { text, input })
}

fn system(schema: &Schema) -> Vec<String> {
    held(schema, SYSTEMS).filter(|name| has_type(schema, name, is_text)).collect()
}

/// The columns with one of these names whose type fits, the likeliest first; else the first with one of these names.
fn pick(schema: &Schema, names: &[&str], fits: fn(&DataType) -> bool) -> Option<Path> {
    let mut fitting: Vec<String> = held(schema, names).filter(|name| has_type(schema, name, fits)).collect();
    let is_typed = |name: &String| !has_type(schema, name, DataType::is_null);
    if fitting.iter().any(is_typed) {
        fitting.retain(is_typed);
    }
    let mut paths = fitting.into_iter().map(Path::column);
    let first = paths.next().or_else(|| held(schema, names).next().map(Path::column))?;
    Some(first.or(paths))
}

fn held<'a>(schema: &'a Schema, names: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    names.iter().filter_map(|name| find(schema, name))
}

pub(super) fn has_type(schema: &Schema, name: &str, fits: fn(&DataType) -> bool) -> bool {
    schema.field_with_name(name).is_ok_and(|field| fits(field.data_type()))
}

/// The column called `name`, else the only one that matches it case-insensitively.
pub(super) fn find(schema: &Schema, name: &str) -> Option<String> {
    if schema.field_with_name(name).is_ok() {
        return Some(name.to_string());
    }
    let mut alike = schema.fields().iter().map(|field| field.name()).filter(|held| held.eq_ignore_ascii_case(name));
    alike.next().filter(|_| alike.next().is_none()).cloned()
}

pub(super) fn names(schema: &Schema) -> String {
    let names: Vec<String> = kinds(schema).iter().map(|(name, kind)| format!("{name} ({kind})")).collect();
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}

pub(super) fn kinds(schema: &Schema) -> Vec<(String, String)> {
    schema.fields().iter().map(|field| (field.name().clone(), kind(field.data_type()))).collect()
}

pub(super) fn kind(found: &DataType) -> String {
    match found {
        DataType::Null => "no values".to_string(),
        found if is_text(found) => "text".to_string(),
        found if are_turns(found) && !item(found).is_some_and(DataType::is_null) => "conversation".to_string(),
        DataType::Struct(fields) => {
            let fields: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            format!("struct of {}", fields.join(", "))
        }
        found => match item(found) {
            Some(item) => format!("list of {}", kind(item)),
            None => found.to_string(),
        },
    }
}

impl Shape {
    /// The shape of a conversation, also of one that is rendered by a chat template.
    pub(super) fn of_conversation(schema: &Schema, turns: Path) -> Self {
        let (question, response) = (Question::Turn(turns.clone()), Response::turn(schema, turns));
        Self { rule: BY_TAGS, question, response, system: system(schema), flags: vec![] }
    }

    fn check_types(&self, schema: &Schema, file: &str) -> Result<()> {
        let misfit = |place: &dyn fmt::Display, expected: &str, found: Option<&DataType>| {
            let cast = match found {
                Some(found) if found.is_binary() => {
                    let (column, file) = (place.to_string().replace('"', "\"\""), file.replace('\'', "\'\'"));
                    let sql = format!(
                        "COPY (SELECT * REPLACE (CAST(\"{column}\" AS VARCHAR) AS \"{column}\") FROM '{file}') TO \
                         'converted.parquet'"
                    );
                    format!("; if it is text, convert it: {}", command(&["asap", "sql", "-c", &sql]))
                }
                Some(found) if is_text(found) && expected == MESSAGES => {
                    "; if it is JSON text, read it with json.loads in Python, and write the rows as JSON lines"
                        .to_string()
                }
                _ => String::new(),
            };
            let found = found.map_or("nothing".to_string(), kind);
            exec_err!("column {place} of {file} must be {expected}, found {found}{cast}")
        };
        let path = |path: &Path, fits: fn(&DataType) -> bool, expected| match path.data_type(schema) {
            Some(found) if fits(found) => Ok(()),
            found => misfit(path, expected, found),
        };
        let column = |name: &String, fits: fn(&DataType) -> bool, expected| match schema.field_with_name(name) {
            Ok(field) if fits(field.data_type()) => Ok(()),
            found => misfit(name, expected, found.ok().map(|field| field.data_type())),
        };
        let turns = |path: &Path| match path.whole_type(schema) {
            Some(found) if are_turns(found) || is_message(found) => Ok(()),
            Some(found) if is_text(found) && [BY_TAGS, BY_USER].contains(&self.rule) => Ok(()),
            found => misfit(path, MESSAGES, found),
        };
        match &self.question {
            Question::Text { text, input } => {
                path(text, is_text, "text")?;
                input.iter().try_for_each(|input| column(input, is_text, "text"))?;
            }
            Question::Turn(turned) => turns(turned)?,
        }
        self.system.iter().try_for_each(|system| column(system, is_text, "text"))?;
        self.flags.iter().try_for_each(|flag| column(flag, is_plain, "a Boolean or a number"))?;
        match &self.response {
            Response::Columns { cot, answer } => {
                if !cot.whole_type(schema).is_some_and(is_chain) {
                    path(cot, is_text, "text")?;
                }
                path(answer, is_plain, "text or a number")
            }
            Response::Generation(generation) => path(generation, is_text, "text"),
            Response::Generations(generations) => {
                column(&generations.list, is_generations, "a list of texts, or of structs that hold one")?;
                generations.flags.iter().try_for_each(|name| column(name, are_flags, "a list of Booleans or numbers"))
            }
            Response::Turn { turns: turned, .. } => turns(turned),
        }
    }
}
