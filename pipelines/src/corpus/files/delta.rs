//! A Delta table as input: its log lists its files, its columns, and the deleted rows.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt};
use sha2::{Digest, Sha256};

use crate::corpus::files::file::{CorpusFile, InTable};
use crate::corpus::files::source::Source;
use crate::corpus::files::{footer, foreign, is_hidden, listing};
use crate::delta::{DeletionVector, Followed, LiveFile, Since};
use crate::location;
use crate::objects::{existing, of_any_version};

const HASH_DIGITS: usize = 32;

pub const FINGERPRINT: &str = "delta-";

pub struct Table {
    pub source: Source,
    pub log: Followed,
    store: Arc<dyn ObjectStore>,
    store_url: ObjectStoreUrl,
    folder: Path,
    columns: SchemaRef,
}

pub struct Former<'a> {
    pub path: &'a str,
    pub size: u64,
    pub fingerprint: &'a str,
}

impl Table {
    /// Opens the table of a source. None if the source is not a table's folder.
    pub(crate) async fn find(session: &dyn Session, source: &Source, since: Option<Since>) -> Result<Option<Self>> {
        let url = &source.url;
        if source.is_pattern() || location::local_path(url).is_some_and(|path| !path.is_dir()) {
            return Ok(None);
        }
        let (store, store_url, folder) = source.in_store(session)?;
        if !foreign::is_delta_table(store.as_ref(), &folder).await? {
            return Ok(None);
        }
        // A table in a hidden folder of another table is separate: asap keeps the rejects of an output there.
        if !folder.parts().rev().nth(1).is_some_and(|above| is_hidden(above.as_ref())) {
            foreign::refuse_part_of_table(store.as_ref(), &folder, &location::display(url)).await?;
        }
        let rooted = PrefixStore::new(Arc::clone(&store), folder.clone());
        let Some(log) = Followed::read(&rooted, url, since).await? else {
            return exec_err!("the log of {} has no version of a table", location::display(url));
        };
        log.state.check_readable(url)?;
        let columns = log.state.schema().map_err(|error| {
            exec_datafusion_err!("the Delta table {}: {}", location::display(url), error.strip_backtrace())
        })?;
        let columns = footer::plain_schema(&columns);
        Ok(Some(Self { source: source.clone(), store, store_url, folder, columns, log }))
    }

    pub fn shown(&self) -> String {
        location::display(&self.source.url)
    }

    /// The files of the newest version. Fails if one is outside the table's folder.
    pub fn files(&self) -> Result<Vec<CorpusFile>> {
        self.log.state.files.values().map(|file| self.file(file, None)).collect()
    }

    /// A file of the table, removed in version `removed_in`, if any. Fails if it is outside the table's folder.
    pub fn file(&self, file: &LiveFile, removed_in: Option<u64>) -> Result<CorpusFile> {
        let LiveFile { path, partition_values, size, modification_time, deletion_vector, .. } = file;
        let fingerprint = match deletion_vector {
            None => format!("{FINGERPRINT}{modification_time}"),
            Some(vector) => format!("{FINGERPRINT}{modification_time}-{}", hash_of(vector)),
        };
        let in_table = InTable { deletion_vector: deletion_vector.clone(), removed_in, ..self.in_table(fingerprint) };
        self.corpus_file(&self.inside(path)?, *size, partition_values, in_table)
    }

    /// Former files of the table that still exist, and whose partition values the log still has.
    pub(crate) async fn former_files(&self, wanted: &[Former<'_>]) -> Result<Vec<CorpusFile>> {
        if wanted.is_empty() {
            return Ok(vec![]);
        }
        let Followed { state, .. } = &self.log;
        let live = state.files.values().map(|file| (&file.path, Some(&file.partition_values)));
        let removed = state.removed.values().map(|file| (&file.path, file.partition_values.as_ref()));
        let mut values = HashMap::new();
        for (logged, said) in removed.chain(live) {
            values.insert(self.inside(logged)?, said);
        }
        let none = HashMap::new();
        let mut files = Vec::new();
        for Former { path, size, fingerprint } in wanted {
            let path = Path::parse(path).map_err(object_store::Error::from)?;
            let is_divided = !state.metadata.partition_columns.is_empty();
            let Some(values) = values.get(&path).copied().flatten().or((!is_divided).then_some(&none)) else {
                continue;
            };
            let file = self.corpus_file(&path, *size, values, self.in_table(fingerprint.to_string()))?;
            if existing(self.store.head(&file.meta.location).await)?.is_some() {
                files.push(file);
            }
        }
        Ok(files)
    }

    pub(crate) fn path_of(&self, logged: &str) -> Result<String> {
        Ok(self.source.path_of(self.inside(logged)?.as_ref()))
    }

    fn in_table(&self, fingerprint: String) -> InTable {
        InTable {
            columns: Arc::clone(&self.columns),
            folder: self.folder.clone(),
            fingerprint,
            deletion_vector: None,
            removed_in: None,
        }
    }

    fn corpus_file(
        &self,
        path: &Path,
        size: u64,
        values: &HashMap<String, Option<String>>,
        in_table: InTable,
    ) -> Result<CorpusFile> {
        let location = Path::from_iter(self.folder.parts().chain(path.parts()));
        let columns = &self.log.state.metadata.partition_columns;
        // An empty text means NULL, too.
        let value = |column: &String| values.get(column).cloned().flatten().filter(|value| !value.is_empty());
        Ok(CorpusFile {
            path: self.source.path_of(path.as_ref()),
            name: listing::name(&self.store_url, &location),
            store_url: self.store_url.clone(),
            meta: of_any_version(location, size),
            partitions: columns.iter().map(|column| (column.clone(), value(column))).collect(),
            in_table: Some(Arc::new(in_table)),
            temporary: None,
        })
    }

    fn inside(&self, logged: &str) -> Result<Path> {
        if logged.starts_with('/') || logged.contains(":/") {
            return exec_err!(
                "the Delta table {} names a file outside of its folder, {logged}, as shallow clones do: asap does not read it; \
                 name the table that it was cloned from, or copy its rows",
                self.shown()
            );
        }
        Ok(Path::from_url_path(logged).map_err(object_store::Error::from)?)
    }
}

fn hash_of(vector: &DeletionVector) -> String {
    let DeletionVector { storage_type, path_or_inline_dv, offset, .. } = vector;
    let hash = Sha256::digest(format!("{storage_type}{path_or_inline_dv}@{}", offset.unwrap_or(0)));
    format!("{hash:x}")[..HASH_DIGITS].to_string()
}
