//! Exact numbers: fractions of integers of any length, within [`Work`]'s bounds.

use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer;

use crate::numbers::work::{MAX_BITS, Work};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Rational {
    numerator: BigInt,
    denominator: BigInt,
}

/// Numbers of more bits are divided before a common divisor is looked for.
const LONG: u64 = 512;

impl Rational {
    pub(crate) fn integer(number: impl Into<BigInt>) -> Self {
        Self { numerator: number.into(), denominator: BigInt::from(1) }
    }

    /// None if the denominator is zero or the numbers are too long.
    pub(crate) fn quotient(numerator: BigInt, denominator: BigInt, work: &mut Work) -> Option<Self> {
        if denominator.sign() == Sign::NoSign {
            return None;
        }
        let bits = numerator.bits().max(denominator.bits());
        let mut divisor = None;
        // A division is much cheaper than the greatest common divisor, and factorials often divide.
        if bits > LONG && numerator.sign() != Sign::NoSign {
            work.spend_on_product(bits)?;
            let is_above = numerator.bits() > denominator.bits();
            let (long, short) = if is_above { (&numerator, &denominator) } else { (&denominator, &numerator) };
            divisor = (long % short).sign().eq(&Sign::NoSign).then(|| BigInt::from(short.magnitude().clone()));
        }
        let divisor = match divisor {
            Some(divisor) => divisor,
            None => {
                work.spend_on_bits(bits)?;
                numerator.gcd(&denominator)
            }
        };
        let divisor = if denominator.sign() == Sign::Minus { -divisor } else { divisor };
        match divisor == BigInt::from(1) {
            true => Some(Self { numerator, denominator }),
            false => Some(Self { numerator: numerator / &divisor, denominator: denominator / &divisor }),
        }
    }

    /// Parses decimal digits, of which the first `whole` stand before the point. The digits from index `repeated` on recur
    /// forever.
    pub(crate) fn decimal(digits: &str, whole: usize, repeated: Option<usize>, work: &mut Work) -> Option<Self> {
        let power = |zeros: usize| BigInt::from(10).pow(u32::try_from(zeros).unwrap_or(u32::MAX));
        work.spend_on_bits(digits.len() as u64 * 4)?;
        let all: BigInt = digits.parse().ok()?;
        match repeated {
            None => Self::quotient(all, power(digits.len() - whole), work),
            Some(from) => {
                let once: BigInt = if from == 0 { BigInt::from(0) } else { digits[..from].parse().ok()? };
                let nines = power(digits.len() - from) - 1;
                Self::quotient(all - once, nines * power(from - whole), work)
            }
        }
    }

    pub(crate) fn numerator(&self) -> &BigInt {
        &self.numerator
    }

    pub(crate) fn denominator(&self) -> &BigInt {
        &self.denominator
    }

    pub(crate) fn bits(&self) -> u64 {
        self.numerator.bits().max(self.denominator.bits())
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.sign() == Sign::NoSign
    }

    pub(crate) fn sign(&self) -> Sign {
        self.numerator.sign()
    }

    pub(crate) fn to_integer(&self) -> Option<i64> {
        (self.is_integer()).then(|| i64::try_from(&self.numerator).ok()).flatten()
    }

    pub(crate) fn is_integer(&self) -> bool {
        self.denominator == BigInt::from(1)
    }

    pub(crate) fn floor(&self) -> Self {
        Self::integer(self.numerator.div_floor(&self.denominator))
    }

    pub(crate) fn negated(&self) -> Self {
        Self { numerator: -&self.numerator, denominator: self.denominator.clone() }
    }

    pub(crate) fn plus(&self, other: &Self, work: &mut Work) -> Option<Self> {
        if self.is_integer() && other.is_integer() {
            let sum = &self.numerator + &other.numerator;
            work.spend(10 + sum.bits() / 64)?;
            return (sum.bits() <= MAX_BITS).then(|| Self::integer(sum));
        }
        let above = &self.numerator * &other.denominator + &other.numerator * &self.denominator;
        Self::quotient(above, &self.denominator * &other.denominator, work)
    }

    pub(crate) fn minus(&self, other: &Self, work: &mut Work) -> Option<Self> {
        self.plus(&other.negated(), work)
    }

    pub(crate) fn times(&self, other: &Self, work: &mut Work) -> Option<Self> {
        let (above, below) = (&self.numerator * &other.numerator, &self.denominator * &other.denominator);
        if self.is_integer() && other.is_integer() {
            work.spend_on_product(above.bits())?;
            return Some(Self::integer(above));
        }
        Self::quotient(above, below, work)
    }

    pub(crate) fn inverted(&self) -> Option<Self> {
        match self.sign() {
            Sign::NoSign => None,
            Sign::Plus => Some(Self { numerator: self.denominator.clone(), denominator: self.numerator.clone() }),
            Sign::Minus => Some(Self { numerator: -&self.denominator, denominator: -&self.numerator }),
        }
    }

    /// None for 0⁰, a division by zero, and too long results.
    pub(crate) fn power(&self, exponent: i64, work: &mut Work) -> Option<Self> {
        if self.is_zero() {
            return (exponent > 0).then(|| self.clone());
        }
        let base = if exponent < 0 { self.inverted()? } else { self.clone() };
        let times = exponent.unsigned_abs();
        let is_unit = base.is_integer() && base.numerator.magnitude() == &BigUint::from(1_u8);
        let times = if is_unit { times % 2 } else { times };
        work.spend_on_product(base.bits().checked_mul(times)?)?;
        let times = u32::try_from(times).ok()?;
        Some(Self { numerator: base.numerator.pow(times), denominator: base.denominator.pow(times) })
    }

    pub(crate) fn root(&self, degree: u32, work: &mut Work) -> Option<Self> {
        work.spend_on_bits(4 * self.bits())?;
        let (above, below) = (self.numerator.magnitude(), self.denominator.magnitude());
        let roots = (above.nth_root(degree), below.nth_root(degree));
        let is_exact = roots.0.pow(degree) == *above && roots.1.pow(degree) == *below;
        is_exact.then(|| Self { numerator: roots.0.into(), denominator: roots.1.into() })
    }
}
