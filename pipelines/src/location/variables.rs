//! The environment variables of a store: only those with the store's own prefix.

use std::collections::BTreeMap;
use std::ffi::OsString;

use datafusion::common::{Result, config_err};

pub(super) type Variables = BTreeMap<String, String>;

/// Returns the variables whose names begin with `prefix`. An empty variable counts as not set.
pub(super) fn variables(
    prefix: &str,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Variables> {
    let mut found = Variables::new();
    for (name, value) in environment {
        if !name.as_encoded_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let shown = name.to_string_lossy().into_owned();
        let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else {
            return config_err!("the environment variable {shown} is not UTF-8: set it again or unset it");
        };
        if !value.is_empty() {
            found.insert(name, value);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn pair(name: &str, value: &[u8]) -> (OsString, OsString) {
        (name.into(), OsString::from_vec(value.to_vec()))
    }

    #[test]
    fn only_a_stores_own_variables_are_read() {
        let environment = [
            pair("TOKEN", b"t"),
            pair("ENDPOINT", b"http://127.0.0.1:9"),
            pair("aws_region", b"lower"),
            pair("GOOGLE_BUCKET", b"b"),
            pair("OTHER", b"\xff"),
            pair("AWS_SESSION_TOKEN", b""),
            pair("AWS_REGION", b"eu-west-1"),
        ];
        assert_eq!(
            variables("AWS_", environment).unwrap(),
            Variables::from([("AWS_REGION".into(), "eu-west-1".into())])
        );
    }
}
