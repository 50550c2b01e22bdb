//! Functions of sentences in a chain, and their first words, with shares measured on real traces.
//!
//! The traces are 40 of R1-Distill-Qwen-14B and R1-Distill-Llama-8B on MATH problems (thought-anchors.com, MIT). Each
//! of their 3,385 steps has a function and a flag whether the answer needs it. Only the shares are here.

use crate::dice::Dice;

/// The function of a sentence. A step has the function of its first sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    Computation,
    /// Repeats the question or an earlier step.
    Facts,
    /// Plans what to do next.
    Plan,
    /// Doubts, hesitates, gives up.
    Uncertainty,
    /// Sums up or approves a result.
    Consolidation,
    /// Checks something again.
    SelfChecking,
    /// Begins to read the question.
    SetUp,
    Answer,
}

const SHARES: [usize; 8] = [431, 152, 115, 109, 100, 57, 19, 17];

const NEEDED: [usize; 8] = [625, 522, 483, 512, 625, 720, 328, 897];

const NEEDED_OF_ALL: usize = 585;

/// The exponent of the shares above. With 1, first words would carry 0.002 bits about need. With 4 they carry as much
/// as in real traces, where words predict need beyond what functions predict.
const SHARPNESS: u32 = 4;

/// Per thousand steps after one of each function: the number of each function.
const AFTER: [[usize; 8]; 8] = [
    [743, 31, 33, 58, 113, 18, 0, 4],
    [255, 448, 113, 97, 62, 8, 16, 0],
    [288, 252, 324, 82, 31, 13, 5, 5],
    [130, 212, 236, 255, 65, 65, 11, 24],
    [190, 77, 110, 211, 258, 71, 12, 71],
    [83, 36, 78, 89, 94, 568, 0, 52],
    [62, 453, 250, 94, 16, 0, 125, 0],
    [0, 0, 0, 636, 0, 45, 0, 318],
];

/// Per thousand steps of each function: the number that begins with each word. The rest begins with words that have
/// less than 1 % of their function or belong to one problem, such as numbers.
const FIRST_WORDS: [&str; 8] = [
    "so 147, compute 37, \\[ 36, therefore 24, now 23, first 23, wait 23, let 22, then 21, similarly 14, \
     thus 12, calculating 12",
    "wait 105, so 72, but 62, first 60, in 43, the 39, alternatively 31, i 31, - 25, let 23, now 23, then 21, \
     looking 21, each 18, \\[ 18",
    "alternatively 180, wait 149, now 129, so 100, let 90, but 31, first 31, i 21, starting 21, therefore 18, \
     if 18, hmm 13, next 13, to 13, assuming 10",
    "wait 623, but 206, hmm 38, alternatively 38, this 16, i 16, so 14",
    "so 451, therefore 177, now 41, yes 32, adding 29, \\[ 29, but 24, which 18, i 18, wait 18, that's 12",
    "wait 197, yes 88, so 67, therefore 47, \\[ 47, let 36, i 31, but 26, - 26, then 21",
    "okay 484, alright 109, but 78, now 31, wait 31, the 31, let 31, we 31, therefore 16, to 16, so 16, \
     in 16, first 16, wow 16",
    "final 483, therefore 328, so 121, finally 17, thus 17, yes 17, i 17",
];

/// The first word of a step that begins with a displayed formula.
pub(crate) const FORMULA: &str = "\\[";

impl Function {
    /// In the order of the shares.
    pub const ALL: [Function; 8] = [
        Function::Computation,
        Function::Facts,
        Function::Plan,
        Function::Uncertainty,
        Function::Consolidation,
        Function::SelfChecking,
        Function::SetUp,
        Function::Answer,
    ];

    /// Returns the value in the column `functions`, as named in the labelled traces.
    pub fn name(self) -> &'static str {
        match self {
            Function::Computation => "active_computation",
            Function::Facts => "fact_retrieval",
            Function::Plan => "plan_generation",
            Function::Uncertainty => "uncertainty_management",
            Function::Consolidation => "result_consolidation",
            Function::SelfChecking => "self_checking",
            Function::SetUp => "problem_setup",
            Function::Answer => "final_answer_emission",
        }
    }

    /// Draws the function of the next step. [`Function::Answer`] is only drawn if it `may_answer`.
    pub fn next(self, is_needed: bool, may_answer: bool, dice: &mut Dice) -> Function {
        let weights = Function::ALL.map(|next| {
            let is_possible = may_answer || next != Function::Answer;
            if is_possible { AFTER[self as usize][next as usize] * next.weight(is_needed) } else { 0 }
        });
        Function::ALL[dice.weighted(&weights)]
    }

    /// Returns the weight of the function among needed steps, or among the others.
    fn weight(self, is_needed: bool) -> usize {
        let of = |needed: usize| if is_needed { needed } else { 1000 - needed };
        let (share, mean) = (of(NEEDED[self as usize]), of(NEEDED_OF_ALL));
        match self {
            // It is drawn only where the answer is known. With the full exponent it would occur in core steps only.
            Function::Answer => share * mean.pow(SHARPNESS - 1),
            _ => share.pow(SHARPNESS),
        }
    }

    /// Draws the first word of a step of this function. `None` stands for any other word.
    pub fn first_word(self, dice: &mut Dice) -> Option<&'static str> {
        let (words, mut weights): (Vec<_>, Vec<_>) = shares_of(FIRST_WORDS[self as usize]).unzip();
        weights.push(1000 - weights.iter().sum::<usize>());
        words.get(dice.weighted(&weights)).copied()
    }
}

fn shares_of(words: &'static str) -> impl Iterator<Item = (&'static str, usize)> {
    let share = |word: &'static str| word.split_once(' ').and_then(|(word, share)| Some((word, share.parse().ok()?)));
    words.split(", ").filter_map(share)
}

/// Returns the share of each first word in all steps of the real traces. The remainder to 1 are other words.
pub(crate) fn shares_of_first_words() -> impl Iterator<Item = (&'static str, f64)> {
    let of_function =
        |(share, words)| shares_of(words).map(move |(word, weight)| (word, share as f64 * weight as f64 / 1e6));
    SHARES.into_iter().zip(FIRST_WORDS).flat_map(of_function)
}

pub(crate) fn is_named(word: &str) -> bool {
    FIRST_WORDS.into_iter().any(|words| shares_of(words).any(|(named, _)| named == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_those_of_wholes() {
        assert_eq!(SHARES.iter().sum::<usize>(), 1000);
        for shares in AFTER {
            // Measured shares are rounded.
            assert!(shares.iter().sum::<usize>().abs_diff(1000) <= 2, "{shares:?}");
        }
        assert!(FIRST_WORDS.into_iter().all(|words| shares_of(words).map(|(_, weight)| weight).sum::<usize>() <= 1000));
        assert!(shares_of_first_words().map(|(_, share)| share).sum::<f64>() < 1.0);
    }

    #[test]
    fn functions_and_words_fall_by_their_shares() {
        let mut dice = Dice::new(3, 0);
        let mut drawn = |is_needed| {
            let next = (0..4000).map(|_| Function::SetUp.next(is_needed, false, &mut dice));
            next.filter(|next| *next == Function::Computation).count()
        };
        assert!(drawn(true) > 2 * drawn(false));
        let words: Vec<_> = (0..4000).filter_map(|_| Function::Uncertainty.first_word(&mut dice)).collect();
        let waits = words.iter().filter(|word| **word == "wait").count() as f64 / 4000.0;
        assert!((waits - 0.623).abs() < 0.03, "{waits}");
        let after_answer: Vec<_> = (0..200).map(|_| Function::Consolidation.next(true, false, &mut dice)).collect();
        assert!(!after_answer.contains(&Function::Answer));
    }
}
