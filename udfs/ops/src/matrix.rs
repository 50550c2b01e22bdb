//! Matrix views, the operands of products.

/// A view of a slice as an f32 matrix.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    pub(super) values: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix with element (i, j) at `values[i * row_stride + j * column_stride]`.
    ///
    /// # Panics
    /// If an element is outside `values`, or neither rows nor columns are contiguous.
    pub fn new(values: &'a [f32], shape: (usize, usize), strides: (usize, usize)) -> Self {
        let ((rows, columns), (row_stride, column_stride)) = (shape, strides);
        let span = |count: usize, stride: usize| count.saturating_sub(1).checked_mul(stride);
        let last = span(rows, row_stride).zip(span(columns, column_stride)).and_then(|(a, b)| a.checked_add(b));
        let inside = rows == 0 || columns == 0 || last.is_some_and(|last| last < values.len());
        assert!(inside, "a {rows} × {columns} matrix does not fit into {} values", values.len());
        assert!(row_stride == 1 || column_stride == 1, "expected contiguous rows or columns");
        Self { values, rows, columns, row_stride, column_stride }
    }

    /// A row-major matrix without gaps.
    pub fn dense(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::new(values, (rows, columns), (columns, 1))
    }

    pub(super) fn part(self, (row, rows): (usize, usize), (column, columns): (usize, usize)) -> Self {
        let from = row * self.row_stride + column * self.column_stride;
        Self::new(self.values.get(from..).unwrap_or_default(), (rows, columns), (self.row_stride, self.column_stride))
    }

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

/// What a product does with the destination's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    Replace,
    Add,
}

/// The number of rows of `x` and `to`, which must be the same.
pub(super) fn common_rows(x: &[f32], inputs: usize, to: &[f32], outputs: usize) -> usize {
    let rows = x.len() / inputs;
    assert_eq!((x.len(), to.len()), (rows * inputs, rows * outputs), "`x` and `to` must have the same number of rows");
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "does not fit into 1 values")]
    fn strides_that_overflow_are_refused() {
        Matrix::new(&[0.0], (3, 1), (1 << 63, 1));
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn a_matrix_outside_its_slice_is_refused() {
        Matrix::new(&[0.0; 10], (2, 5), (6, 1));
    }
}
