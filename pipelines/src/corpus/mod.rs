//! The corpus: files of published datasets, each in its own shape, read as one table.
//!
//! ```text
//!   LOC ── files ── footers ── one group per schema ── shape ── view ──┐
//!          listing   schema      files with the same     by     by     ├─ UNION ALL ── corpus
//!                    rows        columns                names  Exprs ──┘
//! ```
//!
//! | column | type | holds |
//! |---|---|---|
//! | `source` | Struct\<file Utf8, row Int64> | where the row stands: the file's path or URL, and the row in it, from 0 |
//! | `id` | Utf8 | the published `id` or `uuid`, else the md5 of question and chain; not unique |
//! | `question` | Utf8 | what was asked |
//! | `cot` | Utf8 | the chain of thought, without its tags |
//! | `answer` | Utf8 | what follows the chain in a generation, else the column that holds it |
//! | `status` | Utf8 | NULL, or why the row cannot be pruned |
//! | `error` | Utf8 | the same as a sentence that names what was found |
//!
//! Then the original columns, under their names; one that is called like a column above is `source_<name>`.
//!
//! | `status` | the row |
//! |---|---|
//! | `unverified` | none of its `generations` has a true flag |
//! | `multi_turn` | its conversation has more than one exchange |
//! | `no_question` | its question is NULL or empty |
//! | `no_generation` | its generation is NULL or empty |
//! | `no_tags` | its generation has no closing think tag |
//! | `empty_chain` | there is nothing between the tags, or in the column of the chain |
//! | `no_answer` | nothing follows the chain, or the column of the answer is empty |
//!
//! A row with a status still carries what could be read of it.

mod footer;
mod function;
mod listing;
mod mapping;
mod originals;
mod reading;
mod shape;
mod slices;
mod table;
mod tags;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::ViewTable;
use datafusion::logical_expr::{LogicalPlan, Union};
use futures::{StreamExt, TryStreamExt};
use url::Url;

pub use function::CorpusFunction;
pub use mapping::ColumnMapping;
pub use slices::Slice;

use crate::location;
use footer::Footer;
use listing::Listing;
use shape::Shape;
use table::{FilesTable, Group};
use view::Original;

/// Footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 16;

/// A location that was listed and recognised, ready to be read.
pub struct Corpus {
    /// The rows of all files, with the columns that this module lists.
    pub plan: LogicalPlan,
    /// The files, ordered by path.
    pub files: Vec<CorpusFile>,
    /// What to tell the user: files that were left out, columns that were found by their content.
    pub notes: Vec<String>,
    originals: Vec<Original>,
}

/// A file of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusFile {
    /// What `source` calls it: its path on this machine, else its URL.
    pub name: String,
    /// Where it lies.
    pub url: String,
    /// Its size in bytes.
    pub size: u64,
    /// How many rows it has.
    pub rows: u64,
    /// Changes when its content does: the store's ETag, or the SHA-256 of the footer where the store is a file system.
    pub fingerprint: String,
}

impl Corpus {
    /// Lists the files at `location` (a file, or a folder with those below it), reads their footers and recognises
    /// their columns, one schema at a time.
    ///
    /// # Errors
    /// If there is nothing to read, if a file is not Parquet or not whole, if columns fit no shape, if a mapping names a
    /// column that is not there, or if files disagree about a column's type. The message names file and column.
    pub async fn open(session: &dyn Session, location: &str, mapping: Option<&ColumnMapping>) -> Result<Self> {
        let url = location::parse(location)?;
        let listing = Listing::new(&url, |store_url| session.runtime_env().object_store(store_url)).await?;
        let footers = read_footers(&listing).await?;
        let files = listing.files.iter().zip(&footers).map(|(meta, footer)| CorpusFile {
            name: listing.name(&meta.location),
            url: listing.url(&meta.location),
            size: meta.size,
            rows: footer.rows,
            fingerprint: fingerprint(&url, meta, footer),
        });
        let files: Vec<CorpusFile> = files.collect();
        let groups = group(&listing, &footers);

        let mut notes: Vec<String> = Vec::new();
        if !listing.left_out.is_empty() {
            notes.push(format!("left out, because they are not Parquet: {}", listing.left_out.join(", ")));
        }
        let schemas: Vec<(SchemaRef, String)> =
            groups.iter().map(|group| (Arc::clone(&group.schema), group.files[0].1.clone())).collect();
        let originals = originals::unite(&schemas)?;
        let mut plans = Vec::new();
        for (group, (schema, file)) in groups.into_iter().zip(&schemas) {
            let table = FilesTable::new(listing.store_url.clone(), group);
            let shape = match shape::recognise(schema, mapping, file)? {
                Some(shape) => shape,
                None => tags::recognise(session, &table, file, &mut notes).await?,
            };
            if let Shape::Generations { generations, flags, .. } = &shape
                && flags.is_empty()
            {
                notes.push(format!(
                    "every row of {file} will be rejected: no column says which of its {generations} are correct \
                     (correctness_math_verify or correctness_llama)"
                ));
            }
            plans.push(Arc::new(view::plan(session, table, &shape, &originals)?));
        }
        let plan = match plans.as_slice() {
            [one] => one.as_ref().clone(),
            _ => LogicalPlan::Union(Union::try_new(plans)?),
        };
        Ok(Self { plan, files, notes, originals })
    }

    /// The table to register as `corpus`.
    pub fn view(&self) -> ViewTable {
        ViewTable::new(self.plan.clone(), None)
    }

    /// The rows of all files.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// The original columns as [`Self::plan`] calls them, in order.
    pub fn original_columns(&self) -> Vec<String> {
        self.originals.iter().map(|original| original.column.clone()).collect()
    }

    /// The same columns by the names that they have in the files.
    pub fn original_names(&self) -> Vec<String> {
        self.originals.iter().map(|original| original.name.clone()).collect()
    }

    /// A sentence for each original column that a Delta table holds under another name or as another kind of value.
    pub fn delta_notes(&self) -> Vec<String> {
        originals::delta_notes(&self.originals)
    }
}

async fn read_footers(listing: &Listing) -> Result<Vec<Footer>> {
    let footers = listing.files.iter().map(|file| async {
        let name = listing.name(&file.location);
        footer::read(listing.store.as_ref(), file, &name).await
    });
    futures::stream::iter(footers.collect::<Vec<_>>()).buffered(CONCURRENT_FOOTERS).try_collect().await
}

fn fingerprint(url: &Url, meta: &object_store::ObjectMeta, footer: &Footer) -> String {
    match &meta.e_tag {
        // A file system makes its ETag of times and inodes, which a copy changes.
        Some(e_tag) if url.scheme() != "file" => e_tag.clone(),
        _ => footer.hash.clone(),
    }
}

fn group(listing: &Listing, footers: &[Footer]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (meta, footer) in listing.files.iter().zip(footers) {
        let file = (meta.clone(), listing.name(&meta.location), footer.rows);
        match groups.iter_mut().find(|group| group.schema == footer.schema) {
            Some(group) => {
                group.files.push(file);
                group.never_null.retain(|name| footer.never_null.contains(name));
            }
            None => {
                let never_null = footer.never_null.clone();
                groups.push(Group { schema: Arc::clone(&footer.schema), never_null, files: vec![file] });
            }
        }
    }
    groups
}
