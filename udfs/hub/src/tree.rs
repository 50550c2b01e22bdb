//! Commits and listings.

use reqwest::Url;
use reqwest::header::LINK;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::hub::{Hub, Patience, Place, Repository, Request, broken, text};
use crate::{HubError, Result};

/// A file or folder of a repository.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The path from the root of the repository.
    pub path: String,
    pub is_file: bool,
    pub size: u64,
    /// The SHA-256 of a large file; git's hash of others, which covers their length too.
    pub etag: String,
}

#[derive(Deserialize)]
struct Listed {
    r#type: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    lfs: Option<Large>,
}

#[derive(Deserialize)]
struct Large {
    oid: String,
}

impl From<Listed> for Entry {
    fn from(Listed { r#type, path, size, oid, lfs }: Listed) -> Self {
        Self { path, is_file: r#type == "file", size, etag: lfs.map_or(oid, |lfs| lfs.oid) }
    }
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

impl Hub {
    /// Returns the commit of a revision.
    ///
    /// # Errors
    /// If the Hub refuses or does not answer.
    pub async fn commit(&self, repository: &Repository, revision: &str) -> Result<String> {
        let is_hex = |text: &str| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hex(revision) {
            return Ok(revision.to_string());
        }
        let place = Place { repository: repository.clone(), revision: revision.to_string(), path: String::new() };
        let mut url = self.api(&place, "revision", "");
        url.set_query(Some("expand=sha"));
        match self.json::<Revision>(&place, url, None).await?.0.sha {
            sha if is_hex(&sha) => Ok(sha),
            sha => Err(self.unreadable(&format!("expected a commit of 40 digits, found {sha:?}"))),
        }
    }

    /// Lists a folder, with its subfolders if `is_deep`.
    ///
    /// # Errors
    /// If there is no such folder, or if the Hub refuses or does not answer.
    pub async fn tree(&self, place: &Place, is_deep: bool) -> Result<Vec<Entry>> {
        let url = self.api(place, "tree", &place.path);
        let mut query = Some(format!("recursive={is_deep}&expand=false"));
        let mut entries = Vec::new();
        while let Some(asked) = query {
            let mut url = url.clone();
            url.set_query(Some(&asked));
            let (page, next) = self.json::<Vec<Listed>>(place, url, None).await?;
            entries.extend(page.into_iter().map(Entry::from));
            if next.as_ref() == Some(&asked) {
                return Err(self.unreadable("a page of a listing names itself as the next one"));
            }
            query = next;
        }
        Ok(entries)
    }

    /// Returns a file; None if there is none of this path.
    ///
    /// # Errors
    /// If the Hub refuses or does not answer.
    pub async fn file(&self, place: &Place) -> Result<Option<Entry>> {
        let form = Url::parse_with_params("form:", [("paths", place.path.as_str()), ("expand", "false")]);
        let form = form.ok().and_then(|url| url.query().map(str::to_string));
        let (found, _) = self.json::<Vec<Listed>>(place, self.api(place, "paths-info", ""), form).await?;
        Ok(found.into_iter().map(Entry::from).find(|entry| entry.is_file && entry.path == place.path))
    }

    /// Returns an answer in JSON, and the query of the next page. The rest of its address is not followed: it may name
    /// another host.
    async fn json<T: DeserializeOwned>(
        &self,
        place: &Place,
        url: Url,
        form: Option<String>,
    ) -> Result<(T, Option<String>)> {
        let mut patience = Patience::default();
        let request = Request { url, place, range: None, form };
        loop {
            let response = self.send(&request, &mut patience).await?.response;
            let next = text(response.headers(), LINK.as_str()).and_then(next);
            match response.bytes().await {
                Ok(bytes) => {
                    let read = serde_json::from_slice(&bytes);
                    return Ok((read.map_err(|error| self.unreadable(&error.to_string()))?, next));
                }
                Err(error) => patience.wait(broken(&self.endpoint, &error).into(), self.longest()).await?,
            }
        }
    }

    pub(crate) fn unreadable(&self, found: &str) -> HubError {
        HubError::Refused(format!(
            "{} does not answer like the Hugging Face Hub ({found}): check HF_ENDPOINT",
            self.shown()
        ))
    }
}

/// The query of the next page in a header `Link: <https://…?…>; rel="next"`.
fn next(links: &str) -> Option<String> {
    let link = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (_, link) = link.split_once('<')?;
    Url::parse(link.split_once('>')?.0).ok()?.query().map(str::to_string)
}
