//! Cloud stores whose listings resume after a name that is no path. By themselves they lose the page with the name, and
//! all pages after it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use crate::objects::Nameless;

/// The most objects of a page: what the stores return if nothing is asked.
const PAGE: usize = 1000;

#[derive(Debug)]
pub(super) struct Pages<S>(Arc<S>);

impl<S> Pages<S> {
    pub(super) fn of(store: S) -> Self {
        Self(Arc::new(store))
    }
}

/// The place where the next page begins.
enum Begin {
    /// After a name, or with the first.
    After(Option<String>),
    Token(String),
}

struct Listed<S> {
    store: Arc<S>,
    prefix: Option<String>,
    /// None after the last page.
    next: Option<Begin>,
    size: usize,
}

/// Lists the objects below a prefix. A page with a bad name fails as a whole. Then smaller pages isolate the name, and the
/// listing resumes after it.
fn list<S: PaginatedListStore>(store: Arc<S>, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
    let prefix = prefix.filter(|prefix| !prefix.as_ref().is_empty()).map(|prefix| format!("{prefix}/"));
    let listed = Listed { store, prefix, next: Some(Begin::After(None)), size: PAGE };
    let pages = stream::unfold(listed, async |mut listed| Some((listed.page().await?, listed)));
    pages.flat_map(stream::iter).boxed()
}

impl<S: PaginatedListStore> Listed<S> {
    /// The objects of the next page, after the bad names before it.
    async fn page(&mut self) -> Option<Vec<Result<ObjectMeta>>> {
        let mut begin = self.next.take()?;
        let mut found = Vec::new();
        loop {
            let (offset, page_token) = match &begin {
                Begin::After(name) => (name.clone(), None),
                Begin::Token(token) => (None, Some(token.clone())),
            };
            let after = offset.clone();
            let max_keys = (self.size < PAGE).then_some(self.size);
            let options = PaginatedListOptions { offset, page_token, max_keys, ..PaginatedListOptions::default() };
            let error = match self.store.list_paginated(self.prefix.as_deref(), options).await {
                Ok(page) => {
                    let objects = page.result.objects;
                    let is_before = |after: &str| objects.iter().any(|object| object.location.as_ref() <= after);
                    if after.as_deref().is_some_and(is_before) || objects.len() > self.size {
                        found.push(Err(self.unable()));
                        return Some(found);
                    }
                    self.next = page.page_token.map(Begin::Token);
                    self.size = (self.size * 2).min(PAGE);
                    found.extend(objects.into_iter().map(Ok));
                    return Some(found);
                }
                Err(error) => error,
            };
            let Some(mut nameless) = Nameless::of(&error) else {
                found.push(Err(error));
                return Some(found);
            };
            if self.size > 1 {
                self.size /= 2;
                continue;
            }
            if after.as_ref() == Some(&nameless.name) {
                // XML reads a carriage return as a line feed where a server does not escape it.
                nameless.name = nameless.name.replace('\n', "\r");
                found.pop();
            }
            if after.as_ref() == Some(&nameless.name) {
                found.push(Err(self.unable()));
                return Some(found);
            }
            begin = Begin::After(Some(nameless.name.clone()));
            found.push(Err(nameless.into()));
        }
    }

    fn unable(&self) -> Error {
        let said = format!(
            "{:?} contains a name that is no path, and this store cannot list the names after it: rename the objects whose \
             names have control characters or empty parts, or name a folder without them",
            self.prefix.as_deref().unwrap_or("/")
        );
        Error::NotSupported { source: said.into() }
    }
}

impl<S: fmt::Display> fmt::Display for Pages<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[async_trait]
impl<S: ObjectStore + PaginatedListStore> ObjectStore for Pages<S> {
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        list(Arc::clone(&self.0), prefix)
    }

    /// Not all stores can begin anywhere. After a bad name, the rest comes from a listing of everything.
    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let whole = list(Arc::clone(&self.0), prefix);
        let listed = (self.0.list_with_offset(prefix, offset), Some(whole), offset.clone());
        stream::unfold(listed, async |(mut files, mut whole, mut last)| {
            loop {
                match files.next().await? {
                    Ok(file) if file.location <= last => {}
                    Ok(file) => {
                        last = file.location.clone();
                        return Some((Ok(file), (files, whole, last)));
                    }
                    Err(error) => match whole.take().filter(|_| Nameless::of(&error).is_some()) {
                        Some(all) => files = all,
                        None => return Some((Err(error), (files, None, last))),
                    },
                }
            }
        })
        .boxed()
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.0.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use object_store::list::PaginatedListResult;

    use super::*;

    /// A store of names, of which some are no paths.
    struct Names {
        names: BTreeSet<String>,
        requests: AtomicUsize,
        ignores_offset: bool,
        reads_line_feeds: bool,
    }

    impl Names {
        fn new(names: impl IntoIterator<Item = String>) -> Self {
            Self {
                names: names.into_iter().collect(),
                requests: AtomicUsize::default(),
                ignores_offset: false,
                reads_line_feeds: false,
            }
        }
    }

    #[async_trait]
    impl PaginatedListStore for Names {
        async fn list_paginated(
            &self,
            prefix: Option<&str>,
            asked: PaginatedListOptions,
        ) -> Result<PaginatedListResult> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let after = asked.page_token.or(asked.offset.filter(|_| !self.ignores_offset)).unwrap_or_default();
            let is_wanted = |name: &&String| **name > after && name.starts_with(prefix.unwrap_or_default());
            let mut wanted = self.names.iter().filter(is_wanted).peekable();
            let page: Vec<_> = wanted.by_ref().take(asked.max_keys.unwrap_or(PAGE)).collect();
            let page_token = wanted.peek().and(page.last()).map(|last| last.to_string());
            let object = |name: &&String| {
                let read = if self.reads_line_feeds { name.replace('\r', "\n") } else { name.to_string() };
                let location = Path::parse(read)?;
                Ok(ObjectMeta { location, last_modified: Default::default(), size: 1, e_tag: None, version: None })
            };
            let objects = page.iter().map(object).collect::<Result<Vec<_>>>()?;
            Ok(PaginatedListResult { result: ListResult { common_prefixes: vec![], objects }, page_token })
        }
    }

    /// The paths and the other names of a listing, its last error if it stops, and its requests.
    async fn listed(names: Names, prefix: &str) -> (Vec<String>, Vec<String>, Option<Error>, usize) {
        let names = Arc::new(names);
        let mut files = list(Arc::clone(&names), Some(&Path::from(prefix)));
        let (mut paths, mut others) = (Vec::new(), Vec::new());
        while let Some(file) = files.next().await {
            match file {
                Ok(file) => paths.push(file.location.to_string()),
                Err(error) => match Nameless::of(&error) {
                    Some(nameless) => others.push(nameless.name),
                    None => return (paths, others, Some(error), names.requests.load(Ordering::Relaxed)),
                },
            }
        }
        (paths, others, None, names.requests.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_page_with_a_bad_name_loses_no_other() {
        let good = || (0..5000).map(|number| format!("in/f{number:04}.jsonl"));
        let bad = ["in/./b", "in//a", "in/f0000\t", "in/f0999.jsonl\r", "in/f2500\n", "in/f2500\r", "in/~\u{7f}"];
        let bad = bad.map(String::from);
        let (paths, others, error, requests) = listed(Names::new(good().chain(bad.clone())), "in").await;
        assert!(error.is_none() && paths.into_iter().eq(good()), "{error:?}");
        assert_eq!(others, bad);
        assert!(requests < 150, "{requests} requests");
        // A folder of bad names alone.
        let many: Vec<String> = (0..50).map(|number| format!("in/{number:02}\t")).collect();
        let (paths, others, error, requests) = listed(Names::new(many.clone()), "in").await;
        assert!(error.is_none() && paths.is_empty() && others == many && requests < 70, "{requests} requests");
    }

    #[tokio::test]
    async fn a_carriage_return_that_is_read_as_a_line_feed_ends_no_listing() {
        let names = ["a", "b\n", "b\r", "c\r", "d\r\r", "e"];
        let store = Names { reads_line_feeds: true, ..Names::new(names.map(String::from)) };
        let (paths, others, error, _) = listed(store, "").await;
        assert!(error.is_none() && paths == ["a", "e"], "{error:?}");
        assert_eq!(others, ["b\r", "c\r", "d\r\r"]);
    }

    #[tokio::test]
    async fn one_bad_name_costs_few_requests() {
        let names = (0..100_000).map(|number| format!("f{number:06}")).chain(["f0500\t".to_string()]);
        let (paths, others, error, requests) = listed(Names::new(names), "").await;
        assert_eq!((paths.len(), others.len(), error.is_none()), (100_000, 1, true));
        assert!(requests < 130, "{requests} requests");
    }

    #[tokio::test]
    async fn a_store_that_cannot_begin_after_a_name_is_an_error() {
        let names = Names::new(["a/1", "a/2\t", "a/3"].map(String::from));
        let (paths, _, error, _) = listed(Names { ignores_offset: true, ..names }, "a").await;
        let error = error.unwrap().to_string();
        assert!(paths == ["a/1"] && error.contains("\"a/\" contains a name that is no path"), "{error}");
    }
}
