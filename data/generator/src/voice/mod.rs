//! How the traces speak: two complete sets of wordings of the same length.
//!
//! Nothing in the structure of a trace depends on the voice. The same seed gives the same problems, steps and labels in
//! both, so whatever a pruner loses from one to the other it owes to words.

mod plain;
mod reworded;

use clap::ValueEnum;

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
    /// The wordings that every kind of problem shares.
    pub fn phrases(self) -> &'static Phrases {
        match self {
            Voice::Plain => &plain::PHRASES,
            Voice::Reworded => &reworded::PHRASES,
        }
    }

    /// The text in this voice.
    pub fn of(self, words: Words) -> &'static str {
        match self {
            Voice::Plain => words[0],
            Voice::Reworded => words[1],
        }
    }
}

/// Templates, none of them bound to one label. They begin in lower case and end without a full stop.
///
/// `{name}`, `{value}`, `{unit}` and `{expr}` are a quantity, its value, the unit with a space before it, and what it
/// is computed from; `{a}` and `{b}` name the two operands; `{what}`, `{code}` and `{result}` are a stage of a program,
/// its line and what it leaves of the example; `{answer}` is an answer.
pub struct Phrases {
    /// What may stand before any sentence.
    pub asides: [&'static str; 16],
    /// What may stand before a sentence with content.
    pub links: [&'static str; 16],
    /// First sentences of a chain.
    pub openings: [&'static str; 10],
    /// Thoughts that carry nothing.
    pub muse: [&'static str; 36],
    /// Questions to oneself.
    pub doubt: [&'static str; 20],
    /// Contentment.
    pub approve: [&'static str; 20],
    /// Turning away from what was tried.
    pub drop: [&'static str; 20],
    /// What to do next, with `{name}`.
    pub plan: [&'static str; 14],
    /// What is known, with `{name}`, `{value}`, `{unit}`.
    pub restate: [&'static str; 14],
    /// A quantity computed, with `{name}`, `{expr}`, `{value}`, `{unit}`.
    pub derive: [&'static str; 24],
    /// The same for a sum, with `{a}` and `{b}` too.
    pub add: [&'static str; 5],
    /// The same for a difference.
    pub subtract: [&'static str; 5],
    /// The same for a product.
    pub multiply: [&'static str; 5],
    /// The same for a quotient.
    pub divide: [&'static str; 5],
    /// An answer, right or tried, with `{answer}`.
    pub conclude: [&'static str; 14],
    /// A line of a program within a sentence, with `{what}`, `{code}`, `{result}`.
    pub inline_code: [&'static str; 16],
    /// A line of a program below a sentence, with `{what}` and `{result}`.
    pub block_code: [&'static str; 8],
    /// A stage of a program computed by hand, with `{what}` and `{result}`.
    pub by_hand: [&'static str; 8],
    /// A whole program below a sentence.
    pub program: [&'static str; 10],
    /// What the task says, with `{what}`.
    pub task: [&'static str; 8],
    /// Before a list of lines.
    pub list: [&'static str; 8],
    /// The part of a product that the tens of a factor give, with `{name}`.
    pub tens_part: &'static str,
    /// The part that its ones give, with `{name}`.
    pub ones_part: &'static str,
    /// The beginning of a response after the chain.
    pub response: [&'static str; 6],
    /// A line of a response, with `{name}`, `{expr}`, `{value}`, `{unit}`.
    pub response_line: [&'static str; 4],
    /// The end of a response, with `{answer}`.
    pub response_end: [&'static str; 6],
    /// A response that is a program, before its code block.
    pub response_code: [&'static str; 6],
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

    fn all(phrases: &Phrases) -> Vec<&'static str> {
        let p = phrases;
        let pools: [&[&'static str]; 25] = [
            &p.asides,
            &p.links,
            &p.openings,
            &p.muse,
            &p.doubt,
            &p.approve,
            &p.drop,
            &p.plan,
            &p.restate,
            &p.derive,
            &p.add,
            &p.subtract,
            &p.multiply,
            &p.divide,
            &p.conclude,
            &p.inline_code,
            &p.block_code,
            &p.by_hand,
            &p.program,
            &p.task,
            &p.list,
            &p.response,
            &p.response_line,
            &p.response_end,
            &p.response_code,
        ];
        pools.concat()
    }

    #[test]
    fn the_voices_share_no_template_and_repeat_none() {
        let mut texts = [all(Voice::Plain.phrases()), all(Voice::Reworded.phrases())].concat();
        texts.extend([Voice::Plain, Voice::Reworded].map(|voice| voice.phrases().tens_part));
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
