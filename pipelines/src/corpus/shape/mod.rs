//! Shapes of published datasets, recognized by their columns: [`RULES`](rules::RULES) in order, then think tags.
//!
//! Names match exactly, or else case-insensitively if only one column matches.

pub(crate) mod chat_template;
pub(crate) mod doubts;
pub(crate) mod expressions;
pub(crate) mod flags;
pub(crate) mod generations;
pub(crate) mod mapping;
pub(crate) mod originals;
pub(crate) mod path;
pub(crate) mod reading;
pub(crate) mod recognise;
pub(crate) mod repeats;
pub(crate) mod report;
pub(crate) mod rules;
pub(crate) mod view;

use std::fmt;

use asap_udfs::typo;
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields, Schema};
use datafusion::common::{DataFusionError, Result, exec_err};

use crate::corpus::shape::mapping::ColumnMapping;
use crate::corpus::shape::path::{Path, is_text, item, item_fields};
use crate::corpus::shape::rules::{
    BY_TAGS, BY_USER, EITHER, FLAGS, Form, ITEM_TEXTS, OWN, QUESTIONS, RULES, Rule, SYSTEMS, TURN_CHAINS,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub rule: &'static str,
    pub question: Question,
    pub response: Response,
    /// The column of the system prompt, in addition to that of a conversation or of a rendered prompt.
    pub system: Option<String>,
    pub flag: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Text(Path),
    Task { instruction: String, input: String },
    Turn(String),
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
    /// The assistant's turn, with the chain in tags or in a separate field.
    Turn {
        turns: String,
        chain: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Generations {
    pub list: String,
    /// The struct fields of the text and of its correctness flag.
    pub item: Option<(String, Option<String>)>,
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
        path.is_column() && has_type(schema, path.name(), are_turns) && !has_type(schema, path.name(), is_text)
    };
    let question = match (published(&mapping.question)?, &mapping.input) {
        (_, Some(input)) => Question::Task { instruction: mapping.question.clone(), input: input.clone() },
        (path, None) if is_turns(&path) => Question::Turn(mapping.question.clone()),
        (path, None) => Question::Text(path),
    };
    let cot = published(&mapping.cot)?;
    let response = match &mapping.answer {
        Some(answer) => Response::Columns { cot, answer: published(answer)? },
        None if is_turns(&cot) => Response::turn(schema, mapping.cot.clone()),
        None if cot.is_column() && has_type(schema, cot.name(), is_generations) && !cot.is_text_column(schema) => {
            Generations::of(schema, cot.name().to_string(), FLAGS).first()
        }
        None => Response::Generation(cot),
    };
    let system = mapping.system.as_ref().map(published).transpose()?.map(|path| path.to_string());
    let shape = Shape { rule: BY_USER, question, response, system, flag: mapping.flag.clone() };
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
    // The likeliest question column may hold nothing: others of its names come last.
    let mut others: Vec<Shape> = Vec::new();
    for shape in &shapes {
        let Question::Text(chosen) = &shape.question else { continue };
        let names = RULES.iter().filter(|rule| rule.name == shape.rule).flat_map(|rule| rule.question);
        let paths = names.filter_map(|name| find(schema, name)).map(Path::column).filter(|path| path != chosen);
        for other in paths.map(|path| Shape { question: Question::Text(path), ..shape.clone() }) {
            // Several rules may read the same columns in the same way.
            let is_offered = others.iter().any(|known| Shape { rule: other.rule, ..known.clone() } == other);
            if !is_offered && other.check_types(schema, file).is_ok() {
                others.push(other);
            }
        }
    }
    shapes.extend(others);
    match misfit {
        Some(error) if shapes.is_empty() => Err(error),
        _ => Ok(shapes),
    }
}

/// The shape of a schema whose `generation` has think tags. None if no other column has the name and type of a
/// question.
pub(super) fn with_tags(schema: &Schema, generation: Path, file: &str) -> Option<Shape> {
    let question = question(schema, QUESTIONS)?;
    let is_apart = question != Question::Text(generation.clone());
    let shape = Shape {
        rule: BY_TAGS,
        question,
        response: Response::Generation(generation),
        system: system(schema),
        flag: None,
    };
    (is_apart && shape.check_types(schema, file).is_ok()).then_some(shape)
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
                let cot = pick(self.cot, is_text_or_texts)?;
                let answer = of_family(schema, &cot, |columns| self::pick(columns, self.answer, is_answer))?;
                let question = self.question(schema, &cot)?;
                (question, Response::Columns { cot: Path::column(cot), answer: Path::column(answer) })
            }
            Form::Generation => {
                let generation = pick(self.cot, is_text)?;
                (self.question(schema, &generation)?, Response::Generation(Path::column(generation)))
            }
            Form::Generations { needs_flags } => {
                let list = pick(self.cot, is_generations)?;
                let question = self.question(schema, &list)?;
                let generations = Generations::of(schema, list, self.answer);
                match generations.has_flags() {
                    false if needs_flags => return None,
                    // Without flags, no text is known to be correct.
                    false if generations.item.is_none() => (question, Response::Generations(generations)),
                    _ => (question, generations.first()),
                }
            }
            Form::Turns if self.question.is_empty() => {
                let turns = pick(self.cot, are_turns)?;
                (Question::Turn(turns.clone()), Response::turn(schema, turns))
            }
            Form::Turns => {
                let prompt = held(schema, self.question).find(|name| has_type(schema, name, are_turns))?;
                let response = match pick(self.cot, |found| are_turns(found) || is_text(found))? {
                    turns if has_type(schema, &turns, are_turns) => Response::turn(schema, turns),
                    text => Response::Generation(Path::column(text)),
                };
                (Question::Turn(prompt), response)
            }
        };
        Some(Shape { rule: self.name, question, response, system: system(schema), flag: None })
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

impl Response {
    fn turn(schema: &Schema, turns: String) -> Self {
        let fields = item_fields(schema, &turns);
        let is_field = |name: &str| {
            fields.and_then(|fields| fields.find(name)).is_some_and(|(_, field)| is_text(field.data_type()))
        };
        let chain = TURN_CHAINS.iter().find(|name| is_field(name)).map(ToString::to_string);
        Self::Turn { turns, chain }
    }
}

impl Generations {
    fn of(schema: &Schema, list: String, flags: &[&str]) -> Self {
        let item = item_fields(schema, &list).and_then(|fields| {
            let named = |names: &[&str], fits: fn(&DataType) -> bool| {
                let mut found = names.iter().filter_map(|name| fields.find(name));
                found.find(|(_, field)| fits(field.data_type())).map(|(_, field)| field.name().clone())
            };
            named(ITEM_TEXTS, is_text).map(|text| (text, named(flags, is_flag)))
        });
        let listed = |names| held(schema, names).filter(|name| has_type(schema, name, is_list));
        let mut by = listed(EITHER).collect::<Vec<_>>();
        if by.is_empty() {
            by.extend(listed(flags).next());
        }
        Self { list, item, flags: by }
    }

    /// Reads the first correct generation or, without flags, the first with tags.
    fn first(self) -> Response {
        match &self.item {
            _ if self.has_flags() => Response::Generations(self),
            Some((text, _)) => Response::Generation(Path::column(self.list).field(text)),
            None => Response::Generation(Path::column(self.list)),
        }
    }

    pub(crate) fn described_flags(&self) -> String {
        let in_items = self.item.iter().filter_map(|(_, flag)| Some(format!("{}.{}", self.list, flag.as_ref()?)));
        let flags: Vec<String> = self.flags.iter().cloned().chain(in_items).collect();
        if flags.is_empty() { "no column says which".to_string() } else { flags.join(", ") }
    }

    pub(crate) fn has_flags(&self) -> bool {
        !self.flags.is_empty() || matches!(&self.item, Some((_, Some(_))))
    }
}

fn question(schema: &Schema, names: &[&str]) -> Option<Question> {
    let name = pick(schema, names, is_text)?;
    if has_type(schema, &name, are_turns) && !has_type(schema, &name, is_text) {
        return Some(Question::Turn(name));
    }
    let input = find(schema, "input").filter(|input| has_type(schema, input, is_text));
    Some(match input {
        Some(input) if name.eq_ignore_ascii_case("instruction") => Question::Task { instruction: name, input },
        _ => Question::Text(Path::column(name)),
    })
}

fn system(schema: &Schema) -> Option<String> {
    held(schema, SYSTEMS).find(|name| has_type(schema, name, is_text))
}

/// The first column with one of these names whose type fits, else the first with one of these names.
fn pick(schema: &Schema, names: &[&str], fits: fn(&DataType) -> bool) -> Option<String> {
    held(schema, names).find(|name| has_type(schema, name, fits)).or_else(|| held(schema, names).next())
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
        DataType::Null => "no type".to_string(),
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
    fn check_types(&self, schema: &Schema, file: &str) -> Result<()> {
        let misfit = |place: &dyn fmt::Display, expected: &str, found: Option<&DataType>| {
            let cast = match found.is_some_and(DataType::is_binary) {
                true => format!(
                    "; if it is text, convert it: asap sql -c \"COPY (SELECT * REPLACE (CAST(\\\"{place}\\\" AS VARCHAR) AS \
                     \\\"{place}\\\") FROM '{file}') TO 'converted.parquet'\""
                ),
                false => String::new(),
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
        let turns = |name| {
            column(name, are_turns, "a list of structs with role and content (or from and value), or a struct of lists")
        };
        match &self.question {
            Question::Text(question) => path(question, is_text, "text")?,
            Question::Task { instruction, input } => {
                [instruction, input].into_iter().try_for_each(|name| column(name, is_text, "text"))?
            }
            Question::Turn(name) => turns(name)?,
        }
        if let Some(system) = &self.system {
            column(system, is_text, "text")?;
        }
        if let Some(flag) = &self.flag {
            column(flag, is_flag, "a Boolean or a number")?;
        }
        match &self.response {
            Response::Columns { cot, answer } => {
                path(cot, is_text, "text")?;
                path(answer, is_answer, "text or a number")
            }
            Response::Generation(generation) => path(generation, is_text, "text"),
            Response::Generations(generations) => {
                column(&generations.list, is_generations, "a list of texts, or of structs that hold one")?;
                generations.flags.iter().try_for_each(|name| column(name, are_flags, "a list of Booleans or numbers"))
            }
            Response::Turn { turns: name, .. } => turns(name),
        }
    }
}

pub(super) fn is_text_or_texts(found: &DataType) -> bool {
    is_text(found) || item(found).is_some_and(is_text)
}

pub(super) fn is_answer(found: &DataType) -> bool {
    is_text(found) || found.is_numeric() || *found == DataType::Boolean
}

fn is_list(found: &DataType) -> bool {
    found.is_null() || item(found).is_some()
}

pub(super) fn is_flag(found: &DataType) -> bool {
    found.is_null() || found.is_numeric() || *found == DataType::Boolean
}

fn are_flags(found: &DataType) -> bool {
    found.is_null() || item(found).is_some_and(is_flag)
}

fn is_generations(found: &DataType) -> bool {
    match item(found) {
        Some(DataType::Struct(fields)) => {
            ITEM_TEXTS.iter().any(|name| fields.find(name).is_some_and(|(_, field)| is_text(field.data_type())))
        }
        Some(item) => is_text(item),
        None => found.is_null(),
    }
}

pub(super) fn are_turns(found: &DataType) -> bool {
    let holds = |fields: &[FieldRef], fits: fn(&DataType) -> bool| {
        [["role", "content"], ["from", "value"]].iter().any(|names| {
            names.iter().all(|name| fields.iter().any(|field| field.name() == name && fits(field.data_type())))
        })
    };
    match (found, item(found)) {
        (DataType::Struct(fields), _) => holds(fields, |found| item(found).is_some_and(is_text)),
        (_, Some(DataType::Struct(fields))) => holds(fields, is_text),
        (found, item) => found.is_null() || item.is_some_and(DataType::is_null),
    }
}
