//! The kinds of answers: a value, a word, a list, an interval.

use crate::numbers::expression::Expression;
use crate::read::token::Token;
use crate::read::units::Unit;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Value(Quantity),
    Infinity { negative: bool },
    Word(String),
    List(Vec<Shape>),
    Set(Vec<Shape>),
    Tuple(Vec<Shape>),
    Interval(Interval),
    Union(Vec<Shape>),
    Matrix(Vec<Vec<Shape>>),
    Definition { name: String, value: Box<Shape>, difference: Option<Expression> },
    Equation(Expression),
    Inequality { difference: Expression, strict: bool },
    Congruence { name: Option<String>, value: Expression, modulus: Expression },
    Based { digits: String, base: String },
    Time { clock: String, half: String },
    Ratio(Vec<Expression>),
    Labelled { letter: String, content: Box<Shape> },
    Opaque(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Quantity {
    pub expression: Expression,
    pub percent: bool,
    pub degrees: bool,
    pub unit: Option<Unit>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Interval {
    pub name: Option<String>,
    pub low: Option<Expression>,
    pub high: Option<Expression>,
    pub low_closed: bool,
    pub high_closed: bool,
}

impl Shape {
    pub(crate) fn plain(expression: Expression) -> Self {
        Self::Value(Quantity { expression, ..Quantity::default() })
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Definition { name, .. } => Some(name),
            _ => None,
        }
    }

    pub(crate) fn label(&self) -> Option<&str> {
        match self {
            Self::Value(Quantity { unit, .. }) => unit.as_ref().map(|unit| unit.name.as_str()),
            other => other.name(),
        }
    }

    pub(crate) fn as_plain(&self) -> Option<&Expression> {
        match self {
            Self::Value(Quantity { expression, percent: false, degrees: false, unit: None }) => Some(expression),
            _ => None,
        }
    }
}

impl Interval {
    pub(crate) fn open(ends: &[Shape]) -> Option<Self> {
        let [low, high] = ends else { return None };
        let (low, high) = (Some(low.as_plain()?.clone()), Some(high.as_plain()?.clone()));
        Some(Self { low, high, ..Self::default() })
    }
}
