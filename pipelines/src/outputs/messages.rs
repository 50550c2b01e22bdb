//! Puts pruned thoughts back into the columns of messages that came in, in their own forms.
//!
//! The texts of a column are numbered in the order of a walk through its structs and lists. The thoughts among them that have the
//! steps of a row, one after the other, get the kept steps. All other texts stay.

mod walk;

use std::collections::HashMap;
use std::sync::Arc;

use asap_kernels::steps::{Separator, join};
use asap_udfs::messages::is_conversation;
use asap_udfs::trace::kept_steps;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err, exec_err, internal_datafusion_err};

use crate::shards::sources;
use walk::{Leaf, Place, Walk};

/// The steps of a row's thoughts, each with what is left of it.
struct Steps {
    texts: Vec<String>,
    kept: Vec<Option<String>>,
    /// Whether the row has several exchanges or tools: then its thoughts are in columns of messages.
    is_conversation: bool,
}

/// Whether a column of this type has lists of messages, also in structs.
pub(super) fn has_messages(kind: &DataType) -> bool {
    match kind {
        DataType::List(_) => is_conversation(kind),
        DataType::Struct(fields) => fields.iter().any(|field| has_messages(field.data_type())),
        _ => false,
    }
}

/// A batch of an output whose `columns` of messages that came in have the pruned thoughts.
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
    let rows = steps([held("original_cot")?, held("cot")?], held("steps")?, held("turns")?, separator)?;
    let sources = sources(batch);
    let described = |row: usize| match &sources {
        Some((files, rows)) => format!("row {} of {}", rows.value(row), files.value(row)),
        None => "a row".to_string(),
    };
    let given = columns.iter().map(|name| held(name).cloned()).collect::<Result<Vec<_>>>()?;
    let mut changed = batch.columns().to_vec();
    for (name, column) in columns.iter().zip(pruned(&given, &rows, separator, described)?) {
        changed[batch.schema().index_of(name)?] = column;
    }
    Ok(RecordBatch::try_new(batch.schema(), changed)?)
}

/// The steps of each row's thoughts. `chains` are the chains before and after pruning. None for a row without steps.
fn steps(
    chains: [&ArrayRef; 2],
    traces: &ArrayRef,
    turns: &ArrayRef,
    separator: Separator,
) -> Result<Vec<Option<Steps>>> {
    let [original, cot] = [cast(chains[0], &DataType::Utf8)?, cast(chains[1], &DataType::Utf8)?];
    let ([original, cot], turns) = ([original.as_string::<i32>(), cot.as_string::<i32>()], turns.as_list::<i32>());
    let thoughts = turns.values().as_struct().column_by_name("thought");
    let thoughts = thoughts.ok_or_else(|| exec_datafusion_err!("turns lack the field thought"))?;
    let thoughts = cast(thoughts, &DataType::Utf8)?;
    let thoughts = thoughts.as_string::<i32>();
    let read = |row: usize| {
        let texts: Vec<String> = separator.steps(original.value(row)).into_iter().map(str::to_string).collect();
        let is_conversation = turns.is_valid(row);
        let left: Vec<&str> = match is_conversation {
            true => {
                let own = turns.value_offsets()[row] as usize..turns.value_offsets()[row + 1] as usize;
                let own = own.filter(|turn| thoughts.is_valid(*turn));
                own.flat_map(|turn| separator.steps(thoughts.value(turn))).collect()
            }
            false => separator.steps(cot.value(row)),
        };
        let mut left = left.into_iter().map(str::to_string);
        let kept = match kept_steps(traces.as_list(), row).filter(|kept| kept.len() == texts.len()) {
            Some(kept) => kept.into_iter().map(|is_kept| is_kept.then(|| left.next()).flatten()).collect(),
            None if is_conversation => return exec_err!("the output has a conversation without its steps"),
            // A chain that was written anew takes the place of the whole chain.
            None => (0..texts.len()).map(|step| (step == 0).then(|| cot.value(row).to_string())).collect(),
        };
        Ok(Steps { texts, kept, is_conversation })
    };
    (0..original.len()).map(|row| original.is_valid(row).then(|| read(row)).transpose()).collect()
}

/// Columns of messages with the kept steps of thoughts only. `rows` has the steps of each row; None for rows that stay.
/// `described` names a row in errors.
///
/// # Errors
/// If the thoughts of a row are not in the columns, or if anything but thoughts would change.
fn pruned(
    columns: &[ArrayRef],
    rows: &[Option<Steps>],
    separator: Separator,
    described: impl Fn(usize) -> String,
) -> Result<Vec<ArrayRef>> {
    let mut held = columns.iter().flat_map(lists).map(Messages::new).collect::<Result<Vec<_>>>()?;
    for (row, steps) in rows.iter().enumerate() {
        let Some(steps) = steps else { continue };
        let found = place_all(&mut held, row, steps, separator);
        // The chain of one exchange may be in other columns.
        let is_wanted = steps.is_conversation || held.iter().any(|messages| messages.has_thought(row));
        if found < steps.texts.len() && is_wanted {
            return exec_err!(
                "{} has no step {} of its thoughts as the run read it, so that the pruned thoughts have no place: export without \
                 --messages original",
                described(row),
                found + 1
            );
        }
    }
    let mut new = held.iter().map(Messages::changed).collect::<Result<Vec<_>>>()?.into_iter();
    columns.iter().map(|column| with_lists(column, &mut new)).collect()
}

/// The lists of messages of a column.
fn lists(column: &ArrayRef) -> Vec<&ListArray> {
    match column.data_type() {
        kind @ DataType::List(_) if is_conversation(kind) => vec![column.as_list()],
        DataType::Struct(_) => column.as_struct().columns().iter().flat_map(lists).collect(),
        _ => vec![],
    }
}

/// A column with other [`lists`].
fn with_lists(column: &ArrayRef, new: &mut dyn Iterator<Item = ArrayRef>) -> Result<ArrayRef> {
    match column.data_type() {
        kind @ DataType::List(_) if is_conversation(kind) => {
            new.next().ok_or_else(|| internal_datafusion_err!("a list of messages is missing"))
        }
        DataType::Struct(fields) => {
            let columns = column.as_struct().columns().iter().map(|held| with_lists(held, new));
            let columns = columns.collect::<Result<_>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, column.nulls().cloned())?))
        }
        _ => Ok(Arc::clone(column)),
    }
}

/// Puts what is left of a row's thoughts in the places of these. Each column may have the whole conversation, or one continues
/// where another ends, as `completion` does. Returns the number of steps with a place.
fn place_all(held: &mut [Messages], row: usize, steps: &Steps, separator: Separator) -> usize {
    let end = steps.texts.len();
    let whole: Vec<_> = held.iter().map(|messages| messages.find(row, steps, 0, separator)).collect();
    if whole.iter().any(|(found, _)| *found == end) {
        let whole = held.iter_mut().zip(whole).filter(|(_, (found, _))| *found == end);
        whole.for_each(|(messages, (_, changed))| messages.changed.extend(changed));
        return end;
    }
    let (mut found, mut changed) = (0, Vec::new());
    for messages in held.iter() {
        let (next, own) = messages.find(row, steps, found, separator);
        found = next;
        changed.push(own);
    }
    if found == end {
        held.iter_mut().zip(changed).for_each(|(messages, own)| messages.changed.extend(own));
    }
    found
}

/// A column of messages, with its texts and what becomes of them.
struct Messages<'a> {
    list: &'a ListArray,
    leaves: Vec<Leaf>,
    by_message: HashMap<usize, Vec<usize>>,
    changed: HashMap<usize, String>,
}

impl<'a> Messages<'a> {
    fn new(list: &'a ListArray) -> Result<Self> {
        let mut walk = Walk::default();
        walk.array(list.values(), &places(list))?;
        let mut by_message: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, leaf) in walk.leaves.iter().enumerate() {
            by_message.entry(leaf.message).or_default().push(number);
        }
        Ok(Self { list, leaves: walk.leaves, by_message, changed: HashMap::new() })
    }

    /// The texts of each message of a row.
    fn of_row(&self, row: usize) -> impl Iterator<Item = &[usize]> {
        let own = |offsets: &[i32]| offsets[row] as usize..offsets[row + 1] as usize;
        let messages = if self.list.is_valid(row) { own(self.list.value_offsets()) } else { 0..0 };
        messages.map(move |message| self.by_message.get(&message).map(Vec::as_slice).unwrap_or_default())
    }

    fn has_thought(&self, row: usize) -> bool {
        let thought = |number: &usize| self.leaves[*number].thought.as_deref();
        self.of_row(row).flatten().filter_map(thought).any(|thought| !thought.trim().is_empty())
    }

    /// Finds a row's steps after the first `found`. Returns the number of those found by then, and new texts.
    fn find(
        &self,
        row: usize,
        steps: &Steps,
        mut found: usize,
        separator: Separator,
    ) -> (usize, HashMap<usize, String>) {
        let mut changed = HashMap::new();
        for own in self.of_row(row) {
            found = place(&self.leaves, own, steps, found, separator, &mut changed);
        }
        (found, changed)
    }

    /// The column with the new texts.
    fn changed(&self) -> Result<ArrayRef> {
        let (list, changed) = (self.list, &self.changed);
        let blank: HashMap<usize, String> = changed.keys().map(|number| (*number, String::new())).collect();
        let with = |changed: &HashMap<usize, String>, held: &ArrayRef| {
            Walk::changing(changed.clone(), &self.leaves).array(held, &places(list))
        };
        let new = with(changed, list.values())?;
        let [before, after] = [list.values(), &new].map(|held| with(&blank, held));
        if before? != after? {
            return exec_err!(
                "more than thoughts would change in a column of messages: report this as a bug, and export without --messages original"
            );
        }
        let DataType::List(item) = list.data_type() else { return exec_err!("a list without a list type") };
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), new, list.nulls().cloned())?))
    }
}

/// The places of the messages of a column.
fn places(list: &ListArray) -> Vec<Place> {
    (0..list.values().len()).map(|message| Place { message, is_of_thoughts: false }).collect()
}

/// Finds the next steps among the thoughts of a message, and adds what becomes of these. Returns the number of steps found so
/// far.
fn place(
    leaves: &[Leaf],
    own: &[usize],
    steps: &Steps,
    mut at: usize,
    separator: Separator,
    changed: &mut HashMap<usize, String>,
) -> usize {
    let mut last: HashMap<&str, usize> = HashMap::new();
    for number in own {
        let Some(text) = leaves[*number].thought.as_deref() else { continue };
        let found = separator.steps(text);
        // The same thought may be in another field.
        let from = last.get(text).copied().unwrap_or(at);
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
    at
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::json::{ReaderBuilder, reader::infer_json_schema};
    use serde_json::{Value, json};

    use super::*;

    /// The columns of a row, with the steps that are left of its thoughts.
    fn row_by(row: &Value, left: &[(&str, Option<&str>)], is_conversation: bool) -> Result<Value> {
        let line = row.to_string();
        let (schema, _) = infer_json_schema(line.as_bytes(), None)?;
        let batch = ReaderBuilder::new(Arc::new(schema)).build(line.as_bytes())?.next().unwrap()?;
        let steps = Steps {
            texts: left.iter().map(|(text, _)| text.to_string()).collect(),
            kept: left.iter().map(|(_, kept)| kept.map(str::to_string)).collect(),
            is_conversation,
        };
        let described = |_| "row 0 of a.jsonl".to_string();
        let columns = pruned(batch.columns(), &[Some(steps)], Separator::default(), described)?;
        let batch = RecordBatch::try_new(batch.schema(), columns)?;
        let mut writer = datafusion::arrow::json::LineDelimitedWriter::new(Vec::new());
        writer.write(&batch)?;
        Ok(serde_json::from_slice(&writer.into_inner()).unwrap())
    }

    /// The same of a conversation in one column.
    fn pruned_by(messages: &Value, left: &[(&str, Option<&str>)]) -> Result<Value> {
        Ok(row_by(&json!({ "messages": messages }), left, true)?["messages"].take())
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
        let asked = json!({"role": "user", "content": "8 + 5?"});
        let found = pruned_by(&json!([asked, thinks(" A sum.\n\nAdd.\n"), thinks("So 13.")]), &LEFT).unwrap();
        assert_eq!(found, json!([asked, {"type": "reasoning", "summary": [{"text": "Add"}]}, thinks("So 13.")]));
        let error = pruned_by(&form, &[LEFT[0], LEFT[2]]).unwrap_err().to_string();
        assert!(error.contains("row 0 of a.jsonl has no step 1"), "{error}");
    }

    #[test]
    fn thoughts_go_to_each_column_that_has_them_and_to_fields_of_structs() {
        let said = |text: &str| json!({"role": "assistant", "content": "13", "reasoning_content": text});
        let asked = json!({"role": "user", "content": "A sum."});
        let [first, rest, last] = ["A sum.\n\nAdd.", "So 13.", "Add"].map(said);
        // Two columns with a part each, next to one that has other thoughts, and a copy of the whole in a struct.
        let row = json!({"prompt": [asked, first], "completion": [rest], "other": [said("A sum."), asked]});
        let pruned = json!({"prompt": [asked, last], "completion": [rest], "other": [said("A sum."), asked]});
        let by_name = |found: Value, names: [&str; 2]| names.map(|name| found[name].clone());
        let found = row_by(&json!({"a": row["prompt"], "b": row["completion"]}), &LEFT, true).unwrap();
        assert_eq!(by_name(found, ["a", "b"]), by_name(pruned.clone(), ["prompt", "completion"]));
        let whole = |first: &Value| json!([asked, first, asked, rest]);
        let found = row_by(
            &json!({"choices": {"message": whole(&first), "n": 1}, "messages": whole(&first), "other": row["other"]}),
            &LEFT,
            true,
        );
        let expected =
            json!({"choices": {"message": whole(&last), "n": 1}, "messages": whole(&last), "other": row["other"]});
        assert_eq!(found.unwrap(), expected);
        let error = row_by(&json!({"a": row["prompt"]}), &LEFT, true).unwrap_err().to_string();
        assert!(error.contains("row 0 of a.jsonl has no step 3"), "{error}");
    }

    #[test]
    fn the_chain_of_one_exchange_is_pruned_where_messages_have_it() {
        let exchange = |chain: &str| json!({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "13", "thinking": chain}]});
        let found = row_by(&exchange("A sum.\n\nAdd.\n\nSo 13."), &LEFT, false).unwrap();
        assert_eq!(found, exchange("Add\n\nSo 13."));
        let error = row_by(&exchange("Another chain."), &LEFT, false).unwrap_err().to_string();
        assert!(error.contains("row 0 of a.jsonl has no step 1"), "{error}");
        // The chain is in a column of its own.
        let question = json!({"prompt": [{"role": "user", "content": "q"}], "cot": "A sum.\n\nAdd.\n\nSo 13."});
        assert_eq!(row_by(&question, &LEFT, false).unwrap(), question);
    }
}
