//! Sends 10,000 calls from SQL to a server that answers after 200 ms, with 64 requests in flight and every answer
//! cached on disk. One run takes half a minute, so it is measured once. The peer is the Python client of OpenAI:
//! `python3 benches/peers/calls.py`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench may panic and print")]

#[path = "common/memory.rs"]
mod memory;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use asap_llm::Llm;
use asap_pipelines::answers::SharedAnswers;
use asap_pipelines::session::session;
use asap_test_support::{Reply, Server};
use asap_udfs::Settings;
use cpu_time::ProcessTime;
use datafusion::common::config::ExtensionOptions;

const CALLS: u64 = 10_000;
const IN_FLIGHT: u64 = 64;
const ANSWER_MILLISECONDS: u64 = 200;

/// Serves until standard input ends, in a separate process, so that its CPU time does not count for the client.
fn serve() {
    let answer = Duration::from_millis(ANSWER_MILLISECONDS);
    let server = Server::start(move |_| Reply::After(answer, Box::new(Reply::text("yes"))));
    println!("{}", server.base_url());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Starts the server's process and returns its address.
fn server_process() -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut base_url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut base_url).unwrap();
    (child, base_url.trim().to_string())
}

/// Returns the peak memory of this process, in units of 1,024,000 bytes.
fn peak_memory() -> u64 {
    memory::peak() / 1_024_000
}

#[tokio::main]
async fn measure() {
    let (mut child, base_url) = server_process();
    let answers = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    let folder = answers.path().to_str().unwrap();
    for (key, value) in [
        ("anchor.provider", "openai"),
        ("anchor.base_url", base_url.as_str()),
        ("anchor.model", "m"),
        ("cache.dir", folder),
    ] {
        settings.set(key, value).unwrap();
    }
    let context = session(settings.clone(), &Llm::new(Some(Arc::new(SharedAnswers::new(&settings))))).unwrap();
    let query = |calls| format!("SELECT count(ai_complete('call ' || value)) FROM generate_series(1, {calls})");
    let run = async |calls| context.sql(&query(calls)).await.unwrap().collect().await.unwrap();
    run(CALLS / 10).await;
    let after_a_tenth = peak_memory();
    for (what, first) in [("asked", true), ("from the session's memory", false)] {
        let (begin, cpu) = (Instant::now(), ProcessTime::now());
        run(CALLS + CALLS / 10).await;
        let (seconds, cpu) = (begin.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
        println!("{CALLS} calls {what}: {seconds:.1} s, {cpu:.2} CPU s ({:.2} cores)", cpu / seconds);
        if first {
            let least = (CALLS * ANSWER_MILLISECONDS) as f64 / IN_FLIGHT as f64 / 1000.0;
            println!("the server alone takes {least:.2} s: ratio {:.3}", seconds / least);
        }
    }
    println!("peak memory {} MB, {after_a_tenth} MB after a tenth of the calls", peak_memory());
    drop(child.stdin.take());
    child.wait().unwrap();
}

fn main() {
    if std::env::args().any(|argument| argument == "serve") { serve() } else { measure() }
}
