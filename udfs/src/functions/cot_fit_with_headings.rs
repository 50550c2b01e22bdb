use std::ops::Range;
use std::sync::Arc;

use asap_kernels::budget;
use asap_kernels::steps::{is_heading, join};
use asap_lm::Tokenizer;

use super::by_row::RowFunction;
use super::cot_fit::fit;
use super::cot_refine::{STEPS_SCORES_AND_BUDGET, pruned};
use super::needs::Budget;
use crate::columns::{Args, Cell};
use crate::declaration::Declaration;
use crate::output::Numbers;

pub(crate) struct CotFitWithHeadings;

impl RowFunction for CotFitWithHeadings {
    const DECLARATION: Declaration = Declaration {
        name: "cot_fit_with_headings",
        about: "The numbers (from 1, ascending) of the steps that remain as in `cot_fit`, with two exceptions: a heading stays with the step after it, and the last step is removed last. A heading is a step that ends in a colon (\"So:\"). A heading and the step after it are kept or removed together, by the score of the step after it. The last step is removed last because it states the result. If the last step is itself a heading, it is removed first. Lists of different lengths give NULL.",
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
