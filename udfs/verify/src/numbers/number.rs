//! Complex numbers: exact fractions where possible, else 120 digits.

use num_bigint::Sign;

use crate::numbers::ball::Ball;
use crate::numbers::rational::Rational;
use crate::numbers::work::Work;

/// The cost of an addition or a product of balls, in steps of [`Work`].
const BALL: u64 = 60;
const FUNCTION: u64 = 1_000;

#[derive(Debug, Clone)]
pub(crate) enum Number {
    Exact(Rational),
    Gauss(Rational, Rational),
    Real(Ball),
    Complex(Ball, Ball),
}

use Number::{Complex, Exact, Gauss, Real};

impl Number {
    pub(crate) fn integer(number: i64) -> Self {
        Exact(Rational::integer(number))
    }

    pub(crate) fn i() -> Self {
        Gauss(Rational::integer(0), Rational::integer(1))
    }

    pub(crate) fn pi() -> Option<Self> {
        Ball::pi().map(Real)
    }

    fn gauss(re: Rational, im: Rational) -> Self {
        if im.is_zero() { Exact(re) } else { Gauss(re, im) }
    }

    fn fractions(&self) -> Option<(Rational, Rational)> {
        match self {
            Exact(number) => Some((number.clone(), Rational::integer(0))),
            Gauss(re, im) => Some((re.clone(), im.clone())),
            Real(_) | Complex(..) => None,
        }
    }

    fn balls(&self) -> Option<(Ball, Ball)> {
        Some(match self {
            Exact(number) => (Ball::of(number)?, Ball::zero()),
            Gauss(re, im) => (Ball::of(re)?, Ball::of(im)?),
            Real(number) => (number.clone(), Ball::zero()),
            Complex(re, im) => (re.clone(), im.clone()),
        })
    }

    fn is_real(&self) -> bool {
        matches!(self, Exact(_) | Real(_))
    }

    /// None if it is complex.
    pub(crate) fn real(&self) -> Option<Ball> {
        match self {
            Exact(number) => Ball::of(number),
            Real(number) => Some(number.clone()),
            Gauss(..) => None,
            // A number whose imaginary part is zero within its error is real.
            Complex(re, im) => im.equals(&Ball::zero())?.then(|| re.clone()),
        }
    }

    pub(crate) fn exact(&self) -> Option<&Rational> {
        match self {
            Exact(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn equals(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Exact(a), Exact(b)) => Some(a == b),
            (Gauss(re, im), Gauss(other_re, other_im)) => Some(re == other_re && im == other_im),
            (Exact(_), Gauss(..)) | (Gauss(..), Exact(_)) => Some(false),
            _ => {
                let (a, b) = (self.balls()?, other.balls()?);
                match (a.0.equals(&b.0), a.1.equals(&b.1)) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                }
            }
        }
    }

    pub(crate) fn is_nonzero(&self) -> bool {
        match self {
            Exact(number) => !number.is_zero(),
            Gauss(..) => true,
            Real(number) => !number.may_be_zero(),
            Complex(re, im) => !re.may_be_zero() || !im.may_be_zero(),
        }
    }

    pub(crate) fn negated(&self) -> Self {
        match self {
            Exact(number) => Exact(number.negated()),
            Gauss(re, im) => Gauss(re.negated(), im.negated()),
            Real(number) => Real(number.negated()),
            Complex(re, im) => Complex(re.negated(), im.negated()),
        }
    }

    pub(crate) fn plus(&self, other: &Self, work: &mut Work) -> Option<Self> {
        if let (Exact(a), Exact(b)) = (self, other) {
            return a.plus(b, work).map(Exact);
        }
        if let (Some(a), Some(b)) = (self.fractions(), other.fractions()) {
            return Some(Self::gauss(a.0.plus(&b.0, work)?, a.1.plus(&b.1, work)?));
        }
        work.spend(2 * BALL)?;
        let (a, b) = (self.balls()?, other.balls()?);
        match self.is_real() && other.is_real() {
            true => a.0.plus(&b.0).map(Real),
            false => Some(Complex(a.0.plus(&b.0)?, a.1.plus(&b.1)?)),
        }
    }

    pub(crate) fn minus(&self, other: &Self, work: &mut Work) -> Option<Self> {
        self.plus(&other.negated(), work)
    }

    pub(crate) fn times(&self, other: &Self, work: &mut Work) -> Option<Self> {
        if let (Exact(a), Exact(b)) = (self, other) {
            return a.times(b, work).map(Exact);
        }
        if let (Some(a), Some(b)) = (self.fractions(), other.fractions()) {
            let re = a.0.times(&b.0, work)?.minus(&a.1.times(&b.1, work)?, work)?;
            let im = a.0.times(&b.1, work)?.plus(&a.1.times(&b.0, work)?, work)?;
            return Some(Self::gauss(re, im));
        }
        // Zero times anything is exact.
        if self.exact().is_some_and(Rational::is_zero) || other.exact().is_some_and(Rational::is_zero) {
            return Some(Self::integer(0));
        }
        work.spend(4 * BALL)?;
        let (a, b) = (self.balls()?, other.balls()?);
        if self.is_real() && other.is_real() {
            return a.0.times(&b.0).map(Real);
        }
        let re = a.0.times(&b.0)?.plus(&a.1.times(&b.1)?.negated())?;
        let im = a.0.times(&b.1)?.plus(&a.1.times(&b.0)?)?;
        Some(Complex(re, im))
    }

    fn inverted(&self, work: &mut Work) -> Option<Self> {
        work.spend(4 * BALL)?;
        match self {
            Exact(number) => number.inverted().map(Exact),
            Gauss(re, im) => {
                let square = re.times(re, work)?.plus(&im.times(im, work)?, work)?.inverted()?;
                Some(Self::gauss(re.times(&square, work)?, im.negated().times(&square, work)?))
            }
            Real(number) => Ball::of(&Rational::integer(1))?.over(number).map(Real),
            Complex(re, im) => {
                let square = re.times(re)?.plus(&im.times(im)?)?;
                Some(Complex(re.over(&square)?, im.negated().over(&square)?))
            }
        }
    }

    pub(crate) fn over(&self, divisor: &Self, work: &mut Work) -> Option<Self> {
        self.times(&divisor.inverted(work)?, work)
    }

    pub(crate) fn exp(&self, work: &mut Work) -> Option<Self> {
        work.spend(2 * FUNCTION)?;
        if self.exact().is_some_and(Rational::is_zero) {
            return Some(Self::integer(1));
        }
        let (re, im) = self.balls()?;
        let size = re.exp()?;
        if self.is_real() {
            return Some(Real(size));
        }
        let (sine, cosine) = im.sine_and_cosine()?;
        Some(Complex(size.times(&cosine)?, size.times(&sine)?))
    }

    pub(crate) fn ln(&self, work: &mut Work) -> Option<Self> {
        work.spend(3 * FUNCTION)?;
        if self.exact().is_some_and(|number| number.to_integer() == Some(1)) {
            return Some(Self::integer(0));
        }
        let (re, im) = self.balls()?;
        if self.is_real() {
            return match re.is_negative()? {
                false => re.ln().map(Real),
                true => Some(Complex(re.negated().ln()?, Ball::pi()?)),
            };
        }
        let size = re.times(&re)?.plus(&im.times(&im)?)?.ln()?;
        let half = Ball::of(&Rational::integer(2))?;
        Some(Complex(size.over(&half)?, angle(&re, &im)?))
    }

    pub(crate) fn absolute(&self, work: &mut Work) -> Option<Self> {
        match self {
            Exact(number) if number.sign() == Sign::Minus => Some(self.negated()),
            Exact(_) => Some(self.clone()),
            Real(number) => Some(if number.is_negative()? { self.negated() } else { self.clone() }),
            Gauss(re, im) => Exact(re.times(re, work)?.plus(&im.times(im, work)?, work)?).root(2, work),
            Complex(re, im) => Real(re.times(re)?.plus(&im.times(im)?)?).root(2, work),
        }
    }

    /// Returns the real root if one exists, else the principal one. None if it is ambiguous.
    pub(crate) fn root(&self, degree: u32, work: &mut Work) -> Option<Self> {
        if !(1..=1_000).contains(&degree) {
            return None;
        }
        work.spend(FUNCTION / 4)?;
        let negative = match self {
            Exact(number) if number.is_zero() => return Some(self.clone()),
            Exact(number) => number.sign() == Sign::Minus,
            Real(number) => number.is_negative()?,
            Gauss(..) | Complex(..) => {
                let span = Self::integer(1).over(&Self::integer(i64::from(degree)), work)?;
                return self.ln(work)?.times(&span, work)?.exp(work);
            }
        };
        if negative {
            return match degree {
                2 => {
                    work.leave_reals();
                    self.negated().root(2, work)?.times(&Self::i(), work)
                }
                _ if degree % 2 == 1 => Some(self.negated().root(degree, work)?.negated()),
                _ => None,
            };
        }
        if let Exact(number) = self
            && let Some(root) = number.root(degree, work)
        {
            return Some(Exact(root));
        }
        let number = self.real()?;
        if degree == 2 {
            return number.square_root().map(Real);
        }
        work.spend(2 * FUNCTION)?;
        number.ln()?.over(&Ball::of(&Rational::integer(degree))?)?.exp().map(Real)
    }

    /// Returns the principal power. None if it is ambiguous, such as (−8)^(1/3), or too long.
    pub(crate) fn power(&self, exponent: &Self, work: &mut Work) -> Option<Self> {
        let Some(fraction) = exponent.exact() else {
            return self.ln(work)?.times(exponent, work)?.exp(work);
        };
        if let Some(whole) = fraction.to_integer() {
            return match self {
                Exact(number) => number.power(whole, work).map(Exact),
                _ => self.whole_power(whole, work),
            };
        }
        let degree = u32::try_from(fraction.denominator()).ok();
        let above = i64::try_from(fraction.numerator()).ok();
        match (degree, above, self) {
            (Some(2), Some(above), _) => self.root(2, work)?.power(&Self::integer(above), work),
            (Some(degree), Some(above), Exact(number)) if number.sign() != Sign::Minus && degree <= 100 => {
                self.root(degree, work)?.power(&Self::integer(above), work)
            }
            // Roots that people write; drawn points have a larger denominator.
            (Some(degree), ..) if degree <= 100 && self.is_real() && self.real()?.is_negative()? => None,
            _ => self.ln(work)?.times(exponent, work)?.exp(work),
        }
    }

    fn whole_power(&self, exponent: i64, work: &mut Work) -> Option<Self> {
        match exponent {
            _ if exponent.unsigned_abs() > 1 << 16 => None,
            0 => self.is_nonzero().then(|| Self::integer(1)),
            1 => Some(self.clone()),
            ..0 => self.whole_power(-exponent, work)?.inverted(work),
            _ => {
                let root = self.whole_power(exponent / 2, work)?;
                let square = root.times(&root, work)?;
                if exponent % 2 == 1 { square.times(self, work) } else { Some(square) }
            }
        }
    }

    pub(crate) fn sine_and_cosine(&self, work: &mut Work) -> Option<(Self, Self)> {
        work.spend(FUNCTION)?;
        let (sine, cosine) = self.real()?.sine_and_cosine()?;
        Some((Real(sine), Real(cosine)))
    }

    pub(crate) fn arctangent(&self, work: &mut Work) -> Option<Self> {
        work.spend(2 * FUNCTION)?;
        self.real()?.arctangent().map(Real)
    }

    pub(crate) fn arcsine(&self, work: &mut Work) -> Option<Self> {
        if let Some(unit) = self.exact().and_then(Rational::to_integer) {
            let half = Self::pi()?.over(&Self::integer(2), work)?;
            return match unit {
                1 => Some(half),
                -1 => Some(half.negated()),
                0 => Some(Self::integer(0)),
                _ => None,
            };
        }
        let rest = Self::integer(1).minus(&self.times(self, work)?, work)?.real()?;
        if rest.is_negative()? {
            return None;
        }
        self.over(&Real(rest.square_root()?), work)?.arctangent(work)
    }

    /// Returns the floor. None if the error interval crosses an integer, or if the number is too large.
    pub(crate) fn floor(&self) -> Option<Self> {
        match self {
            Exact(number) => Some(Exact(number.floor())),
            Real(number) => Some(Exact(Rational::integer(number.floor()?))),
            Gauss(..) | Complex(..) => None,
        }
    }
}

fn angle(x: &Ball, y: &Ball) -> Option<Ball> {
    if x.may_be_zero() || steep(x, y) {
        let half = Ball::pi()?.over(&Ball::of(&Rational::integer(2))?)?;
        let rest = x.over(y)?.arctangent()?;
        return if y.is_negative()? { half.negated().plus(&rest.negated()) } else { half.plus(&rest.negated()) };
    }
    let slope = y.over(x)?.arctangent()?;
    if !x.is_negative()? {
        return Some(slope);
    }
    if y.is_negative()? { slope.plus(&Ball::pi()?.negated()) } else { slope.plus(&Ball::pi()?) }
}

fn steep(x: &Ball, y: &Ball) -> bool {
    let sizes = [x, y].map(|span| if span.is_negative() == Some(true) { span.negated() } else { span.clone() });
    sizes[0].plus(&sizes[1].negated()).and_then(|difference| difference.is_negative()).unwrap_or(false)
}
