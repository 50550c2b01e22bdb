//! `asap eval --table`: every figure is computed again from the stored rows, and every format holds it.

use serde_json::{Value, json};

use crate::common::Workplace;
use crate::eval::{answering, ask, problems};

/// Evaluations of 40 problems, each with the number of its right answers.
fn place() -> Workplace {
    let workplace = Workplace::new();
    problems(&workplace, 40);
    for (to, right, tokens) in [("original", 20, 60), ("asap", 30, 30), ("random", 10, 45), ("asap-2", 24, 36)] {
        ask(&workplace, &answering(move |n| n < right, tokens), to, &["--budget", "512"]).ok();
    }
    ask(&workplace, &answering(|n| n < 25, 40), "sweep", &["--budget", "512,1024"]).ok();
    workplace
}

const TABLE: [&str; 9] =
    ["eval", "--table", "original=original", "asap=asap", "random=random", "--base", "original", "--svg", "figure.svg"];

#[test]
fn tables_are_the_stored_rows_in_every_format() {
    let workplace = place();
    let in_format = |format: &str| workplace.run([&TABLE[..], &["--format", format]].concat()).ok().to_string();
    let cells: Value = serde_json::from_str(in_format("json").lines().last().unwrap()).unwrap();
    for (cell, name) in cells["cells"].as_array().unwrap().iter().zip(["original", "asap", "random"]) {
        let rows = workplace.rows(&format!(
            "SELECT avg(CASE WHEN correct THEN 1.0 ELSE 0.0 END) AS accuracy, avg(tokens) AS tokens FROM '{name}'"
        ));
        assert_eq!((&cell["method"], &cell["accuracy"]["value"]), (&json!(name), &rows[0]["accuracy"]), "{cell}");
        assert_eq!(&cell["tokens"], &rows[0]["tokens"], "{cell}");
        assert!(cell["seconds_per_problem"].as_f64().unwrap() > 0.0 && cell["concurrency"] == 32, "{cell}");
    }
    let change = &cells["cells"][1]["change"];
    assert!((change["accuracy"]["value"].as_f64().unwrap() - 0.25).abs() < 1e-9, "{change}");
    // 10 of 40 differences are 1: the deviation is 0.4385, so the interval reaches 1.96 · 0.4385 / √40 = 0.1359.
    assert!((change["accuracy"]["high"].as_f64().unwrap() - 0.3859).abs() < 1e-4, "{change}");
    let tokens =
        |name: &str| workplace.rows(&format!("SELECT avg(tokens) AS t FROM '{name}'"))[0]["t"].as_f64().unwrap();
    let ratio = tokens("asap") / tokens("original") - 1.0;
    assert!((change["tokens"]["value"].as_f64().unwrap() - ratio).abs() < 1e-9, "{change}");

    let [markdown, csv, latex] = ["table", "csv", "latex"].map(in_format);
    assert!(markdown.contains("**75.00** (+25.0 [+11.4, +38.6])") && markdown.contains("<u>50.00</u>"), "{markdown}");
    assert!(latex.contains("\\textbf{75.00}") && latex.contains("\\underline{50.00}"), "{latex}");
    // Of the 10 problems on which they differ, asap solves all: p = 2 / 2^10, and twice that for two comparisons.
    let p_values = [&change["p_value"], &change["p_holm"]].map(|p_value| p_value.as_f64().unwrap());
    assert!((p_values[0] - 0.001953125).abs() < 1e-12 && p_values[1] == 2.0 * p_values[0], "{change}");
    assert!(markdown.contains("+38.6])†"), "{markdown}");
    assert_eq!((csv.lines().count(), csv.lines().next().unwrap().split(',').count()), (4, 22), "{csv}");
    assert!(csv.contains("asap,gsm8k,512,40,0,0.75,"), "{csv}");
    let figure = std::fs::read_to_string(workplace.path("figure.svg")).unwrap();
    assert!(figure.matches("<circle").count() == 6 && figure.contains("asap, budget 512: 75.0 %"), "{figure}");
}

#[test]
fn seeds_of_a_method_are_averaged() {
    let workplace = place();
    let arguments = ["eval", "--table", "original=original", "asap=asap", "asap=asap-2", "--base", "original"];
    let in_format = |more: &[&str]| workplace.run([&arguments[..], more].concat()).ok().to_string();
    let cells: Value = serde_json::from_str(in_format(&["--format", "json"]).lines().last().unwrap()).unwrap();
    let asap = &cells["cells"][1];
    let figure = |key: &str| asap[key].as_f64().unwrap();
    // Accuracies of 30 and 24 of 40: the mean is 0.675, and the deviation 0.15 / √2.
    assert!((asap["accuracy"]["value"].as_f64().unwrap() - 0.675).abs() < 1e-9 && figure("seeds") == 2.0, "{asap}");
    assert!((figure("deviation") - 0.15 / 2_f64.sqrt()).abs() < 1e-9, "{asap}");
    let stored = "SELECT avg(tokens) AS t FROM (SELECT tokens FROM 'asap' UNION ALL SELECT tokens FROM 'asap-2')";
    assert!((figure("tokens") - workplace.rows(stored)[0]["t"].as_f64().unwrap()).abs() < 1e-9, "{asap}");
    assert!((asap["change"]["accuracy"]["value"].as_f64().unwrap() - 0.175).abs() < 1e-9, "{asap}");
    assert!(in_format(&[]).contains("**67.50** ± 10.61 (+17.5 ["), "{}", in_format(&[]));
    let without = in_format(&["--no-accuracy", "the model solves nothing"]);
    assert!(without.contains("Accuracy is –: the model solves nothing.") && !without.contains("67.50"), "{without}");
}

#[test]
fn budgets_get_a_table_and_what_is_missing_is_named() {
    let workplace = place();
    let with_sweep = workplace.run([&TABLE[..3], &["sweep=sweep"]].concat());
    let shown = with_sweep.ok();
    assert!(shown.contains("gsm8k: budgets by methods") && shown.contains("gsm8k at 512: accuracy"), "{shown}");
    assert!(shown.contains("Missing: original on gsm8k at 1,024."), "{shown}");
    let refused = |arguments: &[&str], why: &str| {
        workplace.run([&["eval", "--table"], arguments].concat()).ends_in(&[1, 2], &[why]);
    };
    refused(&["a=original", "a=original"], "a has original twice: name it once");
    refused(&["a=original", "--base", "b"], "--base b is not a method of --table: it has a");
    refused(&["original"], "expected NAME=LOC");
    refused(&["a=nothing"], "nothing is not an evaluation");
    refused(&["a=original", "--to", "x"], "cannot be used with");
    ask(&workplace, &answering(|n| n < 5, 40), "few", &["--budget", "512", "--limit", "10"]).ok();
    refused(&["a=original", "b=few"], "original and few have different problems of gsm8k");
    workplace.run(["eval", "--compare", "original", "random", "--format", "csv"]).ends(2, &["need --table"]);
}

#[test]
fn a_prompt_and_a_suffix_belong_to_an_evaluation() {
    let workplace = place();
    let server = answering(|n| n < 3, 10);
    workplace.write("prompt.txt", "Be brief. {question} Code: {starter}.");
    let asked = ["--budget", "512", "--prompt", "prompt.txt", "--suffix", "<|eot_id|>0.5<|eot_id|>"];
    ask(&workplace, &server, "own", &asked).ok();
    let prompt = "Be brief. What is 0 + 25? Code: .<|eot_id|>0.5<|eot_id|>";
    assert_eq!(workplace.rows("SELECT prompt FROM 'own' WHERE id = 'gsm8k/0'")[0]["prompt"], prompt);
    let refused = |to: &str, more: &[&str], why: &str| {
        ask(&workplace, &server, to, &[&["--budget", "512"], more].concat()).ends_in(&[1, 2], &[why]);
    };
    refused("own", &[], "choose another folder");
    workplace.write("no.txt", "Be brief.");
    refused("new", &["--prompt", "no.txt"], "expected {question} somewhere in no.txt");
    refused("new", &["--prompt", "none.txt"], "--prompt: cannot read none.txt");
}
