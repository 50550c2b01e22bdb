//! Files like those of published corpora: which are recognised, with which question, chain and answer.

use super::*;

const TAGGED: &str = "'<think>\n2 and 2\n</think>\nfour'";
const READ: &str = "two? | 2 and 2 | four | NULL";

/// One row of each corpus that is recognised by itself.
fn recognised_corpora() -> Vec<(&'static str, String)> {
    let template =
        "E'<|im_start|>system\\nThink.<|im_end|>\\n<|im_start|>user\\ntwo?<|im_end|>\\n<|im_start|>assistant\\n'";
    let turn = |role: &str, content: &str| format!("{{'role': '{role}', 'content': {content}}}");
    let exchange = format!("[{}, {}]", turn("user", "'two?'"), turn("assistant", TAGGED));
    vec![
        (
            "rollouts",
            format!("SELECT {template} AS prompt, E'<think>\\n2 and 2\\n</think>\\nfour<|im_end|>' AS completion, 1.0 AS reward"),
        ),
        (
            "bangla",
            "SELECT 'two?' AS formated_question, '2 and 2' AS reason, 'four' AS gen_ans, '4' AS answer, 'x' AS id".to_string(),
        ),
        (
            "chat completions",
            format!(
                "SELECT 'two?' AS question, [{{'index': 0, 'message': {{'role': 'assistant', 'content': {TAGGED}}}}}] AS choices, 'm' AS model"
            ),
        ),
        ("agriculture", "SELECT 'two?' AS question, '2 and 2' AS thinking, 'four' AS answer".to_string()),
        (
            "agriculture as alpaca",
            format!("SELECT '' AS instruction, 'two?' AS input, {TAGGED} AS output, 'Think.' AS system"),
        ),
        ("medicine", "SELECT 'two?' AS question, '2 and 2' AS think, 'four' AS answer, 1 AS score".to_string()),
        ("translation", "SELECT 'two?' AS text, '2 and 2' AS thought, 'four' AS trans".to_string()),
        ("finance", "SELECT 'two?' AS prompt, '2 and 2' AS cot, 'four' AS answer".to_string()),
        ("huatuo", "SELECT 'two?' AS \"Question\", '2 and 2' AS \"Complex_CoT\", 'four' AS \"Response\"".to_string()),
        (
            "marco",
            "SELECT 'two?' AS instruction, E'<Thought>\\n2 and 2\\n</Thought>\\n<Output>\\nfour\\n</Output>' AS response".to_string(),
        ),
        ("code", "SELECT 'two?' AS prompt, '2 and 2' AS reasoning, 'four' AS output".to_string()),
        (
            "skythought",
            format!("SELECT 'two?' AS problem, ['<think>1</think>five', {TAGGED}] AS code, [0.0, 1.0] AS score, '4' AS answer"),
        ),
        (
            "skythought by temperature",
            format!("SELECT 'two?' AS problem, {{'0.7': {{'content': {TAGGED}, 'correctness': true}}}} AS responses"),
        ),
        ("star", format!("SELECT 'two?' AS question, {TAGGED} AS response, 'policy' AS category")),
        (
            "steering",
            format!("SELECT 'two?' AS question, {TAGGED} AS full_response, [{}] AS messages_of_others", turn("user", "'x'")),
        ),
        (
            "thought anchors",
            format!(
                "SELECT 'two?' AS problem, [{{'solution': '<think>1</think>five', 'is_correct': false}}, \
                 {{'solution': {TAGGED}, 'is_correct': true}}] AS solutions"
            ),
        ),
        ("topology", format!("SELECT 'two?' AS prompt, {TAGGED} AS full_response, 3 AS depth")),
        ("s1", "SELECT 'two?' AS question, ['2 and 2'] AS thinking_trajectories, 'four' AS attempt, '4' AS solution".to_string()),
        (
            "prompts as conversations",
            format!("SELECT [{}, {}] AS input, {TAGGED} AS output", turn("system", "'Think.'"), turn("user", "'two?'")),
        ),
        (
            "conversational prompt and completion",
            format!("SELECT [{}] AS prompt, [{}] AS completion", turn("user", "'two?'"), turn("assistant", TAGGED)),
        ),
        (
            "reasoning within messages",
            "SELECT [{'role': 'user', 'content': 'two?', 'reasoning_content': NULL}, \
             {'role': 'assistant', 'content': 'four', 'reasoning_content': '2 and 2'}] AS messages"
                .to_string(),
        ),
        ("messages", format!("SELECT {exchange} AS messages")),
    ]
}

#[tokio::test]
async fn corpora_as_they_are_published() {
    for (name, rows) in recognised_corpora() {
        assert_eq!(recognised(&rows, None).await, [READ], "{name}");
    }
}

#[tokio::test]
async fn what_is_not_recognised_comes_with_a_mapping_that_works() {
    for rows in [
        "SELECT 'two?' AS \"Aufgabe\", 'That is 2 and 2' AS \"Gedanke\", 'four, so' AS \"Ergebnis\"",
        "SELECT 'two?' AS question, 'That is 2 and 2' AS solution, '4' AS answer",
        "SELECT 'two?' AS question, [{'response_model': 'm', 'response': 'That is 2 and 2'}] AS responses, '4' AS reference_answer",
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.parquet", rows).await;
        let error = refusal(folder.path(), None).await;
        let mapping = error.split("--columns '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
        let read = recognised(rows, Some(mapping)).await;
        assert!(
            read[0].starts_with("two? | That is 2 and 2 | ") && read[0].ends_with(" | NULL"),
            "{mapping}: {read:?}"
        );
    }
}

#[tokio::test]
async fn an_instruction_and_its_input_are_one_question() {
    let rows = format!(
        "SELECT instruction, input, {TAGGED} AS output FROM (VALUES ('Add.', '2, 2'), ('two?', ''), ('two?', NULL)) AS t (instruction, input)"
    );
    let read = "2 and 2 | four | NULL";
    assert_eq!(recognised(&rows, None).await, [format!("Add.\n\n2, 2 | {read}"), READ.to_string(), READ.to_string()]);
}

#[tokio::test]
async fn a_generation_that_was_cut_off_is_not_taken() {
    let rows = format!(
        "SELECT 'two?' AS problem, ['<think>cut</think>x', {TAGGED}] AS generations, [true, true] AS correctness_math_verify, \
         [false, true] AS is_reasoning_complete"
    );
    assert_eq!(recognised(&rows, None).await, [READ]);
}

#[tokio::test]
async fn a_list_of_steps_is_a_chain() {
    let rows = "SELECT 'two?' AS question, ['2', 'and', NULL, '2'] AS cot, 'four' AS answer";
    assert_eq!(recognised(rows, None).await, ["two? | 2\n\nand\n\n2 | four | NULL"]);
    let mapped = "SELECT 'two?' AS q, ['2', 'and 2'] AS steps, 'four' AS a";
    assert_eq!(recognised(mapped, Some("question=q,cot=steps,answer=a")).await, ["two? | 2\n\nand 2 | four | NULL"]);
}

#[tokio::test]
async fn a_mapping_to_generations_minds_their_flags() {
    let rows = format!(
        "SELECT 'two?' AS problem, ['<think>1</think>five', {TAGGED}] AS generations, [false, true] AS is_correct"
    );
    assert_eq!(recognised(&rows, Some("question=problem,cot=generations")).await, [READ]);
    let unflagged = format!("SELECT 'two?' AS problem, [{TAGGED}, 'x'] AS generations");
    assert_eq!(recognised(&unflagged, Some("question=problem,cot=generations")).await, [READ]);
}

#[tokio::test]
async fn of_several_shapes_the_one_counts_by_which_rows_can_be_read() {
    let turn = |role: &str, content: &str| format!("{{'role': '{role}', 'content': {content}}}");
    let messages = |answer: &str| format!("[{}, {}] AS messages", turn("user", "'two?'"), turn("assistant", answer));
    // Names of another shape, of which nothing is there.
    let odd = format!(
        "SELECT CAST(NULL AS VARCHAR) AS question, NULL AS cot, NULL AS answer, {} FROM range(3)",
        messages(TAGGED)
    );
    assert_eq!(recognised(&odd, None).await, [READ; 3]);
    // A conversation without the chain, which stands beside it.
    let beside = format!("SELECT 'two?' AS prompt, '2 and 2' AS reasoning, 'four' AS response, {}", messages("'four'"));
    assert_eq!(recognised(&beside, None).await, [READ]);
    let null_chain = "SELECT 'two?' AS question, CAST(NULL AS VARCHAR) AS cot, '2 and 2' AS thinking, 'four' AS answer";
    assert_eq!(recognised(null_chain, None).await[0], "two? | NULL | four | empty_chain");
}

#[tokio::test]
async fn several_texts_with_think_tags_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let rows = format!("SELECT 'two?' AS prompt, {TAGGED} AS chosen, {TAGGED} AS rejected");
    write(folder.path(), "a.parquet", &rows).await;
    let error = refusal(folder.path(), None).await;
    assert!(error.contains("several texts hold think tags, chosen and rejected"), "{error}");
    assert!(error.contains("--columns 'question=prompt,cot=chosen'"), "{error}");
    assert_eq!(recognised(&rows, Some("question=prompt,cot=chosen")).await, [READ]);
    let nameless = format!("SELECT 'two?' AS \"Aufgabe\", {TAGGED} AS text_of_model");
    write(folder.path(), "a.parquet", &nameless).await;
    let error = refusal(folder.path(), None).await;
    assert!(error.contains("text_of_model holds think tags, but nothing is called as a question"), "{error}");
    assert!(error.contains("--columns 'question=Aufgabe,cot=text_of_model'"), "{error}");
}

#[tokio::test]
async fn an_answer_that_holds_a_think_tag_is_a_reject() {
    let rows = "SELECT 'two?' AS prompt, 'The tag </think> ends it.</think>four' AS generation";
    assert_eq!(recognised(rows, None).await, ["two? | The tag | ends it.</think>four | tags_in_answer"]);
    let twice = "SELECT [{'role': 'user', 'content': 'two?', 'reasoning_content': NULL}, \
                 {'role': 'assistant', 'content': '<think>2</think>four', 'reasoning_content': '2 and 2'}] AS messages";
    assert_eq!(recognised(twice, None).await, [READ]);
}

#[tokio::test]
async fn prompts_that_templates_rendered() {
    for prompt in [
        "<|im_start|>user\\ntwo?<|im_end|>\\n<|im_start|>assistant\\n<think>\\n",
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\\n\\ntwo?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\\n\\n",
        "<｜begin▁of▁sentence｜>Think.<｜User｜>two?<｜Assistant｜><think>\\n",
        "<bos><start_of_turn>user\\ntwo?<end_of_turn>\\n<start_of_turn>model\\n",
        "<s>[INST] two? [/INST]",
        "[INST] two? [/INST]",
        "two?",
    ] {
        let rows = format!("SELECT E'{prompt}' AS prompt, {TAGGED} AS response");
        assert_eq!(recognised(&rows, None).await, [READ], "{prompt}");
    }
    let twice =
        "<|im_start|>user\\na<|im_end|>\\n<|im_start|>assistant\\nb<|im_end|>\\n<|im_start|>user\\nc<|im_end|>\\n";
    let found = recognised(&format!("SELECT E'{twice}' AS prompt, {TAGGED} AS response"), None).await;
    assert_eq!(found, ["a | 2 and 2 | four | multi_turn"]);
    let html = recognised(&format!("SELECT '<b>two?</b>' AS prompt, {TAGGED} AS response"), None).await;
    assert_eq!(html, ["<b>two?</b> | 2 and 2 | four | NULL"]);
}

#[tokio::test]
async fn a_mapping_reaches_into_structs_and_lists() {
    let rows = format!("SELECT {{'text': 'two?'}} AS q, {{'0': {{'0': [{TAGGED}, 'x']}}}} AS responses, 'y' AS other");
    assert_eq!(recognised(&rows, Some("question=q.text,cot=responses.0.0")).await, [READ]);
    let conversation =
        format!("SELECT [{{'from': 'human', 'value': 'two?'}}, {{'from': 'gpt', 'value': {TAGGED}}}] AS turns");
    assert_eq!(recognised(&conversation, Some("question=turns,cot=turns")).await, [READ]);
}

#[tokio::test]
async fn what_is_known_is_a_table() {
    let corpus_of = context();
    let rows = corpus_of.sql("SELECT shape, cot FROM corpus_shapes() WHERE shape = 'generation'").await.unwrap();
    assert_eq!(rows.count().await.unwrap(), 1);
}

#[tokio::test]
async fn an_inspection_says_what_is_read_from_where() {
    let folder = tempfile::tempdir().unwrap();
    let rows = format!("SELECT 'two?' AS input, {TAGGED} AS output, [1] AS n, {{'a': 1}} AS s FROM range(5)");
    write(folder.path(), "a.parquet", &rows).await;
    let corpus = open(folder.path(), None).await.unwrap();
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
    assert_eq!(recognised(&rows, Some(&only.mapping)).await, [READ; 5]);
}

#[tokio::test]
async fn the_likeliest_flag_decides_and_a_scale_is_none() {
    let row =
        |flags: &str| format!("SELECT 'two?' AS problem, ['<think>1</think>five', {TAGGED}] AS generations, {flags}");
    for flags in
        ["[false, true] AS is_correct, [1.0, 0.1] AS score", "[0, 1] AS score", "[0.0, 1.0] AS scores, 'x' AS correct"]
    {
        assert_eq!(recognised(&row(flags), None).await, [READ], "{flags}");
    }
    assert_eq!(recognised(&row("[1, 5] AS score"), None).await, ["two? | NULL | NULL | unverified"]);
    let ended = row("[true, true] AS is_correct, [0, 1] AS is_reasoning_complete");
    assert_eq!(recognised(&ended, None).await, [READ]);
}

#[tokio::test]
async fn a_question_that_is_no_text_is_a_failure_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.parquet", &format!("SELECT {{'a': 1}} AS input, {TAGGED} AS text_out")).await;
    let error = refusal(folder.path(), None).await;
    assert!(error.contains("a.parquet fit no shape") && error.contains("text_out holds think tags"), "{error}");
}

#[tokio::test]
async fn a_damaged_file_decides_nothing_for_others() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        write(
            folder.path(),
            &format!("{name}.parquet"),
            &format!("SELECT 'two?' AS input, {TAGGED} AS text_out FROM range(500)"),
        )
        .await;
    }
    let path = folder.path().join("a.parquet");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize + 8;
    let pages = 4..bytes.len() - end;
    bytes[pages].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let corpus = open(folder.path(), None).await.unwrap();
    assert!(corpus.notes[0].contains("text_out"), "{:?}", corpus.notes);
    assert!(corpus.damaged(&context().state()).await.unwrap().to_string().contains("a.parquet"));
    // Where nothing else is there, it is named.
    std::fs::remove_file(folder.path().join("b.parquet")).unwrap();
    let error = refusal(folder.path(), None).await;
    assert!(error.contains("a.parquet is a damaged Parquet file"), "{error}");
}
