//! Converts tokens to a [`Shape`]. Structure has at most a few levels; expressions inside may have any depth.

use crate::numbers::expression::{Expression, Op};
use crate::numbers::work::Work;
use crate::read::lists::{self, MAX_PARTS};
use crate::read::relations::{self, Reader};
use crate::read::shape::{Quantity, Shape};
use crate::read::span::{Span, Tokens};
use crate::read::token::{Bracket, Token};
use crate::read::units::{self, Unit};
use crate::read::{parser, values, words};

const MAX_DEPTH: usize = 12;

pub(crate) fn read(span: Span<'_>, work: &mut Work) -> Shape {
    shape(span, MAX_DEPTH, work)
}

pub(crate) fn shape(span: Span<'_>, depth: usize, work: &mut Work) -> Shape {
    let span = without_introduction(span.unwrapped());
    understood(span, depth, work).unwrap_or_else(|| Shape::Opaque(span.tokens().to_vec()))
}

fn understood(span: Span<'_>, depth: usize, work: &mut Work) -> Option<Shape> {
    let depth = depth.checked_sub(1)?;
    work.spend(span.tokens().len() as u64)?;
    if span.tokens().contains(&Token::MinusPlus) {
        // Upper signs go with upper signs and lower with lower, in the whole answer.
        return relations::named_alike(both_signs(span, depth, work)?, false);
    }
    if let [Token::Choice(letter), rest @ ..] = span.tokens()
        && !rest.first().is_some_and(lists::separates)
        && !rest.iter().any(|token| matches!(token, Token::Choice(_)))
    {
        return choice(letter, rest.is_empty(), span, depth, work);
    }
    let read = |span: Span<'_>, work: &mut Work| shape(span, depth, work);
    // `{x | x > 2}` without backslashes.
    if !span.find(relations::describes).is_empty()
        && let Some(set) = relations::described(span, &read, work)
    {
        return Some(set);
    }
    if let [Token::Word(word)] = span.tokens() {
        return Some(Shape::Word(word.clone()));
    }
    if span.tokens() == [Token::EmptySet] {
        return Some(Shape::Set(vec![]));
    }
    let separators = span.find(lists::separates);
    if !separators.is_empty() {
        return lists::list(span, &separators, &read, work);
    }
    if let Some(relation) = relations::relation(span, &read, work) {
        return relation;
    }
    let unions = span.find(|token| matches!(token, Token::Union));
    if !unions.is_empty() {
        return lists::flat(&span.split(&unions), &read, work).map(Shape::Union);
    }
    values::special(span, work)
        .or_else(|| relations::reals(span, work))
        .or_else(|| bracketed(span, &read, work))
        .or_else(|| value(span, depth, work))
}

fn without_introduction(span: Span<'_>) -> Span<'_> {
    const INTRODUCTIONS: [&str; 7] =
        ["ans", "the answer is", "answer", "the final answer is", "final answer", "the answer", "answer is"];
    let mut span = span;
    if let Some(Token::Word(word)) = span.tokens().first()
        && span.tokens().len() > 1
        && INTRODUCTIONS.contains(&word.to_lowercase().as_str())
    {
        let colon = usize::from(span.tokens().get(1) == Some(&Token::Colon));
        span = span.slice(1 + colon, span.tokens().len());
    }
    span.unwrapped()
}

fn choice(letter: &str, alone: bool, span: Span<'_>, depth: usize, work: &mut Work) -> Option<Shape> {
    if alone {
        let mut expression = Expression::default();
        let place = expression.place_of(letter);
        expression.ops.push(Op::Variable(place));
        return Some(Shape::plain(expression));
    }
    match shape(span.slice(1, span.tokens().len()), depth, work) {
        Shape::Word(words) if words::deny(&words) => None,
        Shape::Opaque(_) => None,
        content => Some(Shape::Labelled { letter: letter.to_string(), content: Box::new(content) }),
    }
}

fn bracketed(span: Span<'_>, read: Reader<'_>, work: &mut Work) -> Option<Shape> {
    let (opening, inner, closing) = span.within()?;
    match opening {
        Bracket::Matrix => return matrix(inner, read, work),
        Bracket::Curly if inner.tokens().is_empty() => return Some(Shape::Set(vec![])),
        Bracket::Curly if !inner.find(relations::describes).is_empty() => {
            return relations::described(inner, read, work);
        }
        Bracket::Curly | Bracket::Round | Bracket::Square | Bracket::Angle => {}
        _ => return None,
    }
    let commas = inner.find(|token| matches!(token, Token::Comma | Token::Semicolon));
    if opening == Bracket::Curly {
        return lists::flat(&inner.split(&commas), read, work).map(Shape::Set);
    }
    if commas.is_empty() || commas.len() > MAX_PARTS {
        // `\left(\begin{array}…\right)`
        let mut inner = inner;
        while let Some((Bracket::Round | Bracket::Group, within, _)) = inner.within() {
            inner = within;
        }
        return matches!(inner.within()?.0, Bracket::Matrix).then(|| read(inner, work));
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
    let parts = ends.iter().map(|span| (!span.tokens().is_empty()).then(|| read(*span, work)));
    Some(Shape::Tuple(parts.collect::<Option<_>>()?))
}

fn matrix(inner: Span<'_>, read: Reader<'_>, work: &mut Work) -> Option<Shape> {
    let mut rows = inner.split(&inner.find(|token| *token == Token::Row));
    if rows.last().is_some_and(|row| row.tokens().is_empty()) {
        rows.pop();
    }
    let mut matrix = Vec::new();
    for row in rows {
        let cells = row.split(&row.find(|token| *token == Token::Cell));
        matrix.push(cells.iter().map(|cell| read(*cell, work)).collect::<Vec<_>>());
    }
    let width = matrix.first()?.len();
    let cells = width * matrix.len();
    if cells == 1 {
        return matrix.pop()?.pop();
    }
    (cells <= MAX_PARTS && matrix.iter().all(|row| row.len() == width)).then_some(Shape::Matrix(matrix))
}

fn value(span: Span<'_>, depth: usize, work: &mut Work) -> Option<Shape> {
    if span.tokens().contains(&Token::PlusMinus) {
        return Some(Shape::List(both_signs(span, depth, work)?));
    }
    // `[2.5]` may be 2.
    if matches!(span.within(), Some((Bracket::Square, ..))) {
        return None;
    }
    let (span, mut value) = without_unit(span)?;
    let mut tokens = span.tokens();
    let mut factor = None;
    if let Some(Token::Word(words)) = tokens.last() {
        let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
        factor = Some(units::multiplier(first)?);
        tokens = &tokens[..tokens.len() - 1];
        value.unit = if rest.is_empty() { value.unit } else { Some(units::canonical(rest)?) };
    }
    if let Some(shape) = values::determinant(span, work) {
        return Some(shape);
    }
    value.expression = parser::expression(tokens, work)?;
    if let Some(factor) = factor {
        let factor = Expression::constant(crate::numbers::rational::Rational::integer(factor));
        value.expression = value.expression.joined(&factor, Op::Multiply);
    }
    Some(Shape::Value(value))
}

fn both_signs(span: Span<'_>, depth: usize, work: &mut Work) -> Option<Vec<Shape>> {
    let mut with = |upper: bool| {
        let signed = span.tokens().iter().map(|token| match token {
            Token::PlusMinus if upper => Token::Plus,
            Token::MinusPlus if !upper => Token::Plus,
            Token::PlusMinus | Token::MinusPlus => Token::Minus,
            other => other.clone(),
        });
        let signed: Vec<Token> = signed.collect();
        let tokens = Tokens::new(&signed)?;
        understood(tokens.whole(), depth, work)
    };
    Some(vec![with(true)?, with(false)?])
}

fn without_unit(span: Span<'_>) -> Option<(Span<'_>, Quantity)> {
    let (mut span, mut value) = (span, Quantity::default());
    if let [Token::Dollar, ..] | [.., Token::Dollar] = span.tokens() {
        let from = usize::from(span.tokens().first() == Some(&Token::Dollar));
        span = span.slice(from, span.tokens().len() - 1 + from);
        value.unit = units::canonical("dollar");
    } else if let [Token::Word(sign), next, ..] = span.tokens()
        && (sign.starts_with(units::is_currency) || matches!(next, Token::Number { .. }))
    {
        value.unit = Some(units::canonical(sign).filter(|_| !sign.is_ascii())?);
        span = span.slice(1, span.tokens().len());
    }
    if let [.., Token::Degree, Token::Letter(scale)] = span.tokens()
        && let Some(name) =
            [("C", "celsius"), ("F", "fahrenheit")].iter().find_map(|(of, name)| (of == scale).then_some(name))
    {
        value.unit = units::canonical(name);
        return Some((span.slice(0, span.tokens().len() - 2).unwrapped(), value));
    }
    let (rest, unit) = unit(span)?;
    span = rest;
    if unit.is_some() {
        value.unit = unit;
    }
    match span.tokens() {
        [first, .., Token::Percent] if *first != Token::Percent => {
            value.percent = true;
            span = span.slice(0, span.tokens().len() - 1);
        }
        [_, .., Token::Degree] if span.find(|token| *token == Token::Degree).len() == 1 && is_angle(span) => {
            value.degrees = true;
            span = span.slice(0, span.tokens().len() - 1);
        }
        _ => {}
    }
    Some((span.unwrapped(), value))
}

/// Whether degrees at the end belong to the whole span, and not to an argument of a function.
fn is_angle(span: Span<'_>) -> bool {
    span.find(|token| matches!(token, Token::Function(_) | Token::Log | Token::Plus | Token::Minus))
        .iter()
        .all(|place| *place == 0 && span.tokens()[0] == Token::Minus)
}

fn unit(span: Span<'_>) -> Option<(Span<'_>, Option<Unit>)> {
    let tokens = span.tokens();
    let is_word = |token: &Token| matches!(token, Token::Word(_));
    let Some(first) = span.find(is_word).into_iter().find(|place| *place > 0) else { return Some((span, None)) };
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
    let rest = span.slice(0, first);
    let (head, tail) = words.split_once(' ').unwrap_or((&words, ""));
    if units::multiplier(head).is_some() {
        // The parser of values multiplies by it.
        let unit = if tail.is_empty() { None } else { Some(units::canonical(tail)?) };
        return Some((span.slice(0, first + 1), unit));
    }
    Some((rest, Some(units::canonical(&words)?)))
}
