//! A session with everything of asap.

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
use crate::health::{cot_contaminated, cot_duplicates};
use crate::location::Stores;
use crate::outputs::history::cot_history;
use crate::pruned::Pruned;

/// Returns a session with the functions, settings and rules of asap. Its language model is `llm`.
pub fn session(settings: Settings, llm: &Llm) -> Result<SessionContext> {
    session_of(settings, llm, &Models::default())
}

/// Returns a session whose scoring model is one of `models`.
pub fn session_of(settings: Settings, llm: &Llm, models: &Models) -> Result<SessionContext> {
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
    let mut register = |name, function| state.register_udtf(name, Arc::new(TableFunction(function)));
    register("cot_corpus", cot_corpus);
    register("corpus_shapes", corpus_shapes);
    register("cot_history", cot_history);
    register("cot_duplicates", cot_duplicates);
    register("cot_contaminated", cot_contaminated);
    state.register_relation_planner(Arc::new(Pruned))?;
    Ok(SessionContext::new_with_state(state))
}
