//! Matrix products on slices.
#![allow(unsafe_code, reason = "cores write columns or rows of one slice; each place says why no two write the same")]

use std::ops::Range;

use super::matrix::{Matrix, Update};
use super::on_all_cores;
use super::panels::panel_width;
use super::tiles::{Right, Target, product};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// On the calling thread.
    One,
    /// On all cores, if the product is large enough.
    All,
}

const WORTH_A_CORE: usize = 1 << 19;

/// Computes `scale` · a · b into `to`, which is row-major without gaps.
///
/// # Panics
/// If the inner dimensions differ, or `to.len()` is not the size of the product.
pub fn multiply(a: Matrix, b: Matrix, scale: f32, to: &mut [f32], write: Update, cores: Cores) {
    assert_eq!(a.rows * b.columns, to.len(), "`to` must have the size of the product");
    multiply_right(a, Right::Matrix(b), scale, (to, b.columns), write, cores);
}

/// `to` has rows of `width` numbers; the last row may end after the product's columns.
pub(super) fn multiply_right(
    a: Matrix,
    b: Right,
    scale: f32,
    (to, width): (&mut [f32], usize),
    write: Update,
    cores: Cores,
) {
    let (depth, columns) = b.shape();
    assert!(depth > 0, "the inner dimension must not be 0");
    // The SAFETY comments below rely on this: the last row's columns are inside `to`, and rows do not overlap.
    let is_inside = a.rows == 0 || columns <= width && (a.rows - 1) * width + columns <= to.len();
    assert!(is_inside, "`to` is too short for the product");
    let is_worth_it = cores == Cores::All && a.rows * columns * depth > WORTH_A_CORE;
    let cores = if is_worth_it { rayon::current_num_threads() } else { 1 };
    let place = Destination(to.as_mut_ptr());
    let compute = |(rows, columns): (Range<usize>, Range<usize>)| {
        let to = place.at(rows.start * width + columns.start);
        let a = a.part((rows.start, rows.len()), (0, depth));
        // SAFETY: the assertion keeps these rows and columns inside `to`, and no other part writes them.
        unsafe { product(a, b.columns(columns), Target { to, width, scale, write }) };
        Ok::<_, std::convert::Infallible>(())
    };
    let _: Result<Vec<()>, _> = on_all_cores(parts(a.rows, columns, cores), compute);
}

fn parts(rows: usize, columns: usize, cores: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let share = columns.div_ceil(cores).next_multiple_of(panel_width()).max(1);
    if columns > share * (cores - 1) {
        // Each core packs the columns of the right side that only it reads.
        return (0..columns).step_by(share).map(|first| (0..rows, first..columns.min(first + share))).collect();
    }
    let share = rows.div_ceil(cores).max(1);
    (0..rows).step_by(share).map(|first| (first..rows.min(first + share), 0..columns)).collect()
}

struct Destination(*mut f32);

// SAFETY: each core writes only its own rows or columns through the pointer.
unsafe impl Sync for Destination {}

impl Destination {
    fn at(&self, number: usize) -> *mut f32 {
        self.0.wrapping_add(number)
    }
}
