//! A session with all functions, and the evaluation of expressions over a batch.

use std::collections::BTreeSet;
use std::sync::Arc;

use asap_llm::Llm;
use asap_udfs::{Models, Settings, plan, register_all};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::DFSchema;
use datafusion::datasource::MemTable;
use datafusion::execution::registry::MemoryFunctionRegistry;
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::logical_expr::ColumnarValue;
use datafusion::prelude::{SessionConfig, SessionContext};

pub(crate) fn golden_path(name: &str) -> String {
    format!("{}/../tests/goldens/{name}", env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn session(model: &str) -> SessionContext {
    session_with(model, &Models::default())
}

pub(crate) fn session_with(model: &str, models: &Models) -> SessionContext {
    let compressor_model = Some(golden_path("llmlingua2/xlm-roberta-large-tiny"));
    let settings = Settings { scorer_model: golden_path(model), compressor_model, ..Settings::default() };
    build(settings, models, &Llm::default(), SessionConfig::new())
}

/// A session with small batches, whose prompt is the question, as in the goldens.
pub(crate) fn session_in_partitions(model: &str, models: &Models, partitions: usize) -> SessionContext {
    let scorer_prompt = Some("{question}".to_string());
    let settings = Settings { scorer_model: golden_path(model), scorer_prompt, ..Settings::default() };
    build(settings, models, &Llm::default(), SessionConfig::new().with_target_partitions(partitions).with_batch_size(7))
}

pub(crate) fn session_asking(llm: &Llm, settings: Settings) -> SessionContext {
    build(settings, &Models::default(), llm, SessionConfig::new())
}

fn build(settings: Settings, models: &Models, llm: &Llm, config: SessionConfig) -> SessionContext {
    let config = config.with_option_extension(settings).with_information_schema(true);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let mut state = plan::install(builder).build();
    register_all(&mut state, models, llm).unwrap();
    SessionContext::new_with_state(state)
}

pub(crate) fn registered() -> BTreeSet<String> {
    let mut registry = MemoryFunctionRegistry::new();
    register_all(&mut registry, &Models::default(), &Llm::default()).unwrap();
    registry.udfs().into_iter().collect()
}

pub(crate) fn evaluated(session: &SessionContext, batch: &RecordBatch, sql: &str) -> ColumnarValue {
    let schema = DFSchema::try_from(batch.schema()).unwrap();
    let expression = session.parse_sql_expr(sql, &schema).unwrap();
    // Expressions see the session's settings only after an execution has started.
    let mut state = session.state();
    state.mark_start_execution();
    let physical = state.create_physical_expr(expression, &schema).unwrap();
    physical.evaluate(batch).unwrap()
}

pub(crate) fn query(session: &SessionContext, batch: &RecordBatch, sql: &str) -> ArrayRef {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap();
    session.deregister_table("given").unwrap();
    session.register_table("given", Arc::new(table)).unwrap();
    let (schema, found) = runtime.block_on(async {
        let found = session.sql(&format!("SELECT {sql} AS found FROM given")).await.unwrap();
        (Arc::clone(found.schema().inner()), found.collect().await.unwrap())
    });
    let found = concat_batches(&schema, &found).unwrap();
    assert_eq!(found.num_rows(), batch.num_rows(), "{sql}");
    Arc::clone(found.column(0))
}

pub(crate) fn shown(array: &ArrayRef) -> Vec<String> {
    let cell = |row| if array.is_null(row) { "NULL".to_string() } else { array_value_to_string(array, row).unwrap() };
    (0..array.len()).map(cell).collect()
}
