//! Expressions as programs of a stack machine, so that nested brackets do not nest calls.

mod sample;

use num_bigint::BigInt;

use sample::Sample;

use crate::numbers::number::Number;
use crate::numbers::rational::Rational;
use crate::numbers::work::{MAX_BITS, Work};

macro_rules! functions {
    ($($function:ident $($name:literal)*;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    pub(crate) fn has_branches(self) -> bool {
        use Function::{Arccos, Arccot, Arcsin, Arctan, Lg, Ln, Log};
        matches!(self, Arcsin | Arccos | Arctan | Arccot | Ln | Log | Lg)
    }
}

#[derive(Debug, Clone, PartialEq, Hash)]
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

#[derive(Debug, Clone, PartialEq, Hash, Default)]
pub(crate) struct Expression {
    pub ops: Vec<Op>,
    pub names: Vec<String>,
}

pub(crate) const MAX_NAMES: usize = 100;
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

    /// Returns the value of an expression without variables. None if it is undefined or too expensive.
    pub(crate) fn constant_value(&self, work: &mut Work) -> Option<Number> {
        self.value(&|_: &str, _: &mut Work| None, work)
    }

    /// Returns the value where the variables have these values.
    fn value(&self, variable: &dyn Fn(&str, &mut Work) -> Option<Rational>, work: &mut Work) -> Option<Number> {
        let mut stack: Vec<Number> = Vec::new();
        for op in &self.ops {
            work.spend(8)?;
            let value = match op {
                Op::Push(number) => Number::Exact(number.clone()),
                Op::Variable(place) => Number::Exact(variable(self.names.get(*place)?, work)?),
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
            let (value, of_other) = (self.constant_value(work), other.constant_value(work));
            return value.zip(of_other).and_then(|(value, of_other)| value.equals(&of_other)) == Some(true);
        }
        let sample = Sample::of(self, other, true);
        sample.agree(|point, work| self.same_at(other, &sample, point, work), work)
    }

    fn same_at(&self, other: &Self, sample: &Sample, point: usize, work: &mut Work) -> Option<bool> {
        let mut at = |of: &Self| {
            work.has_left_reals();
            let value = of.value(&|name: &str, work: &mut Work| sample.coordinate(name, point, work), work)?;
            Some((value, work.has_left_reals()))
        };
        let ((value, has_left), (of_other, other_has_left)) = (at(self)?, at(other)?);
        // `\sqrt{1/x}` and `1/\sqrt{x}` differ by a sign where neither is real.
        value.equals(&of_other).filter(|are_equal| *are_equal || !(has_left && other_has_left))
    }

    /// Whether one is a nonzero constant multiple of the other at all tested points.
    pub(crate) fn is_multiple_of(&self, other: &Self, above_zero: bool, work: &mut Work) -> bool {
        let mut first = None;
        let sample = Sample::of(self, other, false);
        sample.agree(
            |point, work| {
                let at = |name: &str, work: &mut Work| sample.coordinate(name, point, work);
                let (a, b) = (self.value(&at, work)?, other.value(&at, work)?);
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

fn binary(op: &Op, left: &Number, right: &Number, work: &mut Work) -> Option<Number> {
    match op {
        Op::Add => left.plus(right, work),
        Op::Subtract => left.minus(right, work),
        Op::Multiply => left.times(right, work),
        Op::Divide => left.over(right, work),
        Op::Power => left.power(right, work),
        Op::LogOfBase => right.ln(work)?.over(&left.ln(work)?, work),
        _ => binomial(left, right.exact()?.to_integer()?, work),
    }
}

fn binomial(above: &Number, below: i64, work: &mut Work) -> Option<Number> {
    let whole = above.exact().and_then(Rational::to_integer);
    if !(-1_000..=1_000).contains(&below) || whole.is_some_and(|above| above < 0) {
        return None;
    }
    if below < 0 {
        return whole.map(|_| Number::integer(0));
    }
    if let Some(above) = whole {
        let last = if below <= above { below.min(above - below) } else { below };
        return product((0..last).map(|place| (above - place, place + 1)), work);
    }
    let mut product = Number::integer(1);
    for place in 0..below {
        let factor = above.minus(&Number::integer(place), work)?;
        product = product.times(&factor, work)?.over(&Number::integer(place + 1), work)?;
    }
    Some(product)
}

/// Returns the product of factors, each divided by a number that divides the product up to it.
fn product(factors: impl Iterator<Item = (i64, i64)>, work: &mut Work) -> Option<Number> {
    let mut product = BigInt::from(1);
    for (factor, divisor) in factors {
        work.spend(2 + product.bits() / 1_024)?;
        product = product * factor / divisor;
    }
    (product.bits() <= MAX_BITS).then(|| Number::Exact(Rational::integer(product)))
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
            product((2..=last).map(|factor| (factor, 1)), work)
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
