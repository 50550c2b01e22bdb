//! Pruning to a budget of tokens by the scores of steps.

use std::borrow::Cow;
use std::sync::Arc;

use asap_kernels::budget::by_score;
use asap_lm::{Joined, Tokenizer, prune_exactly};

use super::arguments::{MAX_TOKENS, SCORES, STEPS};
use super::by_row::RowFunction;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Argument, argument};
use crate::output::{Numbers, Results, struct_output};
use crate::settings::{Scope, Settings};

const STEPS_SCORES_AND_BUDGET: &[Argument] = &[STEPS, SCORES, MAX_TOKENS];
const OF_TURNS: &[Argument] = &[
    STEPS,
    SCORES,
    MAX_TOKENS,
    argument!(turns?: Turns, "The turns of a conversation whose thoughts have the steps. With the setting `asap.refine.scope = 'turn'`, the steps of each thought are pruned alone, to a share of `max_tokens` like that of their tokens."),
];

/// Steps, their scores, and the maximum number of tokens.
type Given<'a> = (Vec<&'a str>, Vec<Option<f64>>, i64);

fn arguments<'a>(row: Args<'a>, settings: &Settings) -> Cell<Given<'a>> {
    let (steps, scores) = (row.texts(0)?, row.floats(1)?);
    let max_tokens = if row.is_given(2) { row.int(2)? } else { settings.budget(None) };
    if steps.len() == scores.len() { Ok((steps, scores, max_tokens)) } else { Err(NoValue::Null) }
}

/// Prunes by a rule: all steps together, or those of each thought of a conversation if `asap.refine.scope` is `turn`.
fn by_scope(
    (tokenizer, settings): &(Arc<Tokenizer>, Settings),
    row: Args,
    rule: impl Fn(&[&str], &[Option<f64>], usize) -> asap_lm::Result<ByRule>,
) -> Cell<ByRule> {
    let (steps, scores, max_tokens) = arguments(row, settings)?;
    let max_tokens = at_least_0(max_tokens);
    let turns = if settings.refine_scope == Scope::Turn && row.is_given(3) { row.conversation(3).ok() } else { None };
    let Some(turns) = turns else { return Ok(rule(&steps, &scores, max_tokens)?) };
    let all = Joined::new(tokenizer, &steps)?.tokens();
    if all <= max_tokens {
        return Ok(rule(&steps, &scores, max_tokens)?);
    }
    let (mut found, mut begin) = (ByRule { kept: vec![], by: "algorithm_2" }, 0);
    for turn in turns {
        let own = begin..begin + turn.steps();
        begin = own.end;
        let (Some(steps), Some(scores)) = (steps.get(own.clone()), scores.get(own.clone())) else {
            return Err(NoValue::Null);
        };
        let tokens = Joined::new(tokenizer, steps)?.tokens();
        let of_turn = rule(steps, scores, (max_tokens as u128 * tokens as u128 / all as u128) as usize)?;
        found.kept.extend(of_turn.kept.iter().map(|step| own.start + step));
        found.by = if found.by == of_turn.by { found.by } else { "cot_fit" };
    }
    Ok(found)
}

/// A negative maximum keeps nothing.
fn at_least_0(max_tokens: i64) -> usize {
    usize::try_from(max_tokens).unwrap_or(0)
}

/// Returns the steps that `prune` keeps, by their scores and the maximum number of tokens; none if that is negative.
fn pruned<'a>(
    row: Args<'a>,
    settings: &Settings,
    prune: impl FnOnce(&[&'a str], &[Option<f64>], usize) -> asap_lm::Result<Vec<usize>>,
) -> Cell<Numbers> {
    let (steps, scores, max_tokens) = arguments(row, settings)?;
    match usize::try_from(max_tokens) {
        Ok(max_tokens) => Ok(Numbers(prune(&steps, &scores, max_tokens)?)),
        Err(_) => Ok(Numbers(vec![])),
    }
}

pub(super) const COT_REFINE: RowFunction<(Arc<Tokenizer>, Settings), Numbers> = RowFunction {
    name: "cot_refine",
    about: "The numbers (from 1, ascending) of the steps that remain after Algorithm 2 of the ASAP paper. The algorithm removes the step with the lowest score, one by one, until the remaining steps, joined by a blank line, have at most `max_tokens` tokens of the scoring model. If scores are equal, the algorithm removes the earlier step first. A NULL or NaN score counts as 0. A chain that fits keeps all steps. If no step fits, the result is empty. Lists of different lengths give NULL. As published in the ASAP paper (Algorithm 2).",
    arguments: OF_TURNS,
    example: "select cot_refine(['Hm.', '2 + 2 is 4.', 'Done.'], [0.1, 3.2, 1.4], 12);\n-- [2, 3]",
    row: |needs, row| {
        let found = by_scope(needs, row, |steps, scores, max_tokens| {
            let kept = Joined::new(&needs.0, steps)?.prune(by_score(scores), max_tokens)?;
            Ok(ByRule { kept, by: "algorithm_2" })
        })?;
        let keeps_nothing = row.is_given(2) && row.int(2)? < 0;
        Ok(Numbers(if keeps_nothing { vec![] } else { found.kept }))
    },
};

pub(super) const COT_FIT: RowFunction<(Arc<Tokenizer>, Settings), Numbers> = RowFunction {
    name: "cot_fit",
    about: "The numbers (from 1, ascending) of the steps that remain after removing every step of more than `max_tokens` tokens, and then the steps with the lowest scores, one by one, until the remaining steps have at most `max_tokens` tokens. Lists of different lengths give NULL.",
    arguments: STEPS_SCORES_AND_BUDGET,
    example: "select cot_fit(['Hm.', 'So 2 + 2 + 2 is 6.', 'Done.'], [0.1, 3.2, 1.4], 7);\n-- [1, 3]",
    row: |(tokenizer, settings), row| {
        pruned(row, settings, |steps, scores, max_tokens| fit_steps(tokenizer, steps, scores, max_tokens))
    },
};

/// Removes the steps that can never fit first, then the others by their scores.
fn fit_steps(
    tokenizer: &Tokenizer,
    steps: &[&str],
    scores: &[Option<f64>],
    max_tokens: usize,
) -> asap_lm::Result<Vec<usize>> {
    let joined = Joined::new(tokenizer, steps)?;
    if joined.tokens() <= max_tokens {
        return Ok(joined.kept());
    }
    let lengths = (0..steps.len()).map(|step| joined.tokens_alone(step)).collect::<asap_lm::Result<Vec<_>>>()?;
    let mut order = by_score(scores);
    // The sort is stable.
    order.sort_by_key(|step| lengths[*step] <= max_tokens);
    joined.prune(order, max_tokens)
}

pub(super) const COT_REFINE_OR_FIT: RowFunction<(Arc<Tokenizer>, Settings), ByRule> = RowFunction {
    name: "cot_refine_or_fit",
    about: "The steps that `cot_refine` (Algorithm 2 of the ASAP paper) keeps, or those that `cot_fit` keeps if Algorithm 2 removes every step of a chain. Algorithm 2 removes every step if the step with the highest score alone is longer than `max_tokens`. The result is a struct of `kept`, the numbers (from 1, ascending) of the remaining steps, and `by`, which is 'algorithm_2' or 'cot_fit'. Lists of different lengths give NULL. As published in the ASAP paper (Algorithm 2), with one exception: if Algorithm 2 removes every step, `cot_fit` decides.",
    arguments: OF_TURNS,
    example: "select cot_refine_or_fit(['Hm.', 'So 2 + 2 + 2 is 6.', 'Done.'], [0.1, 3.2, 1.4], 7);\n-- {kept: [1, 3], by: cot_fit}",
    row: |needs, row| {
        by_scope(needs, row, |steps, scores, max_tokens| {
            let kept = Joined::new(&needs.0, steps)?.prune(by_score(scores), max_tokens)?;
            if !kept.is_empty() || steps.is_empty() {
                return Ok(ByRule { kept, by: "algorithm_2" });
            }
            Ok(ByRule { kept: fit_steps(&needs.0, steps, scores, max_tokens)?, by: "cot_fit" })
        })
    },
};

/// The indices of the kept steps, and the rule that chose them.
pub(super) struct ByRule {
    kept: Vec<usize>,
    by: &'static str,
}

struct_output!(row: ByRule => "kept": Some(Numbers(row.kept.clone())), "by": Some(row.by));

pub(super) const COT_REFINE_EXACTLY: RowFunction<(Arc<Tokenizer>, Settings), Refinement> = RowFunction {
    name: "cot_refine_exactly",
    about: "The steps that `cot_refine` keeps, plus as many tokens as fit in `max_tokens` from the step that `cot_refine` removes last. Use it to compare methods at the same length. The result is a struct of `steps` (all steps, with the cut step shortened), `kept` (the numbers, from 1, of the remaining steps, the cut step included) and `cut` (the number of the cut step, or NULL). The cut step keeps its first tokens. It keeps its last tokens if all other remaining steps come after it, or if no other step remains and it is the last of several steps. The result may have one or two tokens less than `max_tokens`. Lists of different lengths give NULL.",
    arguments: STEPS_SCORES_AND_BUDGET,
    example: "select cot_refine_exactly(['Hm.', '2 + 2 is 4.', 'Done.'], [2, 1, 0], 6)['kept'];\n-- [1, 2]",
    row: |(tokenizer, settings), row| {
        let (steps, scores, max_tokens) = arguments(row, settings)?;
        let max_tokens = at_least_0(max_tokens);
        let pruned = prune_exactly(tokenizer, &steps, by_score(&scores), max_tokens)?;
        let mut steps: Vec<Option<Cow<str>>> = steps.into_iter().map(|step| Some(step.into())).collect();
        let cut = pruned.cut.map(|(step, piece)| {
            steps[step] = Some(piece);
            step
        });
        Ok(Refined { steps, kept: pruned.kept, cut })
    },
};

/// The steps with the cut one shortened, the indices of the kept ones, and that of the cut one.
pub(super) struct Refined<'a> {
    steps: Vec<Option<Cow<'a, str>>>,
    kept: Vec<usize>,
    cut: Option<usize>,
}

pub(super) struct Refinement;

impl Results for Refinement {
    type Row<'a> = Refined<'a>;
}

struct_output!(row: Refined<'_> =>
    "steps": Some(row.steps.clone()),
    "kept": Some(Numbers(row.kept.clone())),
    "cut": row.cut.map(|step| step as i64 + 1),
);
