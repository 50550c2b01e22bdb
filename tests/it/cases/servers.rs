//! The servers of cases: a language model, and the faults of a store.

use std::time::Duration;

use asap_test_support::{Call, Reply, Server};
use serde_json::{Value, json};

use crate::scene::range;
use crate::support::anchorer::model;
use crate::support::proxy::{Action, Gate, RequestHead};

/// Starts a server that replies by the first rule for a call: `WHEN: REPLY`. `WHEN` is `*`, a number or a range of
/// numbers of calls, `GET`, or a part of the prompt. A reply may begin with `after MILLISECONDS`.
pub(crate) fn serve(rules: &[&str]) -> Server {
    let rules: Vec<(String, String)> = rules
        .iter()
        .map(|rule| rule.split_once(": ").unwrap())
        .map(|(when, reply)| (when.into(), reply.into()))
        .collect();
    Server::start(move |call| {
        let is_for = |when: &str| match when {
            "*" => true,
            "GET" => call.head.starts_with("GET"),
            _ if when.starts_with(|first: char| first.is_ascii_digit()) => range(when).contains(&call.number),
            _ => call.prompt().contains(when),
        };
        let rule = rules.iter().find(|(when, _)| is_for(when));
        reply(call, rule.map_or("error 404 no such page", |(_, reply)| reply.as_str()))
    })
}

fn reply(call: &Call, named: &str) -> Reply {
    let (kind, text) = named.split_once(' ').unwrap_or((named, ""));
    match kind {
        "model" => model(call),
        "picky" => picky(call),
        "hang" => Reply::Hang,
        "text" => Reply::text(text),
        "answer" => Reply::Json(json!({
            "model": "m",
            "choices": [{ "message": { "content": text.replace("\\n", "\n") }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 20, "completion_tokens": 50 },
        })),
        "json" => Reply::Json(serde_json::from_str(text).unwrap()),
        "after" => {
            let (pause, then) = text.split_once(' ').unwrap();
            Reply::After(Duration::from_millis(pause.parse().unwrap()), Box::new(reply(call, then)))
        }
        "error" => {
            let (status, message) = text.split_once(' ').unwrap();
            Reply::error(status.parse().unwrap(), message)
        }
        _ => panic!("there is no reply {kind}"),
    }
}

/// Parses `commits out` and other tests of [`RequestHead`].
pub(crate) fn requests_named(named: &str) -> impl Fn(&RequestHead) -> bool + Send + Sync + 'static {
    let (kind, object) = named.split_once(' ').unwrap_or((named, ""));
    let (kind, object) = (kind.to_string(), object.to_string());
    move |head| match kind.as_str() {
        "all" => true,
        "commits" => head.commits(&object),
        "commits-rows" => head.commits_rows(&object),
        "creates" => head.is_create(),
        "gets" => head.gets(&object),
        "lists" => head.lists(&object),
        "probes" => head.puts(&object) && head.path.contains(".asap-probe-") && head.is_create(),
        "puts" => head.puts(&object),
        "reads" => head.method == "GET" && head.path.starts_with(&format!("/lake/{object}/")),
        "writes-shard" => head.method == "PUT" && head.path.ends_with(".parquet"),
        _ => panic!("there are no requests {kind}"),
    }
}

/// The error codes of S3 that cases name.
const CODES: [&str; 4] = ["AccessDenied", "ConditionalRequestConflict", "InternalError", "SlowDown"];

pub(crate) fn action_named(named: &str, gate: &Gate) -> Action {
    match *named.split(' ').collect::<Vec<_>>() {
        ["status", status, code] => {
            let code = CODES.iter().find(|known| **known == code).unwrap();
            Action::Status(status.parse().unwrap(), code)
        }
        ["cut"] => Action::Cut,
        ["cut-body"] => Action::CutBody,
        ["lose-reply"] => Action::LoseReply,
        ["reply-after-loss", status] => Action::ReplyAfterLoss(status.parse().unwrap()),
        ["hide-refusal"] => Action::HideRefusal,
        ["hold"] => Action::Hold(gate.clone()),
        ["hold-reply"] => Action::HoldReply(gate.clone()),
        ["slow", milliseconds] => Action::Slow(Duration::from_millis(milliseconds.parse().unwrap())),
        _ => panic!("there is no action {named}"),
    }
}

/// A model that accepts neither `max_tokens` nor a temperature.
fn picky(call: &Call) -> Reply {
    let refused = |field: &str, more: &str| {
        let message = format!("Unsupported parameter: '{field}' is not supported with this model.{more}");
        Reply::error(400, &message)
    };
    match (&call.body["max_tokens"], &call.body["temperature"]) {
        (Value::Null, Value::Null) => model(call),
        (Value::Null, _) => refused("temperature", ""),
        _ => refused("max_tokens", " Use 'max_completion_tokens' instead."),
    }
}
