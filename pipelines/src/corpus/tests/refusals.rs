use std::path::PathBuf;

use super::*;

fn assert_names(error: &str, names: &[&str]) {
    for name in names {
        assert!(error.contains(name), "{name} is missing: {error}");
    }
}

#[tokio::test]
async fn nothing_to_read() {
    let folder = tempfile::tempdir().unwrap();
    assert_names(&refusal(&folder.path().join("no such"), None).await, &["there is no file or folder", "no such"]);
    let shown = folder.path().display().to_string();
    assert_names(&refusal(folder.path(), None).await, &["no Parquet file", &shown]);
    std::fs::write(folder.path().join("README.md"), "hello").unwrap();
    assert_names(&refusal(folder.path(), None).await, &["no Parquet file"]);
}

async fn follow(error: &str, folder: &Path) -> PathBuf {
    let converted = folder.join("converted.parquet");
    let context = context();
    // Quotes within a shell's quotes.
    let error = error.replace("\\\"", "\u{1}");
    let commands: Vec<&str> = error.split("-c \"").skip(1).filter_map(|command| command.split('"').next()).collect();
    assert_eq!(commands.len(), 2, "{error}");
    for command in commands {
        let command =
            command.replace('\u{1}', "\"").replace("'converted.parquet'", &format!("'{}'", converted.display()));
        context.sql(&command).await.unwrap().collect().await.unwrap();
    }
    converted
}

#[tokio::test]
async fn other_formats_come_with_the_way_to_convert_them() {
    // Cells of many lines, longer than one read of a file.
    let cell = format!("c{}", "\n\nd".repeat(5000));
    let csv = format!("question,cot,answer,\"n, of 2\"\n{}", format!("q,\"{cell}\",a,007\n").repeat(30));
    for (name, content, format) in [
        ("a.csv", csv.clone(), "CSV"),
        ("a.tsv", csv.replacen(',', "\t", 3).replace(",\"c", "\t\"c").replace("\",a,", "\"\ta\t"), "TSV"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        // The file itself, and a folder with nothing else.
        for location in [path.as_path(), folder.path()] {
            let error = refusal(location, None).await;
            assert_names(&error, &[&path.display().to_string(), format, "not Parquet", "asap sql"]);
        }
        let converted = follow(&refusal(&path, None).await, folder.path()).await;
        let corpus = open(&converted, None).await.unwrap();
        let sql = "SELECT DISTINCT question, replace(cot, '\n\nd', ''), answer, \"n, of 2\", status FROM corpus";
        assert_eq!(query(&corpus, sql).await, ["q | c | a | 007 | NULL"], "{name}");
        assert_eq!(corpus.rows(), 30);
    }
}

#[tokio::test]
async fn files_that_are_not_whole() {
    let folder = folder_of(&[("a.parquet", PLAIN)]).await;
    let whole = std::fs::read(folder.path().join("a.parquet")).unwrap();
    let middle = whole.len() / 4;
    let mut long_footer = whole.clone();
    let length_at = long_footer.len() - 8;
    long_footer[length_at..length_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    for (content, named) in [
        (whole[..whole.len() - 100].to_vec(), "cut short"),
        (whole[..5].to_vec(), "cut short"),
        (vec![], "it is empty"),
        (b"hello, world, this is text".to_vec(), "not a Parquet file"),
        ([&whole[..4], &whole[middle..]].concat(), "damaged"),
        (long_footer, "damaged"),
        ([b"PAR1", &[7; 40][..], &[40, 0, 0, 0], b"PAR1"].concat(), "damaged"),
    ] {
        std::fs::write(folder.path().join("b.parquet"), content).unwrap();
        assert_names(&refusal(folder.path(), None).await, &["b.parquet", named]);
    }
}

#[tokio::test]
async fn a_mapping_to_a_column_that_is_not_there() {
    let rows = "SELECT 'x' AS \"Question\", 'y' AS reasoning, 'z' AS final";
    let error = refused(rows, Some("question=question,cot=reasoning,answer=final")).await;
    assert_names(&error, &["a.parquet", "no column question", "did you mean Question?"]);
    let error = refused(rows, Some("question=Question,cot=qqq,answer=final")).await;
    assert_names(&error, &["no column qqq", "reasoning", "final"]);
    assert!(!error.contains("did you mean"), "{error}");
}

#[tokio::test]
async fn a_delta_table_is_more_than_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    write(&table, "a.parquet", PLAIN).await;
    std::fs::create_dir(table.join("_delta_log")).unwrap();
    std::fs::write(table.join("_delta_log/00000000000000000000.json"), "{}").unwrap();
    let shown = table.display().to_string();
    assert_names(&refusal(folder.path(), None).await, &["the Delta table", "name the table's own folder", &shown]);
    assert_names(&refusal(&table.join("a.parquet"), None).await, &["the Delta table", &shown]);
    assert_names(&refusal(&table, None).await, &["cannot read the log", "columns"]);
}

#[tokio::test]
async fn a_folder_above_is_a_folder_too() {
    let folder = folder_of(&[("a/b.parquet", PLAIN)]).await;
    std::fs::create_dir(folder.path().join("c")).unwrap();
    let corpus = open(&folder.path().join("c/../a"), None).await.unwrap();
    assert_eq!(corpus.files().next().unwrap().1.file.name, folder.path().join("a/b.parquet").display().to_string());
}
