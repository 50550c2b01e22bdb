//! The cost limits of a comparison.

const STEPS: u64 = 500_000;
/// The maximum bits of a numerator or denominator: 3,000 digits.
pub(crate) const MAX_BITS: u64 = 10_000;

#[derive(Debug)]
pub(crate) struct Work {
    left: u64,
    is_doubtful: bool,
    has_left_reals: bool,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self { left: STEPS, is_doubtful: false, has_left_reals: false }
    }

    /// Spends `steps`. None if fewer are left, and from then on.
    pub(crate) fn spend(&mut self, steps: u64) -> Option<()> {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map(|_| ())
    }

    /// Notes that an answer has two readings.
    pub(crate) fn doubt<T>(&mut self) -> Option<T> {
        self.is_doubtful = true;
        None
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Notes an even root of a number below zero.
    pub(crate) fn leave_reals(&mut self) {
        self.has_left_reals = true;
    }

    /// Whether such a root was taken since the last call.
    pub(crate) fn has_left_reals(&mut self) -> bool {
        std::mem::take(&mut self.has_left_reals)
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Spends the steps of a product and a greatest common divisor of numbers with `bits`. None if they are too long.
    pub(crate) fn spend_on_bits(&mut self, bits: u64) -> Option<()> {
        if bits > MAX_BITS {
            return None;
        }
        self.spend(20 + bits * bits / 256)
    }

    /// Spends the steps of a product, or of a division without remainder, of numbers with `bits`.
    pub(crate) fn spend_on_product(&mut self, bits: u64) -> Option<()> {
        if bits > MAX_BITS {
            return None;
        }
        self.spend(10 + bits * bits / 4_096)
    }
}
