//! Calls of tools and their results, from JSON text in any of the [forms](forms).

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::json::{items, member, plain};
use crate::messages::forms::{self, ARGUMENTS, Holds, IDS, NAMES, OUTCOMES, Place};
use crate::output::struct_output;

/// A call of a tool.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    pub id: Option<Cow<'a, str>>,
    pub name: Option<Cow<'a, str>>,
    /// JSON text, as it came.
    pub arguments: Option<Cow<'a, str>>,
}

struct_output!(call: &Call<'_> => "id": call.id.as_deref(), "name": call.name.as_deref(), "arguments": call.arguments.as_deref());

/// What a call returned.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome<'a> {
    pub call_id: Option<Cow<'a, str>>,
    pub name: Option<Cow<'a, str>>,
    pub text: Option<Cow<'a, str>>,
}

#[derive(Debug, Default)]
pub(super) struct Tools<'a> {
    pub calls: Vec<Call<'a>>,
    pub outcomes: Vec<Outcome<'a>>,
}

impl<'a> Tools<'a> {
    pub(super) fn of(texts: &[&'a str]) -> Self {
        let mut tools = Self::default();
        for text in texts.iter().map(|text| text.trim()) {
            // What is cut off has no items to read.
            if is_json(text) { tools.add(text) } else { tools.add_text(text) }
        }
        tools
    }

    /// Adds a call, a result, or a list of them.
    fn add(&mut self, text: &'a str) {
        match text.as_bytes().first() {
            Some(b'[') => items(text.as_bytes()).filter_map(as_text).for_each(|item| self.add(item)),
            Some(b'{') => self.add_object(Object::of(text), text),
            _ => self.add_text(text),
        }
    }

    /// Adds a text that is neither a call nor a result, as the arguments of a call.
    fn add_text(&mut self, text: &'a str) {
        self.calls.push(Call { arguments: Some(Cow::Borrowed(text)), ..Call::default() });
    }

    fn add_object(&mut self, object: Object<'a>, text: &'a str) {
        let by_type = object.value(&["type"]).and_then(plain).and_then(|kind| forms::holds(Place::Part, &kind));
        let wrapped = forms::names(Place::Key).find_map(|key| Some((key, object.value(&[key])?)));
        let (key, inner) = wrapped.filter(|(_, held)| held.starts_with('{')).unzip();
        let inner = inner.map(Object::of).unwrap_or_default();
        let field = |names| inner.value(names).or_else(|| object.value(names));
        let text_of = |names| field(names).and_then(plain);
        let (id, name) = (text_of(IDS), text_of(NAMES));
        match by_type.or_else(|| forms::holds(Place::Key, key?)) {
            Some(Holds::Outcome) => {
                let text = field(OUTCOMES).and_then(text_of_content);
                self.outcomes.push(Outcome { call_id: id, name, text });
            }
            _ => {
                let arguments = text_of(ARGUMENTS);
                let is_known = name.is_some() || arguments.is_some();
                let arguments = if is_known { arguments } else { Some(Cow::Borrowed(text)) };
                self.calls.push(Call { id, name, arguments });
            }
        }
    }
}

/// Whether a text is JSON.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The members of an object, as written.
#[derive(Default)]
struct Object<'a>(Vec<(String, &'a str)>);

impl<'a> Object<'a> {
    fn of(text: &'a str) -> Self {
        let members = items(text.as_bytes()).filter_map(member);
        Self(members.filter_map(|(key, value)| Some((key, as_text(value)?))).collect())
    }

    /// The first value that is not null.
    fn value(&self, names: &[&str]) -> Option<&'a str> {
        let value = |name: &&str| self.0.iter().rfind(|(key, _)| key == name).map(|(_, value)| *value);
        names.iter().filter_map(value).find(|value| *value != "null")
    }
}

/// A part of a text as text.
fn as_text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes.trim_ascii()).ok()
}

/// The content of a result: a text, the texts of parts, or JSON text.
fn text_of_content(content: &str) -> Option<Cow<'_, str>> {
    if !content.starts_with('[') {
        return plain(content);
    }
    let part = |item| {
        let part = Object::of(item);
        if part.0.is_empty() { plain(item) } else { part.value(&["text", "json"]).and_then(plain) }
    };
    let parts: Option<Vec<Cow<str>>> = items(content.as_bytes()).filter_map(as_text).map(part).collect();
    // What is no text, such as an image, stays as written.
    Some(parts.map_or(Cow::Borrowed(content), |parts| Cow::Owned(parts.concat())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_all_forms_read_alike() {
        let arguments = r#"{"z": 1.50, "a": [1e400]}"#;
        let escaped = arguments.replace('"', "\\\"");
        for call in [
            format!(r#"[{{"id":"c1","type":"function","function":{{"name":"add","arguments":"{escaped}"}}}}]"#),
            format!(r#"[{{"id":"c1","function":{{"name":"add","arguments":{arguments}}}}}]"#),
            format!(r#"{{"call_id":"c1","id":"fc_1","name":"add","arguments":"{escaped}"}}"#),
            format!(r#"[{{"type":"tool_use","id":"c1","name":"add","input":{arguments}}}]"#),
            format!(r#"[{{"toolUse":{{"toolUseId":"c1","name":"add","input":{arguments}}}}}]"#),
            format!(r#"[{{"text":null,"functionCall":{{"id":"c1","name":"add","args":{arguments}}}}}]"#),
            format!(r#"[{{"type":"tool-call","toolCallId":"c1","toolName":"add","input":{arguments}}}]"#),
        ] {
            let tools = Tools::of(&[call.as_str()]);
            let expected = Call { id: Some("c1".into()), name: Some("add".into()), arguments: Some(arguments.into()) };
            assert_eq!((tools.calls, tools.outcomes.len()), (vec![expected], 0), "{call}");
        }
    }

    #[test]
    fn results_of_all_forms_read_alike_and_no_text_is_lost() {
        for result in [
            r#"[{"type":"tool_result","tool_use_id":"c1","content":"13"}]"#,
            r#"[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"1"},{"type":"text","text":"3"}]}]"#,
            r#"[{"toolResult":{"toolUseId":"c1","content":[{"json":13}]}}]"#,
            r#"{"functionResponse":{"id":"c1","response":13}}"#,
        ] {
            let tools = Tools::of(&[result]);
            let expected = Outcome { call_id: Some("c1".into()), name: None, text: Some("13".into()) };
            assert_eq!((tools.calls.len(), tools.outcomes), (0, vec![expected]), "{result}");
        }
        let arguments = |text| Tools::of(&[text]).calls[0].arguments.as_deref().map(str::to_string);
        assert_eq!(arguments("add(8, 5)").as_deref(), Some("add(8, 5)"));
        for cut_off in [r#"{"a": 8"#, r#"{"name": "add", "arguments": {"a": 8"#, "[add", "[{},"] {
            assert_eq!(arguments(cut_off).as_deref(), Some(cut_off));
        }
        let image = r#"[{"type":"tool_result","content":[{"type":"image","data":"x"}]}]"#;
        assert_eq!(Tools::of(&[image]).outcomes[0].text.as_deref(), Some(r#"[{"type":"image","data":"x"}]"#));
    }
}
