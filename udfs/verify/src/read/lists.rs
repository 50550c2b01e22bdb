//! Lists, separated by commas, semicolons, "and" and "or".

use crate::numbers::work::Work;
use crate::read::relations::{self, Reader};
use crate::read::shape::Shape;
use crate::read::span::Span;
use crate::read::token::Token;

pub(crate) const MAX_PARTS: usize = 200;

/// Separators, the outermost first: `x = 1, y = 2 or x = 3, y = 4` splits at "or" before the commas.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Semicolon,
    Or,
    And,
    Comma,
}

impl Level {
    fn of(token: &Token) -> Option<Self> {
        Some(match token {
            Token::Semicolon => Self::Semicolon,
            Token::Or => Self::Or,
            Token::And => Self::And,
            Token::Comma => Self::Comma,
            _ => return None,
        })
    }
}

pub(crate) fn separates(token: &Token) -> bool {
    Level::of(token).is_some()
}

/// Adjacent separators, such as `, and`: their range, and the outermost of their levels.
struct Separator {
    from: usize,
    to: usize,
    level: Level,
}

fn separators(span: Span<'_>, places: &[usize]) -> Vec<Separator> {
    let mut found: Vec<Separator> = Vec::new();
    for place in places {
        let Some(level) = Level::of(&span.tokens()[*place]) else { continue };
        match found.last_mut() {
            Some(last) if last.to == *place => (last.to, last.level) = (place + 1, last.level.min(level)),
            _ => found.push(Separator { from: *place, to: place + 1, level }),
        }
    }
    found
}

fn between<'a, 's>(span: Span<'a>, separators: impl Iterator<Item = &'s Separator>) -> Vec<Span<'a>> {
    let (mut parts, mut from) = (Vec::new(), 0);
    for separator in separators {
        parts.push(span.slice(from, separator.from));
        from = separator.to;
    }
    parts.push(span.slice(from, span.tokens().len()));
    parts
}

pub(crate) fn list(span: Span<'_>, places: &[usize], read: Reader<'_>, work: &mut Work) -> Option<Shape> {
    let separators = separators(span, places);
    let outermost = separators.iter().map(|separator| separator.level).min()?;
    let groups = between(span, separators.iter().filter(|separator| separator.level == outermost));
    if groups.len() > MAX_PARTS {
        return None;
    }
    let sizes: Vec<usize> = groups.iter().map(|group| group.find(separates).len()).collect();
    // `2, 3 or 5` is one list.
    let ends_list = outermost != Level::Semicolon && matches!(sizes.as_slice(), [_, 0]);
    if ends_list || sizes.iter().all(|size| *size == 0) {
        let shapes = flat(&between(span, separators.iter()), read, work)?;
        let either = separators.iter().all(|separator| separator.level == Level::Or);
        if separators.iter().all(|separator| separator.level == Level::And)
            && let Some(range) = relations::within_both(&shapes, work)
        {
            return Some(Shape::Interval(range));
        }
        let is_range = |shape: &Shape| matches!(shape, Shape::Interval(_) | Shape::Union(_));
        if either && shapes.iter().all(is_range) {
            return Some(relations::union(shapes));
        }
        return relations::named_alike(shapes, outermost == Level::Or);
    }
    let alike = sizes.iter().all(|size| *size == sizes[0]);
    if (!alike && outermost != Level::Semicolon) || groups.iter().any(|group| group.tokens().is_empty()) {
        return None;
    }
    // An inner group is ordered, unless its parts have names.
    let ordered = |shape| match shape {
        Shape::List(of) if !of.iter().any(|shape| matches!(shape, Shape::Definition { .. })) => Shape::Tuple(of),
        other => other,
    };
    Some(Shape::List(groups.into_iter().map(|group| ordered(read(group, work))).collect()))
}

pub(crate) fn flat(parts: &[Span<'_>], read: Reader<'_>, work: &mut Work) -> Option<Vec<Shape>> {
    if parts.len() > MAX_PARTS || parts.iter().any(|span| span.tokens().is_empty()) {
        return None;
    }
    let mut shapes = Vec::new();
    for span in parts {
        match read(*span, work) {
            Shape::List(inner) => shapes.extend(inner),
            other => shapes.push(other),
        }
    }
    (shapes.len() <= MAX_PARTS).then_some(shapes)
}
