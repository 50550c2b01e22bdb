//! Removes the secrets of URLs from messages: user, password, and query values, which may be a signature.

const PLACEHOLDER: char = '…';

/// Removes user names, passwords and query values from the URLs in a message. Other text stays unchanged, and so does
/// the container of an Azure URL, which is where other URLs have a user name.
pub fn redact(message: &str) -> String {
    let mut redacted = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find("://") {
        let is_of_scheme = |character: char| character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.');
        let scheme = &rest[rest[..at].trim_end_matches(is_of_scheme).len()..at];
        let (before, after) = rest.split_at(at + 3);
        redacted.push_str(before);
        rest = after;
        if scheme.is_empty() {
            continue;
        }
        let ends = |character: char| character.is_whitespace() || matches!(character, '"' | '\'' | '<' | '>' | '`');
        let url = &after[..after.find(ends).unwrap_or(after.len())];
        // Closing punctuation belongs to the message, not to the URL.
        let url = url.trim_end_matches([',', '.', ';', ':', '!', ')', ']', '}']);
        rest = &after[url.len()..];
        push(&mut redacted, scheme, url);
    }
    redacted + rest
}

fn push(redacted: &mut String, scheme: &str, url: &str) {
    let (place, query) = url.split_once('?').map_or((url, None), |(place, query)| (place, Some(query)));
    let (authority, path) = place.split_at(place.find(['/', '#']).unwrap_or(place.len()));
    match authority.rsplit_once('@') {
        Some((user, host)) if matches!(scheme, "az" | "abfs" | "abfss") && !user.contains(':') => {
            redacted.extend([user, "@", host]);
        }
        Some((_, host)) => {
            redacted.push(PLACEHOLDER);
            redacted.extend(["@", host]);
        }
        None => redacted.push_str(authority),
    }
    redacted.push_str(path);
    for (index, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        redacted.push(if index == 0 { '?' } else { '&' });
        if let Some((name, _)) = pair.split_once('=') {
            redacted.extend([name, "="]);
        }
        if !pair.is_empty() {
            redacted.push(PLACEHOLDER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_tokens_and_passwords_are_taken_out() {
        for (message, said) in [
            (
                "GET https://b.s3.amazonaws.com/a.parquet?X-Amz-Credential=AKIA%2F2026&X-Amz-Signature=0a1b failed",
                "GET https://b.s3.amazonaws.com/a.parquet?X-Amz-Credential=…&X-Amz-Signature=… failed",
            ),
            (
                "Error performing GET https://b.s3.amazonaws.com/a?AWSAccessKeyId=AKIA&Signature=x%3D&Expires=1 in 3ms",
                "Error performing GET https://b.s3.amazonaws.com/a?AWSAccessKeyId=…&Signature=…&Expires=… in 3ms",
            ),
            (
                "(https://account.blob.core.windows.net/c/a?sv=2025&sp=rl&sig=a%2Bb%3D), twice",
                "(https://account.blob.core.windows.net/c/a?sv=…&sp=…&sig=…), twice",
            ),
            ("\"https://user:pa@ss@host:8080/a\"", "\"https://…@host:8080/a\""),
            ("http://token@host", "http://…@host"),
            ("https://host?secret", "https://host?…"),
            ("s3://b/a?x=1 and gs://c/d?y=2.", "s3://b/a?x=… and gs://c/d?y=…."),
            ("abfss://c@account.dfs.core.windows.net/a", "abfss://c@account.dfs.core.windows.net/a"),
            ("abfss://c:p@account.dfs.core.windows.net/a", "abfss://…@account.dfs.core.windows.net/a"),
        ] {
            assert_eq!(redact(message), said);
            assert_eq!(redact(said), said);
        }
    }

    #[test]
    fn what_is_no_url_stays() {
        for message in [
            "",
            "a ? b : c, sig=1&x=2, user:pass@host",
            "://?a=b",
            "is 1://2",
            "there is no file or folder hf://datasets/org/name@1d0c4eb/a?",
            "s3://bucket/a@b/part=1/c#d.parquet is not a Parquet file: see https://example.com/a, (or not)",
            "ü 你好 …",
        ] {
            assert_eq!(redact(message), message);
        }
    }
}
