//! Products of bf16 numbers with AVX-512 dot products; the sums of a tile stay in registers.
#![allow(unsafe_code, reason = "the bf16 instructions are only reached by intrinsics that take pointers")]

use std::arch::x86_64::{
    __m512bh, __m512i, __mmask16, _mm512_add_ps, _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_load_si512,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_epi32, _mm512_setzero_ps,
};

use super::lines::{Line, PAIRS_AT_ONCE, PANEL};
use super::matrix::Update;

/// Rows of activations per tile: 24 sums, four vectors of weights and a pair fill 29 of 32 registers.
pub(crate) const ROWS: usize = 6;

pub(crate) fn is_there() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16")
}

pub(crate) struct Tile<'a> {
    pub weights: &'a [Line],
    pub x: &'a [u32],
    pub x_stride: usize,
    pub from: usize,
    pub to: &'a mut [f32],
    pub to_width: usize,
    pub write: Update,
}

impl Tile<'_> {
    pub(crate) fn multiply(self) {
        assert!(is_there(), "AVX-512 BF16");
        let rows = self.to.len() / self.to_width;
        let pairs = self.weights.len() / (PANEL / 16);
        assert!(rows > 0 && (rows - 1) * self.x_stride + pairs <= self.x.len(), "pairs of a tile");
        assert!(self.from < self.to_width, "outputs of a tile");
        // SAFETY: the assertions check what the kernel needs: the instructions are present, each row has as many pairs
        // as the weights, and `to` has that many rows.
        unsafe {
            match rows {
                1 => tile::<1>(self),
                2 => tile::<2>(self),
                3 => tile::<3>(self),
                4 => tile::<4>(self),
                5 => tile::<5>(self),
                _ => tile::<ROWS>(self),
            }
        }
    }
}

/// Computes `N` rows of a tile.
///
/// # Safety
/// The CPU has AVX-512 BF16. `x` has as many pairs for each of N rows as there are weights. `to` has N rows, and `from`
/// is inside a row.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn tile<const N: usize>(tile: Tile) {
    const VECTORS: usize = PANEL / 16;
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; N];
    let rows: [*const u32; N] = std::array::from_fn(|row| tile.x.as_ptr().wrapping_add(row * tile.x_stride));
    for (pair, lines) in tile.weights.as_chunks::<VECTORS>().0.iter().enumerate() {
        // SAFETY: a line is 64 aligned bytes, and vectors of integers and of bf16 numbers are the same bits.
        let weights: [__m512bh; VECTORS] = std::array::from_fn(|i| unsafe {
            std::mem::transmute::<__m512i, __m512bh>(_mm512_load_si512(lines[i].0.as_ptr().cast()))
        });
        for (row, sums) in rows.iter().zip(&mut sums) {
            // SAFETY: the caller guarantees a pair in each row for each group of lines.
            let x = unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(*row.add(pair) as i32)) };
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = _mm512_dpbf16_ps(*sum, weights, x);
            }
        }
    }
    let count = (tile.to_width - tile.from).min(PANEL);
    for (row, sums) in sums.iter().enumerate() {
        for (i, sum) in sums.iter().enumerate().take_while(|(i, _)| i * 16 < count) {
            let mask = u16::MAX >> (16 - (count - i * 16).min(16)) as __mmask16;
            let to = tile.to.as_mut_ptr().wrapping_add(row * tile.to_width + tile.from + i * 16);
            // SAFETY: the mask leaves only outputs of this row, which the caller guarantees.
            unsafe {
                let before =
                    if tile.write == Update::Add { _mm512_maskz_loadu_ps(mask, to) } else { _mm512_setzero_ps() };
                _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(before, *sum));
            }
        }
    }
}

/// Rounds a row to bf16, as pairs in whole groups of [`PAIRS_AT_ONCE`]. The pairs after the row become zero.
pub(super) fn round(row: &[f32], to: &mut [u32]) {
    let (groups, rest) = to.as_chunks_mut::<PAIRS_AT_ONCE>();
    assert!(rest.is_empty() && row.len() <= groups.len() * 2 * PAIRS_AT_ONCE, "room for the pairs of a row");
    assert!(is_there(), "AVX-512 BF16");
    // SAFETY: AVX-512 BF16 is present.
    unsafe { round_groups(row, groups) };
}

#[target_feature(enable = "avx512f,avx512bf16")]
fn round_groups(row: &[f32], groups: &mut [[u32; PAIRS_AT_ONCE]]) {
    let (own, beyond) = groups.split_at_mut(row.len().div_ceil(2 * PAIRS_AT_ONCE));
    for (numbers, to) in row.chunks(2 * PAIRS_AT_ONCE).zip(own) {
        let mask = u32::MAX >> (32 - numbers.len());
        let [low, high] = [0, 16].map(|from| {
            // SAFETY: the mask leaves only numbers of this chunk.
            unsafe { _mm512_maskz_loadu_ps((mask >> from) as __mmask16, numbers.as_ptr().wrapping_add(from)) }
        });
        // SAFETY: both types are 64 bytes, of which any are 16 pairs.
        *to = unsafe { std::mem::transmute::<__m512bh, [u32; PAIRS_AT_ONCE]>(_mm512_cvtne2ps_pbh(high, low)) };
    }
    beyond.as_flattened_mut().fill(0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bf16::nearest;

    proptest! {
        #[test]
        fn rounded_pairs_agree_with_the_definition(row in prop::collection::vec(-1e30_f32..1e30, 0..100)) {
            if !is_there() {
                return Ok(());
            }
            let mut found = vec![u32::MAX; 64];
            round(&row, &mut found);
            let bits = |place: usize| row.get(place).map_or(0, |x| nearest(*x));
            let expected: Vec<u32> = (0..64).map(|pair| bits(2 * pair) | bits(2 * pair + 1) << 16).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
