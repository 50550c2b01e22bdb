//! `--metrics-addr`: Prometheus metrics of a run in progress.

use std::net::SocketAddr;
use std::sync::Arc;

use asap_llm::Usage;
use asap_pipelines::run::{Observer, Summary};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::failure::Failure;

#[derive(Debug, Default)]
struct Figures {
    /// The counters of the runs that have ended.
    before: [f64; 13],
    /// The table version of the last run that knew it.
    version_before: u64,
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

impl Figures {
    /// Names, descriptions and values of the counters. Only the cost may have a fraction.
    fn counters(&self, ended: u64) -> [(&'static str, &'static str, f64); 13] {
        let (Summary { counts, slices, .. }, usage) = (&self.committed, &self.usage);
        let mut counters = [
            ("runs", "Runs that have ended.", ended as f64),
            ("rows_in", "Input rows of committed slices.", counts.rows_in as f64),
            ("rows_out", "Rows committed to the output.", counts.rows_out as f64),
            ("rows_filtered", "Input rows that the pipeline filtered out.", counts.rows_filtered as f64),
            ("rows_rejected", "Input rows committed as rejects.", counts.rows_rejected as f64),
            ("slices", "Committed slices.", *slices as f64),
            ("commits", "Commits to the output.", self.commits as f64),
            ("calls", "Requests to a language model, retries included.", usage.calls as f64),
            ("cache_hits", "Requests answered without a call.", usage.cache_hits as f64),
            ("calls_failed", "Requests that ended without an answer.", usage.failed as f64),
            ("tokens_in", "Paid tokens of prompts.", usage.tokens_in as f64),
            ("tokens_out", "Paid tokens of answers.", usage.tokens_out as f64),
            ("cost", "Cost of the paid tokens, in the currency of the prices.", usage.cost),
        ];
        counters.iter_mut().zip(self.before).for_each(|((.., value), before)| *value += before);
        counters
    }

    fn table_version(&self) -> u64 {
        self.committed.table_version.unwrap_or(self.version_before)
    }
}

/// Checks that only this machine can read the metrics.
pub(super) fn check(address: SocketAddr) -> Result<(), Failure> {
    match address.ip().is_loopback() {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "--metrics-addr {address} is open to other machines: name a loopback address, such as 127.0.0.1:9400"
        ))),
    }
}

impl Metrics {
    pub(crate) async fn serve(address: SocketAddr) -> Result<Self, Failure> {
        check(address)?;
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

    fn answer<B>(&self, request: &Request<B>) -> hyper::http::Result<Response<String>> {
        let (status, text) = match request.uri().path() {
            "/metrics" => (StatusCode::OK, self.text()),
            _ => (StatusCode::NOT_FOUND, "the metrics are at /metrics\n".to_string()),
        };
        let response = Response::builder().status(status);
        response.header(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8").body(text)
    }

    /// Ends a run. Its figures stay, and the next run adds to them.
    pub(crate) fn end_run(&self) {
        let mut figures = self.figures.lock();
        let before = figures.counters(1).map(|(.., value)| value);
        *figures = Figures { before, version_before: figures.table_version(), ..Figures::default() };
    }

    fn text(&self) -> String {
        let figures = self.figures.lock();
        let counters = figures.counters(0).map(|(name, help, value)| (format!("{name}_total"), "counter", help, value));
        let gauges = [
            ("run_rows", "Rows of the current run.", figures.rows),
            ("run_rows_reached", "Processed rows of the current run, committed or not.", figures.rows_reached),
            ("run_tokens_reached", "Tokens of the original chains of the processed rows.", figures.tokens),
            ("run_slices", "Slices of the current run.", figures.slices),
            ("run_slices_running", "Slices of the current run in progress.", figures.slices_running),
            ("run_slices_waiting", "Slices of the current run not yet started.", figures.slices_waiting),
            ("table_version", "Table version of the output.", figures.table_version()),
        ]
        .map(|(name, help, value)| (name.to_string(), "gauge", help, value as f64));
        let line = |(name, kind, help, value): (String, &str, &str, f64)| {
            format!("# HELP asap_{name} {help}\n# TYPE asap_{name} {kind}\nasap_{name} {value}\n")
        };
        counters.into_iter().chain(gauges).map(line).collect()
    }
}

impl Observer for Metrics {
    fn begin(&self, rows: u64, slices: u64) {
        let mut figures = self.figures.lock();
        (figures.rows, figures.slices) = (rows, slices);
    }

    fn advance(&self, rows: u64, tokens: u64) {
        let mut figures = self.figures.lock();
        figures.rows_reached += rows;
        figures.tokens += tokens;
    }

    fn slices(&self, running: u64, waiting: u64, usage: Usage) {
        let mut figures = self.figures.lock();
        (figures.slices_running, figures.slices_waiting, figures.usage) = (running, waiting, usage);
    }

    fn committed(&self, summary: &Summary) {
        let mut figures = self.figures.lock();
        figures.commits += 1;
        figures.committed = summary.clone();
    }
}
