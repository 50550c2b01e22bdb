//! Reduces the several URLs of one place in a store to one, whose authority names the bucket.

use datafusion::common::{Result, config_err};
use url::Url;

use super::redact;

const MAIN: &str = "main";
const CONVERTED: &str = "refs/convert/parquet";
const R2: &str = ".r2.cloudflarestorage.com";

pub(super) fn canonical(mut url: Url) -> Result<Url> {
    if url.scheme() == "file" {
        return Ok(url);
    }
    refuse_secrets(&url)?;
    match url.scheme() {
        "s3a" => with_authority(&url, "s3", &authority(&url)),
        "https" if is_azure(&url) => {
            let Some(container) = take_first_segment(&mut url) else {
                return config_err!("{url} has no container: write https://account.blob.core.windows.net/container/…");
            };
            let host = authority(&url).replacen(".blob.", ".dfs.", 1);
            with_authority(&url, "abfss", &format!("{container}@{host}"))
        }
        "https" if is_s3(&url) && authority(&url).starts_with("s3.") => {
            let Some(bucket) = take_first_segment(&mut url) else {
                return config_err!("{url} has no bucket: write s3://bucket/…");
            };
            with_authority(&url, "https", &format!("{bucket}.{}", authority(&url)))
        }
        "https" if authority(&url) == "huggingface.co" && is_page_of_dataset(url.path()) => {
            let name: Vec<&str> = url.path().split('/').take(4).collect();
            config_err!("{url} is a page: the dataset is hf:/{}", name.join("/"))
        }
        "https" if authority(&url).ends_with(R2) => config_err!(
            "write {url} as s3:/{}, with AWS_ENDPOINT_URL=https://{} in the environment",
            url.path(),
            authority(&url)
        ),
        "hf" => dataset(url),
        scheme @ ("s3" | "gs" | "az") if authority(&url).is_empty() => {
            config_err!("{url} has no bucket: write {scheme}://bucket/…")
        }
        _ => Ok(url),
    }
}

/// Whether a URL from [`canonical`] is in a read-only store.
pub(super) fn is_read_only(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https" | "hf")
}

pub(super) fn is_s3(url: &Url) -> bool {
    url.host_str().is_some_and(|host| host.ends_with(".amazonaws.com"))
}

pub(super) fn is_azure(url: &Url) -> bool {
    let hosts = ["core.windows.net", "fabric.microsoft.com"];
    let is_one = |host: &str| {
        hosts.iter().any(|end| [".blob.", ".dfs."].iter().any(|kind| host.ends_with(&format!("{kind}{end}"))))
    };
    url.host_str().is_some_and(is_one)
}

/// User names and passwords would be stored with the rows as their source. Queries are not sent to any store.
fn refuse_secrets(url: &Url) -> Result<()> {
    let shown = redact(url.as_str());
    let has_container = matches!(url.scheme(), "az" | "abfs" | "abfss") && url.password().is_none();
    if url.password().is_some() || (!url.username().is_empty() && !has_container) {
        return config_err!(
            "{shown} contains a user name or a password: asap takes secrets only from the environment; remove them"
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return config_err!(
            "{shown} contains a ? or a #, which a location cannot have: if it is part of a name, write %3F or %23; signed \
             URLs are not supported, so set credentials in the environment (for Azure, AZURE_STORAGE_SAS_TOKEN), or \
             download the file"
        );
    }
    Ok(())
}

/// A dataset of the Hub always has a revision in its name, `main` by default.
fn dataset(mut url: Url) -> Result<Url> {
    let mut segments: Vec<String> = url.path_segments().into_iter().flatten().map(str::to_string).collect();
    let (org, name) = (segments.first().map_or("", String::as_str), segments.get(1).map_or("", String::as_str));
    let (name, revision) = name.split_once('@').unwrap_or((name, MAIN));
    if url.host_str() != Some("datasets") || org.is_empty() || name.is_empty() || revision.is_empty() {
        return config_err!(
            "{url} is not a dataset: write hf://datasets/org/name@revision/path, or leave out @revision"
        );
    }
    segments[1] = match revision {
        "~parquet" => format!("{name}@{CONVERTED}"),
        revision => format!("{name}@{revision}"),
    };
    url.set_path(&format!("/{}", segments.join("/")));
    Ok(url)
}

/// The branch in which the Hub has a dataset as Parquet, if `url` is the root of its main branch.
pub(crate) fn converted(url: &Url) -> Option<Url> {
    let root = url.as_str().trim_end_matches('/').strip_suffix(MAIN)?.strip_suffix('@')?;
    Url::parse(&format!("{root}@{CONVERTED}/")).ok().filter(|url| url.scheme() == "hf")
}

fn is_page_of_dataset(path: &str) -> bool {
    path.starts_with("/datasets/") && !path.contains("/resolve/")
}

fn authority(url: &Url) -> String {
    url.authority().to_string()
}

fn take_first_segment(url: &mut Url) -> Option<String> {
    let path = url.path().trim_start_matches('/').to_string();
    let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
    url.set_path(rest);
    (!first.is_empty()).then(|| first.to_string())
}

fn with_authority(url: &Url, scheme: &str, authority: &str) -> Result<Url> {
    let text = format!("{scheme}://{authority}{}", url.path());
    Url::parse(&text).or_else(|error| config_err!("{url} means {text}, which is not a URL: {error}"))
}
