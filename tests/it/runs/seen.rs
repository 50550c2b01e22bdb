//! The progress reports of a run, and the metadata of its commits.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::common::json_lines;
use crate::runs::place::{File, Place, summary, wait_until};
use crate::support::table::log;

const FILES: [File; 2] = [("a.parquet", 1..=9, "step"), ("b.parquet", 11..=19, "step")];

fn events(stderr: &str) -> Vec<Value> {
    stderr.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
}

fn texts<'a>(events: &'a [Value], message: &str, field: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["message"] == message).map(|event| &event[field]).collect()
}

#[test]
fn a_log_tells_of_slices_and_commits() {
    let place = Place::local().with(&FILES);
    place.put_bytes("in/c.parquet", b"no Parquet");
    let finished = place.run(&["--log", "json", "--set=run.slice_rows=5"]).ends(3, &[]);
    let told = events(&finished.stderr);
    assert_eq!(texts(&told, "run begins", "slices"), [4]);
    assert_eq!(texts(&told, "slice is written", "rows_in").len(), 4);
    assert_eq!(texts(&told, "slices are committed", "slices"), [4]);
    assert_eq!(texts(&told, "run ends", "rows_out"), [14]);
    let last = told.last().unwrap();
    assert!(last["level"] == "ERROR" && last["message"].as_str().unwrap().contains("c.parquet"), "{last}");

    let quiet = place.run(&["--new-generation"]);
    assert_eq!(quiet.stderr.lines().filter(|line| line.contains("run begins")).count(), 0, "{}", quiet.stderr);
    let text = place.run(&["--new-generation", "--log", "text"]);
    assert!(text.stderr.contains("INFO run begins run=") && text.stderr.contains("error: "), "{}", text.stderr);
}

fn get(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_watch_prints_each_round_and_serves_its_figures_to_this_machine_alone() {
    let place = Place::local().with(&FILES[..1]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut run = place.start(&["--watch=1s", "--metrics-addr", &address]);
    let has = |line: &str| get(port, "/metrics").lines().any(|found| found == line);
    wait_until("the first run's figures", || has("asap_runs_total 1"));
    assert!(has("asap_rows_in_total 9") && has("asap_rows_out_total 7") && has("asap_rows_rejected_total 1"));
    place.put(FILES[1].clone());
    wait_until("the next file's figures", || has("asap_rows_in_total 18") && has("asap_runs_total 2"));
    assert!(has("# TYPE asap_rows_in_total counter"));
    assert!(get(port, "/").starts_with("HTTP/1.1 404"));
    wait_until("a round without a new file", || has("asap_runs_total 3"));
    run.terminate();
    let rounds = json_lines(run.finish().ok());
    let rows = rounds.iter().map(|round| (round["rows_in"].as_u64().unwrap(), round["nothing_to_do"] == true));
    assert_eq!(rows.take(3).collect::<Vec<_>>(), [(9, false), (9, false), (0, true)]);

    place.run(&["--metrics-addr", "0.0.0.0:9400"]).ends(2, &["open to other machines"]);
}

#[test]
fn commits_say_what_they_hold_and_of_which_run() {
    let place = Place::local().with(&FILES);
    let said = summary(&place.run(&["--set=run.slice_rows=5", "--set=run.commit_seconds=0"]), 0);
    let infos: Vec<Value> = log(&place.path("out"))
        .into_iter()
        .flat_map(|(_, actions)| actions.into_iter().map(|action| action["commitInfo"]["asap"].clone()))
        .filter(|info| !info.is_null())
        .collect();
    let rows = |info: &Value| info["counts"]["rows_in"].as_u64();
    assert_eq!(infos.iter().filter_map(rows).sum::<u64>(), 18);
    assert!(infos.iter().filter(|info| rows(info).is_some()).all(|info| info["slices"].as_array().is_some()));
    let last = infos.last().unwrap();
    assert_eq!(last["finished"], 18);
    assert_eq!(last["summary"]["counts"]["rows_out"], said["rows_out"]);
    assert_eq!(last["summary"]["slices"], said["slices"]);
}
