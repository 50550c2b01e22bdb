//! White space as Python counts it.

/// Removes white space at both ends, as Python's `str.strip` does.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Whether Python counts a scalar as white space: Unicode's White_Space and the four separators U+001C to U+001F.
pub(crate) fn is_space(scalar: char) -> bool {
    scalar.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&scalar)
}
