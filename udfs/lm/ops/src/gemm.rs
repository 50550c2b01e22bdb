//! Matrix products of slices.
#![allow(unsafe_code, reason = "cores write columns or rows of one slice; each place says why no two write the same")]

use std::ops::Range;

use super::on_all_cores;
use super::tiles::{Right, Target, panel_width, product};

/// An f32 matrix within a slice.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    pub(super) values: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix whose element (i, j) is `values[i * row_stride + j * column_stride]`.
    ///
    /// # Panics
    /// If an element lies outside `values`, or neither rows nor columns lie without gaps.
    pub fn new(values: &'a [f32], shape: (usize, usize), strides: (usize, usize)) -> Self {
        let ((rows, columns), (row_stride, column_stride)) = (shape, strides);
        let span = |count: usize, stride: usize| count.saturating_sub(1).checked_mul(stride);
        let last = span(rows, row_stride).zip(span(columns, column_stride)).and_then(|(a, b)| a.checked_add(b));
        let inside = rows == 0 || columns == 0 || last.is_some_and(|last| last < values.len());
        assert!(inside, "a {rows} × {columns} matrix does not fit into {} values", values.len());
        assert!(row_stride == 1 || column_stride == 1, "expected rows or columns without gaps");
        Self { values, rows, columns, row_stride, column_stride }
    }

    /// A matrix that is stored row by row without gaps.
    ///
    /// # Panics
    /// As [`Matrix::new`].
    pub fn dense(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::new(values, (rows, columns), (columns, 1))
    }

    /// Its rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// So many rows and columns, from a first one of each on.
    pub(super) fn part(self, (row, rows): (usize, usize), (column, columns): (usize, usize)) -> Self {
        let from = row * self.row_stride + column * self.column_stride;
        Self::new(self.values.get(from..).unwrap_or_default(), (rows, columns), (self.row_stride, self.column_stride))
    }

    /// The transpose.
    pub fn t(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// What a product does to what it finds in its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// The product takes its place.
    Replace,
    /// The product is added to it.
    Add,
}

/// Who computes a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// The calling thread.
    One,
    /// All of them, where the product is large enough.
    All,
}

/// Multiplications that are worth another core.
const WORTH_A_CORE: usize = 1 << 19;

/// Writes `scale` · a · b to `to`, row by row without gaps.
///
/// # Panics
/// If the inner dimensions differ or `to` has another length than the product.
pub fn multiply(a: Matrix, b: Matrix, scale: f32, to: &mut [f32], write: Update, cores: Cores) {
    assert_eq!(a.rows * b.columns, to.len(), "length of the product");
    multiply_right(a, Right::Matrix(b), scale, (to, b.columns), write, cores);
}

/// `to` has rows of `width` numbers, the last of which may end with the product's columns.
///
/// # Panics
/// If the inner dimensions differ or are 0, or `to` has no room for the product.
pub(super) fn multiply_right(
    a: Matrix,
    b: Right,
    scale: f32,
    (to, width): (&mut [f32], usize),
    write: Update,
    cores: Cores,
) {
    let (depth, columns) = b.shape();
    assert!(depth > 0, "something to add up");
    // SAFETY below rests on it: the last row's columns are inside, and rows do not overlap.
    let is_inside = a.rows == 0 || columns <= width && (a.rows - 1) * width + columns <= to.len();
    assert!(is_inside, "room for the product");
    let is_worth_it = cores == Cores::All && a.rows * columns * depth > WORTH_A_CORE;
    let cores = if is_worth_it { rayon::current_num_threads() } else { 1 };
    let place = Place(to.as_mut_ptr());
    let compute = |(rows, columns): (Range<usize>, Range<usize>)| {
        let to = place.at(rows.start * width + columns.start);
        let a = a.part((rows.start, rows.len()), (0, depth));
        // SAFETY: these rows and columns are inside of `to` by the assertion, and no other part has them.
        unsafe { product(a, b.columns(columns), Target { to, width, scale, write }) };
        Ok::<_, std::convert::Infallible>(())
    };
    let _: Result<Vec<()>, _> = on_all_cores(parts(a.rows, columns, cores), compute);
}

/// The rows and columns of each core.
fn parts(rows: usize, columns: usize, cores: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let share = columns.div_ceil(cores).next_multiple_of(panel_width()).max(1);
    if columns > share * (cores - 1) {
        // Each core orders what it alone reads of the right side.
        return (0..columns).step_by(share).map(|first| (0..rows, first..columns.min(first + share))).collect();
    }
    let share = rows.div_ceil(cores).max(1);
    (0..rows).step_by(share).map(|first| (first..rows.min(first + share), 0..columns)).collect()
}

/// Where the cores write, each rows or columns of its own.
struct Place(*mut f32);

// SAFETY: it is only the place where each core finds numbers that no other has.
unsafe impl Sync for Place {}

impl Place {
    fn at(&self, number: usize) -> *mut f32 {
        self.0.wrapping_add(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "does not fit into 1 values")]
    fn strides_that_overflow_are_refused() {
        Matrix::new(&[0.0], (3, 1), (1 << 63, 1));
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn products_agree_with_the_definition(m in 1_usize..40, n in 1_usize..40, k in 1_usize..40, gap in 0_usize..3) {
            let value = |i: usize| ((i * 37) % 11) as f32 - 5.0;
            let a: Vec<f32> = (0..m * (k + gap)).map(value).collect();
            let b: Vec<f32> = (0..n * k).map(|i| value(i + 3)).collect();
            let left = Matrix::new(&a, (m, k), (k + gap, 1));
            let mut product = vec![1.0; m * n];
            multiply(left, Matrix::dense(&b, n, k).t(), 2.0, &mut product, Update::Add, Cores::All);
            for i in 0..m {
                for j in 0..n {
                    let exact: f32 = (0..k).map(|l| a[i * (k + gap) + l] * b[j * k + l]).sum();
                    prop_assert_eq!(product[i * n + j], 1.0 + 2.0 * exact);
                }
            }
            multiply(left, Matrix::dense(&b, n, k).t(), 2.0, &mut product, Update::Replace, Cores::One);
            prop_assert_eq!(product[0], 2.0 * (0..k).map(|l| a[l] * b[l]).sum::<f32>());
        }
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn a_matrix_outside_its_slice_is_refused() {
        Matrix::new(&[0.0; 10], (2, 5), (6, 1));
    }
}
