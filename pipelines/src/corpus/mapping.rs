//! Which columns hold what, as the user says it: `question=Problem,cot=Reasoning,answer=Final.Answer`.

use std::str::FromStr;

use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_err};

/// How a mapping is written.
pub(super) const SYNTAX: &str = "question=…,cot=…,answer=…";

/// The columns that hold question, chain and answer, by the names that they have in the files.
///
/// Without a column for the answer, the column of the chain holds a whole generation: the chain in think tags, then
/// the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMapping {
    /// The column that holds the question.
    pub question: String,
    /// The column that holds the chain of thought.
    pub cot: String,
    /// The column that holds the answer.
    pub answer: Option<String>,
}

impl FromStr for ColumnMapping {
    type Err = DataFusionError;

    /// Reads `question=…,cot=…,answer=…` in any order. Names may hold commas, equal signs, dots and capitals.
    fn from_str(text: &str) -> Result<Self> {
        let mut named: [(&str, Option<String>); 3] = [("question", None), ("cot", None), ("answer", None)];
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
                (None, None) => return config_err!("a column mapping is written {SYNTAX}, found '{text}'"),
            }
        }
        let [question, cot, answer] = named.map(|(key, name)| match name {
            Some(name) if name.trim().is_empty() => config_err!("the column mapping leaves {key} empty: {text}"),
            Some(name) => Ok(Some(name.trim().to_string())),
            None => Ok(None),
        });
        let required = |key: &str, name: Result<Option<String>>| {
            name?.ok_or_else(|| config_datafusion_err!("the column mapping names no {key}: {text} ({SYNTAX})"))
        };
        Ok(Self { question: required("question", question)?, cot: required("cot", cot)?, answer: answer? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_published() {
        let mapping: ColumnMapping = "cot=Complex.CoT,question=The question, in full = Q,answer=a".parse().unwrap();
        assert_eq!(mapping.question, "The question, in full = Q");
        assert_eq!(mapping.cot, "Complex.CoT");
        assert_eq!(mapping.answer.as_deref(), Some("a"));
        assert_eq!("question=q,cot=c".parse::<ColumnMapping>().unwrap().answer, None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("", "is written question="),
            ("q,cot=c", "is written question="),
            ("question=q,question=r,cot=c", "names question twice"),
            ("question=q", "names no cot"),
            ("question=q,cot= ", "leaves cot empty"),
        ] {
            let error = text.parse::<ColumnMapping>().unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
