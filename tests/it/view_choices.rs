//! `asap view` of outputs that choose among chains, and of what `--loss kept` learns.

use serde_json::{Value, json};

use crate::common::Workplace;

/// A generation that thinks in this many steps and answers.
fn generation(steps: usize, answer: u32) -> String {
    let steps: Vec<_> = (0..steps).map(|step| format!("Step {step}: 2 and 2 is {answer}.")).collect();
    format!("<think>\n{}\n</think>\n\nIt is \\boxed{{{answer}}}.", steps.join("\n\n"))
}

/// Questions of which the samples with these steps are correct, and one more is wrong.
fn sampled(of: &[&[usize]]) -> Workplace {
    let workplace = Workplace::new();
    let line = |(number, steps): (usize, &&[usize])| {
        let right = steps.iter().map(|steps| generation(*steps, 4));
        let generations: Vec<_> = right.chain([generation(1, 5)]).collect();
        let correctness: Vec<_> = (0..generations.len()).map(|place| place < steps.len()).collect();
        let question = format!("{number}: 2 + 2?");
        json!({"question": question, "answer": "4", "generations": generations, "correctness": correctness}).to_string()
            + "\n"
    };
    workplace.write("in/a.jsonl", of.iter().enumerate().map(line).collect::<String>());
    workplace
}

fn run(workplace: &Workplace, pipeline: &str) {
    workplace.run(["run", pipeline, "--from", "in", "--to", "out"]).ok();
}

fn report(workplace: &Workplace) -> Value {
    workplace.run(["view", "out", "--to", "report.json"]).ok();
    serde_json::from_slice(&std::fs::read(workplace.path("report.json")).unwrap()).unwrap()
}

/// The rows of a picture, if the report has it. Its query gives them again.
fn picture(workplace: &Workplace, report: &Value, name: &str) -> Option<Value> {
    let picture = report["pictures"].as_array().unwrap().iter().find(|picture| picture["name"] == name)?;
    let again = workplace.rows(picture["sql"].as_str().unwrap());
    assert_eq!(json!(again), picture["rows"], "{name}");
    Some(picture["rows"].clone())
}

#[test]
fn correct_samples_are_counted_and_lost_questions_are_named() {
    let workplace = sampled(&[&[2, 6], &[3, 1, 2], &[], &[5, 4]]);
    run(&workplace, "shortest_correct");
    let found = report(&workplace);
    let expected =
        [(0, 1), (2, 2), (3, 1)].map(|(correct, questions)| json!({"correct": correct, "questions": questions}));
    assert_eq!(picture(&workplace, &found, "correct"), Some(json!(expected)));
    let chosen = picture(&workplace, &found, "chosen").unwrap();
    let kept = workplace.rows("SELECT pruned_tokens AS kept FROM 'out' ORDER BY source['row']");
    assert_eq!(chosen.as_array().unwrap().len(), kept.len());
    for (row, kept) in chosen.as_array().unwrap().iter().zip(&kept) {
        assert_eq!(row["kept"], kept["kept"]);
        // The tokens of the chosen sample, and one and a half times to twice as many in the mean.
        let share = row["original"].as_f64().unwrap() / row["kept"].as_f64().unwrap();
        assert!((1.1..2.1).contains(&share), "{row}");
    }
    assert_eq!(picture(&workplace, &found, "ratios"), None);
    let said = found["sentences"].to_string();
    assert!(
        said.contains("1 of 4 questions (25.0 %) have no correct sample: the model learns nothing of them."),
        "{said}"
    );
    workplace.run(["view", "out", "--to", "report.html"]).ok();
    let page = std::fs::read_to_string(workplace.path("report.html")).unwrap();
    assert!(page.contains(">0 correct</text>") && page.contains(">1 (25.0 %)</text>"), "{page}");
    assert!(!page.contains("--loss kept"), "nothing was dropped");
}

#[test]
fn the_closest_correct_sample_has_its_ratio() {
    let workplace = sampled(&[&[2, 6], &[3, 1, 2], &[7, 4]]);
    run(&workplace, "closest_correct");
    let lowest = "SELECT count(*) AS rows FROM (SELECT max(ratio) AS ratio, min(cot_rank_surprisal(question, cot_think(sample), \
                  cot_response(sample))['ratio']) AS lowest FROM (SELECT source['row'] AS row, question, ratio, unnest(generations) AS \
                  sample FROM 'out') WHERE cot_verify('4', sample) GROUP BY row) WHERE abs(ratio / lowest - 1) < 0.0001";
    assert_eq!(workplace.rows(lowest), [json!({"rows": 3})]);
    let found = report(&workplace);
    let ratios = picture(&workplace, &found, "ratios").unwrap();
    let sum = |name: &str| ratios.as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("chains"), sum("chosen")), (3, 3));
    assert_eq!(picture(&workplace, &found, "correct").unwrap()[0], json!({"correct": 2, "questions": 2}));
    assert!(!found["sentences"].to_string().contains("no correct sample"));
}

#[test]
fn ratios_are_shown_by_teacher() {
    let workplace = Workplace::new();
    let line = |number: usize| {
        let (question, teacher) = (format!("What is {} + 2?", number / 2), ["one", "two"][number % 2]);
        let cot = "Let me add two and see.\n\n".repeat(1 + number % 3);
        json!({"question": question, "cot": cot, "answer": (number / 2 + 2).to_string(), "teacher": teacher})
            .to_string()
            + "\n"
    };
    workplace.write("in/a.jsonl", (0..12).map(line).collect::<String>());
    let page = std::fs::read_to_string(crate::common::root().join("docs/learn_from_parts.md")).unwrap();
    workplace.write("ratio.sql", page.split("```sql\n").nth(1).unwrap().split("```").next().unwrap());
    workplace.run(["run", "ratio.sql", "--from", "in", "--to", "out"]).ok();
    let found = report(&workplace);
    let ratios = picture(&workplace, &found, "ratios").unwrap();
    let of = |teacher: &str, name: &str| -> u64 {
        let own = ratios.as_array().unwrap().iter().filter(|row| row["teacher"] == teacher);
        own.map(|row| row[name].as_u64().unwrap()).sum()
    };
    let lowest = "SELECT teacher, count(*) AS chosen FROM 'out' AS a WHERE ratio = (SELECT min(ratio) FROM 'out' AS b WHERE \
                  b.question = a.question) GROUP BY teacher ORDER BY teacher";
    let lowest: Vec<Value> = workplace.rows(lowest);
    assert_eq!((of("one", "chains"), of("two", "chains")), (6, 6));
    assert_eq!(lowest.iter().map(|row| row["chosen"].as_u64().unwrap()).sum::<u64>(), 6);
    for row in &lowest {
        assert_eq!(row["chosen"], of(row["teacher"].as_str().unwrap(), "chosen"));
    }
    workplace.run(["view", "out", "--to", "report.html"]).ok();
    let page = std::fs::read_to_string(workplace.path("report.html")).unwrap();
    let one = format!(">6 chains, {} chosen</text>", of("one", "chosen"));
    assert!(page.contains(&one) && page.contains(">chosen: 6 chains</text>"), "{page}");
}

#[test]
fn the_steps_that_a_mask_learns_are_counted() {
    let workplace = Workplace::new();
    workplace.traces(1, 12, "in");
    workplace.prune("random", "out", &["--ratio", "0.5"]).ok();
    let sql = "SELECT id, CAST(sum(s['tokens']) AS BIGINT) AS tokens, CAST(sum(CASE WHEN s['dropped'] IS NULL THEN s['tokens'] END) AS \
               BIGINT) AS learned FROM (SELECT id, unnest(steps) AS s FROM 'out') GROUP BY id ORDER BY id LIMIT 1";
    let row = &workplace.rows(sql)[0];
    workplace
        .run(["view", "out", "--to", "r.html", "--where", &format!("id = '{}'", row["id"].as_str().unwrap())])
        .ok();
    let page = std::fs::read_to_string(workplace.path("r.html")).unwrap();
    let number = |name: &str| asap::output::count(row[name].as_u64().unwrap());
    let said = format!("learns only the kept ones: {} of {} tokens.", number("learned"), number("tokens"));
    assert_eq!(page.matches(&said).count(), 1, "{said}");
}
