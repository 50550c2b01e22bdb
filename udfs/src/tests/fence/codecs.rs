//! Fences as bytes: what comes back runs as what went.

use std::sync::Arc;

use asap_udfs::plan::{FenceExec, FenceLogicalCodec, FencePhysicalCodec};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec,
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::logical_plan::DefaultLogicalExtensionCodec;
use datafusion_proto::physical_plan::DefaultPhysicalExtensionCodec;
use tempfile::TempDir;

use crate::tests::fence::counting::{Functions, rows};

const SQL: &str = "SELECT x, f(g(x)) AS a, s(x)['b'] AS b, f(7) AS c FROM t WHERE x < 50 AND f(x) > 10 ORDER BY g(x)";

/// A session over a file of the numbers from 1 to 100.
async fn context(functions: &Functions, folder: &TempDir) -> SessionContext {
    let context = functions.session(SessionConfig::new().with_target_partitions(2));
    let file = folder.path().join("t.parquet").display().to_string();
    rows(&context, &format!("COPY (SELECT value AS x FROM generate_series(1, 100)) TO '{file}'")).await;
    rows(&context, &format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{file}'")).await;
    context
}

fn expected() -> Vec<String> {
    (10..50).map(|x| format!("{x} | {} | -{x} | 8", 2 * x + 1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logical_plan_comes_back_from_bytes_and_runs() {
    let (here, there) = (Functions::new(), Functions::new());
    let folder = tempfile::tempdir().unwrap();
    let (sender, receiver) = (context(&here, &folder).await, context(&there, &folder).await);
    let plan = sender.sql(SQL).await.unwrap().into_optimized_plan().unwrap();
    assert!(plan.display_indent().to_string().matches("Fence:").count() >= 2, "{}", plan.display_indent());

    let codec = FenceLogicalCodec::new(Arc::new(DefaultLogicalExtensionCodec {}));
    let bytes = logical_plan_to_bytes_with_extension_codec(&plan, &codec).unwrap();
    let decoded = logical_plan_from_bytes_with_extension_codec(&bytes, &receiver.task_ctx(), &codec).unwrap();
    assert_eq!(decoded.display_indent().to_string(), plan.display_indent().to_string());
    let batches = receiver.execute_logical_plan(decoded).await.unwrap().collect().await.unwrap();
    assert_eq!(shown(&batches), expected());
    assert_eq!((here.f.calls(), there.f.calls()), (0, 49 + 25));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_physical_plan_comes_back_from_bytes_and_runs() {
    let (here, there) = (Functions::new(), Functions::new());
    let folder = tempfile::tempdir().unwrap();
    let (sender, receiver) = (context(&here, &folder).await, context(&there, &folder).await);
    let plan = sender.sql(SQL).await.unwrap().create_physical_plan().await.unwrap();
    let codec = FencePhysicalCodec::new(Arc::new(DefaultPhysicalExtensionCodec {}));
    let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(&plan), &codec).unwrap();
    let decoded = physical_plan_from_bytes_with_extension_codec(&bytes, &receiver.task_ctx(), &codec).unwrap();
    let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    assert_eq!(text(&decoded), text(&plan));
    assert!(text(&decoded).matches(FenceExec::static_name()).count() >= 2);
    let batches = collect(decoded, receiver.task_ctx()).await.unwrap();
    assert_eq!(shown(&batches), expected());
    assert_eq!((here.f.calls(), there.f.calls()), (0, 49 + 25));
}

#[tokio::test]
async fn a_process_without_the_function_says_which_is_missing() {
    let functions = Functions::new();
    let sender = context(&functions, &tempfile::tempdir().unwrap()).await;
    let plan = sender.sql(SQL).await.unwrap().create_physical_plan().await.unwrap();
    let codec = FencePhysicalCodec::new(Arc::new(DefaultPhysicalExtensionCodec {}));
    let bytes = physical_plan_to_bytes_with_extension_codec(plan, &codec).unwrap();
    let stranger = SessionContext::new().task_ctx();
    let error = physical_plan_from_bytes_with_extension_codec(&bytes, &stranger, &codec).unwrap_err().to_string();
    assert!(["f", "g", "s"].iter().any(|name| error.ends_with(&format!("scalar function {name}"))), "{error}");
}

fn shown(batches: &[RecordBatch]) -> Vec<String> {
    let row = |batch: &RecordBatch, row| {
        let cells = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
        cells.collect::<Vec<_>>().join(" | ")
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |n| row(batch, n))).collect()
}
