//! The openers of steps whose first words are drawn by real shares.

use crate::cues::first_word;

const OPENERS: &str = "\
    so | compute: | therefore, | now, | first, | wait, | let me see: | then | but | in short, | the point is, | alternatively, | \
    I think | - | looking at it again, | each in turn: | starting here, | if I see it right, | \
    hmm, | this much: | yes, | adding to what I have, | which means: | okay, | alright, | we can say: | \
    to be clear, | wow, | final result: | finally, | thus | similarly, | calculating: | next, | \
    assuming that I read it right, | that's it:";

/// Returns the opener that begins with a word.
pub(crate) fn opener(word: &str) -> Option<&'static str> {
    OPENERS.split(" | ").find(|opener| first_word(opener).as_deref() == Some(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{FORMULA, shares_of_first_words};

    #[test]
    fn every_word_of_the_shares_has_an_opener_that_begins_with_it() {
        for (word, _) in shares_of_first_words().filter(|(word, _)| *word != FORMULA) {
            assert_eq!(opener(word).and_then(first_word).as_deref(), Some(word));
        }
    }
}
