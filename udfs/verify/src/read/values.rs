//! Special numbers: infinity, numbers in a base, ordinals, times, ratios, residues, determinants.

use crate::numbers::expression::{Expression, Op};
use crate::numbers::work::Work;
use crate::read::parser;
use crate::read::shape::{Quantity, Shape};
use crate::read::span::Span;
use crate::read::token::{Bracket, Token};
use crate::read::units::Unit;

pub(crate) fn infinity(span: Span<'_>) -> Option<bool> {
    match span.unwrapped().tokens() {
        [Token::Infinity] | [Token::Plus, Token::Infinity] => Some(false),
        [Token::Minus, Token::Infinity] => Some(true),
        _ => None,
    }
}

pub(crate) fn expression(span: Span<'_>, work: &mut Work) -> Option<Expression> {
    parser::expression(span.unwrapped().tokens(), work)
}

pub(crate) fn special(span: Span<'_>, work: &mut Work) -> Option<Shape> {
    if let Some(negative) = infinity(span) {
        return Some(Shape::Infinity { negative });
    }
    based(span.tokens())
        .or_else(|| ordinal(span, work))
        .or_else(|| clock(span))
        .or_else(|| ratio(span, work))
        .or_else(|| congruence(None, span, work))
}

fn ordinal(span: Span<'_>, work: &mut Work) -> Option<Shape> {
    let (number, end) = match span.tokens() {
        [number, Token::Caret, Token::Open(Bracket::Group), end @ .., Token::Close(Bracket::Group)] => (number, end),
        [number, Token::Caret, end @ ..] | [number, end @ ..] => (number, end),
        [] => return None,
    };
    let end = match end {
        [Token::Word(end)] => end.as_str(),
        [Token::Letter(t), Token::Letter(h)] if t == "t" && h == "h" => "th",
        _ => return None,
    };
    let digits = number.whole()?;
    let is_teen = digits.len() > 1 && digits[digits.len() - 2..].starts_with('1');
    let expected = match digits.bytes().last()? {
        b'1' if !is_teen => "st",
        b'2' if !is_teen => "nd",
        b'3' if !is_teen => "rd",
        _ => "th",
    };
    if end != expected {
        return None;
    }
    let unit = Unit { name: "th".to_string(), optional: false, is_foreign: false };
    let expression = expression(span.slice(0, 1), work)?;
    Some(Shape::Value(Quantity { expression, unit: Some(unit), ..Quantity::default() }))
}

fn based(tokens: &[Token]) -> Option<Shape> {
    const NAMES: &str = "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen";
    let (number, base) = match tokens {
        [number @ .., Token::Letter(last)] => {
            let (letter, base) = last.split_once('_')?;
            let base = base.trim_matches(['{', '}']);
            if !matches!(number, [Token::Number { .. }, ..]) || base.parse::<u8>().ok()? < 11 {
                return None;
            }
            let digits = digits(number)? + letter;
            return Some(Shape::Based { digits: digits.trim_start_matches('0').to_string(), base: base.to_string() });
        }
        [number @ .., Token::Under, base] => (number, base),
        [number @ .., Token::Under, Token::Open(Bracket::Group), base, Token::Close(Bracket::Group)] => (number, base),
        _ => return None,
    };
    let base = match base {
        Token::Word(word) => {
            let word = word.to_lowercase();
            (2 + NAMES.split(' ').position(|name| name == word)?).to_string()
        }
        base => base.whole()?.to_string(),
    };
    let number = match number {
        [Token::Open(_), inner @ .., Token::Close(_)] => inner,
        number => number,
    };
    Some(Shape::Based { digits: digits(number)?.trim_start_matches('0').to_string(), base })
}

fn digits(tokens: &[Token]) -> Option<String> {
    let mut digits = String::new();
    for token in tokens {
        match token {
            Token::Letter(letter) if letter.len() == 1 && letter.as_str() < "G" => digits.push_str(letter),
            token => digits.push_str(token.whole()?),
        }
    }
    (!digits.is_empty()).then_some(digits)
}

fn clock(span: Span<'_>) -> Option<Shape> {
    let (hours, minutes, half) = match span.tokens() {
        [hours, Token::Colon, minutes] => (hours, minutes, ""),
        [hours, Token::Colon, minutes, Token::Word(half)] => (hours, minutes, half.as_str()),
        _ => return None,
    };
    let (hours, minutes) = (hours.whole()?, minutes.whole()?);
    if hours.len() > 2 || minutes.len() != 2 || minutes > "59" {
        return None;
    }
    let half: String = half.to_lowercase().chars().filter(char::is_ascii_alphabetic).collect();
    let clock = format!("{}:{minutes}", hours.trim_start_matches('0'));
    ["", "am", "pm"].contains(&half.as_str()).then_some(Shape::Time { clock, half })
}

fn ratio(span: Span<'_>, work: &mut Work) -> Option<Shape> {
    let colons = span.find(|token| *token == Token::Colon);
    if colons.is_empty() || colons.len() > 9 {
        return None;
    }
    let parts = span.split(&colons);
    Some(Shape::Ratio(parts.into_iter().map(|span| expression(span, work)).collect::<Option<_>>()?))
}

pub(crate) fn congruence(name: Option<String>, span: Span<'_>, work: &mut Work) -> Option<Shape> {
    let tokens = span.tokens();
    let (value, modulus) = match span.find(|token| *token == Token::Modulo).as_slice() {
        [place] => (span.slice(0, *place), span.slice(place + 1, tokens.len())),
        _ => {
            let open = tokens.iter().position(|token| *token == Token::Open(Bracket::Round))?;
            if span.after_closing(open) != tokens.len() || tokens.get(open + 1) != Some(&Token::Modulo) {
                return None;
            }
            (span.slice(0, open), span.slice(open + 2, tokens.len() - 1))
        }
    };
    let (value, modulus) = (expression(value, work)?, expression(modulus, work)?);
    (value.is_constant() && modulus.is_constant()).then_some(Shape::Congruence { name, value, modulus })
}

pub(crate) fn determinant(span: Span<'_>, work: &mut Work) -> Option<Shape> {
    let (Bracket::Determinant, inner, _) = span.within()? else { return None };
    let rows = inner.split(&inner.find(|token| *token == Token::Row));
    let mut cells = Vec::new();
    for row in rows.iter().filter(|row| !row.tokens().is_empty()) {
        let parts = row.split(&row.find(|token| *token == Token::Cell));
        if parts.len() != 2 {
            return None;
        }
        for span in parts {
            cells.push(expression(span, work)?);
        }
    }
    let [a, b, c, d] = cells.as_slice() else { return None };
    let products = (a.joined(d, Op::Multiply), b.joined(c, Op::Multiply));
    Some(Shape::plain(products.0.joined(&products.1, Op::Subtract)))
}
