//! The pages of an output in the browser, from a server on loopback that only reads.
//!
//! Each page is an address below a random token, which other users of the machine cannot guess. A request must name this
//! server as its host, so that no other site's name can lead a browser here. A filter is an expression over the columns
//! of the output: see [`super::filter`].

use std::convert::Infallible;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::plan_err;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use super::asked::{Asked, address};
use super::page::{page, policy};
use super::pages::form;
use super::report::Report;
use crate::failure::Failure;
use crate::output::{complain, error_line, note, print};
use crate::signals::Signals;
use crate::terminal::visible;

/// Connections at a time, and pages. A usual process may open 1,024 files, and each page reads some.
const CONNECTIONS: usize = 256;
const PAGES: usize = 32;
/// How long a connection may take for the head of its request, and for all of it.
const HEAD_TIME: Duration = Duration::from_secs(3);
const ANSWER_TIME: Duration = Duration::from_secs(600);
/// The longest head: an address with a long filter.
const HEAD_BYTES: usize = 64 << 10;
/// How long a browser may take to read the file that leads it here.
const OPEN_TIME: Duration = Duration::from_secs(60);
/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
pub(super) struct Server {
    pub report: Report,
    token: String,
    port: u16,
    pages: Semaphore,
}

/// Serves the pages until a signal ends the process. Prints their address, and opens it if `is_opened`.
pub(super) async fn serve(report: Report, port: u16, is_opened: bool) -> std::result::Result<(), Failure> {
    let taken = |error: std::io::Error| {
        Failure::Failed(format!(
            "cannot listen on 127.0.0.1:{port} ({error}): pass another --port, or none for a free one"
        ))
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(taken)?;
    let port = listener.local_addr()?.port();
    let token = uuid::Uuid::new_v4().simple().to_string();
    let server = Arc::new(Server { report, token, port, pages: Semaphore::new(PAGES) });
    let url = format!("http://127.0.0.1:{port}/{}/", server.token);
    print(&url)?;
    complain("Ctrl-C ends the server");
    let redirect = is_opened.then(|| open(&url)).flatten();
    // A page may keep all threads of the server busy, so signals have one of their own.
    let ending = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("asap-view-end".to_string()).spawn(move || {
        ending.block_on(until_ended(redirect));
        std::process::exit(0)
    })?;
    server.connections(listener).await
}

/// Waits for a signal, or for a terminal that closes. Deletes the redirect after a while, at the latest then.
async fn until_ended(redirect: Option<TempDir>) {
    let ended = async {
        match (Signals::new(), signal(SignalKind::hangup()), signal(SignalKind::quit())) {
            (Ok(mut signals), Ok(mut hangup), Ok(mut quit)) => tokio::select! {
                _ = signals.next() => (),
                _ = hangup.recv() => (),
                _ = quit.recv() => (),
            },
            // Without handlers, a signal just ends the process.
            _ => std::future::pending().await,
        }
    };
    tokio::pin!(ended);
    if tokio::time::timeout(OPEN_TIME, &mut ended).await.is_err() {
        drop(redirect);
        ended.await;
    }
}

/// Opens the address in a browser. Other users can read the arguments of a process, so the browser gets the name of a file
/// that only this user can read, and that leads to the address.
fn open(url: &str) -> Option<TempDir> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened = redirect(url).and_then(|(folder, file)| {
        std::process::Command::new(opener).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        Ok(folder)
    });
    opened
        .inspect_err(|error| note(format!("cannot open a browser ({opener}: {error}): open the address yourself")))
        .ok()
}

/// Writes a page that leads to an address, in a folder of its own that only this user can enter.
fn redirect(url: &str) -> std::io::Result<(TempDir, PathBuf)> {
    let own = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix("asap-view-").permissions(own).tempdir()?;
    let file = folder.path().join("open.html");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta http-equiv="refresh" content={ "0; url=" (url) }; title { "asap view" } }
            body { p { a href=(url) rel="noreferrer" { "asap view" } } }
        }
    };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(&file)?.write_all(page.into_string().as_bytes())?;
    Ok((folder, file))
}

impl Server {
    /// Answers connections, some at a time.
    async fn connections(self: &Arc<Self>, listener: TcpListener) -> std::result::Result<(), Failure> {
        let slots = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // A connection more waits in the queue of the system, without a file of this process.
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(|error| Failure::Failed(error.to_string()))?;
            let Ok((stream, _)) = listener.accept().await else {
                // The other side may have gone, or all files be open: the next one may be fine.
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let server = Arc::clone(self);
            tokio::spawn(async move {
                let answer = service_fn(move |request| {
                    let server = Arc::clone(&server);
                    async move { Ok::<_, Infallible>(server.answer(request).await) }
                });
                // A page is one request. A connection that stays open would keep its slot.
                let mut http = http1::Builder::new();
                http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
                // A browser that closes its connection is no failure.
                drop(tokio::time::timeout(ANSWER_TIME, http.serve_connection(TokioIo::new(stream), answer)).await);
                drop(slot);
            });
        }
    }

    async fn answer<B>(&self, request: Request<B>) -> Response<String> {
        let (status, body) = match self.refused(&request) {
            Some((status, why)) => (status, why.to_string()),
            None => match self.pages.acquire().await {
                Ok(_page) => self.page(request.uri().path(), request.uri().query()).await,
                Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            },
        };
        let kind = if body.starts_with('<') { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
        let moved = format!("/{}/{body}", self.token);
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if status == StatusCode::PERMANENT_REDIRECT {
            headers.extend(moved.parse().ok().map(|own| (LOCATION, own)));
        }
        headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
        headers.insert(REFERRER_POLICY, hyper::header::HeaderValue::from_static("no-referrer"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, hyper::header::HeaderValue::from_static("nosniff"));
        let policy = format!("{}; frame-ancestors 'none'", policy("'self'"));
        headers.extend(policy.parse().ok().map(|policy| (CONTENT_SECURITY_POLICY, policy)));
        response
    }

    /// Why a request gets no page.
    fn refused<B>(&self, request: &Request<B>) -> Option<(StatusCode, &'static str)> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Some((StatusCode::METHOD_NOT_ALLOWED, "asap view only reads: use GET"));
        }
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !["127.0.0.1", "localhost"].iter().any(|name| host == format!("{name}:{}", self.port)) {
            return Some((StatusCode::MISDIRECTED_REQUEST, "asap view answers only to 127.0.0.1 and localhost"));
        }
        let token = request.uri().path().split('/').nth(1).unwrap_or_default();
        let differs = token.bytes().zip(self.token.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other));
        if token.len() != self.token.len() || differs != 0 {
            return Some((
                StatusCode::FORBIDDEN,
                "open the address that asap view printed: its token is missing or wrong",
            ));
        }
        None
    }

    async fn page(&self, path: &str, query: Option<&str>) -> (StatusCode, String) {
        let name = path.get(self.token.len() + 1..).unwrap_or_default();
        // Links of pages are relative to the address with a slash.
        if let Some(page) = moved(name) {
            let query = query.filter(|_| !page.is_empty() && !page.contains('?'));
            return (StatusCode::PERMANENT_REDIRECT, query.map_or(page.clone(), |query| format!("{page}?{query}")));
        }
        let up = "../".repeat(name.matches('/').count().saturating_sub(1));
        let asked = Asked::of(name.trim_start_matches('/'), query, self.report.source.against.is_some());
        let made = match (name, &asked.wrong) {
            ("/", _) => Ok(Some(self.report.html(Some(&address), &[]))),
            ("/chains" | "/chain" | "/rejects" | "/reject", Some(wrong)) => plan_err!("{wrong}"),
            ("/chains", None) => self.report.chains_page(&asked).await.map(Some),
            ("/chain", None) => self.report.chain_page(&asked).await,
            ("/reject", None) => self.report.reject_page(&asked).await,
            ("/rejects", None) => self.report.rejects_page(&asked).await.map(Some),
            _ => Ok(None),
        };
        let (status, body) = match made {
            Ok(Some(body)) => (StatusCode::OK, body),
            Ok(None) => (
                StatusCode::NOT_FOUND,
                match name {
                    "/chain" | "/reject" => {
                        let thing = name.trim_start_matches('/');
                        let why = self.report.missing(&asked, thing).await.unwrap_or_else(|error| error_line(&error));
                        html! { h1 { "There is no such row" } p { (visible(&why)) } p { a href={ (thing) "s" } { "All " (thing) "s" } } }
                    }
                    _ => html! { h1 { "There is no such page" } p { a href={ (up) "./" } { "Overview" } } },
                },
            ),
            Err(error) => {
                // The form stays, so that a filter can be corrected.
                let form = form(if name.starts_with("/reject") { "rejects" } else { "chains" }, &asked);
                let message = error_line(&error);
                let what = if asked.is_filtered() { "No result for this filter" } else { "This page cannot be shown" };
                (StatusCode::BAD_REQUEST, html! { h1 { (what) } (form) p.error role="alert" { (visible(&message)) } })
            }
        };
        let heading = body.0.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</h1>"));
        let heading = heading.filter(|_| name != "/").map_or(String::new(), |(heading, _)| format!("{heading}, "));
        let title = html! { (PreEscaped(heading)) "asap view " (visible(&self.report.title())) };
        (status, page(title, "'self'", nav(name, &up), body, true))
    }
}

/// The address of a page below the token that another one means: `chains/`, `chain/3` or `index.html`.
fn moved(name: &str) -> Option<String> {
    let parts: Vec<_> = name.split('/').skip(1).collect();
    match parts.as_slice() {
        [] | ["index.html" | "index.htm" | "overview"] => Some(String::new()),
        [page @ ("chains" | "rejects"), ..] if parts.len() > 1 => Some((*page).to_string()),
        [page @ ("chain" | "reject"), at] if at.parse::<u64>().is_ok() => Some(address(page, &[("at", at)])),
        [page @ ("chain" | "reject"), ..] if parts.len() > 1 => Some(format!("{page}s")),
        _ => None,
    }
}

/// The links to the pages. `up` leads to the folder of all.
fn nav(page: &str, up: &str) -> Markup {
    let pages = [("/", "./", "Overview"), ("/chains", "chains", "Chains"), ("/rejects", "rejects", "Rejects")];
    html! {
        nav aria-label="Pages" {
            @for (name, link, title) in pages { a href={ (up) (link) } aria-current=[(name == page).then_some("page")] { (title) } }
        }
    }
}
