//! A proxy between a client and an HTTP server that injects faults by a script, request by request.
//!
//! Requests pass unchanged except for the header `connection`, so that their signatures stay valid. Each request has
//! its own connection.

use std::io::{ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asap_test_support::{header, read_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::listen;

/// The request as a script sees it.
#[derive(Debug, Clone)]
pub(crate) struct RequestHead {
    pub number: usize,
    pub method: String,
    /// The path as sent: `/bucket/key`.
    pub path: String,
    /// What follows the question mark, with `%2F` as a slash.
    pub query: String,
    /// The request line and the headers, as forwarded.
    pub head: String,
    pub body: String,
}

impl RequestHead {
    pub(crate) fn target(&self) -> String {
        format!("{} {}?{}", self.method, self.path, self.query)
    }

    /// Whether the request puts an object only if it does not exist.
    pub(crate) fn is_create(&self) -> bool {
        self.method == "PUT" && header(&self.head, "if-none-match").is_some()
    }

    /// Whether the request puts an object into this folder of the bucket or below it.
    pub(crate) fn puts(&self, folder: &str) -> bool {
        self.method == "PUT" && self.path.starts_with(&format!("/lake/{folder}/"))
    }

    pub(crate) fn commits(&self, table: &str) -> bool {
        let log = format!("/lake/{table}/_delta_log/");
        let version = self.path.strip_prefix(&log).and_then(|name| name.strip_suffix(".json"));
        self.method == "PUT" && version.is_some_and(|version| version.len() == 20 && version.parse::<u64>().is_ok())
    }

    /// Whether this is a commit to the table at a folder that adds rows.
    pub(crate) fn commits_rows(&self, table: &str) -> bool {
        self.commits(table) && self.body.contains("{\"add\":")
    }

    pub(crate) fn gets(&self, object: &str) -> bool {
        self.method == "GET" && self.path == format!("/lake/{object}")
    }

    pub(crate) fn lists(&self, prefix: &str) -> bool {
        self.method == "GET" && self.query.split('&').any(|part| part.starts_with(&format!("prefix={prefix}")))
    }

    pub(crate) fn reads_log(&self, table: &str) -> bool {
        let log = format!("{table}/_delta_log");
        let reads = ["GET", "HEAD"].contains(&self.method.as_str());
        reads && (self.path.starts_with(&format!("/lake/{log}")) || self.lists(&log))
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Pass,
    /// Replies with this status and S3 error code. The server never sees the request.
    Status(u16, &'static str),
    /// Ends the connection. The server never sees the request.
    Cut,
    /// Forwards the request, then ends the connection without its reply.
    LoseReply,
    /// Forwards the request, then replies with this status.
    ReplyAfterLoss(u16),
    /// Forwards the request. If the server refuses a conditional create because the object exists, replies with
    /// success.
    #[allow(dead_code, reason = "only cases use it")]
    HideRefusal,
    /// Forwards the request. The reply comes in pieces, with this pause after each.
    Slow(Duration),
    /// Forwards the request. The connection ends in the middle of the reply's body.
    CutBody,
    /// Holds the request until the gate opens, then forwards it.
    Hold(Gate),
    /// Forwards the request and holds the reply until the gate opens.
    HoldReply(Gate),
}

#[derive(Debug, Clone)]
pub(crate) struct Gate {
    waiting: Arc<AtomicUsize>,
    state: watch::Sender<GateState>,
}

#[derive(Debug, Clone, Copy)]
enum GateState {
    /// New requests wait. The number counts the releases so far.
    Closed(u64),
    Open,
    Cut,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { waiting: Arc::default(), state: watch::Sender::new(GateState::Closed(0)) }
    }

    pub(crate) fn held(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Releases the waiting requests.
    pub(crate) fn let_go(&self) {
        self.state.send_modify(|state| {
            if let GateState::Closed(times) = state {
                *times += 1;
            }
        });
    }

    /// Releases the waiting and all later requests.
    pub(crate) fn open(&self) {
        self.state.send_replace(GateState::Open);
    }

    /// Ends the connections of the waiting and all later requests.
    pub(crate) fn cut(&self) {
        self.state.send_replace(GateState::Cut);
    }

    async fn wait(&self) -> Result<()> {
        let mut state = self.state.subscribe();
        let GateState::Closed(before) = *state.borrow_and_update() else { return self.pass() };
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let ended = state.wait_for(|state| !matches!(state, GateState::Closed(now) if *now == before)).await.is_err();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if ended { Err(ErrorKind::ConnectionAborted.into()) } else { self.pass() }
    }

    fn pass(&self) -> Result<()> {
        match *self.state.borrow() {
            GateState::Cut => Err(ErrorKind::ConnectionAborted.into()),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub head: RequestHead,
    /// The status that the client received, if any.
    #[allow(dead_code, reason = "only cases use it")]
    pub status: Option<u16>,
}

type Script = Arc<dyn Fn(&RequestHead) -> Action + Send + Sync>;

struct Shared {
    upstream: SocketAddr,
    script: Mutex<Script>,
    count: AtomicUsize,
    log: Mutex<Vec<Logged>>,
}

/// A proxy that runs until the process ends.
pub(crate) struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Starts a proxy for a server, on a free port. It forwards everything.
    pub(crate) fn start(upstream: SocketAddr) -> Self {
        let shared = Arc::new(Shared {
            upstream,
            script: Mutex::new(Arc::new(|_| Action::Pass)),
            count: AtomicUsize::new(0),
            log: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let address = listen(move |client| {
            let shared = Arc::clone(&serving);
            async move { drop(serve(client, &shared).await) }
        });
        Self { address, shared }
    }

    /// Follows a script from now on, with an empty log and numbers from 0.
    pub(crate) fn follow(&self, script: impl Fn(&RequestHead) -> Action + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap() = Arc::new(script);
        self.shared.count.store(0, Ordering::SeqCst);
        self.shared.log.lock().unwrap().clear();
    }

    /// Forwards everything from now on, with an empty log.
    pub(crate) fn calm(&self) {
        self.follow(|_| Action::Pass);
    }

    /// Applies an action to the first `times` requests that match a test, and forwards the rest.
    pub(crate) fn fault(
        &self,
        times: usize,
        is_meant: impl Fn(&RequestHead) -> bool + Send + Sync + 'static,
        action: Action,
    ) {
        let seen = AtomicUsize::new(0);
        self.follow(move |head| {
            let is_hit = is_meant(head) && seen.fetch_add(1, Ordering::SeqCst) < times;
            if is_hit { action.clone() } else { Action::Pass }
        });
    }

    /// Applies an action to all requests that match a test, and forwards the rest.
    pub(crate) fn faults(&self, is_meant: impl Fn(&RequestHead) -> bool + Send + Sync + 'static, action: Action) {
        self.fault(usize::MAX, is_meant, action);
    }

    /// Holds all requests that match a test, and forwards the rest.
    pub(crate) fn hold(&self, is_meant: impl Fn(&RequestHead) -> bool + Send + Sync + 'static) -> Gate {
        let gate = Gate::new();
        self.faults(is_meant, Action::Hold(gate.clone()));
        gate
    }

    pub(crate) fn log(&self) -> Vec<Logged> {
        self.shared.log.lock().unwrap().clone()
    }

    /// Counts the requests since the script was set.
    pub(crate) fn count(&self) -> usize {
        self.shared.count.load(Ordering::SeqCst)
    }

    pub(crate) fn count_of(&self, is_meant: impl Fn(&RequestHead) -> bool) -> usize {
        self.log().iter().filter(|logged| is_meant(&logged.head)).count()
    }
}

async fn serve(mut client: TcpStream, shared: &Shared) -> Result<()> {
    client.set_nodelay(true)?;
    let (head, body) = read_request(&mut client, &mut Vec::new()).await?;
    assert!(header(&head, "transfer-encoding").is_none(), "the proxy only reads bodies with a content length");
    let script = Arc::clone(&shared.script.lock().unwrap());
    let head = parse(&head, &body, shared.count.fetch_add(1, Ordering::SeqCst));
    let replied = perform(&mut client, &head, &body, script(&head), shared.upstream).await;
    let status = *replied.as_ref().unwrap_or(&None);
    shared.log.lock().unwrap().push(Logged { head, status });
    client.shutdown().await
}

async fn perform(
    client: &mut TcpStream,
    head: &RequestHead,
    body: &[u8],
    action: Action,
    upstream: SocketAddr,
) -> Result<Option<u16>> {
    if let Action::Hold(gate) = &action {
        gate.wait().await?;
    }
    let reply = match action {
        Action::Cut => return Ok(None),
        Action::Status(status, code) => error_reply(status, code),
        _ => forward(head, body, upstream).await?,
    };
    match action {
        Action::LoseReply => return Ok(None),
        Action::ReplyAfterLoss(status) => {
            client.write_all(&error_reply(status, "InternalError")).await?;
            return Ok(Some(status));
        }
        Action::CutBody => {
            let body = reply.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |end| end + 4);
            client.write_all(&reply[..body + (reply.len() - body) / 2]).await?;
        }
        Action::Slow(pause) => {
            for piece in reply.chunks(1024) {
                client.write_all(piece).await?;
                tokio::time::sleep(pause).await;
            }
        }
        Action::HoldReply(gate) => {
            gate.wait().await?;
            client.write_all(&reply).await?;
        }
        Action::HideRefusal if reply.starts_with(b"HTTP/1.1 412") => {
            let done = "HTTP/1.1 200 OK\r\netag: \"0\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            client.write_all(done.as_bytes()).await?;
            return Ok(Some(200));
        }
        _ => client.write_all(&reply).await?,
    }
    let status = reply.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    Ok(status)
}

fn error_reply(status: u16, code: &str) -> Vec<u8> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as scripted</Message></Error>");
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/xml\r\ncontent-length: {length}\r\n");
    format!("{head}connection: close\r\n\r\n{body}").into_bytes()
}

async fn forward(head: &RequestHead, body: &[u8], upstream: SocketAddr) -> Result<Vec<u8>> {
    let mut server = TcpStream::connect(upstream).await?;
    server.set_nodelay(true)?;
    server.write_all(format!("{}connection: close\r\n\r\n", head.head).as_bytes()).await?;
    server.write_all(body).await?;
    let mut reply = Vec::new();
    server.read_to_end(&mut reply).await?;
    Ok(reply)
}

fn parse(head: &str, body: &[u8], number: usize) -> RequestHead {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_kept = |line: &&str| !line.to_ascii_lowercase().starts_with("connection:");
    RequestHead {
        number,
        method: method.to_string(),
        path: path.to_string(),
        query: query.replace("%2F", "/"),
        head: head.lines().filter(is_kept).map(|line| format!("{line}\r\n")).collect(),
        body: String::from_utf8_lossy(body).into_owned(),
    }
}
