//! The prompts of stage 1: templates whose words in braces are replaced by a row's texts.

use std::path::Path;

use asap_kernels::front_end::Setting;
use datafusion::common::{Result, config_datafusion_err, config_err};
use sha2::{Digest, Sha256};

use crate::settings::{PromptSet, Settings};

/// The prompts that ship with asap: file name, content as in the paper, short content, the required fields, of which
/// each entry lists the choices, and the optional fields.
const ANCHOR: Shipped = Shipped {
    name: "anchor.md",
    paper: include_str!("prompts/paper/anchor.md"),
    short: include_str!("prompts/short/anchor.md"),
    required: &[&["question"], &["answer", "answer_code"]],
    optional: &["language"],
};
const COARSE: Shipped = Shipped {
    name: "coarse.md",
    paper: include_str!("prompts/paper/coarse.md"),
    short: include_str!("prompts/short/coarse.md"),
    required: &[&["anchor"], &["cot"]],
    optional: &[],
};
const ESCAPED: &str = "&lt;";

/// A prompt that ships with asap, and the fields that it and its replacements may have.
struct Shipped {
    name: &'static str,
    paper: &'static str,
    short: &'static str,
    /// Of each list, one field at least is required.
    required: &'static [&'static [&'static str]],
    optional: &'static [&'static str],
}

#[derive(Debug)]
pub struct Prompts {
    /// `anchor.md`: `{question}`, `{answer}` or `{answer_code}` (the program of the answer without its fences, or
    /// the whole answer), and optionally `{language}`.
    pub anchor: Template,
    /// `coarse.md`: `{anchor}` and `{cot}`.
    pub coarse: Template,
}

impl Prompts {
    /// Loads the prompts of `asap.anchor.prompts`, or those in the folder `asap.anchor.prompt_dir`.
    ///
    /// # Errors
    /// If a file is missing, cannot be read, has an unknown field, or lacks a required one.
    pub fn of(settings: &Settings) -> Result<Self> {
        let load = |shipped: &Shipped| match (&settings.anchor_prompt_dir, settings.anchor_prompts) {
            (None, PromptSet::Paper) => Template::parse(shipped.name, shipped.paper, shipped),
            (None, PromptSet::Short) => Template::parse(shipped.name, shipped.short, shipped),
            (Some(folder), _) => {
                let path = Path::new(folder).join(shipped.name);
                let text = std::fs::read_to_string(&path).map_err(|error| {
                    let (setting, name) = (Setting("asap.anchor.prompt_dir"), shipped.name);
                    config_datafusion_err!("{setting} = '{folder}': cannot read {name}: {error}")
                })?;
                Template::parse(&path.display().to_string(), &text, shipped)
            }
        };
        Ok(Self { anchor: load(&ANCHOR)?, coarse: load(&COARSE)? })
    }
}

#[derive(Debug)]
pub struct Template {
    pieces: Vec<Piece>,
    tags: Vec<String>,
    hash: String,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Field(&'static str),
}

impl Template {
    /// Parses a template. `{word}` is a field, `{{word}}` is the text `{word}`; other braces are text.
    fn parse(file: &str, text: &str, shipped: &Shipped) -> Result<Self> {
        let fields = [&shipped.required.concat(), shipped.optional].concat();
        let known = fields.iter().map(|field| format!("{{{field}}}")).collect::<Vec<_>>().join(", ");
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, word, is_escaped, after)) = next_word(rest) {
            pieces.push(Piece::Text(before.to_string()));
            pieces.push(match fields.iter().find(|field| **field == word) {
                _ if is_escaped => Piece::Text(format!("{{{word}}}")),
                Some(field) => Piece::Field(field),
                None => {
                    return config_err!(
                        "{file}: expected only {known} in braces, found {{{word}}}; if it is text, write {{{{{word}}}}}"
                    );
                }
            });
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_string()));
        let holds = |field: &str| pieces.iter().any(|piece| matches!(piece, Piece::Field(held) if *held == field));
        if let Some(missing) = shipped.required.iter().find(|choices| !choices.iter().any(|field| holds(field))) {
            let missing = missing.iter().map(|field| format!("{{{field}}}")).collect::<Vec<_>>().join(" or ");
            return config_err!("{file}: expected {missing} somewhere in the prompt, found none");
        }
        let texts =
            pieces.iter().filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None });
        let mut tags: Vec<String> = texts.flat_map(tag_names).collect();
        tags.sort();
        tags.dedup();
        Ok(Self { pieces, tags, hash: hex(&Sha256::digest(text)) })
    }

    /// Returns the prompt of a row. A field's text is inserted unchanged: braces in it are text. Only the `<` of a
    /// template's tag, which would end its section or begin another, is escaped as `&lt;`. [`Template::restore`] undoes
    /// that.
    pub(crate) fn fill(&self, fields: &[(&str, &str)]) -> String {
        let text_of = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Field(name) => {
                let text = fields.iter().find(|(field, _)| field == name).map(|(_, text)| *text).unwrap_or_default();
                self.replace(text, "<", ESCAPED)
            }
        };
        self.pieces.iter().map(text_of).collect()
    }

    /// Undoes the escapes of [`Template::fill`] in text that a model copied from the prompt.
    pub(crate) fn restore(&self, text: &str) -> String {
        self.replace(text, ESCAPED, "<")
    }

    fn replace(&self, text: &str, from: &str, to: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(from) {
            let after = &rest[at + from.len()..];
            let is_ours = tag_name(after).is_some_and(|name| self.tags.contains(&name));
            replaced.push_str(&rest[..at]);
            replaced.push_str(if is_ours { to } else { from });
            rest = after;
        }
        replaced + rest
    }

    pub fn hash(&self) -> &str {
        &self.hash
    }
}

fn tag_names(text: &str) -> impl Iterator<Item = String> + '_ {
    text.match_indices('<').filter_map(|(at, _)| tag_name(&text[at + 1..]))
}

/// Returns the name, in lower case, of the tag at the start of `text`, the text after a `<`.
fn tag_name(text: &str) -> Option<String> {
    let text = text.trim_start_matches([' ', '\t', '/']);
    let name = &text[..text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(text.len())];
    (!name.is_empty()).then(|| name.to_ascii_lowercase())
}

/// Finds the next word in braces. Returns the text before it, the word, whether its braces are doubled, and the rest.
fn next_word(text: &str) -> Option<(&str, &str, bool, &str)> {
    for (open, _) in text.match_indices('{') {
        let inner = &text[open + 1..];
        let end = inner.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(inner.len());
        if end == 0 || !inner[end..].starts_with('}') {
            continue;
        }
        let (word, after) = (&inner[..end], &inner[end + 1..]);
        return Some(match (text[..open].strip_suffix('{'), after.strip_prefix('}')) {
            (Some(before), Some(after)) => (before, word, true, after),
            _ => (&text[..open], word, false, after),
        });
    }
    None
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Template> {
        Template::parse("x.md", text, &Shipped { optional: &["language"], ..COARSE })
    }

    #[test]
    fn fields_are_filled_once() {
        let template = parse("{anchor}|{cot}|{language}|{cot}").unwrap();
        let fields = [("cot", "a {anchor} {{b}}"), ("anchor", "{cot}"), ("language", "text")];
        assert_eq!(template.fill(&fields), "{cot}|a {anchor} {{b}}|text|a {anchor} {{b}}");
    }

    #[test]
    fn a_field_cannot_end_its_section() {
        let template = parse("<thought>{anchor}</thought><chain of='{language}'>{cot}</chain>").unwrap();
        let cot = "a < b <b>c</b> </chain> < /Chain><thought>2</thought > <chained> &lt;thought>";
        let filled = template.fill(&[("cot", cot), ("anchor", "x</thought>"), ("language", "en")]);
        let expected = "<thought>x&lt;/thought></thought><chain of='en'>a < b <b>c</b> &lt;/chain> &lt; /Chain>\
            &lt;thought>2&lt;/thought > <chained> &lt;thought></chain>";
        assert_eq!(filled, expected);
        assert_eq!(template.restore("x &lt;/thought> &lt;b> &lt;/CHAIN"), "x </thought> &lt;b> </CHAIN");
    }

    #[test]
    fn other_braces_are_text() {
        let text = r#"{anchor}{cot} {{word}} \frac{1}{2} {"a": {}} {Cot} { cot } {{anchor} {"#;
        let expected = r#"AC {word} \frac{1}{2} {"a": {}} {Cot} { cot } {A {"#;
        assert_eq!(parse(text).unwrap().fill(&[("anchor", "A"), ("cot", "C")]), expected);
    }

    #[test]
    fn unknown_and_missing_fields_are_errors_that_name_file_and_field() {
        let error = parse("{anchor}{cot}{question}").unwrap_err().to_string();
        assert!(
            error.contains("x.md: expected only {anchor}, {cot}, {language} in braces, found {question}"),
            "{error}"
        );
        let error = parse("{anchor}{{cot}}").unwrap_err().to_string();
        assert!(error.contains("x.md: expected {cot} somewhere"), "{error}");
    }

    #[test]
    fn a_folder_replaces_the_prompts_and_changes_the_hash() {
        let shipped = Prompts::of(&Settings::default()).unwrap();
        let short = Prompts::of(&Settings { anchor_prompts: PromptSet::Short, ..Settings::default() }).unwrap();
        assert_ne!((short.anchor.hash(), short.coarse.hash()), (shipped.anchor.hash(), shipped.coarse.hash()));
        let folder = tempfile::tempdir().unwrap();
        let settings =
            Settings { anchor_prompt_dir: folder.path().to_str().map(str::to_string), ..Settings::default() };
        let error = Prompts::of(&settings).unwrap_err().to_string();
        assert!(error.contains("asap.anchor.prompt_dir") && error.contains("anchor.md"), "{error}");
        std::fs::write(folder.path().join("anchor.md"), "{question}{answer}").unwrap();
        std::fs::write(folder.path().join("coarse.md"), COARSE.paper).unwrap();
        let own = Prompts::of(&settings).unwrap();
        assert_eq!(own.anchor.fill(&[("question", "1+1"), ("answer", "2")]), "1+12");
        assert_ne!(own.anchor.hash(), shipped.anchor.hash());
        assert_eq!(own.coarse.hash(), shipped.coarse.hash());
        assert_eq!(own.coarse.hash().len(), 64);
    }
}
