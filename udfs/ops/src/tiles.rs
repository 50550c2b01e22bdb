//! Matrix products in f32, tile by tile of the result. The sums of a tile stay in registers while its panels stream by.
//!
//! The right side comes in panels as wide as a tile, with each of its rows contiguous. Panels of weights are packed
//! once, others for each product. The left side is read in place, by rows or by columns. The order of additions depends
//! only on the depth of a product, not on the number of cores or on neighboring rows.
#![allow(unsafe_code, reason = "bounds are checked once a product, not once a number")]

use std::cell::RefCell;
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::matrix::{Matrix, Update};
use super::panels::{Panels, VECTORS, order};

const DEPTH: usize = 512;
/// Columns of the right side that are packed together: with `DEPTH` rows they take half of an L2 cache.
const COLUMNS: usize = 256;
/// f32 numbers in 4 KiB. Addresses this far apart map to the same few sets of an L1 cache.
const PAGE: usize = 1024;
/// Columns of the left side to prefetch ahead.
const AHEAD: usize = 16;

#[derive(Debug, Clone, Copy)]
pub(super) enum Right<'a> {
    Matrix(Matrix<'a>),
    Panels(Panels<'a>),
}

impl Right<'_> {
    pub(crate) fn shape(&self) -> (usize, usize) {
        match self {
            Self::Matrix(matrix) => (matrix.rows, matrix.columns),
            Self::Panels(panels) => (panels.depth, panels.columns),
        }
    }

    pub(crate) fn columns(self, columns: Range<usize>) -> Self {
        let (lines, columns) = ((0, self.shape().0), (columns.start, columns.len()));
        match self {
            Self::Matrix(matrix) => Self::Matrix(matrix.part(lines, columns)),
            Self::Panels(panels) => Self::Panels(panels.part(lines, columns)),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub to: *mut f32,
    pub width: usize,
    pub scale: f32,
    pub write: Update,
}

/// Computes left · right into the target on the calling thread.
///
/// # Safety
/// The target's rows and columns are valid memory, and nothing else reads or writes them.
pub(super) unsafe fn product(left: Matrix, right: Right, target: Target) {
    assert_eq!(left.columns, right.shape().0, "inner dimensions");
    ROOM.with_borrow_mut(|room| Arch::new().dispatch(Product { left, right, target, room }));
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

#[derive(Debug, Default)]
struct Room {
    panels: Vec<f32>,
    rows: Vec<f32>,
}

struct Product<'a> {
    left: Matrix<'a>,
    right: Right<'a>,
    target: Target,
    room: &'a mut Room,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Registers: two sums per row, two vectors of the right side, one number of the left.
        if S::REGISTER_COUNT >= 32 { self.compute::<S, 12>(simd) } else { self.compute::<S, 6>(simd) }
    }
}

fn part(all: usize, most: usize) -> usize {
    all.div_ceil(all.div_ceil(most).max(1)).max(1)
}

impl Product<'_> {
    #[inline(always)]
    fn compute<S: Simd, const ROWS: usize>(self, simd: S) {
        let Self { left, right, target, room: Room { panels, rows: copied } } = self;
        let (depth, width) = right.shape();
        let (lines, wide) = (part(depth, DEPTH), part(width, COLUMNS).next_multiple_of(S::F32_LANES * VECTORS));
        // The loop over depth is outside: copied rows of the left side stay cached across the columns.
        for line in (0..depth).step_by(lines) {
            let own_lines = lines.min(depth - line);
            let left = left.part((0, left.rows), (line, own_lines));
            let write = if line == 0 { target.write } else { Update::Add };
            for column in (0..width).step_by(wide) {
                let own_columns = wide.min(width - column);
                let right = match &right {
                    Right::Matrix(matrix) => order(matrix.part((line, own_lines), (column, own_columns)), panels),
                    Right::Panels(panels) => panels.part((line, own_lines), (column, own_columns)),
                };
                let to = target.to.wrapping_add(column);
                rows::<S, ROWS>(simd, left, right, Target { to, write, ..target }, copied);
            }
        }
    }
}

#[inline(always)]
fn rows<S: Simd, const ROWS: usize>(simd: S, left: Matrix, right: Panels, target: Target, copied: &mut Vec<f32>) {
    let is_row = left.column_stride == 1;
    for first in (0..left.rows).step_by(ROWS) {
        let height = ROWS.min(left.rows - first);
        let mut left = left.part((first, height), (0, left.columns));
        if is_row && left.row_stride.is_multiple_of(PAGE) {
            left = copy_rows(left, copied);
        }
        let step = if is_row { left.row_stride } else { left.column_stride };
        let target = Target { to: target.to.wrapping_add(first * target.width), ..target };
        simd.vectorize(Sized::<ROWS>(TileRow { from: left.values.as_ptr(), step, is_row, height, right, target }));
    }
}

fn copy_rows<'a>(rows: Matrix, to: &'a mut Vec<f32>) -> Matrix<'a> {
    let step = rows.columns + 16;
    let to = super::at_least(to, rows.rows * step);
    for (row, to) in to.chunks_exact_mut(step).enumerate() {
        to[..rows.columns].copy_from_slice(&rows.values[row * rows.row_stride..][..rows.columns]);
    }
    Matrix::new(to, (rows.rows, rows.columns), (step, 1))
}

struct TileRow<'a> {
    from: *const f32,
    /// Distance between rows of the left side, or between columns.
    step: usize,
    is_row: bool,
    height: usize,
    right: Panels<'a>,
    target: Target,
}

struct Sized<'a, const ROWS: usize>(TileRow<'a>);

impl<const ROWS: usize> WithSimd for Sized<'_, ROWS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        /// Micro-kernels with a height that is constant at compile time, so that their sums are registers.
        macro_rules! by_height {
            ($($height:literal)*) => {
                match (self.0.height, self.0.is_row) {
                    $(($height, true) => self.0.compute::<S, $height, true>(simd),
                    ($height, false) => self.0.compute::<S, $height, false>(simd),)*
                    _ => {}
                }
            };
        }
        if ROWS == 12 { by_height!(1 2 3 4 5 6 7 8 9 10 11 12) } else { by_height!(1 2 3 4 5 6) }
    }
}

impl TileRow<'_> {
    #[inline(always)]
    fn compute<S: Simd, const HEIGHT: usize, const IS_ROW: bool>(self, simd: S) {
        let width = S::F32_LANES * VECTORS;
        let Target { width: to_width, scale, write, .. } = self.target;
        let scale = simd.splat_f32s(scale);
        for (panel, column) in (0..self.right.columns).step_by(width).enumerate() {
            let lines = self.right.values[panel * self.right.panel..].as_ptr();
            let to: [*mut f32; HEIGHT] =
                std::array::from_fn(|row| self.target.to.wrapping_add(row * to_width + column));
            to.iter().for_each(|to| (0..width).step_by(16).for_each(|line| ask_for::<L1>(to.wrapping_add(line))));
            let sums = self.sums::<S, HEIGHT, IS_ROW>(simd, lines);
            let columns = width.min(self.right.columns - column);
            if columns == width {
                for (to, sums) in to.iter().zip(&sums) {
                    for (vector, sum) in sums.iter().enumerate() {
                        let to = to.wrapping_add(vector * S::F32_LANES).cast::<S::f32s>();
                        // SAFETY: the caller of `product` guarantees these rows and columns of the target.
                        unsafe {
                            to.write_unaligned(match write {
                                Update::Replace => simd.mul_f32s(*sum, scale),
                                Update::Add => simd.mul_add_e_f32s(*sum, scale, to.read_unaligned()),
                            });
                        }
                    }
                }
                continue;
            }
            for (to, sums) in to.into_iter().zip(sums) {
                // SAFETY: as above, for the remaining columns.
                let to = unsafe { std::slice::from_raw_parts_mut(to, columns) };
                for (to, sum) in to.chunks_mut(S::F32_LANES).zip(sums) {
                    let value = match write {
                        Update::Replace => simd.mul_f32s(sum, scale),
                        Update::Add => simd.mul_add_e_f32s(sum, scale, simd.partial_load_f32s(to)),
                    };
                    simd.partial_store_f32s(to, value);
                }
            }
        }
    }

    #[inline(always)]
    fn sums<S: Simd, const HEIGHT: usize, const IS_ROW: bool>(
        &self,
        simd: S,
        lines: *const f32,
    ) -> [[S::f32s; VECTORS]; HEIGHT] {
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; HEIGHT];
        let rows: [*const f32; HEIGHT] =
            std::array::from_fn(|row| self.from.wrapping_add(if IS_ROW { row * self.step } else { row }));
        for line in 0..self.right.depth {
            let right: [S::f32s; VECTORS] = std::array::from_fn(|vector| {
                let from = lines.wrapping_add(line * self.right.line + vector * S::F32_LANES);
                // SAFETY: `Panels` has whole rows in each panel that has columns.
                unsafe { from.cast::<S::f32s>().read_unaligned() }
            });
            if !IS_ROW {
                // Columns are too far apart for the hardware prefetcher.
                ask_for::<L1>(self.from.wrapping_add((line + AHEAD) * self.step));
            }
            for (row, sums) in rows.iter().zip(&mut sums) {
                // SAFETY: the left side has a number in each of these rows for each row of the right side: its matrix
                // was checked, and a copy is as large.
                let x = simd.splat_f32s(unsafe { *row.wrapping_add(if IS_ROW { line } else { line * self.step }) });
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = simd.mul_add_e_f32s(x, right, *sum);
                }
            }
        }
        sums
    }
}

/// The caches of [`ask_for`].
pub(super) const L1: i32 = 3;
pub(super) const L2: i32 = 2;

/// Prefetches the cache line of a number into this cache.
#[inline(always)]
pub(super) fn ask_for<const CACHE: i32>(number: *const f32) {
    // SAFETY: a prefetch is a hint and reads nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<CACHE>(number.cast());
    }
}
