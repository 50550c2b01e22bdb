//! The corpus: files of published datasets (Parquet or JSON lines), each in its own shape, as one table.
//!
//! ```text
//!   LOC ── files ── footers ── one group per schema ── shape ── view ──┐
//!          listing   schema      files with the same     by     by     ├─ UNION ALL ── corpus
//!                    rows        columns                names  Exprs ──┘
//! ```
//!
//! | column | type | holds |
//! |---|---|---|
//! | `source` | Struct\<file Utf8, row Int64> | the file's path below the location, and the row number in it, from 0 |
//! | `id` | Utf8 | the published `id` or `uuid`, else the md5 of question and chain; not unique |
//! | `question` | Utf8 | what was asked |
//! | `cot` | Utf8 | the chain of thought, without its tags |
//! | `answer` | Utf8 | the text after the chain in a generation, else the answer column |
//! | `system` | Utf8 | the system prompt, or NULL |
//! | `turns` | List\<Struct\<role, thought, text, calls List\<Struct\<id, name, arguments>>, call_id, name, steps Int64>> | the turns of a conversation with several exchanges or tools; NULL for one exchange |
//! | `status` | Utf8 | NULL, or why the row cannot be pruned |
//! | `error` | Utf8 | the same reason in a sentence that names what was found |
//!
//! The original columns follow under their names; a name that is taken above becomes `source_<name>`. Folder names such
//! as `split=train` are columns too. If the type of a column conflicts with its type in earlier files, it is NULL in the rows of the file,
//! and a note names it.
//!
//! Columns are recognized by their names (table function `corpus_shapes()`), else by think tags in their values. Of several
//! columns of a kind, each row takes the first that is not NULL, empty or blank. Of
//! several generations, asap reads the first that a flag marks as correct and that its model finished. Of a list of
//! structs without flags, it reads the first with think tags. If `prompt` is a rendered chat template, asap reads the
//! user's and the system's messages in it.
//!
//! | `status` | meaning |
//! |---|---|
//! | `unverified` | none of its `generations` has a true flag, or its own (`reward`, `is_correct`, …) is false or 0 |
//! | `multi_turn` | the conversation has more than one exchange, or turns or calls of tools. With `turns`, its thoughts are the chain |
//! | `no_thoughts` | the conversation has no thought |
//! | `no_question` | the question is NULL or empty |
//! | `no_generation` | the generation is NULL or empty |
//! | `no_tags` | the generation has no closing think tag |
//! | `empty_chain` | there is nothing between the tags or in the chain column |
//! | `no_answer` | nothing follows the chain, or the answer column is empty |
//! | `text_before_chain` | the generation has text before its think tag |
//! | `tags_in_answer` | the text after the chain has another think tag, or the answer has another chain |
//!
//! A row with a status keeps everything that could be read of it.

pub(crate) mod files;
pub(crate) mod function;
pub mod inspect;
pub(crate) mod originals;
mod place;
mod plain;
pub(crate) mod recognize;
pub(crate) mod rules;
pub(crate) mod scan;
pub(crate) mod shape;
pub(crate) mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use asap_udfs::reading::turns_type;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, config_err, exec_err};
use datafusion::datasource::ViewTable;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, Union};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;

pub use crate::corpus::files::delta::{FINGERPRINT, Former, Table};
pub use crate::corpus::files::failure::FileFailure;
pub use crate::corpus::files::file::{CorpusFile, InTable, Temporary};
pub use crate::corpus::files::file_rows::FileRows;
pub use crate::corpus::files::foreign::is_delta_table;
pub(crate) use crate::corpus::files::guard::{guarded, guarded_next};
pub use crate::corpus::files::guard::{guarded_future, is_guarded};
pub use crate::corpus::files::listing::suggestion;
pub use crate::corpus::files::source::Source;
pub use crate::corpus::originals::Fit;
pub use crate::corpus::scan::read_slices::ReadSlices;
pub use crate::corpus::scan::slices::Slice;
pub use crate::corpus::scan::small_batches::SmallBatches;
pub use crate::corpus::shape::mapping::ColumnMapping;
pub use crate::corpus::shape::repeats::Repeats;

/// The name of the table that a pipeline reads.
pub const CORPUS: &str = "corpus";
pub(crate) use plain::files_table;
pub use plain::plain_table;

use crate::corpus::files::listing::Listing;
use crate::corpus::scan::groups::{group, read_footers};
use crate::corpus::scan::table::FilesTable;
use crate::corpus::view::Original;
use shape::Shape;

use crate::delta::Since;

pub struct Files {
    /// Files of sources that are not tables, ordered by path.
    pub files: Vec<CorpusFile>,
    pub tables: Vec<Table>,
    pub notes: Vec<String>,
}

pub struct Corpus {
    pub failures: Vec<FileFailure>,
    pub notes: Vec<String>,
    groups: Vec<Recognized>,
    originals: Vec<Original>,
}

struct Recognized {
    table: FilesTable,
    shape: Shape,
    originals: Vec<Original>,
}

/// Lists the files of sources (each a file, a folder with its subfolders, a glob pattern, or a Delta table). `since` returns
/// the version from which a table is followed.
pub async fn list(
    session: &dyn Session,
    sources: &[Source],
    since: impl Fn(&Source) -> Option<Since>,
) -> Result<Files> {
    files::source::check(sources)?;
    let mut all = Files { files: vec![], tables: vec![], notes: vec![] };
    for source in sources {
        if let Some(table) = Table::find(session, source, since(source)).await? {
            if table.log.state.files.is_empty() {
                all.notes.push(format!("the Delta table {} has no files", table.shown()));
            }
            all.tables.push(table);
            continue;
        }
        let listing = Listing::new(session, source).await?;
        if !listing.nameless.is_empty() {
            all.notes.push(format!("files left out: {}", listing.nameless.join(", ")));
        }
        if !listing.left_out.is_empty() {
            let why = "in a folder, asap reads only Parquet or, without any, *.jsonl: name others, or a pattern such as '*.json'";
            all.notes.push(format!("files left out: {} ({why})", listing.left_out.join(", ")));
        }
        all.notes.extend(listing.note);
        if listing.files.is_empty() {
            let what = if source.is_pattern() {
                "no Parquet or JSON file matches"
            } else {
                "no Parquet files (*.parquet) or JSON lines (*.jsonl) found in"
            };
            all.notes.push(format!("{what} {}", source.typed));
        }
        all.files.extend(listing.files);
    }
    check_paths(&mut all.files)?;
    Ok(all)
}

pub(crate) fn check_paths(files: &mut [CorpusFile]) -> Result<()> {
    files.sort_by(|a, b| a.path.cmp(&b.path));
    match files.windows(2).find(|pair| pair[0].path == pair[1].path) {
        None => Ok(()),
        Some(twice) => config_err!(
            "{} and {} have the same path, {}: give their sources different names",
            twice[0].name,
            twice[1].name,
            twice[0].path
        ),
    }
}

impl Corpus {
    /// Sets the session's batch size to that of the corpus. The session must not do anything else.
    pub(crate) fn set_batch_rows(&self, context: &SessionContext) {
        let rows = files::file_rows::of_batch(self.groups.iter().flat_map(|group| group.table.files()));
        let state = context.state_ref();
        let mut state = state.write();
        *state.config_mut() = state.config().clone().with_batch_size(rows);
    }

    /// Lists a location and recognizes its files. Every file must be readable.
    ///
    /// # Errors
    /// If there is nothing to read, if a file is not Parquet or incomplete, if columns fit no shape, or if a mapping
    /// names a missing column. The message names the file and the column.
    pub async fn open(session: &dyn Session, location: &str, mapping: Option<&ColumnMapping>) -> Result<Self> {
        let opened = async {
            let mut corpus = Self::look(session, location, mapping).await?;
            if !corpus.failures.is_empty() {
                return Err(corpus.failures.swap_remove(0).into());
            }
            if corpus.groups.is_empty() {
                return exec_err!("{location} is empty: no rows and no columns");
            }
            Ok(corpus)
        };
        opened.await.map_err(|error| error.context(CORPUS))
    }

    /// Like [`Self::open`], but adds unreadable files to [`Self::failures`].
    ///
    /// # Errors
    /// If there is nothing to read.
    pub async fn look(session: &dyn Session, location: &str, mapping: Option<&ColumnMapping>) -> Result<Self> {
        let Files { mut files, tables, notes } = list(session, &[location.parse()?], |_| None).await?;
        for table in tables {
            files.extend(table.files()?);
        }
        if let (true, Some(note)) = (files.is_empty(), notes.first()) {
            return Err(DataFusionError::Execution(note.clone()));
        }
        let mut corpus = Self::recognize(session, files, mapping, Fit::Query).await?;
        corpus.notes.splice(0..0, notes);
        Ok(corpus)
    }

    /// Reads the footers of files and recognizes their columns, one schema at a time. Files that cannot be read, or
    /// whose columns do not satisfy `fit`, become [`Self::failures`].
    pub(crate) async fn recognize(
        session: &dyn Session,
        files: Vec<CorpusFile>,
        mapping: Option<&ColumnMapping>,
        fit: Fit<'_>,
    ) -> Result<Self> {
        let mut failures = Vec::new();
        let footers = read_footers(session, files).await?;
        let temporary = footers.iter().filter_map(|(file, _)| file.temporary.as_ref());
        let mut notes: Vec<String> = temporary.flat_map(|file| file.notes.clone()).collect();
        let groups = group(footers, &mut failures);
        let schemas: Vec<(SchemaRef, String)> =
            groups.iter().map(|group| (group.published(), group.files[0].file.name.clone())).collect();
        let (originals, united) = originals::unite(fit, &schemas);
        let mut recognized = Vec::new();
        for ((group, (schema, file)), left_out) in groups.into_iter().zip(&schemas).zip(united) {
            let table = FilesTable::new(group);
            let read = async {
                let left_out = left_out?;
                let shape = recognize::shape_of(session, &table, schema, mapping, file, &mut notes).await?;
                Ok::<_, DataFusionError>((shape, left_out))
            };
            match read.await {
                Ok((shape, left_out)) => {
                    let is_left_out = |name: &String| left_out.iter().any(|column| column.name == *name);
                    let here = originals
                        .iter()
                        .map(|original| Original { is_left_out: is_left_out(&original.name), ..original.clone() });
                    recognized.push(Recognized { table, shape, originals: here.collect() });
                    notes.extend(left_out.into_iter().map(|column| column.note));
                }
                Err(error) => {
                    failures.extend(table.files().iter().map(|held| FileFailure::new(&held.file.path, &error)))
                }
            }
        }
        failures.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(Self { failures, notes, groups: recognized, originals })
    }

    /// Finds the first file with an unreadable row, by reading all files: errors within a query do not name their file.
    pub async fn damaged(&self, session: &dyn Session) -> Option<FileFailure> {
        for group in &self.groups {
            for file in group.table.files() {
                if let Err(error) = read_all(&group.table.only(file), session).await {
                    return Some(FileFailure::new(&file.file.name, &error));
                }
            }
        }
        None
    }

    /// Returns the failure of the damaged file that caused `error`, or `error` if no file is damaged.
    pub async fn named(&self, session: &dyn Session, error: DataFusionError) -> DataFusionError {
        self.damaged(session).await.map_or(error, DataFusionError::from)
    }

    /// Returns a corpus of some rows. The keys of `rows` are positions of files in [`Self::files`].
    pub fn of_rows(&self, rows: &mut BTreeMap<usize, Vec<u64>>) -> Self {
        rows.values_mut().for_each(|rows| rows.sort_unstable());
        let (mut first, mut groups) = (0, Vec::new());
        for Recognized { table, shape, originals } in &self.groups {
            let files = table.files().iter().zip(first..);
            let files = files.filter_map(|(file, place)| Some(file.only(rows.get(&place)?))).collect::<Vec<_>>();
            first += table.files().len();
            if !files.is_empty() {
                let (shape, originals) = (shape.clone(), originals.clone());
                groups.push(Recognized { table: table.of(files), shape, originals });
            }
        }
        Self { failures: vec![], notes: vec![], groups, originals: self.originals.clone() }
    }

    /// Returns the table to register as `corpus`.
    ///
    /// # Errors
    /// If the session lacks the functions of asap.
    pub fn view(&self, session: &dyn Session) -> Result<ViewTable> {
        let tables = self.groups.iter().map(|Recognized { table, shape, originals }| {
            view::of_files(session, table, shape, originals).map(Arc::new)
        });
        let plans = tables.collect::<Result<Vec<_>>>()?;
        let plan = match plans.as_slice() {
            [] => LogicalPlanBuilder::empty(false).build()?,
            [one] => one.as_ref().clone(),
            _ => LogicalPlan::Union(Union::try_new(plans)?),
        };
        Ok(ViewTable::new(plan, None))
    }

    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Like the view of a group, over slices of its files.
    pub(crate) fn view_of_slices(&self, session: &dyn Session, group: usize) -> Result<LogicalPlan> {
        let Recognized { table, shape, originals } = &self.groups[group];
        view::of_files(session, &table.in_slices(), shape, originals)
    }

    /// The columns of the corpus: those of the module's table, then the original columns.
    pub fn schema(&self) -> SchemaRef {
        let source =
            Fields::from(vec![Field::new("file", DataType::Utf8, true), Field::new("row", DataType::Int64, true)]);
        let own = originals::COLUMNS.map(|name| match name {
            "source" => Field::new(name, DataType::Struct(source.clone()), true),
            "turns" => Field::new(name, turns_type(), true),
            _ => Field::new(name, DataType::Utf8, true),
        });
        let originals =
            self.originals.iter().map(|original| Field::new(&original.column, original.data_type.clone(), true));
        Arc::new(Schema::new(own.into_iter().chain(originals).collect::<Vec<_>>()))
    }

    /// Number of rows in all files, without deleted rows.
    pub fn rows(&self) -> u64 {
        self.files().map(|(_, file)| file.rows_left()).sum()
    }

    /// The files, each with the index of its schema.
    pub fn files(&self) -> impl Iterator<Item = (usize, &FileRows)> {
        self.groups
            .iter()
            .enumerate()
            .flat_map(|(index, group)| group.table.files().iter().map(move |file| (index, file)))
    }

    pub fn original_columns(&self) -> Vec<String> {
        self.originals.iter().map(|original| original.column.clone()).collect()
    }

    pub(crate) fn original_names(&self) -> Vec<String> {
        self.originals.iter().map(|original| original.name.clone()).collect()
    }

    /// The corpus columns that every file reads from this original column: question, chain, answer, or both parts of a
    /// generation. None if any file with this column reads something else from it.
    pub fn said_by(&self, name: &str) -> Option<&'static [&'static str]> {
        let groups = self.groups.iter().filter(|group| group.table.file_schema().field_with_name(name).is_ok());
        let mut said = groups.map(|group| group.shape.said_by(group.table.file_schema(), name));
        let first = said.next()??;
        said.all(|other| other == Some(first)).then_some(first)
    }

    pub(crate) fn delta_notes(&self) -> Vec<String> {
        originals::delta_notes(&self.originals)
    }
}

async fn read_all(table: &FilesTable, session: &dyn Session) -> Result<()> {
    let plan = table.scan(session, None, &[], None).await?;
    let mut batches = execute_stream(plan, session.task_ctx())?;
    while guarded_next(&mut batches).await?.is_some() {}
    Ok(())
}
