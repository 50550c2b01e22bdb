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

/// Evaluations of mathematics and of code: `code` of HumanEval+, and `math` of MATH500.
fn other_benches(workplace: &Workplace) {
    let call = "def total(a, b):\n    \"\"\"total of two numbers: What is 1 + 2?\"\"\"\n";
    let code = json!({ "task_id": "Own/0", "entry_point": "total", "prompt": call, "canonical_solution": "    return a + b\n",
        "base_input": [[1, 2]], "plus_input": [[3, 4]], "atol": 0 });
    workplace.write("code.jsonl", code.to_string());
    workplace
        .write("math.jsonl", json!({ "problem": "What is 1 + 25?", "answer": "26", "unique_id": "1" }).to_string());
    let server = answering(|_| true, 50);
    for (bench, to) in [("humaneval+", "code"), ("math500", "math")] {
        let file = format!("{to}.jsonl");
        let asked = ["--data", &file, "--endpoint", &server.base_url(), "--model", "m", "--to", to];
        workplace.run([&["eval", "--bench", bench][..], &asked].concat()).ok();
    }
}

/// The number of columns of a row in LaTeX.
fn columns(row: &str) -> usize {
    let span = |cell: &str| cell.trim().strip_prefix("\\multicolumn{").map(|rest| rest[..1].parse().unwrap());
    row.split(" & ").map(|cell| span(cell).unwrap_or(1)).sum()
}

#[test]
fn tables_in_latex_are_apart_for_code_in_the_order_of_the_command_and_of_even_rows() {
    let workplace = place();
    other_benches(&workplace);
    let named =
        ["eval", "--table", "a_b&50%=math", "a_b&50%=original", "a_b&50%=code", "c=original", "c=math", "c=code"];
    let options = ["--base", "a_b&50%", "--intervals", "--published", "paper", "--format", "latex"];
    let shown = workplace.run([&named[..], &options].concat()).ok().to_string();
    let place = |text: &str| shown.find(text).unwrap_or_else(|| panic!("lacks {text}: {shown}"));
    assert!(place("MATH500 at 4,096") < place("GSM8K at 512") && place("GSM8K at 512") < place("HumanEval+ at 6,144"));
    assert!(place("benchmarks: mathematics}") < place("benchmarks: code}"), "{shown}");
    assert!(
        shown.contains("a\\_b\\&50\\% & 100.00") && shown.contains("accuracy $\\uparrow$ & tokens $\\downarrow$"),
        "{shown}"
    );
    // Both methods are equal.
    assert!(!shown.contains("\\textbf") && !shown.contains("\\underline"), "{shown}");
    let tables: Vec<&str> = shown.split("\\begin{table*}").skip(1).collect();
    assert_eq!((tables.len(), shown.matches("\\end{table*}").count()), (2 + 5, 2 + 5), "{shown}");
    for table in tables {
        let table = table.split("\\end{table*}").next().unwrap();
        let spec = table.split("\\begin{tabular}{").nth(1).unwrap().lines().next().unwrap();
        let width = 1 + spec.replace("\\hspace", "").matches('r').count();
        let rows: Vec<&str> = table.lines().filter(|line| line.ends_with("\\\\")).collect();
        assert!(rows.len() > 3 && rows.iter().all(|row| columns(row) == width), "{table}");
        let depth = |open, close| table.matches(open).count() - table.matches(close).count();
        assert!(depth('{', '}') == 0 && table.matches('$').count() % 2 == 0, "{table}");
    }
}

#[test]
fn printed_values_stand_next_to_those_of_the_run_and_what_either_lacks_is_shown() {
    let workplace = place();
    let own = [
        "source = \"a paper\"",
        "model = \"m\"",
        "[[tables]]",
        "table = \"3\"",
        "page = 7",
        "bench = \"gsm8k\"",
        "budget = 512",
    ];
    let values =
        "values = [{ method = \"asap\", accuracy = 70.0, tokens = 62 }, { method = \"spirit\", accuracy = 60 }]";
    workplace.write("own.toml", format!("{}\n{values}\n", own.join("\n")));
    let table = ["eval", "--table", "original=original", "asap=asap", "--published"];
    let shown = workplace.run([&table[..], &["own.toml"]].concat()).ok().to_string();
    let line = |name: &str| shown.lines().rfind(|line| line.starts_with(&format!("| {name} "))).unwrap().to_string();
    let cells = |name: &str| line(name).split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>();
    assert_eq!(cells("asap")[2..8], ["75.00", "70.00", "+5.00", "31", "62", "-50.0 %"], "{shown}");
    assert_eq!(cells("spirit")[2..8], ["–", "60.00", "–", "–", "–", "–"], "{shown}");
    assert_eq!(cells("original")[2..5], ["50.00", "–", "–"], "{shown}");
    assert!(shown.contains("Printed values: m, from a paper."), "{shown}");
    let json = workplace.run([&table[..], &["own.toml", "--format", "json"]].concat()).ok().to_string();
    let rows = serde_json::from_str::<Value>(json.lines().last().unwrap()).unwrap()["published"]["rows"].clone();
    assert_eq!((&rows[1]["table"], &rows[1]["page"], &rows[2]["method"]), (&json!("3"), &json!(7), &json!("spirit")));
    assert!((rows[1]["difference"]["tokens"].as_f64().unwrap() + 0.5).abs() < 0.01, "{rows}");
    let csv = workplace.run([&table[..], &["own.toml", "--format", "csv"]].concat()).ok().to_string();
    assert!(csv.lines().all(|line| line.split(',').count() == 28) && csv.contains("\nspirit,gsm8k,512,,"), "{csv}");

    // The paper's values: budgets and benchmarks that only one of the two has.
    let shown = workplace.run([&table[..], &["paper"]].concat()).ok().to_string();
    assert!(shown.contains("LiveCodeBench v4–v5 at 10,240, next to printed values"), "{shown}");
    assert!(shown.contains("| asap              | –             | 36.19 "), "{shown}");
    assert!(shown.contains("Without printed values: GSM8K at 512."), "{shown}");
    let refused = |text: &str, why: &str| {
        workplace.write("bad.toml", text);
        workplace.run([&table[..], &["bad.toml"]].concat()).ends(2, &[why]);
    };
    refused(
        &own.join("\n").replace("gsm8k", "gsm9k").replace("budget", "values = []\nbudget"),
        "there is no benchmark gsm9k",
    );
    refused(&format!("{}\n{}", own.join("\n"), values.replace("spirit", "asap")), "has asap on gsm8k twice");
    refused("source = 1", "--published bad.toml: TOML parse error at line 1");
    workplace.run([&table[..], &["no.toml"]].concat()).ends(2, &["expected paper or a file; cannot read no.toml"]);
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
    assert!(markdown.contains("**75.00** (+25.0)†") && markdown.contains("<u>50.00</u>"), "{markdown}");
    let with_intervals = workplace.run([&TABLE[..], &["--intervals"]].concat()).ok().to_string();
    assert!(with_intervals.contains("**75.00** (+25.0 [+11.4, +38.6])†"), "{with_intervals}");
    assert!(latex.contains("\\textbf{75.00}\\rlap") && latex.contains("\\underline{50.00}"), "{latex}");
    // Of the 10 problems on which they differ, asap solves all: p = 2 / 2^10, and twice that for two comparisons.
    let p_values = [&change["p_value"], &change["p_holm"]].map(|p_value| p_value.as_f64().unwrap());
    assert!((p_values[0] - 0.001953125).abs() < 1e-12 && p_values[1] == 2.0 * p_values[0], "{change}");
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
    assert!(in_format(&[]).contains("**67.50** ± 10.61 (+17.5)"), "{}", in_format(&[]));
    let without = in_format(&["--no-accuracy", "the model solves nothing"]);
    assert!(without.contains("Accuracy is –: the model solves nothing.") && !without.contains("67.50"), "{without}");
}

#[test]
fn budgets_get_a_table_and_what_is_missing_is_named() {
    let workplace = place();
    ask(&workplace, &answering(|n| n < 25, 40), "long", &["--budget", "512,1024,4096"]).ok();
    let shown = workplace.run([&TABLE[..3], &["sweep=sweep", "long=long"]].concat()).ok().to_string();
    assert!(shown.contains("GSM8K at 512: accuracy ↑") && shown.contains("| original | 50.00 "), "{shown}");
    // The table above has all of original.
    let by_budgets = shown.split("GSM8K: methods by budgets").nth(1).unwrap();
    assert!(by_budgets.contains("| sweep") && !by_budgets.contains("original"), "{shown}");
    assert!(shown.contains("Missing: sweep on GSM8K at 4,096."), "{shown}");
    workplace.run(["eval", "--table", "a=original", "sweep=sweep", "--svg-budgets", "budgets.svg"]).ok();
    let figure = std::fs::read_to_string(workplace.path("budgets.svg")).unwrap();
    // The sweep is a line of two points from the left to the right, and the axis names both budgets.
    let line = figure.lines().filter_map(|line| line.strip_prefix("<polyline points=\"")).next_back().unwrap();
    let points: Vec<f64> =
        line.split('"').next().unwrap().split([' ', ',']).map(|each| each.parse().unwrap()).collect();
    assert!(points.len() == 4 && points[0] < points[2] && points[1] == points[3], "{figure}");
    assert!(
        figure.contains(">512</text>") && figure.contains(">1K</text>") && figure.contains("token budget"),
        "{figure}"
    );
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
    refused("new", &["--prompt", "none.txt"], "--prompt takes a file, and cannot read none.txt");
}
