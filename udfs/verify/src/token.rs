//! The tokens of an answer in LaTeX.

use super::expression::Function;

/// What opens and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bracket {
    Round,
    Square,
    /// `\{`
    Curly,
    /// `{`, which is not seen.
    Group,
    Angle,
    Floor,
    Ceiling,
    Bars,
    /// A matrix.
    Matrix,
    /// A determinant.
    Determinant,
}

/// Signs of relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
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

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// Digits, how many stand before the point, and from which on they are repeated.
    Number {
        digits: String,
        whole: usize,
        repeated: Option<usize>,
    },
    /// A power of ten that a number is multiplied by: `e-5`.
    Exponent(i64),
    /// A variable, with its subscript and primes.
    Letter(String),
    /// Words of prose, units and names.
    Word(String),
    /// A choice in brackets: `\text{(B)}`.
    Choice(String),
    /// A set of numbers: Z, N, Q, R, C.
    Domain(String),
    Open(Bracket),
    Close(Bracket),
    /// `|`, which opens or closes.
    Bar,
    Relation(Relation),
    Function(Function),
    /// A logarithm, whose base may follow.
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
    /// What is not understood; such answers are equal only as texts.
    Opaque(String),
}

impl Token {
    /// A whole number of one token.
    pub fn whole(&self) -> Option<&str> {
        match self {
            Self::Number { digits, whole, repeated: None } if *whole == digits.len() => Some(digits),
            _ => None,
        }
    }
}
