//! The right side of products in panels, the layout that tiles read. Weights are packed once. A tile needs two vectors
//! of each row of the right side. In a matrix these are a whole row apart, or scattered if it is transposed; in a panel
//! they are consecutive.
#![allow(unsafe_code, reason = "transposing is only as fast as copying by instructions that have to be there")]

use pulp::{Arch, Simd, WithSimd};

use super::at_least;
use super::matrix::Matrix;

pub(super) const VECTORS: usize = 2;

/// A matrix in panels of columns, as wide as a tile; the rows of a panel are stored in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panels<'a> {
    pub values: &'a [f32],
    pub depth: usize,
    pub columns: usize,
    pub line: usize,
    pub panel: usize,
}

impl<'a> Panels<'a> {
    pub(crate) fn new(values: &'a [f32], (depth, columns): (usize, usize), line: usize, panel: usize) -> Self {
        let width = panel_width();
        let last = columns.saturating_sub(1) / width * panel + depth.saturating_sub(1) * line + width;
        assert!(depth == 0 || columns == 0 || last <= values.len(), "{last} values of panels exceed {}", values.len());
        Self { values, depth, columns, line, panel }
    }

    /// A submatrix from a first row and a first column on, which must begin a panel.
    pub(crate) fn part(self, (line, depth): (usize, usize), (column, columns): (usize, usize)) -> Self {
        let from = line * self.line + column / panel_width() * self.panel;
        Self::new(&self.values[from..], (depth, columns), self.line, self.panel)
    }
}

pub(super) fn panel_width() -> usize {
    struct Width;

    impl WithSimd for Width {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES * VECTORS
        }
    }

    Arch::new().dispatch(Width)
}

pub(super) fn order<'a>(matrix: Matrix, to: &'a mut Vec<f32>) -> Panels<'a> {
    let (depth, width) = (matrix.rows, panel_width());
    let to = on_lines(to, matrix.columns.next_multiple_of(width) * depth);
    for (panel, to) in to.chunks_exact_mut(depth * width).enumerate() {
        let first = panel * width;
        copy(matrix.part((0, depth), (first, width.min(matrix.columns - first))), to, width);
    }
    Panels::new(to, (depth, matrix.columns), width, depth * width)
}

/// A part of an array that begins at a cache line, so that vectors never cross one.
fn on_lines(array: &mut Vec<f32>, length: usize) -> &mut [f32] {
    const LINE: usize = 16;
    let all = at_least(array, length + LINE);
    let first = all.as_ptr().align_offset(size_of::<[f32; LINE]>());
    &mut all[first..][..length]
}

fn copy(matrix: Matrix, to: &mut [f32], width: usize) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if matrix.column_stride != 1
        && matrix.row_stride == 1
        && width.is_multiple_of(8)
        && std::arch::is_x86_feature_detected!("avx")
    {
        // SAFETY: AVX is present.
        unsafe { squares::transpose(matrix, to, width) };
        done = matrix.rows / 8 * 8;
    }
    for (line, to) in to.chunks_exact_mut(width).enumerate().skip(done) {
        let (own, beyond) = to.split_at_mut(matrix.columns);
        let from = &matrix.values[line * matrix.row_stride..];
        match matrix.column_stride {
            1 => own.copy_from_slice(&from[..matrix.columns]),
            stride => own.iter_mut().enumerate().for_each(|(column, to)| *to = from[column * stride]),
        }
        beyond.fill(0.0);
    }
}

#[cfg(target_arch = "x86_64")]
mod squares {
    use std::arch::x86_64::{
        __m256, _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };

    use super::Matrix;

    /// Transposes the 8 × 8 squares of a panel. Columns are contiguous; the panel's width is a multiple of 8.
    #[target_feature(enable = "avx")]
    pub(super) fn transpose(matrix: Matrix, to: &mut [f32], width: usize) {
        for column in (0..width).step_by(8) {
            for line in (0..matrix.rows / 8 * 8).step_by(8) {
                let mut square = [_mm256_setzero_ps(); 8];
                for (own, column) in square.iter_mut().zip(column..matrix.columns) {
                    let from = &matrix.values[column * matrix.column_stride + line..][..8];
                    // SAFETY: `from` has eight numbers.
                    *own = unsafe { _mm256_loadu_ps(from.as_ptr()) };
                }
                for (own, line) in transposed(square).into_iter().zip(line..) {
                    let to = &mut to[line * width + column..][..8];
                    // SAFETY: `to` has eight numbers.
                    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), own) };
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx")]
    fn transposed(x: [__m256; 8]) -> [__m256; 8] {
        let pairs: [__m256; 8] = std::array::from_fn(|i| match i % 2 {
            0 => _mm256_unpacklo_ps(x[i], x[i + 1]),
            _ => _mm256_unpackhi_ps(x[i - 1], x[i]),
        });
        // Columns of four rows: 0 and 4 of the first four, 1 and 5, 2 and 6, 3 and 7, then of the last four.
        let fours: [__m256; 8] = std::array::from_fn(|i| {
            let first = i / 4 * 4 + i % 4 / 2;
            match i % 2 {
                0 => _mm256_shuffle_ps::<0x44>(pairs[first], pairs[first + 2]),
                _ => _mm256_shuffle_ps::<0xee>(pairs[first], pairs[first + 2]),
            }
        });
        std::array::from_fn(|i| match i / 4 {
            0 => _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]),
            _ => _mm256_permute2f128_ps::<0x31>(fours[i - 4], fours[i]),
        })
    }
}
