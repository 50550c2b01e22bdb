//! The session of a pipeline: functions, settings and rules of asap, and its tables of corpora.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use asap_llm::Llm;
use asap_udfs::{Models, Settings, bounded, plan, register_all};

use crate::corpus::SmallBatches;
use crate::corpus::function::{TableFunction, cot_corpus};
use crate::corpus::inspect::corpus_shapes;
use crate::delta::stores;
use crate::location::Stores;
use crate::pruned::Pruned;

/// Returns a session whose language model is `llm`, and whose scoring model is one of `models`.
///
/// # Errors
/// If the engine rejects the settings.
pub(crate) fn pipeline_session(settings: Settings, llm: &Llm, models: &Models) -> Result<SessionContext> {
    stores::register();
    let mut options = ConfigOptions::new();
    options.extensions.insert(settings);
    let mut config = SessionConfig::from(options).with_information_schema(true);
    // Output must distinguish empty text from NULL.
    config.options_mut().format.null = "NULL".to_string();
    // This pushdown moves struct fields toward the scan, and copies the call that makes the struct with them.
    config.options_mut().optimizer.enable_leaf_expression_pushdown = false;

    // Listings must be fresh: files may be added to a folder between two reads of a session.
    let runtime = RuntimeEnvBuilder::new()
        .with_object_list_cache_limit(0)
        .with_object_store_registry(Arc::new(Stores::default()))
        .build_arc()?;
    let builder = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    let mut state = plan::install(builder).with_physical_optimizer_rule(Arc::new(SmallBatches)).build();
    bounded::install(&mut state)?;
    register_all(&mut state, models, llm)?;
    state.register_udtf("cot_corpus", Arc::new(TableFunction(cot_corpus)));
    state.register_udtf("corpus_shapes", Arc::new(TableFunction(corpus_shapes)));
    state.register_relation_planner(Arc::new(Pruned))?;
    Ok(SessionContext::new_with_state(state))
}
