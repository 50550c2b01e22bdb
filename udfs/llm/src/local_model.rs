//! The contract of a model in this process, for the provider `local`.

use std::fmt;
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_kernels::memo::Memory;
use async_trait::async_trait;

use crate::chat::Outcome;
use crate::request::ChatRequest;
use crate::{LlmError, Result};

/// A model that answers requests in this process.
#[async_trait]
pub trait LocalModel: fmt::Debug + Send + Sync {
    /// Returns the model's name in requests: a copy in another folder is the same model.
    fn name(&self) -> &str;

    /// Returns whether the model has ended, so that the next query opens it again.
    fn is_over(&self) -> bool;

    /// Returns how many conversations should wait at once.
    fn conversations_in_flight(&self) -> usize;

    /// Answers a request, or says why there is no answer.
    async fn answer(&self, request: ChatRequest) -> Outcome;
}

/// Opens a model by its name within a memory limit. The crate with an engine sets it, so that this crate builds
/// without one.
#[derive(Clone, Copy)]
pub struct OpenLocal(pub Open);

type Open = fn(&str, &Arc<Memory>) -> Result<Arc<dyn LocalModel>>;

impl Default for OpenLocal {
    fn default() -> Self {
        Self(|named, _| {
            Err(LlmError::Setting(format!(
                "{} = '{named}': this program has no engine for local models",
                Setting("asap.anchor.model")
            )))
        })
    }
}

impl fmt::Debug for OpenLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenLocal")
    }
}

impl PartialEq for OpenLocal {
    /// A program has one engine.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
