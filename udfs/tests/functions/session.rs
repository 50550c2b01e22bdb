//! A session with all functions, and what an expression gives for a batch.

use asap_udfs::llm::Llm;
use asap_udfs::{Models, Settings, plan, register_all};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

pub fn golden_path(name: &str) -> String {
    format!("{}/../tests/goldens/{name}", env!("CARGO_MANIFEST_DIR"))
}

pub fn session(model: &str) -> SessionContext {
    session_with(model, &Models::default())
}

pub fn session_with(model: &str, models: &Models) -> SessionContext {
    let mut options = ConfigOptions::new();
    options.extensions.insert(Settings { scorer_model: golden_path(model), ..Settings::default() });
    let config = SessionConfig::from(options).with_information_schema(true);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let llm = Llm::default();
    let mut state = plan::install(builder, models, &llm).build();
    register_all(&mut state, models, &llm).unwrap();
    SessionContext::new_with_state(state)
}

/// Evaluates an expression over a batch as it is, also one of no rows.
pub fn evaluate(session: &SessionContext, batch: &RecordBatch, sql: &str) -> ArrayRef {
    let schema = DFSchema::try_from(batch.schema()).unwrap();
    let expression = session.parse_sql_expr(sql, &schema).unwrap();
    // Without the start of an execution, expressions do not see the session's settings.
    let mut state = session.state();
    state.mark_start_execution();
    let physical = state.create_physical_expr(expression, &schema).unwrap();
    let array = physical.evaluate(batch).unwrap().into_array(batch.num_rows()).unwrap();
    assert_eq!(array.len(), batch.num_rows(), "{sql}");
    array
}

pub fn shown(array: &ArrayRef) -> Vec<String> {
    let cell = |row| if array.is_null(row) { "NULL".to_string() } else { array_value_to_string(array, row).unwrap() };
    (0..array.len()).map(cell).collect()
}
