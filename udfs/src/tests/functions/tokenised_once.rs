//! No text of a row is tokenized twice: tokenizing is most of the cost of the pure functions.

use std::sync::Arc;

use asap_udfs::Models;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};

use crate::tests::functions::session::{evaluate, session_with};

const ALL_STEPS: &str = "cast(51 as bigint)";

fn rows() -> (RecordBatch, u64) {
    let chains: Vec<String> =
        (0..100).map(|n| format!("Row {n}.{}", "\n\nA step, and more of it.".repeat(50))).collect();
    let bytes = chains.iter().map(String::len).sum::<usize>() as u64;
    let column: ArrayRef = Arc::new(StringArray::from(chains));
    (RecordBatch::try_from_iter([("cot", column)]).unwrap(), bytes)
}

#[test]
fn a_chain_is_tokenised_once_by_all_functions() {
    let models = Models::default();
    let session = session_with("qwen2", &models);
    let tokenizer = models.tokenizer(session.copied_config().options()).unwrap();
    let (rows, bytes) = rows();

    let before = tokenizer.tokenized_bytes();
    evaluate(&session, &rows, "cot_tokens(cot)");
    let once = tokenizer.tokenized_bytes() - before;
    assert_eq!(once, bytes);
    evaluate(&session, &rows, "cot_random(cot_steps(cot), 1.0, 1)");
    evaluate(&session, &rows, "cot_truncate(cot_steps(cot), 1.0)");
    evaluate(&session, &rows, &format!("cot_refine(cot_steps(cot), array_repeat(1.0, {ALL_STEPS}))"));
    evaluate(&session, &rows, "cot_tokens(cot)");
    assert_eq!(tokenizer.tokenized_bytes() - before, once);

    // Removing half of the steps tokenizes only the places where they were.
    evaluate(&session, &rows, "cot_truncate(cot_steps(cot), 0.5)");
    assert!(tokenizer.tokenized_bytes() - before < 2 * once);
}

#[test]
fn a_row_with_its_prompt_and_what_is_left_of_it_are_not_tokenised_again() {
    let models = Models::default();
    let session = session_with("qwen2", &models);
    let tokenizer = models.tokenizer(session.copied_config().options()).unwrap();
    let (rows, bytes) = rows();

    let before = tokenizer.tokenized_bytes();
    evaluate(&session, &rows, "cot_too_long('How much?', cot_steps(cot))");
    evaluate(&session, &rows, "cot_tokens(cot)");
    let prompts = tokenizer.tokenized_bytes() - before - bytes;
    assert!(prompts < bytes / 5, "{prompts} bytes of prompts, {bytes} of the chains");

    let refined = format!("cot_refine(cot_steps(cot), array_repeat(1.0, {ALL_STEPS}), 400)");
    evaluate(&session, &rows, &refined);
    let before = tokenizer.tokenized_bytes();
    evaluate(&session, &rows, &format!("cot_tokens(cot_select(cot_steps(cot), {refined}))"));
    let again = tokenizer.tokenized_bytes() - before;
    evaluate(&session, &rows, &refined);
    assert_eq!(tokenizer.tokenized_bytes() - before, 2 * again, "only cot_refine tokenizes text again");
}
