//! Pipelines that keep what still leads to the answer.

use crate::common::{Workplace, root};

fn rows(count: usize, answer: impl Fn(usize) -> String) -> String {
    let chain = |n: usize| {
        let steps = (0..8).map(|step| format!("Step {step}: we need {n} + {step}, so that is {}.", n + step));
        steps.collect::<Vec<_>>().join("\\n\\n")
    };
    let row = |n| format!(r#"{{"question": "What is {n} + 7?", "cot": "{}", "answer": "{}"}}"#, chain(n), answer(n));
    (0..count).map(row).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_verified_chain_is_the_shortest_whose_answer_survives_or_the_original() {
    let workplace = Workplace::empty();
    let program = |n: usize| format!("```python\\nprint({n} + 7)\\n```");
    // A row without an answer and a chain beyond the window are rejects.
    let long = "one two three four five ".repeat(4000);
    let bad = format!(
        "{{\"question\": \"q\", \"cot\": \"a\", \"answer\": \"\"}}\n{{\"question\": \"q\", \"cot\": \"{long}\", \"answer\": \"4\"}}"
    );
    workplace.write("in.jsonl", [rows(6, |n| if n < 3 { (n + 7).to_string() } else { program(n) }), bad].join("\n"));
    let model = format!("asap.scorer.model={}", root().join("tests/goldens/qwen2").display());
    let run = ["run", "verified", "--from", "in.jsonl", "--set", &model, "--to"];
    let counted = workplace.run([&run[..], &["dry", "--dry-run"]].concat());
    assert!(counted.ok().contains("tokens to read by asap.scorer.model"), "{counted:?}");
    let summary = workplace.run([&run[..], &["out", "--format", "json"]].concat()).json();
    assert_eq!(summary["rows_out"], 6, "{summary}");
    assert_eq!(summary["rejects"], serde_json::json!({"no_answer": 1, "too_long": 1}), "{summary}");
    let sql = "SELECT rung, log_probability, stated, survives, original_tokens, pruned_tokens FROM t ORDER BY question";
    for (n, row) in workplace.rows_of("out", sql).iter().enumerate() {
        let [rung, log_probability] = ["rung", "log_probability"].map(|name| row[name].as_f64().unwrap());
        let [before, after] = ["original_tokens", "pruned_tokens"].map(|name| row[name].as_f64().unwrap());
        assert!(log_probability < 0.0 && after <= rung * before, "{row}");
        assert_eq!((row["stated"].is_null(), row["survives"].is_null()), (n >= 3, n >= 3), "{row}");
        // What does not survive is the original.
        assert!(row["survives"] != false || after == before, "{row}");
    }
}

#[test]
fn the_shortest_correct_of_several_generations_is_kept() {
    let workplace = Workplace::empty();
    let generation =
        |chain: &str, answer: usize| format!(r#""<think>\n{chain}\n</think>\n\nIt is \\boxed{{{answer}}}.""#);
    let generations = [("So 2 + 2 is 4, I think.", 4), ("It is 4.", 4), ("5", 5)];
    let generations = generations.map(|(chain, answer)| generation(chain, answer)).join(", ");
    let row = |gold: usize| {
        format!(
            r#"{{"problem": "2 + 2?", "answer": "{gold}", "generations": [{generations}], "correctness_math_verify": [true, true, true]}}"#
        )
    };
    workplace.write("in.jsonl", [row(4), row(6)].join("\n"));
    let summary =
        workplace.run(["run", "shortest_correct", "--from", "in.jsonl", "--to", "out", "--format", "json"]).json();
    assert_eq!(summary["rejects"]["unverified"], 1, "{summary}");
    let rows = workplace.rows_of("out", "SELECT generation, cot, answer FROM t");
    assert_eq!((&rows[0]["generation"], &rows[0]["cot"]), (&2.into(), &"It is 4.".into()), "{rows:?}");
    assert_eq!(rows[0]["answer"], "It is \\boxed{4}.");
}
