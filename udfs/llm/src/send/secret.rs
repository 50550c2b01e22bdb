//! A text that must not appear in a log, an error or a plan.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use reqwest::header::HeaderValue;

const HIDDEN: &str = "[api key]";
/// Shorter keys are words such as EMPTY, which local servers require and answers may contain.
const LEAST_BYTES: usize = 8;

#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    /// Wraps a key without the white space around it. None if the rest is invalid in an HTTP header.
    pub(crate) fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        let is_valid = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| Self(key.to_string()))
    }

    /// Returns the value of the header `Authorization`, marked so that HTTP libraries do not show it. It is never None
    /// for an accepted key.
    pub(crate) fn bearer(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Returns a nonzero number that differs by key and reveals nothing of it.
    pub(crate) fn account(&self) -> u64 {
        static HASHES: OnceLock<RandomState> = OnceLock::new();
        HASHES.get_or_init(RandomState::new).hash_one(&self.0).max(1)
    }

    /// Removes the key from a text of an endpoint, which may send it back, also as escaped in JSON.
    pub(crate) fn redact(&self, text: String) -> String {
        if self.0.len() < LEAST_BYTES {
            return text;
        }
        text.replace(&self.0, HIDDEN).replace(&self.0.replace('/', "\\/"), HIDDEN)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new(" sk-0123456789\n").unwrap();
        let header = secret.bearer().unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer sk-0123456789");
        assert_eq!(secret.redact("key sk-0123456789!".to_string()), "key [api key]!");
        for shown in [format!("{secret:?}"), format!("{:?}", Some(&secret)), format!("{header:?}")] {
            assert!(!shown.contains("0123"), "{shown}");
        }
    }

    #[test]
    fn what_no_header_can_hold_is_no_key() {
        for key in ["", " \n", "two words", "a\nb", "ключ"] {
            assert!(Secret::new(key).is_none(), "{key:?}");
        }
        assert_eq!(Secret::new("EMPTY").unwrap().redact("EMPTY set".to_string()), "EMPTY set");
    }
}
