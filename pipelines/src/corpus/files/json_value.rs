//! Parses JSON values, and finds objects that hold a key twice.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses a value. The flag becomes true if an object in it holds a key twice: the last value counts, as in Python.
struct Parse<'a>(&'a mut bool);

/// Parses a line. Also returns whether an object in it holds a key twice.
pub(crate) fn parse(line: &[u8]) -> serde_json::Result<(Value, bool)> {
    let mut is_twice = false;
    let mut text = serde_json::Deserializer::from_slice(line);
    let value = Parse(&mut is_twice).deserialize(&mut text)?;
    text.end()?;
    Ok((value, is_twice))
}

impl<'de> DeserializeSeed<'de> for Parse<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Parse<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(Parse(self.0))? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let value = members.next_value_seed(Parse(self.0))?;
            *self.0 |= fields.insert(key, value).is_some();
        }
        Ok(Value::Object(fields))
    }
}
