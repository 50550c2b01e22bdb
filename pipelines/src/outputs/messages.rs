//! Puts pruned thoughts back into the column of conversations that came in, in its own form.
//!
//! The texts of a column are numbered in the order of a walk through its structs and lists. Those that hold the steps of a row's
//! thoughts, one after the other, get the kept steps. All other texts stay.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use asap_kernels::steps::{Separator, join};
use asap_kernels::tags;
use asap_udfs::messages::TURN_CHAINS;
use asap_udfs::trace::kept_steps;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, RecordBatch, StringArray, StructArray,
};
use datafusion::arrow::compute::{cast, nullif};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use crate::shards::sources;

/// More names of fields with thoughts, in parts and items of messages.
const THOUGHTS: [&str; 3] = ["reasoningContent", "reasoningText", "summary"];
/// Fields that are valid only for the thought that a model wrote, in the struct of the thought.
const PROOFS: [&str; 1] = ["signature"];
/// Such fields anywhere in the message of the thought.
const PROOFS_OF_MESSAGE: [&str; 3] = ["encrypted_content", "thoughtSignature", "thought_signature"];

/// A text of a message.
struct Leaf {
    message: usize,
    /// Whether its field is one of thoughts.
    is_named: bool,
    /// A thought, or what may be one.
    text: String,
}

/// What a walk through a column does with its texts.
#[derive(Default)]
struct Walk {
    leaves: Vec<Leaf>,
    /// New texts, by the numbers of the leaves.
    changed: HashMap<usize, String>,
    /// The messages of the new texts.
    changed_messages: HashSet<usize>,
    /// The number of the next leaf.
    next: usize,
}

/// The steps of a row's thoughts, each with what is left of it.
struct Steps {
    texts: Vec<String>,
    kept: Vec<Option<String>>,
}

/// A batch of an output whose `columns` of conversations that came in have the pruned thoughts.
///
/// # Errors
/// If the thoughts of a row are not in these columns, or if anything but thoughts would change.
pub(super) fn with_pruned_thoughts(
    batch: &RecordBatch,
    columns: &[String],
    separator: Separator,
) -> Result<RecordBatch> {
    let held = |name: &str| {
        batch
            .column_by_name(name)
            .ok_or_else(|| exec_datafusion_err!("the output has no column {name}, which runs add"))
    };
    let rows = steps(held("original_cot")?, held("steps")?, held("turns")?, separator)?;
    let sources = sources(batch);
    let described = |row: usize| match &sources {
        Some((files, rows)) => format!("row {} of {}", rows.value(row), files.value(row)),
        None => "a row".to_string(),
    };
    let mut changed = batch.columns().to_vec();
    for name in columns {
        let place = batch.schema().index_of(name)?;
        changed[place] = pruned(&changed[place], &rows, separator, described)?;
    }
    Ok(RecordBatch::try_new(batch.schema(), changed)?)
}

/// The steps of each row's thoughts. None for rows that are no conversations with several exchanges or tools.
fn steps(cot: &ArrayRef, traces: &ArrayRef, turns: &ArrayRef, separator: Separator) -> Result<Vec<Option<Steps>>> {
    let (cot, turns) = (cast(cot, &DataType::Utf8)?, turns.as_list::<i32>());
    let thoughts = turns.values().as_struct().column_by_name("thought");
    let thoughts = thoughts.ok_or_else(|| exec_datafusion_err!("turns lack the field thought"))?;
    let thoughts = cast(thoughts, &DataType::Utf8)?;
    let read = |row: usize| {
        let texts = separator.steps(cot.as_string::<i32>().value(row)).into_iter().map(str::to_string);
        let (from, to) = (turns.value_offsets()[row] as usize, turns.value_offsets()[row + 1] as usize);
        let thoughts =
            (from..to).filter(|turn| thoughts.is_valid(*turn)).map(|turn| thoughts.as_string::<i32>().value(turn));
        let mut left = thoughts.flat_map(|thought| separator.steps(thought)).map(str::to_string);
        let kept = kept_steps(traces.as_list(), row)?.into_iter();
        Some(Steps {
            texts: texts.collect(),
            kept: kept.map(|is_kept| is_kept.then(|| left.next()).flatten()).collect(),
        })
    };
    let rows = (0..cot.len()).map(|row| if turns.is_valid(row) { read(row) } else { None });
    Ok(rows.collect())
}

/// Conversations with the kept steps of their thoughts only. `rows` has the steps of each row; None for rows that stay.
/// `described` names a row in errors.
///
/// # Errors
/// If the thoughts of a row are not in the column, or if anything but thoughts would change.
fn pruned(
    column: &ArrayRef,
    rows: &[Option<Steps>],
    separator: Separator,
    described: impl Fn(usize) -> String,
) -> Result<ArrayRef> {
    let list = column.as_list::<i32>();
    let messages: Vec<usize> = (0..list.values().len()).collect();
    let mut walk = Walk::default();
    walk.array(list.values(), &messages, false)?;
    let mut by_message: HashMap<usize, Vec<usize>> = HashMap::new();
    for (number, leaf) in walk.leaves.iter().enumerate() {
        by_message.entry(leaf.message).or_default().push(number);
    }
    let offsets = list.value_offsets();
    let mut changed = HashMap::new();
    for (row, steps) in rows.iter().enumerate() {
        let Some(steps) = steps.as_ref().filter(|_| list.is_valid(row)) else { continue };
        let mut at = 0;
        for message in offsets[row] as usize..offsets[row + 1] as usize {
            let own = by_message.get(&message).map(Vec::as_slice).unwrap_or_default();
            at = place(&walk.leaves, own, steps, at, separator, &mut changed);
        }
        if at < steps.texts.len() {
            return exec_err!(
                "{} has no step {} of its thoughts as the run read it, so that the pruned thoughts have no place: export without \
                 --messages original",
                described(row),
                at + 1
            );
        }
    }
    let blank: HashMap<usize, String> = changed.keys().map(|number| (*number, String::new())).collect();
    let changed_messages: HashSet<usize> = changed.keys().map(|number| walk.leaves[*number].message).collect();
    let with = |changed: &HashMap<usize, String>, held: &ArrayRef| {
        let changed_messages = changed_messages.clone();
        Walk { changed: changed.clone(), changed_messages, ..Walk::default() }.array(held, &messages, false)
    };
    let new = with(&changed, list.values())?;
    let [before, after] = [list.values(), &new].map(|held| with(&blank, held));
    if before? != after? {
        return exec_err!(
            "more than thoughts would change in rows from {} on: report this as a bug, and export without --messages original",
            described(0)
        );
    }
    let DataType::List(item) = column.data_type() else { return exec_err!("a list without a list type") };
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), new, list.nulls().cloned())?))
}

/// Finds the next steps among the texts of a message, and adds what becomes of these. Returns the number of steps found so far.
fn place(
    leaves: &[Leaf],
    own: &[usize],
    steps: &Steps,
    mut at: usize,
    separator: Separator,
    changed: &mut HashMap<usize, String>,
) -> usize {
    for is_named in [true, false] {
        let begin = at;
        let mut last: HashMap<&str, usize> = HashMap::new();
        for number in own.iter().filter(|number| leaves[**number].is_named == is_named) {
            let text = leaves[*number].text.as_str();
            let found = separator.steps(text);
            let from = match last.get(text) {
                // The same thought in another field.
                Some(from) if is_named => *from,
                _ => at,
            };
            // Reading strips thoughts.
            let is_same = |(step, text): (&String, &&str)| step.trim() == text.trim();
            let next = steps.texts.get(from..from + found.len());
            let is_next = next.is_some_and(|next| next.iter().zip(&found).all(is_same));
            if found.is_empty() || !is_next {
                continue;
            }
            last.insert(text, from);
            let left = &steps.kept[from..from + found.len()];
            if left.iter().zip(&found).any(|(left, text)| left.as_deref().map(str::trim) != Some(text.trim())) {
                changed.insert(*number, join(left.iter().flatten().map(String::as_str)));
            }
            at = at.max(from + found.len());
        }
        if at > begin {
            break;
        }
    }
    at
}

impl Walk {
    /// Walks through the values of messages. `messages` has the message of each value.
    fn array(&mut self, values: &ArrayRef, messages: &[usize], is_named: bool) -> Result<ArrayRef> {
        match values.data_type() {
            DataType::Struct(_) => self.fields(values.as_struct(), messages, is_named),
            DataType::List(item) => {
                let list = values.as_list::<i32>();
                let mut own = vec![0; list.values().len()];
                for (row, offsets) in list.value_offsets().windows(2).enumerate() {
                    own[offsets[0] as usize..offsets[1] as usize].fill(messages[row]);
                }
                let items = self.array(list.values(), &own, is_named)?;
                let nulls = list.nulls().cloned();
                Ok(Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), items, nulls)?))
            }
            kind if kind.is_string() => {
                let texts = cast(values, &DataType::Utf8)?;
                let texts: StringArray = texts
                    .as_string::<i32>()
                    .iter()
                    .zip(messages)
                    .map(|(text, message)| self.text(text, *message, is_named))
                    .collect();
                Ok(cast(&texts, kind)?)
            }
            _ => Ok(Arc::clone(values)),
        }
    }

    fn text(&mut self, text: Option<&str>, message: usize, is_named: bool) -> Option<String> {
        let number = self.next;
        self.next += 1;
        let Some(text) = text else {
            self.leaves.push(Leaf { message, is_named, text: String::new() });
            return None;
        };
        let parts = tags::begins_with_chain(text).then(|| tags::parts(text)).flatten();
        let thought = parts.map_or(text.to_string(), |parts| parts.chain.into_owned());
        let new = self.changed.get(&number).map(|new| match text.find(&thought) {
            // White space at the ends of a thought in tags belongs to the tags.
            Some(start) if !thought.is_empty() && thought.len() < text.len() => {
                [&text[..start], new.trim(), &text[start + thought.len()..]].concat()
            }
            Some(0) if !thought.is_empty() => new.clone(),
            _ => text.to_string(),
        });
        let is_tagged = thought.len() < text.len();
        self.leaves.push(Leaf { message, is_named: is_named || is_tagged, text: thought });
        Some(new.unwrap_or_else(|| text.to_string()))
    }

    fn fields(&mut self, held: &StructArray, messages: &[usize], is_named: bool) -> Result<ArrayRef> {
        let mut columns = Vec::with_capacity(held.num_columns());
        let mut are_changed = vec![false; held.len()];
        for (field, column) in held.fields().iter().zip(held.columns()) {
            let is_thought = TURN_CHAINS.contains(&field.name().as_str()) || THOUGHTS.contains(&field.name().as_str());
            let begin = self.next;
            columns.push(self.array(column, messages, is_named || is_thought)?);
            // Values of texts are numbered one by one.
            if column.data_type().is_string() {
                are_changed.iter_mut().zip(begin..).for_each(|(is, number)| *is |= self.changed.contains_key(&number));
            }
        }
        let are_changed = BooleanArray::from(are_changed);
        let of_message: BooleanArray =
            messages.iter().map(|message| Some(self.changed_messages.contains(message))).collect();
        for (field, column) in held.fields().iter().zip(&mut columns) {
            let name = field.name().as_str();
            if PROOFS.contains(&name) {
                *column = nullif(column.as_ref(), &are_changed)?;
            } else if PROOFS_OF_MESSAGE.contains(&name) {
                *column = nullif(column.as_ref(), &of_message)?;
            }
        }
        Ok(Arc::new(StructArray::try_new(held.fields().clone(), columns, held.nulls().cloned())?))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::json::{ReaderBuilder, reader::infer_json_schema};
    use serde_json::{Value, json};

    use super::*;

    /// A row of conversations as a column, with the steps that are left of its thoughts.
    fn pruned_by(messages: &Value, left: &[(&str, Option<&str>)]) -> Result<Value> {
        let line = json!({ "messages": messages }).to_string();
        let (schema, _) = infer_json_schema(line.as_bytes(), None)?;
        let batch = ReaderBuilder::new(Arc::new(schema)).build(line.as_bytes())?.next().unwrap()?;
        let steps = Steps {
            texts: left.iter().map(|(text, _)| text.to_string()).collect(),
            kept: left.iter().map(|(_, kept)| kept.map(str::to_string)).collect(),
        };
        let column = pruned(batch.column(0), &[Some(steps)], Separator::default(), |_| "row 0 of a.jsonl".to_string())?;
        let batch = RecordBatch::try_new(batch.schema(), vec![column])?;
        let mut writer = datafusion::arrow::json::LineDelimitedWriter::new(Vec::new());
        writer.write(&batch)?;
        Ok(serde_json::from_slice::<Value>(&writer.into_inner()).unwrap()["messages"].take())
    }

    const LEFT: [(&str, Option<&str>); 3] = [("A sum.", None), ("Add.", Some("Add")), ("So 13.", Some("So 13."))];

    #[test]
    fn each_form_gets_its_thoughts_back_and_keeps_all_else() {
        let forms = [
            json!([{"role": "assistant", "reasoning_content": "A sum.\n\nAdd."}, {"role": "assistant", "content": "So 13.", "reasoning_content": "So 13."}]),
            json!([{"from": "gpt", "value": "<think>\nA sum.\n\nAdd.\n</think>\n\nA sum."}, {"from": "gpt", "value": "<think>So 13.</think>13"}]),
            json!([{"role": "model", "parts": [{"text": "A sum.", "thought": true}, {"text": "Add.", "thought": true}, {"text": "A sum."}]}, {"role": "model", "parts": [{"text": "So 13.", "thought": true}, {"text": "13"}]}]),
            json!([{"role": "assistant", "reasoning": "A sum.\n\nAdd.", "reasoning_details": [{"type": "reasoning.text", "text": "A sum.\n\nAdd."}]}, {"role": "assistant", "reasoning": "So 13.", "content": "13"}]),
        ];
        for form in forms {
            let found = pruned_by(&form, &LEFT).unwrap().to_string();
            let expected = form.to_string();
            let expected = expected.replace("A sum.\\n\\nAdd.", "Add");
            let expected = expected.replacen("\"A sum.\",\"thought\"", "\"\",\"thought\"", 1);
            let expected = expected.replace("\"Add.\",\"thought\"", "\"Add\",\"thought\"");
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_shortened_thought_loses_its_signature_and_a_thought_elsewhere_is_an_error() {
        let thinks =
            |text: &str, signature: &str| json!({"type": "thinking", "thinking": text, "signature": signature});
        let redacted = json!({"type": "redacted_thinking", "data": "x"});
        let call = json!({"type": "tool_use", "id": "c", "name": "add"});
        let second = json!({"role": "assistant", "content": [thinks("So 13.", "S2")]});
        let form = json!([{"role": "assistant", "content": [thinks("A sum.\n\nAdd.", "S1"), &redacted, call]}, second]);
        let found = pruned_by(&form, &LEFT).unwrap();
        let shortened = json!({"type": "thinking", "thinking": "Add"});
        assert_eq!(found, json!([{"role": "assistant", "content": [shortened, redacted, call]}, second]));
        let thinks = |text: &str| json!({"type": "reasoning", "summary": [{"text": text}], "encrypted_content": text});
        let found = pruned_by(&json!([thinks(" A sum.\n\nAdd.\n"), thinks("So 13.")]), &LEFT).unwrap();
        assert_eq!(found, json!([{"type": "reasoning", "summary": [{"text": "Add"}]}, thinks("So 13.")]));
        let error = pruned_by(&form, &[LEFT[0], LEFT[2]]).unwrap_err().to_string();
        assert!(error.contains("row 0 of a.jsonl has no step 1"), "{error}");
    }
}
