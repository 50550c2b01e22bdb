//! `asap run` from the user's view: output, rejects, summaries, and a second run.

use serde_json::json;

use crate::common::{Workplace, root};

/// The model that counts tokens and scores.
const MODEL: [&str; 2] = ["--set", "asap.scorer.model=tests/goldens/qwen2"];

/// A pipeline that passes rows on.
const PLAIN: &str = "SELECT source, id, cot, status, error FROM corpus";

/// A workplace with a pipeline `mine.sql` and the rows of [`THREE`] as its input.
fn three(pipeline: &str) -> Workplace {
    let workplace = Workplace::new();
    workplace.copy(THREE, "in/a.parquet");
    workplace.write("mine.sql", pipeline);
    workplace
}

const THREE: &str = "SELECT * FROM (VALUES \
    (1, 'q1', E'one step\\n\\ntwo steps\\n\\nthree steps', 'a1', 'easy'), \
    (2, 'q2', '', 'a2', 'hard'), \
    (3, 'q3', 'a single step', 'a3', 'easy')) AS t (id, question, cot, answer, prompt)";

#[test]
fn every_input_row_is_in_the_output_or_the_rejects() {
    let workplace = three(PLAIN);
    let run = || {
        let settings = [&["--set", "asap.refine.max_tokens=6"], &MODEL[..]].concat();
        workplace.prune("pipelines/sql/truncate.sql", "out", &settings).json()
    };
    let summary = run();
    assert_eq!((summary["rows_in"].as_u64(), summary["rows_out"].as_u64()), (Some(3), Some(2)));
    assert_eq!(summary["rejects"], json!({ "empty_chain": 1 }));
    assert_eq!(summary["table_version"].as_u64(), Some(2));
    assert!(summary["tokens_out"].as_u64() < summary["tokens_in"].as_u64());

    let output = workplace.csv_of("out", "SELECT source['row'], id, cot, source_prompt, source_id FROM t ORDER BY 1");
    assert_eq!(output, "t.source[row],id,cot,source_prompt,source_id\n0,1,one step,easy,1\n2,3,a single step,easy,3\n");
    let rejects = workplace.csv_of("out/.asap/rejects", "SELECT source['row'] AS r, status, prompt FROM t");
    assert_eq!(rejects, "r,status,prompt\n1,empty_chain,hard\n");

    let again = run();
    assert_eq!((again["nothing_to_do"].as_bool(), again["rows_in"].as_u64()), (Some(true), Some(0)));
    assert_eq!(again["table_version"].as_u64(), Some(2));
    workplace.run(["run", "pipelines/sql/truncate.sql", "--from", "in", "--to", "out"]).ends(
        1,
        &[
            "out was filled with other settings",
            "asap.refine.max_tokens ('6' there, not set here)",
            "files of asap.scorer.model",
        ],
    );
    let missing = ["run", "pipelines/sql/truncate.sql", "--from", "no_such", "--to", "out"];
    workplace.run(missing).ends(1, &["there is no file or folder no_such"]);
}

#[test]
fn a_where_filters_and_a_limit_reads_less() {
    let workplace = three(&format!("{PLAIN} WHERE id <> '3'"));
    assert_eq!(workplace.prune("mine.sql", "a", &[]).json()["rows_filtered"], 1);
    let run = |more: &[&str]| workplace.prune("mine.sql", "b", more).json();
    let first = run(&["--limit", "1"]);
    assert_eq!((&first["rows_in"], &first["rows_out"]), (&json!(1), &json!(1)));
    // The second row has no chain. One new rejected row does not fail a run that adds to an output.
    let rejected = run(&["--limit", "2"]);
    assert_eq!((&rejected["rows_in"], &rejected["rows_rejected"]), (&json!(1), &json!(1)));
    assert_eq!(run(&["--limit", "2"])["nothing_to_do"], true);
    let rest = run(&[]);
    assert_eq!((&rest["rows_in"], &rest["rows_filtered"]), (&json!(1), &json!(1)));
}

#[test]
fn an_output_in_the_input_is_refused_and_a_pipeline_without_a_status_is_noted() {
    let workplace = three("SELECT source, id, cot FROM corpus");
    let run = |to: &str| workplace.run(["run", "mine.sql", "--from", "in", "--to", to]);
    run("in/out").ends(2, &["in/out is inside the input in"]);
    let noted = run("out");
    assert!(noted.stderr.contains("note: the pipeline returns no column status"), "{}", noted.stderr);
}

#[test]
fn a_pipeline_that_does_not_map_rows_to_rows_is_refused() {
    let workplace = three("SELECT source FROM corpus ORDER BY id");
    workplace.prune("mine.sql", "out", &[]).ends(1, &["cannot hold ORDER BY over corpus"]);
    assert!(!workplace.path("out").exists());
}

#[test]
fn a_pipeline_that_says_only_which_steps_it_keeps_gives_a_whole_table() {
    let pipeline = "WITH scored AS (SELECT *, cot_perplexity(question, cot_steps(cot)) AS perplexity FROM corpus) \
                    SELECT * FROM pruned((SELECT *, cot_refine(cot_steps(cot), perplexity, 6) AS kept FROM scored), 'p')";
    let workplace = three(pipeline);
    let summary = workplace.prune("mine.sql", "out", &MODEL).json();
    assert_eq!(summary["rejects"], json!({ "empty_chain": 1 }));
    let names = "SELECT string_agg(column_name, ' ' ORDER BY ordinal_position) AS c FROM information_schema.columns \
                 WHERE table_name = 't'";
    let of_a_method = "source id question cot original_cot answer system anchor original_tokens coarse_tokens pruned_tokens \
                       steps prompt completion messages perplexity";
    // Columns that repeat question, original_cot and answer are left out.
    let of_the_files = "source_id source_prompt";
    assert_eq!(workplace.csv_of("out", names), format!("c\n{of_a_method} {of_the_files}\n"));
    let read = "SELECT id, cardinality(perplexity) AS n, prompt[1]['content'] AS q, array_length(messages) AS m, \
                pruned_tokens <= 6 AND completion[1]['content'] LIKE '<think>%</think>%' AS fits FROM t ORDER BY id";
    assert_eq!(workplace.csv_of("out", read), "id,n,q,m,fits\n1,3,q1,2,true\n3,1,q3,2,true\n");
}

#[test]
fn a_method_that_names_no_step_of_a_chain_rejects_its_row_and_one_that_lacks_a_column_is_refused() {
    let workplace = three(PLAIN);
    let run = |query: &str| {
        workplace.write("mine.sql", format!("SELECT * FROM pruned(({query}), 'first')"));
        workplace.prune("mine.sql", "out", &MODEL)
    };
    for (query, named) in [
        ("SELECT * FROM corpus", "the query of pruned lacks kept"),
        (
            "SELECT id, question, cot, answer, [1] AS kept FROM corpus",
            "lacks source, system, status, error of the corpus",
        ),
        ("SELECT *, [1] AS kept, 1 AS \"Steps\" FROM corpus", "the pipeline's columns Steps and steps"),
        ("SELECT *, [1] AS kept, 1 AS \"a b\", 2 AS a_b FROM corpus", "the pipeline's columns a_b and a b would"),
        ("SELECT *, [1] AS kept FROM corpus LIMIT 1", "cannot hold LIMIT"),
    ] {
        run(query).ends(1, &[named]);
        assert!(!workplace.path("out").exists());
    }
    let summary = run("SELECT *, [2] AS kept FROM corpus").json();
    assert_eq!(summary["rejects"], json!({ "empty_chain": 1, "not_pruned": 1 }));
}

#[test]
fn a_pipeline_calls_anchor_coarse_and_score_once() {
    let pipeline = std::fs::read_to_string(root().join("pipelines/sql/asap.sql")).unwrap();
    let workplace = three(&format!("EXPLAIN {pipeline}"));
    let explain = ["sql", "-q", "--format", "csv", "--from", "in", "-f", "mine.sql"];
    let finished = workplace.run(explain.iter().chain(&MODEL));
    let (_, physical) = finished.ok().split_once("physical_plan").unwrap();
    for function in ["cot_anchor(", "cot_coarse(", "cot_surprisal("] {
        assert_eq!(physical.matches(function).count(), 1, "{function} in {physical}");
    }
}

#[test]
fn a_chain_longer_than_the_window_of_the_model_is_a_reject_with_the_numbers() {
    let workplace = Workplace::new();
    let long = "array_to_string(array_repeat('7 is 7', 2000), E'\\n\\n')";
    let query =
        format!("SELECT * FROM (VALUES ('q', {long}, '7'), ('q', 'It is 7.', '7')) AS t (question, cot, answer)");
    workplace.copy(&query, "in/a.parquet");
    let summary = workplace.prune("without_anchor", "out", &MODEL).json();
    assert_eq!(summary["rejects"], json!({ "too_long": 1 }));
    assert_eq!(summary["rows_out"].as_u64(), Some(1));
    let rejects = workplace.csv_of("out/.asap/rejects", "SELECT status, error, question FROM t");
    assert_eq!(
        rejects,
        "status,error,question\ntoo_long,\"10,003 tokens with its prompt, the model's window is 4,096\",q\n"
    );
}

#[test]
fn a_chain_is_too_long_for_every_method_that_scores_it_and_with_its_answer_where_that_is_read() {
    let workplace = Workplace::new();
    let long = "array_to_string(array_repeat(repeat('7 is 7. ', 400), 4), E'\\n\\n')";
    let query = format!(
        "SELECT * FROM (VALUES ('chain', {long}, '7'), ('answer', E'It is 7.\\n\\nSo 7.', repeat('7 ', 5000)), \
         ('fits', E'It is 7.\\n\\nSo 7.', '7')) AS t (question, cot, answer)"
    );
    workplace.copy(&query, "in/a.parquet");
    let with = |text: &str| format!("too_long,\"N tokens with its {text}, the model's window is 4,096\"\n");
    for (pipeline, rejected) in [
        ("spirit", format!("chain,{}", with("prompt"))),
        // The answer is scored only for a chain longer than its budget.
        ("spirit_greedy", format!("chain,{}", with("prompt and answer"))),
        ("attribution", ["answer", "chain"].map(|row| format!("{row},{}", with("prompt and answer"))).concat()),
    ] {
        let summary = workplace.prune(pipeline, pipeline, &MODEL).json();
        assert_eq!(summary["rejects"]["too_long"], rejected.lines().count(), "{pipeline}");
        let read = "SELECT question, status, regexp_replace(error, '^[0-9,]+', 'N') AS error FROM t ORDER BY 1";
        let found = workplace.csv_of(&format!("{pipeline}/.asap/rejects"), read);
        assert_eq!(found, format!("question,status,error\n{rejected}"), "{pipeline}");
    }
}

#[test]
fn with_on_error_fail_a_reject_ends_the_run_and_nothing_is_left() {
    let workplace = three(PLAIN);
    workplace.prune("mine.sql", "out", &["--set", "asap.on_error=fail"]).ends(1, &["empty_chain"]);
    assert!(!workplace.path("out").exists());
}

/// The first rows do not reveal it.
#[test]
fn a_run_names_a_text_that_is_the_question_of_many_answers() {
    let workplace = Workplace::new();
    let question = "CASE WHEN i > 20 AND i % 3 = 0 THEN 'Example: find x' ELSE concat('q', i) END";
    let query = format!(
        "SELECT {question} AS question, 'step' AS reasoning, concat('a', i) AS answer FROM generate_series(1, 300) AS t (i)"
    );
    workplace.copy(&query, "in/a.parquet");
    let notes = workplace.prune("truncate", "out", &["--set=run.slice_rows=50"]).json()["notes"].to_string();
    assert!(notes.contains("of 300 rows have one question, \\\"Example: find x…"), "{notes}");
    assert!(notes.contains("with 16 or more different answers"), "{notes}");
}
