use super::*;

#[tokio::test]
async fn one_generation_next_to_a_question() {
    let codeforces = format!(
        "SELECT 'x1' AS id, 'two?' AS prompt, {TAGGED} AS generation, 'stop' AS finish_reason, \
         [{{'content': 'other', 'role': 'user'}}] AS messages, {{'model': 'r1'}} AS api_metadata"
    );
    assert_eq!(recognized(&codeforces, None).await, [READ]);
    let open_math = format!(
        "SELECT 'two?' AS problem, {TAGGED} AS generated_solution, '4' AS expected_answer, '0.5' AS pass_rate_72b_tir"
    );
    assert_eq!(recognized(&open_math, None).await, [READ]);
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
    let found = recognized(&both, None).await;
    assert_eq!(found[..4], [READ; 4]);
    assert_eq!(found[4..], ["two? | NULL | NULL | unverified"; 4]);

    let one = format!("SELECT 'two?' AS problem, * EXCEPT (correctness_math_verify) FROM ({rows}) LIMIT 2");
    assert_eq!(recognized(&one, None).await, [READ; 2]);
    let null_typed = format!("SELECT * REPLACE (NULL AS correctness_llama) FROM ({both}) LIMIT 1");
    assert_eq!(recognized(&null_typed, None).await, [READ]);
    let no_types = "SELECT NULL AS correctness_math_verify, NULL AS correctness_llama";
    let neither = format!("SELECT 'two?' AS problem, ['a</think>b'] AS generations, * FROM ({no_types})");
    assert_eq!(recognized(&neither, None).await, ["two? | NULL | NULL | unverified"]);
}

#[tokio::test]
async fn generations_that_no_column_verifies_are_announced() {
    let (_folder, corpus) = opened("SELECT 'q' AS problem, ['a</think>b', 'c</think>d'] AS generations").await;
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
    for rows in [
        format!("SELECT {} AS messages, 'm' AS domain", turns("role", "content", "user", "assistant")),
        format!("SELECT {} AS conversations", turns("from", "value", "human", "gpt")),
        format!("SELECT {{'from': ['human', 'gpt'], 'value': ['two?', {TAGGED}]}} AS conversations"),
        format!("SELECT {{'content': ['two?', {TAGGED}], 'role': ['user', 'assistant']}} AS messages"),
    ] {
        assert_eq!(recognized(&rows, None).await, [READ], "{rows}");
    }
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
async fn columns_of_their_own() {
    let plain = "SELECT 'two?' AS question, '2 and 2' AS cot, 'four' AS answer";
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
        assert_eq!(recognized(&rows, None).await, [READ], "{question}, {cot}, {answer}");
    }
    for rows in [
        plain,
        "SELECT 'two?' AS problem, '2 and 2' AS deepseek_reasoning, 'four' AS deepseek_solution",
        "SELECT 'two?' AS \"Question\", '2 and 2' AS \"CoT\", 'four' AS \"ANSWER\"",
        &format!("SELECT 'two?' AS question, {TAGGED} AS cot, 'four' AS answer"),
        &format!("SELECT 'two?' AS question, {TAGGED} AS cot"),
        // asap's own output has messages and the original generation next to the pruned chain.
        &format!("SELECT *, {TAGGED} AS generation, 'other' AS prompt FROM ({plain})"),
    ] {
        assert_eq!(recognized(rows, None).await, [READ], "{rows}");
    }
    let a_number = "SELECT 'two?' AS question, '2 and 2' AS cot, 4 AS answer";
    assert_eq!(recognized(a_number, None).await, ["two? | 2 and 2 | 4 | NULL"]);
    // A chain that mentions tags is not cut at them.
    for cot in ["one writes </think> here", "in <think> tags, closed by </think>"] {
        let spoken_of = format!("SELECT 'two?' AS question, '{cot}' AS cot, 'four' AS answer");
        assert_eq!(recognized(&spoken_of, None).await, [format!("two? | {cot} | four | NULL")]);
    }
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

    let rows = "SELECT * FROM (VALUES ('q', NULL, 'a'), ('q', '\n', 'a'), ('q', 'c', NULL), ('q', 'c', ''), (NULL, NULL, NULL)) \
                AS t (question, cot, answer)";
    let found = recognized(rows, None).await;
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
