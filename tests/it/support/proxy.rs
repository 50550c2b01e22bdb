//! A proxy between a client and an HTTP server that misbehaves as a script says, request by request.
//!
//! Requests pass unchanged but for the header `connection`, so that their signatures stay valid: each request has a
//! connection of its own.

use std::io::{ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What a script knows of a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestHead {
    /// Which request it is, from 0.
    pub number: usize,
    /// GET, PUT, …
    pub method: String,
    /// The path as it was sent: `/bucket/key`.
    pub path: String,
    /// What follows the question mark, with `%2F` as a slash.
    pub query: String,
    /// The request line and the headers, as they are passed on.
    pub head: String,
    /// The body as text.
    pub body: String,
}

impl RequestHead {
    /// The method and what it was meant for, to show.
    pub(crate) fn target(&self) -> String {
        format!("{} {}?{}", self.method, self.path, self.query)
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// Whether an object of this folder of the bucket (or of one below it) is put.
    pub(crate) fn puts(&self, folder: &str) -> bool {
        self.method == "PUT" && self.path.starts_with(&format!("/lake/{folder}/"))
    }

    /// Whether this is a commit to the table at a folder.
    pub(crate) fn commits(&self, table: &str) -> bool {
        let log = format!("/lake/{table}/_delta_log/");
        let version = self.path.strip_prefix(&log).and_then(|name| name.strip_suffix(".json"));
        self.method == "PUT" && version.is_some_and(|version| version.len() == 20 && version.parse::<u64>().is_ok())
    }

    /// Whether this is a commit to the table at a folder that adds rows.
    pub(crate) fn commits_rows(&self, table: &str) -> bool {
        self.commits(table) && self.body.contains("{\"add\":")
    }

    /// Whether this object is read.
    pub(crate) fn gets(&self, object: &str) -> bool {
        self.method == "GET" && self.path == format!("/lake/{object}")
    }

    /// Whether objects are listed whose keys begin with a text.
    pub(crate) fn lists(&self, prefix: &str) -> bool {
        self.method == "GET" && self.query.split('&').any(|part| part.starts_with(&format!("prefix={prefix}")))
    }

    /// Whether the log of the table at a folder is read or listed.
    pub(crate) fn reads_log(&self, table: &str) -> bool {
        let log = format!("{table}/_delta_log");
        let reads = ["GET", "HEAD"].contains(&self.method.as_str());
        reads && (self.path.starts_with(&format!("/lake/{log}")) || self.lists(&log))
    }
}

/// What the proxy does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Passes it on and its reply back.
    Pass,
    /// Replies with this status and a body that has this S3 error code; the server never sees the request.
    Status(u16, &'static str),
    /// Ends the connection; the server never sees the request.
    Cut,
    /// Passes it on, then ends the connection without its reply.
    LoseReply,
    /// Passes it on, then replies with this status instead.
    ReplyAfterLoss(u16),
    /// Passes it on; where the server refuses it, because it was to be created and is there, replies that it was done.
    HideRefusal,
    /// Passes it on; the reply comes in pieces, with this pause after each.
    Slow(Duration),
    /// Passes it on; the connection ends in the middle of the reply's body.
    CutBody,
    /// Holds it until the gate opens, then passes it on.
    Hold(Gate),
    /// Passes it on and holds the reply until the gate opens.
    HoldReply(Gate),
}

/// Where requests wait until a test lets them go.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    waiting: Arc<AtomicUsize>,
    state: watch::Sender<GateState>,
}

#[derive(Debug, Clone, Copy)]
enum GateState {
    /// What comes waits; the number of times that those who waited were let go.
    Closed(u64),
    Open,
    /// Connections end.
    Cut,
}

impl Gate {
    /// A closed gate.
    pub(crate) fn new() -> Self {
        Self { waiting: Arc::default(), state: watch::Sender::new(GateState::Closed(0)) }
    }

    /// How many requests wait at the gate.
    pub(crate) fn held(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Lets go what waits.
    pub(crate) fn let_go(&self) {
        self.state.send_modify(|state| {
            if let GateState::Closed(times) = state {
                *times += 1;
            }
        });
    }

    /// Lets go what waits and what comes.
    pub(crate) fn open(&self) {
        self.state.send_replace(GateState::Open);
    }

    /// Ends the connections of what waits and what comes.
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

/// A request that came to its end.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    /// The request.
    pub head: RequestHead,
    /// The status that the client saw; None if it saw none.
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
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// A proxy before a server, on a free port; it passes everything on.
    pub(crate) fn start(upstream: SocketAddr) -> Self {
        let shared = Arc::new(Shared {
            upstream,
            script: Mutex::new(Arc::new(|_| Action::Pass)),
            count: AtomicUsize::new(0),
            log: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let shared = Arc::clone(&serving);
                    tokio::spawn(async move { drop(serve(stream, &shared).await) });
                }
            });
        });
        Self { address, shared }
    }

    /// From now on does what a script says, with an empty log and numbers from 0.
    pub(crate) fn follow(&self, script: impl Fn(&RequestHead) -> Action + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap() = Arc::new(script);
        self.shared.count.store(0, Ordering::SeqCst);
        self.shared.log.lock().unwrap().clear();
    }

    /// From now on passes everything on, with an empty log.
    pub(crate) fn calm(&self) {
        self.follow(|_| Action::Pass);
    }

    /// Does this with the first requests that a test is true for, so many of them, and passes on the rest.
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

    /// The requests that came to their end.
    pub(crate) fn log(&self) -> Vec<Logged> {
        self.shared.log.lock().unwrap().clone()
    }

    /// How many requests came since the script was set.
    pub(crate) fn count(&self) -> usize {
        self.shared.count.load(Ordering::SeqCst)
    }

    /// How many requests of the log a test is true for.
    pub(crate) fn count_of(&self, is_meant: impl Fn(&RequestHead) -> bool) -> usize {
        self.log().iter().filter(|logged| is_meant(&logged.head)).count()
    }
}

async fn serve(mut client: TcpStream, shared: &Shared) -> Result<()> {
    client.set_nodelay(true)?;
    let Some((head, body)) = read_request(&mut client).await? else { return Ok(()) };
    let script = Arc::clone(&shared.script.lock().unwrap());
    let head = parse(&head, &body, shared.count.fetch_add(1, Ordering::SeqCst));
    let replied = perform(&mut client, &head, &body, script(&head), shared.upstream).await;
    let status = *replied.as_ref().unwrap_or(&None);
    shared.log.lock().unwrap().push(Logged { head, status });
    client.shutdown().await
}

/// Does what the script said; the status that the client saw.
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
            let body = position(&reply, b"\r\n\r\n").map_or(0, |end| end + 4);
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

/// The server's whole reply.
async fn forward(head: &RequestHead, body: &[u8], upstream: SocketAddr) -> Result<Vec<u8>> {
    let mut server = TcpStream::connect(upstream).await?;
    server.set_nodelay(true)?;
    server.write_all(format!("{}connection: close\r\n\r\n", head.head).as_bytes()).await?;
    server.write_all(body).await?;
    let mut reply = Vec::new();
    server.read_to_end(&mut reply).await?;
    Ok(reply)
}

/// The head of a request, with its last line's end, and its body; None if the client only connected.
async fn read_request(client: &mut TcpStream) -> Result<Option<(String, Vec<u8>)>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = position(&bytes, b"\r\n\r\n") {
            break end + 4;
        }
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end - 2]).into_owned();
    let length = header(&head, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    assert!(header(&head, "transfer-encoding").is_none(), "the proxy reads bodies whose length is said");
    while bytes.len() < end + length {
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some((head, bytes.split_off(end))))
}

fn position(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    bytes.windows(sought.len()).position(|window| window == sought)
}

fn header<'a>(head: &'a str, sought: &str) -> Option<&'a str> {
    let found = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    found.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(sought)).map(|(_, value)| value.trim())
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
