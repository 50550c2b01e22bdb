//! What happens to a query plan before it runs.

mod preflight;

use std::sync::Arc;

use datafusion::optimizer::AnalyzerRule;

use crate::lm::Models;
pub use preflight::Preflight;

/// The rules that a session of asap adds behind the engine's own, in this order. They share `models` with the functions.
pub fn analyzer_rules(models: &Models) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![Arc::new(Preflight::new(models.clone()))]
}
