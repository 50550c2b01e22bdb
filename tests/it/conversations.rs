//! Conversations in their public forms: no row is lost, and nothing but thoughts changes.

use std::fs;

use serde_json::Value;

use crate::common::{Workplace, json_lines, root};
use crate::support::viewer::Viewer;

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

#[test]
fn steps_are_shown_by_turn() {
    let workplace = Workplace::new();
    let call = r#"{"id": "c", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 8}"}}"#;
    let line = format!(
        r#"{{"messages": [{{"role": "user", "content": "8 + 5?"}},
        {{"role": "assistant", "content": "", "reasoning_content": "A sum.\n\nSo I add.", "tool_calls": [{call}]}},
        {{"role": "tool", "tool_call_id": "c", "content": "13"}},
        {{"role": "assistant", "content": "It is 13.", "reasoning_content": "So 13.\n\nGood."}}]}}"#
    );
    workplace.write("in/a.jsonl", line.replace('\n', "") + "\n");
    workplace.run("run without_anchor --from in --to out --ratio 0.5 -q".split(' ')).ok();
    let chain = workplace.run("inspect out --chain a.jsonl:0".split(' '));
    let part = |line: &str| match line {
        line if ["turn ", "  call ", "  result"].iter().any(|begins| line.starts_with(begins)) => {
            Some(line.to_string())
        }
        line if line.starts_with(['+', '-']) && line.contains(" token") => Some("step".to_string()),
        _ => None,
    };
    let parts: Vec<_> = chain.ok().lines().filter_map(part).collect();
    let (first, last) = (["turn 2, assistant", "step", "step"], ["turn 4, assistant", "step", "step"]);
    let between = ["  call of add: {\"a\": 8}", "turn 3, tool", "  result: 13"];
    assert_eq!(parts, [&["turn 1, user"][..], &first, &between, &last].concat());
    let found = workplace.run("inspect out --chain a.jsonl:0 --format json".split(' ')).json();
    let turns = found["turns"].as_array().unwrap().iter().map(|turn| (turn["role"].clone(), turn["steps"].clone()));
    let expected = [("user", 0), ("assistant", 2), ("tool", 0), ("assistant", 2)];
    assert_eq!(turns.collect::<Vec<_>>(), expected.map(|(role, steps)| (role.into(), steps.into())));
    let (_, page) = Viewer::of(&workplace).page("chain?at=0");
    let turns: Vec<_> = page.split("<p class=\"role turn\">").skip(1).collect();
    let steps = |turn: &&str| turn.split("Answer").next().unwrap().matches("class=\"fate\"").count();
    assert_eq!(turns.iter().map(steps).collect::<Vec<_>>(), [0, 2, 0, 2]);
    // A text of one line is not folded.
    assert!(turns[1].contains("<p class=\"call\">call of add: {&quot;a&quot;: 8}</p>"), "{}", turns[1]);
    assert!(turns[2].contains("<p class=\"call\">result: 13</p>") && turns[3].contains(">It is 13."), "{}", turns[3]);
}
