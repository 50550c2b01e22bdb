//! The rows of a corpus, in the order of its files.

use std::sync::Arc;

use asap_pipelines::corpus::Corpus;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::functions::core::expr_ext::FieldAccessor;
use datafusion::prelude::{Expr, SessionContext, cast, col};
use futures::stream::{BoxStream, StreamExt, TryStreamExt};

use crate::failure::Failure;

/// A column as text.
pub fn text(column: &str) -> Expr {
    cast(col(column), DataType::Utf8View).alias(column)
}

/// Reads the file, the row and these columns of all rows, in the order of the files and their rows.
pub async fn in_order<'a>(
    context: &'a SessionContext,
    corpus: &'a Corpus,
    columns: impl IntoIterator<Item = Expr>,
) -> Result<BoxStream<'a, Result<RecordBatch, Failure>>, Failure> {
    let file = cast(col("source").field("file"), DataType::Utf8View).alias("file");
    let row = col("source").field("row").alias("row");
    let columns: Vec<_> = [file, row].into_iter().chain(columns).collect();
    let rows = context.read_table(Arc::new(corpus.view(&context.state())?))?.select(columns)?;
    let batches = rows.sort_by(vec![col("file"), col("row")])?.execute_stream().await?;
    Ok(batches.or_else(|error| async { Err(corpus.named(&context.state(), error).await.into()) }).boxed())
}
