//! The chain and the answer of a response, or the status of a row without them.

use std::borrow::Cow;
use std::fmt::Display;

use asap_kernels::tags;

#[derive(Default)]
pub(super) struct Response<'a> {
    pub cot: Option<Cow<'a, str>>,
    pub answer: Option<Cow<'a, str>>,
    pub status: Option<&'static str>,
    pub error: Option<String>,
    /// The generation, or what the assistant said.
    pub text: Option<&'a str>,
    /// Whether chain and answer differ from the columns that hold them.
    pub is_chain_changed: bool,
    pub is_answer_changed: bool,
}

/// What the assistant said: its text, and its chain from a place of its own.
pub(super) struct Said<'a> {
    pub text: Option<&'a str>,
    pub chain: Option<Cow<'a, str>>,
}

/// Whether a text was made from what a column holds, or is a part of it.
fn is_changed(read: &Option<Cow<'_, str>>, held: Option<&str>) -> bool {
    match (read, held) {
        (Some(Cow::Borrowed(read)), Some(held)) => read.len() != held.len(),
        (read, held) => read.is_some() || held.is_some(),
    }
}

fn is_blank(text: Option<&str>) -> bool {
    text.is_none_or(|text| text.trim().is_empty())
}

impl<'a> Response<'a> {
    /// A generation: the chain in think tags, then the answer.
    pub(super) fn of_generation(text: Option<&'a str>, name: impl Display) -> Self {
        let parts = text.and_then(tags::parts);
        let Some(parts) = parts else {
            let read = Self { text, ..Self::default() };
            return match text.filter(|text| !text.trim().is_empty()) {
                None => read.rejected("no_generation", format!("{name} is NULL or empty")),
                Some(text) => {
                    let characters = text.chars().count();
                    read.rejected("no_tags", format!("no closing think tag in the {characters} characters of {name}"))
                }
            };
        };
        let (before, thinks_again) = (parts.before, parts.thinks_again);
        let read = Self { cot: Some(parts.chain), answer: Some(parts.answer), text, ..Self::default() };
        if is_blank(text) {
            return read.rejected("no_generation", format!("{name} is NULL or empty"));
        }
        if is_blank(read.cot.as_deref()) {
            return read.rejected("empty_chain", format!("nothing between the think tags of {name}"));
        }
        if is_blank(read.answer.as_deref()) {
            return read.rejected("no_answer", format!("nothing after the closing think tag of {name}"));
        }
        if thinks_again {
            let error = format!("{name} has another think tag after its first closing think tag");
            return read.rejected("tags_in_answer", error);
        }
        if !before.is_empty() {
            let shown: String = before.chars().take(40).collect();
            return read.rejected("text_before_chain", format!("{name} has text before its think tag: {shown}"));
        }
        read
    }

    /// A message: with a chain in a place of its own, or a generation.
    pub(super) fn of_message(said: Said<'a>, name: impl Display) -> Self {
        let Some(chain) = said.chain.filter(|chain| !chain.trim().is_empty()) else {
            return Self::of_generation(said.text, name);
        };
        let chain = whole_chain(chain);
        let answer = said.text.map(|text| tags::answer_beside(&chain, text).ok_or(text));
        let is_other = matches!(answer, Some(Err(_)));
        let answer = answer.map(|answer| answer.unwrap_or_else(Cow::Borrowed));
        let read = Self { cot: Some(chain), answer, text: said.text, ..Self::default() };
        if is_blank(said.text) {
            return read.rejected("no_generation", format!("{name} is NULL or empty"));
        }
        if is_blank(read.answer.as_deref()) {
            return read.rejected("no_answer", format!("nothing after the closing think tag of {name}"));
        }
        if is_other {
            let error = format!("{name} begins with a think tag, and its chain is not that of the message");
            return read.rejected("tags_in_answer", error);
        }
        read
    }

    /// A chain and an answer in columns. Each may be a whole generation.
    pub(super) fn of_columns(chain: Option<&'a str>, answer: Option<&'a str>, names: [&str; 2]) -> Self {
        let [chain_name, answer_name] = names;
        let mut read = Self::default();
        let mut is_other = false;
        let bare = chain.map(|chain| whole_chain(Cow::Borrowed(chain)));
        read.is_chain_changed = is_changed(&bare, chain);
        if is_blank(chain) {
            // The answer may be the whole generation.
            match answer.filter(|answer| tags::begins_with_chain(answer)).map(|answer| (answer, tags::parts(answer))) {
                Some((_, Some(parts))) => {
                    (read.is_chain_changed, read.is_answer_changed) = (true, true);
                    (read.cot, read.answer) = (Some(parts.chain), Some(parts.answer));
                }
                Some((answer, None)) => (read.cot, read.answer, is_other) = (bare, Some(Cow::Borrowed(answer)), true),
                None => {
                    read.answer = answer.map(|answer| tags::answer_beside("", answer).unwrap_or(Cow::Borrowed(answer)));
                    read.cot = bare;
                }
            }
        } else {
            let own = bare.as_deref().unwrap_or_default();
            let said = match answer.filter(|answer| !answer.trim().is_empty()) {
                Some(answer) => tags::answer_beside(own, answer).ok_or(answer),
                // The chain may be the whole generation.
                None => Ok(chain
                    .filter(|chain| tags::begins_with_chain(chain))
                    .and_then(tags::response)
                    .unwrap_or_default()),
            };
            is_other = said.is_err();
            let said = said.unwrap_or_else(Cow::Borrowed);
            let is_missing = said.is_empty() && is_blank(answer);
            read.answer = if is_missing { answer.map(Cow::Borrowed) } else { Some(said) };
            read.cot = bare;
        }
        read.is_answer_changed |= is_changed(&read.answer, answer);
        if is_blank(read.cot.as_deref()) {
            return read.rejected("empty_chain", format!("{chain_name} is NULL or empty"));
        }
        if is_blank(read.answer.as_deref()) {
            return read.rejected("no_answer", format!("{answer_name} is NULL or empty"));
        }
        if is_other {
            let error = format!("{answer_name} begins with a think tag, and its chain is not that of {chain_name}");
            return read.rejected("tags_in_answer", error);
        }
        read
    }

    fn rejected(mut self, status: &'static str, error: String) -> Self {
        (self.status, self.error) = (Some(status), Some(error));
        self
    }
}

/// The chain of a text in a place of its own: one that begins with a tag may be a whole generation.
fn whole_chain(held: Cow<'_, str>) -> Cow<'_, str> {
    match held {
        Cow::Borrowed(held) => {
            let own = if tags::begins_with_chain(held) { tags::think(held) } else { None };
            own.unwrap_or_else(|| Cow::Borrowed(tags::bare_chain(held)))
        }
        Cow::Owned(held) => {
            let own = if tags::begins_with_chain(&held) { tags::think(&held).map(Cow::into_owned) } else { None };
            Cow::Owned(own.unwrap_or_else(|| tags::bare_chain(&held).to_string()))
        }
    }
}

/// Whether a text is only what a generation prompt leaves open: an opening tag, or nothing.
pub(super) fn is_opening(text: &str) -> bool {
    text.trim().is_empty() || (tags::begins_with_chain(text) && tags::bare_chain(text).trim().is_empty())
}
