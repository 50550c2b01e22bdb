//! How the traces speak: every text stands in two wordings.
//!
//! Nothing in the structure of a trace depends on the voice. The same seed gives the same problems, steps and labels in
//! both, so whatever a pruner loses from one to the other it owes to words.

pub mod openers;
pub mod phrases;

use clap::ValueEnum;

use crate::dice::Dice;

/// Which set of wordings a trace is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Voice {
    /// The first set.
    Plain,
    /// The second set: every template of the first in other words.
    Reworded,
}

/// A text in both voices, the plain one first.
pub type Words = [&'static str; 2];

impl Voice {
    /// The text in this voice.
    pub fn of(self, words: Words) -> &'static str {
        match self {
            Voice::Plain => words[0],
            Voice::Reworded => words[1],
        }
    }

    /// One of several texts, in this voice; the voice does not change which.
    pub fn pick(self, dice: &mut Dice, among: &[Words]) -> &'static str {
        self.of(among[dice.below(among.len())])
    }
}

/// The template with each `{key}` replaced by its text.
pub fn fill(template: &str, texts: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let known = after.split_once('}').and_then(|(key, after)| {
            let text = texts.iter().find(|(name, _)| *name == key)?.1;
            Some((text, after))
        });
        match known {
            Some((text, after)) => {
                filled.push_str(text);
                rest = after;
            }
            // A brace of the text itself, as in \boxed{…}.
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_voices_share_no_template_and_repeat_none() {
        let pools: [&[Words]; 25] = [
            &phrases::ASIDES,
            &phrases::LINKS,
            &phrases::OPENINGS,
            &phrases::MUSE,
            &phrases::DOUBT,
            &phrases::APPROVE,
            &phrases::DROP,
            &phrases::PLAN,
            &phrases::RESTATE,
            &phrases::DERIVE,
            &phrases::ADD,
            &phrases::SUBTRACT,
            &phrases::MULTIPLY,
            &phrases::DIVIDE,
            &phrases::CONCLUDE,
            &phrases::INLINE_CODE,
            &phrases::BLOCK_CODE,
            &phrases::BY_HAND,
            &phrases::PROGRAM,
            &phrases::TASK,
            &phrases::LIST,
            &phrases::RESPONSE,
            &phrases::RESPONSE_LINE,
            &phrases::RESPONSE_END,
            &phrases::RESPONSE_CODE,
        ];
        let mut texts = pools.concat().concat();
        texts.extend(phrases::TENS_PART);
        let count = texts.len();
        texts.sort_unstable();
        let before = texts.clone();
        texts.dedup();
        assert_eq!(texts.len(), count, "{:?}", before.windows(2).find(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn keys_are_filled_and_other_braces_stay() {
        let texts = [("name", "the sum"), ("value", "12")];
        assert_eq!(fill("{name} is \\boxed{{value}} {x}", &texts), "the sum is \\boxed{12} {x}");
    }
}
