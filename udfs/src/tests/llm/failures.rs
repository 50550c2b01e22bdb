//! Every failure of an endpoint ends in a correct row or a named status, in bounded time.

use std::time::{Duration, Instant};

use crate::tests::llm::setup::anchoring;
use asap_test_support::{Reply, Server};

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
async fn a_redirect_is_not_followed() {
    let other = Server::start(|_| Reply::text("stolen"));
    let location = format!("{}/chat/completions", other.base_url());
    let redirect = Reply::Status(307, vec![("location", location)], String::new());
    let server = Server::start(move |_| redirect.clone());
    let row = anchoring(&server, &[]).1.complete("a", None).await.unwrap();
    assert_eq!((row.status(), server.count(), other.count()), ("denied", 1, 0));
    assert!(row.error().unwrap().contains("307: the endpoint redirects"), "{row:?}");
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
