//! Datasets of the Hugging Face Hub, `hf://datasets/org/name@revision/path`. Each revision is a read-only store.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::common::Result;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use object_store_opendal::OpendalStore;
use opendal::Operator;
use opendal::layers::RetryLayer;
use opendal::services::Hf;

use super::variables::{Variables, variables};

pub(super) fn store() -> Result<Arc<dyn ObjectStore>> {
    opendal::install_default();
    Ok(Arc::new(Datasets { variables: variables("HF_", std::env::vars_os())?, opened: Mutex::default() }))
}

struct Datasets {
    variables: Variables,
    opened: Mutex<HashMap<Path, OpendalStore>>,
}

/// A place in a dataset: the prefix of this store's paths, the store of the revision, and the path in it.
struct DatasetPath {
    dataset: Path,
    revision: OpendalStore,
    path: Path,
}

impl Datasets {
    /// Resolves a path `org/name@revision/…`. Special revisions, such as `refs/convert/parquet` or `refs/pr/1`, span
    /// several path segments.
    fn place(&self, location: &Path) -> object_store::Result<DatasetPath> {
        let parts: Vec<_> = location.parts().collect();
        let named = parts.get(1).and_then(|name| name.as_ref().split_once('@'));
        let Some((name, revision)) = named.filter(|(_, revision)| !revision.is_empty()) else {
            let said = format!("hf://datasets/{location} has no revision: write hf://datasets/org/name@revision/path");
            return Err(Error::NotSupported { source: said.into() });
        };
        let (of_dataset, of_path) = parts.split_at(if revision == "refs" { parts.len().min(4) } else { 2 });
        let (dataset, path) = (Path::from_iter(of_dataset.to_vec()), Path::from_iter(of_path.to_vec()));
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(revision) = opened.get(&dataset) {
            return Ok(DatasetPath { revision: revision.clone(), dataset, path });
        }
        let revision =
            [revision].into_iter().chain(of_dataset[2..].iter().map(AsRef::as_ref)).collect::<Vec<_>>().join("/");
        let endpoint = self.variables.get("HF_ENDPOINT").map_or("https://huggingface.co", String::as_str);
        let repository = format!("{}/{name}", parts[0].as_ref());
        let builder = Hf::default().repo_type("dataset").repo_id(&repository).revision(&revision).endpoint(endpoint);
        let operator = Operator::new(builder).map_err(|error| Error::Generic { store: "hf", source: error.into() })?;
        let store = OpendalStore::new(operator.layer(RetryLayer::new()));
        opened.insert(dataset.clone(), store.clone());
        Ok(DatasetPath { revision: store, dataset, path })
    }

    fn read_only() -> Error {
        Error::NotSupported { source: "hf:// is read-only: you cannot write there".into() }
    }
}

impl fmt::Debug for Datasets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl fmt::Display for Datasets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("hf://datasets")
    }
}

fn outer(dataset: &Path, path: &Path) -> Path {
    Path::from_iter(dataset.parts().chain(path.parts()))
}

#[async_trait]
impl ObjectStore for Datasets {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let place = self.place(location)?;
        let mut found = place.revision.get_opts(&place.path, options).await?;
        found.meta.location = location.clone();
        Ok(found)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let place = match self.place(prefix.unwrap_or(&Path::default())) {
            Ok(place) => place,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let found = place.revision.list(Some(&place.path).filter(|path| !path.as_ref().is_empty()));
        // Folders are listed too; only files have an ETag.
        let files = found.try_filter(|found| std::future::ready(found.e_tag.is_some()));
        files.map_ok(move |file| ObjectMeta { location: outer(&place.dataset, &file.location), ..file }).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let place = self.place(prefix.unwrap_or(&Path::default()))?;
        let folder = Some(&place.path).filter(|path| !path.as_ref().is_empty());
        let mut found = place.revision.list_with_delimiter(folder).await?;
        for path in found.common_prefixes.iter_mut().chain(found.objects.iter_mut().map(|file| &mut file.location)) {
            *path = outer(&place.dataset, path);
        }
        Ok(found)
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> object_store::Result<PutResult> {
        Err(Self::read_only())
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        Err(Self::read_only())
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        stream::iter([Err(Self::read_only())]).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        Err(Self::read_only())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_of_a_revision() {
        let datasets = Datasets { variables: Variables::new(), opened: Mutex::default() };
        for (path, dataset, inner) in [
            ("org/name@1d0c4eb/a/b.parquet", "org/name@1d0c4eb", "a/b.parquet"),
            ("org/name@main", "org/name@main", ""),
            ("org/name@refs/convert/parquet/a/b.parquet", "org/name@refs/convert/parquet", "a/b.parquet"),
            ("org/name@refs/pr/1", "org/name@refs/pr/1", ""),
        ] {
            let place = datasets.place(&Path::from(path)).unwrap();
            assert_eq!((place.dataset.as_ref(), place.path.as_ref()), (dataset, inner));
            assert_eq!(outer(&place.dataset, &place.path).as_ref(), path);
        }
        for path in ["", "org", "org/name", "org/name@", "org/name@/a"] {
            assert!(datasets.place(&Path::from(path)).is_err(), "{path}");
        }
    }
}
