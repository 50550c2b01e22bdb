//! How near a trajectory is to what a student would write: ranks and surprisals of its tokens (RSR).

use std::borrow::Cow;
use std::sync::Arc;

use asap_kernels::tags::{response, think};
use asap_lm::backend::{Asks, TokenScore};
use asap_lm::example::{Encoded, Example, Long, Response};
use asap_lm::{Asked, LmError, Reading, Scored, Scores, Wanted};
use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DataFusionError, Result};

use super::by_score::{ROWS_IN_FLIGHT, lost};
use crate::call_metrics::CallMetrics;
use crate::columns::{Args, Cell, NoValue, nullable};
use crate::declaration::{Argument, Declaration, argument};
use crate::function::{Asking, AsyncCall, CallRows, Function};
use crate::models::failed;
use crate::needs::SessionModels;
use crate::output::{IntoArray, struct_output};
use crate::settings::Settings;
use crate::{cores, llm};

/// A token counts as if it had this rank if its rank is higher, as published.
const MOST: u32 = 100;

const EXAMPLE: &[Argument] = &[
    argument!(question: Asked, "The question: a text, or a conversation with its system prompt, such as `cot_prompt` returns."),
    argument!(cot: Text, "The chain of thought."),
    argument!(answer: Text, "The text that follows the chain."),
];

const RANK_SURPRISAL: Declaration = Declaration {
    name: "cot_rank_surprisal",
    about: "How near a chain and its answer are to what a student would write: the sum of the ranks of their tokens, divided by the sum of their surprisals (RSR, arXiv 2601.14249). The student is the scoring model (`asap.scorer.model`). Of several trajectories for a question, the one with the lowest ratio is predicted to teach this student best. The result is a struct of `ratio`, `ranks` (Σ min(rank, 100)), `surprisals` (Σ −ln P, in nats) and `tokens`. The rank of a token is 1 + the number of tokens that the model finds more probable. The sums are over the tokens that the student would learn: those of `cot_example` whose labels are not -100. The prompt is that of the model's chat template, whatever `asap.scorer.prompt` is. An example longer than the model's window gives NULL. As published.",
    arguments: EXAMPLE,
    example: "select cot_rank_surprisal('2 + 2?', '2 and 2 is 4.', '4')['ratio'];",
};

const STEP_RANK_SURPRISAL: Declaration = Declaration {
    name: "cot_step_rank_surprisal",
    about: "The sums of `cot_rank_surprisal` for each step of the chain, as a list of structs of `ranks`, `surprisals` and `tokens`: to weigh parts of a trajectory. A step has the tokens that `cot_example` learns for it, with the blank line before it. The tags, the answer and the end belong to no step. Both functions together read the chain once. An example longer than the model's window gives NULL.",
    arguments: EXAMPLE,
    example: "select cot_step_rank_surprisal('2 + 2?', E'2 and 2 is 4.\\n\\nDone.', '4')[1]['ranks'];",
};

const CLOSEST_CORRECT: Declaration = Declaration {
    name: "cot_closest_correct",
    about: "The number (from 1) of the generation with the lowest ratio of `cot_rank_surprisal` among the generations that have a chain of thought and state the expected answer, by the rules of `cot_verify`. The student is the scoring model (`asap.scorer.model`). If several have the same ratio, the result is the first. A generation longer than the model's window is left out. If no generation states the answer, the result is NULL.",
    arguments: &[
        argument!(question: Asked, "The question: a text, or a conversation with its system prompt, such as `cot_prompt` returns."),
        argument!(generations: TextList, "Several generations for the question, each with the chain in think tags and then the answer."),
        argument!(gold: Text, "The expected answer, or a solution that states it as a response does."),
    ],
    example: "select cot_closest_correct('2 + 2?', ['<think>So 2 + 2 is 4.</think>\\boxed{4}', '<think>Hm.</think>\\boxed{5}'], '4');\n-- 1",
};

pub(super) fn functions(session: &SessionModels) -> Result<[Function; 3]> {
    Ok([
        of::<RankSurprisal>(RANK_SURPRISAL, session, told, |found| {
            found.into_iter().next().map(|(_, parts)| parts.total())
        })?,
        of::<Vec<Sums>>(STEP_RANK_SURPRISAL, session, told, |found| {
            found.into_iter().next().map(|(_, parts)| parts.steps)
        })?,
        of::<i64>(CLOSEST_CORRECT, session, correct, closest)?,
    ])
}

fn of<T: IntoArray + 'static>(
    declaration: Declaration,
    session: &SessionModels,
    trajectories: Trajectories,
    pick: fn(Vec<(usize, Parts)>) -> Option<T>,
) -> Result<Function> {
    let call = ByRank { session: session.clone(), name: declaration.name, trajectories, pick };
    Ok(Function::of_calls(declaration, T::data_type()?, call))
}

/// A trajectory to read, and its place among those of its row.
struct Trajectory<'a> {
    place: usize,
    asked: Asked<'a>,
    cot: Cow<'a, str>,
    answer: Cow<'a, str>,
}

/// Returns the trajectories of a row.
type Trajectories = for<'a> fn(Args<'a>) -> Cell<Vec<Trajectory<'a>>>;

fn told(row: Args) -> Cell<Vec<Trajectory>> {
    let (asked, cot, answer) = (row.asked(0)?, row.text(1)?, row.text(2).unwrap_or_default());
    Ok(vec![Trajectory { place: 0, asked, cot: cot.into(), answer: answer.into() }])
}

fn correct<'a>(row: Args<'a>) -> Cell<Vec<Trajectory<'a>>> {
    let (asked, generations, gold) = (row.asked(0)?, row.texts(1)?, row.text(2)?);
    let read = |(place, generation): (usize, &'a str)| {
        let cot = think(generation).filter(|cot| !cot.is_empty())?;
        let answer = response(generation).unwrap_or_default();
        asap_verify::verify(gold, generation).then_some(Trajectory { place, asked, cot, answer })
    };
    let correct: Vec<Trajectory> = generations.into_iter().enumerate().filter_map(read).collect();
    if correct.is_empty() { Err(NoValue::Null) } else { Ok(correct) }
}

fn closest(found: Vec<(usize, Parts)>) -> Option<i64> {
    let ratio = |parts: &Parts| parts.total().ratio.unwrap_or(f64::INFINITY);
    let closest = found.iter().min_by(|(_, one), (_, other)| ratio(one).total_cmp(&ratio(other)));
    closest.map(|(place, _)| *place as i64 + 1)
}

/// The sums over some tokens.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    ranks: i64,
    surprisals: f64,
    tokens: i64,
}

impl Sums {
    fn of(tokens: &[TokenScore]) -> Self {
        Self {
            ranks: tokens.iter().map(|token| i64::from(token.rank.min(MOST))).sum(),
            surprisals: tokens.iter().map(|token| f64::from(token.surprisal)).sum(),
            tokens: tokens.len() as i64,
        }
    }
}

/// The sums of the steps of a trajectory, and those of its tags, answer and end.
struct Parts {
    steps: Vec<Sums>,
    others: Vec<Sums>,
}

impl Parts {
    /// Reads the scores of the pieces of an example with this number of steps.
    fn of(scores: &Scores, steps: usize) -> Self {
        let mut pieces: Vec<Sums> =
            scores.tokens.iter().map(|own| own.as_deref().map(Sums::of).unwrap_or_default()).collect();
        // The opening tag, unless the template writes it, is before the steps. The rest is one piece.
        let first = pieces.len().saturating_sub(steps + 1);
        let own = pieces.drain(first..first + steps).collect();
        Self { steps: own, others: pieces }
    }

    fn total(&self) -> RankSurprisal {
        let mut sums = Sums::default();
        for Sums { ranks, surprisals, tokens } in self.steps.iter().chain(&self.others) {
            (sums.ranks, sums.tokens) = (sums.ranks + ranks, sums.tokens + tokens);
            sums.surprisals += surprisals;
        }
        let ratio = (sums.surprisals > 0.0).then(|| sums.ranks as f64 / sums.surprisals);
        RankSurprisal { ratio, sums }
    }
}

struct RankSurprisal {
    ratio: Option<f64>,
    sums: Sums,
}

struct_output!(found: RankSurprisal =>
    "ratio": found.ratio,
    "ranks": Some(found.sums.ranks),
    "surprisals": Some(found.sums.surprisals),
    "tokens": Some(found.sums.tokens),
);

struct_output!(sums: Sums =>
    "ranks": Some(sums.ranks),
    "surprisals": Some(sums.surprisals),
    "tokens": Some(sums.tokens),
);

struct ByRank<T> {
    session: SessionModels,
    name: &'static str,
    trajectories: Trajectories,
    /// Picks the result of a row from the sums of its trajectories, with their places.
    pick: fn(Vec<(usize, Parts)>) -> Option<T>,
}

/// An example of a trajectory: its row, its place there, its number of steps; or why it has no example.
struct Tokenized {
    row: usize,
    place: usize,
    steps: usize,
    example: std::result::Result<Example, Scored>,
}

#[async_trait]
impl<T: IntoArray + 'static> AsyncCall for ByRank<T> {
    fn asking(&self) -> Asking<'_> {
        Asking {
            scorer: Some(&self.session),
            of_scorer: Asks { ranks: true, ..Asks::default() },
            rows_in_flight: ROWS_IN_FLIGHT,
            reach: Wanted::EachToken as u8,
            ..Asking::default()
        }
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let scorer = self.session.models.scorer(rows.config())?;
        let tokenized = self.tokenized(rows).await?;
        let (tokenizing, read) = (Arc::clone(&scorer), Arc::clone(&tokenized));
        let prepared = cores::run(move || {
            let examples = read.iter().filter_map(|read| read.example.as_ref().ok());
            tokenizing.prepare(&examples.map(Reading::Example).collect::<Vec<_>>(), Wanted::EachToken).map_err(failed)
        });
        let prepared = prepared.await.map_err(llm::failed)??;
        metrics.calls.add(prepared.calls());
        metrics.cache_hits.add(prepared.remembered());
        metrics.add_tokens(prepared.tokens(), 0);
        let mut scored = scorer.score(prepared).await.map_err(failed)?.into_iter();
        self.session.count_remembered(&rows.context);
        let mut found: Vec<Vec<(usize, Parts)>> = (0..rows.columns.rows()).map(|_| Vec::new()).collect();
        let mut lacking: Vec<Option<Scored>> = vec![None; found.len()];
        for Tokenized { row, place, steps, example } in tokenized.iter() {
            let of_example = match example {
                Ok(_) => scored.next().unwrap_or(Scored::NotFinite),
                Err(none) => none.clone(),
            };
            match of_example {
                Scored::Steps(scores) => found[*row].push((*place, Parts::of(&scores, *steps))),
                none => lacking[*row] = Some(none),
            }
        }
        let result = |(row, (found, lacking)): (usize, (Vec<_>, Option<Scored>))| match (found.is_empty(), lacking) {
            (true, Some(none)) => self.lost(row, &none, rows, metrics),
            _ => Ok((self.pick)(found)),
        };
        let results = found.into_iter().zip(lacking).enumerate().map(result).collect::<Result<Vec<_>>>()?;
        IntoArray::array(results)
    }
}

impl<T> ByRank<T> {
    /// Tokenizes the trajectories of all rows, with one piece for each step.
    async fn tokenized(&self, rows: &CallRows) -> Result<Arc<Vec<Tokenized>>> {
        let models = &self.session.models;
        let (tokenizer, template) = (models.tokenizer(rows.config())?, models.student_examples(rows.config())?);
        let separator = Settings::of(rows.config())?.chain_steps;
        let (columns, trajectories) = (rows.columns.clone(), self.trajectories);
        let tokenized = cores::run(move || {
            let mut tokenized = Vec::new();
            for row in 0..columns.rows() {
                for Trajectory { place, asked, cot, answer } in
                    nullable(trajectories(columns.row(row)))?.unwrap_or_default()
                {
                    let steps: Vec<_> = separator.spans(&cot).into_iter().map(|span| (span, true)).collect();
                    let count = steps.len();
                    let told = Response { cot: &cot, answer: &answer, steps: Some(steps) };
                    let example = match template.encode(&tokenizer, asked, &told, usize::MAX, Long::Drop) {
                        Ok(Encoded::Whole(example) | Encoded::Cut(example)) => Ok(example),
                        // Without a limit, none is too long here.
                        Ok(Encoded::TooLong(tokens)) => Err(Scored::TooLong(format!("{tokens} tokens"))),
                        Err(LmError::Prompt(why)) => Err(Scored::NoPrompt(why)),
                        Err(error) => return Err(failed(error)),
                    };
                    tokenized.push(Tokenized { row, place, steps: count, example });
                }
            }
            Ok::<_, DataFusionError>(Arc::new(tokenized))
        });
        tokenized.await.map_err(llm::failed)?
    }

    fn lost(&self, row: usize, none: &Scored, rows: &CallRows, metrics: &CallMetrics) -> Result<Option<T>> {
        let separator = Settings::of(rows.config())?.chain_steps;
        let trajectories = nullable((self.trajectories)(rows.columns.row(row)))?.unwrap_or_default();
        let steps = trajectories.iter().flat_map(|told| separator.steps(&told.cot));
        lost(&self.session, self.name, none, steps, rows, metrics)
    }
}
