//! The table function `cot_corpus`.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::Expr;

use super::{ColumnMapping, Corpus};

/// The table function `cot_corpus('LOC' [, 'question=…,cot=…,answer=…'])`.
///
/// Lists the location each time a query is planned.
#[derive(Debug, Default)]
pub struct CorpusFunction;

impl CorpusFunction {
    pub const NAME: &str = "cot_corpus";
    pub(crate) const SCAN: &str = "cot_corpus()";
}

impl TableFunctionImpl for CorpusFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let texts: Option<Vec<&str>> = args.exprs().iter().map(literal_text).collect();
        let (location, mapping) = match texts.as_deref() {
            Some([location]) => (*location, None),
            Some([location, mapping]) => (*location, Some(mapping.parse::<ColumnMapping>()?)),
            _ => return plan_err!("cot_corpus takes a location and, if needed, a column mapping, as text"),
        };
        let session = args.session();
        let corpus = wait_for(|| Corpus::open(session, location, mapping.as_ref()))?;
        Ok(Arc::new(corpus.view(args.session())?))
    }
}

/// The text of an argument of a table function; None if it is not a literal text.
pub(crate) fn literal_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str()?,
        _ => None,
    }
}

/// Waits for work during planning, which is not asynchronous. Uses a separate thread, because a runtime's threads must not
/// block.
pub(crate) fn wait_for<T: Send, F: Future<Output = Result<T>>>(work: impl FnOnce() -> F + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(work())
        });
        done.join().unwrap_or_else(|_| Err(exec_datafusion_err!("reading the location panicked")))
    })
}
