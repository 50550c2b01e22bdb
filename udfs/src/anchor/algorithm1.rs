//! Algorithm 1 over an answer: it is a pruning if each of its steps matches a step of the chain, in order.

use asap_kernels::gestalt::Gestalt;
use asap_kernels::{matching, steps};

use super::Pruned;

const QUOTED: usize = 80;

/// The pruning that an answer is, or the reason why it is not one. A step matches one that is at least `threshold` similar.
pub(super) fn accept(original: &[&str], answer: &str, threshold: f64) -> Result<Pruned, String> {
    let coarse = steps::steps(answer);
    if coarse.is_empty() {
        return Err("it has no step".to_string());
    }
    let from: Vec<&str> = original.iter().copied().map(steps::strip).collect();
    let to: Vec<&str> = coarse.iter().copied().map(steps::strip).collect();
    let walk = matching::walk(&mut Gestalt::new(false), &from, &to, threshold);
    if let Some(failed) = walk.failed {
        let step: String = to[failed].chars().take(QUOTED).collect();
        let place = failed + 1;
        return Err(format!("its step {place} matches no step of the chain that is still to come: {step:?}"));
    }
    let kept = walk.matches.iter().map(|found| found.step as i64 + 1).collect();
    let similarity = walk.matches.iter().map(|found| found.similarity).collect();
    Ok(Pruned { cot: steps::join(coarse), kept, similarity })
}

/// Some steps of a chain as a pruning of it. Each is known to be its own match: a walk could take an earlier one that is
/// like it.
pub(crate) fn of_steps(original: &[&str], kept: &[usize]) -> Pruned {
    Pruned {
        cot: steps::join(kept.iter().map(|step| original[*step])),
        kept: kept.iter().map(|step| *step as i64 + 1).collect(),
        similarity: vec![1.0; kept.len()],
    }
}
