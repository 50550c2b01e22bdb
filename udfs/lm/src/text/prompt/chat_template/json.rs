//! JSON as Python writes it: transformers replaces Jinja's filter `tojson`, which escapes HTML.

use std::io::{self, Write};

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Python's separators and floats.
struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }
}

/// A float with an exponent of a sign and two digits at least, such as 1e-07.
fn float(value: f64) -> String {
    let text = format!("{value:?}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// The filter `tojson` of transformers.
pub(super) fn as_python_writes(value: &Value, options: Kwargs) -> Result<String, Error> {
    let failed = |error| Error::new(ErrorKind::InvalidOperation, "cannot be written as JSON").with_source(error);
    let indent: Option<usize> = options.get("indent")?;
    let mut written = Vec::new();
    match indent.map(|indent| " ".repeat(indent)) {
        Some(indent) => {
            let pretty = PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut written, pretty)).map_err(failed)?;
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut written, Python)).map_err(failed)?,
    }
    String::from_utf8(written)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, "is no text as JSON").with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_that_of_python() {
        // json.dumps(…, ensure_ascii=False)
        let text = r#"{"b": [1, -2, 5.0, 1e-07, 1e+16, 0.0001, true, null], "a": {"<é>": "'&\n\""}, "c": [], "d": {}}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(as_python_writes(&value, Kwargs::from_iter::<[(&str, Value); 0]>([])).unwrap(), text);
    }
}
