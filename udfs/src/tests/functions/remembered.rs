//! A session's caches count in the memory of its queries, and a setting bounds them.

use std::sync::Arc;

use asap_udfs::Models;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;

use crate::tests::functions::session::session_in_partitions;

fn session_of(models: &Models, pool: &Arc<dyn MemoryPool>) -> SessionContext {
    let state = session_in_partitions("qwen2", models, 1).state();
    let runtime = RuntimeEnv { memory_pool: Arc::clone(pool), ..state.runtime_env().as_ref().clone() };
    let state = SessionStateBuilder::new_from_existing(state).with_runtime_env(Arc::new(runtime)).build();
    SessionContext::new_with_state(state)
}

async fn score(session: &SessionContext, question: &str) {
    let sql = format!(
        "SELECT count(cot_surprisal('{question}' || value, [repeat('a step ', value), 'and more of it'])) \
         FROM generate_series(1, 200)"
    );
    session.sql(&sql).await.unwrap().collect().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_and_tokens_are_reserved_and_fewer_where_less_may_be_remembered() {
    let models = Models::default();
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let session = session_of(&models, &pool);

    score(&session, "one").await;
    let remembered = models.memory().used();
    assert!(remembered > 50_000 && pool.reserved() >= remembered, "{remembered}, {} reserved", pool.reserved());
    session.sql("SET asap.cache.memory = '160K'").await.unwrap().collect().await.unwrap();
    score(&session, "two").await;
    assert!(models.memory().used() < remembered, "{} after {remembered}", models.memory().used());
    assert!(pool.reserved() < remembered);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_functions_that_make_no_calls_are_reserved() {
    let models = Models::default();
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let sql = "SELECT count(cot_tokens(repeat('a step ', value))) FROM generate_series(1, 200)";
    let session = session_of(&models, &pool);
    session.sql(sql).await.unwrap().collect().await.unwrap();
    let remembered = models.memory().used();
    assert!(remembered > 50_000 && pool.reserved() >= remembered, "{remembered}, {} reserved", pool.reserved());
}
