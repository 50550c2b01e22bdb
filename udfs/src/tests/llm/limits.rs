//! Limits on concurrent calls, on calls per minute, and on all calls.

use std::time::{Duration, Instant};

use asap_llm::{Llm, Usage};
use futures::future::join_all;
use serde_json::json;

use crate::tests::functions::session::{golden_path, session_asking};
use crate::tests::llm::setup::{anchoring, asking, settings};
use asap_test_support::{Reply, Server};

fn slow_server(milliseconds: u64) -> Server {
    Server::start(move |_| Reply::After(Duration::from_millis(milliseconds), Box::new(Reply::text("add"))))
}

#[tokio::test]
async fn as_many_calls_as_allowed_run_at_once() {
    for (allowed, milliseconds) in [("3", 20), ("64", 500)] {
        let server = slow_server(milliseconds);
        let (_, anchoring) = anchoring(&server, &[("max_concurrent_requests", allowed)]);
        let prompts: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let rows = join_all(prompts.iter().map(|prompt| anchoring.complete(prompt, None))).await;
        assert!(rows.into_iter().all(|row| row.unwrap().status() == "ok"));
        assert_eq!((server.count(), server.most_at_once()), (200, allowed.parse().unwrap()));
    }
}

#[tokio::test]
async fn sessions_share_the_limits_of_an_endpoint() {
    let server = slow_server(50);
    let sessions = [0, 1, 2].map(|_| anchoring(&server, &[("max_concurrent_requests", "2")]).1);
    let rows = join_all(sessions.iter().flat_map(|anchoring| {
        ["a", "b", "c"].map(|prompt| async move { anchoring.complete(prompt, None).await.unwrap().status() })
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
            anchoring.complete(prompt, None).await.unwrap();
        }
        // Four pauses of 50 ms: 1200 requests per minute, or 132000 tokens, 110 each.
        assert!(begin.elapsed() >= Duration::from_millis(195), "{limit:?}: {:?}", begin.elapsed());
    }
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
    let rows = join_all(prompts.iter().map(|prompt| anchoring.complete(prompt, None))).await;
    let rows: Vec<_> = rows.into_iter().map(Result::unwrap).collect();
    // 100 tokens in and 10 out cost 2. A call reserves at most 104 in and 10 out, 2.04, so a fourth does not fit.
    assert_eq!(rows.iter().filter(|row| row.status() == "ok").count(), 3);
    let refused: Vec<_> = rows.iter().filter(|row| row.status() == "budget").collect();
    assert_eq!((refused.len(), server.count()), (7, 3));
    assert!(refused[0].error().unwrap().contains("asap.anchor.max_cost = 7"), "{refused:?}");
    assert!((llm.usage().cost - 6.0).abs() < 1e-9 && (rows[0].spent.own.cost - 2.0).abs() < 1e-9);
}

#[tokio::test]
async fn what_rows_used_is_what_their_session_used() {
    let server = Server::start(|call| match (call.number, call.prompt()) {
        (0..2, _) => Reply::error(500, "oops"),
        (_, "refused") => Reply::error(400, "no"),
        (_, "endless") => Reply::Json(json!({
            "choices": [{ "message": { "content": "It is" }, "finish_reason": "length" }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 3 },
        })),
        _ => Reply::After(Duration::from_millis(20), Box::new(Reply::text("add"))),
    });
    let prices = [("price_per_million_input_tokens", "1000000"), ("price_per_million_output_tokens", "1000000")];
    let limits = [("max_calls", "7"), ("max_retries", "2")];
    let (llm, anchoring) = anchoring(&server, &[prices, limits].concat());
    let mut used = Usage::default();
    for prompts in [["a"; 2], ["refused", "a"], ["endless"; 2], ["b", "endless"], ["c", "d"]] {
        for row in join_all(prompts.map(|prompt| anchoring.complete(prompt, None))).await {
            used += row.unwrap().spent.own;
        }
    }
    // One of the last two exceeds the budget and makes no call.
    let expected =
        Usage { calls: 7, cache_hits: 4, retries: 2, failed: 3, tokens_in: 307, tokens_out: 33, cost: 340.0 };
    assert_eq!((used, llm.usage(), server.count()), (expected, expected, 7));
}

#[tokio::test]
async fn explain_analyze_shows_the_calls_that_the_session_counted() {
    let server = Server::start(|_| Reply::text("yes"));
    let llm = Llm::default();
    let context = session_asking(&llm, settings(&server, &[("max_calls", "4")]));
    let query = "EXPLAIN ANALYZE SELECT ai_complete('What is ' || value || '?') FROM generate_series(1, 10)";
    let plan = context.sql(query).await.unwrap().to_string().await.unwrap();
    for metric in ["calls=4", "cache_hits=0", "failed=6", "tokens_in=400", "tokens_out=40"] {
        assert!(plan.contains(metric), "{metric}: {plan}");
    }
    let expected = Usage { calls: 4, failed: 6, tokens_in: 400, tokens_out: 40, ..Usage::default() };
    assert_eq!(llm.usage(), expected);
}

#[tokio::test]
async fn an_estimate_counts_the_same_for_rows_and_session() {
    let server = Server::start(|_| Reply::Hang);
    let mut settings = settings(&server, &[("price_per_million_output_tokens", "1000000")]);
    settings.scorer_model = golden_path("qwen2");
    let llm = Llm::estimate(None);
    let asking = asking(&llm, &settings);
    let mut used = Usage::default();
    for answer in ["2", "2", "two"] {
        used += asking.anchor(Some("1 + 1?"), Some(answer), None).await.unwrap().spent.own;
    }
    used += asking.coarse(Some("1 + 1.\n\nThat is 2."), Some("add"), None).await.unwrap().spent.own;
    assert_eq!((used, used.calls, used.cache_hits, server.count()), (llm.usage(), 3, 1, 0));
    assert!(used.tokens_in > 0 && used.cost > 0.0, "{used:?}");
}
