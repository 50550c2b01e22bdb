//! `asap inspect --model` and `--health`: what rows teach, and their faults.

use std::collections::BTreeSet;
use std::slice::from_ref;

use serde_json::{Value, json};

use crate::common::Workplace;

fn inspected(workplace: &Workplace, arguments: &[&str]) -> Value {
    workplace.run([&["inspect"], arguments, &["--format", "json"]].concat()).json()
}

fn rows(workplace: &Workplace, from: &str, sql: &str) -> Vec<Value> {
    let found = workplace.run(["sql", "-q", "--format", "json", "--from", from, "-c", sql]).json();
    found.as_array().unwrap().clone()
}

#[test]
fn lessons_are_what_the_feed_gives_a_trainer() {
    let workplace = Workplace::new();
    workplace.traces(9, 40, "traces");
    // A template that drops chains, as R1-Distill's does.
    for file in ["config.json", "tokenizer.json"] {
        workplace
            .write(&format!("drops/{file}"), std::fs::read(workplace.path(&format!("data/model/{file}"))).unwrap());
    }
    let template = "{% for message in messages %}<|im_start|>{{ message['content'].split('</think>')[-1] }}<|im_end|>\
                    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let config = json!({ "chat_template": template, "eos_token": "<|im_end|>" });
    workplace.write("drops/tokenizer_config.json", config.to_string());
    let shown = inspected(&workplace, &["traces", "--model", "data/model", "--max-length", "700"]);
    let (lessons, total) = (&shown["lessons"], &shown["lessons"]["total"]);
    let sql = "SELECT count(example) AS rows, sum(cardinality(example['input_ids'])) AS tokens, \
               sum(cardinality(array_remove_all(example['labels'], arrow_cast(-100, 'Int32')))) AS supervised, \
               count(*) FILTER (WHERE cardinality(example['input_ids']) > 700) AS over \
               FROM (SELECT cot_example(question, cot, answer) AS example FROM corpus WHERE status IS NULL)";
    let expected = &rows(&workplace, "traces", &format!("SET asap.scorer.model = 'data/model'; {sql}"))[0];
    for name in ["rows", "tokens", "supervised", "over"] {
        assert_eq!(total[name], expected[name], "{name}: {lessons}");
    }
    assert!(expected["over"].as_u64() > Some(0) && total["no_end"] == total["over"], "{total}");
    let feed = "feed --data traces --model data/model --count --max-length 700 --step-tokens 700";
    let feed = workplace.run(feed.split(' ')).json();
    assert_eq!((&lessons["packed_steps"], &total["over"]), (&feed["steps"], &feed["too_long"]));
    let loss = 1.0 - feed["tokens"].as_f64().unwrap() / (700.0 * feed["steps"].as_f64().unwrap());
    assert!((lessons["packing_loss"].as_f64().unwrap() - loss).abs() < 1e-9);
    assert_eq!((&total["chain_dropped"], lessons["sample"].as_array().unwrap().len()), (&json!(0), 2));
    let marked = &lessons["sample"][0];
    assert!(marked["supervised"].as_str().unwrap().ends_with("<|im_end|>"), "{marked}");

    let shown = inspected(&workplace, &["traces", "--model", "drops"]);
    let total = &shown["lessons"]["total"];
    assert!(total["chain_dropped"] == total["rows"] && total["rows"].as_u64() > Some(0), "{total}");
    let table = workplace.run("inspect traces --model drops --max-length 700".split(' ')).ok().to_string();
    assert!(table.contains("drops the chain of 40 of 40 rows") && table.contains(" [["), "{table}");
}

/// Words that no other call repeats.
fn words(of: &str, count: usize) -> String {
    (0..count)
        .map(|n| format!("{of}{}", (b'a' + (n % 26) as u8) as char).repeat(1 + n / 26))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Letters alone, from a number.
fn letters(mut number: usize) -> String {
    let mut letters = String::from("q");
    for _ in 0..4 {
        letters.push((b'a' + (number % 26) as u8) as char);
        number /= 26;
    }
    letters
}

#[test]
fn planted_faults_of_calls_are_found_and_nothing_else() {
    let workplace = Workplace::new();
    let call = |id: &str, arguments: &str| json!({ "id": id, "function": { "name": "add", "arguments": arguments } });
    let calls = |calls: &[Value]| json!({ "role": "assistant", "reasoning_content": "Add.", "tool_calls": calls });
    let result = |id: Option<&str>| json!({ "role": "tool", "tool_call_id": id, "content": "3" });
    let said = |text: &str| json!({ "role": "assistant", "content": text });
    let asked = |n: usize| json!({ "role": "user", "content": words(&letters(n), 30) });
    let fine = call("c1", r#"{"a": 1, "b": 2}"#);
    let conversations = [
        ("clean", vec![calls(&[fine.clone(), call("c2", "{}")]), result(Some("c2")), result(Some("c1")), said("3")]),
        // By order, and without an answer to what is said last.
        ("clean", vec![calls(from_ref(&fine)), result(None), calls(from_ref(&fine))]),
        ("clean", vec![said("<tool_call>\n{}\n</tool_call>"), result(None), said("3")]),
        ("clean", vec![json!({ "role": "assistant", "reasoning_content": "Add.", "content": "3" })]),
        ("call_without_result", vec![calls(&[fine.clone(), call("c2", "{}")]), result(Some("c1")), said("3")]),
        ("result_without_call", vec![calls(from_ref(&fine)), result(Some("c1")), result(Some("c9")), said("3")]),
        ("arguments_not_json", vec![calls(&[call("c1", "{1, 2}")]), result(Some("c1")), said("3")]),
        (
            "call_id_twice",
            vec![calls(&[fine.clone(), call("c1", "{}")]), result(Some("c1")), result(Some("c1")), said("3")],
        ),
    ];
    let row = |n: usize| {
        let (fault, turns) = &conversations[n % conversations.len()];
        let messages: Vec<Value> = [asked(n)].into_iter().chain(turns.iter().cloned()).collect();
        json!({ "id": format!("{fault}-{n}"), "messages": messages }).to_string()
    };
    workplace.write("talk.jsonl", (0..70).map(row).collect::<Vec<_>>().join("\n"));
    let faults = inspected(&workplace, &["talk.jsonl", "--health"])["health"]["faults"].clone();
    for fault in faults.as_array().unwrap() {
        let (name, keep) = (fault["fault"].as_str().unwrap(), fault["keep"].as_str().unwrap());
        let removed = rows(&workplace, "talk.jsonl", &format!("SELECT id FROM corpus WHERE NOT ({keep})"));
        let removed: BTreeSet<&str> = removed.iter().map(|row| row["id"].as_str().unwrap()).collect();
        let is_planted = |n: &usize| conversations[n % conversations.len()].0 == name;
        let expected: Vec<String> = (0..70).filter(is_planted).map(|n| format!("{name}-{n}")).collect();
        assert_eq!(removed, expected.iter().map(String::as_str).collect(), "{fault}");
        assert_eq!(fault["rows"], json!(expected.len()), "{fault}");
    }
    let shown = workplace.run(["inspect", "talk.jsonl", "--rows", "1"]).ok().to_string();
    assert!(shown.contains("turns     5 turns, 2 tool calls, 1 thought of"), "{shown}");
}

#[test]
fn two_hundred_planted_faults_are_found_and_nothing_else() {
    let workplace = Workplace::new();
    let bench = |n: usize| match n % 2 {
        0 => format!("Find {} + {n}.", letters(n + 500)),
        _ => format!("A bench asks about {} and {n}, and adds: how many are left?", words(&letters(n + 700), 20)),
    };
    let questions = (0..60).map(|n| json!({ "problem": bench(n), "answer": "1" }).to_string());
    workplace.write("bench.jsonl", questions.collect::<Vec<_>>().join("\n"));
    let clean = |id: String, n: usize| {
        let (question, cot) = (words(&letters(n), 30), format!("{} so 1 + {n} = {}", words(&letters(n), 60), n + 1));
        let answer = format!("It is \\boxed{{{}}}.", n + 1);
        json!({ "id": id, "question": question, "cot": cot, "original_cot": cot, "answer": answer,
                "expected_answer": (n + 1).to_string(), "finish_reason": "stop" })
    };
    let mut made: Vec<Value> = (0..400).map(|n| clean(format!("clean-{n}"), n)).collect();
    made[5]["finish_reason"] = json!("whatever");
    let planted = [
        ("cut_off", 30),
        ("loop", 30),
        ("mixed_scripts", 30),
        ("hollow", 30),
        ("wrong_answer", 25),
        ("duplicate", 25),
        ("contaminated", 30),
    ];
    for (kind, (fault, count)) in planted.into_iter().enumerate() {
        for n in 0..count {
            let mut row = clean(format!("{fault}-{n}"), 1000 * (kind + 1) + n);
            let (question, cot) = (made[n]["question"].as_str().unwrap(), row["cot"].as_str().unwrap().to_string());
            match fault {
                "cut_off" => row["finish_reason"] = json!(["length", "MAX_TOKENS", "model_length"][n % 3]),
                "loop" => row["cot"] = json!(format!("{cot} {}", "Wait, let me check this. ".repeat(10 + n))),
                "mixed_scripts" => row["cot"] = json!(format!("{cot} {}", ["所以", "Итак", "그래서"][n % 3])),
                "hollow" => row["cot"] = json!(words(&letters(n), 9)),
                "wrong_answer" => row["answer"] = json!("It is \\boxed{7}."),
                "duplicate" => row["question"] = json!(format!("{}\n?", question.replace(' ', "\n"))),
                // Short, embedded, wrapped anew.
                _ => {
                    row["question"] =
                        json!(format!("Please help {}: {} Thanks.", letters(n), bench(n).replace(' ', "\n> ")))
                }
            }
            made.push(row);
        }
    }
    let lines: Vec<String> = made.iter().map(Value::to_string).collect();
    workplace.write("made.jsonl", lines.join("\n"));
    let shown = inspected(&workplace, &["made.jsonl", "--health", "--bench", "bench.jsonl"]);
    let health = &shown["health"];
    assert_eq!((&health["unknown_finish_reasons"], &health["not_checked"]), (&json!({ "whatever": 1 }), &json!([])));
    let faults = health["faults"].as_array().unwrap();
    // Those of conversations are planted below.
    assert_eq!(faults.len(), planted.len() + 4);
    for (fault, count) in planted {
        let found = faults.iter().find(|found| found["fault"] == fault).unwrap();
        let keep = found["keep"].as_str().unwrap();
        let removed = rows(&workplace, "made.jsonl", &format!("SELECT id FROM corpus WHERE NOT ({keep})"));
        let removed: BTreeSet<&str> = removed.iter().map(|row| row["id"].as_str().unwrap()).collect();
        let expected: Vec<String> = (0..count).map(|n| format!("{fault}-{n}")).collect();
        assert_eq!(removed, expected.iter().map(String::as_str).collect(), "{found}");
        assert_eq!((&found["rows"], found["examples"].as_array().unwrap().len()), (&json!(count), 3), "{found}");
    }
    let table = workplace.run("inspect made.jsonl --health --bench bench.jsonl".split(' ')).ok().to_string();
    assert!(
        table.contains("finish reason 'whatever' of 1 row") && table.contains("\nhollow\n  WHERE (cot_hollow("),
        "{table}"
    );
    // Each file is checked by the columns that it has.
    let row = |n: usize, more: Value| {
        let mut row =
            json!({ "question": words(&letters(n), 30), "cot": "So 1 + 1 = 2.", "answer": "It is \\boxed{2}." });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row.to_string()
    };
    workplace.write("mixed/a.jsonl", row(1, json!({ "finish_reason": "length", "expected_answer": 3 })));
    workplace.write("mixed/b.jsonl", row(2, json!({ "stop_reason": "max_tokens", "gold": "4" })));
    workplace.write("mixed/c.jsonl", row(3, json!({ "answer": "" })));
    let shown = inspected(&workplace, &["mixed", "--health"])["health"].clone();
    let fault = |name: &str| shown["faults"].as_array().unwrap().iter().find(|found| found["fault"] == name).unwrap();
    for name in ["cut_off", "wrong_answer"] {
        assert_eq!(fault(name)["rows"], 2, "{shown}");
    }
    assert_eq!(shown["rejected"], json!({ "no_answer": 1 }));
    let table = workplace.run(["inspect", "mixed", "--health"]).ok().to_string();
    assert!(table.contains("rejected     1 row that asap run would reject, by status: 1 no_answer"), "{table}");
    let unchecked = shown["not_checked"].to_string();
    assert!(unchecked.contains("done_reason, finish_reasons in 1 of 3 rows"), "{unchecked}");
    let other = workplace.run(["inspect", "mixed", "--health", "--bench", "data/model/config.json"]);
    other.ends_in(&[1, 2], &["config.json is not a benchmark: line 1 of", "question"]);
    // Without columns to check, a line names what is missing.
    workplace.write("bare.jsonl", json!({ "question": "q", "cot": "c", "answer": "a" }).to_string());
    let bare = workplace.run(["inspect", "bare.jsonl", "--health"]).ok().to_string();
    assert!(
        bare.contains("not checked  cut_off: no column finish_reason") && bare.contains("name benchmarks with --bench")
    );
    assert!(bare.contains("not checked  wrong_answer, except by flags"), "{bare}");
}
