//! The fate of each step of a chain.

/// A step of the original chain after both stages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traced {
    /// Similarity to the coarse step that it matched, if stage 1 reported one.
    pub similarity: Option<f64>,
    /// Stage 2's score in nats, if it was scored.
    pub surprisal: Option<f64>,
    pub dropped: Option<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Stage 1: coarse pruning by the anchor.
    Anchor,
    /// Stage 2: pruning to the budget.
    Budget,
}

/// The results of both stages, by indices from 0.
#[derive(Debug, Clone, Copy)]
pub struct Stages<'a> {
    /// The original steps that stage 1 kept; None if it did not run.
    pub coarse: Option<&'a [usize]>,
    pub similarity: Option<&'a [Option<f64>]>,
    pub surprisal: Option<&'a [Option<f64>]>,
    /// The coarse steps that stage 2 kept.
    pub kept: &'a [usize],
}

/// Returns the fate of each of `steps` steps, or None if the lists do not match each other.
pub fn trace(steps: usize, stages: Stages<'_>) -> Option<Vec<Traced>> {
    let coarse = match stages.coarse {
        Some(coarse) => coarse.to_vec(),
        None => (0..steps).collect(),
    };
    let fits = |list: Option<&[Option<f64>]>| list.is_none_or(|list| list.len() == coarse.len());
    if !fits(stages.similarity) || !fits(stages.surprisal) {
        return None;
    }
    let mut traced = vec![Traced { similarity: None, surprisal: None, dropped: Some(Stage::Anchor) }; steps];
    for (place, &step) in coarse.iter().enumerate() {
        *traced.get_mut(step)? = Traced {
            similarity: stages.similarity.and_then(|list| list[place]),
            surprisal: stages.surprisal.and_then(|list| list[place]),
            dropped: Some(Stage::Budget),
        };
    }
    for &place in stages.kept {
        traced.get_mut(*coarse.get(place)?)?.dropped = None;
    }
    Some(traced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_stages_are_kept_apart() {
        let stages = Stages {
            coarse: Some(&[0, 2, 3]),
            similarity: Some(&[Some(1.0), Some(0.7), None]),
            surprisal: Some(&[None, Some(2.5), Some(0.5)]),
            kept: &[1],
        };
        let traced = trace(4, stages).unwrap();
        let dropped: Vec<_> = traced.iter().map(|step| step.dropped).collect();
        assert_eq!(dropped, [Some(Stage::Budget), Some(Stage::Anchor), None, Some(Stage::Budget)]);
        assert_eq!(traced[2], Traced { similarity: Some(0.7), surprisal: Some(2.5), dropped: None });
        assert_eq!(traced[1], Traced { similarity: None, surprisal: None, dropped: Some(Stage::Anchor) });
    }

    #[test]
    fn without_stage_1_nothing_is_dropped_by_the_anchor() {
        let stages = Stages { coarse: None, similarity: None, surprisal: None, kept: &[0] };
        let dropped: Vec<_> = trace(2, stages).unwrap().iter().map(|step| step.dropped).collect();
        assert_eq!(dropped, [None, Some(Stage::Budget)]);
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        let stages = Stages { coarse: None, similarity: None, surprisal: None, kept: &[] };
        assert_eq!(trace(2, Stages { surprisal: Some(&[None]), ..stages }), None);
        assert_eq!(trace(2, Stages { coarse: Some(&[2]), ..stages }), None);
        assert_eq!(trace(2, Stages { coarse: Some(&[1]), kept: &[1], ..stages }), None);
        assert_eq!(trace(0, stages), Some(vec![]));
    }
}
