//! What an answer is: a value, a word, a list, an interval.

use super::expression::Expression;
use super::token::Token;
use super::units::Unit;

/// An answer as it is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Value(Value),
    /// +∞ or −∞.
    Infinity {
        negative: bool,
    },
    Word(String),
    /// In any order, each as often as it stands there.
    List(Vec<Shape>),
    /// A list in braces.
    Set(Vec<Shape>),
    /// In their order. `(2, 5)` is an interval too.
    Tuple(Vec<Shape>),
    Interval(Interval),
    /// Of intervals and sets, in any order.
    Union(Vec<Shape>),
    /// Its rows.
    Matrix(Vec<Vec<Shape>>),
    /// `x = 5`: what a name stands for, and the equation's difference of both sides.
    Definition {
        name: String,
        value: Box<Shape>,
        difference: Option<Expression>,
    },
    /// An equation, as the difference of both sides.
    Equation(Expression),
    /// `difference < 0` or `difference ≤ 0`.
    Inequality {
        difference: Expression,
        strict: bool,
    },
    /// `x ≡ 3 (mod 7)`
    Congruence {
        name: Option<String>,
        value: Expression,
        modulus: Expression,
    },
    /// Digits in a base.
    Based {
        digits: String,
        base: String,
    },
    /// A time of day, with what stands behind it.
    Time {
        clock: String,
        half: String,
    },
    /// `2:3`, of two parts or more.
    Ratio(Vec<Expression>),
    /// A labelled choice: its letter, and what it says.
    Labelled {
        letter: String,
        content: Box<Shape>,
    },
    /// What is not understood: equal only where it is written in the same way.
    Opaque(Vec<Token>),
}

/// A number or an expression, and what stands behind it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Value {
    pub expression: Expression,
    /// `%`
    pub percent: bool,
    /// `°`
    pub degrees: bool,
    pub unit: Option<Unit>,
}

/// All numbers between two ends; None for an end that is infinite.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    pub name: Option<String>,
    pub low: Option<Expression>,
    pub high: Option<Expression>,
    pub low_closed: bool,
    pub high_closed: bool,
}

impl Shape {
    /// An expression with nothing behind it.
    pub fn plain(expression: Expression) -> Self {
        Self::Value(Value { expression, ..Value::default() })
    }

    /// What is named.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Definition { name, .. } => Some(name),
            _ => None,
        }
    }

    /// What tells it from others of a list: its name, or its unit.
    pub fn label(&self) -> Option<&str> {
        match self {
            Self::Value(Value { unit, .. }) => unit.as_ref().map(|unit| unit.name.as_str()),
            other => other.name(),
        }
    }

    /// The expression of a value with nothing behind it.
    pub fn as_plain(&self) -> Option<&Expression> {
        match self {
            Self::Value(Value { expression, percent: false, degrees: false, unit: None }) => Some(expression),
            _ => None,
        }
    }
}

impl Interval {
    /// The open interval that a pair may be, too.
    pub fn open(ends: &[Shape]) -> Option<Self> {
        let [low, high] = ends else { return None };
        let (low, high) = (Some(low.as_plain()?.clone()), Some(high.as_plain()?.clone()));
        Some(Self { name: None, low, high, low_closed: false, high_closed: false })
    }
}
