//! A scripted server of OpenAI's chat completions for tests and benches, which can misbehave. It runs on its own thread
//! and counts its requests. It writes to sockets itself, since no HTTP library sends half a reply or one too many.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(dead_code, reason = "each test that includes this file uses a part of it")]

pub mod hub;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

#[derive(Debug, Clone)]
pub struct Call {
    pub number: usize,
    pub head: String,
    pub body: Value,
}

impl Call {
    pub fn prompt(&self) -> &str {
        let messages = self.body["messages"].as_array();
        messages.and_then(|messages| messages.last()?["content"].as_str()).unwrap_or_default()
    }

    /// Returns the text between a pair of tags in the prompt, without the line ends around it.
    pub fn between(&self, tag: &str) -> &str {
        let (open, close) = (format!("<{tag}>\n"), format!("\n</{tag}>"));
        let after = self.prompt().split_once(&open).map_or("", |(_, after)| after);
        after.split_once(&close).map_or("", |(inner, _)| inner)
    }
}

#[derive(Debug, Clone)]
pub enum Reply {
    Text(String),
    Status(u16, Vec<(&'static str, String)>, String),
    /// A body that is no text, with its content encoding.
    Packed(&'static str, Vec<u8>),
    Json(Value),
    After(Duration, Box<Reply>),
    Hang,
    Drip(Duration),
    /// A chat completion with this text, and the same bytes again for the next request on the connection.
    Twice(String),
    Cut,
    Close,
}

impl Reply {
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_string())
    }

    pub fn error(status: u16, message: &str) -> Self {
        Self::Status(status, Vec::new(), json!({ "error": { "message": message } }).to_string())
    }
}

#[derive(Debug)]
pub struct Server {
    address: String,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: Mutex<Vec<Call>>,
    open: AtomicUsize,
    most_at_once: AtomicUsize,
    answered: AtomicUsize,
}

type Script = Arc<dyn Fn(&Call) -> Reply + Send + Sync>;

/// What asap learns of an endpoint holds for its address in the whole process, so no two servers share one.
fn on_a_new_port() -> std::net::TcpListener {
    static USED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        if USED.lock().unwrap().insert(listener.local_addr().unwrap().port()) {
            return listener;
        }
    }
}

impl Server {
    /// Starts a server on a free local port that replies to each request as in `script`.
    pub fn start(script: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        let script: Script = Arc::new(script);
        let counts = Arc::new(Counts::default());
        let (stop, stopped) = oneshot::channel();
        let listener = on_a_new_port();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::clone(&counts);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, script, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, counts, stop: Some(stop), thread: Some(thread) }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn calls(&self) -> Vec<Call> {
        self.counts.calls.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.counts.calls.lock().unwrap().len()
    }

    pub fn answered(&self) -> usize {
        self.counts.answered.load(Ordering::SeqCst)
    }

    pub fn most_at_once(&self) -> usize {
        self.counts.most_at_once.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

async fn accept(listener: TcpListener, script: Script, counts: Arc<Counts>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (script, counts) = (Arc::clone(&script), Arc::clone(&counts));
        tokio::spawn(async move { drop(serve(stream, &script, &counts).await) });
    }
}

async fn serve(mut stream: TcpStream, script: &Script, counts: &Counts) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut pending = Vec::new();
    loop {
        let (head, body) = read_request(&mut stream, &mut pending).await?;
        let call = {
            let mut calls = counts.calls.lock().unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let call = Call { number: calls.len(), head, body };
            calls.push(call.clone());
            call
        };
        let open = counts.open.fetch_add(1, Ordering::SeqCst) + 1;
        counts.most_at_once.fetch_max(open, Ordering::SeqCst);
        let replied = reply(&mut stream, script(&call)).await;
        counts.open.fetch_sub(1, Ordering::SeqCst);
        replied?;
        counts.answered.fetch_add(1, Ordering::SeqCst);
    }
}

/// Reads the head of a request, without its last line end, and its body, whose length the head says. Bytes of the next
/// request stay in `pending`.
pub async fn read_request(stream: &mut TcpStream, pending: &mut Vec<u8>) -> std::io::Result<(String, Vec<u8>)> {
    loop {
        if let Some(end) = pending.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&pending[..end]).into_owned();
            let length = header(&head, "content-length").and_then(|value| value.parse().ok());
            let total = end + 4 + length.unwrap_or(0);
            if pending.len() >= total {
                let body = pending[end + 4..total].to_vec();
                pending.drain(..total);
                return Ok((head, body));
            }
        }
        if stream.read_buf(pending).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Returns a header of a request's head.
pub fn header<'a>(head: &'a str, sought: &str) -> Option<&'a str> {
    let mut headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    headers.find(|(name, _)| name.eq_ignore_ascii_case(sought)).map(|(_, value)| value.trim())
}

async fn reply(stream: &mut TcpStream, mut reply: Reply) -> std::io::Result<()> {
    while let Reply::After(pause, then) = reply {
        tokio::time::sleep(pause).await;
        reply = *then;
    }
    match reply {
        Reply::Text(text) => stream.write_all(&ok(&completion(&text))).await,
        Reply::Json(body) => stream.write_all(&ok(&body)).await,
        Reply::Status(status, headers, body) => stream.write_all(&response(status, &headers, &body)).await,
        Reply::Packed(encoding, body) => {
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\ncontent-encoding: {encoding}\r\n\r\n");
            stream.write_all(&[head.as_bytes(), &body].concat()).await
        }
        Reply::Hang | Reply::After(..) => std::future::pending().await,
        Reply::Drip(interval) => {
            for byte in ok(&completion("too late")) {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(interval).await;
            }
            Ok(())
        }
        Reply::Twice(text) => {
            let whole = ok(&completion(&text));
            stream.write_all(&whole).await?;
            stream.readable().await?;
            stream.write_all(&whole).await
        }
        Reply::Cut => {
            let whole = ok(&completion("half of it"));
            stream.write_all(&whole[..whole.len() / 2]).await?;
            Err(ErrorKind::ConnectionAborted.into())
        }
        Reply::Close => Err(ErrorKind::ConnectionAborted.into()),
    }
}

/// vLLM 0.32 as it answers under `--max-model-len`: it lists its window, refuses a limit or a prompt above it, and ends
/// an answer there. Prompts and answers have a token per four bytes.
#[derive(Debug, Clone, Copy)]
pub struct Vllm {
    pub model: &'static str,
    pub window: usize,
    /// Whether it runs with `--reasoning-parser`: without a closing think tag, the whole text is the thought.
    pub parses_reasoning: bool,
}

impl Vllm {
    /// Replies with a text, as far as request and window allow.
    pub fn reply(self, call: &Call, text: &str) -> Reply {
        let Self { model, window, parses_reasoning } = self;
        if call.head.starts_with("GET") {
            let model = json!({ "id": model, "object": "model", "owned_by": "vllm", "max_model_len": window });
            return Reply::Json(json!({ "object": "list", "data": [model] }));
        }
        let limit = call.body["max_tokens"].as_u64().map_or(window, |limit| limit as usize);
        if limit > window {
            let what = format!("max_tokens={limit} cannot be greater than max_model_len={window}");
            return refused(&format!("{what}. Please request fewer output tokens."), "max_tokens", limit);
        }
        let prompt = call.prompt().len().div_ceil(4);
        if prompt >= window {
            let least = window + 1;
            let why = format!(
                "This model's maximum context length is {window} tokens. However, your prompt contains at least {least} \
                 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the \
                 input prompt."
            );
            return refused(&why, "input_tokens", least);
        }
        let room = limit.min(window - prompt);
        let (text, finish) = match text.char_indices().nth(4 * room) {
            Some((end, _)) => (&text[..end], "length"),
            None => (text, "stop"),
        };
        let (reasoning, content) = match text.split_once("</think>") {
            Some((thought, answer)) if parses_reasoning => (Some(thought), Some(answer)),
            None if parses_reasoning => (Some(text), None),
            _ => (None, Some(text)),
        };
        let message = json!({ "role": "assistant", "content": content, "refusal": null, "annotations": null, "audio": null,
            "function_call": null, "reasoning": reasoning });
        let tokens = text.len().div_ceil(4);
        Reply::Json(json!({ "id": "chatcmpl-1", "object": "chat.completion", "model": model,
            "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": finish, "stop_reason": null }],
            "usage": { "prompt_tokens": prompt, "total_tokens": prompt + tokens, "completion_tokens": tokens } }))
    }
}

fn refused(why: &str, parameter: &str, value: usize) -> Reply {
    let message = format!("{why} (parameter={parameter}, value={value})");
    let error = json!({ "message": message, "type": "BadRequestError", "param": parameter, "code": 400 });
    Reply::Status(400, vec![], json!({ "error": error }).to_string())
}

fn completion(text: &str) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 },
    })
}

fn ok(body: &Value) -> Vec<u8> {
    response(200, &[], &body.to_string())
}

fn response(status: u16, headers: &[(&'static str, String)], body: &str) -> Vec<u8> {
    let mut text =
        format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}
