//! Files like those of published corpora: which are recognized, and with which question, chain and answer.

use super::*;

const REASONING: &str = "[{'role': 'user', 'content': 'two?', 'reasoning_content': NULL}, \
                         {'role': 'assistant', 'content': 'four', 'reasoning_content': '2 and 2'}] AS messages";

#[tokio::test]
async fn a_printed_mapping_with_blanks_is_refused_until_they_are_filled() {
    for mapping in
        ["question=?,cot=?,answer=?", "question=question,cot=?,answer=?", "question=question,cot=reasoning,answer=?"]
    {
        let unchanged = mapping.parse::<ColumnMapping>().unwrap_err().to_string();
        assert!(unchanged.contains("open: write a column of the files in place of ?"), "{unchanged}");
    }
}

/// The engine tests the items of a list in the file scan.
#[tokio::test]
async fn lists_are_searched_whatever_else_is_read() {
    for rows in [
        format!("SELECT 'two?' AS question, [{{'response': 'x'}}, {{'response': {TAGGED}}}] AS responses"),
        format!("SELECT {REASONING}"),
        format!("SELECT 'two?' AS problem, ['x', {TAGGED}] AS generations, [false, true] AS is_correct"),
    ] {
        let (_folder, corpus) = opened(&rows).await;
        assert_eq!(query(&corpus, "SELECT cot FROM corpus").await, ["2 and 2"], "{rows}");
    }
}

#[tokio::test]
async fn the_question_is_the_problem_and_not_the_template_around_it() {
    let rows = format!(
        "SELECT concat('two', i, '?') AS problem, 'Example: What is 1 + 1? 2' AS prompt, \
         concat({TAGGED}, i) AS response FROM range(16) AS t (i)"
    );
    let (_folder, corpus) = opened(&rows).await;
    assert_eq!(query(&corpus, "SELECT count(DISTINCT question) FROM corpus").await, ["16"]);
    let [found, rival] = corpus.notes.as_slice() else { panic!("{:?}", corpus.notes) };
    assert!(found.contains("response of"), "{found}");
    assert!(rival.contains("is read from column problem; column prompt could be it too"), "{rival}");
    // The same texts under two names raise no doubt.
    let twice = "SELECT 'two?' AS question, 'two?' AS prompt, '2 and 2' AS reasoning, 'four' AS answer, '' AS output";
    assert_eq!(opened(twice).await.1.notes, [""; 0]);
    let notes = opened(&format!("SELECT * EXCEPT (problem) FROM ({rows})")).await.1.notes;
    assert!(notes[1].contains("at least 16 of 16 rows have one question, \"Example: What is 1 + 1? 2"), "{notes:?}");

    let options =
        "SELECT 'Which lacks it?' AS question, 'two?' AS formated_question, '2 and 2' AS reason, 'four' AS gen_ans";
    assert_eq!(recognized(options, None).await, [READ]);
}

#[tokio::test]
async fn of_a_list_of_structs_the_first_with_tags_is_read_and_the_others_are_counted() {
    let rows = format!(
        "SELECT 'two?' AS problem, [{{'solution': 'cut off'}}, {{'solution': {TAGGED}}}, {{'solution': {TAGGED}}}] AS solutions \
         UNION ALL SELECT 'two?', [{{'solution': {TAGGED}}}] UNION ALL SELECT 'two?', [{{'solution': 'cut off'}}] \
         UNION ALL SELECT 'two?', NULL"
    );
    for rows in [rows.clone(), rows.replace("solutions", "generations")] {
        let mut found = recognized(&rows, None).await;
        found.sort();
        let rejects = ["two? | NULL | NULL | no_generation", "two? | NULL | NULL | no_tags"];
        assert_eq!(found, [READ, READ, rejects[0], rejects[1]]);
    }
    let (_folder, corpus) = opened(&rows).await;
    let note = corpus.notes.iter().find(|note| note.contains("generations of column solutions")).unwrap();
    assert!(
        note.contains("of the 6 generations of column solutions in 4 rows") && note.contains("2 are left out"),
        "{note}"
    );
}

#[tokio::test]
async fn a_flag_in_a_column_of_its_own_rejects_wrong_rows() {
    let rows = |flag: &str, values: &str| {
        format!("SELECT 'two?' AS prompt, {TAGGED} AS completion, {flag} FROM (VALUES {values}) AS t ({flag})")
    };
    let wrong = "two? | 2 and 2 | four | unverified";
    for values in ["(1.0), (0.0), (NULL)", "(1), (0), (NULL)", "(true), (false), (NULL)"] {
        assert_eq!(recognized(&rows("reward", values), None).await, [READ, wrong, READ], "{values}");
    }
    let notes = async |rows: &str| {
        let (_folder, corpus) = opened(rows).await;
        let errors = query(&corpus, "SELECT DISTINCT error FROM corpus WHERE error IS NOT NULL").await.join("\n");
        [corpus.notes.join("\n"), errors].concat()
    };
    let flagged = rows("reward", "(1.0), (0.0)");
    let found = notes(&flagged).await;
    assert!(found.contains("whose reward is false or 0 are rejects (unverified)"), "{found}");
    assert!(found.contains("column reward is 0.0: the row is not correct"), "{found}");
    assert_eq!(recognized(&flagged, Some("question=prompt,cot=completion")).await, [READ; 2]);
    assert_eq!(recognized(&flagged, Some("question=prompt,cot=completion,flag=reward")).await, [READ, wrong]);
    // A score is not a flag, even if only a late row shows it.
    let far = (0..400).map(|row| if row == 399 { "(0.5)" } else { "(1.0)" }).collect::<Vec<_>>().join(", ");
    for (flag, values, why) in [
        ("score", far.as_str(), "found 0.5"),
        ("score", "(4), (1)", "found 4"),
        ("is_correct", "('yes')", "found text"),
    ] {
        let found = notes(&rows(flag, values)).await;
        assert!(found.contains(&format!("column {flag} of")) && found.contains("is not read"), "{found}");
        assert!(found.contains(why), "{found}");
    }
    let found = notes(&rows("score", "([true])")).await;
    assert!(found.contains("found list of Boolean"), "{found}");
}

#[tokio::test]
async fn what_is_known_is_a_table() {
    let rows = context().sql("SELECT shape, cot FROM corpus_shapes() WHERE shape = 'generation'").await.unwrap();
    assert_eq!(rows.count().await.unwrap(), 1);
}

#[tokio::test]
async fn an_inspection_says_what_is_read_from_where() {
    let rows = format!("SELECT 'two?' AS input, {TAGGED} AS output, [1] AS n, {{'a': 1}} AS s FROM range(5)");
    let (_folder, corpus) = opened(&rows).await;
    let found = corpus.inspect(&context(), 2).await.unwrap();
    let [only] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((only.files, only.rows, only.shape.as_str()), (1, 5, "think tags"));
    assert_eq!(only.question, "input");
    assert_eq!(only.cot, "output: between its think tags");
    assert_eq!(only.mapping, "question=input,cot=output");
    let kinds: Vec<&str> = only.columns.iter().map(|(_, kind)| kind.as_str()).collect();
    assert_eq!(kinds, ["text", "text", "list of Int64", "struct of a"]);
    let [first, second] = only.sample.as_slice() else { panic!("{found:?}") };
    assert_eq!((first.row, second.row), (0, 1));
    assert_eq!(first.cot.as_deref(), Some("2 and 2"));
    assert_eq!(recognized(&rows, Some(&only.mapping)).await, [READ; 5]);
}

#[tokio::test]
async fn a_damaged_file_decides_nothing_for_others() {
    let rows = format!("SELECT 'two?' AS input, {TAGGED} AS text_out FROM range(500)");
    let folder = folder_of(&[("a.parquet", &rows), ("b.parquet", &rows)]).await;
    let path = folder.path().join("a.parquet");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize + 8;
    let pages = 4..bytes.len() - end;
    bytes[pages].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let corpus = open(folder.path(), None).await.unwrap();
    assert!(corpus.notes[0].contains("column text_out of"), "{:?}", corpus.notes);
    assert!(corpus.damaged(&context().state()).await.unwrap().to_string().contains("a.parquet"));
    std::fs::remove_file(folder.path().join("b.parquet")).unwrap();
    let error = refusal(folder.path(), None).await;
    assert!(error.contains("a.parquet is a damaged Parquet file"), "{error}");
}
