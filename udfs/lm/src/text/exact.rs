//! Prunes steps to exactly a budget: the last one that does not fit is cut at a token.

use std::borrow::Cow;

use asap_kernels::steps::select;

use crate::{Joined, Result, Tokenizer};

/// Tokens by which a cut step may be longer than its share of the joined text, where tokens merge at its ends.
const MERGED: usize = 4;

/// The indices of the kept steps, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactlyPruned<'a> {
    pub kept: Vec<usize>,
    /// The one of them that is cut, and what is kept of it.
    pub cut: Option<(usize, Cow<'a, str>)>,
}

/// Removes steps in the given order until the rest, joined, has at most `max_tokens` tokens. Then puts
/// back as many tokens of the last removed step as fit: its last ones if it stands before all kept steps, or if it is
/// the end of a chain of which nothing else is kept; else its first ones.
pub fn prune_exactly<'a>(
    tokenizer: &Tokenizer,
    steps: &[&'a str],
    order: impl IntoIterator<Item = usize>,
    max_tokens: usize,
) -> Result<ExactlyPruned<'a>> {
    let mut joined = Joined::new(tokenizer, steps)?;
    let mut last = None;
    for step in order {
        if joined.tokens() <= max_tokens {
            break;
        }
        joined.remove(step)?;
        last = Some(step);
    }
    let mut kept = joined.kept();
    let Some(step) = last else { return Ok(ExactlyPruned { kept, cut: None }) };
    let keeps_end = match kept.first() {
        Some(first) => step < *first,
        None => step > 0 && step + 1 == steps.len(),
    };
    let room = max_tokens - joined.tokens().min(max_tokens);
    let place = kept.partition_point(|kept| *kept < step);
    kept.insert(place, step);
    for piece in pieces(tokenizer, steps[step], keeps_end, room + MERGED)? {
        let piece = ended_like(steps[step], piece);
        let all: Vec<&str> = (0..steps.len()).map(|place| if place == step { &piece } else { steps[place] }).collect();
        let text = select(&all, kept.iter().copied());
        if tokenizer.count(&text)? <= max_tokens {
            return Ok(ExactlyPruned { kept, cut: Some((step, piece)) });
        }
    }
    kept.remove(place);
    Ok(ExactlyPruned { kept, cut: None })
}

/// A piece of a step with a line break at its end if the step has one, and only then.
fn ended_like<'a>(step: &str, piece: &'a str) -> Cow<'a, str> {
    match (step.ends_with('\n'), piece.ends_with('\n')) {
        (true, false) => Cow::Owned(format!("{piece}\n")),
        (false, true) => Cow::Borrowed(piece.trim_end_matches(['\n', '\r'])),
        _ => Cow::Borrowed(piece),
    }
}

/// The texts of the first or the last tokens of a step, the longest first: at most `most` tokens, and not all.
fn pieces<'a>(tokenizer: &Tokenizer, step: &'a str, from_end: bool, most: usize) -> Result<Vec<&'a str>> {
    let offsets = tokenizer.encode(step, false)?.offsets;
    let most = most.min(offsets.len().saturating_sub(1));
    let piece = |tokens: usize| match from_end {
        true => step.get(offsets[offsets.len() - tokens].0 as usize..),
        false => step.get(..offsets[tokens - 1].1 as usize),
    };
    // A token may end within a character.
    Ok((1..=most).rev().filter_map(piece).filter(|piece| !piece.trim().is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all, nasty_steps};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn no_more_than_the_budget_is_kept_and_little_less(steps in nasty_steps(), max_tokens in 0..40usize) {
            thread_local!(static ALL: [(Tokenizer, crate::text::cuts::Cuts); 6] = all());
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            ALL.with(|all| for (tokenizer, _) in all {
                let found = prune_exactly(tokenizer, &steps, (0..steps.len()).rev(), max_tokens).unwrap();
                let mut all = steps.clone();
                if let Some((step, piece)) = &found.cut {
                    all[*step] = piece;
                }
                assert!(tokenizer.count(&select(&all, found.kept.iter().copied())).unwrap() <= max_tokens);
                assert!(found.kept.iter().copied().eq(0..found.kept.len()));
                let is_whole = found.kept.len() == steps.len() && found.cut.is_none();
                assert_eq!(is_whole, tokenizer.count(&select(&steps, 0..steps.len())).unwrap() <= max_tokens);
            });
        }
    }
}
