//! The column mapping of the user: `question=Problem,cot=Reasoning,answer=Final.Answer`.

use std::fmt;
use std::str::FromStr;

use asap_kernels::front_end::either;
use asap_udfs::typo::nearest;
use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_err};

use crate::corpus::rules::{ANSWERS, CHAINS, QUESTIONS, ROW_FLAGS};

const SYNTAX: &str = "question=…[,input=…],cot=…[,answer=…][,system=…][,flag=…]";
const SYNTAX_IN_PYTHON: &str = "columns={'question': …, 'cot': …}";
/// Placeholder in a printed mapping for a column that only the user knows. Mappings with it are refused.
pub(crate) const BLANK: &str = "?";

const KEYS: [&str; 6] = ["question", "input", "cot", "answer", "system", "flag"];

/// What is wrong with a mapping that names something else than a role: one that is near, or any.
fn no_role(text: &str, is_near: bool) -> Option<String> {
    let is_word = |key: &&str| key.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    let mut keys = text.split(',').filter_map(|piece| Some(piece.split_once('=')?.0.trim())).filter(is_word);
    let key = keys.find(|key| !KEYS.contains(key))?;
    let named =
        [("question", QUESTIONS), ("cot", CHAINS), ("cot", &["chain"][..]), ("answer", ANSWERS), ("flag", ROW_FLAGS)];
    let is_named = |(_, names): &(&str, &[&str])| names.iter().any(|name| name.eq_ignore_ascii_case(key));
    let role = named.into_iter().find(is_named).map(|(role, _)| role).or_else(|| nearest(key, KEYS));
    if is_near && role.is_none() {
        return None;
    }
    let meant = role.map_or(String::new(), |role| format!(" (did you mean {role}?)"));
    Some(format!("there is no role {key}{meant}: the roles are {}; found {text}", KEYS.join(", ")))
}

/// The columns of question, chain and answer, by their names in the files.
///
/// Without an answer column, the chain column has a whole generation: the chain in think tags, then the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnMapping {
    pub question: String,
    /// The column of the question's input; asap joins both into one question.
    pub input: Option<String>,
    pub cot: String,
    pub answer: Option<String>,
    /// The column of the system prompt. The system prompt of a conversation is always read.
    pub system: Option<String>,
    /// The column that marks correct rows. A row where it is false or 0 is a reject.
    pub flag: Option<String>,
}

impl FromStr for ColumnMapping {
    type Err = DataFusionError;

    /// Parses `question=…,cot=…,answer=…` in any order. Names may contain commas, equal signs, dots and capitals.
    fn from_str(text: &str) -> Result<Self> {
        let mut named: [(&str, Option<String>); KEYS.len()] = KEYS.map(|key| (key, None));
        let mut last = None;
        for piece in text.split(',') {
            let start = piece.split_once('=').and_then(|(key, name)| {
                let index = named.iter().position(|(known, _)| *known == key.trim())?;
                Some((index, name))
            });
            match (start, last) {
                (Some((index, name)), _) => {
                    let (key, held) = &mut named[index];
                    if held.replace(name.to_string()).is_some() {
                        return config_err!("the column mapping names {key} twice: {text}");
                    }
                    last = Some(index);
                }
                // A comma inside a name.
                (None, Some(index)) => {
                    let held = named[index].1.get_or_insert_default();
                    held.push(',');
                    held.push_str(piece);
                }
                (None, None) => {
                    let syntax =
                        format!("a column mapping is written {}, found '{text}'", either(SYNTAX, SYNTAX_IN_PYTHON));
                    return config_err!("{}", no_role(text, false).unwrap_or(syntax));
                }
            }
        }
        // A column may have a comma and an equal sign in its name, but hardly a role with a typo.
        if let Some(said) = no_role(text, true) {
            return config_err!("{said}");
        }
        let [question, input, cot, answer, system, flag] = named.map(|(key, name)| match name.as_deref().map(str::trim) {
            Some("") => config_err!("the column mapping leaves {key} empty: {text}"),
            Some(BLANK) => config_err!(
                "the column mapping leaves {key} open: write a column of the files in place of {BLANK} in {key}={BLANK}, or \
                 leave out answer if cot is the whole generation; found {text}"
            ),
            Some(name) => Ok(Some(name.to_string())),
            None => Ok(None),
        });
        let required = |key: &str, name: Result<Option<String>>| {
            name?.ok_or_else(|| {
                let syntax = either(SYNTAX, SYNTAX_IN_PYTHON);
                let missing = || format!("the column mapping has no {key}: {text} ({syntax})");
                config_datafusion_err!("{}", no_role(text, false).unwrap_or_else(missing))
            })
        };
        Ok(Self {
            question: required("question", question)?,
            input: input?,
            cot: required("cot", cot)?,
            answer: answer?,
            system: system?,
            flag: flag?,
        })
    }
}

impl ColumnMapping {
    /// The names in the order of [`KEYS`].
    pub(crate) fn names(&self) -> [Option<&String>; KEYS.len()] {
        let Self { question, input, cot, answer, system, flag } = self;
        [Some(question), input.as_ref(), Some(cot), answer.as_ref(), system.as_ref(), flag.as_ref()]
    }

    /// The argument that gives this mapping.
    pub(crate) fn flag(&self) -> String {
        flag(KEYS.into_iter().zip(self.names()).filter_map(|(key, name)| Some((key, name?.as_str()))))
    }
}

/// The argument that gives a mapping: `--columns 'question=q,cot=c'`, in Python `columns={'question': 'q', 'cot': 'c'}`.
pub(crate) fn flag<'a>(named: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let quoted = |name: &str| name.replace('\\', "\\\\").replace('\'', "\\'");
    let write = |(key, name)| either(format!("{key}={name}"), format!("'{key}': '{}'", quoted(name)));
    let written: Vec<String> = named.map(write).collect();
    either(format!("--columns '{}'", written.join(",")), format!("columns={{{}}}", written.join(", ")))
}

impl fmt::Display for ColumnMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = KEYS.iter().zip(self.names()).filter_map(|(key, name)| Some(format!("{key}={}", name?)));
        f.write_str(&written.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use crate::corpus::shape::mapping::*;

    #[test]
    fn names_are_taken_as_published() {
        let mapping: ColumnMapping = "cot=Complex.CoT,question=The question, in full = Q,answer=a".parse().unwrap();
        assert_eq!(mapping.question, "The question, in full = Q");
        assert_eq!(mapping.cot, "Complex.CoT");
        assert_eq!(mapping.answer.as_deref(), Some("a"));
        assert_eq!("question=q,cot=c".parse::<ColumnMapping>().unwrap().answer, None);
    }

    #[test]
    fn a_key_that_is_no_role_is_named() {
        for (text, meant) in [
            ("chain=c,question=q", "no role chain (did you mean cot?)"),
            ("question=q,thought=c", "no role thought (did you mean cot?)"),
            ("question=q,cot=c,anwser=a", "no role anwser (did you mean answer?)"),
            ("queston=q,cot=c", "no role queston (did you mean question?)"),
            ("question=q,zzzzz=c", "no role zzzzz: the roles are question, input, cot, answer, system, flag"),
        ] {
            let error = text.parse::<ColumnMapping>().unwrap_err().strip_backtrace();
            assert!(error.contains(meant), "{text}: {error}");
        }
    }

    #[test]
    fn a_mapping_is_written_as_it_is_read() {
        for text in ["question=q,cot=c", "question=i,input=x, y,cot=c.0,answer=a,system=s,flag=reward"] {
            assert_eq!(text.parse::<ColumnMapping>().unwrap().to_string(), text);
        }
    }
}
