//! The shortest of several prunings in which the answer survives.

use std::sync::Arc;

use asap_kernels::budget::{by_score, share};
use asap_lm::backend::Asks;
use asap_lm::{Joined, QuestionAndSteps, Scored, Scorer, Tokenizer};
use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err};
use futures::future::try_join_all;

use super::arguments::{QUESTION, SCORES, STATED_ANSWER, STEPS};
use super::by_score::lost;
use super::cot_survives::{Expected, Judged, check};
use crate::call_metrics::CallMetrics;
use crate::columns::{Args, Cell, NoValue, nullable};
use crate::declaration::{Arg, Declaration, argument};
use crate::function::{Asking, AsyncCall, CallRows, Function};
use crate::models::failed;
use crate::needs::SessionModels;
use crate::output::{IntoArray, Numbers, struct_output};

/// Rows that wait for the model at the same time: the model holds the chains of few questions between rungs.
const ROWS_IN_FLIGHT: usize = 2;
const SHARES: [f64; 5] = [0.25, 0.35, 0.5, 0.7, 1.0];

const DECLARATION: Declaration = Declaration {
    name: "cot_shortest_surviving",
    about: "Of several prunings of a chain, the shortest pruning in which the answer survives (see `cot_survives`), or the whole chain if there is no such pruning. For each number in `shares`, asap removes the steps with the lowest scores, as in `cot_refine`, until at most this share of the chain's tokens remains. The result is a struct of `share` (1 for the whole chain), `kept` (the numbers of the kept steps, from 1), and the fields `log_probability`, `stated` and `survives` of `cot_survives`. If the answer does not survive in the whole chain either, `survives` is false. If the answer is a program, `stated` and `survives` are NULL, and asap takes the shortest pruning whose log-probability is at least that of the whole chain. Lists of different lengths, and an empty answer, give NULL.",
    arguments: &[
        QUESTION,
        STEPS,
        SCORES,
        STATED_ANSWER,
        argument!(shares?: FloatList, "The shares of the chain's tokens that the prunings keep: numbers above 0 and at most 1. Other numbers fail the query. The default is `[0.25, 0.35, 0.5, 0.7, 1.0]`."),
    ],
    example: "select cot_shortest_surviving('2 + 2?', ['Hm.', '2 + 2 is 4.', 'Done.'], [0.1, 3.2, 1.4], '4')['share'];",
};

struct CotShortestSurviving(SessionModels);

pub(super) fn cot_shortest_surviving(session: &SessionModels) -> Result<Function> {
    Ok(Function::of_calls(DECLARATION, Surviving::data_type()?, CotShortestSurviving(session.clone())))
}

struct Chain<'a> {
    read: QuestionAndSteps<'a>,
    scores: Vec<Option<f64>>,
    expected: Expected<'a>,
    shares: Vec<f64>,
}

struct Rung {
    share: f64,
    kept: Vec<usize>,
}

fn row(row: Args) -> Cell<Chain> {
    let (read, scores, answer) = (row.chain(0, 1)?, row.floats(2)?, row.text(3)?);
    if read.steps.len() != scores.len() || answer.trim().is_empty() {
        return Err(NoValue::Null);
    }
    let mut shares = SHARES.to_vec();
    if row.is_given(4) {
        shares.clear();
        for share in row.floats(4)? {
            let share = share.filter(|share| Arg::Share.holds(*share)).ok_or_else(|| {
                let found = share.map_or("NULL".to_string(), |share| share.to_string());
                exec_datafusion_err!(
                    "argument shares of cot_shortest_surviving must be numbers above 0, at most 1, found {found}"
                )
            })?;
            shares.push(share);
        }
    }
    shares.sort_by(f64::total_cmp);
    Ok(Chain { read, scores, expected: Expected::of(answer), shares })
}

impl Chain<'_> {
    /// The rungs that keep a step, each shorter than the next; the last one is the whole chain.
    fn ladder(&self, tokenizer: &Tokenizer) -> asap_lm::Result<Vec<Rung>> {
        let mut rungs: Vec<Rung> = Vec::new();
        let all = Joined::new(tokenizer, &self.read.steps)?.tokens();
        for rung in self.shares.iter().filter(|rung| **rung < 1.0) {
            let kept = Joined::new(tokenizer, &self.read.steps)?.prune(by_score(&self.scores), share(*rung, all))?;
            let is_new = rungs.last().is_none_or(|last| last.kept != kept) && kept.len() < self.read.steps.len();
            if is_new && !kept.is_empty() {
                rungs.push(Rung { share: *rung, kept });
            }
        }
        rungs.push(Rung { share: 1.0, kept: (0..self.read.steps.len()).collect() });
        Ok(rungs)
    }

    async fn judge(
        &self,
        kept: &[usize],
        scorer: &Scorer,
        metrics: &CallMetrics,
    ) -> Result<std::result::Result<Judged, Scored>> {
        let reading = self.expected.reading(&self.read, kept);
        let survival = check(scorer, &[reading], metrics).await?.pop().unwrap_or(Err(Scored::NotFinite));
        Ok(survival.map(|survival| self.expected.judge(&survival)))
    }

    /// Climbs the ladder to the first rung whose answer survives. The inner `Err` says why a row has no result.
    async fn climb(
        &self,
        mut ladder: Vec<Rung>,
        scorer: &Scorer,
        metrics: &CallMetrics,
    ) -> Result<std::result::Result<Surviving, Scored>> {
        let Some(whole) = ladder.pop() else { return Ok(Err(Scored::NotFinite)) };
        let mut least = f64::INFINITY;
        let mut of_whole = None;
        if self.expected.is_program() {
            match self.judge(&whole.kept, scorer, metrics).await? {
                Ok(judged) => (least, of_whole) = (judged.log_probability, Some(judged)),
                Err(none) => return Ok(Err(none)),
            }
        }
        for rung in ladder {
            match self.judge(&rung.kept, scorer, metrics).await? {
                Ok(judged) if judged.survives.unwrap_or(judged.log_probability >= least) => {
                    return Ok(Ok(Surviving { rung, judged }));
                }
                Ok(_) => {}
                Err(none) => return Ok(Err(none)),
            }
        }
        let judged = match of_whole {
            Some(judged) => Ok(judged),
            None => self.judge(&whole.kept, scorer, metrics).await?,
        };
        Ok(judged.map(|judged| Surviving { rung: whole, judged }))
    }
}

struct Surviving {
    rung: Rung,
    judged: Judged,
}

struct_output!(found: Surviving =>
    "share": Some(found.rung.share),
    "kept": Some(Numbers(found.rung.kept.clone())),
    "log_probability": Some(found.judged.log_probability),
    "stated": found.judged.stated.as_deref(),
    "survives": found.judged.survives,
);

#[async_trait]
impl AsyncCall for CotShortestSurviving {
    fn asking(&self) -> Asking<'_> {
        let of_scorer = Asks { continuations: true, ..Asks::default() };
        let scorer = Some(&self.0);
        Asking { scorer, of_scorer, reads_by_scores: true, rows_in_flight: ROWS_IN_FLIGHT, ..Asking::default() }
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let scorer = self.0.models.scorer(rows.config())?;
        let tokenizer = self.0.models.tokenizer(rows.config())?;
        let climb = |place| {
            let (scorer, tokenizer) = (&scorer, &tokenizer);
            async move {
                let Some(row) = nullable(row(rows.columns.row(place)))? else { return Ok(None) };
                let ladder = row.ladder(tokenizer).map_err(failed)?;
                match row.climb(ladder, scorer, metrics).await? {
                    Ok(found) => Ok(Some(found)),
                    Err(none) => lost(&self.0, DECLARATION.name, &none, row.read.steps.iter().copied(), rows, metrics),
                }
            }
        };
        let found = try_join_all((0..rows.columns.rows()).map(climb)).await?;
        self.0.count_remembered(&rows.context);
        IntoArray::array(found)
    }
}
