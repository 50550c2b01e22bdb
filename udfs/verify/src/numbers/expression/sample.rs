//! The points at which two expressions are compared.

use std::hash::{DefaultHasher, Hash, Hasher};

use num_bigint::Sign;

use super::{Expression, Op};
use crate::numbers::rational::Rational;
use crate::numbers::work::Work;

/// The maximum points tried where a few values determine a function.
const POINTS: usize = 8;
const AGREEING: usize = 4;
/// Ranges in hundredths. The second and third are for functions that a few values determine. For functions whose form may
/// change between ranges, three points are drawn from each: all variables above zero, all below, and with any signs.
const FRACTIONS: [(u64, u64); 5] = [(284, 2_843), (145, 290), (10, 90), (1, 9), (2_843, 94_786)];
/// Numbers of more bits in an expression may be bounds beyond these ranges.
const REACHED: u64 = 8;
/// The same for whole numbers. Each is used together with its successor, so that both parities occur. The last ones are
/// not below the numbers that binomials may choose.
const WHOLES: [(u64, u64); 8] = [(3, 12), (3, 20), (5, 30), (3, 42), (20, 60), (60, 90), (980, 998), (1_000, 4_000)];
/// The least [`Form::breaks`] of which both expressions must have equally many.
const BREAKS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Points {
    /// A few points anywhere: two functions with a power series everywhere are equal if they agree at some points.
    Few,
    /// All points, on both sides of zero and from 10⁻² to 10³: roots, absolute values and inverse functions change
    /// their form.
    Fractions,
    Wholes,
}

/// Points that both expressions determine, so that no expression can be written to be zero at them.
pub(crate) struct Sample<'a> {
    points: Points,
    salt: u64,
    /// The denominator of all points, so that sums are short. No period meets a prime drawn from this many: the product of all
    /// of them has more bits than a number may have.
    below: u64,
    names: Vec<&'a str>,
    /// The bits of numbers outside of the bounds of both expressions. Zero if the ranges are.
    far: u64,
    proves: bool,
}

impl<'a> Sample<'a> {
    /// `with_wholes` is not set if the expressions may be equal only up to a factor.
    pub(crate) fn of(one: &'a Expression, other: &'a Expression, with_wholes: bool) -> Self {
        let hash = |of: &Expression| {
            let mut hasher = DefaultHasher::new();
            of.hash(&mut hasher);
            hasher.finish()
        };
        let (form, of_other) = (Form::of(one), Form::of(other));
        let points = form.points.max(of_other.points);
        let breaks = (form.breaks.min(of_other.breaks), form.breaks.max(of_other.breaks));
        let bits = form.bits.max(of_other.bits);
        let mut names: Vec<&str> = one.names.iter().chain(&other.names).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let salt = hash(one).wrapping_add(hash(other));
        Self {
            points: if with_wholes { points } else { points.min(Points::Fractions) },
            salt,
            below: prime(salt),
            names,
            far: if points == Points::Fractions && bits > REACHED { bits } else { 0 },
            proves: breaks.1 < BREAKS || breaks.0 == breaks.1,
        }
    }

    /// Whether `holds` is true at every point where it is defined, and is defined at enough of them.
    pub(crate) fn agree(&self, mut holds: impl FnMut(usize, &mut Work) -> Option<bool>, work: &mut Work) -> bool {
        let (all, enough) = match self.points {
            Points::Few => (POINTS, AGREEING),
            Points::Fractions => (3 * (FRACTIONS.len() + usize::from(self.far > 0)), usize::MAX),
            Points::Wholes => (2 * WHOLES.len(), usize::MAX),
        };
        if !self.proves {
            return work.doubt::<()>().is_some();
        }
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

    /// Returns the value of a variable at a point.
    pub(crate) fn coordinate(&self, name: &str, point: usize, work: &mut Work) -> Option<Rational> {
        let (drawn, which) = match self.points {
            Points::Few => (point, 0),
            Points::Fractions => (point / 3, point % 3),
            Points::Wholes => (point / 2, point % 2),
        };
        let salt = if which == 2 { point + 64 } else { drawn } as u64;
        let place = self.names.iter().position(|of| *of == name)?;
        let seed = mixed(self.salt ^ mixed(salt << 8 | place as u64));
        let draw = |(from, to): (u64, u64)| from + (seed >> 11) % (to - from);
        if self.points == Points::Wholes {
            let even = draw(*WHOLES.get(drawn)?) / 2 * 2;
            let is_even = mixed(seed).is_multiple_of(2) != (which == 0);
            return Some(Rational::integer(even + u64::from(is_even)));
        }
        let below = self.below;
        let range = if self.points == Points::Few { 1 + drawn % 2 } else { drawn };
        let (from, to) = FRACTIONS.get(range).copied().unwrap_or((100, 200));
        let above = draw((from * below / 100, to * below / 100));
        let number = Rational::quotient(above.into(), below.into(), work)?;
        // Any two of the first 31 variables have different signs at some point.
        let is_below_zero =
            self.points == Points::Fractions && (which == 1 || which == 2 && (place + 1) >> drawn & 1 == 1);
        let number = if is_below_zero { number.negated() } else { number };
        if range < FRACTIONS.len() {
            return Some(number);
        }
        number.times(&Rational::integer(2).power(i64::try_from(self.far).ok()?, work)?, work)
    }
}

/// Returns a prime between 2¹⁹ and 2²¹ that a number determines.
fn prime(salt: u64) -> u64 {
    let is_prime = |number: &u64| (3..1_449).step_by(2).all(|divisor| !number.is_multiple_of(divisor));
    let from = (1 << 19) + 1 + mixed(salt) % (1 << 19) / 2 * 2;
    (from..1 << 21).step_by(2).find(is_prime).unwrap_or(from)
}

/// One step of the generator SplitMix64.
fn mixed(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

/// What the operations of an expression say about where its form changes.
struct Form {
    points: Points,
    /// The absolute values, floors and roots of powers of what has variables. Sums with them can be zero everywhere
    /// except in a small range.
    breaks: usize,
    /// The bits of the largest number that the constants form.
    bits: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Operand {
    is_whole: bool,
    is_above_zero: bool,
    is_constant: bool,
    is_power: bool,
    bits: u64,
}

impl Form {
    fn of(expression: &Expression) -> Self {
        let mut form = Self { points: Points::Few, breaks: 0, bits: 0 };
        let mut operands: Vec<Operand> = Vec::new();
        for op in &expression.ops {
            let operand = match op {
                Op::Push(number) => Operand {
                    is_whole: number.is_integer(),
                    is_above_zero: number.sign() == Sign::Plus,
                    is_constant: true,
                    bits: number.bits(),
                    ..Operand::default()
                },
                Op::Pi | Op::E => Operand { is_above_zero: true, is_constant: true, ..Operand::default() },
                Op::I => Operand { is_constant: true, ..Operand::default() },
                Op::Variable(_) => Operand::default(),
                Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Power | Op::Binomial | Op::LogOfBase => {
                    let (right, left) = (operands.pop().unwrap_or_default(), operands.pop().unwrap_or_default());
                    form.join(op, left, right)
                }
                op => form.apply(op, operands.pop().unwrap_or_default()),
            };
            form.bits = form.bits.max(operand.bits);
            operands.push(operand);
        }
        form
    }

    fn join(&mut self, op: &Op, left: Operand, right: Operand) -> Operand {
        let bits = match op {
            Op::Binomial => {
                self.points = Points::Wholes;
                left.bits.max(right.bits)
            }
            Op::LogOfBase => {
                self.points = self.points.max(Points::Fractions);
                left.bits.max(right.bits)
            }
            Op::Power => {
                if !right.is_whole && !left.is_above_zero {
                    self.points = self.points.max(Points::Fractions);
                }
                let times = if left.is_constant && right.is_constant { 1 << right.bits.min(20) } else { 1 };
                left.bits.saturating_mul(times)
            }
            Op::Multiply | Op::Divide => left.bits.saturating_add(right.bits),
            _ => left.bits.max(right.bits).saturating_add(1),
        };
        let is_power = matches!(op, Op::Power | Op::Multiply);
        Operand { is_constant: left.is_constant && right.is_constant, is_power, bits, ..Operand::default() }
    }

    fn apply(&mut self, op: &Op, of: Operand) -> Operand {
        match op {
            Op::Factorial => self.points = Points::Wholes,
            Op::Root(_) | Op::Absolute | Op::Floor | Op::Ceiling => {
                self.points = self.points.max(Points::Fractions);
                let is_break = !of.is_constant && (of.is_power || !matches!(op, Op::Root(_)));
                self.breaks += usize::from(is_break);
            }
            Op::Apply(function) if function.has_branches() => self.points = self.points.max(Points::Fractions),
            _ => {}
        }
        Operand {
            is_whole: *op == Op::Negate && of.is_whole,
            is_constant: of.is_constant,
            bits: of.bits,
            ..Operand::default()
        }
    }
}
