//! What was typed wrong, and which known name is near it.

/// The known name that a typed one is most likely meant to be: a third of its characters may differ. None if all differ more.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &str| strsim::osa_distance(&typed.to_lowercase(), &name.to_lowercase());
    let near = known.into_iter().map(|name| (distance(name), name));
    let most = (typed.chars().count() / 3).max(1);
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// The question whether that name was meant, with a blank before it; nothing if no name is near.
pub fn hint<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(typed, known).map_or(String::new(), |name| format!(" (did you mean {name}?)"))
}
