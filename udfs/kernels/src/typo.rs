//! Suggestions for misspelled names.

/// Returns the known name closest to `typed` by edit distance; `None` if more than a third of its characters differ.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &str| strsim::osa_distance(&typed.to_lowercase(), &name.to_lowercase());
    let near = known.into_iter().map(|name| (distance(name), name));
    let most = (typed.chars().count() / 3).max(1);
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

pub fn hint<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(typed, known).map_or(String::new(), |name| format!(" (did you mean {name}?)"))
}
