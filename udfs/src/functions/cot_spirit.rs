//! Pruning by SPIRIT: one step less in each round.

use std::sync::Arc;

use asap_lm::QuestionAndSteps;
use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;
use futures::future::try_join_all;

use super::arguments::{MAX_TOKENS, QUESTION, STEPS};
use super::by_score::lost;
use super::needs::SessionModels;
use crate::call_metrics::CallMetrics;
use crate::columns::{Args, Cell, nullable};
use crate::declaration::{Declaration, argument};
use crate::function::{Asking, AsyncCall, CallRows, Function};
use crate::models::failed;
use crate::output::{IntoArray, Numbers};
use crate::settings::Settings;

/// Rows that wait for the model at the same time: one is read while another is tokenized.
const ROWS_IN_FLIGHT: usize = 8;

const DECLARATION: Declaration = Declaration {
    name: "cot_spirit",
    about: "The numbers (from 1, ascending) of the steps that remain when the least necessary step is removed in each round, until the remaining steps fit the budget. The method is SPIRIT (Cui et al. 2025). In each round, asap leaves out each remaining step in turn, and the scoring model (`asap.scorer.model`) reads the question, the other steps, `</think>` and the answer. asap then removes the step whose omission gives the text after the question the lowest perplexity. Rounds end when the remaining steps, joined by a blank line, have at most `max_tokens` tokens. The model reads about K²/6 times the tokens of a chain of K steps. With `cot_refine` on the scores of `cot_perplexity`, the model reads the chain only once. A chain that fits keeps all steps, and the model does not read it. A chain longer than the model's window gives NULL. Differs from its publication: SPIRIT also merges steps with a language model.",
    arguments: &[QUESTION, STEPS, argument!(answer: Text, "The answer, as it stands after `</think>`."), MAX_TOKENS],
    example: "select cot_spirit('2 + 2?', ['Hm.', '2 + 2 is 4.', 'Done.'], '4', 12);",
};

struct CotSpirit(SessionModels);

pub(super) fn cot_spirit(session: &SessionModels) -> Result<Function> {
    Ok(Function::of_calls(DECLARATION, Numbers::data_type()?, CotSpirit(session.clone())))
}

fn arguments<'a>(row: Args<'a>, settings: &Settings) -> Cell<(QuestionAndSteps<'a>, &'a str, usize)> {
    let chain = QuestionAndSteps { question: row.asked(0)?, steps: row.texts(1)? };
    let max_tokens = if row.is_given(3) { row.int(3)? } else { settings.budget(None) };
    // A negative maximum keeps nothing.
    Ok((chain, row.text(2)?, usize::try_from(max_tokens).unwrap_or(0)))
}

#[async_trait]
impl AsyncCall for CotSpirit {
    fn asking(&self) -> Asking<'_> {
        Asking { scorer: Some(&self.0), reads_by_scores: true, rows_in_flight: ROWS_IN_FLIGHT, ..Asking::default() }
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let (scorer, tokenizer) = (self.0.models.scorer(rows.config())?, self.0.models.tokenizer(rows.config())?);
        let settings = Settings::of(rows.config())?;
        let prune = |row| {
            let (scorer, tokenizer) = (&scorer, &tokenizer);
            async move {
                let Some((chain, answer, max_tokens)) = nullable(arguments(rows.columns.row(row), settings))? else {
                    return Ok(None);
                };
                match scorer.prune_greedily(&chain, answer, tokenizer, max_tokens).await.map_err(failed)? {
                    Ok(pruned) => {
                        metrics.calls.add(pruned.rounds);
                        metrics.add_tokens(pruned.tokens, 0);
                        Ok(Some(Numbers(pruned.kept)))
                    }
                    Err(none) => lost(&self.0, DECLARATION.name, &none, chain.steps.iter().copied(), rows, metrics),
                }
            }
        };
        let kept = try_join_all((0..rows.columns.rows()).map(prune)).await?;
        self.0.count_remembered(&rows.context);
        Numbers::array(kept)
    }
}
