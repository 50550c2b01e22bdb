//! What a comparison may cost.

const STEPS: u64 = 500_000;
/// Rational numbers have at most this many bits above and below the line: 3,000 digits.
pub(crate) const MAX_BITS: u64 = 10_000;

#[derive(Debug)]
pub(crate) struct Work {
    left: u64,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self { left: STEPS }
    }

    /// Takes so many steps; None if there are not as many left, and from then on.
    pub(crate) fn spend(&mut self, steps: u64) -> Option<()> {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map(|_| ())
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Takes the steps of a product and a greatest common divisor of numbers of so many bits; None if they are too long.
    pub(crate) fn spend_on_bits(&mut self, bits: u64) -> Option<()> {
        if bits > MAX_BITS {
            return None;
        }
        self.spend(20 + bits * bits / 256)
    }
}
