//! What pruning did to each step of a chain, and which steps it kept.

use std::sync::Arc;

use asap_lm::{Joined, Tokenizer};

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::argument;
use crate::output::{Numbers, Results, struct_output};

pub(super) const COT_TRACE: RowFunction<Arc<Tokenizer>, Fates> = RowFunction {
    name: "cot_trace",
    about: "What pruning did to each step of a chain, as a list of structs with the fields `step`, `tokens`, `similarity`, `surprisal` and `dropped`. `step` is the number of the step (from 1), `tokens` its length alone, in tokens of the scoring model, `similarity` its similarity to the matching step of the coarse chain (`cot_match`), and `surprisal` its score. `dropped` names the stage that dropped it: `'anchor'` if it is not in `coarse_kept`, else `stage` if it is not in `kept`, or NULL if it is kept. Lists whose lengths do not match give NULL.",
    arguments: &[
        argument!(steps: TextList, "The steps of the original chain. A NULL step is an empty step."),
        argument!(coarse_kept: IntList, "The numbers of the steps that stage 1 kept, from 1. NULL: stage 1 did not run."),
        argument!(similarity: FloatList, "The similarity of each step in `coarse_kept`. NULL: unknown."),
        argument!(surprisal: FloatList, "The score of each step in `coarse_kept`, or in `steps` if stage 1 did not run. NULL: not scored."),
        argument!(kept: IntList, "The steps that stage 2 kept, as places (from 1) in `coarse_kept`, or in `steps` if stage 1 did not run."),
        argument!(stage: Text, "The name of stage 2, such as 'surprisal' or 'random'."),
    ],
    example: "select cot_trace(['Hm.', '2 + 2 is 4.', 'Done.'], [2, 3], [1.0, 1.0], [3.25, 1.5], [1], 'surprisal')[3];\n-- {step: 3, tokens: 3, similarity: 1.0, surprisal: 1.5, dropped: surprisal}",
    row: |tokenizer, row| {
        let (steps, stage) = (row.texts(0)?, row.text(5)?);
        let coarse = if row.is_null(1) { (0..steps.len()).collect() } else { row.indices(1, steps.len())? };
        let kept = row.indices(4, coarse.len())?;
        let [similarity, surprisal] = [row.floats(2).ok(), row.floats(3).ok()];
        if [&similarity, &surprisal].into_iter().flatten().any(|scores| scores.len() != coarse.len()) {
            return Err(NoValue::Null);
        }
        let joined = Joined::new(tokenizer, &steps)?;
        let dropped = |step| {
            let tokens = joined.tokens_alone(step)?;
            Ok(Fate { step, tokens, similarity: None, surprisal: None, dropped: Some("anchor") })
        };
        let mut fates = (0..steps.len()).map(dropped).collect::<asap_lm::Result<Vec<_>>>()?;
        for (place, step) in coarse.iter().enumerate() {
            let of = |scores: &Option<Vec<Option<f64>>>| scores.as_ref().and_then(|scores| scores[place]);
            let fate = &mut fates[*step];
            (fate.similarity, fate.surprisal, fate.dropped) = (of(&similarity), of(&surprisal), Some(stage));
        }
        kept.into_iter().for_each(|place| fates[coarse[place]].dropped = None);
        Ok(fates)
    },
};

pub(super) const COT_KEPT: RowFunction<(), Numbers> = RowFunction {
    name: "cot_kept",
    about: "The numbers (from 1, ascending) of the steps that pruning kept: those whose `dropped` is NULL.",
    arguments: &[
        argument!(steps: Trace, "What pruning did to each step: the column `steps` of an output, or the result of `cot_trace`."),
    ],
    example: "select cot_kept(cot_trace(['Hm.', '2 + 2 is 4.', 'Done.'], NULL, NULL, NULL, [2, 3], 'random'));\n-- [2, 3]",
    row: |_, row| {
        let kept = row.kept_steps(0)?.into_iter().enumerate();
        Ok(Numbers(kept.filter_map(|(step, is_kept)| is_kept.then_some(step)).collect()))
    },
};

pub(super) struct Fates;

impl Results for Fates {
    type Row<'a> = Vec<Fate<'a>>;
}

/// What happened to a step.
pub(super) struct Fate<'a> {
    step: usize,
    tokens: usize,
    similarity: Option<f64>,
    surprisal: Option<f64>,
    /// The stage that dropped it.
    dropped: Option<&'a str>,
}

struct_output!(fate: Fate<'_> =>
    "step": Some(fate.step as i64 + 1),
    "tokens": Some(fate.tokens as i64),
    "similarity": fate.similarity,
    "surprisal": fate.surprisal.map(|nats| nats as f32),
    "dropped": fate.dropped,
);
