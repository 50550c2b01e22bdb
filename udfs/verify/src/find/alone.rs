//! Responses that are nothing but the answer: a value, an equation, or a sentence that ends in an equation.

use crate::equal;
use crate::find::choices;
use crate::numbers::expression::Function;
use crate::numbers::work::Work;
use crate::read::lexer::{Reading, tokens};
use crate::read::shape::{Quantity, Shape};
use crate::read::span::Tokens;
use crate::read::{reader, units, words};

/// The maximum bytes of such an answer.
pub(crate) const LONGEST: usize = 200;
/// Words of which one makes an equation doubtful, or its sides something else than the answer.
const DOUBTS: &str = include_str!("../read/words/doubts.txt");
/// Words that end the beginning of "The total is 3 + 4 = 7".
const LEADS: &str = include_str!("../read/words/leads.txt");
/// Answers of several words.
const IN_WORDS: &str = "no solution|no solutions|no real solution|no real solutions|infinitely many|infinitely many solutions|does not exist";
/// What may be before a conclusion.
const SO: &str = include_str!("../read/words/so.txt");
const SHORT: &str = "is it we so if to of be an as at by he me my us do go up am oh";

/// Whether a line is a value, and not prose.
pub(crate) fn is_value(line: &str) -> bool {
    let line = line.trim();
    if line.is_empty() || line.len() > LONGEST || line.starts_with("- ") {
        return false;
    }
    let words: Vec<&str> = line.split(' ').collect();
    let are_words = words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic()));
    let are_names = words.len() <= 3 && words.iter().all(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
    match are_words {
        true => {
            words.len() == 1
                || choices::are_several(line)
                || IN_WORDS.split('|').any(|answer| answer.eq_ignore_ascii_case(line))
                || are_names && !["I", "We", "It"].contains(&words[0])
        }
        false => {
            choices::lone(line).or(choices::lettered(line).map(|(letter, _)| letter)).is_some()
                || is_understood(line, is_prose(line))
        }
    }
}

fn is_understood(text: &str, is_prose: bool) -> bool {
    let Some(tokens) = tokens(text, Reading::Usual) else { return false };
    let Some(tokens) = Tokens::new(&tokens) else { return false };
    match reader::read(tokens.whole(), &mut Work::new()) {
        Shape::Opaque(_) | Shape::Word(_) => false,
        // "12 red apples" are words, but no prose.
        Shape::Value(Quantity { unit, percent, .. }) if is_prose => {
            let is_number = text.starts_with(|c: char| c.is_ascii_digit() || "-.$\\".contains(c) || !c.is_ascii());
            is_number && (percent || unit.is_some_and(|unit| unit.optional))
        }
        _ => !is_prose,
    }
}

/// Whether a text has words outside of commands that are neither functions nor units.
pub(crate) fn is_prose(text: &str) -> bool {
    let lists = |words: &str, word: &str| words.split_whitespace().any(|of| of == word);
    let mut before = ' ';
    text.split_inclusive(|c: char| !c.is_ascii_alphabetic()).any(|run| {
        let word = run.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        let is_command = before == '\\';
        before = run.chars().next_back().unwrap_or(' ');
        let lower = word.to_lowercase();
        !is_command
            && word.len() > 1
            && (word.len() > 2 || lists(SHORT, &lower))
            && Function::named(word).is_none()
            && !units::is_phrase(word)
            && !lists("log sqrt pi inf infty mod and or percent per cent degrees degree text mathrm infinity", &lower)
    })
}

/// Returns what a text states that is nothing but its answer.
pub(crate) fn stated(text: &str) -> Option<&str> {
    let text = text.trim();
    let line = if text.ends_with("..") { text } else { text.trim_end_matches(['.', '。']).trim_end() };
    let marks = [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("`", "`")];
    let formula = marks.iter().find_map(|(opening, closing)| line.strip_prefix(opening)?.strip_suffix(closing));
    let is_one = |formula: &&str| {
        let signs = formula.matches('$').count() - formula.matches("\\$").count();
        signs == 0 && !["\\)", "\\]", "`"].iter().any(|closing| formula.contains(closing))
    };
    if let Some(formula) = formula.filter(is_one) {
        let formula = formula.trim().trim_end_matches('.');
        let is_one = formula.len() <= LONGEST && is_understood(formula, false) || last_side(formula).is_some();
        return if is_one { Some(formula) } else { concluded(formula) };
    }
    if line.contains(['\n', '\r']) || line.len() > LONGEST || text.contains("~~") {
        return None;
    }
    let is_word = line.chars().all(char::is_alphabetic) && !line.is_ascii();
    concluded(line).or_else(|| (is_word || is_value(line) || last_side(line).is_some()).then_some(line))
}

/// Returns the last side of an equation of equal sides without names: 7 of `3 + 4 = 7`.
pub(crate) fn last_side(equation: &str) -> Option<&str> {
    let (left, right) =
        equation.rsplit_once('=').filter(|(left, _)| equation.len() <= LONGEST && left.matches('=').count() < 4)?;
    let holds = |side: &str| {
        // `5 x 8 = 40` holds as a product only.
        let product = side.replace(" x ", " * ");
        side.trim() != right.trim() && is_value(&product) && equal(&product, right)
    };
    (is_value(right) && left.split('=').all(holds)).then(|| right.trim())
}

/// Returns the equation that ends a sentence: "The total is 3 + 4 = 7" states `3 + 4 = 7`, "Total = 7" states `7`.
fn concluded(line: &str) -> Option<&str> {
    if !line.contains('=') || line.len() > LONGEST || line.contains(['?', '？']) || words::says(line, DOUBTS) {
        return None;
    }
    let after = SO.lines().fold(line, |line, so| line.rsplit(so).next().unwrap_or(line)).trim_start();
    let (is_after, line) = (after.len() < line.len(), after.trim_start_matches(['，', ',', '、', ' ', '$']));
    let is_word = |word: &str| {
        let word = word.trim_end_matches([',', ':']);
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphabetic())
            && (word.len() > 1 || ["I", "a"].contains(&word))
            && Function::named(word).is_none()
    };
    let (mut from, mut last) = (0, "");
    let mut words = line.split_inclusive(' ').map(str::trim_end).peekable();
    while let Some(word) = words.next() {
        // The x of "the value of x is".
        let is_name = word.len() == 1 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
        if !(is_word(word) || is_name && words.peek().is_some_and(|next| is_word(next))) {
            break;
        }
        (from, last) = (line.len().min(from + word.len() + 1), word);
    }
    let equation = line[from..].trim_matches(['$', ' ']).trim_start_matches("\\(").trim_end_matches("\\)").trim();
    let right = equation.strip_prefix('=').map(str::trim);
    let leads = LEADS.lines().any(|lead| last.eq_ignore_ascii_case(lead));
    let is_led = is_after && from == 0 || leads || last.ends_with([':', ',']) || right.is_some();
    let stated = right.unwrap_or(equation);
    (is_led && (is_value(stated) && (right.is_some() || stated.contains('=')) || last_side(stated).is_some()))
        .then_some(stated)
}
