//! The openers of steps whose first words are drawn by real shares.

const OPENERS: [(&str, &str); 36] = [
    ("so", "so"),
    ("compute", "compute:"),
    ("therefore", "therefore,"),
    ("now", "now,"),
    ("first", "first,"),
    ("wait", "wait,"),
    ("let", "let me see:"),
    ("then", "then"),
    ("but", "but"),
    ("in", "in short,"),
    ("the", "the point is,"),
    ("alternatively", "alternatively,"),
    ("i", "I think"),
    ("-", "-"),
    ("looking", "looking at it again,"),
    ("each", "each in turn:"),
    ("starting", "starting here,"),
    ("if", "if I see it right,"),
    ("hmm", "hmm,"),
    ("this", "this much:"),
    ("yes", "yes,"),
    ("adding", "adding to what I have,"),
    ("which", "which means:"),
    ("okay", "okay,"),
    ("alright", "alright,"),
    ("we", "we can say:"),
    ("to", "to be clear,"),
    ("wow", "wow,"),
    ("final", "final result:"),
    ("finally", "finally,"),
    ("thus", "thus"),
    ("similarly", "similarly,"),
    ("calculating", "calculating:"),
    ("next", "next,"),
    ("assuming", "assuming that I read it right,"),
    ("that's", "that's it:"),
];

pub(crate) fn opener(word: &str) -> Option<&'static str> {
    OPENERS.iter().find(|(first, _)| *first == word).map(|(_, opener)| *opener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cues::first_word;
    use crate::functions::{FORMULA, shares_of_first_words};

    #[test]
    fn every_word_of_the_shares_has_an_opener_that_begins_with_it() {
        for (word, _) in shares_of_first_words().filter(|(word, _)| *word != FORMULA) {
            assert_eq!(opener(word).and_then(first_word).as_deref(), Some(word));
        }
    }
}
