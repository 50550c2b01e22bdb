//! Files like those of published corpora: which are recognized, and with which question, chain and answer.

use super::*;

const REASONING: &str = "[{'role': 'user', 'content': 'two?', 'reasoning_content': NULL}, \
                         {'role': 'assistant', 'content': 'four', 'reasoning_content': '2 and 2'}] AS messages";

#[tokio::test]
async fn corpora_as_they_are_published_and_by_the_mapping_of_their_reading() {
    let template =
        "E'<|im_start|>system\\nThink.<|im_end|>\\n<|im_start|>user\\ntwo?<|im_end|>\\n<|im_start|>assistant\\n'";
    let completion = "E'<think>\\n2 and 2\\n</think>\\nfour<|im_end|>' AS completion";
    let choices = format!("[{{'index': 0, 'message': {}}}] AS choices", turn("assistant", TAGGED));
    let closed = "E'<Thought>\\n2 and 2\\n</Thought>\\n<Output>\\nfour\\n</Output>'";
    let by_temperature = format!("{{'0.7': {{'content': {TAGGED}, 'correctness': true}}}} AS responses");
    let (system, user, assistant) = (turn("system", "'Think.'"), turn("user", "'two?'"), turn("assistant", TAGGED));
    let corpora = [
        ("rollouts", format!("{template} AS prompt, {completion}, 1.0 AS reward")),
        ("chat completions", format!("'two?' AS question, {choices}, 'm' AS model")),
        (
            "agriculture as alpaca",
            format!("'' AS instruction, 'two?' AS input, {TAGGED} AS output, 'Think.' AS system"),
        ),
        ("medicine", "'two?' AS question, '2 and 2' AS think, 'four' AS answer, 1 AS score".to_string()),
        ("marco", format!("'two?' AS instruction, {closed} AS response")),
        ("skythought by temperature", format!("'two?' AS problem, {by_temperature}")),
        (
            "steering",
            format!("'two?' AS question, {TAGGED} AS full_response, [{}] AS messages_of_others", turn("user", "'x'")),
        ),
        (
            "s1",
            "'two?' AS question, ['2 and 2'] AS thinking_trajectories, 'four' AS attempt, '4' AS solution".to_string(),
        ),
        ("prompts as conversations", format!("[{system}, {user}] AS input, {TAGGED} AS output")),
        ("conversational prompt and completion", format!("[{user}] AS prompt, [{assistant}] AS completion")),
        ("reasoning within messages", REASONING.to_string()),
        ("messages", format!("[{user}, {assistant}] AS messages")),
    ];
    for (name, columns) in corpora {
        let rows = format!("SELECT {columns}");
        let (_folder, corpus) = opened(&rows).await;
        assert_eq!(query(&corpus, ROWS).await, [READ], "{name}");
        let mapping = corpus.inspect(&context(), 2).await.unwrap()[0].mapping.clone();
        assert_eq!(recognized(&rows, Some(&mapping)).await, [READ], "{name}: {mapping}");
    }
    let task = format!("SELECT 'Add.' AS instruction, '2, 2' AS input, {TAGGED} AS output");
    let mapping = "question=instruction,input=input,cot=output";
    assert_eq!(recognized(&task, Some(mapping)).await, recognized(&task, None).await);
}

#[tokio::test]
async fn what_is_not_recognized_comes_with_a_mapping_that_guesses_nothing() {
    for (rows, expected) in [
        ("SELECT 'two?' AS \"Aufgabe\", '2 and 2' AS \"Gedanke\", 'four' AS \"Ergebnis\"", "question=?,cot=?,answer=?"),
        ("SELECT 'two?' AS question, '2 and 2' AS solution, '4' AS answer", "question=question,cot=?,answer=?"),
        (
            "SELECT 'two?' AS question, '2 and 2' AS reasoning, 'm' AS category",
            "question=question,cot=reasoning,answer=?",
        ),
        (
            "SELECT 'two?' AS question, [{'response_model': 'm', 'response': '2 and 2'}] AS responses, '4' AS reference_answer",
            "question=question,cot=?,answer=?",
        ),
        // The longest text with the name of a question may have the chain itself.
        (
            "SELECT 'x' AS question_title, 'That is 2 and 2, so it is four' AS question_content, 'py' AS code_language",
            "question=?,cot=?,answer=?",
        ),
    ] {
        let error = refused(rows, None).await;
        let mapping = error.split("--columns '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
        assert_eq!(mapping, expected, "{error}");
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
async fn columns_that_differ_only_in_case_go_with_their_chain() {
    let columns = "'two?' AS \"Question\", '2 and 2' AS \"Complex_CoT\", 'four' AS \"Response\", \
                   'Which virus?' AS question, 'B19' AS answer";
    assert_eq!(recognized(&format!("SELECT {columns}"), None).await, [READ]);
    let small = columns.replace("Complex_CoT", "complex_cot");
    let expected = "Which virus? | 2 and 2 | B19 | NULL";
    assert_eq!(recognized(&format!("SELECT {small}"), None).await, [expected]);
    let notes = opened(&format!("SELECT {columns}")).await.1.notes.join("\n");
    assert!(notes.contains("read from column Question; column question could be it too"), "{notes}");
    assert!(notes.contains("read from column Response; column answer could be it too"), "{notes}");
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
async fn an_instruction_and_its_input_are_one_question() {
    let rows = format!(
        "SELECT *, {TAGGED} AS output FROM (VALUES ('Add.', '2, 2'), ('two?', ''), ('two?', NULL)) AS t (instruction, input)"
    );
    let read = "2 and 2 | four | NULL";
    assert_eq!(recognized(&rows, None).await, [format!("Add.\n\n2, 2 | {read}"), READ.to_string(), READ.to_string()]);
}

#[tokio::test]
async fn a_list_of_steps_is_a_chain() {
    let rows = "SELECT 'two?' AS question, ['2', 'and', NULL, '2'] AS cot, 'four' AS answer";
    assert_eq!(recognized(rows, None).await, ["two? | 2\n\nand\n\n2 | four | NULL"]);
    let mapped = "SELECT 'two?' AS q, ['2', 'and 2'] AS steps, 'four' AS a";
    assert_eq!(recognized(mapped, Some("question=q,cot=steps,answer=a")).await, ["two? | 2\n\nand 2 | four | NULL"]);
}

#[tokio::test]
async fn of_several_shapes_the_one_counts_by_which_rows_can_be_read() {
    let messages = |answer: &str| format!("[{}, {}] AS messages", turn("user", "'two?'"), turn("assistant", answer));
    let odd = format!(
        "SELECT CAST(NULL AS VARCHAR) AS question, NULL AS cot, NULL AS answer, {} FROM range(3)",
        messages(TAGGED)
    );
    assert_eq!(recognized(&odd, None).await, [READ; 3]);
    let both = format!("SELECT 'two?' AS prompt, '2 and 2' AS reasoning, 'four' AS response, {}", messages("'four'"));
    assert_eq!(recognized(&both, None).await, [READ]);
    let null_chain = "SELECT 'two?' AS question, CAST(NULL AS VARCHAR) AS cot, '2 and 2' AS thinking, 'four' AS answer";
    assert_eq!(recognized(null_chain, None).await, [READ]);
}

#[tokio::test]
async fn several_texts_with_think_tags_are_named() {
    let rows = format!("SELECT 'two?' AS prompt, {TAGGED} AS chosen, {TAGGED} AS rejected");
    let error = refused(&rows, None).await;
    assert!(error.contains("several texts have think tags, chosen and rejected"), "{error}");
    assert!(error.contains("--columns 'question=prompt,cot=?'"), "{error}");
    assert_eq!(recognized(&rows, Some("question=prompt,cot=chosen")).await, [READ]);
    let error = refused(&format!("SELECT 'two?' AS \"Aufgabe\", {TAGGED} AS text_of_model"), None).await;
    assert!(
        error.contains("text_of_model has think tags, but no other column has a name that asap knows for questions"),
        "{error}"
    );
    assert!(error.contains("--columns 'question=?,cot=text_of_model'"), "{error}");
}

#[tokio::test]
async fn an_answer_that_holds_a_think_tag_is_a_reject() {
    let rows = "SELECT 'two?' AS prompt, 'The tag </think> ends it.</think>four' AS generation";
    assert_eq!(recognized(rows, None).await, ["two? | The tag | ends it.</think>four | tags_in_answer"]);
    for (generation, read) in [
        (
            "<|begin_of_thought|>a<|end_of_thought|><|begin_of_thought|>b<|end_of_thought|>d",
            "<|begin_of_thought|>b<|end_of_thought|>d",
        ),
        ("<Thought>a</Thought>x<Thought>b</Thought>d", "x<Thought>b</Thought>d"),
        (" <thinking>a</thinking>x</thinking>d", "x</thinking>d"),
        ("<think>a</think>x<|end_of_thought|>d", "x<|end_of_thought|>d"),
        ("<think>a</think> <thinking>b</thinking>d", "<thinking>b</thinking>d"),
        ("<|begin_of_thought|>a<|end_of_thought|><Thought>b</Thought>d", "<Thought>b</Thought>d"),
    ] {
        let rows = format!("SELECT 'two?' AS prompt, '{generation}' AS generation");
        assert_eq!(recognized(&rows, None).await, [format!("two? | a | {read} | tags_in_answer")]);
    }
    // Words of prose, if the chain has other tags.
    let words = "SELECT 'two?' AS prompt, '<think>a</think>Write <reasoning> first.' AS generation";
    assert_eq!(recognized(words, None).await, ["two? | a | Write <reasoning> first. | NULL"]);
    let twice = REASONING.replace("'four'", "'<think>2</think>four'");
    assert_eq!(recognized(&format!("SELECT {twice}"), None).await, [READ]);
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
        assert_eq!(recognized(&rows, None).await, [READ], "{prompt}");
    }
    let twice =
        "<|im_start|>user\\na<|im_end|>\\n<|im_start|>assistant\\nb<|im_end|>\\n<|im_start|>user\\nc<|im_end|>\\n";
    let found = recognized(&format!("SELECT E'{twice}' AS prompt, {TAGGED} AS response"), None).await;
    assert_eq!(found, ["a | 2 and 2 | four | multi_turn"]);
    let html = recognized(&format!("SELECT '<b>two?</b>' AS prompt, {TAGGED} AS response"), None).await;
    assert_eq!(html, ["<b>two?</b> | 2 and 2 | four | NULL"]);
}

#[tokio::test]
async fn a_mapping_takes_names_as_published_and_reaches_into_structs_and_lists() {
    let comma =
        "'two?' AS \"The.Question, please\", '2 and 2' AS \"CoT=steps\", 'four' AS \"Final.Answer\", 'x' AS cot";
    let nested = format!("{{'text': 'two?'}} AS q, {{'0': {{'0': [{TAGGED}, 'x']}}}} AS responses, 'y' AS other");
    let turns = format!("[{{'from': 'human', 'value': 'two?'}}, {{'from': 'gpt', 'value': {TAGGED}}}] AS turns");
    let wrong = "'two?' AS problem, ['<think>1</think>five'";
    for (columns, mapping) in [
        (comma.to_string(), "question=The.Question, please,cot=CoT=steps,answer=Final.Answer"),
        (format!("'two?' AS \"Q\", {TAGGED} AS \"Out.put\", 'wrong' AS answer"), "question=Q,cot=Out.put"),
        (nested, "question=q.text,cot=responses.0.0"),
        (turns, "question=turns,cot=turns"),
        // With and without flags.
        (format!("{wrong}, {TAGGED}] AS generations, [false, true] AS is_correct"), "question=problem,cot=generations"),
        (format!("'two?' AS problem, [{TAGGED}, 'x'] AS generations"), "question=problem,cot=generations"),
    ] {
        assert_eq!(recognized(&format!("SELECT {columns}"), Some(mapping)).await, [READ], "{mapping}: {columns}");
    }
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
async fn the_likeliest_flag_decides_a_scale_is_none_and_what_was_cut_off_is_not_taken() {
    let row =
        |flags: &str| format!("SELECT 'two?' AS problem, ['<think>1</think>five', {TAGGED}] AS generations, {flags}");
    for flags in [
        "[false, true] AS is_correct, [1.0, 0.1] AS score",
        "[0, 1] AS score",
        "[0.0, 1.0] AS scores, 'x' AS correct",
        "[true, true] AS is_correct, [0, 1] AS is_reasoning_complete",
        "[true, true] AS correctness_math_verify, [false, true] AS is_reasoning_complete",
    ] {
        assert_eq!(recognized(&row(flags), None).await, [READ], "{flags}");
    }
    assert_eq!(recognized(&row("[1, 5] AS score"), None).await, ["two? | NULL | NULL | unverified"]);
}

#[tokio::test]
async fn a_question_that_is_no_text_is_a_failure_of_its_file() {
    let error = refused(&format!("SELECT {{'a': 1}} AS input, {TAGGED} AS text_out"), None).await;
    assert!(error.contains("a.parquet fit no shape") && error.contains("text_out has think tags"), "{error}");
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
