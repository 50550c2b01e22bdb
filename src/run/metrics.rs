//! `--metrics-addr`: Prometheus metrics of a run in progress.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use asap_pipelines::run::{Observer, Summary};
use asap_udfs::llm::Usage;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::failure::Failure;

#[derive(Debug, Default)]
struct Figures {
    before: Totals,
    rows: u64,
    rows_reached: u64,
    tokens: u64,
    slices: u64,
    slices_running: u64,
    slices_waiting: u64,
    commits: u64,
    committed: Summary,
    usage: Usage,
}

/// The metrics of all runs of a process, including the current one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    figures: Arc<Mutex<Figures>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    runs: u64,
    table_version: u64,
    rows_in: u64,
    rows_out: u64,
    rows_filtered: u64,
    rows_rejected: u64,
    slices: u64,
    commits: u64,
    calls: u64,
    cache_hits: u64,
    failed: u64,
    tokens_in: u64,
    tokens_out: u64,
    cost: f64,
}

impl Figures {
    fn totals(&self) -> Totals {
        let Self { before, committed: Summary { counts, slices, table_version, .. }, usage, .. } = self;
        Totals {
            runs: before.runs,
            table_version: table_version.unwrap_or(before.table_version),
            rows_in: before.rows_in + counts.rows_in,
            rows_out: before.rows_out + counts.rows_out,
            rows_filtered: before.rows_filtered + counts.rows_filtered,
            rows_rejected: before.rows_rejected + counts.rows_rejected,
            slices: before.slices + slices,
            commits: before.commits + self.commits,
            calls: before.calls + usage.calls,
            cache_hits: before.cache_hits + usage.cache_hits,
            failed: before.failed + usage.failed,
            tokens_in: before.tokens_in + usage.tokens_in,
            tokens_out: before.tokens_out + usage.tokens_out,
            cost: before.cost + usage.cost,
        }
    }
}

impl Metrics {
    pub(crate) async fn serve(address: SocketAddr) -> Result<Self, Failure> {
        if !address.ip().is_loopback() {
            let said = format!(
                "--metrics-addr {address} is open to other machines: name a loopback address, such as 127.0.0.1:9400"
            );
            return Err(Failure::Usage(said));
        }
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| Failure::Usage(format!("cannot serve --metrics-addr {address}: {error}")))?;
        let metrics = Self::default();
        let served = metrics.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let metrics = served.clone();
                tokio::spawn(async move {
                    let answer = service_fn(|request| std::future::ready(metrics.answer(&request)));
                    // A client that disconnects is not an error.
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        Ok(metrics)
    }

    fn answer<B>(&self, request: &Request<B>) -> Result<Response<String>, Infallible> {
        let (status, text) = match request.uri().path() {
            "/metrics" => (StatusCode::OK, self.text()),
            _ => (StatusCode::NOT_FOUND, "the metrics are at /metrics\n".to_string()),
        };
        let mut response = Response::new(text);
        *response.status_mut() = status;
        let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
        Ok(response)
    }

    fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends a run. Its figures stay, and the next run adds to them.
    pub(crate) fn end_run(&self) {
        self.change(|figures| {
            let totals = figures.totals();
            *figures = Figures { before: Totals { runs: totals.runs + 1, ..totals }, ..Figures::default() };
        });
    }

    fn text(&self) -> String {
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = figures.totals();
        let mut text = String::new();
        let mut line = |name: &str, kind: &str, help: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = write!(text, "# HELP asap_{name} {help}\n# TYPE asap_{name} {kind}\nasap_{name} {value}\n");
        };
        let mut counter = |name: &str, help: &str, value: String| line(name, "counter", help, value);
        counter("runs_total", "Runs that have ended.", totals.runs.to_string());
        counter("rows_in_total", "Input rows of committed slices.", totals.rows_in.to_string());
        counter("rows_out_total", "Rows committed to the output.", totals.rows_out.to_string());
        counter("rows_filtered_total", "Input rows that the pipeline filtered out.", totals.rows_filtered.to_string());
        counter("rows_rejected_total", "Input rows committed as rejects.", totals.rows_rejected.to_string());
        counter("slices_total", "Committed slices.", totals.slices.to_string());
        counter("commits_total", "Commits to the output.", totals.commits.to_string());
        counter("calls_total", "Requests to a language model, retries included.", totals.calls.to_string());
        counter("cache_hits_total", "Requests answered without a call.", totals.cache_hits.to_string());
        counter("calls_failed_total", "Requests that ended without an answer.", totals.failed.to_string());
        counter("tokens_in_total", "Paid tokens of prompts.", totals.tokens_in.to_string());
        counter("tokens_out_total", "Paid tokens of answers.", totals.tokens_out.to_string());
        counter("cost_total", "Cost of the paid tokens, in the currency of the prices.", totals.cost.to_string());
        let mut gauge = |name: &str, help: &str, value: u64| line(name, "gauge", help, value.to_string());
        gauge("run_rows", "Rows of the current run.", figures.rows);
        gauge("run_rows_reached", "Processed rows of the current run, committed or not.", figures.rows_reached);
        gauge("run_tokens_reached", "Tokens of the original chains of the processed rows.", figures.tokens);
        gauge("run_slices", "Slices of the current run.", figures.slices);
        gauge("run_slices_running", "Slices of the current run in progress.", figures.slices_running);
        gauge("run_slices_waiting", "Slices of the current run not yet started.", figures.slices_waiting);
        gauge("table_version", "Table version of the output.", totals.table_version);
        text
    }
}

impl Observer for Metrics {
    fn begin(&self, rows: u64, slices: u64) {
        self.change(|figures| (figures.rows, figures.slices) = (rows, slices));
    }

    fn advance(&self, rows: u64, tokens: u64) {
        self.change(|figures| {
            figures.rows_reached += rows;
            figures.tokens += tokens;
        });
    }

    fn slices(&self, running: u64, waiting: u64, usage: Usage) {
        self.change(|figures| {
            (figures.slices_running, figures.slices_waiting, figures.usage) = (running, waiting, usage);
        });
    }

    fn committed(&self, summary: &Summary) {
        self.change(|figures| {
            figures.commits += 1;
            figures.committed = summary.clone();
        });
    }
}
