//! The shared part of functions that compute each row in place, without calls.

use std::marker::PhantomData;
use std::sync::Arc;

use asap_lm::ops::on_cores;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::memory_pool::MemoryPool;
use rayon::prelude::*;

use super::needs::{Needs, SessionModels};
use crate::columns::{Args, Cell, Columns, nullable};
use crate::declaration::Declaration;
use crate::function::Rows;
use crate::output::Output;

pub(crate) trait RowFunction: Send + Sync + 'static {
    const DECLARATION: Declaration;
    type Needs: Needs;
    type Output<'a>: Output;

    fn row<'a>(needs: &mut Self::Needs, row: Args<'a>) -> Cell<Self::Output<'a>>;
}

pub(crate) struct ByRow<F> {
    pub session: SessionModels,
    pub function: PhantomData<F>,
}

impl<F: RowFunction> Rows for ByRow<F> {
    fn prepare(&self, config: &ConfigOptions) -> Result<()> {
        F::Needs::load(&self.session, config).map(drop)
    }

    fn remember_in(&self, pool: &Arc<dyn MemoryPool>) {
        self.session.remember_in(pool);
    }

    fn compute(&self, columns: &Columns, config: &ConfigOptions) -> Result<ArrayRef> {
        let mut needs = F::Needs::load(&self.session, config)?;
        let rows = match F::Needs::ON_ALL_CORES {
            true => {
                let rows = (0..columns.rows()).into_par_iter();
                let row = |needs: &mut F::Needs, row| nullable(F::row(needs, columns.row(row)));
                on_cores(|| rows.map_with(needs, row).collect::<Result<_>>())
            }
            false => columns.read(|row| F::row(&mut needs, row)),
        };
        self.session.recount_remembered();
        F::Output::array(rows?)
    }
}
