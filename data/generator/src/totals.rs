//! Short sums: a running total modulo 10, for models that are trained from scratch.
//!
//! Unlike the other families, a chain states its derivations in the order of the question, since a small model does not
//! learn to look up shuffled ones. It ends by a visible rule: each derivation is checked exactly once, and the total
//! follows the last check. Greedy decoding never ends a chain whose length was drawn.

use std::collections::HashSet;

use crate::dice::Dice;
use crate::trace::{Label, Step};

const MODULUS: i64 = 10;
const NAMES: [&str; 7] = ["A", "B", "C", "D", "E", "F", "G"];
const LARGEST: i64 = 5;
const OPENERS: [&str; 5] = ["So", "Well", "Then", "Now", "Hmm"];
const PLANS: [&str; 6] = [
    "Next I look at {}.",
    "What does {} say?",
    "Let me read {} again, it comes now.",
    "The turn of {}.",
    "Okay, on to {} of the list.",
    "Then there is {} to do.",
];
const MUSINGS: [&str; 6] = [
    "That looks fine to me.",
    "No surprise so far.",
    "I should keep the last digit in mind.",
    "Only the last digit stays.",
    "Good, one more is done.",
    "Slowly, there is no hurry.",
];
/// How often a derivation after the first is announced, and how often a thought follows a check, in percent.
const PLANNED: usize = 70;
const MUSED: usize = 40;

/// A question and its two chains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Total {
    pub question: String,
    /// The right answer, a digit.
    pub answer: i64,
    /// The verbose chain: derivations with checks, derivations that the answer does not need, and thoughts.
    pub steps: Vec<Step>,
}

impl Total {
    /// The verbose chain.
    pub fn cot(&self) -> String {
        joined(self.steps.iter())
    }

    /// The concise chain: the core steps of the verbose one.
    pub fn concise(&self) -> String {
        joined(self.steps.iter().filter(|step| step.label == Label::Core))
    }

    /// The response after either chain.
    pub fn response(&self) -> String {
        format!("\\boxed{{{}}}", self.answer)
    }
}

fn joined<'a>(steps: impl Iterator<Item = &'a Step>) -> String {
    steps.map(|step| step.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

/// Generates `count` sums. No question occurs twice, and the first rows do not depend on how many follow.
pub fn totals(count: usize, seed: u64) -> Vec<Total> {
    let mut asked = HashSet::new();
    let drawn = (0..).map(|row| draw(&mut Dice::new(seed, row)));
    drawn.filter(|total| asked.insert(total.question.clone())).take(count).collect()
}

fn draw(dice: &mut Dice) -> Total {
    let (needed, idle) = (3 + dice.below(3), dice.below(3));
    let mut is_needed: Vec<bool> = (0..needed + idle).map(|place| place < needed).collect();
    dice.shuffle(&mut is_needed);
    let mut total = dice.between(0, MODULUS - 1);
    let mut question = format!("The total t starts at {total}.");
    let mut steps = Vec::new();
    for (name, is_needed) in NAMES.into_iter().zip(is_needed) {
        let (sign, operand) = (dice.pick(&["+", "-"]), dice.between(1, LARGEST));
        // An idle derivation has operands of its own, so nothing depends on it.
        let left = if is_needed { total } else { dice.between(0, MODULUS - 1) };
        let value = (if sign == "+" { left + operand } else { left - operand }).rem_euclid(MODULUS);
        // A chain and the question have the same layout, since a small model learns to copy before it learns to translate.
        let stated = if is_needed { "t".to_string() } else { left.to_string() };
        question.push_str(&format!(" {name}:{stated}{sign}{operand}."));
        if steps.is_empty() || dice.chance(PLANNED) {
            steps.push(step(Label::Filler, dice.pick(&PLANS).replace("{}", name)));
        }
        let label = if is_needed { Label::Core } else { Label::DeadEnd };
        for label in [label, Label::Check] {
            steps.push(step(label, format!("{} {name}:{left}{sign}{operand}={value}.", dice.pick(&OPENERS))));
        }
        if dice.chance(MUSED) {
            steps.push(step(Label::Filler, dice.pick(&MUSINGS).to_string()));
        }
        total = if is_needed { value } else { total };
    }
    steps.push(step(Label::Core, format!("{} the total is {total}.", dice.pick(&OPENERS))));
    question.push_str(&format!(" What is t modulo {MODULUS}?"));
    Total { question, answer: total, steps }
}

fn step(label: Label, text: String) -> Step {
    Step { label, function: None, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the question as a person would.
    fn solved(question: &str) -> i64 {
        let (start, rest) = question.strip_prefix("The total t starts at ").unwrap().split_once('.').unwrap();
        let operations = rest.split_whitespace().filter_map(|word| word.split_once(":t"));
        let operand = |text: &str| text.trim_end_matches('.').parse::<i64>().unwrap();
        let total = operations.fold(operand(start), |total, (_, operation)| total + operand(operation));
        total.rem_euclid(10)
    }

    #[test]
    fn each_question_is_new_and_has_the_stated_answer() {
        let found = totals(3000, 7);
        let questions: HashSet<&str> = found.iter().map(|total| total.question.as_str()).collect();
        assert_eq!(questions.len(), found.len());
        assert_eq!(found[..40], totals(40, 7));
        assert_ne!(found[0], totals(1, 8)[0]);
        for total in &found {
            assert_eq!(solved(&total.question), total.answer, "{}", total.question);
            let last = total.steps.last().unwrap();
            assert!(last.label == Label::Core && last.text.ends_with(&format!("the total is {}.", total.answer)));
        }
    }

    #[test]
    fn each_derivation_is_checked_exactly_once_and_the_core_suffices() {
        for total in totals(500, 3) {
            let of = |label: Label| total.steps.iter().filter(move |step| step.label == label);
            let (core, idle) = (of(Label::Core).count() - 1, of(Label::DeadEnd).count());
            assert!((3..=5).contains(&core) && idle <= 2);
            let derived = |step: &Step| step.text.split_once(':').map(|(_, derived)| derived.to_string());
            for (place, step) in total.steps.iter().enumerate() {
                if step.label == Label::Check {
                    assert_eq!(derived(step), derived(&total.steps[place - 1]));
                }
            }
            assert_eq!(of(Label::Check).count(), core + idle);
            assert_eq!(total.concise().split("\n\n").count(), core + 1);
        }
    }
}
