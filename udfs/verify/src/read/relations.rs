//! Equations, inequalities, memberships and residues.

use crate::numbers::expression::{Expression, Op};
use crate::numbers::work::Work;
use crate::read::shape::{Interval, Shape};
use crate::read::span::Span;
use crate::read::token::{Bracket, Relation, Token};
use crate::read::values::{congruence, expression, infinity};
use crate::read::words;

/// Words that make another quantity of the one that they name.
const MULTIPLES: &str =
    "half\ntwice\nthrice\ndouble\ntriple\nthird of\nquarter of\ntimes\nsquare of\nreciprocal\nopposite\nnegative";

pub(crate) type Reader<'r> = &'r dyn Fn(Span<'_>, &mut Work) -> Shape;

/// Reads a span with relations. None if it has no relation, `Some(None)` if it is not understood.
pub(crate) fn relation(span: Span<'_>, read: Reader<'_>, work: &mut Work) -> Option<Option<Shape>> {
    let places = span.find(|token| matches!(token, Token::Relation(_)));
    let kinds: Vec<Relation> = places
        .iter()
        .filter_map(|place| match span.tokens()[*place] {
            Token::Relation(kind) => Some(kind),
            _ => None,
        })
        .collect();
    let sides = span.split(&places);
    Some(match kinds.as_slice() {
        [] => return None,
        [Relation::Approximately] if sides[0].tokens().is_empty() => Some(read(sides[1], work)),
        [.., Relation::Approximately] if !sides[kinds.len()].tokens().is_empty() => {
            Some(read(span.slice(0, places[kinds.len() - 1]), work))
        }
        [Relation::Congruent] => named(sides[0]).and_then(|name| congruence(Some(name), sides[1], work)),
        [Relation::In] => membership(sides[0], sides[1], read, work),
        [Relation::NotEqual] => excluded(sides[0], sides[1], work),
        kinds if kinds.iter().all(|kind| *kind == Relation::Equal) => equation(&sides, read, work),
        kinds => inequality(&sides, kinds, work),
    })
}

fn named(span: Span<'_>) -> Option<String> {
    let span = span.unwrapped();
    match span.tokens() {
        [Token::Letter(name)] => return Some(name.clone()),
        [Token::E] => return Some("e".to_string()),
        [Token::I] => return Some("i".to_string()),
        [Token::Letter(name), Token::Open(Bracket::Round), ..] if span.after_closing(1) == span.tokens().len() => {
            let inner = &span.tokens()[2..span.tokens().len() - 1];
            let number = inner.first().filter(|_| inner.len() == 1).and_then(Token::whole);
            let of = number.map(str::to_string).or_else(|| letters(inner, false));
            return of.map(|of| format!("{name}({of})"));
        }
        [Token::Open(Bracket::Round), inner @ .., Token::Close(Bracket::Round)] => {
            return letters(inner, false).map(|of| format!("({of})"));
        }
        _ => {}
    }
    letters(span.tokens(), true)
}

fn letters(tokens: &[Token], capital: bool) -> Option<String> {
    let mut name = String::new();
    for token in tokens {
        match token {
            Token::Letter(letter) if !capital || letter.starts_with(|c: char| c.is_ascii_uppercase()) => {
                name.push_str(letter);
            }
            Token::Word(word) if capital && !words::deny(word) && !words::says(word, MULTIPLES) => {
                name.push_str(&word.to_lowercase())
            }
            Token::Comma if !capital => name.push(','),
            _ => return None,
        }
    }
    (!name.is_empty()).then_some(name)
}

/// Returns left minus right. None if that is constant: `1 < 2` and `3 < 7` are both true, but not the same.
fn difference(left: Span<'_>, right: Span<'_>, work: &mut Work) -> Option<Expression> {
    let difference = expression(left, work)?.joined(&expression(right, work)?, Op::Subtract);
    (!difference.is_constant()).then_some(difference)
}

fn equation(sides: &[Span<'_>], read: Reader<'_>, work: &mut Work) -> Option<Shape> {
    let (first, last) = (*sides.first()?, *sides.last()?);
    if sides.iter().any(|side| side.tokens().is_empty()) || sides.len() > 8 {
        return None;
    }
    let name = named(first);
    let [left, right] = sides else {
        let value = read(last, work);
        // `x = 3 + 4 = 7`: the sides between must be equal to the last one.
        for side in &sides[1..sides.len() - 1] {
            let between = read(*side, work);
            if !between.as_plain()?.equals(amount(&value)?, work) {
                return None;
            }
        }
        return Some(Shape::Definition { name: name?, value: Box::new(value), difference: None });
    };
    let both = difference(*left, *right, work);
    // `x = y` defines neither.
    let is_letter = |span: Span<'_>| matches!(span.tokens(), [Token::Letter(_)]);
    if is_letter(*left) && is_letter(*right) {
        return both.map(Shape::Equation);
    }
    if let Some(name) = name {
        return Some(Shape::Definition { name, value: Box::new(read(*right, work)), difference: both });
    }
    match (named(*right), expression(*left, work)) {
        (Some(name), Some(left)) if left.is_constant() => {
            Some(Shape::Definition { name, value: Box::new(Shape::plain(left)), difference: both })
        }
        _ => both.map(Shape::Equation),
    }
}

fn amount(value: &Shape) -> Option<&Expression> {
    match value {
        Shape::Value(value) if !value.percent && !value.degrees => Some(&value.expression),
        _ => None,
    }
}

pub(crate) fn describes(token: &Token) -> bool {
    matches!(token, Token::Bar | Token::Colon | Token::SuchThat)
}

/// Reads a set by the description of its elements: `\{x \mid 2 \le x < 5\}`.
pub(crate) fn described(inner: Span<'_>, read: Reader<'_>, work: &mut Work) -> Option<Shape> {
    let [place] = inner.find(describes)[..] else { return None };
    let (element, condition) = (inner.slice(0, place), inner.slice(place + 1, inner.tokens().len()));
    let is_real = |span: &Span<'_>| {
        matches!(span.tokens(),
            [_, Token::Relation(Relation::In), Token::Domain(of) | Token::Letter(of)] if of == "R")
    };
    let name = named(if is_real(&element) { element.slice(0, 1) } else { element })?;
    let conditions = condition.split(&condition.find(|token| matches!(token, Token::Comma | Token::And)));
    let is_of = |span: &Span<'_>| named(span.slice(0, 1.min(span.tokens().len()))).as_ref() == Some(&name);
    let kept: Vec<Span<'_>> = conditions.into_iter().filter(|span| !(is_real(span) && is_of(span))).collect();
    let condition = match kept.as_slice() {
        [] => return Some(Shape::Interval(Interval::default())),
        [condition] => *condition,
        [first, second] => {
            return match within_both(&[read(*first, work), read(*second, work)], work)? {
                range if range.name.as_ref() == Some(&name) => Some(Shape::Interval(Interval { name: None, ..range })),
                _ => None,
            };
        }
        _ => return None,
    };
    let is_member = is_of(&condition) && condition.tokens().get(1) == Some(&Token::Relation(Relation::In));
    let unnamed = |shape: Shape| match shape {
        Shape::Interval(interval)
            if interval.name.as_ref() == Some(&name) || (is_member && interval.name.is_none()) =>
        {
            Some(Shape::Interval(Interval { name: None, ..interval }))
        }
        _ => None,
    };
    match read(condition, work) {
        Shape::Union(ranges) => ranges.into_iter().map(unnamed).collect::<Option<_>>().map(Shape::Union),
        // `x = 1 and x = 2` holds for no number.
        Shape::Definition { .. } if condition.tokens().contains(&Token::And) => None,
        Shape::Definition { name: of, value, .. } if of == name => match *value {
            Shape::List(values) => Some(Shape::Set(values)),
            value => Some(Shape::Set(vec![value])),
        },
        range => unnamed(range),
    }
}

/// Returns the interval of `x > 1 and x < 5`. None if no number is in both ranges.
pub(crate) fn within_both(ranges: &[Shape], work: &mut Work) -> Option<Interval> {
    let [Shape::Interval(one), Shape::Interval(other)] = ranges else { return None };
    let (above, below) = if one.low.is_some() { (one, other) } else { (other, one) };
    let Interval { low: Some(low), high: None, .. } = above else { return None };
    let Interval { low: None, high: Some(high), .. } = below else { return None };
    let width = high.joined(low, Op::Subtract).constant_value(work)?;
    let is_wide = width.is_nonzero() && width.real()?.is_negative() == Some(false);
    (one.name == other.name && one.name.is_some() && is_wide).then(|| Interval {
        high: below.high.clone(),
        high_closed: below.high_closed,
        ..above.clone()
    })
}

fn membership(element: Span<'_>, of: Span<'_>, read: Reader<'_>, work: &mut Work) -> Option<Shape> {
    let name = named(element)?;
    let range = match of.tokens() {
        [Token::Domain(domain)] if domain == "R" => Some(Interval::default()),
        [Token::Domain(_)] => None,
        _ => match read(of, work) {
            Shape::Interval(interval) => Some(interval),
            Shape::Tuple(ends) => Interval::open(&ends),
            shape @ (Shape::Set(_) | Shape::Union(_)) => return Some(shape),
            _ => None,
        },
    };
    range.map(|range| Shape::Interval(Interval { name: Some(name), ..range }))
}

pub(crate) fn reals(span: Span<'_>, work: &mut Work) -> Option<Shape> {
    match span.tokens() {
        [Token::Domain(domain)] if domain == "R" => Some(Shape::Interval(Interval::default())),
        [Token::Domain(domain), Token::Without, ..] if domain == "R" => {
            let (Bracket::Curly, inner, _) = span.slice(2, span.tokens().len()).within()? else { return None };
            Some(rays(expression(inner, work)?, None))
        }
        _ => None,
    }
}

fn excluded(left: Span<'_>, right: Span<'_>, work: &mut Work) -> Option<Shape> {
    let end = expression(right, work)?;
    end.is_constant().then_some(rays(end, Some(named(left)?)))
}

fn rays(end: Expression, name: Option<String>) -> Shape {
    let ray = |low, high| Shape::Interval(Interval { name: name.clone(), low, high, ..Interval::default() });
    Shape::Union(vec![ray(None, Some(end.clone())), ray(Some(end), None)])
}

pub(crate) fn interval(
    low: Span<'_>,
    high: Span<'_>,
    low_closed: bool,
    high_closed: bool,
    work: &mut Work,
) -> Option<Interval> {
    let (low, high) = (end(low, true, work)?, end(high, false, work)?);
    let (low_closed, high_closed) = (low_closed && low.is_some(), high_closed && high.is_some());
    Some(Interval { name: None, low, high, low_closed, high_closed })
}

/// Reads an end of a range: `Some(None)` for the infinity of its side. None if it is not understood.
fn end(span: Span<'_>, negative: bool, work: &mut Work) -> Option<Option<Expression>> {
    match infinity(span) {
        Some(is_negative) => (is_negative == negative).then_some(None),
        None => expression(span, work).map(Some),
    }
}

fn inequality(sides: &[Span<'_>], kinds: &[Relation], work: &mut Work) -> Option<Shape> {
    let upward: Option<Vec<bool>> = kinds
        .iter()
        .map(|kind| match kind {
            Relation::Less | Relation::LessOrEqual => Some(true),
            Relation::Greater | Relation::GreaterOrEqual => Some(false),
            _ => None,
        })
        .collect();
    let closed = |place: usize| matches!(kinds[place], Relation::LessOrEqual | Relation::GreaterOrEqual);
    match (upward?.as_slice(), sides) {
        ([up], [left, right]) => {
            let (small, large) = if *up { (*left, *right) } else { (*right, *left) };
            single(small, large, closed(0), work)
        }
        ([true, true], [low, name, high]) => between(*low, *name, *high, closed(0), closed(1), work),
        ([false, false], [high, name, low]) => between(*low, *name, *high, closed(1), closed(0), work),
        _ => None,
    }
}

fn between(low: Span<'_>, of: Span<'_>, high: Span<'_>, from: bool, to: bool, work: &mut Work) -> Option<Shape> {
    let name = named(of)?;
    Some(Shape::Interval(Interval { name: Some(name), ..interval(low, high, from, to, work)? }))
}

fn single(small: Span<'_>, large: Span<'_>, closed: bool, work: &mut Work) -> Option<Shape> {
    let (low, name, high) = match (named(small), named(large)) {
        (Some(name), None) => (Some(None), Some(name), end(large, false, work)),
        (None, Some(name)) => (end(small, true, work), Some(name), Some(None)),
        _ => (None, None, None),
    };
    match (low, high) {
        (Some(low), Some(high)) if low.as_ref().or(high.as_ref()).is_none_or(Expression::is_constant) => {
            let (low_closed, high_closed) = (closed && low.is_some(), closed && high.is_some());
            Some(Shape::Interval(Interval { name, low, high, low_closed, high_closed }))
        }
        _ => Some(Shape::Inequality { difference: difference(small, large, work)?, strict: !closed }),
    }
}

pub(crate) fn union(ranges: Vec<Shape>) -> Shape {
    let parts = ranges.into_iter().flat_map(|range| match range {
        Shape::Union(inner) => inner,
        other => vec![other],
    });
    Shape::Union(parts.collect())
}

/// `x = 1, -2` and `x = 1, x = -2` each give two values of one name. `x = 1, y = -2` gives one value for each of two
/// names. Returns None if the combination is ambiguous: one of several names has two values, or several names are
/// alternatives (`either`).
pub(crate) fn named_alike(shapes: Vec<Shape>, either: bool) -> Option<Shape> {
    let names: Vec<Option<&str>> = shapes.iter().map(Shape::name).collect();
    let Some(Some(first)) = names.iter().find(|name| name.is_some()).copied() else { return Some(Shape::List(shapes)) };
    let only_first = names[0].is_some()
        && names[1..].iter().all(Option::is_none)
        && shapes[1..].iter().all(|shape| matches!(shape, Shape::Value(_) | Shape::Infinity { .. }));
    if only_first || names.iter().all(|name| *name == Some(first)) {
        let name = first.to_string();
        let values = shapes.into_iter().flat_map(|shape| match shape {
            Shape::Definition { value, .. } => match *value {
                Shape::List(inner) => inner,
                other => vec![other],
            },
            other => vec![other],
        });
        return Some(Shape::Definition { name, value: Box::new(Shape::List(values.collect())), difference: None });
    }
    let mut distinct: Vec<&str> = names.iter().copied().flatten().collect();
    let count = distinct.len();
    distinct.sort_unstable();
    distinct.dedup();
    (distinct.len() == count && !either).then_some(Shape::List(shapes))
}
