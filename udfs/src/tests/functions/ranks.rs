//! Sums of ranks and surprisals against another program, and the choice of a generation by them.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::prelude::{JsonReadOptions, SessionContext};

use crate::tests::functions::session::{golden_path, session};

async fn with_goldens() -> SessionContext {
    let session = session("../../data/model");
    let options = JsonReadOptions::default().file_extension("jsonl");
    session.register_json("goldens", golden_path("rank_surprisal.jsonl"), options).await.unwrap();
    session
}

async fn numbers(session: &SessionContext, sql: &str) -> Vec<Vec<f64>> {
    let mut rows = Vec::new();
    for batch in session.sql(sql).await.unwrap().collect().await.unwrap() {
        for row in 0..batch.num_rows() {
            let number = |column: &std::sync::Arc<dyn datafusion::arrow::array::Array>| {
                let integers = column.as_primitive_opt::<Int64Type>().map(|numbers| numbers.value(row) as f64);
                integers.unwrap_or_else(|| column.as_primitive::<Float64Type>().value(row))
            };
            rows.push(batch.columns().iter().map(number).collect());
        }
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_are_those_of_another_program() {
    let session = with_goldens().await;
    let sql = "WITH found AS (SELECT *, cot_rank_surprisal(question, cot, answer) AS r FROM goldens) \
        SELECT r['tokens'], tokens, r['surprisals'], surprisals, r['ranks'], ranks, r['ratio'], r['ranks'] / r['surprisals'] FROM found";
    let found = numbers(&session, sql).await;
    assert_eq!(found.len(), 24);
    let (mut ranks, mut expected) = (0.0, 0.0);
    for row in found {
        assert_eq!((row[0], row[6]), (row[1], row[7]));
        assert!((row[2] / row[3] - 1.0).abs() < 1e-5, "{row:?}");
        // In f32, two tokens may change places.
        assert!((row[4] - row[5]).abs() <= 1.0, "{row:?}");
        (ranks, expected) = (ranks + row[4], expected + row[5]);
    }
    assert!((ranks / expected - 1.0_f64).abs() < 1e-4, "{ranks} {expected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_have_the_sums_of_their_tokens() {
    let session = with_goldens().await;
    // The template does not write the opening tag: it is <think> and a line end. With the closing tag, the answer and the
    // end, these tokens belong to no step.
    let sql = "WITH found AS (SELECT cot_rank_surprisal(question, cot, answer) AS r, cot_steps(cot) AS texts, \
        cot_step_rank_surprisal(question, cot, answer) AS steps, \
        cardinality(array_remove_all(cot_example(question, cot, answer, NULL, [])['labels'], arrow_cast(-100, 'Int32'))) AS others FROM goldens), \
        parts AS (SELECT r, texts, others, row_number() OVER () AS number, steps, unnest(steps) AS part FROM found) \
        SELECT CAST(max(cardinality(steps)) AS BIGINT), CAST(max(cardinality(texts)) AS BIGINT), sum(part['tokens']), \
        CAST(max(r['tokens']) - max(others) AS BIGINT), sum(part['surprisals']) / max(r['surprisals']) FROM parts GROUP BY number";
    for row in numbers(&session, sql).await {
        assert_eq!((row[0], row[2]), (row[1], row[3]), "{row:?}");
        assert!((0.2..1.0).contains(&row[4]), "{row:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_closest_correct_generation_has_the_lowest_ratio() {
    let session = with_goldens().await;
    // Three generations of a question: two that state the answer, and one that does not.
    let sql = "WITH both AS (SELECT question, cot, lead(cot) OVER () AS other, answer FROM goldens), \
        made AS (SELECT *, concat('<think>\n', cot, '\n</think>\n\n', answer) AS one, concat('<think>\n', other, '\n</think>\n\n', answer) AS two \
        FROM both WHERE other IS NOT NULL), \
        chosen AS (SELECT *, cot_closest_correct(question, ['<think>No.</think>\\boxed{-1}', one, two], answer) AS chosen, \
        cot_rank_surprisal(question, cot, answer)['ratio'] AS a, cot_rank_surprisal(question, other, answer)['ratio'] AS b FROM made) \
        SELECT chosen, CASE WHEN a <= b THEN 2 ELSE 3 END FROM chosen";
    let found = numbers(&session, sql).await;
    assert_eq!(found.len(), 23);
    assert!(found.iter().all(|row| row[0] == row[1]), "{found:?}");
    assert!([2.0, 3.0].iter().all(|place| found.iter().any(|row| row[0] == *place)));
    let none = "SELECT count(cot_closest_correct(q, g, '4')) FROM (VALUES ('q', ['<think>a</think>\\boxed{5}']), ('q', []), \
        ('q', NULL), (NULL, ['<think>a</think>\\boxed{4}']), ('q', [NULL, '\\boxed{4}'])) AS t(q, g)";
    assert_eq!(numbers(&session, none).await, [[0.0]]);
}
