use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Builder, Int64Array, Int64Builder, ListBuilder, StringArray};
use datafusion::common::Result;

use super::by_anchorer::{AskedFunction, Asking, structs};
use crate::anchor::{Anchorer, Pruned, Row};
use crate::columns::Args;
use crate::declaration::{Arg, Argument, Declaration};
use crate::llm::Statement;

pub(crate) struct CotCoarse;

impl AskedFunction for CotCoarse {
    const DECLARATION: Declaration = Declaration {
        name: "cot_coarse",
        about: "A chain of thought after coarse pruning, guided by its direct thought and validated by Algorithm 1 of the ASAP paper, in a struct of cot, kept, similarity, attempts, status, error, tokens_in, tokens_out and cached. The language model of `asap.anchor.*` prunes at temperature 1 with the prompt coarse.md. asap requests samples until Algorithm 1 accepts one, at most asap.anchor.max_attempts. attempts is the number of requested samples. cot holds the remaining steps, joined by a blank line. For each remaining step, kept holds the number (from 1) of the matching step of the original chain, and similarity holds the Gestalt similarity of the two steps. status is 'ok', 'no_anchor' for a NULL thought, 'empty_chain' for a chain that is NULL or has no step, or 'no_match' if Algorithm 1 rejects every sample. A failed call gives one of the statuses timeout, rate_limited, unavailable, denied, refused, bad_response, too_long and budget. If status is not 'ok', cot, kept and similarity are NULL, and error holds the reason. With asap.anchor.provider = 'extractive', asap calls no language model, and tokens_in and tokens_out are 0. Instead, rules keep the step that states the answer. Going backward, they keep each step that is the first to contain a value, name or line of code of the thought or of a later kept step. If the kept steps are less than a third of the chain, the rules add steps from its start and its end. The rules are a stub and do not understand the text.",
        arguments: &[
            Argument::new("cot", Arg::Text, "The chain of thought."),
            Argument::new("thought", Arg::Text, "The direct thought, as cot_anchor returns it."),
        ],
        example: "select cot_coarse(E'Let me see.\\n\\n12 * 8 = 96.\\n\\nOr is it 12 + 8 = 20?\\n\\n3 * 96 = 288, so 288 rolls.', 'reach: 288 rolls')['kept'];\n-- [2, 4]",
    };
    type Answer = Pruned;

    fn ask<'a>(anchorer: &'a dyn Anchorer, row: Args<'a>, statement: &'a Arc<Statement>) -> Asking<'a, Pruned> {
        Box::pin(anchorer.coarse(row.text(0).ok(), row.text(1).ok(), Some(statement)))
    }

    fn array(rows: &[Row<Pruned>]) -> Result<ArrayRef> {
        let pruned = || rows.iter().map(|row| row.outcome.as_ref().ok());
        let mut kept = ListBuilder::new(Int64Builder::new());
        let mut similarity = ListBuilder::new(Float64Builder::new());
        for pruned in pruned() {
            kept.append_option(pruned.map(|pruned| pruned.kept.iter().copied().map(Some)));
            similarity.append_option(pruned.map(|pruned| pruned.similarity.iter().copied().map(Some)));
        }
        let cots = pruned().map(|pruned| Some(pruned?.cot.as_str())).collect::<StringArray>();
        let attempts = rows.iter().map(|row| i64::from(row.spent.attempts)).collect::<Int64Array>();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("cot", Arc::new(cots)),
            ("kept", Arc::new(kept.finish())),
            ("similarity", Arc::new(similarity.finish())),
            ("attempts", Arc::new(attempts)),
        ];
        structs(columns, rows)
    }
}
