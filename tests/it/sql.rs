//! The input and output of `asap sql`.

use crate::common::Workplace;

fn pruned() -> Workplace {
    let workplace = Workplace::new();
    let rows = "(VALUES ('q1', '<think>a</think>b'), ('q2', '<think>a</think>b'), ('q3', 'no tags')) AS t (prompt, completion)";
    workplace.copy(&format!("SELECT * FROM {rows}"), "in/a.parquet");
    workplace.run(["run", "truncate", "--from", "in", "--to", "out/pruned"]).ok();
    workplace
}

const REJECTS: &str = "out/pruned/.asap/rejects";

fn rows(workplace: &Workplace, arguments: &[&str]) -> String {
    workplace.run([&["sql", "-q", "--format", "csv"], arguments].concat()).ok().to_string()
}

#[test]
fn an_output_and_its_rejects_are_tables_by_their_path() {
    let workplace = pruned();
    let sql = format!(
        "SELECT p.question, r.prompt, r.status FROM 'out/pruned' p CROSS JOIN '{REJECTS}' r ORDER BY p.question"
    );
    assert_eq!(workplace.csv(&[&sql]), "question,prompt,status\nq1,q3,no_tags\nq2,q3,no_tags\n");
    // A run without rows left no files that would be read.
    assert_eq!(workplace.csv(&["SELECT count(*) AS n FROM 'out/pruned/'"]), "n\n2\n");
}

#[test]
fn rejects_are_read_by_every_command_that_reads_a_corpus() {
    let workplace = pruned();
    let found = workplace.run(["inspect", REJECTS]);
    assert!(found.ok().contains("1 reject of out/pruned\n\nno_tags: 1 row\n  row 2 of "), "{found:?}");
    assert!(found.ok().contains(": no closing think tag in the 7 characters"), "{found:?}");
    let sql = "SELECT question, status, source_status FROM corpus";
    assert_eq!(
        rows(&workplace, &["--from", REJECTS, "-c", sql]),
        "question,status,source_status\nq3,no_tags,no_tags\n"
    );
    workplace
        .run(["run", "truncate", "--from", REJECTS, "--to", "out/again"])
        .ends(3, &["none of 1 rows reached the output; asap inspect out/again/.asap/rejects shows"]);
    // Columns that match a shape only by the tags in their values.
    let rows_of =
        "(VALUES ('q1', '<think>a</think>b'), ('q2', '<think>a</think>b'), ('q3', 'none')) AS t (question, response)";
    workplace.copy(&format!("SELECT * FROM {rows_of}"), "other/a.parquet");
    workplace.run(["run", "truncate", "--from", "other", "--to", "out/other"]).ok();
    let found = workplace.run(["inspect", "out/other/.asap/rejects"]);
    assert!(found.ok().contains("in the 4 characters of column response"), "{found:?}");
}

#[test]
fn rejects_show_the_statuses_that_the_run_gave_them() {
    let workplace = Workplace::new();
    workplace.traces(1, 4, "in");
    workplace.run(["run", "truncate", "--from", "in", "--to", "out", "--set", "asap.refine.max_tokens=1"]);
    let found = workplace.run(["inspect", "out/.asap/rejects", "--rows", "1"]);
    assert!(found.ok().starts_with("4 rejects of out\n\nemptied: 4 rows\n  row 0 of "), "{found:?}");
    workplace.run(["run", "truncate", "--from", "in", "--to", "all"]).ok();
    workplace.run(["sql", "-c", "SELECT * FROM 'all/.asap/rejects'"]).ends(1, &["all has no rejects"]);
}

#[test]
fn a_folder_in_sql_has_the_rows_that_from_reads() {
    let workplace = Workplace::new();
    let rows = |sql: &str| workplace.csv(&[sql]);
    workplace.traces(1, 4, "in");
    workplace.write("in/b.jsonl", "{\"n\": 1}\n");
    workplace.write("in/about.json", "{\n\"n\": 1\n}\n");
    assert_eq!(rows("SELECT count(*) AS n, count(problem) AS math FROM 'in'"), "n,math\n4,2\n");
    workplace.write("array.json", "[{\"n\": 1}, {\"n\": 2}]");
    assert_eq!(rows("SELECT sum(n) AS n FROM 'array.json'"), "n\n3\n");
    workplace.write("days/day=1/b.jsonl", "{\"n\": 1}\n");
    assert_eq!(rows("SELECT * FROM 'days'"), "n,day\n1,1\n");
    workplace.write("broken.jsonl", "none\n");
    workplace.run(["sql", "-c", "SELECT * FROM 'broken.jsonl'"]).ends(1, &["line 1 of /"]);
    workplace.write("half.jsonl", "{\"n\": 1}\nnone\n{\"n\": 2}\n");
    let half = workplace.run([
        "sql",
        "-q",
        "--format",
        "csv",
        "-c",
        "SELECT sum(n) AS n, count(*) AS lines FROM 'half.jsonl'",
    ]);
    assert_eq!(half.ok(), "n,lines\n3,3\n");
    assert!(half.stderr.contains("line 2 of /"), "{}", half.stderr);
}

#[test]
fn an_empty_result_has_its_header_or_an_empty_list() {
    let workplace = Workplace::new();
    let print = |format: &str| {
        let sql = "SELECT 1 AS n WHERE false";
        workplace
            .run(&["sql", "-q", "--format", format, "-c", "SET datafusion.execution.batch_size = 9", "-c", sql])
            .ok()
            .to_string()
    };
    assert_eq!(["csv", "tsv", "json", "nd-json"].map(print), ["n\n", "n\n", "[]\n", ""]);
}

#[test]
fn numbers_are_answers_as_they_were_written() {
    let workplace = Workplace::new();
    let row = |question: &str, answer: &str| {
        format!("{{\"question\": \"{question}\", \"cot\": \"a\", \"answer\": {answer}}}\n")
    };
    let lines = [row("q1", "42"), row("q2", "1.50"), row("q3", "12345678901234567890123"), row("q4", "\"x\"")].concat();
    std::fs::write(workplace.path("a.jsonl"), lines).unwrap();
    let answers = rows(&workplace, &["--from", "a.jsonl", "-c", "SELECT answer FROM corpus ORDER BY question"]);
    assert_eq!(answers, "answer\n42\n1.50\n12345678901234567890123\nx\n");
    std::fs::write(workplace.path("a.jsonl"), row("q1", "42") + &row("q2", "1.50")).unwrap();
    let answers = rows(&workplace, &["--from", "a.jsonl", "-c", "SELECT answer FROM corpus ORDER BY question"]);
    assert_eq!(answers, "answer\n42\n1.50\n");
}

#[test]
fn a_question_column_without_values_is_not_the_question() {
    let workplace = Workplace::new();
    let line = "{\"problem\": null, \"prompt\": \"q1\", \"generation\": \"<think>a</think>b\"}\n";
    std::fs::write(workplace.path("a.jsonl"), line.repeat(3) + "{\"problem\": \"q\"}\n").unwrap();
    let read = rows(&workplace, &["--from", "a.jsonl", "-c", "SELECT question FROM corpus WHERE status IS NULL"]);
    assert_eq!(read, "question\nq1\nq1\nq1\n");
}

#[test]
fn ratios_count_the_rows_of_the_output_and_unfinished_outputs_say_so() {
    let workplace = Workplace::new();
    workplace.traces(1, 40, "in");
    let run: Vec<&str> =
        "run truncate --from in --to out --set=run.slice_rows=5 --part 1/2 --format json".split(' ').collect();
    let run = [&run[..], &["--set", "asap.refine.max_tokens=60", "--set", "asap.refine.ratio=0.9"]].concat();
    let summary = workplace.run(&run).json();
    assert!(
        summary["rows_rejected"].as_u64() > Some(0)
            && summary["tokens_before"].as_u64() < summary["tokens_in"].as_u64()
    );
    let sums = rows(&workplace, &["-c", "SELECT sum(original_tokens) AS n FROM 'out'"]);
    assert_eq!(sums, format!("n\n{}\n", summary["tokens_before"]));
    assert!(workplace.run(&["export", "out", "--to", "set"]).stderr.contains("the output is not finished"));
    assert!(workplace.run(&["table", "status", "out"]).ok().contains("0.9 (asap.refine.ratio)"));
}

#[test]
fn nested_values_are_json_in_formats_without_them() {
    let workplace = Workplace::new();
    let sql =
        "SELECT 1 AS n, [1, NULL] AS list, {'a': 'x \"y\"', 'b': ['z']} AS object, CAST(NULL AS INT[]) AS nothing";
    let expected =
        "n,list,object,nothing\n1,\"[1,null]\",\"{\"\"a\"\":\"\"x \\\"\"y\\\"\"\"\",\"\"b\"\":[\"\"z\"\"]}\",\n";
    assert_eq!(workplace.csv(&[sql]), expected);
    workplace.copy(sql, "a.csv");
    assert_eq!(std::fs::read_to_string(workplace.path("a.csv")).unwrap(), expected);
    let same_names = "SELECT x.a, y.a FROM (VALUES ([2]), ([1])) x(a) CROSS JOIN (VALUES ([3])) y(a) ORDER BY x.a";
    assert_eq!(workplace.sql("tsv", &[same_names]), "a\ta\n[1]\t[3]\n[2]\t[3]\n");
    workplace.traces(1, 3, "traces");
    let all = rows(&workplace, &["--from", "traces", "-c", "SELECT * FROM corpus"]);
    assert!(all.contains("\"{\"\"file\"\":\"\"codeforces-cots.parquet\"\",\"\"row\"\":0}\""), "{all}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_statement() {
    let workplace = Workplace::new();
    workplace.write("a.sql", "\u{feff}SELECT 42 AS n;\n");
    assert_eq!(rows(&workplace, &["-f", "a.sql"]), "n\n42\n");
    assert_eq!(workplace.shell("asap sql -q --format csv < a.sql").ok(), "n\n42\n");
}

#[test]
fn a_line_within_a_text_may_begin_with_a_backslash() {
    let workplace = Workplace::new();
    assert_eq!(rows(&workplace, &["-c", "SELECT length('so\n\\frac{1}{2}') AS n"]), "n\n14\n");
    let refused = workplace.run(["sql", "-c", "\\d corpus"]);
    assert!(refused.stderr.contains("\\d corpus works only at the prompt"), "{refused:?}");
}

#[test]
fn help_may_come_first() {
    let workplace = Workplace::new();
    assert_eq!(workplace.run(["help", "run"]).ok(), workplace.run(["run", "--help"]).ok());
}

#[test]
fn a_column_without_values_does_not_vanish_from_json() {
    let workplace = Workplace::new();
    let sql = "SET datafusion.execution.batch_size = 2; SELECT value AS n, NULL AS nothing, {'a': CAST(NULL AS INT)} AS held FROM range(3); \
               SELECT 1 AS n WHERE false; SELECT 4 AS n";
    let run = |format: &str| workplace.sql(format, &[sql]);
    let row = |n: u32| format!("{{\"n\":{n},\"nothing\":null,\"held\":{{\"a\":null}}}}");
    let rows = [0, 1, 2].map(row);
    assert_eq!(run("json"), format!("[{}]\n[]\n[{{\"n\":4}}]\n", rows.join(",")));
    assert_eq!(run("nd-json"), format!("{}\n{{\"n\":4}}\n", rows.join("\n")));
    // Statements other than queries run unchanged.
    workplace.write("a.csv", "n;m\n1;ü\n");
    let table = "-- Ä; ü\nCREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a.csv' OPTIONS ('format.delimiter' ';', 'format.has_header' 'true');\n\
                 SELECT n, m, ';' AS s FROM t; /* ; */ SELECT 'ü;' AS u;";
    assert_eq!(workplace.sql("json", &[table]), "[{\"n\":1,\"m\":\"ü\",\"s\":\";\"}]\n[{\"u\":\"ü;\"}]\n");
    // A converted file exists as long as its rows are read.
    let lines = "{\"question\":\"q\",\"cot\":\"c\",\"answer\":\"a\"}\n".repeat(3);
    workplace.write("a.jsonl", lines);
    assert_eq!(workplace.sql("json", &["SELECT count(cot) AS n FROM cot_corpus('a.jsonl')"]), "[{\"n\":3}]\n");
    workplace
        .run(["sql", "--format", "json", "-c", "SELECT 1 AS n; SELCT"])
        .ends(1, &["error: SQL: Expected: an SQL statement"]);
    let printed = workplace.run(["sql", "--format", "json", "-c", "SELECT 1 AS n"]);
    assert_eq!(printed.ok(), "[{\"n\":1}]\n");
    assert!(printed.stderr.starts_with("1 row(s) fetched. \nElapsed "), "{printed:?}");
}
