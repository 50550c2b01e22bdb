//! In-memory object servers, each on its own thread until the process ends: one without conditional writes, and one
//! like the Hugging Face Hub.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::service::{HttpService, service_fn};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::Body;
#[cfg(feature = "hf")]
use serde_json::json;

use super::listen;

/// The behavior of a server without conditional writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Condition {
    /// Ignores `If-None-Match` and writes.
    Ignored,
    /// Answers 501 to `If-None-Match`.
    Refused,
}

/// Serves objects from memory without authentication: as files of a web server, and like S3 except for conditions.
pub(crate) fn serve_memory(condition: Condition, objects: &[(&str, Vec<u8>)]) -> SocketAddr {
    let held: BTreeMap<String, Vec<u8>> =
        objects.iter().map(|(path, bytes)| (path.to_string(), bytes.clone())).collect();
    let held = Arc::new(Mutex::new(held));
    listen_http(service_fn(move |request| answer(request, condition, held.clone())))
}

async fn answer(
    request: Request<Incoming>,
    condition: Condition,
    held: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = Body::from(body).store_all_limited(1 << 24).await.unwrap();
    let (path, mut held) = (head.uri.path(), held.lock().unwrap());
    let status = |status| Response::builder().status(status);
    let reply = match head.method {
        Method::PUT if head.headers.contains_key("if-none-match") && condition == Condition::Refused => {
            status(StatusCode::NOT_IMPLEMENTED).body(Body::empty())
        }
        Method::PUT => {
            held.insert(path.to_string(), body.to_vec());
            status(StatusCode::OK).header("etag", "\"e\"").body(Body::empty())
        }
        // The names of objects to delete are in XML.
        Method::POST => {
            let named = String::from_utf8(body.to_vec()).unwrap();
            let bucket = path.trim_end_matches('/');
            held.retain(|object, _| !named.contains(&format!("<Key>{}</Key>", &object[bucket.len() + 1..])));
            status(StatusCode::OK).body(Body::from("<DeleteResult></DeleteResult>".to_string()))
        }
        Method::GET if head.uri.query().is_some() => status(StatusCode::METHOD_NOT_ALLOWED).body(Body::empty()),
        Method::GET | Method::HEAD => return Ok(file(&head, held.get(path))),
        _ => status(StatusCode::METHOD_NOT_ALLOWED).body(Body::empty()),
    };
    Ok(reply.unwrap())
}

/// Answers with a file like a web server, in full or in the requested range.
fn file(head: &Parts, bytes: Option<&Vec<u8>>) -> Response<Body> {
    let Some(bytes) = bytes else {
        return Response::builder().status(StatusCode::NOT_FOUND).body(Body::empty()).unwrap();
    };
    let length = bytes.len();
    let range = head.headers.get("range").map(|range| range.to_str().unwrap().to_string());
    let (status, part) = match range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) {
        None => (StatusCode::OK, 0..length),
        Some(("", last)) => (StatusCode::PARTIAL_CONTENT, length - last.parse::<usize>().unwrap()..length),
        Some((first, last)) => {
            let last = last.parse::<usize>().map_or(length, |last| length.min(last + 1));
            (StatusCode::PARTIAL_CONTENT, first.parse().unwrap()..last)
        }
    };
    let range = format!("bytes {}-{}/{length}", part.start, part.end.max(1) - 1);
    let reply = Response::builder().status(status).header("etag", "\"e\"").header("content-range", range);
    let reply = reply.header("content-length", part.len()).header("last-modified", "Sat, 01 Jan 2028 00:00:00 GMT");
    let body = if head.method == Method::HEAD { Body::empty() } else { Body::from(bytes[part].to_vec()) };
    reply.body(body).unwrap()
}

/// Serves the revision `1d0c4eb` of the dataset `org/name` like the Hugging Face Hub: its files by their paths.
#[cfg(feature = "hf")]
pub(crate) fn serve_hub(files: &[(&str, Vec<u8>)]) -> SocketAddr {
    let held: BTreeMap<String, Vec<u8>> = files.iter().map(|(path, bytes)| (path.to_string(), bytes.clone())).collect();
    let held = Arc::new(held);
    listen_http(service_fn(move |request| answer_as_hub(request, held.clone())))
}

#[cfg(feature = "hf")]
async fn answer_as_hub(
    request: Request<Incoming>,
    held: Arc<BTreeMap<String, Vec<u8>>>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = Body::from(body).store_all_limited(1 << 24).await.unwrap();
    let info = |path: &str| json!({ "type": "file", "oid": "0a1b", "size": held[path].len(), "path": path });
    let path = head.uri.path();
    let found = if let Some(folder) = path.strip_prefix("/api/datasets/org/name/tree/1d0c4eb/") {
        let below = held.keys().filter(|path| path.starts_with(folder)).map(|path| info(path));
        Some(below.chain([json!({ "type": "directory", "oid": "2c3d", "path": format!("{folder}more") })]).collect())
    } else if path == "/api/datasets/org/name/paths-info/1d0c4eb" {
        let asked = String::from_utf8(body.to_vec()).unwrap();
        let asked = asked.strip_prefix("paths=").unwrap().split_once('&').unwrap().0;
        Some(held.keys().filter(|path| *path == asked).map(|path| info(path)).collect::<Vec<_>>())
    } else {
        None
    };
    Ok(match found {
        Some(found) => Response::new(Body::from(serde_json::to_string(&found).unwrap())),
        None => file(&head, path.strip_prefix("/datasets/org/name/resolve/1d0c4eb/").and_then(|path| held.get(path))),
    })
}

pub(crate) fn listen_http<S>(service: S) -> SocketAddr
where
    S: HttpService<Incoming, ResBody = Body> + Clone + Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    listen(move |connection| {
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service.clone())
    })
}
