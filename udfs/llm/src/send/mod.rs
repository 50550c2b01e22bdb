//! Requests to an endpoint over HTTP: limits, retries, health.

pub(crate) mod body;
pub mod config;
pub(crate) mod endpoint;
pub(crate) mod health;
pub(crate) mod http;
pub mod json;
pub(crate) mod line;
pub(crate) mod openai;
pub mod posts;
pub(crate) mod response;
pub(crate) mod retry;
pub(crate) mod secret;
pub(crate) mod stream;
pub mod throttle;
