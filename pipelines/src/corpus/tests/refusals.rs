use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use super::*;

fn assert_names(error: &str, names: &[&str]) {
    for name in names {
        assert!(error.contains(name), "{name} is missing: {error}");
    }
}

/// Runs the SQL of the command that an error shows, as a shell reads it.
async fn follow(error: &str, folder: &Path) -> PathBuf {
    let converted = folder.join("converted.parquet");
    let context = context();
    let (_, command) = error.split_once("asap sql ").unwrap();
    let words = Command::new("sh").args(["-c", &format!("printf '%s\\0' {command}")]).output().unwrap();
    let words = String::from_utf8(words.stdout).unwrap();
    let words: Vec<&str> = words.split_terminator('\0').collect();
    assert_eq!((words.len(), words[0], words[2]), (4, "-c", "-c"), "{error}");
    for sql in [words[1], words[3]] {
        let sql = sql.replace("'converted.parquet'", &format!("'{}'", converted.display()));
        context.sql(&sql).await.unwrap().collect().await.unwrap();
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
            let error = refusal(location).await;
            assert_names(&error, &[&path.display().to_string(), format, "not Parquet", "asap sql"]);
        }
        let converted = follow(&refusal(&path).await, folder.path()).await;
        let corpus = open(&converted, None).await.unwrap();
        let sql = "SELECT DISTINCT question, replace(cot, '\n\nd', ''), answer, \"n, of 2\", status FROM corpus";
        assert_eq!(query(&corpus, sql).await, ["q | c | a | 007 | NULL"], "{name}");
        assert_eq!(corpus.rows(), 30);
    }
}

#[tokio::test]
async fn a_name_in_a_command_runs_no_command_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let path = folder.path().join("it's $(touch mark).csv");
    let header = format!("question,cot,answer,`touch {0}`,$(touch {0}),a'b", mark.display());
    std::fs::write(&path, format!("{header}\nq,c,a,1,2,3\n")).unwrap();
    let converted = follow(&refusal(&path).await, folder.path()).await;
    assert_eq!(query(&open(&converted, None).await.unwrap(), "SELECT \"a'b\" FROM corpus").await, ["3"]);
    assert!(!mark.exists());
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
        assert_names(&refusal(folder.path()).await, &["b.parquet", named]);
    }
}

#[tokio::test]
async fn a_compressed_file_that_was_cut_short_is_named() {
    let product = |row: u64| format!("{row} * {}?", row * 7919 % 1009);
    let row = |row| json!({ "question": product(row), "thinking": "2 and 2", "answer": "four" }).to_string() + "\n";
    let whole = gzipped(&(0..2000).map(row).collect::<String>());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl.gz");
    for length in [whole.len() / 2, whole.len() - 4, 3] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert_names(&refusal(&path).await, &["a.jsonl.gz"]);
    }
}
