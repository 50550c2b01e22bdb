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

use datafusion::common::{Result, plan_err};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use maud::{DOCTYPE, Markup, html};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use url::form_urlencoded;

use super::chain::{self, BY_PLACE, InputRow, On, PLACE};
use super::filter::Condition;
use super::page::{page, policy};
use super::report::Report;
use super::source::{Listing, QueryRow, QueryRows};
use crate::failure::Failure;
use crate::output::{complain, count, error_line, note, percent, print, several};
use crate::signals::Signals;
use crate::terminal::visible;

/// Rows of a list.
const PAGE: u64 = 50;
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
const KEYS: [(&str, &str); 4] = [
    ("j k", "next, previous chain"),
    ("n p", "next, previous dropped step"),
    ("s", "numbers and SQL"),
    ("/", "filter"),
];
/// SQL, and whether the largest is first.
type Keys = &'static [(&'static str, bool)];
/// The orders of the list: what the address and the form call them, and by what they sort.
const ORDERS: [(&str, &str, Keys); 6] = [
    ("place", "place in the input", &[]),
    ("longest", "longest first", &[("original_tokens", true)]),
    ("shortest", "shortest first", &[("original_tokens", false)]),
    ("least", "least kept first", &[(KEPT, false)]),
    ("most", "most kept first", &[(KEPT, true)]),
    ("steps", "most steps first", &[("cardinality(steps)", true)]),
];
const KEPT: &str = "pruned_tokens / CAST(greatest(original_tokens, 1) AS DOUBLE)";

pub(super) struct Server {
    pub report: Report,
    token: String,
    port: u16,
    pages: Semaphore,
}

/// What an address asks for.
#[derive(Debug, Default)]
struct Asked {
    filter: String,
    order: String,
    from: u64,
    at: Option<u64>,
    place: Option<InputRow>,
    status: String,
    is_whole: bool,
    /// The first argument that is no number.
    wrong: Option<String>,
}

impl Asked {
    fn of(query: Option<&str>) -> Self {
        let (mut asked, mut file, mut row) = (Self::default(), None, None);
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let number = value.parse::<u64>();
            if matches!(name.as_ref(), "from" | "at" | "row") && number.is_err() {
                asked.wrong.get_or_insert(format!("{name}={value}: expected a whole number"));
            }
            match name.as_ref() {
                "where" => asked.filter = value.into_owned(),
                "sort" => asked.order = value.into_owned(),
                "from" => asked.from = number.unwrap_or(0),
                "at" => asked.at = number.ok(),
                "file" => file = Some(value.into_owned()),
                "row" => row = number.ok(),
                "status" => asked.status = value.into_owned(),
                "whole" => asked.is_whole = value == "1",
                _ => {}
            }
        }
        asked.place = file.zip(row).map(|(file, row)| InputRow { file, row });
        asked
    }

    fn sorted(&self) -> Vec<(&'static str, bool)> {
        let by = ORDERS.iter().find(|(name, ..)| *name == self.order).map_or(&[][..], |(.., by)| by);
        by.iter().chain(&BY_PLACE).copied().collect()
    }

    /// The address of a page with the same filter and order.
    fn link(&self, page: &str, more: &[(&str, &str)]) -> String {
        let kept = [("where", self.filter.as_str()), ("sort", &self.order), ("status", &self.status)];
        let kept = kept.into_iter().filter(|(_, value)| !value.is_empty());
        address(page, &kept.chain(more.iter().copied()).collect::<Vec<_>>())
    }
}

fn address(page: &str, pairs: &[(&str, &str)]) -> String {
    format!("{page}?{}", form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
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
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if status == StatusCode::PERMANENT_REDIRECT {
            headers.extend(format!("/{}/", self.token).parse().ok().map(|own| (LOCATION, own)));
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
        let asked = Asked::of(query);
        let name = path.get(self.token.len() + 1..).unwrap_or_default();
        let made = match (name, &asked.wrong) {
            // Links of pages are relative to the address with a slash.
            ("", _) => return (StatusCode::PERMANENT_REDIRECT, String::new()),
            ("/", _) => Ok(Some(self.report.html(Some(&address)))),
            ("/chains" | "/chain" | "/rejects", Some(wrong)) => plan_err!("{wrong}"),
            ("/chains", None) => self.chains(&asked).await.map(Some),
            ("/chain", None) => self.chain(&asked).await,
            ("/rejects", None) => self.rejects(&asked).await.map(Some),
            _ => return (StatusCode::NOT_FOUND, "there is no such page".to_string()),
        };
        let (status, body) = match made {
            Ok(Some(body)) => (StatusCode::OK, body),
            Ok(None) => (
                StatusCode::NOT_FOUND,
                html! { h1 { "There is no such chain" } p { "The output may have changed, or the filter excludes it." } },
            ),
            Err(error) => {
                // The form stays, so that a filter can be corrected.
                let form = (name != "/rejects").then(|| form(&asked));
                let message = error_line(&error);
                (
                    StatusCode::BAD_REQUEST,
                    html! { h1 { "This page cannot be shown" } @if let Some(form) = form { (form) } p.error role="alert" { (visible(&message)) } },
                )
            }
        };
        let title = format!("asap view {}", self.report.title());
        (status, page(&title, "'self'", nav(name), body, &KEYS))
    }

    async fn chains(&self, asked: &Asked) -> Result<Markup> {
        let source = &self.report.source;
        let filter = Condition::typed(&asked.filter, &source.schema)?;
        let total = source.selected(filter.as_ref()).await?;
        let counted = ["id", "original_tokens", "pruned_tokens", "cardinality(steps) AS steps"];
        let listing = Listing {
            table: &source.location,
            columns: &[&PLACE[..], &counted].concat(),
            condition: filter.as_ref(),
            order: &asked.sorted(),
            first: asked.from,
            rows: Some(PAGE),
        };
        let rows = source.listed(&listing).await?;
        let questions = self.questions(&rows).await?;
        Ok(html! {
            h1 { "Chains" }
            (form(asked))
            p.facts { @if total == 0 { "No chain matches the filter." } @else { (several(total, "chain")) } }
            div.scroll role="region" aria-label="Chains" tabindex="0" {
                table {
                    thead { tr { @for head in ["chain", "tokens before", "after", "kept", "steps", "question"] { th.n[!matches!(head, "chain" | "question")] scope="col" { (head) } } } }
                    tbody {
                        @for (index, row) in rows.iter().enumerate() {
                            @let place = InputRow::of(row);
                            tr {
                                td { a href=(asked.link("chain", &[("at", &(asked.from + index as u64).to_string())])) { (visible(&place.to_string())) } }
                                td.n { (count(row.count("original_tokens"))) }
                                td.n { (count(row.count("pruned_tokens"))) }
                                td.n { (percent(row.number("pruned_tokens"), row.number("original_tokens"))) }
                                td.n { (count(row.count("steps"))) }
                                td.line dir="auto" { (visible(questions.iter().find(|question| InputRow::of(*question) == place).map_or("", |row| row.text("question")))) }
                            }
                        }
                    }
                }
            }
            (pager(asked, "chains", total))
            (shown(&listing))
        })
    }

    /// The beginnings of the questions of rows, so that only these rows' texts are read.
    async fn questions(&self, rows: &QueryRows) -> Result<QueryRows> {
        if rows.rows.is_empty() {
            return Ok(QueryRows::default());
        }
        let places: Vec<_> = rows.iter().map(InputRow::of).collect();
        let (source, condition) = (&self.report.source, chain::at(&places));
        let columns = &[PLACE[0], PLACE[1], "left(question, 300) AS question"];
        source.listed(&Listing { columns, ..chain::query(&source.location, &condition) }).await
    }

    /// None if there is no such chain.
    async fn chain(&self, asked: &Asked) -> Result<Option<Markup>> {
        let source = &self.report.source;
        let (place, before, after) = match (&asked.place, asked.at) {
            (Some(place), _) => (Some(place.clone()), None, None),
            (None, at) => self.neighbors(asked, at.unwrap_or(0)).await?,
        };
        let Some(place) = place else { return Ok(None) };
        let found = chain::read(source, &source.location, std::slice::from_ref(&place)).await?;
        let Some(chain) = found.first() else {
            let reject = chain::reject(source, &place).await?;
            return Ok(
                reject.map(|reject| html! { h1 { "Chain " (visible(&place.to_string())) } p { (visible(&reject)) } })
            );
        };
        let other = self.report.other(std::slice::from_ref(&place)).await?;
        let row = place.row.to_string();
        let own = [("file", place.file.as_str()), ("row", &row)];
        Ok(Some(html! {
            article {
                h1 { "Chain " (visible(&place.to_string())) }
                p.facts {
                    @if let Some(at) = before { a rel="prev" href=(asked.link("chain", &[("at", &at.to_string())])) { "← previous" } " · " }
                    @if let Some(at) = after { a rel="next" href=(asked.link("chain", &[("at", &at.to_string())])) { "next →" } " · " }
                    a href=(address("chain", &own)) { "link to this chain" } " · "
                    @if !asked.is_whole { a href=(address("chain", &[own[0], own[1], ("whole", "1")])) { "all text" } " · " }
                    a href=(asked.link("chains", &[])) { "list" }
                }
                (chain.html(other.first(), if asked.is_whole { On::WholePage } else { On::Page }))
            }
            (shown(&chain::query(&source.location, &chain::at(&[place]))))
        }))
    }

    /// The place of a chain of the list, and the indices of the chains around it.
    async fn neighbors(&self, asked: &Asked, at: u64) -> Result<(Option<InputRow>, Option<u64>, Option<u64>)> {
        let source = &self.report.source;
        let filter = Condition::typed(&asked.filter, &source.schema)?;
        let listing = Listing {
            table: &source.location,
            columns: &PLACE,
            condition: filter.as_ref(),
            order: &asked.sorted(),
            first: at,
            rows: Some(2),
        };
        let rows = source.listed(&listing).await?;
        let places: Vec<_> = rows.iter().map(InputRow::of).collect();
        Ok((places.first().cloned(), at.checked_sub(1), (places.len() > 1).then_some(at.saturating_add(1))))
    }

    async fn rejects(&self, asked: &Asked) -> Result<Markup> {
        let source = &self.report.source;
        let rejects = &source.status.rejects;
        if rejects.is_empty() {
            return Ok(html! { h1 { "Rejects" } p { "No row was rejected." } });
        }
        let status = (!asked.status.is_empty()).then(|| Condition::is("status", &asked.status));
        let total = rejects.iter().filter(|(status, _)| asked.status.is_empty() || **status == asked.status);
        let total = total.map(|(_, rows)| rows).sum();
        let listing = Listing {
            table: &source.rejects(),
            columns: &["status", PLACE[0], PLACE[1], "error"],
            condition: status.as_ref(),
            order: &BY_PLACE,
            first: asked.from,
            rows: Some(PAGE),
        };
        let rows = source.listed(&listing).await?;
        let cell = |row: QueryRow<'_>, column| visible(row.text(column)).into_owned();
        Ok(html! {
            h1 { "Rejects" }
            p {
                a href="rejects" { "all" }
                @for (status, rows) in rejects { " · " a href=(address("rejects", &[("status", status)])) { (visible(status)) " (" (count(*rows)) ")" } }
            }
            div.scroll role="region" aria-label="Rejects" tabindex="0" {
                table {
                    thead { tr { @for head in ["status", "row", "error"] { th scope="col" { (head) } } } }
                    tbody { @for row in rows.iter() { tr { td { (cell(row, "status")) } td { a href=(address("chain", &[("file", row.text("file")), ("row", &row.count("row").to_string())])) { (visible(&InputRow::of(row).to_string())) } } td.long { (cell(row, "error")) } } } }
                }
            }
            (pager(asked, "rejects", total))
            (shown(&listing))
        })
    }
}

fn nav(page: &str) -> Markup {
    let pages = [("/", "./", "Overview"), ("/chains", "chains", "Chains"), ("/rejects", "rejects", "Rejects")];
    html! {
        nav aria-label="Pages" {
            @for (name, link, title) in pages { a href=(link) aria-current=[(name == page).then_some("page")] { (title) } }
        }
    }
}

fn form(asked: &Asked) -> Markup {
    html! {
        form action="chains" method="get" {
            label.wide { "Filter: an SQL condition over the columns" input name="where" value=(asked.filter) placeholder="pruned_tokens > 100 AND id LIKE 'a%'" autocomplete="off" spellcheck="false"; }
            label { "Order" select name="sort" { @for (name, title, _) in ORDERS { option value=(name) selected[asked.order == name] { (title) } } } }
            button { "Show" }
        }
    }
}

fn pager(asked: &Asked, page: &str, total: u64) -> Markup {
    let link = |from: u64| asked.link(page, &[("from", &from.to_string())]);
    html! {
        p {
            @if asked.from > 0 { a rel="prev" href=(link(asked.from.saturating_sub(PAGE))) { "← previous" } " " }
            @if asked.from.saturating_add(PAGE) < total { a rel="next" href=(link(asked.from.saturating_add(PAGE))) { "next →" } }
        }
    }
}

fn shown(listing: &Listing) -> Markup {
    html! { details { summary { "SQL" } pre.sql tabindex="0" { code { (visible(&listing.sql())) } } } }
}
