//! Endpoints that refuse a part of all requests: asap learns it once, and no row pays for it.

use serde_json::{Map, Value, json};

use crate::tests::llm::setup::{asking, settings};
use asap_llm::{Llm, LlmError};
use asap_test_support::{Call, Reply, Server};

const FIELDS: [&str; 4] = ["max_tokens", "max_completion_tokens", "temperature", "top_p"];

/// Returns the fields of a request that an endpoint may refuse.
fn fields(call: &Call) -> Value {
    let sent = FIELDS.iter().filter_map(|name| Some((name.to_string(), call.body.get(*name)?.clone())));
    Value::Object(sent.collect::<Map<_, _>>())
}

/// Replies as a line of `refusals.jsonl` says: by its first rule that refuses the request, or with an answer.
fn reply(case: &Value, call: &Call) -> Reply {
    if call.head.starts_with("GET") {
        return match &case["list"] {
            Value::Null => Reply::error(404, "no list"),
            window => Reply::Json(json!({ "data": [{ "id": "test-model", "max_model_len": window }] })),
        };
    }
    let limit = FIELDS[..2].iter().find_map(|name| call.body[*name].as_u64());
    let prompt = case["prompt"].as_u64().unwrap();
    let refuses = |rule: &&Value| {
        let value = &call.body[rule["field"].as_str().unwrap()];
        !value.is_null()
            && rule["not"].as_f64().is_none_or(|accepted| value.as_f64() != Some(accepted))
            && rule["above"].as_u64().is_none_or(|most| limit.unwrap() > most)
            && rule["window"].as_u64().is_none_or(|window| prompt + limit.unwrap() > window)
    };
    let Some(rule) = case["rules"].as_array().unwrap().iter().find(refuses) else { return Reply::text("add") };
    let limit = limit.unwrap_or(0);
    let names = [("{limit}", limit), ("{prompt}", prompt), ("{sum}", prompt + limit)];
    let body =
        names.iter().fold(rule["body"].to_string(), |body, (name, value)| body.replace(name, &value.to_string()));
    Reply::Status(case["status"].as_u64().unwrap_or(400) as u16, vec![], body)
}

#[tokio::test]
async fn what_an_endpoint_refuses_is_learnt_once() {
    for case in include_str!("refusals.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let name = &case["case"];
        let served = case.clone();
        let server = Server::start(move |call| reply(&served, call));
        let set = case["set"].as_array().into_iter().flatten().map(|set| [0, 1].map(|at| set[at].as_str().unwrap()));
        let changes: Vec<_> = set.map(|[key, value]| (key, value)).chain([("max_tokens", "8192")]).collect();
        let llm = Llm::default();
        let anchoring = asking(&llm, &settings(&server, &changes));
        for (row, requests) in case["requests"].as_array().unwrap().iter().enumerate() {
            let before = server.count();
            let answered = anchoring.complete(&format!("prompt {row}"), None).await;
            let calls = server.calls();
            assert_eq!(Some(calls.len() as u64 - before as u64), requests.as_u64(), "{name}, row {row}: {answered:?}");
            match (case["error"].as_str(), answered) {
                (Some(expected), Err(LlmError::EndpointDown(said))) => {
                    assert!(said.contains(expected), "{name}: {said}")
                }
                (None, Ok(answered)) => {
                    let expected = case["fails"].as_str().unwrap_or("ok");
                    assert_eq!(answered.status(), expected, "{name}: {:?}", answered.error());
                }
                (_, other) => panic!("{name}: {other:?}"),
            }
            if case["fails"].is_null() && case["error"].is_null() {
                assert_eq!(fields(calls.last().unwrap()), case["sent"], "{name}");
                assert_eq!((llm.usage().calls, llm.usage().retries), (row as u64 + 1, 0), "{name}");
            }
        }
        assert_eq!(json!(llm.defaults().names().collect::<Vec<_>>()), case["defaults"], "{name}");
    }
}

#[tokio::test]
async fn calls_that_are_refused_at_once_are_all_sent_again() {
    let server = Server::start(|call| match call.body["max_tokens"].is_null() {
        true => Reply::text("add"),
        false => Reply::error(400, "'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
    });
    let llm = Llm::default();
    let anchoring = asking(&llm, &settings(&server, &[("max_calls", "200"), ("max_retries", "0")]));
    let prompts: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let rows = futures::future::join_all(prompts.iter().map(|prompt| anchoring.complete(prompt, None))).await;
    assert!(rows.into_iter().all(|row| row.unwrap().status() == "ok"));
    // The first window of calls is refused; a few more may start before the first answer.
    assert!(server.count() <= 200 + 64, "{} requests", server.count());
    assert_eq!((llm.usage().calls, llm.usage().failed), (200, 0));
}

#[tokio::test]
async fn an_answer_that_the_window_cuts_off_says_so() {
    let cut = json!({ "choices": [{ "message": { "content": "So" }, "finish_reason": "length" }],
        "usage": { "prompt_tokens": 324, "completion_tokens": 188 } });
    let server = Server::start(move |call| match call.body["max_tokens"].as_u64().is_some_and(|limit| limit > 512) {
        true => Reply::error(400, "max_tokens=8192 cannot be greater than max_model_len=512."),
        false => Reply::Json(cut.clone()),
    });
    let by_window = "after 188 tokens by the endpoint's window or own limit, 512 tokens with the prompt's 324";
    for (most, expected) in [("300", by_window), ("8192", by_window), ("188", "after 188 tokens (the prompt has")] {
        let anchoring = asking(&Llm::default(), &settings(&server, &[("max_tokens", most), ("model", most)]));
        let row = anchoring.complete("1 + 1?", None).await.unwrap();
        let error = row.error().unwrap();
        assert!(row.status() == "too_long" && error.contains(expected), "{most}: {error}");
    }
}
