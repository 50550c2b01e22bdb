//! Queries with a call in an unsupported place are rejected during planning.

use datafusion::prelude::SessionConfig;

use crate::tests::fence::counting::{Functions, tables, try_rows};

#[tokio::test]
async fn a_call_in_the_wrong_place_is_a_planning_error_that_helps() {
    let functions = Functions::new();
    // A dialect with lambdas.
    let context = functions.session(SessionConfig::new().set_str("datafusion.sql_parser.dialect", "duckdb"));
    tables(&context).await;
    for (sql, place) in [
        ("SELECT t.x FROM t JOIN t2 ON f(t.x) = t2.x", "f makes calls and cannot be used in JOIN … ON"),
        (
            "SELECT t.x FROM t LEFT JOIN t2 ON t.x = t2.x AND g(t2.x) > t.y",
            "g makes calls and cannot be used in JOIN … ON",
        ),
        ("VALUES (1, f(2))", "f makes calls and cannot be used in VALUES"),
        ("INSERT INTO t2 VALUES (f(1), 2)", "f makes calls and cannot be used in VALUES"),
        ("SELECT array_transform([1, 2], a -> f(a)) FROM t", "f makes calls and cannot be used in a lambda"),
        ("SELECT x FROM t LIMIT f(1)", "f makes calls and cannot be used in Limit"),
        (
            "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.x = f(t.x))",
            "f cannot be called in a subquery with a column of the outer query",
        ),
    ] {
        let error = match context.sql(sql).await {
            Ok(frame) => frame.create_physical_plan().await.unwrap_err(),
            Err(error) => error,
        };
        let error = error.to_string();
        assert!(error.contains(place), "{sql}: {error}");
        assert!(error.contains("use its column"), "{sql}: {error}");
        assert!(!error.to_lowercase().contains("internal error"), "{sql}: {error}");
    }
    // The remedies in the errors work.
    for sql in [
        "SELECT a.x FROM (SELECT *, f(x) AS called FROM t) a JOIN t2 ON a.called = t2.x",
        "SELECT f(column1) FROM (VALUES (1), (2))",
        "SELECT x FROM (SELECT *, f(x) AS called FROM t) a WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.x = a.called)",
        "SELECT array_transform([1, 2], a -> a + fx) FROM (SELECT f(x) AS fx FROM t)",
    ] {
        try_rows(&context, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[tokio::test]
async fn a_call_that_no_rule_has_seen_says_so() {
    let functions = Functions::new();
    let context = functions.session(SessionConfig::new());
    let schema = datafusion::common::DFSchema::empty();
    let expression = context.parse_sql_expr("f(1)", &schema).unwrap();
    let physical = context.create_physical_expr(expression, &schema).unwrap();
    let batch = datafusion::arrow::array::RecordBatch::new_empty(std::sync::Arc::new(schema.as_arrow().clone()));
    let error = physical.evaluate(&batch).unwrap_err().to_string();
    assert!(error.contains("f makes calls and cannot be used in"), "{error}");
}
