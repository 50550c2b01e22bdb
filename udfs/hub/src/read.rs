//! The bytes of a file. If a connection breaks, another one continues where it ended.

use std::ops::Range;

use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE};
use reqwest::{Response, StatusCode};

use crate::hub::{Answer, Hub, Kind, Patience, Place, Request, broken, text};
use crate::{HubError, Result};

/// Bytes of a file that are being received.
pub struct Body {
    hub: Hub,
    place: Place,
    /// The size of the whole file.
    pub size: u64,
    /// The bytes that [`Self::chunk`] returns.
    pub range: Range<u64>,
    /// What identifies the content of the file, as in listings.
    pub etag: Option<String>,
    response: Response,
    next: u64,
    patience: Patience,
}

impl Hub {
    /// Begins to read a file, or the part that `range` names (a value of the header `Range`).
    ///
    /// # Errors
    /// If the content is not that of `etag`, or if the Hub refuses or does not answer.
    pub async fn read(&self, place: Place, range: Option<String>, etag: Option<&str>) -> Result<Body> {
        let mut patience = Patience::default();
        let Opened { response, range, size, etag } = self.open(&place, range, etag, &mut patience).await?;
        Ok(Body { hub: self.clone(), place, size, next: range.start, range, etag, response, patience })
    }

    async fn open(
        &self,
        place: &Place,
        range: Option<String>,
        etag: Option<&str>,
        patience: &mut Patience,
    ) -> Result<Opened> {
        let segments = (place.repository.kind == Kind::Dataset).then_some("datasets").into_iter();
        let segments = segments.chain(place.repository.name.split('/')).chain(["resolve", &place.revision]);
        let url = self.url(segments.chain(place.path.split('/')));
        let is_part = range.is_some();
        let request = Request { url, place, range, form: None };
        let Answer { response, etag: found, size: linked } = self.send(&request, patience).await?;
        let changed = |what: String| {
            let (path, repository) = (&place.path, &place.repository);
            HubError::Changed(format!("{path} of {repository} is not the file that was listed: {what}"))
        };
        if let (Some(etag), Some(found)) = (etag, &found)
            && etag != found
        {
            return Err(changed(format!("expected {etag}, found {found}")));
        }
        let length = text(response.headers(), CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
        let (range, size) = match response.status() {
            StatusCode::PARTIAL_CONTENT => text(response.headers(), CONTENT_RANGE.as_str()).and_then(part),
            _ if is_part => None,
            _ => length.or(linked).map(|size| (0..size, size)),
        }
        .ok_or_else(|| self.unreadable("expected the range of a file that was asked for"))?;
        if let Some(linked) = linked.filter(|linked| *linked != size) {
            return Err(changed(format!("expected {linked} bytes, found {size}")));
        }
        Ok(Opened { response, range, size, etag: found })
    }
}

struct Opened {
    response: Response,
    range: Range<u64>,
    size: u64,
    etag: Option<String>,
}

/// The range and the size in a header `Content-Range: bytes 5-9/20`.
fn part(header: &str) -> Option<(Range<u64>, u64)> {
    let (range, size) = header.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, size): (u64, u64, u64) = (first.parse().ok()?, last.parse().ok()?, size.parse().ok()?);
    (first <= last && last < size).then_some((first..last + 1, size))
}

impl Body {
    /// Returns the next bytes; None after the last.
    ///
    /// # Errors
    /// If the file changed meanwhile, or if the Hub refuses or does not answer.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        while self.next < self.range.end {
            let ended = match self.response.chunk().await {
                Ok(Some(mut bytes)) => {
                    bytes.truncate(usize::try_from(self.range.end - self.next).unwrap_or(usize::MAX));
                    self.next += bytes.len() as u64;
                    self.patience.restore();
                    return Ok(Some(bytes));
                }
                Ok(None) => HubError::Unavailable(format!("{} ended too early", self.place.path)),
                Err(error) => broken(self.response.url(), &error),
            };
            self.patience.wait(ended.into(), self.hub.longest()).await?;
            let rest = Some(format!("bytes={}-{}", self.next, self.range.end - 1));
            let opened = self.hub.open(&self.place, rest, self.etag.as_deref(), &mut self.patience).await?;
            if opened.range != (self.next..self.range.end) {
                return Err(self.hub.unreadable("expected the range of a file that was asked for"));
            }
            self.response = opened.response;
        }
        Ok(None)
    }
}
