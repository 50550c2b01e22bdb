//! The subject of a trace: a sequence of derivations that leads to an answer.

use crate::dice::Dice;
use crate::quantities::Signs;

pub(crate) struct Say {
    pub dice: Dice,
    pub signs: Signs,
}

impl Say {
    pub(crate) fn new(mut dice: Dice) -> Self {
        let signs = Signs::draw(&mut dice);
        Self { dice, signs }
    }
}

/// A sequence of derivations, indexed from 0. Each text is one or more sentences in lower case without a final full
/// stop. A text with line ends closes with code.
pub(crate) trait Work {
    fn derivations(&self) -> usize;

    fn derive(&self, place: usize, say: &mut Say) -> String;

    /// Returns at most `length` derivations that begin with a wrong one in place of `place` and build on it. The right
    /// derivations neither derive nor use their results. May be empty.
    fn detour(&self, place: usize, length: usize, say: &mut Say) -> Vec<String>;

    /// Derives again something that a derivation before `done` (at least 1) derived or used. The conclusion counts as a
    /// derivation after the last.
    fn recheck(&self, done: usize, say: &mut Say) -> String;

    fn check(&self, place: usize, say: &mut Say) -> String {
        self.derive(place, say)
    }

    fn plan(&self, place: usize, say: &mut Say) -> String;

    fn restate(&self, done: usize, say: &mut Say) -> String;

    /// Returns the name and the value of something that the question or a derivation before `done` states.
    fn known(&self, done: usize, dice: &mut Dice) -> (String, String);

    /// Returns the topic of derivation `place`, without an article. The conclusion has the topic of the last one.
    fn topic(&self, place: usize) -> String;

    fn conclude(&self, say: &mut Say) -> Vec<String> {
        vec![self.confirm(say)]
    }

    fn confirm(&self, say: &mut Say) -> String;
}
