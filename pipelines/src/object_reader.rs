//! Reads an object of a store for the Parquet reader.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result};
use datafusion::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::{GetOptions, GetRange, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, coalesce_ranges};

/// An object as listed: reads fail if it was replaced since. Ranges beyond its end, as a damaged footer may claim, are not
/// requested from the store.
pub(crate) struct ObjectReader {
    pub store: Arc<dyn ObjectStore>,
    pub object: ObjectMeta,
    /// Bytes at the end that are read together with the length of the footer.
    pub prefetch: Option<usize>,
    /// The footer, if it is known.
    pub footer: Option<Arc<ParquetMetaData>>,
}

impl ObjectReader {
    fn check(&self, range: &Range<u64>) -> Result<()> {
        if range.start >= range.end || range.end > self.object.size {
            return Err(ParquetError::EOF(format!("expected bytes {range:?}, found {}", self.object.size)));
        }
        Ok(())
    }
}

impl AsyncFileReader for ObjectReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            self.check(&range)?;
            Ok(get_range(self.store.as_ref(), &self.object, range).await?)
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        async move {
            ranges.iter().try_for_each(|range| self.check(range))?;
            let fetch = |range| get_range(self.store.as_ref(), &self.object, range);
            Ok(coalesce_ranges(&ranges, fetch, OBJECT_STORE_COALESCE_DEFAULT).await?)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        let (size, reader) = (self.object.size, ParquetMetaDataReader::new().with_prefetch_hint(self.prefetch));
        async move {
            match &self.footer {
                Some(footer) => Ok(Arc::clone(footer)),
                None => Ok(Arc::new(reader.load_and_finish(self, size).await?)),
            }
        }
        .boxed()
    }
}

/// Options for a read that fails if the file is not the listed version any more.
pub(crate) fn as_listed(file: &ObjectMeta) -> GetOptions {
    // A weak ETag never matches If-Match: it stands for equivalent content, not for equal bytes.
    let if_match = file.e_tag.clone().filter(|e_tag| !e_tag.starts_with("W/"));
    GetOptions { if_match, ..GetOptions::default() }
}

/// Reads bytes of a file, if it is still the listed version.
pub(crate) async fn get_range(
    store: &dyn ObjectStore,
    file: &ObjectMeta,
    range: Range<u64>,
) -> object_store::Result<Bytes> {
    let options = GetOptions { range: Some(GetRange::Bounded(range)), ..as_listed(file) };
    store.get_opts(&file.location, options).await?.bytes().await
}
