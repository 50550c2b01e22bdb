use serde_json::json;

use super::*;
use crate::example::Encoded;
use crate::testing::{cases, golden_tokenizer};

/// A line of `tests/lessons.jsonl`: a chat template, its special tokens, and the examples of [`conversations`], of transformers.
/// No examples: the template loses a part.
#[derive(serde::Deserialize)]
struct Case {
    why: String,
    template: String,
    special: Vec<String>,
    conversations: Vec<Option<Vec<Golden>>>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Golden {
    ids: Vec<u32>,
    learned: Vec<[usize; 2]>,
}

const TOOLS: &str = r#"[{"function": {"description": "Adds <a> & 'b'.", "name": "add", "parameters":
    "{\"type\": \"object\", \"properties\": {\"b\": {\"type\": \"number\"}, \"a\": {\"type\": \"number\"}}}"}}]"#;

/// Two exchanges with a call, the same without the thought before the call, and two exchanges without a call.
fn conversations() -> [Conversation<'static>; 3] {
    let said = |role, text: &'static str| Turn { role, text: Some(text.into()), ..Turn::default() };
    let [id, name] = ["c1", "add"].map(|text| Some(Cow::Borrowed(text)));
    let call = Call { id: id.clone(), name: name.clone(), arguments: Some(r#"{"b": 5.0, "a":8}"#.into()) };
    let turns = vec![
        said("system", "Be brief."),
        said("user", "8 + 5?"),
        Turn { role: "assistant", calls: vec![call], ..Turn::default() },
        Turn { call_id: id, name, ..said("tool", "13") },
        said("assistant", "It is 13."),
        said("user", "And 2?"),
        said("assistant", "15"),
    ];
    let thought = |text: &'static str| Some(Thought { text: text.into(), steps: None });
    let first = thought("A sum.\n\nThe tool adds.");
    let mut thoughts = vec![None, None, first, None, thought("So 13."), None, thought("13 and 2.\n\nSo 15.")];
    let whole = Conversation { turns: turns.clone(), thoughts: thoughts.clone(), tools: Some(TOOLS) };
    thoughts[2] = None;
    let emptied = Conversation { thoughts: thoughts.clone(), ..whole.clone() };
    let kept = [0, 1, 4, 5, 6];
    let turns = kept.iter().map(|place| turns[*place].clone()).collect();
    let thoughts = kept.iter().map(|place| thoughts[*place].clone()).collect();
    [whole, emptied, Conversation { turns, thoughts, tools: Some(TOOLS) }]
}

fn load(template: Option<&str>, special: &[String]) -> (Tokenizer, ExampleTemplate) {
    let folder = tempfile::tempdir().unwrap();
    let mut tokenizer = golden_tokenizer("qwen2");
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    let first = added.iter().filter_map(|token| token["id"].as_u64()).max().unwrap() + 1;
    added.extend(special.iter().zip(first..).map(|(token, id)| {
        json!({ "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true })
    }));
    let write = |name: &str, content: &serde_json::Value| {
        std::fs::write(folder.path().join(name), content.to_string()).unwrap();
    };
    write("tokenizer.json", &tokenizer);
    write("tokenizer_config.json", &json!({ "chat_template": template, "eos_token": "<|endoftext|>" }));
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    let template = ExampleTemplate::load(folder.path(), None, &tokenizer).unwrap();
    (tokenizer, template)
}

/// An example whose pieces of a response that follow each other are one.
fn golden(example: &Example) -> Golden {
    let mut learned: Vec<[usize; 2]> = vec![];
    for own in &example.learned {
        match learned.last_mut().filter(|last| last[1] == own.start && last[1] + 1 < own.end) {
            Some(last) => last[1] = own.end,
            None => learned.push([own.start, own.end]),
        }
    }
    Golden { ids: example.ids.clone(), learned }
}

#[test]
fn each_response_follows_what_its_model_is_given() {
    for Case { why, template, special, conversations: goldens } in cases("lessons.jsonl") {
        let (tokenizer, template) = load(Some(&template), &special);
        for (number, (conversation, expected)) in conversations().iter().zip(goldens).enumerate() {
            let found = template.encode_conversation(&tokenizer, conversation, usize::MAX, Long::Drop);
            match (found, expected) {
                (Ok(Encoded::Whole(examples)), Some(expected)) => {
                    let found: Vec<Golden> = examples.iter().map(golden).collect();
                    let texts = |found: &[Golden]| {
                        let text = |golden: &Golden| tokenizer.text(&golden.ids).unwrap();
                        found.iter().map(text).collect::<Vec<_>>()
                    };
                    assert_eq!(texts(&found), texts(&expected), "{why} {number}");
                    assert_eq!(found, expected, "{why} {number}");
                }
                (Err(LmError::Prompt(error)), None) => {
                    assert!(error.contains("loses the calls of turn 3"), "{why} {number}: {error}");
                }
                (found, _) => panic!("{why} {number}: {found:?}"),
            }
        }
    }
}

#[test]
fn a_response_without_tokens_of_its_own_ends() {
    let (tokenizer, template) = load(Some("{% for m in messages %}{{ m.content }}{% endfor %}"), &[]);
    let said = |role, text: &'static str| Turn { role, text: Some(text.into()), ..Turn::default() };
    let turns = vec![said("user", "8 + 5?"), said("assistant", ""), said("user", "Go on."), said("assistant", "13")];
    let conversation = Conversation { thoughts: vec![None; turns.len()], turns, tools: None };
    let found = template.encode_conversation(&tokenizer, &conversation, usize::MAX, Long::Drop).unwrap();
    let Encoded::Whole(examples) = found else { panic!("expected whole examples") };
    assert_eq!(
        examples.last().map(|example| tokenizer.text(&example.ids).unwrap()).unwrap(),
        "8 + 5?Go on.13<|endoftext|>"
    );
}

#[test]
fn of_thoughts_only_the_kept_steps_are_learned() {
    let Case { template, special, .. } = cases("lessons.jsonl").swap_remove(0);
    let (tokenizer, template) = load(Some(&template), &special);
    let [mut conversation, ..] = conversations();
    let masks =
        [(2, vec![(0..6, false), (8..22, true)]), (4, vec![(0..6, false)]), (6, vec![(0..9, true), (11..17, true)])];
    for (place, mask) in masks {
        conversation.thoughts[place].as_mut().unwrap().steps = Some(mask);
    }
    let found = template.encode_conversation(&tokenizer, &conversation, usize::MAX, Long::Drop).unwrap();
    let Encoded::Whole(examples) = found else { panic!("expected whole examples") };
    let learned = |example: &Example| -> Vec<String> {
        example.learned.iter().map(|own| tokenizer.text(&example.ids[own.clone()]).unwrap()).collect()
    };
    // A token of a full stop and line ends belongs to the step before.
    let call =
        "</think>\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 5.0, \"a\": 8}}\n</tool_call><|im_end|>";
    let first = ["<think>\n", "The tool adds.\n", call, "<think>\n", "</think>\n\nIt is 13.<|im_end|>"];
    assert_eq!(learned(&examples[0]), first);
    assert_eq!(learned(&examples[1]), ["<think>\n", "13 and 2.\n\n", "So 15.\n", "</think>\n\n15<|im_end|>"]);
}

#[test]
fn a_conversation_is_too_long_if_one_of_its_examples_is() {
    let Case { template, special, .. } = cases("lessons.jsonl").swap_remove(0);
    let (tokenizer, template) = load(Some(&template), &special);
    let [conversation, ..] = conversations();
    let encode = |most, long| template.encode_conversation(&tokenizer, &conversation, most, long).unwrap();
    let Encoded::Whole(examples) = encode(usize::MAX, Long::Drop) else { panic!("expected whole examples") };
    let [first, last] = [0, 1].map(|place| examples[place].ids.len());
    assert!(first != last);
    let most = first.max(last) - 1;
    assert_eq!(encode(most, Long::Drop), Encoded::TooLong(most + 1));
    let Encoded::Cut(cut) = encode(most, Long::Cut) else { panic!("expected cut examples") };
    assert_eq!(cut.iter().map(|example| example.ids.len()).collect::<Vec<_>>(), [first.min(most), last.min(most)]);
    assert_eq!(encode(9, Long::Cut), Encoded::TooLong(first.max(last)));
}

#[test]
fn what_a_template_loses_is_named() {
    let [conversation, _, simple] = conversations();
    let refused = |template: Option<&str>, conversation: &Conversation| {
        let (tokenizer, template) = load(template, &[]);
        template.encode_conversation(&tokenizer, conversation, usize::MAX, Long::Drop).unwrap_err().to_string()
    };
    assert!(refused(None, &conversation).contains("has no chat template"));
    let loud =
        "{% for m in messages %}{{ m.role }}: {{ m.content | upper if loop.index == 3 else m.content }}\n{% endfor %}";
    assert!(refused(Some(loud), &simple).contains("loses the thought of turn 3 (assistant)"));
    let chatml = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    for tools in ["add", r#"["add"]"#] {
        let wrong = Conversation { tools: Some(tools), ..simple.clone() };
        assert!(refused(Some(chatml), &wrong).contains("expected tools as a list of objects in JSON"));
    }
}
