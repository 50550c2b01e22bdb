//! 43 files in the shapes of sixteen published corpora, with their columns. Each is read with the right question, chain
//! and answer, or refused with a mapping of only the certain columns.

use super::*;

const READ: [&str; 2] = ["two? 0 | 2 and 2 | four 0 | NULL", "two? 1 | 2 and 2 | four 1 | NULL"];

enum Comes {
    Right,
    Rejects(&'static [&'static str]),
    /// A refusal that prints this mapping, and the rows that it reads once its blanks are filled.
    Refused(&'static str, Option<(&'static str, &'static [&'static str])>),
}
use Comes::{Refused, Rejects, Right};

const TAGGED: &str = "concat(E'<think>\n2 and 2\n</think>\nfour ', i)";
const QUESTION: &str = "concat('two? ', i)";
const ANSWER: &str = "concat('four ', i)";
const WRONG: &str = "'<think>1</think>five'";

fn of(rows: usize, columns: &str) -> String {
    format!("SELECT {columns} FROM range({rows}) AS t (i)")
}

fn turns(roles: [&str; 2], names: [&str; 2], chain: &str) -> String {
    let [role, content] = names;
    let turn = |speaker: &str, said: &str| format!("{{'{role}': '{speaker}', '{content}': {said}}}");
    format!("[{}, {}]", turn(roles[0], QUESTION), turn(roles[1], chain))
}

fn rollouts() -> Vec<(&'static str, String, Comes)> {
    let chat = |rest: &str| {
        format!(
            "concat(E'<|im_start|>user\\ntwo? ', i, E'<|im_end|>\\n<|im_start|>assistant\\n') AS prompt, \
             concat({TAGGED}, '<|im_end|>') AS completion, {rest}"
        )
    };
    let cut = "CASE i WHEN 0 THEN 'cut off' ELSE concat(E'<think>2 and 2</think>four ', i) END";
    let plain = turns(["user", "assistant"], ["role", "content"], ANSWER);
    vec![
        ("areal deepscaler", of(2, &chat("1.0 AS reward, 0 AS version_start")), Right),
        ("areal nemotron", of(2, &chat("CAST(1 AS FLOAT) AS reward")), Right),
        (
            "areal salloc",
            of(3, &format!("{QUESTION} AS prompt, {cut} AS completion, 1.0 AS reward")),
            Rejects(&["no_tags", "NULL", "NULL"]),
        ),
        ("areal s1 parallel", of(2, &format!("{plain} AS conversations")), Rejects(&["no_tags"; 2])),
        ("farel-bench qwq", of(2, &format!("{plain} AS messages, 'm' AS model")), Rejects(&["no_tags"; 2])),
        ("farel-bench r1", of(2, &format!("{plain} AS messages, 7 AS seed")), Rejects(&["no_tags"; 2])),
    ]
}

fn columns() -> Vec<(&'static str, String, Comes)> {
    let chain = |question: &str, cot: &str, answer: &str, more: &str| {
        format!("{QUESTION} AS {question}, '2 and 2' AS {cot}, {ANSWER} AS {answer}{more}")
    };
    let bangla =
        chain("formated_question", "reason", "gen_ans", ", 'two?' AS question, '4' AS answer, ['3', '4'] AS options");
    let code = |more: &str| of(2, &chain("prompt", "reasoning", "output", more));
    vec![
        ("bangla r1", of(2, &bangla), Right),
        ("bangla qwq", of(2, &format!("{bangla}, i AS id")), Right),
        ("agriculture", of(2, &chain("question", "thinking", "answer", ", 'k' AS keywords")), Right),
        ("medicine", of(2, &chain("question", "think", "answer", ", 0.9 AS score, 'cardiology' AS department")), Right),
        ("translation", of(2, &chain("text", "thought", "trans", "")), Right),
        (
            "finance",
            of(
                2,
                &format!(
                    "concat('[INST]<<SYS>>Be brief.<</SYS>> two? ', i, ' [/INST]') AS prompt, '2 and 2' AS cot, {ANSWER} AS answer"
                ),
            ),
            Right,
        ),
        (
            "huatuo",
            of(
                2,
                &chain(
                    "\"Question\"",
                    "\"Complex_CoT\"",
                    "\"Response\"",
                    ", 'Which virus?' AS question, 'B19' AS answer",
                ),
            ),
            Right,
        ),
        ("code 1", code(""), Right),
        ("code 2", code(", 'py' AS language"), Right),
        ("code 3", code(", i AS id"), Right),
        ("code 4", code(", [1] AS tests"), Right),
        ("code 5", code(", {'level': 1} AS meta"), Right),
    ]
}

fn generations() -> Vec<(&'static str, String, Comes)> {
    let scored =
        |more: &str| of(2, &format!("{QUESTION} AS problem, [{WRONG}, {TAGGED}] AS code, [0.0, 1.0] AS score{more}"));
    let solutions = |flags: &str| {
        of(
            2,
            &format!(
                "{QUESTION} AS problem, [{{'solution': {WRONG}{flags}}}, {{'solution': {TAGGED}{}}}] AS solutions",
                flags.replace("false", "true")
            ),
        )
    };
    let full = |more: &str| of(2, &format!("{QUESTION} AS prompt, {TAGGED} AS full_response{more}"));
    let marco = "concat(E'<Thought>\\n2 and 2\\n</Thought>\\n<Output>\\nfour ', i) AS response";
    vec![
        ("agriculture as alpaca", of(2, &format!("'' AS instruction, {QUESTION} AS input, {TAGGED} AS output")), Right),
        ("marco", of(2, &format!("{QUESTION} AS instruction, {marco}")), Right),
        ("skythought aime24", scored(", '4' AS answer"), Right),
        ("skythought amc23", scored(", 4.0 AS answer"), Right),
        ("skythought math500", scored(", '4' AS answer, 2 AS level"), Right),
        ("skythought minerva", scored(", '4' AS solution"), Right),
        (
            "skythought short",
            of(2, &format!("{QUESTION} AS problem, [{ANSWER}] AS code, [1.0] AS score")),
            Rejects(&["no_tags"; 2]),
        ),
        (
            "skythought prompted",
            of(
                2,
                &format!(
                    "{QUESTION} AS problem, 'Example: 1 + 1? 2' AS prompt, {{'0': [{{'0.0': {{'content': {TAGGED}}}}}]}} AS responses, '4' AS answer"
                ),
            ),
            Right,
        ),
        (
            "star-1",
            of(2, &format!("{QUESTION} AS question, {TAGGED} AS response, 'c' AS category, {{'a': 1}} AS score")),
            Right,
        ),
        ("thought-anchors math", solutions(", 'is_correct': false"), Right),
        ("thought-anchors general", solutions("").replace("'<think>1</think>five'", "'cut off'"), Right),
        ("trace-topology 1", full(""), Right),
        ("trace-topology 2", full(", 3 AS depth"), Right),
        ("trace-topology 3", full(", [0.5] AS scores"), Right),
        ("trace-topology 4", full(", true AS correct"), Right),
        ("trace-topology 5", full(", 'm' AS model, {'a': 1} AS topology"), Right),
    ]
}

fn unknown() -> Vec<(&'static str, String, Comes)> {
    let steering =
        |more: &str| of(2, &format!("{TAGGED} AS response, concat('[setup] ', {TAGGED}) AS annotated_response{more}"));
    let legacy = format!(
        "{QUESTION} AS question, CASE WHEN i % 4 = 0 THEN {TAGGED} ELSE concat('Solve. two? ', i) END AS full_response, 'c' AS category"
    );
    let read: &[&str] = &["NULL", "no_tags", "no_tags", "no_tags", "NULL"];
    let of_steering = || Refused("question=?,cot=?", None);
    vec![
        (
            "chat completions",
            of(
                2,
                &format!(
                    "'c1' AS id, 'chat.completion' AS object, [{{'index': 0, 'message': {{'content': {ANSWER}}}}}] AS choices"
                ),
            ),
            Refused("question=?,cot=?,answer=?", None),
        ),
        (
            "livecodebench",
            of(
                2,
                &format!(
                    "'t' AS question_title, {QUESTION} AS question_content, [{ANSWER}] AS code_list, ['x'] AS output_list"
                ),
            ),
            Refused("question=?,cot=?,answer=?", None),
        ),
        (
            "legacy messages",
            of(5, &legacy),
            Refused("question=question,cot=full_response", Some(("question=question,cot=full_response", read))),
        ),
        (
            "chunks",
            of(2, "'So 2 and 2.' AS chunk, i AS chunk_idx, ['plan'] AS function_tags"),
            Refused("question=?,cot=?,answer=?", None),
        ),
        ("steering 1", steering(""), of_steering()),
        ("steering 2", steering(", 'm' AS model"), of_steering()),
        ("steering 3", steering(", [1] AS labels"), of_steering()),
        ("steering 4", steering(", {'a': 'x'} AS meta"), of_steering()),
        ("steering 5", steering(", i AS layer"), of_steering()),
    ]
}

#[tokio::test]
async fn each_file_is_read_rightly_or_refused_with_what_is_certain() {
    let (mut right, mut rejected, mut refused) = (0, 0, 0);
    for (name, rows, comes) in [rollouts(), columns(), generations(), unknown()].into_iter().flatten() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.parquet", &rows).await;
        let status = "SELECT coalesce(status, 'NULL') FROM corpus ORDER BY source['row']";
        match comes {
            Right => {
                assert_eq!(recognised(&rows, None).await, READ, "{name}");
                right += 1;
            }
            Rejects(statuses) => {
                let corpus = open(folder.path(), None).await.unwrap();
                assert_eq!(query(&corpus, status).await, statuses, "{name}");
                rejected += 1;
            }
            Refused(mapping, filled) => {
                let error = refusal(folder.path(), None).await;
                assert!(error.contains(&format!("--columns '{mapping}'")), "{name}: {error}");
                if let Some((filled, statuses)) = filled {
                    let corpus = open(folder.path(), Some(filled)).await.unwrap();
                    assert_eq!(query(&corpus, status).await, statuses, "{name}");
                }
                refused += 1;
            }
        }
    }
    assert_eq!((right, rejected, refused, right + rejected + refused), (29, 5, 9, 43));
}
