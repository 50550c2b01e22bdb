use super::*;

#[tokio::test]
async fn generations_that_no_column_verifies_are_announced() {
    let (_folder, corpus) = opened("SELECT 'q' AS problem, ['a</think>b', 'c</think>d'] AS generations").await;
    assert!(corpus.notes[0].contains("no column says which of its generations are correct"), "{:?}", corpus.notes);
    let error = "none of the 2 texts of column generations is verified as correct (no column says which)";
    assert_eq!(query(&corpus, "SELECT status, error FROM corpus").await, [format!("unverified | {error}")]);
}

#[tokio::test]
async fn a_conversation_of_more_than_one_exchange_is_a_reject() {
    let (user, assistant, more) = (turn("user", "'q'"), turn("assistant", "'a</think>b'"), turn("assistant", "'more'"));
    let rows = format!(
        "SELECT * FROM (VALUES (1, [{user}, {assistant}, {user}, {assistant}]), (2, [{user}, {assistant}, {more}]), \
         (3, [{user}]), (4, [{assistant}]), (5, NULL)) AS t (id, messages)"
    );
    let (_folder, corpus) = opened(&rows).await;
    assert_eq!(
        query(&corpus, "SELECT id, question, cot, status, error FROM corpus ORDER BY id").await,
        [
            "1 | q | a | multi_turn | 2 turns of the user and 2 of the assistant in column messages, expected one of each",
            "2 | q | a | multi_turn | 1 turns of the user and 2 of the assistant in column messages, expected one of each",
            "3 | q | NULL | no_generation | the assistant's turn in column messages is NULL or empty",
            "4 | NULL | a | no_question | the user's turn in column messages is NULL or empty",
            "5 | NULL | NULL | no_question | the user's turn in column messages is NULL or empty, and so is all else that asap reads: \
             the row is empty, or its line is not a JSON object",
        ]
    );
}

#[tokio::test]
async fn a_row_that_cannot_be_pruned_says_why() {
    let rows = "SELECT * FROM (VALUES
        ('q', 'no tags'), ('q', '<think>\n \n</think>a'), ('q', NULL), ('q', ' '), (NULL, 'a</think>b'), (' \n', 'a</think>b'),
        ('q', 'a</think>\n'), (NULL, NULL)) AS t (prompt, generation)";
    let found = recognized(rows, None).await;
    let statuses: Vec<&str> = found.iter().filter_map(|row| row.rsplit(" | ").next()).collect();
    let expected =
        "no_tags, empty_chain, no_generation, no_generation, no_question, no_question, no_answer, no_question";
    assert_eq!(statuses.join(", "), expected);
    let (_folder, corpus) = opened(rows).await;
    let errors = query(&corpus, "SELECT error FROM corpus WHERE source['row'] < 2 ORDER BY source['row']").await;
    let expected = [
        "no closing think tag in the 7 characters of column generation",
        "nothing between the think tags of column generation",
    ];
    assert_eq!(errors, expected);
}

#[tokio::test]
async fn the_id_is_the_published_one_or_made_of_the_content() {
    for (columns, expected) in [
        ("7 AS id, *", "7"),
        ("'u' AS uuid, *", "u"),
        ("NULL AS id, 'v' AS uuid, *", "v"),
        ("[1] AS id, 'w' AS uuid, *", "w"),
        ("*", "9300c96aaec324987ea5ca6e13a02eda"),
    ] {
        let (_folder, corpus) = opened(&format!("SELECT {columns} FROM ({PLAIN})")).await;
        assert_eq!(query(&corpus, "SELECT id FROM corpus").await, [expected], "{columns}");
    }
}
