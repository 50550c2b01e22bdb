//! Endpoints that accept requests only in another form, and endpoints without a connection, in all commands.

use super::{corpus, model, paid, run, take_answers};
use asap_test_support::{Call, Reply, Server, Vllm};

#[test]
fn a_small_window_rejects_only_the_row_that_does_not_fit() {
    const SERVED: Vllm = Vllm { model: "test-model", window: 900, parses_reasoning: false };
    let workplace = corpus(8);
    let long = "SELECT 'Long?' AS question, repeat(E'It is 7.\\n\\n', 800) AS cot, 'It is 7.' AS answer";
    workplace.copy(long, "in/long.parquet");
    let serve = |call: &Call| match model(call) {
        Reply::Text(text) => SERVED.reply(call, &text),
        other => other,
    };
    let server = Server::start(serve);
    let default = ["asap.anchor.max_tokens=8192"];
    let finished = run(&workplace, "out", &server, &default);
    let summary = finished.json();
    assert_eq!((summary["rows_out"].as_u64(), summary["rows_rejected"].as_u64()), (Some(8), Some(1)));
    assert!(finished.stderr.contains("limits below its window of 900 tokens"), "{}", finished.stderr);
    let rejects = workplace.rows("SELECT status, error FROM 'out/.asap/rejects'");
    assert_eq!(rejects[0]["status"], "too_long", "{rejects:?}");
    // The key of an answer is what the pipeline asked for, so a larger window changes nothing.
    take_answers(&workplace, "out", "again");
    let larger = Server::start(move |call| match model(call) {
        Reply::Text(text) => Vllm { window: 9000, ..SERVED }.reply(call, &text),
        other => other,
    });
    let summary = run(&workplace, "again", &larger, &default).json();
    assert_eq!((summary["rows_out"].as_u64(), paid(&summary).0), (Some(9), 1));
}

#[test]
fn a_thought_that_a_parser_took_for_all_of_the_answer_is_named() {
    let workplace = corpus(1);
    let served = Vllm { model: "test-model", window: 4096, parses_reasoning: true };
    let server = Server::start(move |call| served.reply(call, "Add the number."));
    run(&workplace, "out", &server, &[]).ends(3, &["none of 1 rows"]);
    let rejects = workplace.rows("SELECT status, error FROM 'out/.asap/rejects'");
    assert!(rejects[0]["error"].as_str().unwrap().contains("reasoning parser"), "{rejects:?}");
}
