//! From tokens to what an answer is. Structure nests a few levels at most; expressions within may be of any depth.

use super::expression::{Expression, Op};
use super::parser;
use super::part::{Part, Tokens};
use super::relations;
use super::shape::{Shape, Value};
use super::token::{Bracket, Token};
use super::units;
use super::values;
use super::work::Work;

/// Lists in lists, at most.
const MAX_DEPTH: usize = 12;
/// Parts of a list, at most.
const MAX_PARTS: usize = 200;

/// What an answer is.
pub fn read(part: Part<'_>, work: &mut Work) -> Shape {
    shape(part, MAX_DEPTH, work)
}

/// What a part is, with structure of at most so many levels.
pub fn shape(part: Part<'_>, depth: usize, work: &mut Work) -> Shape {
    let part = without_introduction(part.unwrapped());
    understood(part, depth, work).unwrap_or_else(|| Shape::Opaque(part.tokens().to_vec()))
}

fn understood(part: Part<'_>, depth: usize, work: &mut Work) -> Option<Shape> {
    let depth = depth.checked_sub(1)?;
    work.spend(part.tokens().len() as u64)?;
    if let [Token::Choice(letter), rest @ ..] = part.tokens() {
        return choice(letter, rest.is_empty(), part, depth, work);
    }
    if let [Token::Word(word)] = part.tokens() {
        return Some(Shape::Word(word.clone()));
    }
    if part.tokens() == [Token::EmptySet] {
        return Some(Shape::Set(vec![]));
    }
    let separators = part.find(|token| matches!(token, Token::Comma | Token::Semicolon | Token::And | Token::Or));
    if !separators.is_empty() {
        return list(part, &separators, depth, work);
    }
    if let Some(relation) = relations::relation(part, &|part, work| shape(part, depth, work), work) {
        return relation;
    }
    let unions = part.find(|token| matches!(token, Token::Union));
    if !unions.is_empty() {
        return Some(Shape::Union(parts(part, &unions, depth, work)?));
    }
    values::special(part, work)
        .or_else(|| relations::reals(part, work))
        .or_else(|| bracketed(part, depth, work))
        .or_else(|| value(part, depth, work))
}

/// `The answer is 12`: without the words before it.
fn without_introduction(part: Part<'_>) -> Part<'_> {
    const INTRODUCTIONS: [&str; 6] =
        ["the answer is", "answer", "the final answer is", "final answer", "the answer", "answer is"];
    let mut part = part;
    if let Some(Token::Word(word)) = part.tokens().first()
        && part.tokens().len() > 1
        && INTRODUCTIONS.contains(&word.to_lowercase().as_str())
    {
        let colon = usize::from(part.tokens().get(1) == Some(&Token::Colon));
        part = part.slice(1 + colon, part.tokens().len());
    }
    part.unwrapped()
}

fn choice(letter: &str, alone: bool, part: Part<'_>, depth: usize, work: &mut Work) -> Option<Shape> {
    if alone {
        let mut expression = Expression::default();
        let place = expression.place_of(letter);
        expression.ops.push(Op::Variable(place));
        return Some(Shape::plain(expression));
    }
    let content = Box::new(shape(part.slice(1, part.tokens().len()), depth, work));
    Some(Shape::Labelled { letter: letter.to_string(), content })
}

fn parts(part: Part<'_>, places: &[usize], depth: usize, work: &mut Work) -> Option<Vec<Shape>> {
    if places.len() > MAX_PARTS {
        return None;
    }
    let mut shapes = Vec::new();
    for (number, part) in part.split(places).into_iter().enumerate() {
        if part.tokens().is_empty() {
            // "2, and 5" has nothing between comma and word.
            if number == 0 || number == places.len() {
                return None;
            }
            continue;
        }
        match shape(part, depth, work) {
            Shape::List(inner) => shapes.extend(inner),
            other => shapes.push(other),
        }
    }
    (shapes.len() <= MAX_PARTS).then_some(shapes)
}

/// What stands between commas, "and" and "or".
fn list(part: Part<'_>, places: &[usize], depth: usize, work: &mut Work) -> Option<Shape> {
    let mut shapes = parts(part, places, depth, work)?;
    let either = places.iter().all(|place| part.tokens()[*place] == Token::Or);
    let is_range = |shape: &Shape| matches!(shape, Shape::Interval(_) | Shape::Union(_));
    if either && shapes.iter().all(is_range) {
        return Some(relations::union(shapes));
    }
    if shapes.len() == 1 {
        return shapes.pop();
    }
    Some(relations::named_alike(shapes))
}

/// Tuples, sets, intervals and matrices.
fn bracketed(part: Part<'_>, depth: usize, work: &mut Work) -> Option<Shape> {
    let (opening, inner, closing) = part.within()?;
    match opening {
        Bracket::Matrix => return matrix(inner, depth, work),
        Bracket::Curly => {
            if inner.tokens().is_empty() {
                return Some(Shape::Set(vec![]));
            }
            let places = inner.find(|token| matches!(token, Token::Comma | Token::Semicolon));
            let is_plain = inner.find(|token| matches!(token, Token::Bar | Token::Colon)).is_empty();
            return if is_plain { Some(Shape::Set(parts(inner, &places, depth, work)?)) } else { None };
        }
        Bracket::Round | Bracket::Square | Bracket::Angle => {}
        _ => return None,
    }
    let commas = inner.find(|token| matches!(token, Token::Comma | Token::Semicolon));
    if commas.is_empty() || commas.len() > MAX_PARTS {
        // `\left(\begin{array}…\right)`
        let mut inner = inner;
        while let Some((Bracket::Round | Bracket::Group, within, _)) = inner.within() {
            inner = within;
        }
        return matches!(inner.within()?.0, Bracket::Matrix).then(|| shape(inner, depth, work));
    }
    let square = (opening == Bracket::Square, closing == Bracket::Square);
    let ends = inner.split(&commas);
    if let [low, high] = ends.as_slice()
        && (square.0 || square.1 || [low, high].iter().any(|end| values::infinity(**end).is_some()))
    {
        return relations::interval(*low, *high, square.0, square.1, work).map(Shape::Interval);
    }
    if square.0 != square.1 {
        return None;
    }
    let parts = ends.iter().map(|part| (!part.tokens().is_empty()).then(|| shape(*part, depth, work)));
    Some(Shape::Tuple(parts.collect::<Option<_>>()?))
}

fn matrix(inner: Part<'_>, depth: usize, work: &mut Work) -> Option<Shape> {
    let mut rows = inner.split(&inner.find(|token| *token == Token::Row));
    if rows.last().is_some_and(|row| row.tokens().is_empty()) {
        rows.pop();
    }
    let mut matrix = Vec::new();
    for row in rows {
        let cells = row.split(&row.find(|token| *token == Token::Cell));
        matrix.push(cells.iter().map(|cell| shape(*cell, depth, work)).collect::<Vec<_>>());
    }
    let width = matrix.first()?.len();
    let cells = width * matrix.len();
    (cells <= MAX_PARTS && matrix.iter().all(|row| row.len() == width)).then_some(Shape::Matrix(matrix))
}

/// A number or an expression, with its unit; two for `±`.
fn value(part: Part<'_>, depth: usize, work: &mut Work) -> Option<Shape> {
    let has = |sign: &Token| part.tokens().contains(sign);
    if has(&Token::PlusMinus) || has(&Token::MinusPlus) {
        let both = [true, false].map(|upper| {
            let signed = part.tokens().iter().map(|token| match token {
                Token::PlusMinus if upper => Token::Plus,
                Token::MinusPlus if !upper => Token::Plus,
                Token::PlusMinus | Token::MinusPlus => Token::Minus,
                other => other.clone(),
            });
            let signed: Vec<Token> = signed.collect();
            let tokens = Tokens::new(&signed)?;
            understood(tokens.whole(), depth, work)
        });
        let [upper, lower] = both;
        return Some(Shape::List(vec![upper?, lower?]));
    }
    let (part, mut value) = behind_number(part)?;
    let mut tokens = part.tokens();
    let mut factor = None;
    if let Some(Token::Word(words)) = tokens.last() {
        let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
        factor = Some(units::multiplier(first)?);
        tokens = &tokens[..tokens.len() - 1];
        value.unit = if rest.is_empty() { value.unit } else { Some(units::canonical(rest)?) };
    }
    if let Some(shape) = values::determinant(part, work) {
        return Some(shape);
    }
    value.expression = parser::expression(tokens, work)?;
    if let Some(factor) = factor {
        let factor = Expression::constant(super::rational::Rational::integer(factor));
        value.expression = value.expression.joined(&factor, Op::Multiply);
    }
    Some(Shape::Value(value))
}

/// Takes currency, per cent, degrees and units off a number.
fn behind_number(part: Part<'_>) -> Option<(Part<'_>, Value)> {
    let (mut part, mut value) = (part, Value::default());
    if let [Token::Dollar, ..] | [.., Token::Dollar] = part.tokens() {
        let from = usize::from(part.tokens().first() == Some(&Token::Dollar));
        part = part.slice(from, part.tokens().len() - 1 + from);
        value.unit = Some("dollar".to_string());
    } else if let [Token::Word(sign), Token::Number { .. }, ..] = part.tokens() {
        value.unit = Some(units::canonical(sign)?).filter(|unit| !unit.is_ascii() || unit == "¥");
        value.unit.as_ref()?;
        part = part.slice(1, part.tokens().len());
    }
    let temperature = |letter: &Token| matches!(letter, Token::Letter(name) if name == "C" || name == "F");
    if let [.., Token::Degree, letter] = part.tokens()
        && temperature(letter)
    {
        value.degrees = true;
        return Some((part.slice(0, part.tokens().len() - 2).unwrapped(), value));
    }
    let (rest, unit) = unit(part)?;
    part = rest;
    if unit.is_some() {
        value.unit = unit;
    }
    match part.tokens() {
        [first, .., Token::Percent] if *first != Token::Percent => {
            value.percent = true;
            part = part.slice(0, part.tokens().len() - 1);
        }
        [_, .., Token::Degree] if part.find(|token| *token == Token::Degree).len() == 1 && is_angle(part) => {
            value.degrees = true;
            part = part.slice(0, part.tokens().len() - 1);
        }
        _ => {}
    }
    Some((part.unwrapped(), value))
}

/// Whether degrees at its end belong to all of it, and not to an argument of a function.
fn is_angle(part: Part<'_>) -> bool {
    part.find(|token| matches!(token, Token::Function(_) | Token::Log | Token::Plus | Token::Minus))
        .iter()
        .all(|place| *place == 0 && part.tokens()[0] == Token::Minus)
}

/// The unit behind a number: `\text{cm}^2`, `\text{km}/\text{h}`.
fn unit(part: Part<'_>) -> Option<(Part<'_>, Option<String>)> {
    let tokens = part.tokens();
    let is_word = |token: &Token| matches!(token, Token::Word(_));
    let Some(first) = part.find(is_word).into_iter().find(|place| *place > 0) else { return Some((part, None)) };
    let mut words = String::new();
    for (place, token) in tokens.iter().enumerate().skip(first) {
        match token {
            Token::Word(word) => {
                if !words.is_empty() && !words.ends_with('/') {
                    words.push(' ');
                }
                words.push_str(word);
            }
            Token::Slash => words.push('/'),
            Token::Caret => words.push('^'),
            Token::Number { digits, .. } if matches!(tokens[place - 1], Token::Caret | Token::Open(_)) => {
                words.push_str(digits);
            }
            Token::Open(Bracket::Group) | Token::Close(Bracket::Group) => {}
            _ => return None,
        }
    }
    let rest = part.slice(0, first);
    let (head, tail) = words.split_once(' ').unwrap_or((&words, ""));
    if units::multiplier(head).is_some() {
        // The parser of values multiplies by it.
        let unit = if tail.is_empty() { None } else { Some(units::canonical(tail)?) };
        return Some((part.slice(0, first + 1), unit));
    }
    Some((rest, Some(units::canonical(&words)?)))
}
