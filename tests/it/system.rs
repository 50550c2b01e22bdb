//! System prompts: training and scoring use the system prompt under which a chain was generated.

use serde_json::{Value, json};

use crate::common::Workplace;

/// Two conversations that differ only in their system prompt, and one without.
fn conversations() -> Workplace {
    let workplace = Workplace::new();
    workplace.write("asap.toml", "scorer.model = 'tests/goldens/qwen2'");
    let turn = |role: &str, content: &str| json!({ "role": role, "content": content });
    let chain = "<think>\nOne and one.\n\nThat is two.\n</think>\nTwo.";
    let rows = [Some("You are terse."), Some("You are a pirate who speaks in rhymes."), None].map(|system| {
        let turns = system.map(|system| turn("system", system)).into_iter();
        let turns: Vec<_> = turns.chain([turn("user", "1 + 1?"), turn("assistant", chain)]).collect();
        json!({ "messages": turns }).to_string()
    });
    workplace.write("in/a.jsonl", rows.join("\n"));
    workplace
}

#[test]
fn a_system_prompt_is_part_of_the_prompt_and_of_what_is_scored() {
    let workplace = conversations();
    let sql = "SELECT * FROM pruned((WITH scored AS (SELECT *, cot_surprisal(question, cot_steps(cot)) AS surprisal FROM corpus) \
               SELECT *, cot_refine(cot_steps(cot), surprisal) AS kept FROM scored))";
    workplace.write("mine.sql", sql);
    workplace.prune("mine.sql", "out", &[]).ok();
    let found = workplace.rows(
        "SELECT question, system, cot_turns(prompt, 'system') AS asked, cot_turns(messages, 'system') AS said, \
         cardinality(messages) AS turns, steps[1]['surprisal'] AS scored FROM 'out' ORDER BY source['row']",
    );
    let [terse, pirate, none] = found.as_slice() else { panic!("{found:?}") };
    for (row, system) in [(terse, "You are terse."), (pirate, "You are a pirate who speaks in rhymes.")] {
        assert_eq!((&row["question"], &row["system"]), (&"1 + 1?".into(), &system.into()));
        assert_eq!((&row["asked"][0], &row["said"][0], &row["turns"]), (&system.into(), &system.into(), &3.into()));
    }
    assert_eq!((&none["system"], &none["asked"], &none["turns"]), (&Value::Null, &json!([]), &2.into()));
    let scores = [terse, pirate, none].map(|row| row["scored"].as_f64().unwrap());
    assert!(scores[0] != scores[1] && scores[0] != scores[2], "{scores:?}");
    // The scores equal those of the function itself. The output, read as a corpus, still has the prompts.
    let direct = workplace
        .rows("SELECT cot_surprisal(prompt, cot_steps(original_cot))[1] AS scored FROM 'out' ORDER BY source['row']");
    assert_eq!(direct.iter().map(|row| row["scored"].as_f64().unwrap()).collect::<Vec<_>>(), scores);
    let again = workplace.csv(&["SELECT system FROM cot_corpus('out') ORDER BY source['row']"]);
    assert!(again.contains("You are terse."), "{again}");
}

#[test]
fn a_system_prompt_is_part_of_an_example() {
    let workplace = conversations();
    workplace.prune("examples", "examples", &["--originals", "none"]).ok();
    let sql = "SELECT cardinality(input_ids) AS tokens, cardinality(array_positions(labels, -100)) AS prompt \
               FROM 'examples' ORDER BY source['row']";
    let found = workplace.rows(sql);
    let tokens: Vec<(u64, u64)> =
        found.iter().map(|row| (row["tokens"].as_u64().unwrap(), row["prompt"].as_u64().unwrap())).collect();
    let [terse, pirate, none] = tokens.as_slice() else { panic!("{tokens:?}") };
    assert!(none.1 < terse.1 && terse.1 < pirate.1, "{tokens:?}");
    assert!(tokens.iter().all(|(tokens, prompt)| tokens - prompt == none.0 - none.1), "{tokens:?}");
    // A feed has the same tokens.
    workplace.shell("asap feed --data in --model tests/goldens/qwen2 --step 3 > steps.arrow").ok();
    let table = "CREATE EXTERNAL TABLE steps STORED AS ARROW LOCATION 'steps.arrow'";
    let found = workplace.csv(&[table, "SELECT cardinality(input_ids) AS n FROM steps ORDER BY n"]);
    let mut expected: Vec<u64> = tokens.iter().map(|row| row.0).collect();
    expected.sort_unstable();
    let found: Vec<u64> = found.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert_eq!(found, expected);
}
