//! Sources of the system prompt.

use super::*;

#[tokio::test]
async fn a_system_prompt_is_read_wherever_it_stands() {
    let turns = |system: &str, role: &str| {
        format!("[{}, {}, {}]", turn(role, system), turn("user", "'two?'"), turn("assistant", TAGGED))
    };
    let rendered = |prompt: &str| format!("SELECT E'{prompt}' AS prompt, {TAGGED} AS completion");
    for (rows, system) in [
        (format!("SELECT {} AS messages", turns("'Be brief.'", "system")), "Be brief."),
        (format!("SELECT {} AS messages", turns("'Be brief.'", "developer")), "Be brief."),
        (format!("SELECT {} AS messages", turns("' '", "system")), "NULL"),
        (format!("SELECT {} AS messages, 'Be short.' AS system", turns("''", "system")), "Be short."),
        (format!("SELECT {} AS messages, 'Be short.' AS system", turns("'Be brief.'", "system")), "Be brief."),
        (
            format!(
                "SELECT [{}, {}] AS prompt, {TAGGED} AS completion",
                turn("system", "'Be brief.'"),
                turn("user", "'two?'")
            ),
            "Be brief.",
        ),
        (format!("SELECT 'two?' AS question, {TAGGED} AS generation, 'Be brief.' AS system_prompt"), "Be brief."),
        (
            "SELECT 'two?' AS question, '2 and 2' AS cot, 'four' AS answer, 'Be brief.' AS \"System\"".to_string(),
            "Be brief.",
        ),
        ("SELECT 'two?' AS question, '2 and 2' AS cot, 'four' AS answer, 7 AS system".to_string(), "NULL"),
        (rendered("<|im_start|>system\\nBe brief.<|im_end|>\\n<|im_start|>user\\ntwo?<|im_end|>\\n"), "Be brief."),
        (
            rendered(
                "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\\n\\nBe brief.<|eot_id|>\
                 <|start_header_id|>user<|end_header_id|>\\n\\ntwo?<|eot_id|>",
            ),
            "Be brief.",
        ),
        (rendered("<｜begin▁of▁sentence｜>Be brief.<｜User｜>two?<｜Assistant｜>"), "Be brief."),
        (rendered("<s>[INST] <<SYS>>\\nBe brief.\\n<</SYS>>\\n\\ntwo? [/INST]"), "Be brief."),
        (rendered("<｜begin▁of▁sentence｜><｜User｜>two?<｜Assistant｜>"), "NULL"),
        (rendered("two?"), "NULL"),
    ] {
        let (folder, corpus) = opened(&rows).await;
        let found = query(&corpus, "SELECT question, cot, answer, status, system FROM corpus").await;
        assert_eq!(found, [format!("{READ} | {system}")], "{rows}");
        let mapping = corpus.inspect(&context(), 1).await.unwrap()[0].mapping.clone();
        let mapped = open(folder.path(), Some(&mapping)).await.unwrap();
        assert_eq!(query(&mapped, "SELECT system FROM corpus").await, [system], "{mapping}");
    }
}
