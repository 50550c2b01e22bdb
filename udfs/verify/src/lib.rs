//! Final answers of responses, and whether one is the answer that is expected, without computer algebra.
//!
//! Numbers are compared as exact fractions as long as it goes, else to 120 digits with a bound on the error; expressions with
//! variables at points that are drawn from the variables' names, so they are the same at each call. An answer that may be read
//! in two ways, as `1/2x` or `\sin{x}^2`, and one that is not understood, is equal only to what is written in the same way:
//! to accept what is wrong is worse than to refuse what is right.
//!
//! | module | holds |
//! |---|---|
//! | `extract`, `boxes` | where a response states its answer |
//! | `stated` | which step of a chain states it first |
//! | `characters`, `numerals`, `lexer`, `token`, `words`, `units` | LaTeX and Unicode to tokens |
//! | `span`, `reader`, `lists`, `relations`, `values`, `shape` | tokens to what the answer is: value, list, interval, equation |
//! | `notation` | what looks like a product and is none |
//! | `parser`, `expression` | expressions as programs of a stack machine |
//! | `rational`, `ball`, `number` | exact fractions, 512 bits with their error, complex numbers of both |
//! | `compare` | equality of what answers are |
//! | `work` | what a comparison may cost |
//!
//! **Bounds.** Searched are the last 65,536 bytes behind the chain. An answer of more than 20,000 bytes, a number of more
//! than 2,500 digits, a list of more than 200 parts, structure of more than 12 levels (brackets and fractions may be of any
//! depth), expressions of more than 100 variables, fractions of more than 10,000 bits, factorials above 1,000!, and what takes
//! more than about 10 ms, are equal only to what is written in the same way.

use std::borrow::Cow;

use compare::equals;
use lexer::{Commas, tokens};
use shape::Shape;
use span::Tokens;
use token::{Relation, Token};
use work::Work;

mod ball;
mod boxes;
mod characters;
mod compare;
mod expression;
mod extract;
mod lexer;
mod lists;
mod notation;
mod number;
mod numerals;
mod parser;
mod rational;
mod reader;
mod relations;
mod shape;
mod span;
mod stated;
#[cfg(test)]
mod tests;
mod token;
mod units;
mod values;
mod words;
mod work;

pub use extract::answer;
pub use stated::first_stating;

/// Whether the [`answer`] of a response is the one that is expected. `gold` is an answer, or a solution that states one as
/// responses do. A response without an answer is false.
pub fn verify(gold: &str, response: &str) -> bool {
    let Some(found) = answer(response) else { return false };
    let gold = answer(gold).unwrap_or(Cow::Borrowed(gold));
    same(gold.trim(), found.trim())
}

fn same(gold: &str, found: &str) -> bool {
    if gold == found {
        return !gold.is_empty();
    }
    let (Some(expected), Some(stated)) = (tokens(gold, Commas::Thousands), tokens(found, Commas::Thousands)) else {
        return false;
    };
    let mut work = Work::new();
    if means(&expected, &stated, &mut work) {
        return true;
    }
    // `100,200` is one number, or two.
    let separate = tokens(found, Commas::Separate).filter(|separate| *separate != stated);
    separate.is_some_and(|separate| means(&expected, &separate, &mut work))
}

fn means(gold: &[Token], answer: &[Token], work: &mut Work) -> bool {
    if gold == answer {
        return !gold.is_empty();
    }
    if [gold, answer].iter().any(|tokens| tokens.iter().any(|token| matches!(token, Token::Opaque(_)))) {
        return false;
    }
    let (of_gold, of_answer) = (Family::of(gold), Family::of(answer));
    let (gold, answer) = match (&of_gold, &of_answer) {
        (None, None) => (gold.to_vec(), answer.to_vec()),
        (Some(gold), Some(answer)) if gold.domain == answer.domain => (gold.renamed(), answer.renamed()),
        // That integers count the members may be left out.
        (Some(gold), None) if gold.domain == "Z" => (gold.members.to_vec(), answer.to_vec()),
        (None, Some(answer)) if answer.domain == "Z" => (gold.to_vec(), answer.members.to_vec()),
        _ => return false,
    };
    match (shape(&gold, work), shape(&answer, work)) {
        (Some(gold), Some(answer)) => equals(&gold, &answer, work),
        _ => false,
    }
}

fn shape(tokens: &[Token], work: &mut Work) -> Option<Shape> {
    Some(reader::read(Tokens::new(tokens)?.whole(), work))
}

/// `\frac{\pi}{4} + k\pi, k \in \mathbb{Z}`: members, and the parameter that counts them.
struct Family<'a> {
    members: &'a [Token],
    parameter: &'a str,
    domain: String,
}

impl<'a> Family<'a> {
    const CONDITION: usize = 24;

    fn of(tokens: &'a [Token]) -> Option<Self> {
        use Token::{Close, Comma, Domain, Letter, Open, Word};
        let says = |token: &Token| {
            matches!(
                token,
                Comma | Word(_) | Letter(_) | Domain(_) | Open(_) | Close(_) | Token::Relation(Relation::In)
            )
        };
        let from = tokens.iter().rposition(|token| !says(token)).map_or(0, |last| last + 1);
        let begins = |place: &usize| matches!(tokens[*place], Comma | Word(_) | Open(token::Bracket::Round));
        let from = from.max(tokens.len().saturating_sub(Self::CONDITION)).max(1);
        let begin = (from..tokens.len())
            .filter(begins)
            .find(|place| tokens[*place..].iter().filter(|token| matches!(token, Letter(_))).count() == 1)?;
        let (members, condition) = tokens.split_at(begin);
        let parameter = condition.iter().find_map(|token| match token {
            Letter(name) => Some(name.as_str()),
            _ => None,
        })?;
        let domain = Self::domain(condition)?;
        let is_range = |token: &Token| matches!(token, Token::Relation(relation) if *relation != Relation::Equal);
        if members.iter().any(is_range) {
            return None;
        }
        let occurs = members.iter().any(|token| matches!(token, Letter(name) if name == parameter));
        occurs.then_some(Self { members, parameter, domain })
    }

    /// Which numbers a condition names; None if it says anything that is not known here.
    fn domain(condition: &[Token]) -> Option<String> {
        const SAYING_NOTHING: &str = "for where with and some any all every each is be an a in of";
        const KINDS: &str = "positive negative nonzero non-zero nonnegative non-negative even odd";
        let is_of = |words: &str, word: &str| words.split_whitespace().any(|of| of == word);
        let (mut domain, mut kinds) = (None, Vec::new());
        for token in condition {
            match token {
                Token::Domain(of) if domain.is_none() => domain = Some(of.clone()),
                Token::Domain(_) => return None,
                Token::Word(words) => {
                    for word in words.to_lowercase().split_whitespace() {
                        match word.trim_matches([',', '(', ')']) {
                            "integer" | "integers" if domain.is_none() => domain = Some("Z".into()),
                            kind if is_of(KINDS, kind) => kinds.push(kind.replace('-', "")),
                            word if is_of(SAYING_NOTHING, word) => {}
                            _ => return None,
                        }
                    }
                }
                _ => {}
            }
        }
        kinds.insert(0, domain?);
        Some(kinds.join(" "))
    }

    fn renamed(&self) -> Vec<Token> {
        let rename = |token: &Token| match token {
            Token::Letter(name) if name == self.parameter => Token::Letter("#".to_string()),
            other => other.clone(),
        };
        self.members.iter().map(rename).collect()
    }
}
