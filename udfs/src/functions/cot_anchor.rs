use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::common::Result;

use super::by_anchorer::{AskedFunction, Asking, structs};
use crate::anchor::{Anchorer, Row};
use crate::columns::Args;
use crate::declaration::{Arg, Argument, Declaration};
use crate::llm::Statement;

pub(crate) struct CotAnchor;

impl AskedFunction for CotAnchor {
    const DECLARATION: Declaration = Declaration {
        name: "cot_anchor",
        about: "The direct thought from a question to its answer, in a struct of thought, status, error, tokens_in, tokens_out and cached. The language model of `asap.anchor.*` writes the thought at temperature 0 with the prompt anchor.md. status is 'ok', or 'no_anchor' if the question is NULL or the answer is NULL or blank. A failed call gives one of the statuses timeout, rate_limited, unavailable, denied, refused, bad_response, too_long and budget. If status is not 'ok', error holds the reason. cached is true if the answer was paid for earlier or for an equal row. With asap.anchor.provider = 'extractive', asap calls no language model, and tokens_in and tokens_out are 0. The thought then has up to four parts. goal is the sentence that asks. given lists the values and names of the question. through lists further values and names of the answer. reach is the program in the answer's fenced blocks, or the last sentence of an answer without a program.",
        arguments: &[
            Argument::new("question", Arg::Text, "The question."),
            Argument::new("answer", Arg::Text, "The answer that the chain of thought led to."),
        ],
        example: "select cot_anchor('A crate holds 12 trays of 8 rolls. How many rolls fill 3 crates?', '3 crates hold 288 rolls.')['thought'];\n-- goal: How many rolls fill 3 crates?\n-- given: 12, 8, 3\n-- reach: 3 crates hold 288 rolls.",
    };
    type Answer = String;

    fn ask<'a>(anchorer: &'a dyn Anchorer, row: Args<'a>, statement: &'a Arc<Statement>) -> Asking<'a, String> {
        Box::pin(anchorer.anchor(row.text(0).ok(), row.text(1).ok(), Some(statement)))
    }

    fn array(rows: &[Row<String>]) -> Result<ArrayRef> {
        let thoughts = rows.iter().map(|row| row.outcome.as_deref().ok()).collect::<StringArray>();
        structs(vec![("thought", Arc::new(thoughts))], rows)
    }
}
