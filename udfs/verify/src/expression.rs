//! Expressions as programs of a stack machine, so that nested brackets do not nest calls.

use num_bigint::Sign;

use super::number::Number;
use super::rational::Rational;
use super::work::Work;

macro_rules! functions {
    ($($function:ident $($name:literal)*;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Function { $($function),* }

        impl Function {
            pub(crate) fn named(name: &str) -> Option<Self> {
                Some(match name {
                    $($($name => Self::$function,)*)*
                    _ => return None,
                })
            }
        }
    };
}

// Each function with its names. `log` is a token of its own, since it may have a base.
functions! {
    Sin "sin"; Cos "cos"; Tan "tan" "tg"; Cot "cot" "ctg"; Sec "sec"; Csc "csc";
    Arcsin "arcsin" "asin"; Arccos "arccos" "acos"; Arctan "arctan" "atan"; Arccot "arccot";
    Sinh "sinh"; Cosh "cosh"; Tanh "tanh"; Ln "ln"; Log; Lg "lg"; Exp "exp"; Cis "cis";
}

impl Function {
    /// Whether the values on one side of a point do not determine those on the other side.
    fn has_branches(self) -> bool {
        use Function::{Arccos, Arccot, Arcsin, Arctan, Lg, Ln, Log};
        matches!(self, Arcsin | Arccos | Arctan | Arccot | Ln | Log | Lg)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    Push(Rational),
    Variable(usize),
    Pi,
    E,
    I,
    Add,
    Subtract,
    Multiply,
    Divide,
    Negate,
    Power,
    Root(u32),
    Apply(Function),
    LogOfBase,
    Binomial,
    Factorial,
    Degrees,
    Absolute,
    Floor,
    Ceiling,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Expression {
    pub ops: Vec<Op>,
    pub names: Vec<String>,
}

pub(crate) const MAX_NAMES: usize = 100;
/// The maximum points tried where a few values determine a function.
const POINTS: usize = 8;
const AGREEING: usize = 4;
/// Ranges of numerators over `BELOW`, for functions whose form may change between ranges. Three points are drawn from
/// each: all variables above zero, all below, and with any signs.
const FRACTIONS: [(i64, i64); 5] = [(212, 612), (10, 100), (2, 20), (600, 6_000), (6_000, 200_000)];
const BELOW: i64 = 211;
/// The same for whole numbers. Each is used together with its successor, so that both parities occur.
const WHOLES: [(i64, i64); 6] = [(3, 12), (3, 20), (5, 30), (3, 42), (20, 60), (60, 90)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Points {
    /// A few points anywhere: two functions with a power series everywhere are equal if they agree at some points.
    Few,
    /// All points, on both sides of zero and from 10⁻² to 10³: roots, absolute values and inverse functions change
    /// their form.
    Fractions,
    Wholes,
}

impl Expression {
    pub(crate) fn constant(number: Rational) -> Self {
        Self { ops: vec![Op::Push(number)], names: vec![] }
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn joined(&self, other: &Self, op: Op) -> Self {
        let mut both = self.clone();
        for step in &other.ops {
            let step = match step {
                Op::Variable(place) => Op::Variable(both.place_of(&other.names[*place])),
                step => step.clone(),
            };
            both.ops.push(step);
        }
        both.ops.push(op);
        both
    }

    pub(crate) fn place_of(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_string());
            self.names.len() - 1
        })
    }

    fn points(&self) -> Points {
        // For each operand: whether it is a whole number, and whether it is a number above zero.
        let mut operands: Vec<(bool, bool)> = Vec::new();
        let mut points = Points::Few;
        for op in &self.ops {
            let operand = match op {
                Op::Push(number) => (number.is_integer(), number.sign() == Sign::Plus),
                Op::Pi | Op::E => (false, true),
                Op::Variable(_) | Op::I => (false, false),
                Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Power | Op::Binomial | Op::LogOfBase => {
                    let (exponent, base) = (operands.pop().unwrap_or_default(), operands.pop().unwrap_or_default());
                    match op {
                        Op::Binomial => return Points::Wholes,
                        Op::LogOfBase => points = Points::Fractions,
                        Op::Power if !exponent.0 && !base.1 => points = Points::Fractions,
                        _ => {}
                    }
                    (false, false)
                }
                op => {
                    let operand = operands.pop().unwrap_or_default();
                    match op {
                        Op::Factorial => return Points::Wholes,
                        Op::Root(_) | Op::Absolute | Op::Floor | Op::Ceiling => points = Points::Fractions,
                        Op::Apply(function) if function.has_branches() => points = Points::Fractions,
                        _ => {}
                    }
                    (*op == Op::Negate && operand.0, false)
                }
            };
            operands.push(operand);
        }
        points
    }

    /// Returns the value at a point. None if it is undefined or too expensive.
    pub(crate) fn value(&self, point: usize, points: Points, work: &mut Work) -> Option<Number> {
        let mut stack: Vec<Number> = Vec::new();
        for op in &self.ops {
            work.spend(8)?;
            let value = match op {
                Op::Push(number) => Number::Exact(number.clone()),
                Op::Variable(place) => Number::Exact(coordinate(self.names.get(*place)?, point, points, work)?),
                Op::Pi => Number::pi()?,
                Op::E => Number::integer(1).exp(work)?,
                Op::I => Number::i(),
                Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Power | Op::Binomial | Op::LogOfBase => {
                    let (right, left) = (stack.pop()?, stack.pop()?);
                    binary(op, &left, &right, work)?
                }
                _ => unary(op, &stack.pop()?, work)?,
            };
            stack.push(value);
        }
        let value = stack.pop()?;
        stack.is_empty().then_some(value)
    }

    pub(crate) fn equals(&self, other: &Self, work: &mut Work) -> bool {
        if self == other {
            return true;
        }
        if self.is_constant() && other.is_constant() {
            return self.same_at(other, 0, Points::Few, work) == Some(true);
        }
        let points = self.points().max(other.points());
        agree(points, |point, work| self.same_at(other, point, points, work), work)
    }

    fn same_at(&self, other: &Self, point: usize, points: Points, work: &mut Work) -> Option<bool> {
        self.value(point, points, work)?.equals(&other.value(point, points, work)?)
    }

    /// Whether one is a nonzero constant multiple of the other at all tested points.
    pub(crate) fn is_multiple_of(&self, other: &Self, above_zero: bool, work: &mut Work) -> bool {
        let mut first = None;
        let points = self.points().max(other.points()).min(Points::Fractions);
        agree(
            points,
            |point, work| {
                let (a, b) = (self.value(point, points, work)?, other.value(point, points, work)?);
                if !(a.is_nonzero() && b.is_nonzero()) {
                    return None;
                }
                let factor = a.over(&b, work)?;
                let expected = first.get_or_insert_with(|| factor.clone());
                if above_zero && factor.real()?.is_negative()? {
                    return Some(false);
                }
                factor.equals(expected)
            },
            work,
        )
    }
}

/// Whether `holds` is true at every point where it is defined, and is defined at enough of them.
fn agree(points: Points, mut holds: impl FnMut(usize, &mut Work) -> Option<bool>, work: &mut Work) -> bool {
    let (all, enough) = match points {
        Points::Few => (POINTS, AGREEING),
        Points::Fractions => (3 * FRACTIONS.len(), usize::MAX),
        Points::Wholes => (2 * WHOLES.len(), usize::MAX),
    };
    let mut agreeing = 0;
    for point in 0..all {
        match holds(point, work) {
            Some(false) => return false,
            Some(true) => agreeing += 1,
            None => {}
        }
        if agreeing == enough {
            break;
        }
    }
    agreeing >= AGREEING && !work.is_spent()
}

fn coordinate(name: &str, point: usize, points: Points, work: &mut Work) -> Option<Rational> {
    let (drawn, which) = match points {
        Points::Few => (point, 0),
        Points::Fractions => (point / 3, point % 3),
        Points::Wholes => (point / 2, point % 2),
    };
    let salt = if which == 2 { point + 64 } else { drawn };
    let mut seed = 0xcbf2_9ce4_8422_2325_u64 ^ (salt as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in name.bytes() {
        seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    seed = (seed ^ (seed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    seed ^= seed >> 29;
    let draw = |(from, to): (i64, i64)| from + ((seed >> 11) % (to - from) as u64) as i64;
    let coin = (seed >> 50) % 2 == 1;
    let above = match points {
        Points::Wholes => {
            return Some(Rational::integer(draw(*WHOLES.get(drawn)?) / 2 * 2 + i64::from(coin == (which == 0))));
        }
        Points::Fractions => {
            let above = draw(*FRACTIONS.get(drawn)?);
            if which == 1 || (which == 2 && coin) { -above } else { above }
        }
        Points::Few if point.is_multiple_of(2) => draw((BELOW + 1, BELOW + 401)),
        Points::Few => draw((20, 190)),
    };
    Rational::quotient(above.into(), BELOW.into(), work)
}

fn binary(op: &Op, left: &Number, right: &Number, work: &mut Work) -> Option<Number> {
    match op {
        Op::Add => left.plus(right, work),
        Op::Subtract => left.minus(right, work),
        Op::Multiply => left.times(right, work),
        Op::Divide => left.over(right, work),
        Op::Power => left.power(right, work),
        Op::LogOfBase => right.ln(work)?.over(&left.ln(work)?, work),
        _ => {
            let below = right.exact()?.to_integer()?;
            let above = left.exact()?.to_integer();
            if !(-1_000..=1_000).contains(&below) || above.is_some_and(|above| above < 0) {
                return None;
            }
            if below < 0 {
                return above.map(|_| Number::integer(0));
            }
            let mut product = Number::integer(1);
            for place in 0..below {
                let factor = left.minus(&Number::integer(place), work)?;
                product = product.times(&factor, work)?.over(&Number::integer(place + 1), work)?;
            }
            Some(product)
        }
    }
}

fn unary(op: &Op, value: &Number, work: &mut Work) -> Option<Number> {
    match op {
        Op::Negate => Some(value.negated()),
        Op::Root(degree) => value.root(*degree, work),
        Op::Apply(function) => apply(*function, value, work),
        Op::Degrees => value.times(&Number::pi()?.over(&Number::integer(180), work)?, work),
        Op::Absolute => value.absolute(work),
        Op::Floor => value.floor(),
        Op::Ceiling => Some(value.negated().floor()?.negated()),
        Op::Factorial => {
            let last = value.exact()?.to_integer()?;
            if !(0..=1_000).contains(&last) {
                return None;
            }
            (2..=last).try_fold(Number::integer(1), |product, factor| product.times(&Number::integer(factor), work))
        }
        _ => None,
    }
}

fn apply(function: Function, value: &Number, work: &mut Work) -> Option<Number> {
    let one = Number::integer(1);
    match function {
        Function::Sin => value.sine_and_cosine(work).map(|(sine, _)| sine),
        Function::Cos => value.sine_and_cosine(work).map(|(_, cosine)| cosine),
        Function::Tan => value.sine_and_cosine(work).and_then(|(sine, cosine)| sine.over(&cosine, work)),
        Function::Cot => value.sine_and_cosine(work).and_then(|(sine, cosine)| cosine.over(&sine, work)),
        Function::Sec => value.sine_and_cosine(work).and_then(|(_, cosine)| one.over(&cosine, work)),
        Function::Csc => value.sine_and_cosine(work).and_then(|(sine, _)| one.over(&sine, work)),
        Function::Cis => {
            let (sine, cosine) = value.sine_and_cosine(work)?;
            cosine.plus(&sine.times(&Number::i(), work)?, work)
        }
        Function::Arcsin => value.arcsine(work),
        Function::Arccos => Number::pi()?.over(&Number::integer(2), work)?.minus(&value.arcsine(work)?, work),
        Function::Arctan => value.arctangent(work),
        Function::Arccot => Number::pi()?.over(&Number::integer(2), work)?.minus(&value.arctangent(work)?, work),
        Function::Sinh | Function::Cosh | Function::Tanh => {
            let (up, down) = (value.exp(work)?, value.negated().exp(work)?);
            let (sum, difference) = (up.plus(&down, work)?, up.minus(&down, work)?);
            match function {
                Function::Sinh => difference.over(&Number::integer(2), work),
                Function::Cosh => sum.over(&Number::integer(2), work),
                _ => difference.over(&sum, work),
            }
        }
        Function::Ln => value.ln(work),
        // `log` has an unknown base, so this divides by the logarithm of one that no answer names.
        Function::Log => {
            value.ln(work)?.times(&Number::integer(1).over(&Number::integer(6_700_417_299_827_311), work)?, work)
        }
        Function::Lg => value.ln(work)?.over(&Number::integer(10).ln(work)?, work),
        Function::Exp => value.exp(work),
    }
}
