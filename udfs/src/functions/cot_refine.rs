use std::ops::Range;
use std::sync::Arc;

use asap_kernels::budget;
use asap_kernels::steps::{is_heading, join};
use asap_lm::{Joined, Tokenizer};

use super::by_row::RowFunction;
use super::needs::Budget;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Numbers;

pub(crate) const MAX_TOKENS: Argument = Argument::optional(
    "max_tokens",
    Arg::Int,
    "The maximum number of tokens of the remaining steps. The default is the setting `asap.refine.max_tokens`.",
);

const STEPS_SCORES_AND_BUDGET: &[Argument] = &[
    Argument::new("steps", Arg::TextList, "The steps of a chain of thought; a NULL step is an empty one."),
    Argument::new("scores", Arg::FloatList, "A number for each step; the lowest is removed first."),
    MAX_TOKENS,
];

/// Returns the steps that `prune` keeps, by their scores and the maximum number of tokens; none if that is negative.
fn pruned<'a>(
    row: Args<'a>,
    default: &Budget,
    prune: impl FnOnce(&[&'a str], &[Option<f64>], usize) -> asap_lm::Result<Vec<usize>>,
) -> Cell<Numbers> {
    let (steps, scores) = (row.texts(0)?, row.floats(1)?);
    let max_tokens = if row.is_given(2) { row.int(2)? } else { default.max_tokens };
    match (steps.len() == scores.len(), usize::try_from(max_tokens)) {
        (false, _) => Err(NoValue::Null),
        (true, Err(_)) => Ok(Numbers(vec![])),
        (true, Ok(max_tokens)) => Ok(Numbers(prune(&steps, &scores, max_tokens)?)),
    }
}

pub(crate) struct CotRefine;

impl RowFunction for CotRefine {
    const DECLARATION: Declaration = Declaration {
        name: "cot_refine",
        about: "The numbers (from 1, ascending) of the steps that remain after Algorithm 2. It removes the step with the lowest score, one after the other, until the rest, joined by a blank line, has at most `max_tokens` tokens of the scoring model. Of equal scores the earlier step is removed first; a NULL or NaN score counts as 0. A chain that fits keeps all steps; the result may be empty. Lists of different lengths give NULL.",
        arguments: STEPS_SCORES_AND_BUDGET,
        example: "select cot_refine(['Hm.', '2 + 2 is 4.', 'Done.'], [0.1, 3.2, 1.4], 12);\n-- [2, 3]",
    };
    type Needs = (Arc<Tokenizer>, Budget);
    type Output<'a> = Numbers;

    fn row<'a>((tokenizer, default): &mut Self::Needs, row: Args<'a>) -> Cell<Numbers> {
        pruned(row, default, |steps, scores, max_tokens| {
            Joined::new(tokenizer, steps)?.prune(budget::by_score(scores), max_tokens)
        })
    }
}

pub(crate) struct CotFit;

impl RowFunction for CotFit {
    const DECLARATION: Declaration = Declaration {
        name: "cot_fit",
        about: "The numbers (from 1, ascending) of the steps that remain after Algorithm 2, except that a step of more than `max_tokens` tokens is removed first. Then, as in `cot_refine`, the step with the lowest score is removed until the rest has at most `max_tokens` tokens. In `cot_refine` a step that can never fit takes all steps with lower scores with it. Lists of different lengths give NULL.",
        arguments: STEPS_SCORES_AND_BUDGET,
        example: "select cot_fit(['Hm.', 'So 2 + 2 + 2 is 6.', 'Done.'], [0.1, 3.2, 1.4], 7);\n-- [1, 3]",
    };
    type Needs = (Arc<Tokenizer>, Budget);
    type Output<'a> = Numbers;

    fn row<'a>((tokenizer, default): &mut Self::Needs, row: Args<'a>) -> Cell<Numbers> {
        pruned(row, default, |steps, scores, max_tokens| {
            fit(tokenizer, steps, max_tokens, budget::by_score(scores), |_, is_too_long| u8::from(!is_too_long))
        })
    }
}

/// Returns the places of the steps that remain. Steps are removed by rank, and within a rank in this order, until the
/// rest fits. The rank depends on a step's place and on whether it can never fit.
fn fit(
    tokenizer: &Tokenizer,
    steps: &[&str],
    max_tokens: usize,
    mut order: Vec<usize>,
    rank: impl Fn(usize, bool) -> u8,
) -> asap_lm::Result<Vec<usize>> {
    let joined = Joined::new(tokenizer, steps)?;
    if joined.tokens() <= max_tokens {
        return Ok(joined.kept());
    }
    let lengths = (0..steps.len()).map(|step| joined.tokens_alone(step)).collect::<asap_lm::Result<Vec<_>>>()?;
    // The sort is stable.
    order.sort_by_key(|step| rank(*step, lengths[*step] > max_tokens));
    joined.prune(order, max_tokens)
}

pub(crate) struct CotFitWithHeadings;

impl RowFunction for CotFitWithHeadings {
    const DECLARATION: Declaration = Declaration {
        name: "cot_fit_with_headings",
        about: "The numbers (from 1, ascending) of the steps that remain as in `cot_fit`, except that a heading stays with the step after it and the last step is removed last. A heading is a step that ends in a colon (\"So:\"). It and the step after it stay or go together, by the score of the step after it. The last step is removed last because it states the result. A heading at the very end of a chain is removed first instead. Lists of different lengths give NULL.",
        arguments: STEPS_SCORES_AND_BUDGET,
        example: "select cot_fit_with_headings(['Hm:', 'Wait.', 'So 2 + 2 = 4.', 'Done.'], [3.2, 0.1, 1.4, 1.0], 16);\n-- [3, 4]",
    };
    type Needs = (Arc<Tokenizer>, Budget);
    type Output<'a> = Numbers;

    fn row<'a>((tokenizer, default): &mut Self::Needs, row: Args<'a>) -> Cell<Numbers> {
        pruned(row, default, |steps, scores, max_tokens| fit_groups(tokenizer, steps, scores, max_tokens))
    }
}

/// As [`fit`], for groups of headings and the step after them.
fn fit_groups(
    tokenizer: &Tokenizer,
    steps: &[&str],
    scores: &[Option<f64>],
    max_tokens: usize,
) -> asap_lm::Result<Vec<usize>> {
    // A group ends at a step that is not a heading, and at the end of the chain.
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let start = groups.last().map_or(0, |group| group.end);
        if !is_heading(step) || place + 1 == steps.len() {
            groups.push(start..place + 1);
        }
    }
    let texts: Vec<String> = groups.iter().map(|group| join(steps[group.clone()].iter().copied())).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let order = budget::by_score(&groups.iter().map(|group| scores[group.end - 1]).collect::<Vec<_>>());
    let is_loose_end = steps.last().is_some_and(|step| is_heading(step));
    let (loose_end, result) = match (is_loose_end, texts.len()) {
        (true, groups) => (groups.checked_sub(1), groups.checked_sub(2)),
        (false, groups) => (None, groups.checked_sub(1)),
    };
    let kept = fit(tokenizer, &texts, max_tokens, order, |group, is_too_long| match Some(group) {
        group if is_too_long || group == loose_end => 0,
        group if group != result => 1,
        _ => 2,
    })?;
    Ok(kept.into_iter().flat_map(|group| groups[group].clone()).collect())
}
