use super::*;
use crate::anchor::Anchorers;
use crate::settings::Positive;
use datafusion::common::config::ConfigOptions;

#[tokio::test]
async fn after_a_panic_of_a_models_thread_the_next_query_loads_it_anew() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/goldens/qwen2").to_string();
    let mut config = ConfigOptions::new();
    config.extensions.insert(Settings {
        anchor_provider: Provider::Local,
        anchor_model: Some(folder.clone()),
        anchor_max_tokens: Positive(2),
        ..Settings::default()
    });
    let (llm, fragile) = (Llm::default(), Arc::new(LocalModel::fragile().unwrap()));
    *llm.session.local.lock() = Some((folder, Arc::clone(&fragile)));
    let anchorers = Anchorers::new(llm);
    let error = anchorers.of(&config).unwrap().complete("a", None).await.unwrap_err();
    assert!(error.to_string().contains("by a panic"), "{error}");
    // The error arrives before the thread has ended.
    while !fragile.is_over() {
        tokio::task::yield_now().await;
    }
    let row = anchorers.of(&config).unwrap().complete("a", None).await.unwrap();
    assert_eq!(row.spent.attempts, 1, "{row:?}");
    assert!(row.spent.tokens_out > 0, "{row:?}");
}
