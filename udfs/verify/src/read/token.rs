//! The tokens of an answer in LaTeX.

use crate::numbers::expression::Function;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bracket {
    Round,
    Square,
    Curly,
    Group,
    Angle,
    Floor,
    Ceiling,
    Bars,
    Matrix,
    Determinant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Approximately,
    Congruent,
    In,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Number { digits: String, whole: usize, repeated: Option<usize> },
    Exponent(i64),
    Letter(String),
    Word(String),
    Choice(String),
    Domain(String),
    Open(Bracket),
    Close(Bracket),
    Bar,
    SuchThat,
    Relation(Relation),
    Function(Function),
    Log,
    Root(u32),
    Plus,
    Minus,
    PlusMinus,
    MinusPlus,
    Times,
    Slash,
    Caret,
    Under,
    Bang,
    Comma,
    Semicolon,
    Colon,
    And,
    Or,
    Percent,
    Dollar,
    Degree,
    Pi,
    E,
    I,
    Infinity,
    EmptySet,
    Union,
    Without,
    Fraction,
    Binomial,
    Choose,
    Over,
    Modulo,
    Cell,
    Row,
    Opaque(String),
}

impl Token {
    pub(crate) fn whole(&self) -> Option<&str> {
        match self {
            Self::Number { digits, whole, repeated: None } if *whole == digits.len() => Some(digits),
            _ => None,
        }
    }
}
