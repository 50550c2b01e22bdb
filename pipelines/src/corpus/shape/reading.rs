//! Reads a row by its shape: plain columns as they are, and one call for what stands in tags or messages.

use std::sync::Arc;

use asap_kernels::front_end::Flag;
use asap_udfs::reading::{Part, ReadRow, Source, TURNS, are_turns, turns_type};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::functions::core::expr_fn::{coalesce, get_field};
use datafusion::functions::string::expr_fn::concat;
use datafusion::logical_expr::{Expr, ScalarUDF, cast, lit, not, when};
use datafusion::scalar::ScalarValue;

use crate::corpus::rules::{BY_USER, HISTORY, OWN, RENDERED};
use crate::corpus::shape::expressions::{column, first_filled, is_blank, length, null_text, text, without_nan};
use crate::corpus::shape::generations::first_correct;
use crate::corpus::shape::path::{Path, is_text, item};
use crate::corpus::shape::{Question, Response, Shape, find, flags};

/// The functions that choose one of several texts.
pub(crate) struct Functions {
    think: Arc<ScalarUDF>,
}

impl Functions {
    pub(crate) fn of(session: &dyn Session) -> Result<Self> {
        let think = session.scalar_functions().get("cot_think").cloned();
        let think = think
            .ok_or_else(|| plan_datafusion_err!("the session has no function cot_think: use a session of asap"))?;
        Ok(Self { think })
    }

    /// The chain of a generation; NULL if it has no closing think tag.
    pub(crate) fn think(&self, generation: Expr) -> Expr {
        self.think.call(vec![generation])
    }
}

pub(crate) struct Fault {
    pub when: Expr,
    pub status: &'static str,
    pub error: Expr,
}

/// What is read of a row, as expressions over the columns of the files.
pub(crate) struct Reading {
    /// The question, if it stays as it is in its column.
    pub question: Option<Expr>,
    /// A call that reads a conversation, which has the question.
    pub asked: Option<Expr>,
    /// A call that reads the response. None if the conversation has it.
    pub said: Option<Expr>,
    /// Columns of system prompts.
    pub systems: Vec<Expr>,
    /// Statuses that other columns give, each with its reason, which is NULL for good rows.
    pub faults: Vec<(&'static str, Expr)>,
    /// Which calls read conversations.
    conversations: Vec<&'static str>,
    /// Whether rows may have earlier turns in a column of their own.
    has_history: bool,
    /// The turns of conversations in an output.
    pub turns: Option<Expr>,
    question_name: String,
}

/// The columns of the calls within the view.
pub(crate) const ASKED: &str = "asked";
pub(crate) const SAID: &str = "said";

impl Reading {
    pub(crate) fn new(schema: &Schema, shape: &Shape, functions: &Functions) -> Result<Self> {
        Self::with_text(schema, shape, functions, false)
    }

    /// Also reads the text of the response, if `has_text`.
    fn with_text(schema: &Schema, shape: &Shape, functions: &Functions, has_text: bool) -> Result<Self> {
        let call = |source, arguments| ReadRow::function(source, has_text).call(arguments);
        let conversations = |paths: &[&Path], part| {
            let paths = || paths.iter().flat_map(|paths| paths.each());
            let columns = paths().map(Path::to_string).collect();
            call(Source::Conversations { columns, part }, paths().map(|path| path.whole(schema)).collect())
        };
        let may_have_answer = matches!(shape.response, Response::Columns { .. });
        let (question, asked, question_name) = match (&shape.question, &shape.response) {
            (Question::Text { text: path, .. }, _) => {
                let question = written_question(schema, &shape.question)?;
                let name = format!("column {}", path.described());
                match path.each().any(|path| path.name().eq_ignore_ascii_case(RENDERED)) {
                    true => {
                        let source = Source::Conversations {
                            columns: vec![path.described()],
                            part: Part::Question { may_have_answer },
                        };
                        (None, Some(call(source, vec![question])), name)
                    }
                    false => (Some(question), None, name),
                }
            }
            (Question::Turn(turns), response) => {
                let call = match response {
                    Response::Turn { turns: said, .. } if said == turns => conversations(&[turns], Part::Exchange),
                    Response::Turn { turns: said, .. } => {
                        conversations(&[turns, said], Part::Both { questions: turns.each().count() })
                    }
                    _ => conversations(&[turns], Part::Question { may_have_answer }),
                };
                (None, Some(call), format!("the user's turn in column {}", turns.described()))
            }
        };
        let mut faults = Vec::new();
        let history = history(schema, shape)?;
        let earlier = history.clone().zip(question.clone()).filter(|(history, _)| history.is_read);
        let earlier = earlier.map(|(history, question)| [history.turns, question]);
        let has_history = earlier.is_some();
        let call_after = |source, arguments: Vec<Expr>| {
            call(source, arguments.into_iter().chain(earlier.clone().into_iter().flatten()).collect())
        };
        faults.extend(history.filter(|_| !has_history).map(|history| ("multi_turn", history.fault)));
        faults.extend(flags::fault(schema, &shape.flags)?.map(|fault| ("unverified", fault)));
        let turns = own_turns(schema, shape);
        if let Some(turns) = &turns {
            let why = "column turns has the turns of a conversation, expected one exchange: asap trains on none yet, and column messages has \
                       it for other trainers";
            faults.push(("multi_turn", when(turns.clone().is_not_null(), lit(why)).end()?));
        }
        let said = match &shape.response {
            Response::Columns { cot, answer } => {
                let kind = |path: &Path| path.data_type(schema).cloned().unwrap_or(DataType::Null);
                let said = |path: &Path| text(without_nan(path.expr(schema), &kind(path)));
                let chains = first_filled(cot.each().map(|path| text(path.chain(schema))).collect())?;
                let answers = first_filled(answer.each().map(said).collect())?;
                let [chain, answer] = [cot, answer].map(|path| format!("column {}", path.described()));
                Some(call_after(Source::Columns { chain, answer }, vec![chains, answers]))
            }
            Response::Generation(generation) => {
                let texts = generation.each().map(|path| path.first_that(schema, |text| functions.think(text)));
                let texts = texts.map(|found| found.map(text)).collect::<Result<_>>()?;
                let name = format!("column {}", generation.described());
                Some(call_after(Source::Generation { name }, vec![first_filled(texts)?]))
            }
            Response::Generations(generations) => {
                let (generation, fault) = first_correct(schema, generations)?;
                faults.push(("unverified", fault));
                let name = format!("the chosen text of column {}", generations.list);
                Some(call_after(Source::Generation { name }, vec![generation]))
            }
            // The call of the question reads this too.
            Response::Turn { .. } if matches!(shape.question, Question::Turn(_)) => None,
            Response::Turn { turns, .. } => Some(conversations(&[turns], Part::Response)),
        };
        let systems = shape.system.iter().map(|name| text(column(name))).collect();
        let is_of_turn = matches!(shape.response, Response::Turn { .. });
        let reads = [(ASKED, asked.is_some()), (SAID, said.is_some() && is_of_turn)];
        let conversations = reads.into_iter().filter_map(|(call, is_read)| is_read.then_some(call)).collect();
        Ok(Self { question, asked, said, systems, faults, conversations, has_history, turns, question_name })
    }

    /// What the model wrote: the generation, or the text of the assistant's message.
    pub(crate) fn text(schema: &Schema, shape: &Shape, functions: &Functions) -> Result<Expr> {
        let Self { asked, said, .. } = Self::with_text(schema, shape, functions, true)?;
        let call = said.or(asked);
        call.map(|call| get_field(call, "text")).ok_or_else(|| plan_datafusion_err!("a shape without a response"))
    }

    /// The system prompt, where `inner` returns a column within the view; NULL if blank.
    pub(crate) fn system(&self, inner: fn(&str) -> Expr) -> Result<Expr> {
        let asked = self.asked.iter().map(|_| get_field(inner(ASKED), "system"));
        let columns = self.system_names().map(|name| inner(&name));
        let found = asked.chain(columns).map(|held| when(is_blank(&held), null_text()).otherwise(held));
        let mut found = found.collect::<Result<Vec<_>>>()?;
        Ok(match found.len() {
            0 => null_text(),
            1 => found.remove(0),
            _ => coalesce(found),
        })
    }

    /// A field of the question's call, or the column of the question.
    pub(crate) fn question(&self, inner: fn(&str) -> Expr) -> Expr {
        match self.asked.is_some() {
            true => get_field(inner(ASKED), "question"),
            // The first question may be an earlier one.
            false if self.has_history => coalesce(vec![get_field(inner(SAID), "question"), inner("question")]),
            false => inner("question"),
        }
    }

    /// The turns of a conversation; NULL if no row is one.
    pub(crate) fn turns(&self, inner: fn(&str) -> Expr) -> Result<Expr> {
        match self.has_history || (self.asked.is_some() && self.said.is_none()) {
            true => Ok(self.response(inner, TURNS)),
            false if self.turns.is_some() => Ok(inner(TURNS)),
            false => Ok(lit(ScalarValue::try_new_null(&turns_type())?)),
        }
    }

    /// A field of the call that reads the response.
    pub(crate) fn response(&self, inner: fn(&str) -> Expr, field: &str) -> Expr {
        get_field(inner(if self.said.is_some() { SAID } else { ASKED }), field)
    }

    pub(crate) fn system_names(&self) -> impl Iterator<Item = String> {
        (0..self.systems.len()).map(|index| format!("system_{index}"))
    }

    /// The names of the columns that hold [`Self::faults`].
    pub(crate) fn fault_names(&self) -> impl Iterator<Item = String> {
        (0..self.faults.len()).map(|index| format!("fault_{index}"))
    }

    /// All conditions that reject a row, of which `inner` returns a column. The first that applies is its status, else that of
    /// the response.
    pub(crate) fn faults(&self, inner: fn(&str) -> Expr) -> Result<Vec<Fault>> {
        let question = self.question(inner);
        let mut faults = Vec::new();
        let mut add = |when: Expr, status: &'static str, error: Expr| faults.push(Fault { when, status, error });
        for call in &self.conversations {
            let reason = get_field(inner(call), "multi_turn");
            add(reason.clone().is_not_null(), "multi_turn", reason);
        }
        for ((status, _), name) in self.faults.iter().zip(self.fault_names()) {
            add(inner(&name).is_not_null(), status, inner(&name));
        }
        // A line that is not a JSON object is read as a row without anything.
        let missing = format!("{} is NULL or empty", self.question_name);
        let nothing = format!(
            "{missing}, and so is all else that asap reads: the row is empty, or its line is not a JSON object"
        );
        let read = [question.clone(), self.response(inner, "cot"), self.response(inner, "answer")].map(Expr::is_null);
        let is_without =
            self.response(inner, "status").in_list(["no_generation", "empty_chain"].map(lit).to_vec(), false);
        let is_empty = read.into_iter().fold(is_without, Expr::and);
        add(is_blank(&question), "no_question", when(is_empty, lit(nothing)).otherwise(lit(missing))?);
        Ok(faults)
    }
}

/// Earlier turns in LLaMA-Factory's column of them.
#[derive(Clone)]
struct History {
    turns: Expr,
    /// Whether the turns are pairs of texts, and so are read.
    is_read: bool,
    /// Why a row with such turns is no exchange; NULL for other rows.
    fault: Expr,
}

/// The earlier turns of rows. If users name the columns, they decide.
fn history(schema: &Schema, shape: &Shape) -> Result<Option<History>> {
    let Some(name) = find(schema, HISTORY).filter(|_| ![OWN, BY_USER].contains(&shape.rule)) else { return Ok(None) };
    let found = schema.field_with_name(&name)?.data_type();
    let is_filled = match found {
        found if item(found).is_some() => length(column(&name)).gt(lit(0_u64)),
        found if is_text(found) && !found.is_null() => {
            let empty = ["[]", "null"].map(lit).to_vec();
            not(is_blank(&text(column(&name)))).and(not(text(column(&name)).in_list(empty, false)))
        }
        _ => return Ok(None),
    };
    let why = format!(
        "column {name} has earlier turns: asap reads one exchange; to prune the row without them, name the columns with {}",
        Flag("--columns")
    );
    let is_read = item(found).and_then(item).is_some_and(is_text);
    Ok(Some(History { turns: column(&name), is_read, fault: when(is_filled, lit(why)).end()? }))
}

/// The turns of conversations, if the files are those of an output.
pub(crate) fn own_turns(schema: &Schema, shape: &Shape) -> Option<Expr> {
    let held = schema.field_with_name(TURNS).ok().filter(|_| shape.rule == OWN)?;
    are_turns(held.data_type()).then(|| cast(column(TURNS), turns_type()))
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
