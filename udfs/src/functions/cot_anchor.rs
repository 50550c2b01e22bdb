//! Functions that ask the anchorer: for a direct thought, a coarse pruning, or the answer to a prompt.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::by_anchorer::{AskedFunction, structs};
use crate::anchor::{Anchored, Pruned};
use crate::declaration::argument;
use crate::output::column;

pub(super) const AI_COMPLETE: AskedFunction<Option<String>> = AskedFunction {
    name: "ai_complete",
    about: "The answer to a prompt by the language model of `asap.anchor.*`, at temperature 0. The model gets only the prompt, without changes. Equal prompts of a session share one call. An answer that was paid for earlier comes from the answer cache (`asap.cache.dir`). CASE and COALESCE call the model for every row that reaches them, even if the row takes another branch. To pay for some rows only, use WHERE, or pass a NULL prompt for the other rows. A NULL prompt and a failed call give NULL. EXPLAIN ANALYZE counts failed calls. With `asap.on_error = 'fail'`, a failed call fails the query. With asap.anchor.provider = 'extractive', asap rejects the query.",
    arguments: &[argument!(prompt: Text, "The prompt to send.")],
    example: "select ai_complete('Name the topic in one word: ' || question) from corpus;",
    needs_language_model: true,
    ask: |anchorer, row, statement| {
        Box::pin(async move {
            let Ok(prompt) = row.text(0) else { return Ok(Anchored::unasked(Ok(None))) };
            let Anchored { outcome, spent } = anchorer.complete(prompt, Some(statement)).await?;
            Ok(Anchored { outcome: outcome.map(Some), spent })
        })
    },
    array: |rows| column(rows.iter().map(|row| row.outcome.as_ref().ok()?.as_deref())),
};

pub(super) const COT_ANCHOR: AskedFunction<String> = AskedFunction {
    name: "cot_anchor",
    about: "The direct thought from a question to its answer, in a struct of thought, status, error, tokens_in, tokens_out and cached. The language model of `asap.anchor.*` writes the thought at temperature 0 with the prompt anchor.md. status is 'ok', or 'no_anchor' if the question is NULL or the answer is NULL or blank. A failed call gives timeout, rate_limited, unavailable, denied, refused, bad_response, too_long or budget. If status is not 'ok', error holds the reason. cached is true if the answer was paid for earlier or for an equal row. With asap.anchor.provider = 'extractive', asap calls no language model. The thought then has up to four parts: goal (the sentence that asks), given (values and names of the question), through (further ones of the answer) and reach (the program in the answer's fenced blocks, or else its last sentence). As published in the ASAP paper, with a language model. The prompt is in other words, and by default, rules replace the model.",
    arguments: &[
        argument!(question: Text, "The question."),
        argument!(answer: Text, "The answer that the chain of thought led to."),
    ],
    example: "select cot_anchor('A crate holds 12 trays of 8 rolls. How many rolls fill 3 crates?', '3 crates hold 288 rolls.')['thought'];\n-- goal: How many rolls fill 3 crates?\n-- given: 12, 8, 3\n-- reach: 3 crates hold 288 rolls.",
    needs_language_model: false,
    ask: |anchorer, row, statement| Box::pin(anchorer.anchor(row.text(0).ok(), row.text(1).ok(), Some(statement))),
    array: |rows| structs(vec![("thought", column(rows.iter().map(|row| row.outcome.as_deref().ok()))?)], rows),
};

pub(super) const COT_COARSE: AskedFunction<Pruned> = AskedFunction {
    name: "cot_coarse",
    about: "A chain of thought after coarse pruning, guided by its direct thought and validated by Algorithm 1 of the ASAP paper, in a struct of cot, kept, similarity, attempts, status, error, tokens_in, tokens_out and cached. The language model of `asap.anchor.*` prunes at temperature 1 with the prompt coarse.md. asap requests samples until Algorithm 1 accepts one, at most asap.anchor.max_attempts. attempts is the number of requested samples. cot holds the remaining steps, joined by a blank line. For each remaining step, kept holds the number (from 1) of the matching step of the original chain, and similarity holds the Gestalt similarity of the two steps. status is 'ok', 'no_anchor' for a NULL thought, 'empty_chain' for a chain that is NULL or has no step, or 'no_match' if Algorithm 1 rejects every sample. A failed call gives the same statuses as in `cot_anchor`. If status is not 'ok', cot, kept and similarity are NULL, and error holds the reason. With asap.anchor.provider = 'extractive', rules replace the language model. They keep the step that states the answer and, going backward, each step that is the first to contain a value, name or line of code of the thought or of a later kept step. If these are less than a third of the chain, they add steps from its start and its end. The rules are a stub and do not understand the text. Differs from the ASAP paper by default: after asap.anchor.max_attempts samples, the row is a reject. With 0, asap asks until a sample is valid. The prompt is in other words, and by default, rules replace the model.",
    arguments: &[
        argument!(cot: Text, "The chain of thought."),
        argument!(thought: Text, "The direct thought, as cot_anchor returns it."),
    ],
    example: "select cot_coarse(E'Let me see.\\n\\n12 * 8 = 96.\\n\\nOr is it 12 + 8 = 20?\\n\\n3 * 96 = 288, so 288 rolls.', 'reach: 288 rolls')['kept'];\n-- [2, 4]",
    needs_language_model: false,
    ask: |anchorer, row, statement| Box::pin(anchorer.coarse(row.text(0).ok(), row.text(1).ok(), Some(statement))),
    array: prunings,
};

fn prunings(rows: &[Anchored<Pruned>]) -> Result<ArrayRef> {
    let pruned = || rows.iter().map(|row| row.outcome.as_ref().ok());
    let columns = vec![
        ("cot", column(pruned().map(|pruned| Some(pruned?.cot.as_str())))?),
        ("kept", column(pruned().map(|pruned| Some(pruned?.kept.clone())))?),
        ("similarity", column(pruned().map(|pruned| Some(pruned?.similarity.clone())))?),
        ("attempts", column(rows.iter().map(|row| Some(i64::from(row.spent.attempts))))?),
    ];
    structs(columns, rows)
}
