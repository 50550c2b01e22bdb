//! The needs of a query are checked before any row is read.

use datafusion::prelude::SessionContext;

use crate::tests::functions::session::session;

async fn set(session: &SessionContext, key: &str, value: &str) {
    session.sql(&format!("SET asap.anchor.{key} = '{value}'")).await.unwrap().collect().await.unwrap();
}

#[tokio::test]
async fn a_call_after_a_fence_is_checked_again() {
    let session = session("qwen2");
    for (key, value) in [("provider", "openai"), ("base_url", "http://localhost:1/v1"), ("model", "m")] {
        set(&session, key, value).await;
    }
    let plan = session.sql("SELECT cot_anchor('Why?', 'So.')").await.unwrap().into_optimized_plan().unwrap();
    assert!(plan.display_indent().to_string().contains("Fence:"), "{}", plan.display_indent());
    set(&session, "model", "").await;
    let error = session.state().optimize(&plan).unwrap_err().to_string();
    assert!(error.contains("set asap.anchor.model"), "{error}");
    set(&session, "provider", "extractive").await;
    assert!(session.state().optimize(&plan).is_ok());
}
