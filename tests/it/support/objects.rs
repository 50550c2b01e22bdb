//! In-memory servers of files, each on its own thread until the process ends.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::service::{HttpService, service_fn};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::Body;

use super::listen;

type Files = BTreeMap<String, Vec<u8>>;

fn serve(files: &[(&str, Vec<u8>)], answer: fn(&Parts, &[u8], &Files) -> Response<Body>) -> SocketAddr {
    let files: Files = files.iter().map(|(path, bytes)| (path.to_string(), bytes.clone())).collect();
    let files = Arc::new(files);
    listen_http(service_fn(move |request: Request<Incoming>| {
        let files = Arc::clone(&files);
        async move {
            let (head, body) = request.into_parts();
            let body = Body::from(body).store_all_limited(1 << 24).await.unwrap();
            Ok::<_, Infallible>(answer(&head, &body, &files))
        }
    }))
}

fn empty(status: StatusCode) -> Response<Body> {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

/// Serves files by their paths. It cannot list them.
pub(crate) fn serve_files(files: &[(&str, Vec<u8>)]) -> SocketAddr {
    serve(files, |head, _, files| {
        let is_read = head.uri.query().is_none() && [Method::GET, Method::HEAD].contains(&head.method);
        if is_read { file(head, files.get(head.uri.path())) } else { empty(StatusCode::METHOD_NOT_ALLOWED) }
    })
}

/// Answers with a file like a web server, in full or in the requested range.
fn file(head: &Parts, bytes: Option<&Vec<u8>>) -> Response<Body> {
    let Some(bytes) = bytes else { return empty(StatusCode::NOT_FOUND) };
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

pub(crate) fn listen_http<S>(service: S) -> SocketAddr
where
    S: HttpService<Incoming, ResBody = Body> + Clone + Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    listen(move |connection| {
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service.clone())
    })
}
