use std::path::PathBuf;
use std::sync::Arc;

use asap_lm::{Dtype, QuestionAndSteps, Reading, Wanted};
use asap_udfs::{Models, Settings};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Float32Type;
use datafusion::config::ConfigOptions;
use datafusion::prelude::SessionContext;

use crate::tests::functions::session::{golden_path, session_in_partitions};

#[derive(Debug, serde::Deserialize)]
struct ScoredChain {
    question: String,
    steps: Vec<String>,
    surprisal: Vec<Option<f64>>,
    entropy: Vec<Option<f64>>,
    perplexity: Vec<Option<f64>>,
}

fn golden(name: &str) -> PathBuf {
    golden_path(name).into()
}

fn chains(model: &str) -> Vec<ScoredChain> {
    let text = std::fs::read_to_string(golden(model).join("cots.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn session(partitions: usize) -> SessionContext {
    session_in_partitions("qwen2", &Models::default(), partitions)
}

/// The tokens of all chains with their questions.
fn tokens(config: &ConfigOptions) -> u64 {
    fn reading(chain: &ScoredChain) -> Reading<'_> {
        let steps = chain.steps.iter().map(String::as_str).collect();
        Reading::Chain(QuestionAndSteps { question: chain.question.as_str().into(), steps })
    }
    let chains = chains("qwen2");
    let readings: Vec<Reading> = chains.iter().map(reading).collect();
    let scorer = Models::counting().scorer(config).unwrap();
    scorer.prepare(&readings, Wanted::FirstTokens).unwrap().tokens() as u64
}

/// A golden model whose chat template fails on a question with an exclamation mark.
fn choosy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden("qwen2")).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let path = folder.path().join("tokenizer_config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let template = "{% if '!' in messages[0]['content'] %}{{ raise_exception('no shouting') }}{% endif %}\
                    {{ messages[0]['content'] }}";
    config["chat_template"] = template.into();
    std::fs::write(path, config.to_string()).unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_fails_on_a_question_fails_its_row_only() {
    let folder = choosy();
    let context = session(1);
    let set = |key: &str, value: &str| format!("SET asap.{key} = '{value}'");
    for setting in [set("scorer.model", &folder.path().display().to_string()), set("scorer.prompt", "chat")] {
        context.sql(&setting).await.unwrap().collect().await.unwrap();
    }
    let sql = "SELECT q, cot_surprisal(q, ['a', 'b']) IS NULL AS failed, cot_too_long(q, ['a', 'b']) AS too_long \
               FROM (VALUES ('one'), ('two!'), ('three')) AS t(q) ORDER BY q";
    let found = context.sql(sql).await.unwrap().collect().await.unwrap();
    let shown = datafusion::arrow::util::pretty::pretty_format_batches(&found).unwrap().to_string();
    for row in ["| one   | false  |          |", "| three | false  |          |", "| two!  | true   |          |"] {
        assert!(shown.contains(row), "{shown}");
    }
    context.sql(&set("on_error", "fail")).await.unwrap().collect().await.unwrap();
    let error = context.sql(sql).await.unwrap().collect().await.unwrap_err().to_string();
    assert!(error.contains("no shouting"), "{error}");
}

async fn chains_as_table(context: &SessionContext) {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let rows = chains("qwen2").into_iter().map(|chain| {
        let steps = chain.steps.iter().map(|step| text(step)).collect::<Vec<_>>().join(", ");
        format!("({}, [{steps}])", text(&chain.question))
    });
    let rows = rows.collect::<Vec<_>>().join(", ");
    context.sql(&format!("CREATE TABLE chains AS VALUES {rows}")).await.unwrap().collect().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_computed_once_however_often_a_query_names_its_scores() {
    for partitions in [1, 4] {
        let models = Models::counting();
        let context = session_in_partitions("qwen2", &models, partitions);
        chains_as_table(&context).await;
        let sql = "WITH scored AS (SELECT *, cot_surprisal(column1, column2) AS s FROM chains) \
            SELECT s, s[1] + 1, cot_surprisal(column1, column2), cot_entropy(column1, column2)[1] AS e \
            FROM scored WHERE s[1] >= 0 AND cot_too_long(column1, column2) IS NULL \
            AND cot_entropy(column1, column2)[1] >= 0 ORDER BY cot_surprisal(column1, column2)[1], s[2]";
        let found = context.sql(sql).await.unwrap().collect().await.unwrap();
        let rows: usize = found.iter().map(|batch| batch.num_rows()).sum();
        let expected = chains("qwen2");
        assert_eq!(rows, expected.iter().filter(|chain| chain.surprisal[0].is_some()).count());
        let read = models.counted();
        assert_eq!(read, tokens(context.copied_config().options()), "{partitions} partitions");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_scores_of_a_chain_take_one_pass() {
    for scores in [
        "cot_surprisal(column1, column2), cot_perplexity(column1, column2)",
        "cot_step_entropy(column1, column2), cot_entropy(column1, column2), cot_surprisal(column1, column2)",
        "cot_surprisal(column1, column2), cot_entropy(column1, column2)",
        "cot_step_entropy(column1, column2), cot_first_token(column1, column2), cot_token_entropies(column1, column2)",
    ] {
        let models = Models::counting();
        let context = session_in_partitions("qwen2", &models, 1);
        chains_as_table(&context).await;
        context.sql(&format!("SELECT {scores} FROM chains")).await.unwrap().collect().await.unwrap();
        assert_eq!(models.counted(), tokens(context.copied_config().options()), "{scores}");
    }
}

#[tokio::test]
async fn scores_are_those_of_the_goldens() {
    // One partition: rows come in the order of the table.
    let context = session(1);
    chains_as_table(&context).await;
    let sql = "SELECT cot_surprisal(column1, column2), cot_entropy(column1, column2), \
        cot_perplexity(column1, column2) FROM chains";
    let found = context.sql(sql).await.unwrap().collect().await.unwrap();
    let mut expected = chains("qwen2").into_iter();
    for batch in &found {
        for row in 0..batch.num_rows() {
            let chain = expected.next().unwrap();
            let columns = [(chain.surprisal, 1e-4, 0.0), (chain.entropy, 1e-4, 0.0), (chain.perplexity, 0.0, 1e-4)];
            for (column, (expected, absolute, relative)) in columns.into_iter().enumerate() {
                let list = batch.column(column).as_list::<i32>().value(row);
                let scores = list.as_primitive::<Float32Type>();
                assert_eq!(scores.len(), expected.len());
                for (found, expected) in scores.iter().zip(expected) {
                    let tolerance = absolute + relative * expected.unwrap_or_default();
                    let close = found.zip(expected).map(|(a, b)| (f64::from(a) - b).abs() < tolerance);
                    assert!(close.unwrap_or(found.is_none() && expected.is_none()), "{found:?} {expected:?}");
                }
            }
        }
    }
    assert_eq!(expected.next().map(|chain| chain.question), None);
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
