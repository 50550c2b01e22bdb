//! Table functions: the arguments of all, and `cot_corpus`.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::Expr;

use super::{ColumnMapping, Corpus};

/// A table function, as the function of its arguments.
#[derive(Debug)]
pub(crate) struct TableFunction(pub fn(&TableFunctionArgs) -> Result<Arc<dyn TableProvider>>);

impl TableFunctionImpl for TableFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        self.0(&args)
    }
}

/// The alias of the view that `cot_corpus` returns.
pub(crate) const SCAN: &str = "cot_corpus()";

/// `cot_corpus('LOC' [, 'question=…,cot=…,answer=…'])`. Lists the location each time a query is planned.
pub(crate) fn cot_corpus(args: &TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
    let (location, mapping) = match texts(args).as_deref() {
        Some([location]) => (*location, None),
        Some([location, mapping]) => (*location, Some(mapping.parse::<ColumnMapping>()?)),
        _ => return plan_err!("cot_corpus takes a location and, if needed, a column mapping, as text"),
    };
    let corpus = wait_for(|| Corpus::open(args.session(), location, mapping.as_ref()))?;
    Ok(Arc::new(corpus.view(args.session())?))
}

/// The arguments of a table function; None if one is not a literal text.
pub(crate) fn texts<'a>(args: &'a TableFunctionArgs) -> Option<Vec<&'a str>> {
    let text = |expr: &'a Expr| if let Expr::Literal(value, _) = expr { value.try_as_str()? } else { None };
    args.exprs().iter().map(text).collect()
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
