//! The API key is sent only to the endpoint.

use std::sync::Arc;

use asap_llm::Llm;
use asap_llm::store::AnswerStore;

use crate::tests::llm::setup::{asking, settings};
use crate::tests::llm::shared_answers::MemoryStore;
use asap_test_support::{Call, Reply, Server};

const VARIABLE: &str = "CARGO_MANIFEST_DIR";

fn echoed(call: &Call) -> String {
    call.head.lines().find(|line| line.to_lowercase().starts_with("authorization:")).unwrap_or_default().to_string()
}

/// A chat completion with the header, with every slash escaped, as JSON allows.
fn escaped(call: &Call) -> String {
    let body = serde_json::json!({ "choices": [{ "message": { "content": echoed(call) } }] });
    body.to_string().replace('/', "\\/")
}

#[tokio::test]
async fn the_key_is_in_no_error_answer_or_debug_output() {
    let key = std::env::var(VARIABLE).unwrap();
    let server = Server::start(|call| match call.prompt() {
        "text" => Reply::Text(format!("your headers: {}", echoed(call))),
        "json" => Reply::Json(serde_json::json!({ "error": { "message": echoed(call) } })),
        "escaped" => Reply::Status(200, Vec::new(), escaped(call)),
        "no json" => Reply::Status(200, Vec::new(), echoed(call)),
        "location" => Reply::Status(302, vec![("location", format!("/{}", echoed(call)))], String::new()),
        "refused" => Reply::error(400, &echoed(call)),
        "hang" => Reply::Hang,
        "cut" => Reply::Cut,
        _ => Reply::error(401, &echoed(call)),
    });
    let store = Arc::new(MemoryStore::default());
    let llm = Llm::new(Some(Arc::clone(&store) as Arc<dyn AnswerStore>));
    let with_timeout =
        |timeout| settings(&server, &[("api_key_env", VARIABLE), ("max_retries", "0"), ("timeout", timeout)]);
    let hanging = asking(&llm, &with_timeout("1")).complete("hang", None).await.unwrap();
    assert_eq!(hanging.status(), "timeout");
    let settings = with_timeout("30");
    let anchoring = asking(&llm, &settings);
    let mut shown = vec![format!("{llm:?} {anchoring:?} {settings:?} {hanging:?}")];
    for prompt in ["text", "escaped", "json", "no json", "location", "refused", "cut"] {
        shown.push(format!("{:?}", anchoring.complete(prompt, None).await.unwrap()));
    }
    let error = loop {
        match anchoring.complete(&format!("denied {}", shown.len()), None).await {
            Ok(row) => shown.push(format!("{row:?}")),
            Err(error) => break error,
        }
    };
    shown.extend([error.to_string(), format!("{error:?}"), format!("{:?}", asap_udfs::llm::failed(error))]);
    let kept = store.kept.lock().unwrap();
    shown.extend(kept.values().map(|outcome| format!("{outcome:?}")));

    assert!(shown.len() > 12 && kept.len() == 2);
    assert!(shown.iter().any(|text| text.contains("[api key]")), "the server did send it back");
    for text in &shown {
        assert!(!text.contains(&key), "{text}");
    }
    for call in server.calls() {
        assert!(call.head.contains(&format!("authorization: Bearer {key}")));
        assert!(!call.body.to_string().contains(&key));
    }
}
