//! Calls to servers that limit, fail and hang.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::chat::Outcome;
use crate::flights::SingleFlight;
use asap_test_support::{Reply as Served, Server};

/// Much longer than a busy machine needs, and much shorter than the requested pause.
const SOON: Duration = Duration::from_secs(40);

fn chat(server: &Server, change: impl FnOnce(&mut Config)) -> Arc<HttpChat> {
    let mut config = Config { base_url: Some(server.base_url()), ..Config::openai() };
    change(&mut config);
    Arc::new(HttpChat::new(&config, Arc::default(), Arc::default()).unwrap())
}

/// Allows 64 calls at once, six retries, and this many seconds for a call.
fn patient(seconds: f64) -> impl FnOnce(&mut Config) {
    move |config| (config.timeout, config.max_retries) = (Duration::from_secs_f64(seconds), 6)
}

fn request() -> ChatRequest {
    ChatRequest { max_tokens: 1, stop: vec!["7".to_string()], ..ChatRequest::default() }
}

async fn ask(chat: &Arc<HttpChat>, calls: usize) -> Vec<Outcome> {
    let flights = SingleFlight::default();
    let outcomes = join_all((0..calls).map(|number| {
        let chat = Arc::clone(chat);
        flights.join(number, move |callers| async move { chat.chat(&request(), &callers).await.outcome })
    }));
    outcomes.await.into_iter().map(|outcome| outcome.unwrap().0).collect()
}

async fn until(is_true: impl Fn() -> bool) {
    let is_so = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, is_so).await.unwrap();
}

fn limit(status: u16, after: &str) -> Served {
    Served::Status(status, vec![("retry-after", after.to_string())], String::new())
}

#[tokio::test]
async fn who_waits_through_a_pause_holds_no_slot_and_is_gone_when_no_one_waits_for_it() {
    let server = Server::start(|_| limit(429, "600"));
    let chat = chat(&server, |_: &mut Config| ());
    let (flights, throttle) = (SingleFlight::default(), Arc::clone(&chat.line.endpoint.throttle));
    let asking = |callers| async move { drop(chat.chat(&request(), &callers).await) };
    let mut waiting = Box::pin(flights.join(0, asking));
    assert!(futures::poll!(&mut waiting).is_pending());
    until(|| server.answered() > 0 && throttle.state.lock().in_flight == 0).await;
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(waiting);
    until(|| !flights.any()).await;
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_pause_that_one_call_is_asked_for_is_no_pause_of_the_others() {
    let server = Server::start(|call| if call.number == 3 { limit(429, "600") } else { Served::text("add") });
    let chat = chat(&server, |_: &mut Config| ());
    let asking = tokio::spawn(async move { ask(&chat, 100).await });
    until(|| server.answered() == 100).await;
    assert!(!asking.is_finished());
    asking.abort();
}

#[tokio::test]
async fn a_pause_that_is_asked_for_is_cut_to_the_setting() {
    let server = Server::start(|call| if call.number % 2 == 0 { limit(503, "600") } else { Served::text("add") });
    let outcome =
        tokio::time::timeout(SOON, ask(&chat(&server, |config| config.max_retry_after = Duration::from_millis(10)), 1))
            .await
            .unwrap();
    assert!(outcome[0].is_ok() && server.count() == 2, "{outcome:?}");
}

#[tokio::test]
async fn what_no_later_time_ends_is_told_apart() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
    });
    let server = Server::start(|_| Served::error(400, "Unsupported parameter: 'stop' is not supported."));
    for (url, words) in [(url, "check https in asap."), (server.base_url(), "refuses the texts of --stop")] {
        let outcomes = ask(&chat(&server, |config| config.base_url = Some(url)), 1).await;
        let error = outcomes[0].as_ref().unwrap_err();
        assert!(error.kind == FailureKind::EndpointDown && error.message.contains(words), "{error}");
    }
}

fn is_one_of(number: usize, share: f64) -> bool {
    f64::from((number as u32).wrapping_mul(2_654_435_761)) < share * f64::from(u32::MAX)
}

#[tokio::test]
async fn limits_at_random_slow_nothing() {
    for at_once in [8, 64] {
        let server = Server::start(|call| match call.number % 3 {
            _ if !is_one_of(call.number, 0.2) => Served::After(Duration::from_millis(5), Box::new(Served::text("add"))),
            0 => Served::error(429, "slow down"),
            1 => limit(429, "0"),
            _ => limit(503, "0.1"),
        });
        let chat = chat(&server, |config| config.limits.at_once = at_once);
        let outcomes = ask(&chat, 600).await;
        assert!(outcomes.iter().all(Result::is_ok), "{:?}", outcomes.iter().find(|outcome| outcome.is_err()));
        assert!(server.count() <= 800, "{} requests", server.count());
        let state = chat.line.endpoint.throttle.state.lock();
        assert!(state.stops == 0 && state.pace.trials <= 1, "{} trials", state.pace.trials);
    }
}

#[tokio::test]
async fn a_limited_call_is_sent_again_for_as_long_as_others_are_answered() {
    let is_limited = |number| number % 2 == 0 && number < 8;
    let server =
        Server::start(move |call| if is_limited(call.number) { limit(429, "0.3") } else { Served::text("add") });
    let chat = chat(&server, |_: &mut Config| ());
    let limited = tokio::spawn({
        let chat = Arc::clone(&chat);
        async move { ask(&chat, 1).await }
    });
    for others in 0..4 {
        until(|| server.answered() > 2 * others).await;
        assert!(ask(&chat, 1).await[0].is_ok());
    }
    assert!(limited.await.unwrap()[0].is_ok());
}

#[tokio::test]
async fn faults_of_one_call_in_five_end_no_run() {
    let server = Server::start(|call| match call.number % 7 {
        _ if !is_one_of(call.number, 0.2) => Served::After(Duration::from_millis(5), Box::new(Served::text("add"))),
        0 => Served::Cut,
        1 => Served::Close,
        2 => Served::error(500, "oops"),
        3 => Served::Status(200, Vec::new(), "nonsense".to_string()),
        4 => Served::error(408, "too slow"),
        5 => limit(503, "0"),
        _ => Served::Hang,
    });
    let outcomes = ask(&chat(&server, patient(1.0)), 600).await;
    assert!(outcomes.iter().all(Result::is_ok), "{:?}", outcomes.iter().find(|outcome| outcome.is_err()));
    assert!(server.count() <= 800, "{} requests", server.count());
}

#[tokio::test]
async fn one_call_in_five_that_hangs_ends_no_run() {
    let server = Server::start(|call| match is_one_of(call.number, 0.2) {
        true => Served::Hang,
        false => Served::After(Duration::from_millis(20), Box::new(Served::text("add"))),
    });
    let outcomes = ask(&chat(&server, patient(1.0)), 300).await;
    assert!(outcomes.iter().all(Result::is_ok), "{:?}", outcomes.iter().find(|outcome| outcome.is_err()));
}

#[tokio::test]
async fn a_server_that_answers_none_is_given_up_after_twenty_requests_and_those_in_flight() {
    let server = Server::start(|_| Served::Hang);
    let outcomes = ask(&chat(&server, patient(0.2)), 200).await;
    let is_down = |outcome: &Outcome| outcome.as_ref().is_err_and(|error| error.kind == FailureKind::Unreachable);
    assert!(outcomes.iter().all(is_down) && server.count() <= 28, "{} requests", server.count());
}

#[tokio::test]
async fn a_server_that_breaks_all_answers_is_asked_one_by_one() {
    for reply in [Served::Cut, Served::error(503, "dead"), Served::Status(200, Vec::new(), "nonsense".to_string())] {
        let server = Server::start(move |_| reply.clone());
        let chat = chat(&server, patient(30.0));
        let throttle = Arc::clone(&chat.line.endpoint.throttle);
        let asking = tokio::spawn(async move { ask(&chat, 200).await });
        until(|| throttle.state.lock().stops == 3).await;
        // Ten failures in a row, eight requests in flight, and one probe after each of the first two stops.
        assert!(server.count() <= 10 + 8 + 2, "{} requests", server.count());
        asking.abort();
    }
}

/// The reply of a gateway that streams a long answer, token by token.
fn streamed() -> Served {
    let chunk = |piece: &str, end: Value| {
        let choice = json!({ "index": 0, "delta": { "content": piece }, "finish_reason": end, "logprobs": null });
        let id = "gen-1234567890-abcdefghijklmnopqrst";
        format!("data: {}\n\n", json!({ "id": id, "object": "chat.completion.chunk", "choices": [choice] }))
    };
    let body = (0..2000).map(|_| chunk("word ", Value::Null)).chain([chunk("", "stop".into())]).collect();
    Served::Status(200, vec![("content-type", "text/event-stream".to_string())], body)
}

#[tokio::test]
async fn a_stream_or_a_packed_body_that_no_request_asks_for_is_paid_once() {
    let whole = json!({ "choices": [{ "message": { "content": "word ".repeat(2000) } }] }).to_string();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(whole.as_bytes()).unwrap();
    for reply in [streamed(), Served::Packed("gzip", packed.finish().unwrap())] {
        let server = Server::start(move |_| reply.clone());
        let chat = chat(&server, patient(30.0));
        let long = ChatRequest { max_tokens: 2000, ..request() };
        let asked = |callers| async move { chat.chat(&long, &callers).await.outcome };
        let outcome = SingleFlight::default().join(0, asked).await.unwrap().0;
        assert_eq!(outcome.unwrap().text, "word ".repeat(2000));
        let calls = server.calls();
        assert!(calls.len() == 1 && calls[0].body["stream"] == false, "{calls:?}");
    }
}

#[tokio::test]
async fn a_compression_that_cannot_be_read_ends_the_query_at_its_first_answer() {
    let server = Server::start(|_| Served::Packed("br", vec![0x0b, 0x02, 0x80, 0x1b, 0xff]));
    let outcomes = ask(&chat(&server, patient(30.0)), 1).await;
    let error = outcomes[0].as_ref().unwrap_err();
    assert!(error.kind == FailureKind::EndpointDown && error.message.contains("found one in 'br'"), "{error}");
    assert_eq!(server.count(), 1);
}
