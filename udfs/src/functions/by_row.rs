//! The shared part of functions that compute each row in place, without calls.

use std::sync::Arc;

use asap_lm::ops::on_cores;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::memory_pool::MemoryPool;
use rayon::prelude::*;

use crate::columns::{Args, Cell, Columns, nullable};
use crate::declaration::{Argument, Declaration};
use crate::function::{Body, Function, InPlace};
use crate::needs::{Needs, SessionModels};
use crate::output::{IntoArray, Results};

/// A function that needs `N` and returns `R`.
pub(super) struct RowFunction<N, R: Results> {
    pub name: &'static str,
    pub about: &'static str,
    pub arguments: &'static [Argument],
    pub example: &'static str,
    pub row: Compute<N, R>,
}

/// Computes the result of a row.
type Compute<N, R> = for<'a> fn(&mut N, Args<'a>) -> Cell<<R as Results>::Row<'a>>;

struct ByRow<N, R: Results> {
    session: SessionModels,
    row: Compute<N, R>,
}

impl<N: Needs, R: Results> RowFunction<N, R> {
    pub(super) fn of(self, session: &SessionModels) -> Result<Function> {
        let Self { name, about, arguments, example, row } = self;
        let body = ByRow::<N, R> { session: session.clone(), row };
        let returns = <R::Row<'static>>::data_type()?;
        let declaration = Declaration { name, about, arguments, example };
        Ok(Function::new(declaration, returns, N::VOLATILITY, Body::InPlace(Arc::new(body))))
    }
}

impl<N: Needs, R: Results> InPlace for ByRow<N, R> {
    fn prepare(&self, config: &ConfigOptions) -> Result<()> {
        N::load(&self.session, config).map(drop)
    }

    fn remember_in(&self, pool: &Arc<dyn MemoryPool>) {
        self.session.remember_in(pool);
    }

    fn compute(&self, columns: &Columns, config: &ConfigOptions) -> Result<ArrayRef> {
        let (mut needs, compute) = (N::load(&self.session, config)?, self.row);
        let rows = match N::ON_ALL_CORES {
            true => {
                let rows = (0..columns.rows()).into_par_iter();
                let row = |needs: &mut N, row| nullable(compute(needs, columns.row(row)));
                on_cores(|| rows.map_with(needs, row).collect::<Result<_>>())
            }
            false => columns.read(|row| compute(&mut needs, row)),
        };
        self.session.recount_remembered();
        IntoArray::array(rows?)
    }
}
