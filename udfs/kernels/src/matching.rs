//! Algorithm 1: checks that a pruned chain consists of steps of the original, in their order.

use super::gestalt::Gestalt;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Match {
    /// Index into the original's steps, from 0.
    pub step: usize,
    pub similarity: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Walk {
    /// For each coarse step before the first failure, the step that it matched.
    pub matches: Vec<Match>,
    /// Index of the coarse step without a match, from 0; None if the pruning is valid.
    pub failed: Option<usize>,
}

/// Walks both chains once. Each coarse step takes the first original step, after the last one taken, whose similarity
/// is at least `threshold`. Texts are compared unchanged: the caller strips them.
pub fn walk(gestalt: &mut Gestalt, original: &[&str], coarse: &[&str], threshold: f64) -> Walk {
    let mut matches = Vec::with_capacity(coarse.len());
    let mut rest = original.iter().enumerate();
    for (place, coarse_step) in coarse.iter().enumerate() {
        gestalt.set_b(coarse_step);
        let found = rest.find_map(|(step, original_step)| {
            let similarity = gestalt.ratio_of_at_least(original_step, threshold)?;
            Some(Match { step, similarity })
        });
        match found {
            Some(found) => matches.push(found),
            None => return Walk { matches, failed: Some(place) },
        }
    }
    Walk { matches, failed: None }
}
