//! Tokenising is most of what the pure functions cost: no text of a row is tokenised twice.

use std::sync::Arc;

use asap_udfs::Models;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};

use crate::session::{evaluate, session_with};

#[test]
fn a_chain_is_tokenised_once_by_all_functions() {
    let models = Models::default();
    let session = session_with("qwen2", &models);
    let tokenizer = models.tokenizer(session.copied_config().options()).unwrap();
    let chains: Vec<String> =
        (0..100).map(|n| format!("Row {n}.{}", "\n\nA step, and more of it.".repeat(50))).collect();
    let bytes: usize = chains.iter().map(String::len).sum();
    let column: ArrayRef = Arc::new(StringArray::from(chains));
    let rows = RecordBatch::try_from_iter([("cot", column)]).unwrap();

    let before = tokenizer.tokenized_bytes();
    evaluate(&session, &rows, "cot_tokens(cot)");
    let once = tokenizer.tokenized_bytes() - before;
    assert_eq!(once, bytes as u64);
    evaluate(&session, &rows, "cot_random(cot_steps(cot), 1.0, 1)");
    evaluate(&session, &rows, "cot_truncate(cot_steps(cot), 1.0)");
    evaluate(&session, &rows, "cot_refine(cot_steps(cot), array_repeat(1.0, cast(51 as bigint)))");
    evaluate(&session, &rows, "cot_tokens(cot)");
    assert_eq!(tokenizer.tokenized_bytes() - before, once);

    // Removing half of the steps looks at the places where they were, not at the rest.
    evaluate(&session, &rows, "cot_truncate(cot_steps(cot), 0.5)");
    assert!(tokenizer.tokenized_bytes() - before < 2 * once);
}
