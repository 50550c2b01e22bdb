//! Random choices that are the same on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A stream of choices that depends only on the seed and the row.
///
/// Numbers in a range are drawn here, because the values of `rand`'s distributions may change with its version.
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Creates the stream of one row under one seed. Rows are independent.
    pub fn new(seed: u64, row: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(row);
        Self(generator)
    }

    /// Draws a number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.0.next_u64()) * end as u128) >> 64) as usize
    }

    pub fn between(&mut self, first: i64, last: i64) -> i64 {
        first + self.below((last - first + 1) as usize) as i64
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T: ?Sized>(&mut self, among: &[&'a T]) -> &'a T {
        among[self.below(among.len())]
    }

    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (place, weight) in weights.iter().enumerate() {
            if left < *weight {
                return place;
            }
            left -= weight;
        }
        weights.len() - 1
    }

    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.below(last + 1));
        }
    }

    pub fn bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_falls_the_same_each_time_and_unlike_the_next() {
        let draw = |seed, row| {
            let mut dice = Dice::new(seed, row);
            std::array::from_fn::<_, 8, _>(|_| dice.below(1000))
        };
        assert_eq!(draw(1, 5), draw(1, 5));
        assert_ne!(draw(1, 5), draw(1, 6));
        assert_ne!(draw(1, 5), draw(2, 5));
    }

    #[test]
    fn choices_stay_in_their_range_and_reach_its_ends() {
        let mut dice = Dice::new(3, 0);
        let drawn: Vec<_> = (0..500).map(|_| dice.between(-2, 3)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&-2), Some(&3)));
        let places: Vec<_> = (0..500).map(|_| dice.weighted(&[1, 0, 3])).collect();
        assert!(places.contains(&0) && !places.contains(&1) && places.contains(&2));
    }
}
