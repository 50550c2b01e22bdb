//! Single files of web servers, read by URL with range requests. Plain HTTP has no folders.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{Result, config_err};
use futures::stream::{self, BoxStream, StreamExt};
use object_store::http::{HttpBuilder, HttpStore};
use object_store::path::Path;
use object_store::{
    ClientOptions, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use url::{Position, Url};

use super::address;
use super::retry::patient;

pub(super) fn store(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    let host = &url[..Position::BeforePath];
    if address::is_azure(url) {
        let form = "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/…";
        return config_err!("{host} is Azure Blob Storage: write its containers as {form}");
    }
    let options = ClientOptions::new().with_allow_http(url.scheme() == "http");
    let files = HttpBuilder::new().with_url(host).with_client_options(options).with_retry(patient()).build()?;
    Ok(Arc::new(Files { host: host.to_string(), files }))
}

#[derive(Debug)]
struct Files {
    host: String,
    files: HttpStore,
}

impl Files {
    fn no_folder(&self, prefix: Option<&Path>) -> Error {
        let folder = prefix.map_or("", |prefix| prefix.as_ref());
        let said = format!(
            "{}/{folder} is not a file, and http and https cannot list folders: pass the full URL of one file",
            self.host
        );
        Error::NotSupported { source: said.into() }
    }

    fn read_only(&self) -> Error {
        Error::NotSupported { source: format!("{} is read-only: you cannot write there", self.host).into() }
    }
}

impl fmt::Display for Files {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "files of {}", self.host)
    }
}

#[async_trait]
impl ObjectStore for Files {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        stream::iter([Err(self.no_folder(prefix))]).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        Err(self.no_folder(prefix))
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> object_store::Result<PutResult> {
        Err(self.read_only())
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        Err(self.read_only())
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        stream::iter([Err(self.read_only())]).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        Err(self.read_only())
    }
}
