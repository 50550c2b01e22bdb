//! Orders of removal that look at no content: what a score must beat.

use super::budget::{at_random, draw};

/// An order of removal, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// A random contiguous block stays. A smaller budget keeps a part of the block of a larger one.
    Block,
    /// The longest step goes first.
    Longest,
    /// The last step goes first.
    Prefix,
    Random,
    /// The first step goes first.
    Suffix,
}

impl Control {
    pub const ALL: [(&str, Self); 5] = [
        ("block", Self::Block),
        ("longest", Self::Longest),
        ("prefix", Self::Prefix),
        ("random", Self::Random),
        ("suffix", Self::Suffix),
    ];

    /// Returns a score for each step; the lowest goes first. `lengths` are the steps' tokens.
    pub fn scores(self, steps: &[&str], lengths: &[usize], seed: i64) -> Vec<f64> {
        match self {
            Self::Block => block(lengths, draw(steps, seed)),
            Self::Longest => lengths.iter().map(|length| -(*length as f64)).collect(),
            Self::Prefix => (0..steps.len()).map(|place| -(place as f64)).collect(),
            Self::Suffix => (0..steps.len()).map(|place| place as f64).collect(),
            Self::Random => {
                let mut scores = vec![0.0; steps.len()];
                for (place, step) in at_random(steps, seed).into_iter().enumerate() {
                    scores[step] = place as f64 / steps.len() as f64;
                }
                scores
            }
        }
    }
}

/// A block of B of N tokens starts at token `at × (N − B)`. A step's score is −B of the smallest block that holds the
/// step's middle.
fn block(lengths: &[usize], at: f64) -> Vec<f64> {
    let all = lengths.iter().sum::<usize>() as f64;
    let mut start = 0.0;
    let score = |length: &usize| {
        let middle = start + *length as f64 / 2.0;
        start += *length as f64;
        let smallest = if middle < at * all { all - middle / at } else { (middle - at * all) / (1.0 - at) };
        -smallest
    };
    lengths.iter().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::by_score;

    fn order(control: Control, steps: &[&str], lengths: &[usize]) -> Vec<usize> {
        let scores = control.scores(steps, lengths, 7);
        by_score(&scores.into_iter().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn controls_order_steps_without_their_content() {
        let (steps, lengths) = (["a", "b", "c", "d"], [3, 1, 4, 1]);
        assert_eq!(order(Control::Longest, &steps, &lengths), [2, 0, 1, 3]);
        assert_eq!(order(Control::Prefix, &steps, &lengths), [3, 2, 1, 0]);
        assert_eq!(order(Control::Suffix, &steps, &lengths), [0, 1, 2, 3]);
        assert_eq!(order(Control::Random, &steps, &lengths), at_random(&steps, 7));
        assert!(Control::ALL.iter().all(|(_, control)| order(*control, &[], &[]).is_empty()));
    }

    #[test]
    fn a_block_is_contiguous_at_every_size_and_its_place_is_drawn() {
        let texts: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let mut starts = std::collections::BTreeSet::new();
        for count in 1..40 {
            let steps: Vec<&str> = texts[..count].iter().map(String::as_str).collect();
            let lengths: Vec<usize> = (0..count).map(|n| n * 7 % 11).collect();
            let mut left: Vec<usize> = (0..count).collect();
            for step in order(Control::Block, &steps, &lengths) {
                left.retain(|kept| *kept != step);
                assert!(left.windows(2).all(|pair| pair[1] == pair[0] + 1), "{left:?}");
                if left.len() == count / 4 {
                    starts.insert(left.first().map_or(0, |first| first * 10 / count));
                }
            }
        }
        assert!(starts.len() > 5, "{starts:?}");
        assert_eq!(block(&[2, 2, 2, 2], 0.0), [-1.0, -3.0, -5.0, -7.0]);
        assert_eq!(block(&[2, 2], 0.5), [-2.0, -2.0]);
    }
}
