//! A session with everything of asap.

use std::sync::Arc;

use asap_llm::Llm;
use asap_udfs::{Models, Settings};
use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::corpus::function::TableFunction;
use crate::health::{cot_contaminated, cot_duplicates};
use crate::outputs::history::cot_history;
use crate::pipeline_session::pipeline_session;

/// Returns a session with the functions, settings and rules of asap. Its language model is `llm`.
///
/// # Errors
/// If the engine rejects the settings.
pub fn session(settings: Settings, llm: &Llm) -> Result<SessionContext> {
    session_of(settings, llm, &Models::default())
}

/// Returns a session whose scoring model is one of `models`.
///
/// # Errors
/// If the engine rejects the settings.
pub fn session_of(settings: Settings, llm: &Llm, models: &Models) -> Result<SessionContext> {
    let context = pipeline_session(settings, llm, models)?;
    let register = |name, function| context.register_udtf(name, Arc::new(TableFunction(function)));
    register("cot_history", cot_history);
    register("cot_duplicates", cot_duplicates);
    register("cot_contaminated", cot_contaminated);
    Ok(context)
}
