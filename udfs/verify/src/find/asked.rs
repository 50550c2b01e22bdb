//! Equations that state the value of what they name: `7 \cdot 12 = 84`, `m + n = 84`, `P(X = 2) = 0.3`.

use crate::find::alone::LONGEST;
use crate::numbers::expression::{Expression, Function, Op};
use crate::numbers::work::Work;
use crate::read::lexer::{Reading, tokens};
use crate::read::reader;
use crate::read::shape::{Quantity, Shape};
use crate::read::span::{Span, Tokens};
use crate::read::token::{Relation, Token};
use crate::read::words::MARKS;
use crate::read::{values, words};

/// Returns the value that an equation states. None if it is to be solved, such as `2x = 84`.
pub(crate) fn value(equation: &str) -> Option<&str> {
    let inner = |(opening, closing): &(&str, &str)| equation.trim().strip_prefix(opening)?.strip_suffix(closing);
    let equation = MARKS.iter().find_map(inner).unwrap_or(equation);
    if equation.len() > LONGEST {
        return None;
    }
    let mut work = Work::new();
    let (left, right) = equation.rsplit_once('=')?;
    // `5 = 5` states nothing.
    if left.trim() == right.trim() {
        return None;
    }
    if let Some(of) = constant(right, &mut work) {
        return names(left, &of, &mut work).then(|| right.trim());
    }
    let of = constant(left, &mut work)?;
    names(right, &of, &mut work).then(|| left.trim())
}

fn constant(side: &str, work: &mut Work) -> Option<Expression> {
    match reader::read(Tokens::new(&tokens(side, Reading::Usual)?)?.whole(), work) {
        Shape::Value(Quantity { expression, percent: false, .. }) if expression.is_constant() => Some(expression),
        _ => None,
    }
}

/// Whether each of equal sides names a quantity or has this value.
fn names(sides: &str, value: &Expression, work: &mut Work) -> bool {
    let Some(tokens) = tokens(sides, Reading::Usual) else { return false };
    let Some(tokens) = Tokens::new(&tokens) else { return false };
    let whole = tokens.whole().unwrapped();
    let relations = whole.find(|token| matches!(token, Token::Relation(_)));
    let are_equal = relations.iter().all(|place| whole.tokens()[*place] == Token::Relation(Relation::Equal));
    let sides = whole.split(&relations);
    are_equal
        && sides.into_iter().all(|side| match values::expression(side, work) {
            Some(side) if side.is_constant() => side.equals(value, work),
            Some(side) => is_quantity(&side),
            None => is_named(side),
        })
}

/// Whether an expression is a quantity that questions ask for, and no unknown: it has several names, or cannot be solved
/// for its name.
fn is_quantity(expression: &Expression) -> bool {
    use Function::{Cos, Cot, Csc, Sec, Sin, Tan};
    let is_size = expression.names[0].starts_with(|c: char| c.is_ascii_uppercase() || "\\zw".contains(c));
    let is_angle = |op: &Op| matches!(op, Op::Apply(Sin | Cos | Tan | Cot | Sec | Csc));
    let is_factor = |(place, op): (usize, &Op)| match op {
        Op::Push(_) => expression.ops.get(place + 1) == Some(&Op::Power),
        op => is_angle(op) || matches!(op, Op::Variable(_) | Op::Multiply | Op::Power),
    };
    let are_angles = || expression.ops.iter().any(is_angle) && expression.ops.iter().enumerate().all(is_factor);
    let asks = match expression.ops.last() {
        Some(Op::Floor | Op::Ceiling) => true,
        Some(Op::Absolute) => is_size && expression.ops.len() == 2,
        Some(op) => is_angle(op) || are_angles(),
        None => false,
    };
    // `xy = 5`, `3x + 4y = 5` and `x^2 + y^2 = 5` are curves.
    let is_curve = expression.names.iter().all(|name| ["x", "y", "z"].contains(&name.as_str()))
        && expression.ops.iter().any(|op| matches!(op, Op::Multiply | Op::Divide | Op::Power));
    expression.names.len() > 1 && !is_curve || asks
}

/// Whether a side in words or notation is not part of a calculation: `P(X = 2)`, `\gcd(a, b)`, `\text{Area of } ABC`.
fn is_named(side: Span<'_>) -> bool {
    const DOUBTS: &str = include_str!("../read/words/doubts.txt");
    let calculates = |token: &Token| match token {
        Token::Number { .. } | Token::Fraction | Token::Root(_) | Token::Caret | Token::Slash | Token::Bang => true,
        Token::Comma | Token::Semicolon | Token::Colon | Token::PlusMinus | Token::And | Token::Or => true,
        Token::Percent | Token::Modulo | Token::SuchThat | Token::Choice(_) => true,
        Token::Word(word) => words::says(word, DOUBTS) || word.bytes().all(|byte| b"xyz".contains(&byte)),
        Token::Opaque(sign) => !sign.starts_with('\\'),
        _ => false,
    };
    !side.tokens().is_empty() && side.tokens()[0] != Token::Minus && side.find(calculates).is_empty()
}
