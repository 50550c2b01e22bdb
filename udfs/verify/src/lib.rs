//! Extracts the final answer of a response and compares it with the expected one, without computer algebra.
//!
//! Numbers are compared as exact fractions where possible, else to 120 digits with an error bound. Expressions with
//! variables are compared at points derived from both expressions, so every call uses the same points. An ambiguous
//! answer, such as `1/2x` or `\sin{x}^2`, and an unsupported one are equal only to identical text: accepting a wrong
//! answer is worse than refusing a right one. [`verdict`] names the refusals of answers with two readings.
//!
//! | module | holds |
//! |---|---|
//! | `extract`, `boxes`, `alone`, `markdown` | finding the answer in a response |
//! | `stated` | finding the first step of a chain, and the sentences, that state it |
//! | `characters`, `numerals`, `lexer`, `token`, `words`, `units` | LaTeX and Unicode to tokens |
//! | `span`, `reader`, `lists`, `relations`, `values`, `shape` | tokens to answers: value, list, interval, equation |
//! | `choices`, `bound` | letters of choices; names that may differ |
//! | `notation` | notation that looks like a product but is not |
//! | `parser`, `expression`, `sample` | expressions as programs of a stack machine, and the points where they are compared |
//! | `rational`, `ball`, `number` | exact fractions, 512 bits with their error, complex numbers of both |
//! | `compare` | equality of answers |
//! | `work` | the cost limits of a comparison |
//!
//! **Bounds.** Only the last 65,536 bytes after the chain are searched. Some answers are equal only to identical text:
//! those of more than 20,000 bytes, numbers of more than 2,500 digits, lists of more than 200 parts, structure of more
//! than 12 levels (brackets and fractions may have any depth), expressions of more than 100 variables, fractions of
//! more than 10,000 bits, factorials above 1,000!, and comparisons of more than 500,000 work steps (about 10 ms).

use std::borrow::Cow;

use compare::equals;
use extract::Stated;
use lexer::{Commas, tokens};
use markdown::unemphasised;
use shape::Shape;
use span::Tokens;
use token::{Relation, Token};
use work::Work;

mod alone;
mod ball;
mod bound;
mod boxes;
mod characters;
mod choices;
mod compare;
mod expression;
mod extract;
mod lexer;
mod lists;
mod markdown;
mod notation;
mod number;
mod numerals;
mod parser;
mod rational;
mod reader;
mod relations;
mod sample;
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

pub use extract::{answer, comparable};
pub use stated::{first_stating, unstated};

/// An expected answer of at most this many bytes is no solution, unless it marks its answer.
const SHORT: usize = 64;

/// Whether the [`answer`] of a response is the expected one. `gold` is an answer, or a solution that states one like a
/// response. False for a response without an answer.
///
/// ```
/// assert!(asap_verify::verify(r"\frac{1}{2}", r"So the probability is \boxed{0.5}."));
/// assert!(!asap_verify::verify("12", r"Hence \boxed{13}."));
/// ```
pub fn verify(gold: &str, response: &str) -> bool {
    verdict(gold, response) == Verdict::Equal
}

/// The result of a comparison, with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The answers are equal.
    Equal,
    /// The answers differ, or one of them is not understood.
    Different,
    /// One of the answers has two readings. This is a refusal.
    Ambiguous,
    /// The response states no answer.
    Missing,
}

/// Compares the [`answer`] of a response with the expected one, as [`verify`] does.
///
/// ```
/// use asap_verify::{Verdict, verdict};
/// assert_eq!(verdict("x/2", r"\boxed{1/2x}"), Verdict::Ambiguous);
/// assert_eq!(verdict("4", "I do not know."), Verdict::Missing);
/// ```
pub fn verdict(gold: &str, response: &str) -> Verdict {
    let is_solution = gold.len() > SHORT || ["box", "nswer", "####"].iter().any(|mark| gold.contains(mark));
    let gold = if is_solution { extract::said(gold) } else { None }.unwrap_or(Cow::Borrowed(gold));
    match extract::stated(response, true) {
        Stated::Nothing => Verdict::Missing,
        Stated::Ambiguous => Verdict::Ambiguous,
        Stated::Text(found) => compared(&gold, &found),
        Stated::Boxes(boxes) => boxes.compared(&gold),
    }
}

/// Whether two answers are equal, by the rules of [`verify`].
///
/// ```
/// assert!(asap_verify::equal("x = 0.5", r"\frac{1}{2}"));
/// ```
pub fn equal(gold: &str, stated: &str) -> bool {
    compared(gold, stated) == Verdict::Equal
}

fn compared(gold: &str, found: &str) -> Verdict {
    let [gold, found] = [gold, found].map(|text| match text.trim() {
        text if text.starts_with(['*', '_']) => unemphasised(text),
        text => Cow::Borrowed(text),
    });
    if gold == found {
        return if gold.is_empty() { Verdict::Different } else { Verdict::Equal };
    }
    if let Some(verdict) = choices::compare(&gold, &found) {
        return verdict;
    }
    let (Some(expected), Some(stated)) = (tokens(&gold, Commas::Thousands), tokens(&found, Commas::Thousands)) else {
        return Verdict::Different;
    };
    let mut work = Work::new();
    // `100,200` is one number or two.
    let is_equal = means(&expected, &stated, &mut work) || {
        let separate = tokens(&found, Commas::Separate).filter(|separate| *separate != stated);
        separate.is_some_and(|separate| means(&expected, &separate, &mut work))
    };
    match is_equal {
        true => Verdict::Equal,
        false if work.is_doubtful() => Verdict::Ambiguous,
        false => Verdict::Different,
    }
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
        // "k is an integer" may be left out.
        (Some(gold), None) if gold.domain == "Z" => (gold.members.to_vec(), answer.to_vec()),
        (None, Some(answer)) if answer.domain == "Z" => (gold.to_vec(), answer.members.to_vec()),
        _ => return false,
    };
    let (mut gold, mut answer) = (gold, answer);
    bound::rename(&mut gold, &mut answer);
    match (shape(&gold, work), shape(&answer, work)) {
        (Some(gold), Some(answer)) => equals(&gold, &answer, work),
        _ => false,
    }
}

fn shape(tokens: &[Token], work: &mut Work) -> Option<Shape> {
    Some(reader::read(Tokens::new(tokens)?.whole(), work))
}

/// `\frac{\pi}{4} + k\pi, k \in \mathbb{Z}`: members, and the parameter that numbers them.
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

    /// Returns the set of numbers that a condition names. None if it has unknown words.
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
