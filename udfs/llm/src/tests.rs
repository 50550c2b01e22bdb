use super::*;
use completions::{Completions, Options};
use request::Message;

#[tokio::test]
async fn after_a_panic_of_a_models_thread_the_next_query_loads_it_anew() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/qwen2").to_string();
    let config = Config { provider: Provider::Local, model: Some(folder.clone()), ..Config::openai() };
    let (llm, fragile) = (Llm::default(), Arc::new(LocalModel::fragile().unwrap()));
    *llm.local.lock() = Some((folder, Arc::clone(&fragile)));
    let options = Options { max_tokens: 2, temperature: 0.0, top_p: 1.0, stop: Vec::new(), seed: None };
    let respond = async || {
        let messages = vec![Message { role: "user", content: "a".to_string() }];
        Completions::new(&config, &llm).unwrap().respond(messages, 0, &options).await
    };
    let error = respond().await.unwrap_err();
    assert!(error.to_string().contains("by a panic"), "{error}");
    // The error arrives before the thread has ended.
    while !fragile.is_over() {
        tokio::task::yield_now().await;
    }
    let response = respond().await.unwrap().unwrap();
    assert!(response.completion_tokens > Some(0), "{response:?}");
}
