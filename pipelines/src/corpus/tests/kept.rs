//! Rows of random layouts, roles, tags and nulls: each text of a row is read, or the row has a status.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::hostile::Random;
use super::*;

const FILES: u64 = 80;
const ROWS: usize = 25;

/// Makes texts whose words are unique, each around a number.
struct Writer {
    random: Random,
    words: u64,
}

impl Writer {
    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.random.below(of.len())]
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.random.below(one_in) == 0
    }

    fn text(&mut self) -> String {
        self.words += 1;
        let around =
            [("Say ", "."), ("", " holds.\n\nSo it does."), ("Cut at `</think>`: ", "."), ("", ""), ("A\nb ", " c")];
        let (before, after) = around[self.random.below(around.len())];
        format!("{before}w{}{after}", self.words)
    }

    fn tagged(&mut self) -> String {
        let (chain, answer) = (self.text(), self.text());
        let forms = [
            "<think>\nC\n</think>\n\nA",
            "C\n</think>\n\nA",
            "<think n=\"1\">C</think>A",
            "<thinking>C</thinking>\nA",
            "[THINK]C[/THINK]A",
            "<think>\nC\n</think>\n\n<answer>A</answer>",
            "<think>\nC",
            "A",
            "<think>\n\n</think>A",
            "B\n<think>\nC\n</think>\n\nA",
            "<think>\nC\n</think>\n\nA `</think>` B",
            "<think>C</think>A<think>B</think>",
            "<|channel|>analysis<|message|>C<|end|><|start|>assistant<|channel|>final<|message|>A<|return|>",
        ];
        let form = self.one(&forms);
        let more = if form.contains('B') { self.text() } else { String::new() };
        form.replace('C', &chain).replace('A', &answer).replace('B', &more)
    }

    fn null_or(&mut self, one_in: usize, text: fn(&mut Self) -> String) -> Value {
        match self.random.below(one_in * 3) {
            0 => Value::Null,
            1 => json!(""),
            2 => json!(" \n"),
            _ => json!(text(self)),
        }
    }

    /// A message of the assistant: the chain in tags, in parts or in a field.
    fn said(&mut self, role: &str, [speaker, text]: [&str; 2], field: &str, in_parts: bool) -> Value {
        let mut message = Map::from_iter([(speaker.to_string(), json!(role))]);
        if in_parts {
            let kind = self.one(&["text", "text", "text", "tool_use", "note"]);
            let thought = self.text();
            let parts = json!([{"type": "thinking", "thinking": thought}, {"type": kind, "text": self.text()}]);
            message.insert(text.to_string(), parts);
        } else if self.chance(2) {
            message.insert(text.to_string(), self.null_or(4, Self::tagged));
        } else {
            message.insert(field.to_string(), self.null_or(6, Self::text));
            let tags = ["A", "A", "</think>\n\nA", "It ends with </think>. A", "<think>\nB\n</think>\n\nA"];
            let form = self.one(&tags);
            let (answer, other) = (self.text(), if form.contains('B') { self.text() } else { String::new() });
            message.insert(text.to_string(), json!(form.replace('A', &answer).replace('B', &other)));
        }
        if self.chance(5) {
            let call = json!({"id": self.text(), "function": {"name": self.text(), "arguments": self.tagged()}});
            message.insert("tool_calls".to_string(), json!([call]));
        }
        Value::Object(message)
    }

    fn conversation(&mut self, names: [&str; 2], field: &str, in_parts: bool) -> Value {
        let roles = [
            "system",
            "user",
            "assistant",
            "tool",
            "Human",
            "gpt",
            "function",
            "critic",
            "developer",
            "observation",
            "function_call",
        ];
        let orders: [&[&str]; 6] = [
            &["user", "assistant"],
            &["system", "user", "assistant"],
            &["user", "tool", "assistant"],
            &["assistant", "user"],
            &["user", "assistant", "user", "assistant"],
            &["system", "developer", "human", "gpt"],
        ];
        let mut order: Vec<&str> = orders[self.random.below(orders.len())].to_vec();
        if self.chance(4) {
            let place = self.random.below(order.len());
            order[place] = self.one(&roles);
        }
        let message = |writer: &mut Self, role: &str| match role {
            "assistant" | "gpt" => writer.said(role, names, field, in_parts),
            _ => {
                let held = writer.null_or(8, Self::text);
                let text = match held {
                    Value::String(text) if in_parts => json!([{"type": "text", "text": text}]),
                    held => held,
                };
                json!({ names[0]: role, names[1]: text })
            }
        };
        order.into_iter().map(|role| message(self, role)).collect()
    }

    /// A conversation that a chat template rendered, up to this turn of the assistant.
    fn rendered(&mut self, said: &str) -> String {
        let roles = ["system", "user", "user", "user", "tool"];
        let turns = (0..1 + self.random.below(3))
            .map(|_| format!("<|im_start|>{}\n{}<|im_end|>\n", self.one(&roles), self.text()))
            .collect::<String>();
        format!("{turns}<|im_start|>assistant\n{said}")
    }

    fn row(&mut self, layout: usize, field: &str) -> Value {
        match layout {
            0 => {
                let system = self.null_or(3, Self::text);
                json!({"problem": self.null_or(8, Self::text), "generation": self.null_or(8, Self::tagged), "system": system})
            }
            1 => json!({"messages": self.conversation(["role", "content"], field, false)}),
            2 => json!({"conversations": self.conversation(["from", "value"], field, false)}),
            3 => json!({"messages": self.conversation(["role", "content"], field, true)}),
            4 => {
                let history = if self.chance(3) { json!([[self.text(), self.text()]]) } else { json!([]) };
                json!({"instruction": self.text(), "input": self.null_or(3, Self::text), "output": self.tagged(), "history": history})
            }
            // A system turn goes before a column, which is documented: they are not in one row here.
            5 => json!({"prompt": self.rendered("<think>\n"), "completion": self.tagged()}),
            6 => {
                let said = self.tagged() + "<|im_end|>\n";
                json!({ "text": self.rendered(&said) })
            }
            7 => {
                json!({"question": self.text(), field: self.null_or(6, Self::text), "answer": self.null_or(6, Self::text)})
            }
            _ => {
                let prompt = self.conversation(["role", "content"], field, false);
                json!({"prompt": prompt, "completion": [self.said("assistant", ["role", "content"], field, false)]})
            }
        }
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let pieces = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_word = |piece: &&str| piece.strip_prefix('w').is_some_and(|number| number.parse::<u64>().is_ok());
    pieces.filter(is_word).map(str::to_string).collect()
}

#[tokio::test]
async fn each_text_of_a_row_is_read_or_the_row_has_a_status() {
    let (mut rows_read, mut talks_read, mut lost) = (0, 0, vec![]);
    for seed in 0..FILES {
        let mut writer = Writer { random: Random(seed + 1), words: 0 };
        let layout = seed as usize % 9;
        let field = writer.one(&["reasoning_content", "reasoning", "thinking", "thought"]);
        let rows: Vec<Value> = (0..ROWS).map(|_| writer.row(layout, field)).collect();
        let folder = tempfile::tempdir().unwrap();
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        std::fs::write(folder.path().join("a.jsonl"), lines).unwrap();
        // A file whose rows mostly have no tags may be refused, with the columns to name.
        let Ok(corpus) = open(folder.path(), None).await else { continue };
        let sql = "SELECT concat_ws(' ', question, cot, answer, system) AS held, turns, status FROM corpus ORDER BY source['row']";
        let found = query(&corpus, sql).await;
        assert_eq!(found.len(), rows.len());
        for (row, found) in rows.iter().zip(found) {
            let (held, status) = found.rsplit_once(" | ").unwrap();
            let missing: Vec<String> = words(&row.to_string()).difference(&words(held)).cloned().collect();
            // A conversation is a reject, and its turns have all texts.
            let is_conversation = ["multi_turn", "no_thoughts"].contains(&status) && !held.ends_with(" | NULL");
            rows_read += usize::from(status == "NULL");
            talks_read += usize::from(is_conversation);
            if (status == "NULL" || is_conversation) && !missing.is_empty() {
                lost.push(format!("{} of {row}, read as {held}", missing.join(", ")));
            }
        }
    }
    assert!(rows_read > 400 && talks_read > 200, "{rows_read}, {talks_read}");
    assert!(lost.is_empty(), "{} rows: {}", lost.len(), lost[..lost.len().min(8)].join("\n\n"));
}
