use std::sync::Arc;

use asap_lm::{Dtype, QuestionAndSteps, Reading, Wanted};
use asap_udfs::{Models, Settings};
use datafusion::config::ConfigOptions;
use datafusion::prelude::SessionContext;

use crate::tests::functions::session::{golden_path, session_in_partitions};

#[derive(Debug, serde::Deserialize)]
struct ScoredChain {
    question: String,
    steps: Vec<String>,
    surprisal: Vec<Option<f64>>,
}

fn chains() -> Vec<ScoredChain> {
    let text = std::fs::read_to_string(golden_path("qwen2/cots.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The tokens of all chains with their questions.
fn tokens(config: &ConfigOptions) -> u64 {
    fn reading(chain: &ScoredChain) -> Reading<'_> {
        let steps = chain.steps.iter().map(String::as_str).collect();
        Reading::Chain(QuestionAndSteps::new(chain.question.as_str().into(), steps))
    }
    let chains = chains();
    let readings: Vec<Reading> = chains.iter().map(reading).collect();
    let scorer = Models::counting().scorer(config).unwrap();
    scorer.prepare(&readings, Wanted::FirstTokens).unwrap().tokens() as u64
}

async fn chains_as_table(context: &SessionContext) {
    let file = golden_path("qwen2/cots.jsonl");
    for sql in [
        format!("CREATE EXTERNAL TABLE read STORED AS JSON LOCATION '{file}'"),
        "CREATE TABLE chains AS SELECT question, steps FROM read".to_string(),
    ] {
        context.sql(&sql).await.unwrap().collect().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_computed_once_however_often_a_query_names_its_scores() {
    let chains = chains();
    let scored = chains.iter().filter(|chain| chain.surprisal[0].is_some()).count();
    let often = "WITH scored AS (SELECT *, cot_surprisal(question, steps) AS s FROM chains) \
        SELECT s, s[1] + 1, cot_surprisal(question, steps), cot_entropy(question, steps)[1] AS e \
        FROM scored WHERE s[1] >= 0 AND cot_too_long(question, steps) IS NULL \
        AND cot_entropy(question, steps)[1] >= 0 ORDER BY cot_surprisal(question, steps)[1], s[2]";
    let one_pass = [
        "cot_surprisal(question, steps), cot_perplexity(question, steps)",
        "cot_step_entropy(question, steps), cot_entropy(question, steps), cot_surprisal(question, steps)",
        "cot_surprisal(question, steps), cot_entropy(question, steps)",
        "cot_step_entropy(question, steps), cot_first_token(question, steps), cot_token_entropies(question, steps)",
    ]
    .map(|scores| (1, format!("SELECT {scores} FROM chains"), chains.len()));
    let often = [1, 4].map(|partitions| (partitions, often.to_string(), scored));
    for (partitions, sql, rows) in often.into_iter().chain(one_pass) {
        let models = Models::counting();
        let context = session_in_partitions("qwen2", &models, partitions);
        chains_as_table(&context).await;
        let found = context.sql(&sql).await.unwrap().collect().await.unwrap();
        assert_eq!(found.iter().map(|batch| batch.num_rows()).sum::<usize>(), rows, "{sql}");
        let expected = tokens(context.copied_config().options());
        assert_eq!(models.counted(), expected, "{partitions} partitions: {sql}");
    }
}

#[test]
fn a_model_that_a_query_uses_is_found_again_and_one_that_none_uses_is_let_go() {
    let (models, mut config) = (Models::default(), ConfigOptions::new());
    let mut scorer = |dtype| {
        let settings =
            Settings { scorer_model: golden_path("qwen2"), scorer_dtype: Some(dtype), ..Settings::default() };
        config.extensions.insert(settings);
        models.scorer(&config).unwrap()
    };
    let (first, second) = (scorer(Dtype::F32), scorer(Dtype::Bf16));
    assert!(Arc::ptr_eq(&first, &scorer(Dtype::F32)) && Arc::ptr_eq(&second, &scorer(Dtype::Bf16)));
    let unused = Arc::downgrade(&first);
    drop(first);
    assert!(unused.upgrade().is_none());
}
