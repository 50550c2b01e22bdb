//! Real numbers with 512 bits and an error bound, so that equal numbers agree to 120 digits.

use std::sync::LazyLock;

use num_bigint::{BigInt, Sign};

use crate::numbers::rational::Rational;

const BITS: u64 = 512;
/// In bits. Numbers are equal if their difference is surely below 2^−`AGREE` of them. Numbers whose magnitudes differ
/// by more are not added, since the smaller one would be lost.
const AGREE: u64 = 420;
/// In bits. Exact numbers longer than this are not rounded: two different ones could become equal.
const MAX_EXACT: u64 = 400;
const FIXED: u64 = 640;
const FUNCTION_ERROR: f64 = -600.0;

static PI: LazyLock<BigInt> =
    LazyLock::new(|| (series(5, -1) * BigInt::from(16) - series(239, -1) * BigInt::from(4)) >> 64_u8);
static LN_2: LazyLock<BigInt> = LazyLock::new(|| (series(3, 1) * BigInt::from(2)) >> 64_u8);

/// Σ signⁿ / ((2n + 1) of²ⁿ⁺¹), the inverse (hyperbolic) tangent of 1/of, with 64 bits more.
fn series(of: i64, sign: i64) -> BigInt {
    let mut power = one(FIXED + 64) / of;
    let (mut sum, mut place, mut signed) = (BigInt::from(0), 1_i64, 1);
    while power.sign() != Sign::NoSign {
        sum += &power * signed / place;
        power /= of * of;
        place += 2;
        signed *= sign;
    }
    sum
}

fn one(bits: u64) -> BigInt {
    BigInt::from(1) << bits
}

#[derive(Debug, Clone)]
pub(crate) struct Ball {
    mantissa: BigInt,
    exponent: i64,
    error: f64,
}

impl Ball {
    fn rounded(mantissa: BigInt, exponent: i64, error: f64) -> Option<Self> {
        if exponent.unsigned_abs() > 1 << 40 {
            return None;
        }
        let bits = mantissa.bits();
        if bits <= BITS {
            return Some(Self { mantissa, exponent, error });
        }
        let exponent = exponent + (bits - BITS) as i64;
        Some(Self { mantissa: mantissa >> (bits - BITS), exponent, error: sum(error, exponent as f64) })
    }

    fn fixed(number: BigInt, error: f64) -> Option<Self> {
        Self::rounded(number, -(FIXED as i64), error)
    }

    pub(crate) fn zero() -> Self {
        Self { mantissa: BigInt::from(0), exponent: 0, error: f64::NEG_INFINITY }
    }

    pub(crate) fn pi() -> Option<Self> {
        Self::fixed(PI.clone(), FUNCTION_ERROR)
    }

    pub(crate) fn of(number: &Rational) -> Option<Self> {
        if number.bits() > MAX_EXACT {
            return None;
        }
        let (above, below) = (number.numerator(), number.denominator());
        if number.is_integer() {
            return Self::rounded(above.clone(), 0, f64::NEG_INFINITY);
        }
        let shift = BITS + below.bits();
        let exponent = -(shift as i64);
        Self::rounded((above << shift) / below, exponent, exponent as f64)
    }

    fn magnitude(&self) -> f64 {
        match self.mantissa.sign() {
            Sign::NoSign => f64::NEG_INFINITY,
            _ => (self.mantissa.bits() as i64 + self.exponent) as f64,
        }
    }

    pub(crate) fn may_be_zero(&self) -> bool {
        self.magnitude() - 1.0 <= self.error
    }

    pub(crate) fn is_negative(&self) -> Option<bool> {
        (!self.may_be_zero()).then(|| self.mantissa.sign() == Sign::Minus)
    }

    pub(crate) fn equals(&self, other: &Self) -> Option<bool> {
        let Some(difference) = self.plus(&other.negated()) else {
            return Some(false);
        };
        if !difference.may_be_zero() {
            return Some(false);
        }
        let scale = self.magnitude().max(other.magnitude()).max(0.0);
        (difference.error <= scale - AGREE as f64).then_some(true)
    }

    pub(crate) fn negated(&self) -> Self {
        Self { mantissa: -&self.mantissa, ..self.clone() }
    }

    /// None if one number is too small to change the other.
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        let (small, large) = if self.magnitude() < other.magnitude() { (self, other) } else { (other, self) };
        let error = sum(small.error, large.error);
        if small.may_be_zero() && small.magnitude() < large.magnitude() - AGREE as f64 {
            return Some(Self { error: sum(error, small.magnitude()), ..large.clone() });
        }
        if large.magnitude() - small.magnitude() > AGREE as f64 {
            return None;
        }
        let exponent = small.exponent.min(large.exponent);
        let shifted = |of: &Self| {
            let shift = (of.exponent - exponent) as u64;
            (shift <= 8 * BITS).then(|| &of.mantissa << shift)
        };
        Self::rounded(shifted(small)? + shifted(large)?, exponent, error)
    }

    pub(crate) fn times(&self, other: &Self) -> Option<Self> {
        let error = sum(self.error + other.magnitude(), other.error + self.magnitude());
        let error = sum(error, self.error + other.error);
        let error = if error.is_nan() { f64::NEG_INFINITY } else { error };
        Self::rounded(&self.mantissa * &other.mantissa, self.exponent + other.exponent, error)
    }

    pub(crate) fn over(&self, divisor: &Self) -> Option<Self> {
        if divisor.may_be_zero() {
            return None;
        }
        let least = divisor.magnitude() - 2.0;
        let error = sum(self.error - least, self.magnitude() + divisor.error - 2.0 * least);
        let shift = BITS + divisor.mantissa.bits();
        let exponent = self.exponent - divisor.exponent - shift as i64;
        Self::rounded((&self.mantissa << shift) / &divisor.mantissa, exponent, sum(error, exponent as f64))
    }

    pub(crate) fn square_root(&self) -> Option<Self> {
        if self.is_negative()? {
            return None;
        }
        let shift = 2 * BITS + (self.exponent - 2 * BITS as i64).rem_euclid(2) as u64;
        let exponent = (self.exponent - shift as i64) / 2;
        let error = self.error - (self.magnitude() - 2.0) / 2.0;
        Self::rounded((&self.mantissa << shift).sqrt(), exponent, sum(error, exponent as f64))
    }

    /// In units of 2⁻⁶⁴⁰. None if the error is too large or the number is above 2^`limit`.
    fn to_fixed(&self, limit: f64) -> Option<BigInt> {
        if self.error > -2.0 || self.magnitude() > limit {
            return None;
        }
        Some(self.to_fixed_exactly())
    }

    pub(crate) fn exp(&self) -> Option<Self> {
        let number = self.to_fixed(20.0)?;
        let twos = floor(&number, &LN_2)?;
        let power = exp_fixed(&(number - &*LN_2 * twos));
        let error = sum(self.error + 2.0, FUNCTION_ERROR) + twos as f64 + 1.0;
        Self::rounded(power, twos - FIXED as i64, error)
    }

    pub(crate) fn ln(&self) -> Option<Self> {
        if self.is_negative()? {
            return None;
        }
        let bits = self.mantissa.bits();
        let twos = bits as i64 + self.exponent;
        let number = (&self.mantissa << FIXED) >> bits;
        let guess = to_f64(&number).ln();
        let rest = ((&number * exp_fixed(&of_f64(-guess))) >> FIXED) - one(FIXED);
        // ln(1 + z) = 2 artanh(z / (2 + z))
        let argument = (&rest << FIXED) / (one(FIXED + 1) + &rest);
        let logarithm = of_f64(guess) + odd_series(&argument, 1) * 2 + &*LN_2 * twos;
        Self::fixed(logarithm, sum(self.error - (self.magnitude() - 2.0), FUNCTION_ERROR))
    }

    pub(crate) fn sine_and_cosine(&self) -> Option<(Self, Self)> {
        let number = self.to_fixed(20.0)?;
        let half = &*PI >> 1;
        let quarters = floor(&(&number + (&half >> 1)), &half)?;
        let (sine, cosine) = sine_and_cosine_fixed(&(number - half * quarters));
        let (sine, cosine) = match quarters.rem_euclid(4) {
            0 => (sine, cosine),
            1 => (cosine, -sine),
            2 => (-sine, -cosine),
            _ => (-cosine, sine),
        };
        let error = sum(self.error, FUNCTION_ERROR);
        Some((Self::fixed(sine, error)?, Self::fixed(cosine, error)?))
    }

    pub(crate) fn arctangent(&self) -> Option<Self> {
        // Arctangents of numbers above 2⁶⁰ are not computed: they are too close to a right angle to compare.
        if self.magnitude() > 60.0 {
            return None;
        }
        if self.magnitude() > 1.0 {
            let right = Self::fixed(&*PI >> 1, FUNCTION_ERROR)?;
            let rest = Self::rounded(BigInt::from(1), 0, f64::NEG_INFINITY)?.over(self)?.arctangent()?;
            let right = if self.is_negative()? { right.negated() } else { right };
            return right.plus(&rest.negated());
        }
        let number = self.to_fixed(1.0)?;
        let guess = to_f64(&number).atan();
        let (sine, cosine) = sine_and_cosine_fixed(&of_f64(guess));
        // arctan x − y = arctan((x cos y − sin y) / (cos y + x sin y))
        let above: BigInt = ((&number * &cosine) >> FIXED) - &sine;
        let below: BigInt = cosine + ((number * sine) >> FIXED);
        let rest = odd_series(&((above << FIXED) / below), -1);
        Self::fixed(of_f64(guess) + rest, sum(self.error, FUNCTION_ERROR))
    }

    /// Returns the floor. None if the error interval crosses an integer, or if the number is too large.
    pub(crate) fn floor(&self) -> Option<BigInt> {
        let number = self.to_fixed(220.0)?;
        let error = Self::rounded(BigInt::from(1), (self.error.max(-600.0) as i64) + 2, 0.0)?.to_fixed_exactly();
        let (low, high) = (&number - &error, number + error);
        let (low, high): (BigInt, BigInt) = (low >> FIXED, high >> FIXED);
        (low == high).then_some(low)
    }

    fn to_fixed_exactly(&self) -> BigInt {
        let shift = self.exponent + FIXED as i64;
        if shift >= 0 { &self.mantissa << shift } else { &self.mantissa >> -shift }
    }
}

fn sum(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY || low.is_nan() { high } else { high + (1.0 + (low - high).exp2()).log2() }
}

fn floor(number: &BigInt, unit: &BigInt) -> Option<i64> {
    use num_integer::Integer;
    i64::try_from(number.div_floor(unit)).ok()
}

fn to_f64(number: &BigInt) -> f64 {
    let shortened: BigInt = number >> (FIXED - 61);
    i64::try_from(shortened).map_or(f64::NAN, |short| short as f64 / (1_u64 << 61) as f64)
}

fn of_f64(number: f64) -> BigInt {
    BigInt::from((number * (1_u64 << 60) as f64) as i64) << (FIXED - 60)
}

fn exp_fixed(number: &BigInt) -> BigInt {
    const HALVED: u64 = 8;
    let reduced = number >> HALVED;
    let (mut sum, mut term, mut place) = (one(FIXED), one(FIXED), 0_u32);
    while term.sign() != Sign::NoSign && place < 400 {
        place += 1;
        term = toward_zero(&term * &reduced) / place;
        sum += &term;
    }
    for _ in 0..HALVED {
        sum = (&sum * &sum) >> FIXED;
    }
    sum
}

fn sine_and_cosine_fixed(number: &BigInt) -> (BigInt, BigInt) {
    let (mut sums, mut term, mut place) = ([BigInt::from(0), one(FIXED)], one(FIXED), 0_u32);
    while term.sign() != Sign::NoSign && place < 400 {
        place += 1;
        term = toward_zero(&term * number) / place;
        let sum = &mut sums[usize::from(place % 2 == 0)];
        if place % 4 < 2 { *sum += &term } else { *sum -= &term }
    }
    let [sine, cosine] = sums;
    (sine, cosine)
}

fn odd_series(number: &BigInt, sign: i64) -> BigInt {
    let square = (number * number) >> FIXED;
    let (mut power, mut sum, mut place, mut signed) = (number.clone(), BigInt::from(0), 1_i64, 1);
    while power.sign() != Sign::NoSign && place < 400 {
        sum += &power * signed / place;
        power = toward_zero(&power * &square);
        place += 2;
        signed *= sign;
    }
    sum
}

/// Rescales a product of two fixed-point numbers. A plain shift would round negative ones down and never reach zero.
fn toward_zero(product: BigInt) -> BigInt {
    match product.sign() {
        Sign::Minus => -(-product >> FIXED),
        _ => product >> FIXED,
    }
}
