//! Credentials of the machine itself, from a cloud's metadata service. They are requested if nothing else is set. If no
//! service answers, the error lists what you can set.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::{CredentialProvider, Error, Result, RetryConfig};

/// Timeout of the metadata service. It is short because the service is local or does not exist.
pub(super) const PATIENCE: &str = "2s";

pub(super) fn quick() -> RetryConfig {
    RetryConfig { max_retries: 1, retry_timeout: Duration::from_secs(2), ..RetryConfig::default() }
}

#[derive(Debug)]
pub(super) struct Machine<C> {
    pub service: Arc<dyn CredentialProvider<Credential = C>>,
    pub place: String,
    pub advice: &'static str,
}

#[async_trait]
impl<C: Debug + Send + Sync + 'static> CredentialProvider for Machine<C> {
    type Credential = C;

    async fn get_credential(&self) -> Result<Arc<C>> {
        self.service.get_credential().await.map_err(|error| {
            let said = format!("{}; the machine's metadata service has none either: {error}", self.advice);
            Error::Unauthenticated { path: self.place.clone(), source: said.into() }
        })
    }
}
