//! Conversations in their public forms: no row is lost, and nothing but thoughts changes.

use std::fs;

use serde_json::Value;

use crate::common::{Workplace, json_lines, root};

/// Forms without a list of messages, to which an export writes no thoughts.
const TEXTS: [&str; 2] = ["history of LLaMA-Factory", "rendered by ChatML, calls in tags"];

#[test]
fn each_form_loses_no_row_and_nothing_but_thoughts() {
    let file = root().join("pipelines/src/corpus/tests/conversations.jsonl");
    for form in json_lines(&fs::read_to_string(file).unwrap()) {
        let (workplace, name) = (Workplace::new(), form["case"].as_str().unwrap());
        fs::create_dir(workplace.path("in")).unwrap();
        for (file, content) in form["files"].as_object().unwrap() {
            workplace.write(&format!("in/{file}"), content.as_str().unwrap());
        }
        workplace.run("run without_anchor --from in --to out --ratio 0.5 --originals all -q".split(' ')).ok();
        let read = |row: &str, table: &str| {
            workplace.rows(&format!("SELECT {row}['row'] AS row, cot, turns FROM {table} ORDER BY row"))
        };
        let (came, kept) = (read("source", "cot_corpus('in')"), read("source", "'out'"));
        let rejected = workplace.rows("SELECT source['row'] AS row FROM 'out/.asap/rejects'");
        let place = |row: &Value| row["row"].as_u64().unwrap() as usize;
        let mut places: Vec<usize> = kept.iter().chain(&rejected).map(place).collect();
        places.sort_unstable();
        assert_eq!(places, (0..came.len()).collect::<Vec<_>>(), "{name}: the rows of output and rejects");
        assert!(kept.iter().any(|row| row["turns"].is_array()), "{name}");
        for row in &kept {
            let [after, before] = [row, &came[place(row)]].map(|row| without(row, &["thought", "steps"]));
            assert_eq!(after["turns"], before["turns"], "{name}");
        }

        let exported = workplace.run("export out --to exported --messages original".split(' '));
        if TEXTS.contains(&name) {
            exported.ends(1, &["has no list of messages that came in"]);
            continue;
        }
        exported.ok();
        let held = workplace.rows("SELECT * FROM 'exported/*.parquet' LIMIT 1").remove(0);
        let columns =
            ["source_messages", "conversations", "contents"].into_iter().find(|name| held.get(name).is_some());
        let (question, cot) = columns.map_or(("source_prompt", "source_completion"), |name| (name, name));
        let table = format!("cot_corpus('exported', 'question={question},cot={cot}')");
        let [back, kept] = [read("source_source", &table), kept]
            .map(|rows| rows.iter().map(|row| without(row, &[])).collect::<Vec<_>>());
        assert_eq!(back, kept, "{name}: the columns that came in");
    }
}

/// A row whose turns lack some fields, and the number of steps before pruning.
fn without(row: &Value, fields: &[&str]) -> Value {
    let mut row = row.clone();
    for turn in row["turns"].as_array_mut().into_iter().flatten() {
        let turn = turn.as_object_mut().unwrap();
        turn.retain(|name, _| name != "original_steps" && !fields.contains(&name.as_str()));
    }
    row
}
