use std::os::unix::fs::symlink;

use asap_udfs::reading::turns_type;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::physical_plan::displayable;
use datafusion::prelude::col;

use super::*;
use crate::run::plan;

const NUMBERED: &str =
    "SELECT 'q' AS question, concat('c', i) AS cot, 'a' AS answer, i AS number FROM generate_series(0, 999) AS t (i)";

async fn physical_plan(corpus: &Corpus, sql: &str) -> String {
    let plan = context_of(corpus).sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    displayable(plan.as_ref()).indent(false).to_string()
}

#[tokio::test]
async fn a_row_is_known_by_its_file_and_its_place_in_it() {
    let folder = tempfile::tempdir().unwrap();
    // Many row groups, so that a scan is split and a filter prunes.
    let options = "OPTIONS ('format.max_row_group_size' '64', 'format.write_batch_size' '64')";
    for name in ["b.parquet", "a/b c%20#ä.parquet"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let sql = format!("COPY ({NUMBERED} ORDER BY i) TO '{}' {options}", path.display());
        context().sql(&sql).await.unwrap().collect().await.unwrap();
    }
    let corpus = open(folder.path(), None).await.unwrap();
    let paths: Vec<&str> = corpus.files().map(|(_, rows)| rows.file.path.as_str()).collect();
    assert_eq!(paths, ["a/b c%20#ä.parquet", "b.parquet"]);

    let context = context_of(&corpus);
    context.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 1;
    for filter in ["true", "number > 700", "source['row'] > 700 AND cot <> 'c3'"] {
        let sql = format!(
            "SELECT count(*) AS rows, count(DISTINCT source) AS places, sum(CAST(source['row'] <> number AS INT)) AS wrong \
             FROM corpus WHERE {filter}"
        );
        let found = context.sql(&sql).await.unwrap().to_string().await.unwrap();
        let rows = if filter == "true" { "2000" } else { "598" };
        assert!(
            found.contains(&format!("| {rows} | {rows}   | 0     |"))
                || found.contains(&format!("| {rows}  | {rows}    | 0     |")),
            "{filter}: {found}"
        );
    }
}

#[tokio::test]
async fn a_query_reads_only_the_columns_that_it_names() {
    let tagged = "SELECT 'i' AS id, 'q' AS prompt, 'c</think>a' AS generation, 1 AS number, 'm' AS model";
    let plain = format!("SELECT 'i' AS id, *, 2 AS number FROM ({PLAIN})");
    let folder = folder_of(&[("a.parquet", tagged), ("b.parquet", &plain)]).await;
    let corpus = open(folder.path(), None).await.unwrap();
    let count = physical_plan(&corpus, "SELECT count(*) FROM corpus").await;
    assert!(!count.contains("DataSourceExec"), "{count}");
    let number = physical_plan(&corpus, "SELECT number FROM corpus").await;
    assert!(number.contains("projection=[number]") && !number.contains("read_"), "{number}");
    let question = physical_plan(&corpus, "SELECT question FROM corpus WHERE number = 1").await;
    assert!(!question.contains("generation") && !question.contains("model"), "{question}");
    assert!(question.contains("predicate=number"), "{question}");
    let id = physical_plan(&corpus, "SELECT id FROM corpus").await;
    assert!(id.contains("projection=[id]") && !id.contains("md5"), "{id}");
    let chain = physical_plan(&corpus, "SELECT question, cot, answer, status, error FROM corpus").await;
    // One for the prompt and one for the generation of the first file, and one for both columns of the second.
    assert_eq!(chain.matches("read_").count(), 3, "{chain}");
    let filtered = physical_plan(&corpus, "SELECT cot, answer FROM corpus WHERE cot <> 'x' AND status IS NULL").await;
    // The file's statistics cannot use the predicate, which only repeats the filter.
    let called = filtered.lines().map(|line| line.split("predicate=").next().unwrap().matches("read_").count());
    assert_eq!(called.sum::<usize>(), 3, "{filtered}");
    let explained = "EXPLAIN FORMAT INDENT SELECT id FROM cot_corpus('DIR') WHERE cot LIKE '%c%'";
    let explained =
        query(&corpus, &explained.replace("DIR", &folder.path().join("b.parquet").display().to_string())).await;
    assert!(explained.join("\n").len() < 3_000, "{explained:?}");
    assert_eq!(query(&corpus, "SELECT count(*) FROM corpus WHERE status IS NULL").await, ["2"]);
}

#[tokio::test]
async fn a_pipeline_carries_the_original_columns() {
    let nested = "{'a b': 1, 'question': 'n'} AS nested";
    let tagged = format!("SELECT 'q' AS prompt, 'c</think>a' AS generation, {nested}");
    let folder =
        folder_of(&[("a.parquet", &format!("SELECT *, {nested} FROM ({PLAIN})")), ("b.parquet", &tagged)]).await;
    let corpus = open(folder.path(), None).await.unwrap();
    let context = context();
    let sql = "WITH t AS (SELECT *, nested['a b'] AS n FROM corpus WHERE status IS NULL) \
               SELECT source, id, upper(cot) AS cot, n + source['row'] AS n, source_question FROM t WHERE nested['a b'] = 1";
    context.register_table("corpus", Arc::new(plan::CorpusTable::new(corpus.schema()))).unwrap();
    let plan = context.sql(sql).await.unwrap().into_unoptimized_plan();
    plan::check(&plan).unwrap();
    let files = corpus.view(&context.state()).unwrap().logical_plan().clone();
    let plan = plan::over_files(plan, &files, &corpus.original_columns()).unwrap();
    let rows = context.execute_logical_plan(plan).await.unwrap().sort_by(vec![col("source")]).unwrap();
    let found = rows.to_string().await.unwrap();
    assert!(
        found.contains("{source_question: q, source_cot: c, source_answer: a, nested: {a b: 1, question: n}"),
        "{found}"
    );
    assert!(found.contains("prompt: q, generation: c</think>a}"), "{found}");
}

#[tokio::test]
async fn hidden_names_are_skipped_and_other_formats_announced() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.parquet", "_asap/rejects/b.parquet", ".cache/c.parquet", "sub/_d.parquet", "sub/E.PARQUET"] {
        write(folder.path(), name, NUMBERED).await;
    }
    for name in ["README.md", "more.jsonl", "sub/more.csv.gz", "_SUCCESS"] {
        std::fs::write(folder.path().join(name), "{}").unwrap();
    }
    symlink(folder.path().join("a.parquet"), folder.path().join("link.parquet")).unwrap();
    let corpus = open(folder.path(), None).await.unwrap();
    let paths: Vec<&str> = corpus.files().map(|(_, rows)| rows.file.path.as_str()).collect();
    assert_eq!(paths, ["a.parquet", "link.parquet", "sub/E.PARQUET"]);
    assert_eq!(corpus.notes.len(), 1);
    assert!(corpus.notes[0].contains("more.jsonl") && corpus.notes[0].contains("more.csv.gz"), "{:?}", corpus.notes);
    assert!(!corpus.notes[0].contains("README"));
}

#[tokio::test]
async fn a_file_is_known_by_its_path_below_the_location_and_listed_afresh() {
    let folder = folder_of(&[("a.parquet", NUMBERED)]).await;
    let before = open(&folder.path().join("a.parquet"), None).await.unwrap();
    std::fs::copy(folder.path().join("a.parquet"), folder.path().join("b.parquet")).unwrap();
    let after = open(folder.path(), None).await.unwrap();
    assert_eq!(after.files().next().unwrap().1.file.path, before.files().next().unwrap().1.file.path);
    assert_eq!((before.rows(), after.rows()), (1000, 2000));
    write(folder.path(), "a.parquet", &format!("{NUMBERED} WHERE i <> 5")).await;
    let changed = open(folder.path(), None).await.unwrap();
    assert_eq!(query(&changed, "SELECT count(*), count(cot) FROM corpus").await, ["1999 | 1999"]);
}

#[tokio::test]
async fn large_rows_come_in_small_batches_and_the_session_keeps_its_own() {
    // About one kilobyte per row that does not compress.
    let rows = "SELECT 'q' || a.value AS question, string_agg(md5(a.value || '-' || b.value), ' ') AS cot, 'a' AS answer \
                FROM generate_series(1, 3000) AS a CROSS JOIN generate_series(1, 64) AS b GROUP BY a.value";
    let (folder, corpus) = opened(rows).await;
    let context = context_of(&corpus);
    let located = format!("cot_corpus('{}')", folder.path().display());
    for from in ["corpus", &located] {
        for filter in ["true", "cot <> question"] {
            let sql = format!("SELECT cot FROM {from} WHERE {filter}");
            let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
            let rows: Vec<usize> = batches.iter().map(|batch| batch.num_rows()).collect();
            assert_eq!(rows.iter().sum::<usize>(), 3000, "{sql}");
            assert!(rows.iter().all(|rows| *rows < 1500), "{sql}: {rows:?}");
        }
    }
    assert_eq!(context.state().config().batch_size(), 8192);
}

#[tokio::test]
async fn the_columns_of_a_corpus_come_first_and_have_one_type_each() {
    let clashing = "SELECT *, 1 AS id, 2 AS source, 3 AS source_source, 4 AS \"Level 1\", 5 AS \"a.b\", 6 AS __row, 7 AS __file, \
                    8 AS text FROM";
    let (_folder, corpus) = opened(&format!("{clashing} ({PLAIN})")).await;
    let schema: &Schema = &corpus.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names[..9], ["source", "id", "question", "cot", "answer", "system", "turns", "status", "error"]);
    let originals = "source_question, source_cot, source_answer, source_id, source_source_source, source_source, Level 1, \
                     a.b, __row, __file, text";
    assert_eq!(names[9..].join(", "), originals);
    assert_eq!(corpus.original_columns().join(", "), originals);
    assert_eq!(corpus.original_names()[3..6], ["id", "source", "source_source"]);
    let types: Vec<&DataType> = schema.fields().iter().take(9).map(|field| field.data_type()).collect();
    assert_eq!([&types[1..6], &types[7..]].concat(), [&DataType::Utf8; 7]);
    assert_eq!(*types[6], turns_type());
    let DataType::Struct(source) = types[0] else { panic!("{}", types[0]) };
    let fields: Vec<String> = source.iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    assert_eq!(fields, ["file Utf8", "row Int64"]);
    assert!(source.iter().chain(schema.fields()).all(|field| field.metadata().is_empty()));
    let sql =
        "SELECT source_source_source, source_source, \"Level 1\", \"a.b\", __row, __file, text, source_id FROM corpus";
    assert_eq!(query(&corpus, sql).await, ["2 | 3 | 4 | 5 | 6 | 7 | 8 | 1"]);
}

#[tokio::test]
async fn many_rows_keep_their_numbers() {
    let lines: Vec<String> = (0..3000)
        .map(|row| format!(r#"{{"question": "q{row}", "cot": "{}", "answer": "{row}"}}"#, "step ".repeat(row % 50 + 1)))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.jsonl"), lines.join("\n")).unwrap();
    let corpus = open(folder.path(), None).await.unwrap();
    let sql =
        "SELECT count(*), count(DISTINCT source['row']), bool_and(answer = CAST(source['row'] AS VARCHAR)) FROM corpus";
    assert_eq!(query(&corpus, sql).await, ["3000 | 3000 | true"]);
}

#[tokio::test]
async fn a_folder_above_is_a_folder_too() {
    let folder = folder_of(&[("a/b.parquet", PLAIN)]).await;
    std::fs::create_dir(folder.path().join("c")).unwrap();
    let corpus = open(&folder.path().join("c/../a"), None).await.unwrap();
    assert_eq!(corpus.files().next().unwrap().1.file.name, folder.path().join("a/b.parquet").display().to_string());
}
