use super::*;

const TAGGED: &str = "'<think>\n2 and 2\n</think>\nfour'";
const READ: &str = "two? | 2 and 2 | four | NULL";

#[tokio::test]
async fn one_generation_beside_a_question() {
    let codeforces = format!(
        "SELECT 'x1' AS id, 'two?' AS prompt, {TAGGED} AS generation, 'stop' AS finish_reason, \
         [{{'content': 'other', 'role': 'user'}}] AS messages, {{'model': 'r1'}} AS api_metadata"
    );
    assert_eq!(recognised(&codeforces, None).await, [READ]);
    let open_math = format!(
        "SELECT 'two?' AS problem, {TAGGED} AS generated_solution, '4' AS expected_answer, '0.5' AS pass_rate_72b_tir"
    );
    assert_eq!(recognised(&open_math, None).await, [READ]);
}

#[tokio::test]
async fn the_first_generation_that_is_verified() {
    let rows = "SELECT * FROM (VALUES
        (['no</think>0', '2 and 2</think>four', 'late</think>4'], [false, true, true], [NULL, true, NULL]),
        (['no</think>0', '2 and 2</think>four'], [false, false], [false, true]),
        (['2 and 2</think>four', 'late</think>4'], NULL, [true, false]),
        (['no</think>0', '2 and 2</think>four', 'late</think>4'], [false, NULL, true], [false, true, NULL]),
        (['a</think>0', 'b</think>1'], [false, NULL], NULL),
        (['a</think>0'], NULL, NULL),
        (NULL, [true], NULL),
        ([], [], [])) AS t (generations, correctness_math_verify, correctness_llama)";
    let both = format!("SELECT 'two?' AS problem, 'four' AS answer, '4' AS solution, 'u' AS uuid, * FROM ({rows})");
    let found = recognised(&both, None).await;
    assert_eq!(found[..4], [READ; 4]);
    assert_eq!(found[4..6], ["two? | NULL | NULL | unverified"; 2]);
    assert_eq!(found[6..], ["two? | NULL | NULL | unverified"; 2]);

    let one = format!("SELECT 'two?' AS problem, * EXCEPT (correctness_math_verify) FROM ({rows}) LIMIT 2");
    assert_eq!(recognised(&one, None).await, [READ; 2]);
    let null_typed = format!("SELECT * REPLACE (NULL AS correctness_llama) FROM ({both}) LIMIT 1");
    assert_eq!(recognised(&null_typed, None).await, [READ]);
    let no_types = "SELECT NULL AS correctness_math_verify, NULL AS correctness_llama";
    let neither = format!("SELECT 'two?' AS problem, ['a</think>b'] AS generations, * FROM ({no_types})");
    assert_eq!(recognised(&neither, None).await, ["two? | NULL | NULL | unverified"]);
}

#[tokio::test]
async fn generations_that_no_column_verifies_are_announced() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.parquet", "SELECT 'q' AS problem, ['a</think>b', 'c</think>d'] AS generations").await;
    let corpus = open(folder.path(), None).await.unwrap();
    assert!(corpus.notes[0].contains("no column says which of its generations are correct"), "{:?}", corpus.notes);
    let error = "none of the 2 texts of column generations is verified as correct (no column says which)";
    assert_eq!(query(&corpus, "SELECT status, error FROM corpus").await, [format!("unverified | {error}")]);
}

#[tokio::test]
async fn conversations_in_every_form() {
    let turns = |role: &str, content: &str, user: &str, assistant: &str| {
        let turn = |speaker: &str, text: &str| format!("{{'{role}': '{speaker}', '{content}': {text}}}");
        let system = turn("system", "'Think.'");
        format!("[{system}, {}, {}]", turn(user, "'two?'"), turn(assistant, TAGGED))
    };
    let messages = turns("role", "content", "user", "assistant");
    let conversations = turns("from", "value", "human", "gpt");
    assert_eq!(recognised(&format!("SELECT {messages} AS messages, 'm' AS domain"), None).await, [READ]);
    assert_eq!(recognised(&format!("SELECT {conversations} AS conversations"), None).await, [READ]);
    let lists = format!("{{'from': ['human', 'gpt'], 'value': ['two?', {TAGGED}]}}");
    assert_eq!(recognised(&format!("SELECT {lists} AS conversations"), None).await, [READ]);
    let lists = format!("{{'content': ['two?', {TAGGED}], 'role': ['user', 'assistant']}}");
    assert_eq!(recognised(&format!("SELECT {lists} AS messages"), None).await, [READ]);
}

#[tokio::test]
async fn a_conversation_of_more_than_one_exchange_is_a_reject() {
    let folder = tempfile::tempdir().unwrap();
    let turn = |role: &str, text: &str| format!("{{'role': '{role}', 'content': '{text}'}}");
    let exchange = [turn("user", "q"), turn("assistant", "a</think>b")].join(", ");
    let rows = format!(
        "SELECT * FROM (VALUES (1, [{exchange}, {exchange}]), (2, [{exchange}, {}]), (3, [{}]), (4, [{}]), (5, NULL)) \
         AS t (id, messages)",
        turn("assistant", "more"),
        turn("user", "q"),
        turn("assistant", "a</think>b")
    );
    write(folder.path(), "a.parquet", &rows).await;
    let corpus = open(folder.path(), None).await.unwrap();
    let found = query(&corpus, "SELECT id, question, cot, status, error FROM corpus ORDER BY id").await;
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(
        found,
        [
            "1 | q | a | multi_turn | 2 turns of the user and 2 of the assistant in column messages, expected one of each",
            "2 | q | a | multi_turn | 1 turns of the user and 2 of the assistant in column messages, expected one of each",
            "3 | q | NULL | no_generation | the assistant's turn in column messages is NULL or empty",
            "4 | NULL | a | no_question | the user's turn in column messages is NULL or empty",
            "5 | NULL | NULL | no_question | the user's turn in column messages is NULL or empty",
        ]
    );
}

#[tokio::test]
async fn columns_of_their_own() {
    let plain = "SELECT 'two?' AS question, '2 and 2' AS cot, 'four' AS answer";
    assert_eq!(recognised(plain, None).await, [READ]);
    let reasoning = "SELECT 'two?' AS problem, '2 and 2' AS deepseek_reasoning, 'four' AS deepseek_solution";
    assert_eq!(recognised(reasoning, None).await, [READ]);
    for (question, cot, answer) in [
        ("question", "thinking", "answer"),
        ("question", "think", "answer"),
        ("prompt", "cot", "answer"),
        ("prompt", "reasoning", "output"),
        ("prompt", "reasoning_content", "content"),
        ("Question", "Complex_CoT", "Response"),
        ("question", "deepseek_thinking_trajectory", "deepseek_attempt"),
    ] {
        let rows = format!(
            "SELECT 'two?' AS \"{question}\", '2 and 2' AS \"{cot}\", 'four' AS \"{answer}\", '4' AS solution, 'x' AS id"
        );
        assert_eq!(recognised(&rows, None).await, [READ], "{question}, {cot}, {answer}");
    }
    let in_capitals = "SELECT 'two?' AS \"Question\", '2 and 2' AS \"CoT\", 'four' AS \"ANSWER\"";
    assert_eq!(recognised(in_capitals, None).await, [READ]);
    let a_number = "SELECT 'two?' AS question, '2 and 2' AS cot, 4 AS answer";
    assert_eq!(recognised(a_number, None).await, ["two? | 2 and 2 | 4 | NULL"]);
    let tags_left = format!("SELECT 'two?' AS question, {TAGGED} AS cot, 'four' AS answer");
    assert_eq!(recognised(&tags_left, None).await, [READ]);
    // A chain that mentions tags is not cut at them.
    for cot in ["one writes </think> here", "in <think> tags, closed by </think>"] {
        let spoken_of = format!("SELECT 'two?' AS question, '{cot}' AS cot, 'four' AS answer");
        assert_eq!(recognised(&spoken_of, None).await, [format!("two? | {cot} | four | NULL")]);
    }
    let whole_generation = format!("SELECT 'two?' AS question, {TAGGED} AS cot");
    assert_eq!(recognised(&whole_generation, None).await, [READ]);
    // asap's own output has messages and the original generation next to the pruned chain.
    let pruned = format!("SELECT *, {TAGGED} AS generation, 'other' AS prompt FROM ({plain})");
    assert_eq!(recognised(&pruned, None).await, [READ]);
}

#[tokio::test]
async fn names_as_published_by_mapping() {
    let rows =
        "SELECT 'two?' AS \"The.Question, please\", '2 and 2' AS \"CoT=steps\", 'four' AS \"Final.Answer\", 'x' AS cot";
    let mapping = "question=The.Question, please,cot=CoT=steps,answer=Final.Answer";
    assert_eq!(recognised(rows, Some(mapping)).await, [READ]);
    let generation = format!("SELECT 'two?' AS \"Q\", {TAGGED} AS \"Out.put\", 'wrong' AS answer");
    assert_eq!(recognised(&generation, Some("question=Q,cot=Out.put")).await, [READ]);
}

#[tokio::test]
async fn a_text_with_think_tags_is_found_by_them() {
    let folder = tempfile::tempdir().unwrap();
    let rows = format!("SELECT 'two?' AS input, {TAGGED} AS output, 'r1' AS model, 1 AS n");
    write(folder.path(), "a.parquet", &rows).await;
    let corpus = open(folder.path(), None).await.unwrap();
    assert_eq!(query(&corpus, "SELECT question, cot, answer, status FROM corpus").await, [READ]);
    assert!(corpus.notes[0].contains("column output of"), "{:?}", corpus.notes);
}

#[tokio::test]
async fn a_row_that_cannot_be_pruned_says_why() {
    let rows = "SELECT * FROM (VALUES
        ('q', 'no tags'), ('q', '<think>\n \n</think>a'), ('q', NULL), ('q', ' '), (NULL, 'a</think>b'), (' \n', 'a</think>b'),
        ('q', 'a</think>\n'), (NULL, NULL)) AS t (prompt, generation)";
    let found = recognised(rows, None).await;
    let statuses: Vec<&str> = found.iter().filter_map(|row| row.rsplit(" | ").next()).collect();
    let expected = [
        "no_tags",
        "empty_chain",
        "no_generation",
        "no_generation",
        "no_question",
        "no_question",
        "no_answer",
        "no_question",
    ];
    assert_eq!(statuses, expected);

    let rows = "SELECT * FROM (VALUES ('q', NULL, 'a'), ('q', '\n', 'a'), ('q', 'c', NULL), ('q', 'c', ''), (NULL, NULL, NULL)) \
                AS t (question, cot, answer)";
    let found = recognised(rows, None).await;
    assert_eq!(
        found,
        [
            "q | NULL | a | empty_chain",
            "q | \n | a | empty_chain",
            "q | c | NULL | no_answer",
            "q | c |  | no_answer",
            "NULL | NULL | NULL | no_question",
        ]
    );
}

#[tokio::test]
async fn the_error_names_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "SELECT * FROM (VALUES ('q', 'no tags'), ('q', '<think></think>a')) AS t (prompt, generation)";
    write(folder.path(), "a.parquet", rows).await;
    let corpus = open(folder.path(), None).await.unwrap();
    assert_eq!(
        query(&corpus, "SELECT error FROM corpus ORDER BY status DESC").await,
        [
            "no closing think tag in the 7 characters of column generation",
            "nothing between the think tags of column generation"
        ]
    );
}

#[tokio::test]
async fn the_id_is_the_published_one_or_made_of_the_content() {
    let folder = tempfile::tempdir().unwrap();
    let plain = "SELECT 'q' AS question, 'c' AS cot, 'a' AS answer";
    for (file, id) in
        [("a", "7 AS id"), ("b", "'u' AS uuid"), ("c", "NULL AS id, 'v' AS uuid"), ("d", "[1] AS id, 'w' AS uuid")]
    {
        write(folder.path(), &format!("{file}/x.parquet"), &format!("SELECT {id}, * FROM ({plain})")).await;
        let corpus = open(&folder.path().join(file), None).await.unwrap();
        let found = query(&corpus, "SELECT id FROM corpus").await;
        assert_eq!(found, [["7", "u", "v", "w"][(file.as_bytes()[0] - b'a') as usize]]);
    }
    write(folder.path(), "e/x.parquet", plain).await;
    let corpus = open(&folder.path().join("e"), None).await.unwrap();
    assert_eq!(query(&corpus, "SELECT id FROM corpus").await, ["9300c96aaec324987ea5ca6e13a02eda"]);
}
