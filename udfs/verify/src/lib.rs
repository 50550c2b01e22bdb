//! Extracts the final answer of a response and compares it with the expected one, without computer algebra.
//!
//! Numbers are compared as exact fractions where possible, else to 120 digits with an error bound. Expressions with
//! variables are compared at points derived from both expressions, so every call uses the same points. An ambiguous
//! answer, such as `1/2x` or `\sin{x}^2`, and an unsupported one are equal only to identical text: accepting a wrong
//! answer is worse than refusing a right one. [`verdict`] names the refusals of answers with two readings.
//!
//! | module | holds |
//! |---|---|
//! | `extract`, `boxes`, `alone`, `clauses`, `markdown` | finding the answer in a response |
//! | `stated` | finding the first step of a chain, and the sentences, that state it |
//! | `characters`, `numerals`, `lexer`, `token`, `words`, `units` | LaTeX and Unicode to tokens |
//! | `span`, `reader`, `lists`, `relations`, `values`, `shape` | tokens to answers: value, list, interval, equation |
//! | `asked` | equations that state a value |
//! | `choices`, `bound`, `family` | letters of choices; names that may differ; conditions |
//! | `notation` | notation that looks like a product but is not |
//! | `parser`, `expression` | expressions as programs of a stack machine, and the points where they are compared |
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
use find::extract::Stated;
use find::markdown::unemphasised;
use numbers::work::Work;
use read::characters::unescaped;
use read::family::Family;
use read::lexer::{Reading, tokens};
use read::shape::Shape;
use read::span::Tokens;
use read::token::Token;

mod compare;
mod find;
mod numbers;
mod read;
#[cfg(test)]
mod tests;

pub use find::extract::{answer, comparable};
pub use find::stated::unstated;

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
    let gold = if is_solution { find::extract::said(gold) } else { None }.unwrap_or(Cow::Borrowed(gold));
    let (gold, response) = (unescaped(&gold), unescaped(response));
    match find::extract::stated(&response, true) {
        Stated::Nothing => Verdict::Missing,
        Stated::Ambiguous => Verdict::Ambiguous,
        Stated::Text(found) => judged(&gold, &found),
        Stated::Alone(found) => compared(&gold, &found),
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

/// Compares an answer as [`compared`] does. An equation may state the value of what it names: `m + n = 84`.
fn judged(gold: &str, found: &str) -> Verdict {
    let is_equation = |text: &str| text.contains('=');
    match compared(gold, found) {
        Verdict::Different if is_equation(found) && !is_equation(gold) => {
            find::asked::value(found).map_or(Verdict::Different, |value| compared(gold, value))
        }
        verdict => verdict,
    }
}

fn compared(gold: &str, found: &str) -> Verdict {
    let [gold, found] = [gold, found].map(|text| match text.trim() {
        text if text.starts_with(['*', '_']) => unemphasised(text),
        text => Cow::Borrowed(text),
    });
    if gold == found {
        return if gold.is_empty() { Verdict::Different } else { Verdict::Equal };
    }
    if let Some(verdict) = find::choices::compare(&gold, &found) {
        return verdict;
    }
    let (Some(expected), Some(stated)) = (tokens(&gold, Reading::Usual), tokens(&found, Reading::Usual)) else {
        return Verdict::Different;
    };
    let mut work = Work::new();
    // `100,200` is one number or two. The `e` of `2e-1` is ten if nothing expects Euler's number.
    let readings = [
        (found.contains(','), Reading::Commas),
        ((found.contains("e-") || found.contains("e+")) && !expected.contains(&Token::E), Reading::Powers),
    ];
    let is_equal = means(&expected, &stated, &mut work)
        || readings.into_iter().filter(|(is_possible, _)| *is_possible).any(|(_, reading)| {
            let other = tokens(&found, reading).filter(|other| *other != stated);
            other.is_some_and(|other| means(&expected, &other, &mut work))
        });
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
    let (of_gold, of_answer) = (Family::of(gold), Family::of(answer));
    let (gold, answer) = match (&of_gold, &of_answer) {
        (None, None) => (gold.to_vec(), answer.to_vec()),
        (Some(gold), Some(answer)) if gold.domain == answer.domain => (gold.renamed(), answer.renamed()),
        // "k is an integer" may be left out, and "for all n" may be added.
        (Some(gold), None) if gold.domain == "Z" => (gold.members.to_vec(), answer.to_vec()),
        (None, Some(answer)) if answer.domain == "Z" || answer.is_for_all => (gold.to_vec(), answer.members.to_vec()),
        _ => return false,
    };
    if [&gold, &answer].iter().any(|tokens| tokens.iter().any(|token| matches!(token, Token::Opaque(_)))) {
        return false;
    }
    let (mut gold, mut answer) = (gold, answer);
    read::bound::rename(&mut gold, &mut answer);
    match (shape(&gold, work), shape(&answer, work)) {
        (Some(gold), Some(answer)) => equals(&gold, &answer, work),
        _ => false,
    }
}

fn shape(tokens: &[Token], work: &mut Work) -> Option<Shape> {
    Some(read::reader::read(Tokens::new(tokens)?.whole(), work))
}
