//! Queries with a call in an unsupported place are rejected during planning.

use datafusion::prelude::SessionConfig;

use crate::tests::fence::counting::{Functions, tables, try_rows};

#[tokio::test]
async fn a_call_in_the_wrong_place_is_a_planning_error_that_helps() {
    let functions = Functions::new();
    // A dialect with lambdas.
    let context = functions.session(SessionConfig::new().set_str("datafusion.sql_parser.dialect", "duckdb"));
    tables(&context).await;
    for line in include_str!("refusals.txt").lines().filter(|line| !line.starts_with("--")) {
        let (expected, sql) = line.split_once(": ").unwrap();
        if expected.is_empty() {
            try_rows(&context, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            continue;
        }
        let error = match context.sql(sql).await {
            Ok(frame) => frame.create_physical_plan().await.unwrap_err(),
            Err(error) => error,
        };
        let error = error.to_string();
        assert!(error.contains(expected), "{sql}: {error}");
        assert!(error.contains("use its column"), "{sql}: {error}");
        assert!(!error.to_lowercase().contains("internal error"), "{sql}: {error}");
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
