//! `asap generate`: answers of a model.

use serde_json::Value;

use crate::common::Workplace;

const SMALL: [&str; 5] = ["generate", "--model", "small", "--max-tokens", "24"];

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_question_is_answered_and_a_seed_fixes_what_is_drawn() {
    let workplace = Workplace::new();
    let answers = |more: &[&str]| {
        let asked = [&SMALL[..], &["--prompt", "What is 17 + 25?"], more].concat();
        workplace.run(&asked).ok().to_string()
    };
    let likeliest = answers(&[]);
    assert!(!likeliest.trim().is_empty() && !likeliest.contains("<|"), "{likeliest}");
    assert_eq!(answers(&["--seed", "7"]), likeliest);
    let drawn = answers(&["--temperature", "1.5", "--samples", "3"]);
    assert_eq!(answers(&["--temperature", "1.5", "--samples", "3"]), drawn);
    assert_ne!(answers(&["--temperature", "1.5", "--samples", "3", "--seed", "7"]), drawn);
    assert!(drawn.starts_with(&answers(&["--temperature", "1.5"])), "{drawn}");
}

#[test]
fn rows_are_answered_in_their_order_and_one_that_cannot_be_asked_says_why() {
    let workplace = Workplace::new();
    let long = "7 + 8 = ".repeat(40_000);
    let rows: Vec<String> = (0..40)
        .map(|row| match row {
            3 => serde_json::json!({ "problem": long, "n": row }).to_string(),
            5 => serde_json::json!({ "problem": null, "n": row }).to_string(),
            _ => serde_json::json!({ "problem": format!("What is {row} + 4?"), "n": row }).to_string(),
        })
        .collect();
    std::fs::write(workplace.path("asked.jsonl"), rows.join("\n")).unwrap();
    let asked = [&SMALL[..], &["--data", "asked.jsonl", "--column", "problem", "--samples", "2", "--temperature", "1"]];
    let finished = workplace.run(&asked.concat());
    let found = lines(finished.ok());
    let places: Vec<(u64, u64)> =
        found.iter().map(|line| (line["row"].as_u64().unwrap(), line["sample"].as_u64().unwrap())).collect();
    let expected =
        (0..40).filter(|row| *row != 5).flat_map(|row| (0..if row == 3 { 1 } else { 2 }).map(move |n| (row, n)));
    assert_eq!(places, expected.collect::<Vec<_>>());
    for line in &found {
        let (tokens, is_answered) = (line["tokens_out"].as_u64(), line["row"] != 3);
        assert_eq!(
            (tokens.is_some(), line["text"].is_string(), line["error"].is_null()),
            (is_answered, is_answered, is_answered)
        );
        assert_eq!(line["finish"] == "length", tokens == Some(24), "{line}");
    }
    let refused = found[6]["error"].as_str().unwrap();
    assert!(refused.contains("tokens with the chat template, the model's window is"), "{refused}");
    assert!(finished.stderr.contains("1 rows have no question"), "{}", finished.stderr);
    // Each answer can be read as a row in SQL.
    std::fs::write(workplace.path("answers.json"), &finished.stdout).unwrap();
    let counted = "SELECT count(*) AS lines, count(text) AS texts, count(error) AS errors FROM 'answers.json'";
    let counted = workplace.run(&["sql", "-q", "--format", "json", "-c", counted]).json();
    assert_eq!(counted, serde_json::json!([{ "lines": 77, "texts": 76, "errors": 1 }]));
    // The other rows of a batch do not change an answer.
    std::fs::write(workplace.path("asked.jsonl"), rows[..2].join("\n")).unwrap();
    assert_eq!(lines(workplace.run(&asked.concat()).ok()), found[..4]);
}

#[test]
fn what_cannot_be_meant_is_refused_before_a_model_is_loaded() {
    let workplace = Workplace::new();
    let refused = |more: &[&str]| {
        let finished = workplace.run(&[&["generate", "--model", "nowhere/model"], more].concat());
        (finished.code, finished.stderr)
    };
    let (code, said) = refused(&["--prompt", "2?", "--samples", "4"]);
    assert!(code == 2 && said.contains("--temperature"), "{said}");
    let (code, said) = refused(&["--prompt", "2?", "--column", "q"]);
    assert!(code == 2 && said.contains("cannot be used with"), "{said}");
    let (code, said) = refused(&["--prompt", "2?"]);
    assert!(code == 1 && said.contains("nowhere/model"), "{said}");
    let finished = workplace.run(&[&SMALL[..], &["--data", "data/sample", "--column", "problm"]].concat());
    assert!(finished.code == 2 && finished.stderr.contains("problm"), "{}", finished.stderr);
}
