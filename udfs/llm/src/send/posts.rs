//! Requests to an endpoint whose responses are no chat completions. They have the limits, retries and health of all
//! calls; budget and cache do not apply. The caller reads the text of a response.

use std::sync::Arc;

pub use crate::chat::Unread;
use crate::chat::{CallError, Served};
use crate::send::config::Config;
use crate::send::line::{BYTES_AROUND, Estimate, Line};
use crate::send::{response, stream};

/// Requests to one path of an endpoint.
#[derive(Debug)]
pub struct Posts {
    line: Line,
}

/// A request: its body in JSON, and what its limits count.
#[derive(Debug, Clone, Copy)]
pub struct Post<'a> {
    pub body: &'a [u8],
    pub tokens: usize,
    /// The most bytes of a response per token.
    pub bytes_per_token: usize,
}

impl Posts {
    /// Opens `path` below the address in the settings, or next to its last part `/v1`.
    ///
    /// # Errors
    /// If the address or the key is wrong. The error names the setting and the problem.
    pub fn new(config: &Config, path: &'static str, skips_version: bool) -> crate::Result<Self> {
        let mut base_url = config.base_url(path)?;
        if skips_version {
            let before_version = base_url.path().trim_end_matches('/').trim_end_matches("/v1").to_string();
            base_url.set_path(&before_version);
        }
        Ok(Self { line: Line::new(path, config, &base_url, Arc::default(), Arc::default())? })
    }

    /// Returns the address that the requests go to, without the path.
    pub fn base_url(&self) -> &str {
        self.line.base_url()
    }

    /// Sends a request until `read` accepts its response. Returns what it read.
    ///
    /// # Errors
    /// If the request fails for good or has no retries left.
    pub async fn ask<T: Send>(
        &self,
        Post { body, tokens, bytes_per_token }: Post<'_>,
        read: impl Fn(&str) -> Result<T, Unread> + Send + Sync,
    ) -> Result<T, CallError> {
        let limit = BYTES_AROUND.saturating_add(bytes_per_token.saturating_mul(tokens));
        let (line, read) = (&self.line, &read);
        let redact = |text| line.without_key(text);
        let post = || async move {
            match line.post(body.to_vec(), limit).await {
                Ok(received) => (
                    response::read_with(&received, &redact, |text| read(&stream::only(text))),
                    Some((tokens as u64, 0)),
                ),
                Err((failure, paid)) => (Err(failure), paid),
            }
        };
        line.send(Estimate { tokens: tokens as u64, cost: 0.0 }, None, post).await.outcome
    }

    /// Returns the models that the endpoint lists; None if it lists none.
    ///
    /// # Errors
    /// If there is no connection to the endpoint.
    pub async fn served(&self) -> Result<Option<Vec<Served>>, CallError> {
        self.line.served().await
    }
}
