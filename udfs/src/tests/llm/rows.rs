//! Rows of one server and what they must give, by `rows.jsonl`.

use std::iter::repeat_n;
use std::time::Duration;

use asap_udfs::anchor::{Anchored, Anchorer};
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tests::llm::setup::{anchoring, asking, settings, try_asking};
use asap_test_support::{Call, Reply, Server};

/// A line of `rows.jsonl`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    /// Settings `asap.anchor.*` in place of the usual ones.
    #[serde(default)]
    set: Vec<[String; 2]>,
    /// The replies to the calls, in order; the last one again for all further calls.
    replies: Vec<Value>,
    /// What is asked, and what it gives: see [`ask`] and [`check`].
    rows: Vec<Value>,
    calls: usize,
    /// The usage of the session: what is not named is 0.
    used: Option<Value>,
    /// Fields of the first call's body.
    #[serde(default)]
    sends: serde_json::Map<String, Value>,
    /// The number of a call, and a text with the number of its places in that call's prompt.
    #[serde(default)]
    prompts: Vec<(usize, String, usize)>,
}

/// A reply: a text, or an object with a `text`, `json`, `message` of an error, `body` or `fault`.
fn reply(described: &Value) -> Reply {
    let times = described["times"].as_u64().unwrap_or(1) as usize;
    let text = |name: &str| described[name].as_str().map(|text| text.repeat(times));
    let status = described["status"].as_u64().unwrap_or(200) as u16;
    let after = text("retry-after").map(|after| ("retry-after", after));
    match (described["fault"].as_str(), &described["json"]) {
        _ if described.is_string() => Reply::text(described.as_str().unwrap_or_default()),
        (Some("hang"), _) => Reply::Hang,
        (Some("drip"), _) => Reply::Drip(Duration::from_millis(20)),
        (Some("cut"), _) => Reply::Cut,
        (Some("close"), _) => Reply::Close,
        (None, Value::Null) => match (text("text"), text("message")) {
            (Some(text), _) => Reply::Text(text),
            (_, Some(message)) => Reply::error(status, &message),
            _ => Reply::Status(status, after.into_iter().collect(), text("body").unwrap_or_default()),
        },
        (None, body) => Reply::Json(body.clone()),
        (Some(fault), _) => panic!("no fault is named {fault}"),
    }
}

/// Asks for a row: `anchor` of a question and an answer, `coarse` of a chain and a thought, or `complete` of a prompt.
async fn ask(anchoring: &dyn Anchorer, row: &Value) -> Value {
    let texts = |name: &str| [0, 1].map(|place| row[name][place].as_str());
    if row["anchor"].is_array() {
        let [question, answer] = texts("anchor");
        return found(anchoring.anchor(question, answer, None).await.unwrap(), |thought| json!(thought));
    }
    if row["coarse"].is_array() {
        let [cot, thought] = texts("coarse");
        return found(anchoring.coarse(cot, thought, None).await.unwrap(), |pruned| {
            // As texts, because numbers of JSON are not read to the last bit.
            let similarity: Vec<String> = pruned.similarity.iter().map(f64::to_string).collect();
            json!({ "cot": pruned.cot, "kept": pruned.kept, "similarity": similarity })
        });
    }
    found(anchoring.complete(row["complete"].as_str().unwrap(), None).await.unwrap(), |said| json!(said))
}

fn found<T>(row: Anchored<T>, gives: impl FnOnce(&T) -> Value) -> Value {
    json!({
        "status": row.status(), "error": row.error(), "gives": row.outcome.as_ref().ok().map(gives),
        "attempts": row.spent.attempts, "tokens": [row.spent.tokens_in, row.spent.tokens_out], "used": row.spent.own,
    })
}

/// Checks a row: `gives` and status `ok`, or another `status`; what else is named; and words that its error `says`.
fn check(what: &str, row: &Value, found: &Value) {
    assert_eq!(found["status"], *row.get("status").unwrap_or(&json!("ok")), "{what}: {found}");
    let error = found["error"].as_str().unwrap_or_default();
    assert!(error.len() < 1000 && error.contains(row["says"].as_str().unwrap_or_default()), "{what}: {error}");
    for (name, expected) in row.as_object().unwrap() {
        match name.as_str() {
            "anchor" | "coarse" | "complete" | "says" => {}
            "used" => assert_used(what, &found["used"], expected),
            _ => assert_eq!(found[name], *expected, "{what}: {name}"),
        }
    }
}

fn assert_used(what: &str, found: &Value, expected: &Value) {
    for (name, found) in found.as_object().unwrap() {
        assert_eq!(found.as_f64(), expected[name].as_f64().or(Some(0.0)), "{what}: {name}");
    }
}

async fn run(case: Case) {
    let Case { case, set, replies, rows, calls, used, sends, prompts } = case;
    let replies: Vec<Reply> = replies
        .iter()
        .flat_map(|described| repeat_n(reply(described), described["calls"].as_u64().unwrap_or(1) as usize))
        .collect();
    let server = Server::start(move |call| replies[call.number.min(replies.len() - 1)].clone());
    let changes: Vec<(&str, &str)> = set.iter().map(|[key, value]| (key.as_str(), value.as_str())).collect();
    let (llm, anchoring) = anchoring(&server, &changes);
    for row in &rows {
        check(&case, row, &ask(&*anchoring, row).await);
    }
    assert_eq!((server.count(), llm.usage().calls), (calls, calls as u64), "{case}");
    if let Some(used) = used {
        assert_used(&case, &json!(llm.usage()), &used);
    }
    let asked = server.calls();
    for Call { head, body, .. } in &asked {
        assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{case}: {head}");
        assert!(!head.to_lowercase().contains("authorization"), "{case}: {head}");
        let sizes = (body.as_object().map(|fields| fields.len()), body["messages"].as_array().map(Vec::len));
        assert_eq!((sizes, &body["model"]), ((Some(6), Some(1)), &json!("test-model")), "{case}");
    }
    sends.iter().for_each(|(name, value)| assert_eq!(asked[0].body[name], *value, "{case}: {name}"));
    for (call, text, times) in prompts {
        assert_eq!(asked[call].prompt().matches(&text).count(), times, "{case}: {text} in {}", asked[call].prompt());
    }
}

#[tokio::test]
async fn every_case_gives_what_it_says() {
    let cases = include_str!("rows.jsonl").lines().map(|line| serde_json::from_str::<Case>(line).unwrap());
    join_all(cases.map(run)).await;
}

#[test]
fn attempts_without_a_limit_need_a_limit_of_calls_or_cost() {
    let server = Server::start(|_| Reply::Hang);
    let unlimited = try_asking(&settings(&server, &[("max_attempts", "0")])).unwrap_err();
    assert!(unlimited.to_string().contains("asap.anchor.max_calls or asap.anchor.max_cost"), "{unlimited}");
}

#[tokio::test]
async fn prompts_of_ones_own_are_asked_anew() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("anchor.md"), "{question}={answer}").unwrap();
    std::fs::write(folder.path().join("coarse.md"), "{anchor}{cot}").unwrap();
    let server = Server::start(|_| Reply::text("add"));
    let llm = asap_llm::Llm::default();
    for prompt_dir in ["", folder.path().to_str().unwrap(), ""] {
        let anchoring = asking(&llm, &settings(&server, &[("prompt_dir", prompt_dir)]));
        assert_eq!(anchoring.anchor(Some("1+1"), Some("2"), None).await.unwrap().status(), "ok");
    }
    assert_eq!(server.count(), 2);
    assert_eq!(server.calls()[1].prompt(), "1+1=2");
}
