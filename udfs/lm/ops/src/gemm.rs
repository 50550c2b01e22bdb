//! Matrix products of slices: the kernels of gemm, called without what candle does around each product (it reads
//! /proc/cpuinfo, fills its result with zeros and always takes all cores, also for a block of 128 rows).
#![allow(unsafe_code, reason = "the kernels take pointers; each place says why they are within their slices")]

use gemm::Parallelism;

/// An f32 matrix within a slice.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix whose element (i, j) is `values[i * row_stride + j * column_stride]`.
    ///
    /// # Panics
    /// If an element lies outside `values`.
    pub fn new(values: &'a [f32], shape: (usize, usize), strides: (usize, usize)) -> Self {
        let ((rows, columns), (row_stride, column_stride)) = (shape, strides);
        let span = |count: usize, stride: usize| count.saturating_sub(1).checked_mul(stride);
        let last = span(rows, row_stride).zip(span(columns, column_stride)).and_then(|(a, b)| a.checked_add(b));
        let inside = rows == 0 || columns == 0 || last.is_some_and(|last| last < values.len());
        assert!(inside, "a {rows} × {columns} matrix does not fit into {} values", values.len());
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

/// Writes `scale` · a · b to `to`, row by row without gaps.
///
/// # Panics
/// If the inner dimensions differ or `to` has another length than the product.
pub fn multiply(a: Matrix, b: Matrix, scale: f32, to: &mut [f32], write: Update, cores: Cores) {
    assert_eq!(a.rows * b.columns, to.len(), "length of the product");
    multiply_into(a, b, scale, (to, b.columns), write, cores);
}

/// Writes a · b to columns of `to` from `first` on, on the calling thread; `to` has rows of `width` numbers.
///
/// # Panics
/// If the inner dimensions differ, `to` has another number of rows than a or no such columns.
pub fn multiply_columns(a: Matrix, b: Matrix, to: &mut [f32], first: usize, width: usize, write: Update) {
    assert!(first + b.columns <= width, "columns of the product");
    assert_eq!(a.rows * width, to.len(), "rows of the product");
    multiply_into(a, b, 1.0, (&mut to[first..], width), write, Cores::One);
}

/// `to` has rows of `width` numbers, the last of which may end with the product's columns.
fn multiply_into(a: Matrix, b: Matrix, scale: f32, (to, width): (&mut [f32], usize), write: Update, cores: Cores) {
    assert_eq!(a.columns, b.rows, "inner dimensions");
    // SAFETY below rests on it: the last row's columns are inside.
    assert!(a.rows == 0 || (a.rows - 1) * width + b.columns <= to.len(), "room for the product");
    let parallelism = match cores {
        Cores::One => Parallelism::None,
        Cores::All => Parallelism::Rayon(rayon::current_num_threads()),
    };
    // SAFETY: `Matrix::new` checked that every element of a and b lies in its slice, and the assertions above that
    // a · b has the shape whose elements lie in `to`. Strides are lengths of slices, which fit into isize.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            to.as_mut_ptr(),
            1,
            width as isize,
            write == Update::Add,
            a.values.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.values.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            scale,
            false,
            false,
            false,
            parallelism,
        );
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
