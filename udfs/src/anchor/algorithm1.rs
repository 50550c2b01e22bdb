//! Algorithm 1: an answer is a pruning if each of its steps matches a step of the chain, in order.

use asap_kernels::gestalt::Gestalt;
use asap_kernels::{matching, steps};

use super::Pruned;

const QUOTED: usize = 80;

/// Returns the steps of an answer as a pruning, or the reason why it is not one. A match needs a similarity of at least `threshold`.
pub(super) fn accept(original: &[&str], coarse: &[&str], threshold: f64) -> Result<Pruned, String> {
    if coarse.is_empty() {
        return Err("it has no step".to_string());
    }
    let from: Vec<&str> = original.iter().copied().map(steps::strip).collect();
    let to: Vec<&str> = coarse.iter().copied().map(steps::strip).collect();
    let walk = matching::walk(&mut Gestalt::new(false), &from, &to, threshold);
    if let Some(failed) = walk.failed {
        let step: String = to[failed].chars().take(QUOTED).collect();
        let place = failed + 1;
        return Err(format!("its step {place} matches no remaining step of the chain: {step:?}"));
    }
    let kept = walk.matches.iter().map(|found| found.step as i64 + 1).collect();
    let similarity = walk.matches.iter().map(|found| found.similarity).collect();
    Ok(Pruned { cot: steps::join(coarse.iter().copied()), kept, similarity })
}

/// Returns the `kept` steps of a chain as a pruning. Each step is its own match: a walk could match an earlier similar
/// step.
pub(crate) fn of_steps(original: &[&str], kept: &[usize]) -> Pruned {
    Pruned {
        cot: steps::select(original, kept.iter().copied()),
        kept: kept.iter().map(|step| *step as i64 + 1).collect(),
        similarity: vec![1.0; kept.len()],
    }
}
