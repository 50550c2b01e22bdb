//! Whole responses to conversations, by an endpoint and by a local model.

use std::sync::Arc;

use asap_llm::chat::ChatResponse;
use asap_llm::completions::{Completions, Options};
use asap_llm::provider::Provider;
use asap_llm::request::Message;
use asap_llm::store::AnswerStore;
use asap_llm::{FailureKind, Llm};
use asap_udfs::Settings;
use futures::future::join_all;
use serde_json::json;

use crate::tests::llm::setup::{asking, settings};
use crate::tests::llm::shared_answers::MemoryStore;
use asap_test_support::{Reply, Server};

const GREEDY: Options = Options { max_tokens: 24, temperature: 0.0, top_p: 1.0, stop: Vec::new(), seed: None };

fn said(content: &str) -> Vec<Message> {
    let turn = |role, content: &str| Message { role, content: content.to_string() };
    vec![turn("system", "Think."), turn("user", content)]
}

async fn respond(model: &Completions, content: &str, sample: u32, options: &Options) -> ChatResponse {
    model.respond(said(content), sample, options).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_response_is_whole_paid_once_and_stored() {
    let server = Server::start(|call| match call.prompt() {
        "hard" => Reply::Json(json!({
            "choices": [{ "message": { "reasoning_content": "Well" }, "finish_reason": "length" }],
            "usage": { "prompt_tokens": 5, "completion_tokens": 24 },
        })),
        "wrong" => Reply::error(400, "no"),
        _ => Reply::text("<think>\n2\n</think>\n\n2"),
    });
    let store = Arc::new(MemoryStore::default());
    for is_stored in [false, true] {
        let llm = Llm::new(Some(Arc::clone(&store) as Arc<dyn AnswerStore>));
        let model = Completions::new(&settings(&server, &[]).language_model(), &llm).unwrap();
        let found = respond(&model, "1 + 1?", 0, &GREEDY).await;
        assert_eq!((&*found.content, found.finish_reason.as_deref()), ("<think>\n2\n</think>\n\n2", Some("stop")));
        assert_eq!((found.prompt_tokens, found.completion_tokens, found.cached), (Some(100), Some(10), is_stored));
        assert!(found.seconds > 0.0, "{found:?}");
        let cut = respond(&model, "hard", 0, &GREEDY).await;
        assert_eq!((cut.generation().as_ref(), cut.completion_tokens), ("<think>\nWell", Some(24)));
        let again = respond(&model, "hard", 0, &GREEDY).await;
        assert_eq!(again, ChatResponse { cached: true, ..cut });
        let error = model.respond(said("wrong"), 0, &GREEDY).await.unwrap().unwrap_err();
        assert_eq!(error.kind, FailureKind::Refused);
    }
    // Only the refused request was sent again.
    assert_eq!(server.count(), 4);
}

#[tokio::test]
async fn samples_are_calls_of_their_own_and_only_what_is_set_is_sent() {
    let server = Server::start(|call| Reply::text(&call.number.to_string()));
    let llm = Llm::default();
    let settings = settings(&server, &[]);
    let model = Completions::new(&settings.language_model(), &llm).unwrap();
    let sampled = Options { temperature: 0.6, top_p: 0.95, stop: vec!["\n\n".to_string()], seed: Some(7), ..GREEDY };
    let mut found = Vec::new();
    for options in [&GREEDY, &sampled] {
        for sample in [0, 1, 0] {
            found.push(respond(&model, "1 + 1?", sample, options).await.content);
        }
    }
    assert_eq!(found, ["0", "1", "0", "2", "3", "2"]);
    let bodies: Vec<_> = server.calls().into_iter().map(|call| call.body).collect();
    let messages = json!([{ "role": "system", "content": "Think." }, { "role": "user", "content": "1 + 1?" }]);
    let greedy = json!({
        "model": "test-model", "messages": messages, "temperature": 0.0, "top_p": 1.0, "max_tokens": 24,
        "stream": false,
    });
    let seeded = |seed| {
        json!({
            "model": "test-model", "messages": messages, "temperature": 0.6, "top_p": 0.95, "max_tokens": 24,
            "stop": ["\n\n"], "seed": seed, "stream": false,
        })
    };
    assert_eq!(bodies, [greedy.clone(), greedy, seeded(7), seeded(8)]);
    // A request of anchoring with the same text shares nothing.
    let options = Options { max_tokens: 256, ..GREEDY };
    let turns = vec![Message { role: "user", content: "2 + 2?".to_string() }];
    model.respond(turns, 0, &options).await.unwrap().unwrap();
    let row = asking(&llm, &settings).complete("2 + 2?", None).await.unwrap();
    assert_eq!(row.outcome.unwrap(), "5");
}

#[tokio::test]
async fn a_local_model_answers_many_conversations_at_once_as_alone() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/goldens/qwen2").to_string();
    let settings = Settings { anchor_provider: Provider::Local, anchor_model: Some(folder), ..Settings::default() };
    let model = |llm: &Llm| Completions::new(&settings.language_model(), llm).unwrap();
    let sampled = Options { temperature: 1.0, top_p: 0.95, stop: vec!["7".to_string()], ..GREEDY };
    let together = model(&Llm::default());
    let question = |number: usize| format!("What is {number} + 3?{}", " Say why.".repeat(number % 4));
    let asked = (0..60).map(|number| {
        let (together, sampled) = (&together, &sampled);
        async move { respond(together, &question(number / 2), number as u32 % 2, sampled).await }
    });
    let found = join_all(asked).await;
    assert!(found.iter().all(|response| response.opens_thought && !response.content.contains('7')));
    assert!(["stop", "length"].iter().all(|end| found.iter().any(|one| one.finish_reason.as_deref() == Some(*end))));
    assert_ne!(found[0].content, found[1].content);
    let alone = model(&Llm::default());
    for number in [0, 1, 30, 59] {
        let response = respond(&alone, &question(number / 2), number as u32 % 2, &sampled).await;
        assert_eq!(response, ChatResponse { seconds: response.seconds, ..found[number].clone() });
    }
    let greedy = respond(&alone, "1 + 1?", 0, &GREEDY).await;
    assert_eq!((greedy.completion_tokens, greedy.finish_reason.as_deref()), (Some(24), Some("length")));
    assert_eq!(greedy.generation(), format!("<think>\n{}", greedy.content));
}

#[test]
fn a_session_that_only_estimates_sends_no_conversation() {
    let server = Server::start(|_| Reply::text("2"));
    let error = Completions::new(&settings(&server, &[]).language_model(), &Llm::estimate(None)).unwrap_err();
    assert!(error.to_string().contains("only estimates"), "{error}");
}
