//! The sources of a corpus, as typed: a file, a folder or a glob pattern, with or without a name.

use std::path::Path as LocalPath;
use std::str::FromStr;
use std::sync::Arc;

use asap_kernels::front_end::Flag;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use glob::{MatchOptions, Pattern};
use object_store::ObjectStore;
use object_store::path::Path;
use url::{Position, Url};

use crate::location;
use crate::objects::Nameless;

const WILD: [char; 3] = ['*', '?', '['];
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

#[derive(Debug, Clone)]
pub struct Source {
    /// The prefix of its files' paths if a corpus has several sources.
    pub name: Option<String>,
    /// The location as typed, without its name.
    pub typed: String,
    /// The file or folder; for a glob pattern, the folder before its first wildcard.
    pub url: Url,
    pattern: Option<Pattern>,
}

impl FromStr for Source {
    type Err = DataFusionError;

    /// Parses `LOC` or `NAME=LOC`. Text that exists as a path is a path, whatever characters it has.
    fn from_str(text: &str) -> Result<Self> {
        let (name, typed) = match text.split_once('=') {
            Some((name, location)) if is_name(name) && !LocalPath::new(text).exists() => {
                (Some(name.to_string()), location)
            }
            _ => (None, text),
        };
        let is_pattern = typed.contains(WILD) && !LocalPath::new(typed).exists() && !typed.starts_with("http");
        let Some(wild) = typed.find(WILD).filter(|_| is_pattern) else {
            return Ok(Self { name, typed: typed.to_string(), url: location::parse(typed)?, pattern: None });
        };
        let (folder, rest) = typed[..wild].rfind('/').map_or((".", typed), |slash| typed.split_at(slash + 1));
        let pattern = Pattern::new(rest)
            .map_err(|error| config_datafusion_err!("{typed} is not a valid glob pattern: {}", error.msg))?;
        let url = location::parse(folder)?;
        if !url.path().ends_with('/') {
            return config_err!("expected a folder, found the file {}", location::display(&url));
        }
        Ok(Self { name, typed: typed.to_string(), url, pattern: Some(pattern) })
    }
}

impl Source {
    /// Whether the pattern matches a file. `path` is relative to [`Self::url`].
    pub fn takes(&self, path: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches_with(path, MATCHING))
    }

    /// The same source at another place.
    pub(crate) fn at(&self, url: Url) -> Self {
        Self { url, ..self.clone() }
    }

    pub(crate) fn is_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// The source's store, the URL of that store, and the path there.
    pub(crate) fn in_store(&self, session: &dyn Session) -> Result<(Arc<dyn ObjectStore>, ObjectStoreUrl, Path)> {
        let store_url = ObjectStoreUrl::parse(&self.url[..Position::BeforePath])?;
        let store = session.runtime_env().object_store(&store_url)?;
        let path = Path::from_url_path(self.url.path());
        Ok((store, store_url, path.map_err(|error| Nameless::explain(error.into()))?))
    }

    pub(crate) fn path_of(&self, path: &str) -> String {
        self.name.as_ref().map_or(path.to_string(), |name| format!("{name}/{path}"))
    }
}

pub(crate) fn check(sources: &[Source]) -> Result<()> {
    for (index, source) in sources.iter().enumerate() {
        match &source.name {
            None if sources[..index].iter().any(|other| other.name.is_none()) => {
                return config_err!(
                    "{} {} has no name, and neither has another one: with several sources, write all but one as \
                     NAME=LOC; the name prefixes the paths of its files in the column source",
                    Flag("--from"),
                    source.typed
                );
            }
            Some(name) if sources[..index].iter().any(|other| other.name.as_ref() == Some(name)) => {
                return config_err!("{} names {name} twice", Flag("--from"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '-' || character == '_')
}

#[cfg(test)]
mod tests {
    use crate::corpus::files::source::*;

    fn source(text: &str) -> Source {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_stands_before_a_location() {
        assert_eq!(source("math=s3://b/x").name.as_deref(), Some("math"));
        assert_eq!(source("math=s3://b/x").path_of("a.parquet"), "math/a.parquet");
        assert_eq!(source("s3://b/day=1/x").name, None);
        assert_eq!(source("in/day=1").name, None);
        assert_eq!(source("in").path_of("a.parquet"), "a.parquet");
    }

    #[test]
    fn a_pattern_is_matched_below_the_folder_before_it() {
        let pattern = source("s3://b/in/2026-*/part-?.parquet");
        assert_eq!(pattern.url.as_str(), "s3://b/in/");
        assert!(pattern.takes("2026-01/part-1.parquet"));
        assert!(!pattern.takes("2026-01/x/part-1.parquet") && !pattern.takes("2025-01/part-1.parquet"));
        assert!(source("in/**/*.parquet").takes("a/b/c.parquet"));
        assert!("in/[".parse::<Source>().is_err());
    }

    #[test]
    fn several_sources_have_names_of_their_own() {
        let error = |texts: &[&str]| check(&texts.iter().map(|text| source(text)).collect::<Vec<_>>()).unwrap_err();
        assert!(error(&["a", "b"]).to_string().contains("--from b has no name"));
        assert!(error(&["x=a", "x=b"]).to_string().contains("names x twice"));
        assert!(check(&[source("a")]).is_ok() && check(&[source("a"), source("x=b")]).is_ok());
    }
}
