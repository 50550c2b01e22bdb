//! Functions of the engine whose results may be far longer than their arguments.
//!
//! The engine makes the results of a batch at once, outside of its memory pool: `repeat` of a number from a file ends the
//! process. Here such a function measures its results before it makes them, and refuses too long ones.
//!
//! | module | holds |
//! |---|---|
//! | `results` | the size of results by function |
//! | `joined` | the operator `\|\|` |
//! | `string_agg` | the aggregate function |

mod joined;
mod results;
mod string_agg;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

use joined::{Joined, JoinsTexts};
use results::Results;
use string_agg::BoundedStringAgg;

/// The most bytes of the results of a function for one batch of rows.
const MOST_BYTES: u64 = 1 << 30;

/// Puts bounds on the functions of a session that has all functions of the engine.
///
/// # Errors
/// If the session rejects a function.
pub fn install(state: &mut SessionState) -> Result<()> {
    for results in Results::ALL {
        if let Some(function) = state.scalar_functions().get(results.name()).cloned() {
            state.register_udf(Arc::new(ScalarUDF::from(Bounded { function, results })))?;
        }
    }
    if let Some(function) = state.aggregate_functions().get("string_agg").cloned() {
        state.register_udaf(Arc::new(AggregateUDF::from(BoundedStringAgg(function))))?;
    }
    let joined =
        ScalarUDF::from(Bounded { function: Arc::new(ScalarUDF::from(Joined::default())), results: Results::Concat });
    state.register_expr_planner(Arc::new(JoinsTexts(Arc::new(joined))))
}

/// Refuses results that are too long. `what` are those of one batch, or the one result of a group.
fn check(name: &str, what: &str, bytes: u64) -> Result<()> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    exec_err!(
        "{name}: expected at most 1 GiB of results for {what}, found {:.1} GiB: make shorter texts, or read fewer rows at a time \
         (SET datafusion.execution.batch_size = 1)",
        bytes as f64 / MOST_BYTES as f64
    )
}

/// A function of the engine that measures its results first.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    function: Arc<ScalarUDF>,
    results: Results,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.function.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.function.return_type(given)
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        self.function.return_field_from_args(given)
    }

    fn is_strict(&self) -> bool {
        self.function.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        check(self.name(), "a batch of rows", self.results.bytes(&args.args, rows)?)?;
        self.function.invoke_with_args(args)
    }

    /// A simpler call is one of the engine's own function, which has no bounds. To make it, the engine may join literals.
    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let literal = |arg: &Expr| ColumnarValue::Scalar(arg.as_literal().cloned().unwrap_or(ScalarValue::Null));
        check(self.name(), "a batch of rows", self.results.bytes(&args.iter().map(literal).collect::<Vec<_>>(), 1)?)?;
        match self.function.simplify(args, context)? {
            ExprSimplifyResult::Simplified(Expr::ScalarFunction(mut call)) => {
                if let Some(results) = Results::ALL.into_iter().find(|results| results.name() == call.func.name()) {
                    call.func = Arc::new(ScalarUDF::from(Bounded { function: call.func, results }));
                }
                Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
            }
            simplified => Ok(simplified),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function.preserves_lex_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}
