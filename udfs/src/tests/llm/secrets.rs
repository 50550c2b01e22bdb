//! The key of an endpoint is not in debug output. The command shows it nowhere: see `tests/it/anchoring`.

use asap_llm::Llm;

use crate::tests::llm::setup::{asking, settings};
use asap_test_support::{Reply, Server};

/// A variable that every test has.
const VARIABLE: &str = "CARGO_MANIFEST_DIR";

#[tokio::test]
async fn the_key_is_in_no_debug_output_also_of_rows_without_a_whole_reply() {
    let key = std::env::var(VARIABLE).unwrap();
    let server = Server::start(|call| match call.prompt() {
        "hang" => Reply::Hang,
        "cut" => Reply::Cut,
        _ => Reply::Text(call.head.clone()),
    });
    let llm = Llm::default();
    let with_timeout =
        |timeout| settings(&server, &[("api_key_env", VARIABLE), ("max_retries", "0"), ("timeout", timeout)]);
    let (patient, impatient) = (with_timeout("30"), with_timeout("1"));
    let anchoring = asking(&llm, &patient);
    let hanging = asking(&llm, &impatient).complete("hang", None).await.unwrap();
    assert_eq!(hanging.status(), "timeout");
    let [cut, echoed] = ["cut", "echo"].map(|prompt| anchoring.complete(prompt, None));
    let (cut, echoed) = (cut.await.unwrap(), format!("{:?}", echoed.await.unwrap()));
    assert!(cut.outcome.is_err() && echoed.contains("[api key]"), "{cut:?} {echoed}");
    let shown = format!("{llm:?} {anchoring:?} {patient:?} {hanging:?} {cut:?} {echoed}");
    assert!(!shown.contains(&key), "{shown}");
    assert!(server.calls().iter().all(|call| call.head.contains(&format!("authorization: Bearer {key}"))));
}
