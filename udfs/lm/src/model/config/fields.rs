//! Reads the JSON object of a config field by field; unknown fields are errors or notes.

use serde_json::{Map, Value};

pub(super) type Parsed<T> = Result<T, String>;

/// Parts of a key's name that suggest an effect on the computation. An unknown key with such a part is an error.
const MATTERS: &str = "
    act attention attn auto_map bias dim dtype embed expert factor gate head hidden kernel layer logit mlp moe mrope
    multiplier norm position quant residual rope rotary router scal shared sink size sliding soft state tie vocab
    window";

/// Parses JSON, also as Python writes it: with infinite or NaN numbers, which count as absent.
pub(super) fn json(text: &str) -> Parsed<Value> {
    let parsed = serde_json::from_str(text).or_else(|error| {
        // Text between quotation marks is a string; none of these files has escaped quotation marks.
        let parts = text.split('"').enumerate().map(|(place, part)| match place % 2 {
            0 => {
                ["-Infinity", "Infinity", "NaN"].iter().fold(part.to_string(), |part, word| part.replace(word, "null"))
            }
            _ => part.to_string(),
        });
        serde_json::from_str(&parts.collect::<Vec<_>>().join("\"")).map_err(|_| error)
    });
    parsed.map_err(|error| format!("not JSON: {error}"))
}

/// The largest size that a model may have in one direction: larger ones are damage, or made to fill the memory.
const LARGEST: u64 = 1 << 24;

/// Fields of all families with sizes by which memory is taken.
const SIZES: &str = "
    head_dim hidden_size intermediate_size max_position_embeddings moe_intermediate_size num_attention_heads num_experts
    num_hidden_layers num_key_value_heads num_local_experts type_vocab_size vocab_size";

fn is_among(words: &str, key: &str) -> bool {
    words.split_whitespace().any(|word| word == key)
}

/// A JSON object to read field by field; null counts as absent.
pub(super) struct Fields<'a> {
    values: &'a Map<String, Value>,
    place: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) fn of(config: &'a Value) -> Parsed<Self> {
        Ok(Self { values: config.as_object().ok_or("expected a JSON object")?, place: "" })
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    fn read<T>(&self, key: &str, expected: &str, as_type: impl Fn(&'a Value) -> Option<T>) -> Parsed<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wrong = || format!("{}{key} must be {expected}, found {value}", self.place);
        as_type(value).ok_or_else(wrong).map(Some)
    }

    pub(super) fn count(&self, key: &str) -> Parsed<Option<usize>> {
        self.count_up_to(LARGEST, key)
    }

    /// A count that takes no memory, so that it may have any size.
    pub(super) fn length(&self, key: &str) -> Parsed<Option<usize>> {
        self.count_up_to(u64::MAX, key)
    }

    fn count_up_to(&self, most: u64, key: &str) -> Parsed<Option<usize>> {
        let count = |value: &Value| value.as_u64().filter(|n| (1..=most).contains(n)).map(|n| n as usize);
        let is_larger = self.get(key).and_then(Value::as_f64).is_some_and(|n| n > most as f64);
        let at_most = if is_larger { format!(" and at most {most}") } else { String::new() };
        self.read(key, &format!("a whole number above 0{at_most}"), count)
    }

    /// Refuses sizes that no model has, whatever the family calls its other fields.
    pub(super) fn check_sizes(&self) -> Parsed<()> {
        let is_larger = |key: &&str| self.get(key).and_then(Value::as_f64).is_some_and(|n| n > LARGEST as f64);
        SIZES.split_whitespace().filter(is_larger).try_for_each(|key| self.count(key).map(drop))
    }

    pub(super) fn id(&self, key: &str) -> Parsed<Option<u32>> {
        self.read(key, "a token's id", |value| value.as_u64().and_then(|id| u32::try_from(id).ok()))
    }

    pub(super) fn number(&self, key: &str) -> Parsed<Option<f64>> {
        self.read(key, "a number above 0", |value| value.as_f64().filter(|n| *n > 0.0))
    }

    pub(super) fn flag(&self, key: &str) -> Parsed<Option<bool>> {
        self.read(key, "true or false", Value::as_bool)
    }

    pub(super) fn text(&self, key: &str) -> Parsed<Option<&'a str>> {
        self.read(key, "a string", Value::as_str)
    }

    pub(super) fn texts(&self, key: &str) -> Parsed<Option<Vec<&'a str>>> {
        let texts = |value: &'a Value| value.as_array()?.iter().map(Value::as_str).collect();
        self.read(key, "a list of strings", texts)
    }

    pub(super) fn object(&self, key: &'static str, place: &'static str) -> Parsed<Option<Fields<'a>>> {
        self.read(key, "an object", |value| value.as_object().map(|values| Fields { values, place }))
    }

    pub(super) fn required<T>(&self, key: &str, read: impl Fn(&Self, &str) -> Parsed<Option<T>>) -> Parsed<T> {
        read(self, key)?.ok_or_else(|| format!("{}{key} is missing", self.place))
    }

    /// The keys that are not among these words, except those whose value disables the feature.
    fn others(&self, known: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let is_off = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            Value::Bool(true) | Value::String(_) => false,
        };
        self.values.iter().filter(move |(key, value)| !is_among(known, key) && !is_off(value))
    }

    pub(super) fn refuse_unknown(&self, known: &str) -> Parsed<()> {
        match self.others(known).next() {
            Some((key, value)) => Err(format!("{}{key} = {value} is not supported", self.place)),
            None => Ok(()),
        }
    }

    /// Returns a note for each unknown key. A key that may change the result is an error. Private keys of transformers
    /// begin with an underscore.
    pub(super) fn unknown(&self, known: &str) -> Parsed<Vec<String>> {
        let note = |(key, value): (&String, &Value)| {
            let name = key.to_ascii_lowercase();
            match MATTERS.split_whitespace().find(|part| name.contains(part)) {
                Some(part) => Err(format!(
                    "{key} = {value} is not supported: a key with '{part}' in its name may change the result"
                )),
                None => Ok(format!("{key} is unknown and ignored")),
            }
        };
        self.others(known).filter(|(key, _)| !key.starts_with('_')).map(note).collect()
    }
}
