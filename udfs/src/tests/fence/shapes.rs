//! All shapes of queries, with their calls and results.

use datafusion::prelude::{SessionConfig, SessionContext};

use crate::tests::fence::counting::{Functions, WINDOW, rows, tables, try_rows};

/// Queries over t, and the number of their calls. Each returns the same rows as the query without calls.
fn shapes() -> impl Iterator<Item = (&'static str, [usize; 5])> {
    let lines = include_str!("../../../../tests/goldens/query_shapes.txt").lines();
    lines.filter(|line| !line.starts_with("--")).map(|line| {
        let (calls, sql) = line.split_once(": ").unwrap();
        let calls: Vec<usize> = calls.split(' ').map(|count| count.parse().unwrap()).collect();
        (sql, calls.try_into().unwrap())
    })
}

fn configs() -> [SessionConfig; 3] {
    let config = |partitions, batch| SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch);
    [config(1, 8), config(4, 64), config(3, 8192)]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shape_is_right_keeps_its_names_and_is_paid_once() {
    let names = async |context: &SessionContext, sql: &str| {
        let plan = context.sql(sql).await.unwrap().into_optimized_plan().unwrap();
        plan.schema().iter().map(|(qualifier, field)| format!("{qualifier:?} {}", field.name())).collect::<Vec<_>>()
    };
    for config in configs() {
        for (sql, expected) in shapes() {
            let functions = Functions::new();
            let (context, plain) = (functions.session(config.clone()), functions.plain_session());
            tables(&context).await;
            tables(&plain).await;
            let (mut found, mut reference) = (rows(&context, sql).await, rows(&plain, sql).await);
            found.sort();
            reference.sort();
            assert_eq!(found, reference, "{sql}");
            assert_eq!(functions.calls(["f", "g", "s", "v", "w"]), expected, "{sql}");
            assert_eq!(names(&context, sql).await, names(&plain, sql).await, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_keep_their_order() {
    let functions = Functions::new();
    let context = functions.session(SessionConfig::new().with_target_partitions(1).with_batch_size(7));
    tables(&context).await;
    let expected: Vec<String> = (1..=1000).map(|x| format!("{x} | {}", 2 * (x + 1))).collect();
    assert_eq!(rows(&context, "SELECT x, g(f(x)) FROM t").await, expected);
    let plan = rows(&context, "EXPLAIN SELECT x, f(x) FROM (SELECT x FROM t ORDER BY x) ORDER BY x").await.concat();
    assert_eq!(plan.matches("SortExec").count(), 1, "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_files_are_made_of_nested_calls() {
    let functions = Functions::new();
    let context = functions.session(SessionConfig::new());
    tables(&context).await;
    rows(&context, "CREATE TABLE made AS SELECT x, f(g(x)) AS a FROM t WHERE y = 3").await;
    assert_eq!(functions.calls(["f", "g"]), [100, 100]);
    assert_eq!(rows(&context, "SELECT sum(a), sum(2 * x + 1) FROM made").await, ["99700 | 99700"]);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.parquet").display().to_string();
    rows(&context, &format!("COPY (SELECT x, g(f(x)) AS a FROM t WHERE y = 4) TO '{file}'")).await;
    assert_eq!(functions.calls(["f", "g"]), [200, 200]);
    let reference = rows(&context, "SELECT sum(2 * (x + 1)) FROM t WHERE y = 4").await;
    rows(&context, &format!("CREATE EXTERNAL TABLE copied STORED AS PARQUET LOCATION '{file}'")).await;
    assert_eq!(rows(&context, "SELECT sum(a) FROM copied").await, reference);
    assert_eq!(rows(&context, "INSERT INTO made SELECT x, f(x) FROM t WHERE x = 1").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn views_bring_their_fences_along() {
    let functions = Functions::new();
    let context = functions.session(SessionConfig::new());
    tables(&context).await;
    rows(&context, "CREATE VIEW made AS SELECT x, f(x) AS fx FROM t WHERE y = 3").await;
    rows(&context, "CREATE VIEW again AS SELECT x, fx, g(fx) AS gx FROM made").await;
    let sql = "SELECT count(*), sum(gx + f(gx) - fx) FROM again WHERE f(x) = fx AND g(x) > 0";
    assert_eq!(rows(&context, sql).await, [format!("100 | {}", (0..100).map(|n| 3 * (10 * n + 4) + 1).sum::<i64>())]);
    assert_eq!(functions.calls(["f", "g"]), [200, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_a_call_fails_the_query() {
    let functions = Functions::new();
    let context = functions.session(SessionConfig::new().with_target_partitions(1).with_batch_size(8));
    tables(&context).await;
    let error = try_rows(&context, "SELECT u(x) FROM t").await.unwrap_err().to_string();
    assert!(error.contains("13 is unlucky"), "{error}");
    let [calls] = functions.calls(["u"]);
    assert!(calls <= 13 + 2 * WINDOW, "{calls}");
}
