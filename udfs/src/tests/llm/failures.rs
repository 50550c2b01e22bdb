//! Every failure of an endpoint ends in a correct row or a named status, in bounded time.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::tests::llm::setup::anchoring;
use asap_test_support::{Reply, Server};

/// A time limit for replies that never end, and one for other replies that even a busy machine meets.
fn timeout(reply: &Reply) -> (&'static str, &'static str) {
    ("timeout", if matches!(reply, Reply::Hang | Reply::Drip(_)) { "1" } else { "30" })
}

/// Returns the status, the error and the number of calls of a row whose server always gives this reply.
async fn always(reply: Reply) -> (&'static str, String, usize) {
    let timeout = timeout(&reply);
    let server = Server::start(move |_| reply.clone());
    let (_, anchoring) = anchoring(&server, &[timeout]);
    let anchor = anchoring.anchor(Some("1 + 1?"), Some("2"), None).await.unwrap();
    (anchor.status(), anchor.error().unwrap_or_default().to_string(), server.count())
}

/// The same for a server that gives this reply to the first request, and a thought to the second.
async fn once(reply: Reply) -> (&'static str, usize) {
    let timeout = timeout(&reply);
    let server = Server::start(move |call| if call.number == 0 { reply.clone() } else { Reply::text("add") });
    let (llm, anchoring) = anchoring(&server, &[timeout]);
    let anchor = anchoring.anchor(Some("1 + 1?"), Some("2"), None).await.unwrap();
    assert_eq!(anchor.outcome.is_ok(), anchor.status() == "ok");
    assert_eq!(llm.usage().retries as usize, server.count() - 1);
    (anchor.status(), server.count())
}

#[tokio::test]
async fn a_response_that_comes_twice_answers_one_call() {
    let prompt = |body: &serde_json::Value| body["messages"][0]["content"].as_str().unwrap().to_string();
    let server = Server::start(move |call| Reply::Twice(format!("about {}", prompt(&call.body))));
    let (_, anchoring) = anchoring(&server, &[("max_concurrent_requests", "1")]);
    for asked in ["a", "b", "c", "d", "e", "f"] {
        let answered = anchoring.complete(asked, None).await.unwrap();
        assert_eq!(answered.outcome.ok(), Some(format!("about {asked}")));
    }
    assert_eq!(server.count(), 6);
}

#[tokio::test]
async fn what_passes_is_sent_again() {
    let too_many = |header: &str| Reply::Status(429, vec![("retry-after", header.to_string())], String::new());
    let replies = [
        Reply::error(429, "slow down"),
        too_many("0"),
        too_many("Sat, 21 Nov 2020 10:00:00 GMT"),
        too_many("when it suits"),
        Reply::error(500, "oops"),
        Reply::error(503, "busy"),
        Reply::Hang,
        Reply::Drip(Duration::from_millis(20)),
        Reply::Cut,
        Reply::Close,
        Reply::Status(200, Vec::new(), "{\"choices\": [{".to_string()),
        Reply::Status(200, Vec::new(), "<html>gateway</html>".to_string()),
        Reply::Json(json!({ "choices": [] })),
        Reply::Json(json!({ "error": { "message": "overloaded", "code": 503 } })),
    ];
    let rows = replies.map(|reply| async move { (format!("{reply:?}"), once(reply).await) });
    for (reply, row) in futures::future::join_all(rows).await {
        assert_eq!(row, ("ok", 2), "{reply}");
    }
}

#[tokio::test]
async fn what_does_not_pass_is_a_status() {
    let window = "This model's maximum context length is 512 tokens, your prompt has 900";
    let finished = |reason: &str, content: serde_json::Value| {
        let choice = json!({ "message": { "content": content }, "finish_reason": reason });
        Reply::Json(json!({ "choices": [choice], "usage": { "prompt_tokens": 9, "completion_tokens": 256 } }))
    };
    let cases = [
        (Reply::error(429, "slow down"), "rate_limited", "429: slow down", 2),
        (Reply::error(500, "oops"), "unavailable", "500: oops", 2),
        (Reply::Hang, "timeout", "no complete answer after 1 s", 2),
        (Reply::Drip(Duration::from_millis(20)), "timeout", "no complete answer after 1 s", 2),
        (Reply::Cut, "unavailable", "the connection broke", 2),
        (Reply::Close, "unavailable", "the connection broke", 2),
        (Reply::Status(200, Vec::new(), "nonsense".to_string()), "bad_response", "nonsense", 2),
        (Reply::Json(json!({ "choices": [] })), "bad_response", "expected a choice", 2),
        (Reply::Json(json!({ "error": "broken" })), "bad_response", "broken", 2),
        (Reply::error(400, "no such parameter"), "refused", "400: no such parameter", 1),
        (Reply::error(401, "wrong key"), "denied", "401: wrong key", 1),
        (Reply::error(404, "no such model"), "denied", "404: no such model", 1),
        (Reply::error(400, window), "too_long", window, 1),
        (finished("length", json!("It is")), "too_long", "cut off after 256 tokens", 1),
        (finished("content_filter", json!("")), "refused", "filter", 1),
        (finished("stop", json!(null)), "bad_response", "expected a text", 1),
        (Reply::text(&"word ".repeat(1 << 20)), "bad_response", "expected a response of at most", 1),
        (Reply::Status(500, Vec::new(), "x".repeat(1 << 22)), "bad_response", "expected a response of at most", 1),
        (Reply::text(" \n "), "bad_response", "blank", 1),
    ];
    let rows = cases.map(|(reply, status, words, calls)| async move { (always(reply).await, status, words, calls) });
    for ((status, error, calls), expected, words, expected_calls) in futures::future::join_all(rows).await {
        assert_eq!((status, calls), (expected, expected_calls), "{error}");
        assert!(error.contains(words) && error.len() < 1000, "{error}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::start(|_| Reply::text("stolen"));
    let location = format!("{}/chat/completions", other.base_url());
    let redirect = Reply::Status(307, vec![("location", location)], String::new());
    let (status, error, calls) = always(redirect).await;
    assert_eq!((status, calls, other.count()), ("denied", 1, 0));
    assert!(error.contains("307: the endpoint redirects"), "{error}");
}

#[tokio::test]
async fn a_pause_that_the_endpoint_asks_for_is_made() {
    let server = Server::start(|call| match call.number {
        0 => Reply::Status(429, vec![("retry-after", "1".to_string())], String::new()),
        _ => Reply::text("add"),
    });
    let (_, anchoring) = anchoring(&server, &[]);
    let begin = Instant::now();
    assert_eq!(anchoring.anchor(Some("1 + 1?"), Some("2"), None).await.unwrap().status(), "ok");
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn no_one_at_the_address_ends_the_query_until_a_call_was_answered() {
    let server = Server::start(|_| Reply::text("add"));
    let ((_, known), (llm, new)) = (anchoring(&server, &[]), anchoring(&server, &[]));
    assert_eq!(known.complete("a", None).await.unwrap().status(), "ok");
    drop(server);
    let error = new.complete("b", None).await.unwrap_err().to_string();
    assert!(error.contains("cannot connect to the endpoint") && error.contains("start the endpoint"), "{error}");
    assert_eq!(llm.usage().calls, 1);
    let row = known.complete("b", None).await.unwrap();
    assert_eq!(row.status(), "unavailable");
    assert!(row.error().unwrap().contains("cannot connect"));
}

#[tokio::test]
async fn what_waits_for_its_turn_is_not_sent_to_an_endpoint_that_denies() {
    let server = Server::start(|_| Reply::error(402, "pay first"));
    let (llm, anchoring) = anchoring(&server, &[("max_concurrent_requests", "64")]);
    let prompts: Vec<String> = (0..400).map(|number| number.to_string()).collect();
    let rows = futures::future::join_all(prompts.iter().map(|prompt| anchoring.complete(prompt, None))).await;
    // Eight are in flight at first. Two more start before the third is denied.
    let sent = server.count();
    assert!((3..=10).contains(&sent) && llm.usage().calls == sent as u64, "{sent} requests");
    assert_eq!(rows.iter().filter(|row| row.is_err()).count(), 400 - sent);
}

#[tokio::test]
async fn one_denial_is_a_verdict_until_a_later_call_is_answered_and_what_a_row_is_refused_for_is_none() {
    let flagged = "your input was flagged";
    let server = Server::start(move |call| match call.prompt() {
        "denied" => Reply::error(402, "pay first"),
        "slow" => Reply::After(Duration::from_millis(200), Box::new(Reply::text("yes"))),
        "flagged" => Reply::error(403, flagged),
        "refused" => Reply::error(400, "no"),
        _ => Reply::text("yes"),
    });
    let (llm, anchoring) = anchoring(&server, &[]);
    for prompt in ["a", "flagged", "refused"] {
        anchoring.complete(prompt, None).await.unwrap();
        assert!(llm.failure().is_none());
    }
    let (slow, denied) = tokio::join!(anchoring.complete("slow", None), anchoring.complete("denied", None));
    assert_eq!((slow.unwrap().status(), denied.unwrap().status()), ("ok", "denied"));
    let failure = llm.failure().unwrap().to_string();
    assert!(failure.contains("are denied") && failure.contains("402: pay first"), "{failure}");
    anchoring.complete("b", None).await.unwrap();
    assert!(llm.failure().is_none());
}
