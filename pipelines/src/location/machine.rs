//! Credentials of the machine itself, which a cloud's metadata service gives: asked where nothing else is set, and where
//! no such service answers, the error says what could be set.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::{CredentialProvider, Error, Result, RetryConfig};

/// How long a metadata service may take to answer: it is on the machine itself or nowhere.
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
            let said = format!("{}; the metadata service of the machine gives none either: {error}", self.advice);
            Error::Unauthenticated { path: self.place.clone(), source: said.into() }
        })
    }
}
