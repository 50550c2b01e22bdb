//! A server of the Hugging Face Hub's HTTP API for tests, which can misbehave. Large files are at another host, as on
//! the Hub. It writes to sockets itself, since no HTTP library sends half a reply.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use sha2::Digest;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::{header, read_request};

/// Files by their paths.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Entries of a page of a listing.
const PAGE: usize = 2;
/// A signature in the addresses of the storage, which nothing may show.
pub const SIGNATURE: &str = "X-Signature=geheime-unterschrift";
pub const TOKEN: &str = "hf_geheimes_token_0123456789";

/// A repository such as `datasets/org/name` or `models/org/name`.
#[derive(Debug, Clone)]
pub struct Repository {
    pub name: &'static str,
    /// The files of each branch.
    pub branches: Vec<(&'static str, Files)>,
    /// Whether only [`TOKEN`] may read files.
    pub is_gated: bool,
}

impl Repository {
    pub fn new(name: &'static str, files: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> Self {
        Self { name, branches: vec![("main", named(files))], is_gated: false }
    }

    pub fn branch(mut self, name: &'static str, files: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> Self {
        self.branches.push((name, named(files)));
        self
    }

    pub fn gated(self) -> Self {
        Self { is_gated: true, ..self }
    }
}

fn named(files: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> Files {
    files.into_iter().map(|(path, bytes)| (path.to_string(), bytes)).collect()
}

/// The commit of a branch.
pub fn commit(branch: &str) -> String {
    hex(&<sha1::Sha1 as sha1::Digest>::digest(branch))
}

/// The ETag of a file: SHA-256 if it is large, else git's hash.
pub fn etag(path: &str, bytes: &[u8]) -> String {
    match is_large(path) {
        true => hex(&sha2::Sha256::digest(bytes)),
        false => {
            hex(&<sha1::Sha1 as sha1::Digest>::digest([format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat()))
        }
    }
}

fn is_large(path: &str) -> bool {
    [".parquet", ".safetensors", ".bin"].iter().any(|ending| path.ends_with(ending))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub number: usize,
    /// The path and query, decoded.
    pub path: String,
    pub range: Option<String>,
    pub token: Option<String>,
    /// Whether it is for the storage.
    pub is_storage: bool,
}

/// How the server misbehaves.
#[derive(Debug, Clone)]
pub enum Fault {
    Status(u16, Vec<(&'static str, &'static str)>),
    /// The connection ends after this many bytes of the body.
    Cut(usize),
    /// The last byte is another one.
    Garbled,
    /// The file is another one than that of the listing.
    Replaced,
}

type Misbehave = Arc<dyn Fn(&Asked) -> Option<Fault> + Send + Sync>;

/// A running server, on a thread of its own until the process ends.
#[derive(Debug)]
pub struct Hub {
    pub endpoint: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

struct Served {
    repositories: Vec<Repository>,
    misbehave: Misbehave,
    asked: Arc<Mutex<Vec<Asked>>>,
    storage: SocketAddr,
}

impl Hub {
    pub fn start(repositories: Vec<Repository>) -> Self {
        Self::that(repositories, |_| None)
    }

    /// Starts a server that misbehaves where the script says so.
    pub fn that(
        repositories: Vec<Repository>,
        misbehave: impl Fn(&Asked) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let [hub, storage] = [(); 2].map(|()| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        });
        let endpoint = format!("http://{}", hub.local_addr().unwrap());
        let storage_address = storage.local_addr().unwrap();
        let served = Served {
            repositories,
            misbehave: Arc::new(misbehave),
            asked: Arc::clone(&asked),
            storage: storage_address,
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let served = Arc::new(served);
            runtime.block_on(async { tokio::join!(accept(hub, false, &served), accept(storage, true, &served)) });
        });
        Self { endpoint, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The requests for a file at the storage.
    pub fn loads(&self, file: &str) -> Vec<Asked> {
        let is_one = |asked: &Asked| asked.is_storage && asked.path.contains(file);
        self.asked().into_iter().filter(is_one).collect()
    }
}

async fn accept(listener: std::net::TcpListener, is_storage: bool, served: &Arc<Served>) {
    let listener = TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let served = Arc::clone(served);
        tokio::spawn(async move { drop(serve(stream, is_storage, &served).await) });
    }
}

/// A reply: its status, headers and body.
struct Reply(u16, Vec<(String, String)>, Vec<u8>);

impl Reply {
    fn error(status: u16, code: &str) -> Self {
        Self(status, vec![("x-error-code".to_string(), code.to_string())], vec![])
    }

    fn json(body: &Value) -> Self {
        Self(200, vec![], body.to_string().into_bytes())
    }
}

async fn serve(mut stream: TcpStream, is_storage: bool, served: &Served) -> std::io::Result<()> {
    let mut pending = Vec::new();
    loop {
        let (head, body) = read_request(&mut stream, &mut pending).await?;
        let target = head.split(' ').nth(1).unwrap().to_string();
        let asked = {
            let mut all = served.asked.lock().unwrap();
            let asked = Asked {
                number: all.len(),
                path: percent_decode_str(&target).decode_utf8_lossy().into_owned(),
                range: header(&head, "range").map(str::to_string),
                token: header(&head, "authorization").map(|value| value.replace("Bearer ", "")),
                is_storage,
            };
            all.push(asked.clone());
            asked
        };
        let fault = (served.misbehave)(&asked);
        let mut reply = match &fault {
            Some(Fault::Status(status, headers)) => {
                let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
                Reply(*status, headers.collect(), vec![])
            }
            _ if is_storage => served.stored(&asked, &target),
            _ => served.answer(&asked, &target, &body),
        };
        match &fault {
            Some(Fault::Garbled) => reply.2.last_mut().into_iter().for_each(|byte| *byte = byte.wrapping_add(1)),
            Some(Fault::Replaced) => {
                let other = etag("other", b"other");
                reply
                    .1
                    .iter_mut()
                    .filter(|(name, _)| name.contains("etag"))
                    .for_each(|(_, etag)| etag.clone_from(&other));
            }
            _ => {}
        }
        let length = reply.2.len();
        let headers: String = reply.1.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("HTTP/1.1 {} Status\r\n{headers}content-length: {length}\r\n\r\n", reply.0);
        stream.write_all(head.as_bytes()).await?;
        if let Some(Fault::Cut(bytes)) = fault {
            stream.write_all(&reply.2[..length.min(bytes)]).await?;
            return Err(ErrorKind::ConnectionAborted.into());
        }
        stream.write_all(&reply.2).await?;
    }
}

impl Served {
    fn repository(&self, name: &str) -> Option<&Repository> {
        self.repositories.iter().find(|repository| repository.name == name)
    }

    fn answer(&self, asked: &Asked, target: &str, body: &[u8]) -> Reply {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.trim_start_matches('/').split('/').map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (name, call, revision, path) = match parts.as_slice() {
            ["api", kind, org, name, call, revision, path @ ..] => {
                (format!("{kind}/{org}/{name}"), *call, *revision, path.join("/"))
            }
            ["datasets", org, name, "resolve", revision, path @ ..] => {
                (format!("datasets/{org}/{name}"), "resolve", *revision, path.join("/"))
            }
            [org, name, "resolve", revision, path @ ..] => {
                (format!("models/{org}/{name}"), "resolve", *revision, path.join("/"))
            }
            _ => return Reply::error(404, ""),
        };
        if asked.token.as_deref().is_some_and(|token| token != TOKEN) {
            let message = ("x-error-message".to_string(), "Invalid credentials in Authorization header".to_string());
            return Reply(401, vec![message], vec![]);
        }
        let Some(repository) = self.repository(&name) else {
            return Reply::error(if asked.token.is_some() { 404 } else { 401 }, "RepoNotFound");
        };
        let is_meant = |branch: &str| branch == revision || commit(branch).starts_with(revision);
        let Some((branch, files)) = repository.branches.iter().find(|(branch, _)| is_meant(branch)) else {
            return Reply::error(404, "RevisionNotFound");
        };
        match call {
            "revision" => Reply::json(&json!({ "_id": "0", "id": name, "sha": commit(branch) })),
            "tree" => tree(files, &path, query),
            "paths-info" => {
                let body = String::from_utf8_lossy(body).replace('+', " ");
                let path = decoded(body.strip_prefix("paths=").unwrap().split('&').next().unwrap());
                Reply::json(&files.get_key_value(&path).map(|(path, bytes)| entry(path, bytes)).into_iter().collect())
            }
            _ if repository.is_gated && asked.token.is_none() => Reply::error(401, "GatedRepo"),
            _ => self.resolve(asked, &name, &path, files),
        }
    }

    /// A small file, or the way to a large one.
    fn resolve(&self, asked: &Asked, name: &str, path: &str, files: &Files) -> Reply {
        let Some(bytes) = files.get(path) else { return Reply::error(404, "EntryNotFound") };
        let etag = format!("\"{}\"", etag(path, bytes));
        if !is_large(path) {
            let mut reply = part(asked, bytes);
            reply.1.push(("etag".to_string(), etag));
            return reply;
        }
        let branch = self.repository(name).unwrap().branches.iter().find(|(_, held)| held == files).unwrap().0;
        // Another name of this machine: it is another host for a client.
        let location = format!("http://localhost:{}/{name}/{}/{path}?{SIGNATURE}", self.storage.port(), commit(branch));
        let headers = [("location", location), ("x-linked-etag", etag), ("x-linked-size", bytes.len().to_string())];
        Reply(302, headers.map(|(name, value)| (name.to_string(), value)).to_vec(), b"Found".to_vec())
    }

    fn stored(&self, asked: &Asked, target: &str) -> Reply {
        let Some(path) = target.strip_suffix(&format!("?{SIGNATURE}")).filter(|_| asked.token.is_none()) else {
            return Reply::error(400, "");
        };
        let found = self.repositories.iter().find_map(|repository| {
            repository.branches.iter().find_map(|(branch, files)| {
                let path = path.strip_prefix(&format!("/{}/{}/", repository.name, commit(branch)))?;
                files.get(path)
            })
        });
        found.map_or(Reply::error(404, ""), |bytes| {
            let mut reply = part(asked, bytes);
            reply.1.push(("etag".to_string(), "\"of-the-storage\"".to_string()));
            reply
        })
    }
}

fn entry(path: &str, bytes: &[u8]) -> Value {
    let mut entry = json!({ "type": "file", "path": path, "size": bytes.len(), "oid": etag("", bytes) });
    if is_large(path) {
        entry["lfs"] = json!({ "oid": etag(path, bytes), "size": bytes.len(), "pointerSize": 130 });
    }
    entry
}

/// A page of a listing. The address of the next one names another host, as a mirror does.
fn tree(files: &Files, folder: &str, query: &str) -> Reply {
    let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let is_deep = query.contains("recursive=true");
    let (mut entries, mut folders) = (Vec::new(), BTreeSet::new());
    for (path, bytes) in files {
        let Some(rest) = path.strip_prefix(&below) else { continue };
        let parents: Vec<usize> = rest.match_indices('/').map(|(at, _)| at).collect();
        let parents = if is_deep { &parents[..] } else { &parents[..parents.len().min(1)] };
        for parent in parents {
            let path = format!("{below}{}", &rest[..*parent]);
            if folders.insert(path.clone()) {
                entries.push(json!({ "type": "directory", "path": path, "oid": etag("", path.as_bytes()), "size": 0 }));
            }
        }
        if is_deep || parents.is_empty() {
            entries.push(entry(path, bytes));
        }
    }
    if entries.is_empty() && !folder.is_empty() {
        return Reply::error(404, "EntryNotFound");
    }
    let cursor = query.split('&').find_map(|part| part.strip_prefix("cursor=")?.parse().ok()).unwrap_or(0);
    let next = cursor + PAGE;
    let mut reply = Reply::json(&entries.iter().skip(cursor).take(PAGE).cloned().collect());
    if next < entries.len() {
        let query = query.split("&cursor=").next().unwrap();
        let link = format!("<https://huggingface.co/api/anywhere?{query}&cursor={next}>; rel=\"next\"");
        reply.1.push(("link".to_string(), link));
    }
    reply
}

/// The part of a file that is asked for.
fn part(asked: &Asked, bytes: &[u8]) -> Reply {
    let length = bytes.len();
    let Some((first, last)) = asked.range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-'))
    else {
        return Reply(200, vec![], bytes.to_vec());
    };
    let (first, end) = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Err(_), Ok(last)) => (length.saturating_sub(last), length),
        (Ok(first), last) => (first, last.map_or(length, |last| length.min(last + 1))),
        _ => return Reply::error(400, ""),
    };
    if first >= end {
        return Reply::error(416, "");
    }
    let range = ("content-range".to_string(), format!("bytes {first}-{}/{length}", end - 1));
    Reply(206, vec![range], bytes[first..end].to_vec())
}
