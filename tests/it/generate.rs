//! `asap generate`: answers of a model.

use serde_json::json;

use crate::common::{Workplace, json_lines};

const SMALL: [&str; 5] = ["generate", "--model", "small", "--max-tokens", "24"];

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
    // The nucleus has only the likeliest token.
    assert_eq!(answers(&["--temperature", "1.5", "--top-p", "1e-9"]), likeliest);
    let stop = likeliest.chars().nth(5).unwrap().to_string();
    let cut = likeliest.split(&stop).next().unwrap();
    assert_eq!(answers(&["--stop", "no such text", "--stop", &stop]).strip_suffix('\n'), Some(cut));
}

#[test]
fn rows_are_answered_in_their_order_and_one_that_cannot_be_asked_says_why() {
    let workplace = Workplace::new();
    let long = "7 + 8 = ".repeat(40_000);
    let rows: Vec<String> = (0..40)
        .map(|row| match row {
            3 => json!({ "problem": long, "n": row }).to_string(),
            5 => json!({ "problem": null, "n": row }).to_string(),
            _ => json!({ "problem": format!("What is {row} + 4?"), "n": row }).to_string(),
        })
        .collect();
    workplace.write("asked.jsonl", rows.join("\n"));
    let asked = [&SMALL[..], &["--data", "asked.jsonl", "--column", "problem", "--samples", "2", "--temperature", "1"]];
    let finished = workplace.run(&asked.concat());
    let found = json_lines(finished.ok());
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
    assert!(
        refused.contains("tokens with the chat template leave no room for an answer: the model's window is"),
        "{refused}"
    );
    assert!(finished.stderr.contains("1 rows have no question"), "{}", finished.stderr);
    // Each answer can be read as a row in SQL.
    workplace.write("answers.json", &finished.stdout);
    let counted = "SELECT count(*) AS lines, count(text) AS texts, count(error) AS errors FROM 'answers.json'";
    assert_eq!(workplace.csv(&[counted]), "lines,texts,errors\n77,76,1\n");
    // The other rows of a batch do not change an answer.
    workplace.write("asked.jsonl", rows[..2].join("\n"));
    assert_eq!(json_lines(workplace.run(&asked.concat()).ok()), found[..4]);
}
