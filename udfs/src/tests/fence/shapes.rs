//! All shapes of queries, with their calls and results.

use datafusion::prelude::SessionConfig;

use crate::tests::fence::counting::{Functions, rows, tables};

type Calls = [usize; 5];

/// A query over t, and the number of its calls. It returns the same rows as the query without calls.
const SHAPES: &[(&str, Calls)] = &[
    ("SELECT x, f(g(x)) FROM t", [1000, 1000, 0, 0, 0]),
    ("SELECT x, f(gx) FROM (SELECT x, g(x) AS gx FROM t)", [1000, 1000, 0, 0, 0]),
    ("SELECT f(gx) FROM (SELECT g(x) AS gx FROM t ORDER BY gx LIMIT 20)", [20, 1000, 0, 0, 0]),
    ("SELECT f(g(x) + g(y)), g(f(x)) FROM t WHERE x <= 10", [17, 12, 0, 0, 0]),
    ("SELECT f(x), f(x) + 1, f(y) FROM t", [1001, 0, 0, 0, 0]),
    ("SELECT v(x), v(x) + 1 FROM t", [0, 0, 0, 1000, 0]),
    ("SELECT f(1)", [1, 0, 0, 0, 0]),
    ("SELECT f(1), f(2), f(1) + 1 FROM t", [2, 0, 0, 0, 0]),
    ("SELECT f(NULL), f(x) FROM t WHERE x = 1", [1, 0, 0, 0, 0]),
    // WHERE along with cheap predicates, above and below.
    ("SELECT x FROM t WHERE y = 3 AND f(x) > 5", [100, 0, 0, 0, 0]),
    ("SELECT x FROM t WHERE y = 3 AND v(x) > 5", [0, 0, 0, 100, 0]),
    ("SELECT x FROM (SELECT x, y FROM t WHERE y = 3) WHERE f(x) > 5", [100, 0, 0, 0, 0]),
    ("SELECT gx FROM (SELECT g(x) AS gx, y FROM t) WHERE gx > 30 AND y = 3", [0, 100, 0, 0, 0]),
    ("SELECT * FROM t WHERE f(x) = 7 OR x = 3", [1000, 0, 0, 0, 0]),
    ("SELECT x FROM t WHERE CASE WHEN y = 3 THEN f(x) > 500 END", [1000, 0, 0, 0, 0]),
    ("SELECT st['a'] AS a, st['b'] AS b FROM (SELECT s(x) AS st FROM t)", [0, 0, 1000, 0, 0]),
    (
        "SELECT st['a'] AS a, st['b'] AS b FROM (SELECT w(x) AS st, y FROM t) WHERE st['a'] > 3 AND y = 3",
        [0, 0, 0, 0, 100],
    ),
    ("SELECT w(x)['a'], w(x)['b'] FROM t", [0, 0, 0, 0, 1000]),
    ("SELECT f(st['a']) FROM (SELECT s(x) AS st FROM t)", [1000, 0, 1000, 0, 0]),
    ("SELECT y, count(*) FROM t GROUP BY y HAVING f(y) > 3", [10, 0, 0, 0, 0]),
    ("SELECT y, max(f(x)) FROM t GROUP BY y HAVING max(g(x)) > 1995", [1000, 1000, 0, 0, 0]),
    ("SELECT x FROM t ORDER BY f(x) DESC LIMIT 10", [1000, 0, 0, 0, 0]),
    ("SELECT x, f(x) AS fx FROM t ORDER BY fx DESC, g(y) LIMIT 10", [1000, 10, 0, 0, 0]),
    ("SELECT f(y), count(*) FROM t GROUP BY f(y)", [10, 0, 0, 0, 0]),
    ("SELECT v(y), count(*) FROM t GROUP BY v(y)", [0, 0, 0, 1000, 0]),
    ("SELECT f(y), g(y), count(*) FROM t GROUP BY ROLLUP (f(y), g(y))", [10, 10, 0, 0, 0]),
    ("SELECT DISTINCT f(y) FROM t", [10, 0, 0, 0, 0]),
    ("SELECT DISTINCT ON (f(y)) g(x) FROM t ORDER BY f(y), x", [10, 1000, 0, 0, 0]),
    ("SELECT sum(x) FILTER (WHERE f(x) > 3) FROM t", [1000, 0, 0, 0, 0]),
    ("SELECT sum(f(x)), sum(f(10 * x)) FROM t", [1900, 0, 0, 0, 0]),
    ("SELECT sum(v(x)), sum(v(10 * x)), avg(x) FROM t", [0, 0, 0, 2000, 0]),
    ("SELECT array_agg(f(y) ORDER BY g(x)) FROM t", [10, 1000, 0, 0, 0]),
    ("SELECT x, sum(f(x)) OVER (ORDER BY x) FROM t", [1000, 0, 0, 0, 0]),
    ("SELECT x, row_number() OVER (PARTITION BY f(y) ORDER BY g(x)) FROM t", [10, 1000, 0, 0, 0]),
    ("SELECT x, sum(f(x)) OVER (PARTITION BY y ORDER BY x) + f(x) FROM t", [1000, 0, 0, 0, 0]),
    ("SELECT x FROM t WHERE EXISTS (SELECT 1 FROM t2 WHERE f(t2.x) = t.x)", [1000, 0, 0, 0, 0]),
    ("SELECT x FROM t WHERE EXISTS (SELECT 1 FROM t2 WHERE f(t2.x) > 991 AND t2.x = t.x)", [1000, 0, 0, 0, 0]),
    ("SELECT x FROM t WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE f(t2.y) = t.y AND t2.y = 4)", [1, 0, 0, 0, 0]),
    ("SELECT x FROM t WHERE x IN (SELECT f(x) FROM t2 WHERE y = 3)", [100, 0, 0, 0, 0]),
    ("SELECT x FROM t WHERE f(x) IN (SELECT x FROM t2 WHERE y = 3)", [1000, 0, 0, 0, 0]),
    ("SELECT x FROM t WHERE x = (SELECT max(f(x)) FROM t2 WHERE y = 3)", [100, 0, 0, 0, 0]),
    ("SELECT x, (SELECT max(f(t2.x)) FROM t2 WHERE t2.y = t.x) FROM t", [1000, 0, 0, 0, 0]),
    ("SELECT f((SELECT max(x) FROM t2))", [1, 0, 0, 0, 0]),
    ("SELECT x FROM t WHERE f(x) + (SELECT min(x) FROM t2) > 990", [1000, 0, 0, 0, 0]),
    (
        "WITH a AS (SELECT x, f(x) AS fx FROM t WHERE y = 1) SELECT a.x, b.fx FROM a JOIN a b ON a.x = b.fx - 1",
        [100, 0, 0, 0, 0],
    ),
    ("SELECT t.x FROM t JOIN t2 ON t.x = t2.x WHERE f(t.x) > 3 AND t.y = 3", [100, 0, 0, 0, 0]),
    ("SELECT t.x, t2.x FROM t LEFT JOIN t2 ON t.x = 2 * t2.x WHERE f(t2.x) > 3 OR f(t.x) = 2", [1000, 0, 0, 0, 0]),
    ("SELECT a.fx FROM (SELECT f(x) AS fx FROM t) a JOIN t2 ON a.fx = t2.x", [1000, 0, 0, 0, 0]),
    ("SELECT f(x) FROM t WHERE y = 1 UNION ALL SELECT g(x) FROM t2 WHERE y = 1", [100, 100, 0, 0, 0]),
    // LIMIT. (The engine may return any rows of a sorted subquery without its own limit.)
    ("SELECT f(y) FROM (SELECT y FROM t WHERE x <= 10) LIMIT 10", [10, 0, 0, 0, 0]),
    ("SELECT f(x) FROM (SELECT x FROM t ORDER BY x LIMIT 10 OFFSET 5)", [10, 0, 0, 0, 0]),
    // The first rows, sorted by keys that need no call.
    ("SELECT f(x) FROM t ORDER BY abs(500 - x), x LIMIT 3", [3, 0, 0, 0, 0]),
    ("SELECT x, f(g(x)) AS fg FROM t ORDER BY y DESC, x LIMIT 4 OFFSET 2", [4, 4, 0, 0, 0]),
    ("SELECT f(g(x)) AS fg, g(x) AS gx FROM t ORDER BY gx DESC LIMIT 3", [3, 1000, 0, 0, 0]),
    // Unread results are not computed.
    ("SELECT y FROM (SELECT y, f(x) AS fx, g(x) AS gx FROM t) WHERE gx > 100", [0, 1000, 0, 0, 0]),
    ("SELECT count(*) FROM (SELECT f(g(x)) FROM t)", [0, 0, 0, 0, 0]),
    ("SELECT a.x FROM (SELECT x, v(x) AS vx FROM t) a JOIN t2 ON a.x = t2.x", [0, 0, 0, 0, 0]),
];

fn configs() -> [SessionConfig; 3] {
    let config = |partitions, batch| SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch);
    [config(1, 8), config(4, 64), config(3, 8192)]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shape_is_right_and_paid_once() {
    for config in configs() {
        for (sql, expected) in SHAPES {
            let functions = Functions::new();
            let (context, plain) = (functions.session(config.clone()), functions.plain_session());
            tables(&context).await;
            tables(&plain).await;
            let (mut found, mut reference) = (rows(&context, sql).await, rows(&plain, sql).await);
            found.sort();
            reference.sort();
            assert_eq!(found, reference, "{sql}");
            let Functions { f, g, s, v, w, .. } = &functions;
            assert_eq!([f, g, s, v, w].map(|function| function.calls()), *expected, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_keeps_its_names() {
    let functions = Functions::new();
    let (context, plain) = (functions.session(SessionConfig::new()), functions.plain_session());
    tables(&context).await;
    tables(&plain).await;
    for (sql, _) in SHAPES {
        let names = async |context: &datafusion::prelude::SessionContext| {
            let plan = context.sql(sql).await.unwrap().into_optimized_plan().unwrap();
            plan.schema().iter().map(|(qualifier, field)| format!("{qualifier:?} {}", field.name())).collect::<Vec<_>>()
        };
        assert_eq!(names(&context).await, names(&plain).await, "{sql}");
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
    assert_eq!((functions.f.calls(), functions.g.calls()), (100, 100));
    assert_eq!(rows(&context, "SELECT sum(a), sum(2 * x + 1) FROM made").await, ["99700 | 99700"]);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.parquet").display().to_string();
    rows(&context, &format!("COPY (SELECT x, g(f(x)) AS a FROM t WHERE y = 4) TO '{file}'")).await;
    assert_eq!((functions.f.calls(), functions.g.calls()), (200, 200));
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
    assert_eq!((functions.f.calls(), functions.g.calls()), (200, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_a_call_fails_the_query() {
    let functions = Functions::new();
    let context = functions.session(SessionConfig::new().with_target_partitions(1).with_batch_size(8));
    tables(&context).await;
    let error = crate::tests::fence::counting::try_rows(&context, "SELECT u(x) FROM t").await.unwrap_err().to_string();
    assert!(error.contains("13 is unlucky"), "{error}");
    assert!(functions.u.calls() <= 13 + 2 * crate::tests::fence::counting::WINDOW, "{}", functions.u.calls());
}
