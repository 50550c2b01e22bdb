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
