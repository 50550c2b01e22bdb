//! How much is asked at once, in a minute and in all.

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::tests::llm::setup::anchoring;
use crate::tests::server::{Reply, Server};

fn slow_server(milliseconds: u64) -> Server {
    Server::start(move |_| Reply::After(Duration::from_millis(milliseconds), Box::new(Reply::text("add"))))
}

#[tokio::test]
async fn as_many_calls_as_allowed_run_at_once() {
    for (allowed, milliseconds) in [("3", 20), ("64", 500)] {
        let server = slow_server(milliseconds);
        let (_, anchoring) = anchoring(&server, &[("max_concurrent_requests", allowed)]);
        let prompts: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let rows = join_all(prompts.iter().map(|prompt| anchoring.complete(prompt))).await;
        assert!(rows.into_iter().all(|row| row.unwrap().status() == "ok"));
        assert_eq!((server.count(), server.most_at_once()), (200, allowed.parse().unwrap()));
    }
}

#[tokio::test]
async fn sessions_share_the_limits_of_an_endpoint() {
    let server = slow_server(50);
    let sessions = [0, 1, 2].map(|_| anchoring(&server, &[("max_concurrent_requests", "2")]).1);
    let rows = join_all(sessions.iter().flat_map(|anchoring| {
        ["a", "b", "c"].map(|prompt| async move { anchoring.complete(prompt).await.unwrap().status() })
    }));
    assert_eq!(rows.await, ["ok"; 9]);
    assert_eq!((server.count(), server.most_at_once()), (9, 2));
}

#[tokio::test]
async fn requests_and_tokens_keep_their_pace() {
    for limit in [("max_requests_per_minute", "1200"), ("max_tokens_per_minute", "132000")] {
        let server = Server::start(|_| Reply::text("add"));
        let (_, anchoring) = anchoring(&server, &[limit]);
        let begin = Instant::now();
        for prompt in ["a", "b", "c", "d", "e"] {
            anchoring.complete(prompt).await.unwrap();
        }
        // Four pauses of 50 ms: 1200 requests a minute, or 132000 tokens, 110 each.
        assert!(begin.elapsed() >= Duration::from_millis(195), "{limit:?}: {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn a_number_of_calls_is_not_exceeded() {
    let server = Server::start(|call| if call.number < 2 { Reply::error(500, "oops") } else { Reply::text("add") });
    let (llm, anchoring) = anchoring(&server, &[("max_calls", "4"), ("max_retries", "2")]);
    let mut statuses = Vec::new();
    for prompt in ["a", "b", "c", "a"] {
        statuses.push(anchoring.complete(prompt).await.unwrap().status());
    }
    assert_eq!(statuses, ["ok", "ok", "budget", "ok"]);
    let usage = llm.usage();
    assert_eq!((server.count(), usage.calls, usage.retries, usage.cache_hits), (4, 4, 2, 1));
    assert_eq!((usage.tokens_in, usage.tokens_out), (200, 20));
}

#[tokio::test]
async fn money_is_counted_and_not_exceeded() {
    let server = slow_server(50);
    let prices = [
        ("price_per_million_input_tokens", "10000"),
        ("price_per_million_output_tokens", "100000"),
        ("max_tokens", "10"),
        ("max_cost", "7"),
    ];
    let (llm, anchoring) = anchoring(&server, &prices);
    let prompts: Vec<String> = (0..10).map(|number| format!("{number:040}")).collect();
    let rows = join_all(prompts.iter().map(|prompt| anchoring.complete(prompt))).await;
    let rows: Vec<_> = rows.into_iter().map(Result::unwrap).collect();
    // 100 tokens in and 10 out cost 2. Before a call at most 104 in and 10 out are expected, 2.04: a fourth has no room.
    assert_eq!(rows.iter().filter(|row| row.status() == "ok").count(), 3);
    let refused: Vec<_> = rows.iter().filter(|row| row.status() == "budget").collect();
    assert_eq!((refused.len(), server.count()), (7, 3));
    assert!(refused[0].error().unwrap().contains("asap.anchor.max_cost is 7"), "{refused:?}");
    assert!((llm.usage().cost - 6.0).abs() < 1e-9 && (rows[0].spent.own.cost - 2.0).abs() < 1e-9);
}
