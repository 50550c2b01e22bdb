//! Each answer is paid once, and durable before it is used.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asap_llm::Llm;
use asap_llm::chat::Outcome;
use asap_llm::request::RequestKey;
use asap_llm::store::{AnswerStore, StoreError};
use async_trait::async_trait;
use futures::future::join_all;

use crate::tests::llm::setup::{anchoring, asking, settings};
use asap_test_support::{Reply, Server};

#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    kept: Mutex<HashMap<RequestKey, Outcome>>,
    is_broken: AtomicBool,
}

#[async_trait]
impl AnswerStore for MemoryStore {
    async fn get(&self, key: &RequestKey) -> Result<Option<Outcome>, StoreError> {
        Ok(self.kept.lock().unwrap().get(key).cloned())
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn keep(&self, key: RequestKey, outcome: Outcome, _: bool) -> Result<(), StoreError> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(StoreError("the disk is full".to_string()));
        }
        self.kept.lock().unwrap().insert(key, outcome);
        Ok(())
    }
}

#[tokio::test]
async fn equal_requests_of_a_session_are_one_call() {
    let server = Server::start(|_| Reply::After(Duration::from_millis(20), Box::new(Reply::text("add"))));
    let (llm, anchoring) = anchoring(&server, &[]);
    let rows = join_all((0..30).map(|number| {
        let anchoring = anchoring.clone();
        async move { anchoring.anchor(Some("1 + 1?"), Some(["2", "two"][number % 2]), None).await.unwrap() }
    }));
    let rows = rows.await;
    assert!(rows.iter().all(|row| row.status() == "ok" && row.spent.tokens_in == 100));
    assert_eq!(rows.iter().filter(|row| !row.spent.is_cached()).count(), 2);
    assert!(anchoring.anchor(Some("1 + 1?"), Some("2"), None).await.unwrap().spent.is_cached());
    assert_eq!((server.count(), llm.usage().calls, llm.usage().cache_hits), (2, 2, 29));
    assert_eq!(llm.usage().tokens_in, 200);
}

#[tokio::test]
async fn another_session_finds_what_was_kept() {
    let server = Server::start(|call| match call.prompt() {
        "long" => Reply::Json(serde_json::json!({
            "choices": [{ "message": { "content": "and" }, "finish_reason": "length" }],
            "usage": { "prompt_tokens": 5, "completion_tokens": 256 },
        })),
        "wrong" => Reply::error(400, "no"),
        _ => Reply::text("add"),
    });
    let store = Arc::new(MemoryStore::default());
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let llm = Llm::new(Some(Arc::clone(&store) as Arc<dyn AnswerStore>));
        let anchoring = asking(&llm, &settings(&server, &[]));
        let mut rows = Vec::new();
        for prompt in ["right", "long", "wrong"] {
            let row = anchoring.complete(prompt, None).await.unwrap();
            rows.push(row.spent.is_cached());
            sessions.push((row.outcome, row.spent.tokens_in, row.spent.tokens_out));
        }
        let is_second = sessions.len() > 3;
        // A cut-off answer was paid and would be cut off again, so it is kept. A refused request cost nothing.
        assert_eq!(rows, [is_second, is_second, false]);
    }
    assert_eq!(sessions[..3], sessions[3..]);
    let status = |session: usize| sessions[session].0.as_ref().map_err(|refusal| refusal.status).unwrap_err();
    assert_eq!((status(1), sessions[1].2, status(2)), ("too_long", 256, "refused"));
    assert_eq!((server.count(), store.kept.lock().unwrap().len()), (4, 2));
}

#[tokio::test]
async fn an_answer_that_cannot_be_kept_is_not_used() {
    let server = Server::start(|_| Reply::text("add"));
    let store = Arc::new(MemoryStore::default());
    store.is_broken.store(true, Ordering::SeqCst);
    let llm = Llm::new(Some(Arc::clone(&store) as Arc<dyn AnswerStore>));
    let anchoring = asking(&llm, &settings(&server, &[]));
    let error = anchoring.complete("x", None).await.unwrap_err().to_string();
    assert_eq!(error, "the store of answers: the disk is full");
    store.is_broken.store(false, Ordering::SeqCst);
    assert_eq!(anchoring.complete("x", None).await.unwrap().status(), "ok");
    assert_eq!((server.count(), store.kept.lock().unwrap().len()), (2, 1));
}

#[tokio::test]
async fn a_dropped_row_stops_its_call() {
    let server = Server::start(|_| Reply::Hang);
    let (llm, anchoring) = anchoring(&server, &[("timeout", "1"), ("max_retries", "9")]);
    let mut row = Box::pin(anchoring.complete("x", None));
    while server.count() == 0 {
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut row).await.is_err());
    }
    drop(row);
    llm.drained().await;
    assert_eq!((server.count(), llm.usage().calls), (1, 1));
}
