//! What a trace is written about: a line of derivations that leads to an answer.

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

/// A line of derivations, told by their places from 0. Each text is one or more sentences in lower case without a final
/// full stop; a text with line ends closes with code.
pub(crate) trait Work {
    fn derivations(&self) -> usize;

    fn derive(&self, place: usize, say: &mut Say) -> String;

    /// Up to `length` derivations that begin with a wrong one instead of `place` and build on it. Nothing that they
    /// derive is derived or used by the right ones. May be none.
    fn detour(&self, place: usize, length: usize, say: &mut Say) -> Vec<String>;

    /// Something that a derivation before `done` (at least 1) derived or used, derived again. The conclusion counts as a
    /// derivation after the last.
    fn recheck(&self, done: usize, say: &mut Say) -> String;

    fn check(&self, place: usize, say: &mut Say) -> String;

    fn plan(&self, place: usize, say: &mut Say) -> String;

    fn restate(&self, done: usize, say: &mut Say) -> String;

    /// The name and the value of something that the question or a derivation before `done` says.
    fn known(&self, done: usize, dice: &mut Dice) -> (String, String);

    /// What derivation `place` is about, without an article. The conclusion is about what the last one is about.
    fn topic(&self, place: usize) -> String;

    fn conclude(&self, say: &mut Say) -> Vec<String>;

    fn confirm(&self, say: &mut Say) -> String;
}
