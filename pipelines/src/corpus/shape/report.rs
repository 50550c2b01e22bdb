//! Describes a shape: for users, and as the equivalent mapping.

use asap_udfs::messages::TURN_CHAINS;
use datafusion::arrow::datatypes::{Fields, Schema};

use crate::corpus::rules::RENDERED;
use crate::corpus::shape::mapping::ColumnMapping;
use crate::corpus::shape::path::{Path, is_text, item_fields, items_of};
use crate::corpus::shape::{Question, Response, Shape};

impl Shape {
    pub(crate) fn described(&self) -> [String; 3] {
        let question = match &self.question {
            Question::Text { text, input: None } => text.described(),
            Question::Text { text, input: Some(input) } => format!("{}, then {input}", text.described()),
            Question::Turn(turns) => format!("{}: the user's turn", turns.described()),
        };
        let tagged =
            |place: String| (format!("{place}: between its think tags"), format!("{place}: after its think tags"));
        let (cot, answer) = match &self.response {
            Response::Columns { cot, answer } => (cot.described(), answer.described()),
            Response::Generation(path) => tagged(path.described()),
            Response::Generations(generations) => {
                let field = generations
                    .item
                    .as_ref()
                    .map_or(String::new(), |(texts, _)| format!(".{}", texts.join(", else .")));
                let (list, flags) = (&generations.list, generations.described_flags());
                tagged(format!("{list}{field}: the first that is correct ({flags})"))
            }
            Response::Turn { turns, chains } if chains.is_empty() => {
                tagged(format!("{}: the assistant's turn", turns.described()))
            }
            Response::Turn { turns, chains } => (
                format!(
                    "{}: the assistant's {}, else between the think tags of its content",
                    turns.described(),
                    chains.join(", else ")
                ),
                format!("{}: the assistant's content", turns.described()),
            ),
        };
        [question, cot, answer]
    }

    pub(crate) fn described_system(&self) -> Option<String> {
        let turns = self.conversation().map(|turns| format!("{turns}: the system's turn"));
        let all: Vec<String> = turns.into_iter().chain(self.system.clone()).collect();
        (!all.is_empty()).then(|| all.join(", else "))
    }

    pub(crate) fn conversation(&self) -> Option<&Path> {
        self.conversations().next()
    }

    /// The columns with conversations, each once.
    pub(crate) fn conversations(&self) -> impl Iterator<Item = &Path> {
        let of_question = if let Question::Turn(turns) = &self.question { Some(turns) } else { None };
        let of_response = if let Response::Turn { turns, .. } = &self.response { Some(turns) } else { None };
        let others = of_response.filter(|turns| Some(*turns) != of_question);
        of_question.into_iter().chain(others).flat_map(Path::each)
    }

    /// The corpus columns that keep all of column `name` except tags and text around them; None if it is not a source.
    pub(crate) fn said_by(&self, schema: &Schema, name: &str) -> Option<&'static [&'static str]> {
        let is = |path: &Path| path.name() == name && path.is_text_column(schema);
        if let Question::Text { text, input: None } = &self.question
            && is(text)
            // Of a rendered prompt, only the user's turn is the question.
            && !name.eq_ignore_ascii_case(RENDERED)
        {
            return Some(&["question"]);
        }
        if self.system.first().is_some_and(|system| is(&Path::column(system))) {
            return Some(&["system"]);
        }
        if holds_turns_alone(schema, name) {
            let is_question = matches!(&self.question, Question::Turn(turns) if turns.name() == name);
            let is_response = matches!(&self.response, Response::Turn { turns, .. } if turns.name() == name);
            return match (is_question, is_response) {
                (true, true) => Some(&["question", "cot", "answer", "system"]),
                (true, false) => Some(&["question", "system"]),
                (false, true) => Some(&["cot", "answer"]),
                (false, false) => None,
            };
        }
        match &self.response {
            Response::Columns { cot, .. } if is(cot) => Some(&["cot"]),
            Response::Columns { answer, .. } if is(answer) => Some(&["answer"]),
            Response::Generation(generation) if is(generation) => Some(&["cot", "answer"]),
            _ => None,
        }
    }

    /// The mapping that reads the same columns. A mapping names one column of each kind: rows where another is the first
    /// filled one, and rows with several texts without flags, differ.
    pub(crate) fn mapping(&self) -> ColumnMapping {
        let (question, input) = match &self.question {
            Question::Text { text, input } => {
                let is_task = text.is_instruction() || text.each().count() == 1;
                (text.to_string(), input.clone().filter(|_| is_task))
            }
            Question::Turn(turns) => (turns.to_string(), None),
        };
        let (cot, answer) = match &self.response {
            Response::Columns { cot, answer } => (cot.to_string(), Some(answer.to_string())),
            Response::Generation(generation) => (generation.to_string(), None),
            Response::Generations(generations) => (generations.list.clone(), None),
            Response::Turn { turns, .. } => (turns.to_string(), None),
        };
        let [system, flag] = [&self.system, &self.flags].map(|names| names.first().cloned());
        ColumnMapping { question, input, cot, answer, system, flag }
    }

    /// The paths of question, chain and answer, also those that are read where others are not filled.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let (Question::Text { text: question, .. } | Question::Turn(question)) = &self.question;
        let (cot, answer) = match &self.response {
            Response::Columns { cot, answer } => (Some(cot), Some(answer)),
            Response::Generation(path) | Response::Turn { turns: path, .. } => (Some(path), None),
            Response::Generations(_) => (None, None),
        };
        [Some(question), cot, answer].into_iter().flatten().flat_map(Path::each)
    }

    /// The list of which one text per row is read, and how that text is chosen.
    pub(crate) fn list(&self, schema: &Schema) -> Option<(&str, &'static str)> {
        match &self.response {
            Response::Generation(path) if items_of(schema, path.name()).is_some() => {
                Some((path.name(), "the first that has think tags"))
            }
            Response::Generations(generations) if generations.has_flags() => {
                Some((&generations.list, "the first that is correct"))
            }
            _ => None,
        }
    }
}

/// Whether a column is a list of turns that have a role, a text and at most one chain, and nothing else.
fn holds_turns_alone(schema: &Schema, name: &str) -> bool {
    let is_read = |name: &str| ["role", "content", "from", "value"].contains(&name) || TURN_CHAINS.contains(&name);
    let are_read = |fields: &Fields| fields.iter().all(|field| is_read(field.name()) && is_text(field.data_type()));
    item_fields(schema, name).is_some_and(|fields| fields.len() <= 3 && are_read(fields))
}
