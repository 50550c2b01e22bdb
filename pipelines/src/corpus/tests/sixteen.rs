//! 27 files in the shapes of sixteen published corpora, with their columns. Each is read with the right question, chain
//! and answer, or refused with a mapping of only the certain columns.

use super::*;

const READ: [&str; 2] = ["two? 0 | 2 and 2 | four 0 | NULL", "two? 1 | 2 and 2 | four 1 | NULL"];

/// What comes of two rows, or of as many as there are statuses.
enum Comes {
    Right,
    Rejects(&'static [&'static str]),
    /// A refusal that prints this mapping, and the statuses of the rows that the mapping reads if it has no blanks.
    Refused(&'static str, &'static [&'static str]),
}
use Comes::{Refused, Rejects, Right};

/// The name of a file, its columns, and what comes of it.
type Case = (&'static str, String, Comes);

const TAGGED: &str = "concat(E'<think>\n2 and 2\n</think>\nfour ', i)";
const QUESTION: &str = "concat('two? ', i)";
const ANSWER: &str = "concat('four ', i)";
const WRONG: &str = "'<think>1</think>five'";

fn rollouts() -> Vec<Case> {
    let chat = |rest: &str| {
        format!(
            "concat(E'<|im_start|>user\\ntwo? ', i, E'<|im_end|>\\n<|im_start|>assistant\\n') AS prompt, \
             concat({TAGGED}, '<|im_end|>') AS completion, {rest}"
        )
    };
    let cut = "CASE i WHEN 0 THEN 'cut off' ELSE concat(E'<think>2 and 2</think>four ', i) END";
    let plain = format!("[{}, {}]", turn("user", QUESTION), turn("assistant", ANSWER));
    let salloc = format!("{QUESTION} AS prompt, {cut} AS completion, 1.0 AS reward");
    vec![
        ("areal deepscaler", chat("1.0 AS reward, 0 AS version_start"), Right),
        ("areal nemotron", chat("CAST(1 AS FLOAT) AS reward"), Right),
        ("areal salloc", salloc, Rejects(&["no_tags", "NULL", "NULL"])),
        ("areal s1 parallel", format!("{plain} AS conversations"), Rejects(&["no_tags"; 2])),
        ("farel-bench", format!("{plain} AS messages, 'm' AS model"), Rejects(&["no_tags"; 2])),
    ]
}

fn columns() -> Vec<Case> {
    let chain = |question: &str, cot: &str, answer: &str, more: &str| {
        format!("{QUESTION} AS {question}, '2 and 2' AS {cot}, {ANSWER} AS {answer}{more}")
    };
    let bangla =
        chain("formated_question", "reason", "gen_ans", ", 'two?' AS question, '4' AS answer, ['3', '4'] AS options");
    let instructed = "concat('[INST]<<SYS>>Be brief.<</SYS>> two? ', i, ' [/INST]') AS prompt";
    let other = ", 'Which virus?' AS question, 'B19' AS answer";
    vec![
        ("bangla", bangla, Right),
        ("agriculture", chain("question", "thinking", "answer", ", 'k' AS keywords"), Right),
        ("medicine", chain("question", "think", "answer", ", 0.9 AS score, 'cardiology' AS department"), Right),
        ("translation", chain("text", "thought", "trans", ""), Right),
        ("finance", format!("{instructed}, '2 and 2' AS cot, {ANSWER} AS answer"), Right),
        ("huatuo", chain("\"Question\"", "\"Complex_CoT\"", "\"Response\"", other), Right),
        ("code", chain("prompt", "reasoning", "output", ", i AS id, [1] AS tests, {'level': 1} AS meta"), Right),
    ]
}

fn generations() -> Vec<Case> {
    let scored = |more: &str| format!("{QUESTION} AS problem, [{WRONG}, {TAGGED}] AS code, [0.0, 1.0] AS score{more}");
    let short = format!("{QUESTION} AS problem, [{ANSWER}] AS code, [1.0] AS score");
    let deep = format!("{{'0': [{{'0.0': {{'content': {TAGGED}}}}}]}} AS responses");
    let prompted = format!("{QUESTION} AS problem, 'Example: 1 + 1? 2' AS prompt, {deep}, '4' AS answer");
    let solutions = |wrong: &str, right: &str| {
        format!("{QUESTION} AS problem, [{{'solution': {wrong}}}, {{'solution': {TAGGED}{right}}}] AS solutions")
    };
    let flagged = solutions(&format!("{WRONG}, 'is_correct': false"), ", 'is_correct': true");
    let full = format!("{QUESTION} AS prompt, {TAGGED} AS full_response, [0.5] AS scores, {{'a': 1}} AS topology");
    let marco = "concat(E'<Thought>\\n2 and 2\\n</Thought>\\n<Output>\\nfour ', i) AS response";
    let star = format!("{QUESTION} AS question, {TAGGED} AS response, 'c' AS category, {{'a': 1}} AS score");
    vec![
        ("agriculture as alpaca", format!("'' AS instruction, {QUESTION} AS input, {TAGGED} AS output"), Right),
        ("marco", format!("{QUESTION} AS instruction, {marco}"), Right),
        ("skythought amc23", scored(", 4.0 AS answer"), Right),
        ("skythought minerva", scored(", '4' AS solution"), Right),
        ("skythought short", short, Rejects(&["no_tags"; 2])),
        ("skythought prompted", prompted, Right),
        ("star-1", star, Right),
        ("thought-anchors math", flagged, Right),
        ("thought-anchors general", solutions("'cut off'", ""), Right),
        ("trace-topology", full, Right),
    ]
}

fn unknown() -> Vec<Case> {
    let steering = format!("{TAGGED} AS response, concat('[setup] ', {TAGGED}) AS annotated_response, 'm' AS model");
    let choices = format!("[{{'index': 0, 'message': {{'content': {ANSWER}}}}}] AS choices");
    let lists = format!("[{ANSWER}] AS code_list, ['x'] AS output_list");
    let solved = format!("CASE WHEN i % 4 = 0 THEN {TAGGED} ELSE concat('Solve. two? ', i) END AS full_response");
    let legacy: &[&str] = &["NULL", "no_tags", "no_tags", "no_tags", "NULL"];
    let nothing_certain = || Refused("question=?,cot=?,answer=?", &[]);
    vec![
        ("chat completions", format!("'c1' AS id, 'chat.completion' AS object, {choices}"), nothing_certain()),
        ("livecodebench", format!("'t' AS question_title, {QUESTION} AS question_content, {lists}"), nothing_certain()),
        (
            "legacy messages",
            format!("{QUESTION} AS question, {solved}, 'c' AS category"),
            Refused("question=question,cot=full_response", legacy),
        ),
        ("chunks", "'So 2 and 2.' AS chunk, i AS chunk_idx, ['plan'] AS function_tags".to_string(), nothing_certain()),
        ("steering", steering, Refused("question=?,cot=?", &[])),
    ]
}

#[tokio::test]
async fn each_file_is_read_rightly_or_refused_with_what_is_certain() {
    let (mut right, mut rejected, mut refused) = (0, 0, 0);
    for (name, columns, comes) in [rollouts(), columns(), generations(), unknown()].into_iter().flatten() {
        let rows = match comes {
            Rejects(statuses) | Refused(_, statuses) if !statuses.is_empty() => statuses.len(),
            _ => READ.len(),
        };
        let rows = format!("SELECT {columns} FROM range({rows}) AS t (i)");
        let folder = folder_of(&[("a.parquet", &rows)]).await;
        let status = "SELECT coalesce(status, 'NULL') FROM corpus ORDER BY source['row']";
        match comes {
            Right => {
                let corpus = open(folder.path(), None).await.unwrap();
                assert_eq!(query(&corpus, ROWS).await, READ, "{name}");
                let mapping = corpus.inspect(&context(), 1).await.unwrap()[0].mapping.clone();
                assert_eq!(recognized(&rows, Some(&mapping)).await, READ, "{name}: {mapping}");
                right += 1;
            }
            Rejects(statuses) => {
                let corpus = open(folder.path(), None).await.unwrap();
                assert_eq!(query(&corpus, status).await, statuses, "{name}");
                rejected += 1;
            }
            Refused(mapping, statuses) => {
                let error = refusal(folder.path(), None).await;
                assert!(error.contains(&format!("--columns '{mapping}'")), "{name}: {error}");
                if !statuses.is_empty() {
                    let corpus = open(folder.path(), Some(mapping)).await.unwrap();
                    assert_eq!(query(&corpus, status).await, statuses, "{name}");
                }
                refused += 1;
            }
        }
    }
    assert_eq!((right, rejected, refused, right + rejected + refused), (18, 4, 5, 27));
}
