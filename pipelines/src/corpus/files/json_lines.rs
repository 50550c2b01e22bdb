//! The lines of a JSON file, none of them without a bound, and files that hold columns instead of rows.

use std::io::{self, BufRead, Read};

use serde_json::{Map, Value};

use crate::corpus::rules::QUESTIONS;

/// The most bytes of a line. A file of this size without a line break is no list of rows.
pub(crate) const MAX_LINE: usize = 1 << 30;

pub(crate) struct Lines<R> {
    /// None after a failed read, which would fail again.
    text: Option<R>,
    most: usize,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(text: R, most: usize) -> Self {
        Self { text: Some(text), most }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        let read = self.text.as_mut()?.take(self.most as u64).read_until(b'\n', &mut line);
        match read.and_then(|_| check_length(line.len() + usize::from(!line.ends_with(b"\n")), self.most)) {
            Err(error) => {
                self.text = None;
                Some(Err(error))
            }
            Ok(()) if line.is_empty() => None,
            Ok(()) => {
                line.pop_if(|byte| *byte == b'\n');
                Some(Ok(line))
            }
        }
    }
}

/// Fails for a row of more than `most` bytes.
pub(crate) fn check_length(bytes: usize, most: usize) -> io::Result<()> {
    match bytes > most {
        true => Err(io::Error::other(format!("it has no end within {} MiB, so it is no JSON object", most >> 20))),
        false => Ok(()),
    }
}

/// The number of values per column, if an object is a whole table by columns: each key has a list of the same number of
/// values, or an object from row numbers to values, and one of them is a column of questions.
pub(crate) fn values_of_columns(object: &Value) -> Option<usize> {
    let columns = object.as_object()?;
    let length = |column: &Value| match column {
        Value::Array(items) => Some(items.len()),
        Value::Object(items) => is_numbered(items).then_some(items.len()),
        _ => None,
    };
    let values = length(columns.values().next()?).filter(|values| *values > 1)?;
    let is_question = |(name, column): (&String, &Value)| {
        let is_scalar = |value: &Value| !value.is_array() && !value.is_object();
        QUESTIONS.iter().any(|known| known.eq_ignore_ascii_case(name))
            && match column {
                Value::Array(items) => items.iter().all(is_scalar),
                Value::Object(items) => items.values().all(is_scalar),
                _ => false,
            }
    };
    let are_columns = columns.values().all(|column| length(column) == Some(values)) && columns.iter().any(is_question);
    are_columns.then_some(values)
}

fn is_numbered(items: &Map<String, Value>) -> bool {
    (0..items.len()).all(|number| items.contains_key(&number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_an_end() {
        let lines = |text: &str| {
            let lines = Lines::new(text.as_bytes(), 5);
            lines.map(|line| line.map_or("failed".into(), |line| String::from_utf8(line).unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(lines("abcd\n\nef"), ["abcd", "", "ef"]);
        assert_eq!(lines("abcd\nefgh"), ["abcd", "efgh"]);
        assert_eq!(lines("abcd\nefghi\nj"), ["abcd", "failed"]);
        assert_eq!(lines("abcdefgh"), ["failed"]);
        assert!(lines("").is_empty());
    }

    #[test]
    fn a_table_by_columns_is_no_row() {
        let values = |text: &str| values_of_columns(&serde_json::from_str(text).unwrap());
        assert_eq!(values(r#"{"problem": ["a", "b"], "generation": ["c", null]}"#), Some(2));
        assert_eq!(values(r#"{"Problem": {"0": "a", "1": "b"}, "turns": {"0": [], "1": [1]}}"#), Some(2));
        for row in [
            "{}",
            r#"{"problem": [], "generation": []}"#,
            r#"{"problem": ["a"], "generation": ["c"]}"#,
            r#"{"problem": ["a", "b"], "generation": ["c"]}"#,
            r#"{"problem": "a", "generations": ["c", "d"]}"#,
            r#"{"prompt": [{"role": "user"}, {"role": "user"}], "generations": ["c", "d"]}"#,
            r#"{"messages": [{}, {}], "generations": ["c", "d"]}"#,
            r#"{"problem": {"a": "b", "c": "d"}, "generation": {"a": "b", "c": "d"}}"#,
        ] {
            assert_eq!(values(row), None, "{row}");
        }
    }
}
