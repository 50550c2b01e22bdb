//! What the functions that ask a language model share.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err};
use futures::future::try_join_all;

use crate::llm::anchoring::OK;
use crate::llm::{Spent, Usage, extractive, local};
use crate::plan::Meter;
use crate::settings::{OnError, Provider, Settings};

/// Rows in flight for each call that may be made at once: while a slow row holds up those behind it, others go on.
const ROWS_PER_CALL: usize = 2;

/// Rows that may be in flight.
pub fn window(config: &ConfigOptions) -> usize {
    let Ok(settings) = Settings::of(config) else { return extractive::ROWS_IN_FLIGHT };
    match settings.anchor_provider {
        Provider::Openai => settings.anchor_max_concurrent_requests.0 as usize * ROWS_PER_CALL,
        Provider::Local => local::ROWS_IN_FLIGHT,
        Provider::Extractive => extractive::ROWS_IN_FLIGHT,
    }
}

/// Asks for `count` rows at once; what comes of them, in their order.
///
/// # Errors
/// What ends the query.
pub async fn rows<T, Row>(count: usize, ask: impl Fn(usize) -> Row) -> Result<Vec<T>>
where
    Row: Future<Output = crate::llm::Result<T>>,
{
    Ok(try_join_all((0..count).map(ask)).await?)
}

/// Shows in EXPLAIN ANALYZE what a row used and whether it failed.
pub fn record<T: Asked>(meter: &Meter, row: &T) {
    let Usage { calls, cache_hits, retries, tokens_in, tokens_out, .. } = row.spent().own;
    meter.add_failed(usize::from(row.status() != OK));
    meter.add_calls(calls as usize);
    meter.add_cache_hits(cache_hits as usize);
    meter.add_retries(retries as usize);
    meter.add_tokens(tokens_in as usize, tokens_out as usize);
}

/// What came of a row.
pub trait Asked {
    /// `ok`, or the name of what went wrong.
    fn status(&self) -> &'static str;
    /// What went wrong.
    fn error(&self) -> Option<&str>;
    /// What it took.
    fn spent(&self) -> &Spent;
}

/// Fails the query for the first row that is not ok, if `asap.on_error` says so.
///
/// # Errors
/// One that names the function, the status and the row's error.
pub fn check<T: Asked>(function: &str, settings: &Settings, rows: &[T]) -> Result<()> {
    match rows.iter().find(|row| row.status() != OK) {
        Some(row) if settings.on_error == OnError::Fail => {
            let error = row.error().unwrap_or_default();
            exec_err!("{function}: {}: {error} (asap.on_error is 'fail')", row.status())
        }
        _ => Ok(()),
    }
}

/// The columns that the structs of these functions end with: status, error, tokens_in, tokens_out and cached.
pub fn columns<T: Asked>(rows: &[T]) -> [ArrayRef; 5] {
    let tokens = |tokens: fn(&Spent) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(|row| i64::try_from(tokens(row.spent())).ok()).collect::<Int64Array>())
    };
    [
        Arc::new(rows.iter().map(|row| Some(row.status())).collect::<StringArray>()),
        Arc::new(rows.iter().map(Asked::error).collect::<StringArray>()),
        tokens(|spent| spent.tokens_in),
        tokens(|spent| spent.tokens_out),
        Arc::new(rows.iter().map(|row| Some(row.spent().is_cached())).collect::<BooleanArray>()),
    ]
}

macro_rules! asked {
    ($($of:ty),+) => {
        $(impl Asked for $of {
            fn status(&self) -> &'static str { self.status }
            fn error(&self) -> Option<&str> { self.error.as_deref() }
            fn spent(&self) -> &Spent { &self.spent }
        })+
    };
}

asked!(crate::llm::Anchor, crate::llm::Coarse, crate::llm::Completion);
