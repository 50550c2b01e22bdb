//! A language model for anchors, the rows that it is asked about, and the settings that call it.

use asap_test_support::{Call, Reply, Server};

use crate::common::Workplace;

/// A model that writes a thought for each question, and keeps the second and the last step of a chain.
pub(crate) fn model(call: &Call) -> Reply {
    let steps: Vec<&str> = call.between("chain_of_thought").split("\n\n").collect();
    match (steps.as_slice(), call.between("problem")) {
        ([_, second, .., last], _) => Reply::Text(format!("{second}\n\n{last}")),
        (_, problem) => Reply::Text(format!("Add the number of {problem} to itself.")),
    }
}

/// Writes distinct rows of four short steps each to a file.
pub(crate) fn write_corpus(workplace: &Workplace, rows: usize, file: &str) {
    let chain = "'We add ' || v || E' to itself.\\n\\nIt is ' || v || ' + ' || v || E'.\\n\\nOr is it ' || (3 * v) || E'?\\n\\nSo ' || (2 * v) || '.'";
    let query = format!(
        "SELECT 'What is twice ' || v || '?' AS question, {chain} AS cot, 'It is ' || (2 * v) || '.' AS answer \
         FROM (SELECT value AS v FROM generate_series(1, {rows}))"
    );
    workplace.copy(&query, file);
}

/// Calls `server` from now on.
pub(crate) fn ask(workplace: &Workplace, server: &Server) {
    let base_url = server.base_url();
    let anchor = "provider = 'openai'\nmodel = 'test-model'\nmax_tokens = 256\nmax_retries = 1";
    let settings = format!("scorer.model = 'tests/goldens/qwen2'\n[anchor]\n{anchor}\nbase_url = '{base_url}'\n");
    workplace.write("asap.toml", settings);
}
