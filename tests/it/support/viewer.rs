//! A server of `asap view`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::common::Workplace;

/// A server of `asap view` that ends with the test.
pub(crate) struct Viewer {
    pub child: Child,
    pub host: String,
    pub token: String,
}

impl Viewer {
    pub(crate) fn of(workplace: &Workplace) -> Self {
        Self::by(workplace.command(["view", "out"]))
    }

    pub(crate) fn by(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (host, token) = line.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        Self { child, host: host.to_string(), token: token.trim_end_matches('/').to_string() }
    }

    pub(crate) fn request(&self, method: &str, host: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        (response[9..12].parse().unwrap(), response)
    }

    pub(crate) fn page(&self, page: &str) -> (u16, String) {
        self.request("GET", &self.host, &format!("/{}/{page}", self.token))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        self.child.wait().unwrap();
    }
}
