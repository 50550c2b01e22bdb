//! The types of the values in a JSON file, and how a value of another type than the others costs no other row.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use serde_json::{Map, Value, json};

use crate::corpus::rules::{ITEM_TEXTS, TURN_FIELDS};
use asap_udfs::json::{Scanner, items, member};
use asap_udfs::messages::TURN_CHAINS;
use asap_udfs::messages::forms::is_written;

/// The most keys of a file, at all depths, that become columns and fields of structs. Objects that use ids as keys have no
/// other bound, and each column costs memory and time.
pub(crate) const MAX_KEYS: usize = 2000;
/// The column of all keys that have no column.
const OTHERS: &str = "other_keys";
/// A key that fewer than one in this number of rows has, or only one row, keeps no column.
const RARE: usize = 100;

/// The types of all values at one place of the objects of a file. The order of the values does not matter.
#[derive(Debug, Default, Clone)]
pub(crate) struct Kind {
    /// All values, with NULL.
    seen: usize,
    booleans: usize,
    integers: usize,
    floats: usize,
    texts: usize,
    lists: usize,
    /// Lists without items, which fit any list, and are not filled elsewhere.
    empty: usize,
    objects: usize,
    /// Objects that stay as written: the arguments of calls and the schemas of tools. Structs of all their keys would add NULLs.
    written: usize,
    /// Whether the place is within a list.
    is_in_list: bool,
    /// Whether [`Self::keep_most`] left out values of other types.
    is_reduced: bool,
    /// Whether keys were left out, as each new one is then: see [`Self::limit`].
    is_full: bool,
    item: Option<Box<Kind>>,
    pub(crate) fields: BTreeMap<String, Kind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    /// A part of a message, or a text, which is read as a part.
    Part,
    /// A list of parts, or a text, which is read as its only part.
    Parts,
    /// Values of several types, which become JSON text. A text stays as it is.
    Json,
}

impl Kind {
    /// Adds a value, and returns how many keys are new. `is_known` says which keys of this object are never left out.
    pub(crate) fn add(&mut self, value: &Value, is_known: fn(&str) -> bool) -> usize {
        self.seen += 1;
        match value {
            Value::Null => {}
            Value::Bool(_) => self.booleans += 1,
            Value::Number(number) if number.is_i64() => self.integers += 1,
            Value::Number(number) if number.is_f64() => self.floats += 1,
            // As numbers, integers beyond 64-bit columns would be rounded, which breaks ids.
            Value::Number(_) | Value::String(_) => self.texts += 1,
            Value::Array(items) if items.is_empty() => self.empty += 1,
            Value::Array(items) => {
                self.lists += 1;
                let item = self.item.get_or_insert_with(|| Box::new(Kind { is_in_list: true, ..Kind::default() }));
                return items.iter().map(|value| item.add(value, |_| false)).sum();
            }
            Value::Object(fields) => {
                self.objects += 1;
                let (mut new, is_in_list) = (0, self.is_in_list);
                for (name, value) in fields {
                    let is_whole = is_in_list && value.is_object() && is_written(fields.keys(), name);
                    let add = |kind: &mut Kind| if is_whole { kind.add_written() } else { kind.add(value, |_| false) };
                    if let Some(kind) = self.fields.get_mut(name) {
                        new += add(kind);
                    } else if !self.is_full || is_known(name) {
                        let mut kind = Kind { is_in_list, ..Kind::default() };
                        new += 1 + add(&mut kind);
                        self.fields.insert(name.clone(), kind);
                        self.is_full |= self.fields.len() > 2 * MAX_KEYS;
                    }
                }
                return new;
            }
        }
        0
    }

    fn add_written(&mut self) -> usize {
        (self.seen, self.written) = (self.seen + 1, self.written + 1);
        0
    }

    /// The number of keys, at all depths.
    pub(crate) fn keys(&self) -> usize {
        self.fields.len() + self.nested_keys()
    }

    fn nested_keys(&self) -> usize {
        self.fields.values().chain(self.item.as_deref()).map(Self::keys).sum()
    }

    /// Leaves at most `most` keys of the rows, at all depths. Rows keep columns of the known keys, then of the most frequent
    /// ones. Other objects with too many keys become JSON text as a whole.
    pub(crate) fn limit(&mut self, most: usize, is_known: fn(&str) -> bool) {
        let columns = most - self.nested_keys().min(most / 4);
        if self.fields.len() > columns {
            let rare = (self.objects / RARE).max(usize::from(self.objects > 1));
            let worth = |(name, kind): &(&String, &Kind)| match is_known(name) {
                true => usize::MAX,
                false => kind.seen,
            };
            let mut ranked: Vec<_> = self.fields.iter().collect();
            // Stable, so equals stay in the order of their names.
            ranked.sort_by_cached_key(|column| Reverse(worth(column)));
            let left = ranked.iter().take(columns).filter(|column| worth(column) > rare);
            let left: HashSet<String> = left.map(|(name, _)| name.to_string()).collect();
            self.fields.retain(|name, _| left.contains(name));
            self.is_full = true;
        }
        self.limit_nested(most - self.fields.len().min(most));
    }

    /// Divides the keys that may remain among the objects within, the smallest first.
    fn limit_nested(&mut self, mut most: usize) {
        let mut nested: Vec<&mut Kind> = self.fields.values_mut().chain(self.item.as_deref_mut()).collect();
        nested.sort_by_cached_key(|kind| kind.keys());
        let mut others = nested.len();
        for kind in nested {
            let share = most / others;
            if kind.fields.len() > share {
                kind.fields.clear();
                kind.is_full = true;
            }
            kind.limit_nested(share - kind.fields.len());
            most -= kind.keys();
            others -= 1;
        }
    }

    /// Whether objects became JSON text because they had too many keys.
    fn is_map(&self) -> bool {
        self.is_full && self.fields.is_empty()
    }

    /// Whether objects here or within stay as written.
    fn has_written(&self) -> bool {
        self.written > 0 || self.fields.values().chain(self.item.as_deref()).any(Kind::has_written)
    }

    /// Like [`Self::is_map`], at any depth.
    pub(crate) fn has_map(&self) -> bool {
        self.is_map() || self.fields.values().chain(self.item.as_deref()).any(Kind::has_map)
    }

    /// The column of the keys that rows have no column for, if there are any. Its name is no other column's.
    pub(crate) fn others(&self) -> Option<String> {
        let mut name = OTHERS.to_string();
        while self.fields.contains_key(&name) {
            name.push('_');
        }
        self.is_full.then_some(name)
    }

    fn scalars(&self) -> usize {
        self.booleans + self.integers + self.floats + self.texts
    }

    fn form(&self) -> Form {
        let holds_parts = |kind: &Kind| kind.objects > 0 && kind.lists == 0 && kind.fields.contains_key("type");
        let [scalars, lists, objects] = [self.scalars(), self.lists, self.objects].map(|values| values > 0);
        let are_texts = self.texts == self.scalars();
        match self.item.as_deref() {
            _ if self.is_map() || self.written > 0 => Form::Json,
            _ if usize::from(scalars) + usize::from(lists) + usize::from(objects) < 2 => Form::Plain,
            Some(item) if are_texts && !objects && holds_parts(item) => Form::Parts,
            None if are_texts && holds_parts(self) => Form::Part,
            _ => Form::Json,
        }
    }

    fn is_json(&self) -> bool {
        self.form() == Form::Json && !self.is_map() && self.written == 0
    }

    /// Whether values of several types become JSON text, at any depth.
    pub(crate) fn has_json(&self) -> bool {
        self.is_json() || self.fields.values().chain(self.item.as_deref()).any(Kind::has_json)
    }

    /// Whether some values must be rewritten to fit the type.
    pub(crate) fn is_mixed(&self) -> bool {
        let has_strays = self.empty > 0 && self.lists == 0 && self.scalars() + self.objects > 0;
        self.is_reduced
            || self.is_full
            || has_strays
            || self.form() != Form::Plain
            || self.fields.values().chain(self.item.as_deref()).any(Kind::is_mixed)
    }

    /// Leaves only the most frequent of scalars, lists and objects, also within lists. Other values become NULL. Where
    /// there are as many scalars as others, `prefers_lists` decides.
    pub(crate) fn keep_most(&mut self, prefers_lists: bool) {
        if self.is_json() {
            let most = self.scalars().max(self.lists).max(self.objects);
            let are_scalars = self.scalars() == most && !(prefers_lists && self.lists.max(self.objects) == most);
            *self = match most {
                _ if are_scalars => Kind { lists: 0, item: None, objects: 0, fields: BTreeMap::new(), ..self.clone() },
                _ if self.lists == most => Kind { lists: most, item: self.item.take(), ..Kind::default() },
                _ => Kind { objects: most, fields: std::mem::take(&mut self.fields), ..Kind::default() },
            };
            self.is_reduced = true;
        }
        let Some(item) = &mut self.item else { return };
        item.keep_most(true);
        // What is read of messages and of generations in structs.
        let is_read = |name: &str| [TURN_FIELDS, ITEM_TEXTS, &TURN_CHAINS].iter().any(|names| names.contains(&name));
        item.fields.iter_mut().filter(|(name, _)| is_read(name)).for_each(|(_, kind)| kind.keep_most(false));
    }

    /// The columns of the objects, sorted by name at every depth, without empty structs, which Parquet cannot hold.
    pub(crate) fn columns(&self) -> Fields {
        let others = self.others();
        let mut types: BTreeMap<&str, DataType> = BTreeMap::new();
        types.extend(self.fields.iter().filter_map(|(name, kind)| Some((name.as_str(), kind.data_type()?))));
        if self.form() == Form::Part {
            types.extend(["text", "type"].map(|name| (name, DataType::Utf8)));
        }
        types.extend(others.as_deref().map(|name| (name, DataType::Utf8)));
        let field = |(name, held)| Arc::new(Field::new(name, held, true)) as FieldRef;
        types.into_iter().map(field).collect()
    }

    fn data_type(&self) -> Option<DataType> {
        Some(match (self.form(), self.item.as_deref()) {
            (Form::Json, _) => DataType::Utf8,
            (_, Some(item)) => {
                let mut item = item.clone();
                // A list that once was a text has parts of text.
                item.texts += usize::from(self.form() == Form::Parts && item.scalars() == 0);
                DataType::List(Arc::new(Field::new_list_field(item.data_type()?, true)))
            }
            _ if self.objects > 0 => DataType::Struct(Some(self.columns()).filter(|fields| !fields.is_empty())?),
            _ if self.scalars() + self.empty == 0 => DataType::Null,
            _ if self.scalars() == 0 => DataType::List(Arc::new(Field::new_list_field(DataType::Null, true))),
            _ if self.scalars() == self.booleans => DataType::Boolean,
            _ if self.scalars() == self.integers => DataType::Int64,
            _ if self.scalars() == self.integers + self.floats => DataType::Float64,
            _ => DataType::Utf8,
        })
    }

    /// Rewrites a value to the type of its place. A value that [`Self::keep_most`] left out becomes NULL.
    fn fit(&self, value: Value) -> Value {
        let part = |text| json!({"type": "text", "text": text});
        match (self.form(), value) {
            (_, Value::Null) => Value::Null,
            (Form::Json, Value::String(text)) => Value::String(text),
            (Form::Json, other) => Value::String(other.to_string()),
            (Form::Part, Value::String(text)) => part(text),
            (Form::Parts, Value::String(text)) => Value::Array(vec![part(text)]),
            (_, Value::Array(items)) => match &self.item {
                Some(item) => items.into_iter().map(|value| item.fit(value)).collect(),
                None if self.scalars() + self.objects == 0 => Value::Array(items),
                None => Value::Null,
            },
            (_, Value::Object(_)) if self.objects == 0 => Value::Null,
            (_, Value::Object(fields)) => {
                let fit = |(name, value)| match self.fields.get(&name) {
                    Some(kind) => (name, kind.fit(value)),
                    None => (name, value),
                };
                Value::Object(fields.into_iter().map(fit).collect())
            }
            (_, _) if self.lists + self.objects > 0 => Value::Null,
            (_, scalar) => scalar,
        }
    }

    /// Parses a value. Objects that stay as written become texts.
    fn parse(&self, value: &[u8]) -> serde_json::Result<Value> {
        match (value.first(), self.item.as_deref()) {
            (Some(b'{'), _) if self.written > 0 => Ok(Value::from(String::from_utf8_lossy(value))),
            _ if !self.has_written() => serde_json::from_slice(value),
            (Some(b'['), Some(item)) => items(value).map(|held| item.parse(held.trim_ascii())).collect(),
            (Some(b'{'), _) => {
                let mut fields = Map::new();
                for (key, value) in items(value).filter_map(member) {
                    let value = self
                        .fields
                        .get(&key)
                        .map_or_else(|| serde_json::from_slice(value), |kind| kind.parse(value))?;
                    fields.insert(key, value);
                }
                Ok(Value::Object(fields))
            }
            _ => serde_json::from_slice(value),
        }
    }

    /// Rewrites the mixed columns of a line. Other columns stay as written: a parsed number may lose digits.
    pub(crate) fn fit_line(&self, line: &[u8]) -> serde_json::Result<Vec<u8>> {
        let others = self.others();
        let (mut fitted, mut other): (Vec<Cow<[u8]>>, Vec<&[u8]>) = Default::default();
        for held in items(line) {
            let Some((key, value)) = member(held) else {
                fitted.push(held.into());
                continue;
            };
            match self.fields.get(&key) {
                None if others.is_some() => other.push(held),
                Some(kind) if kind.is_mixed() => {
                    // A parsed number may lose digits.
                    let value = match value.first() {
                        Some(b'-' | b'0'..=b'9') => Value::from(String::from_utf8_lossy(value)),
                        _ => kind.parse(value)?,
                    };
                    let value = kind.fit(value);
                    fitted.push(format!("{}:{value}", Value::String(key)).into_bytes().into());
                }
                _ => fitted.push(held.into()),
            }
        }
        if let Some(others) = others.filter(|_| !other.is_empty()) {
            let text = [b"{", other.join(&b',').as_slice(), b"}"].concat();
            let text = Value::from(String::from_utf8_lossy(&text));
            fitted.push(format!("{}:{text}", Value::String(others)).into_bytes().into());
        }
        Ok([b"{", fitted.join(&b',').as_slice(), b"}"].concat())
    }
}

/// Returns a line with null in place of the numbers that Python and JavaScript write but JSON does not have, and of those
/// that no 64-bit float holds. None if it has no such number.
pub(crate) fn without_nan(line: &[u8]) -> Option<Vec<u8>> {
    const NUMBERS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
    let (mut scanner, mut clean, mut rest, mut is_changed) = (Scanner::default(), Vec::new(), line, false);
    while let Some(byte) = rest.first() {
        let named = NUMBERS.iter().find(|number| rest.starts_with(number)).map(|number| number.len());
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte)).count();
        let is_infinite =
            || str::from_utf8(&rest[..digits]).is_ok_and(|number| number.parse().is_ok_and(f64::is_infinite));
        let number = named.or((digits > 1 && is_infinite()).then_some(digits)).filter(|_| !scanner.is_text());
        if number.is_some() {
            clean.extend(b"null");
        } else {
            scanner.is_border(*byte);
            clean.extend(&rest[..digits.max(1)]);
        }
        is_changed |= number.is_some();
        rest = &rest[number.unwrap_or(digits.max(1))..];
    }
    is_changed.then_some(clean)
}

/// Whether an object in a line holds a key twice: then the line has more colons than its value has fields.
pub(crate) fn has_key_twice(line: &[u8], value: &Value) -> bool {
    fn fields(value: &Value) -> usize {
        match value {
            Value::Array(items) => items.iter().map(fields).sum(),
            Value::Object(held) => held.len() + held.values().map(fields).sum::<usize>(),
            _ => 0,
        }
    }
    let mut scanner = Scanner::default();
    let is_colon = |byte: &&u8| !scanner.is_border(**byte) && !scanner.is_text() && **byte == b':';
    line.iter().filter(is_colon).count() > fields(value)
}
