use super::*;
use serde::Deserialize;
use serde_json::json;

/// A line of `cases.jsonl`: a response, and the answer or the failure that it is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Case {
    status: Option<u16>,
    /// JSON; a text is the body itself.
    body: Value,
    is_whole: bool,
    text: Option<String>,
    whole: Option<ChatResponse>,
    generation: Option<String>,
    tokens: Option<[u64; 2]>,
    kind: Option<String>,
    passes: bool,
    /// Words of the failure's message.
    says: String,
    message: Option<String>,
    general: Option<bool>,
    #[serde(rename = "about")]
    _about: String,
}

fn read(status: u16, body: &str, whole: Option<f64>, redact: &dyn Fn(String) -> String) -> Result<Answer, Failure> {
    super::read(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body, 40, whole, redact)
}

#[test]
fn a_response_is_an_answer_or_a_failure_that_says_whether_to_try_again() {
    for case in include_str!("cases.jsonl").lines().map(|line| serde_json::from_str::<Case>(line).unwrap()) {
        let body = case.body.as_str().map_or_else(|| case.body.to_string(), str::to_string);
        let whole = case.is_whole.then_some(2.5);
        match read(case.status.unwrap_or(200), &body, whole, &|text| text) {
            Ok(Answer { text, tokens_in, tokens_out, defaults }) => {
                assert_eq!((Some([tokens_in, tokens_out]), defaults), (case.tokens, Default::default()), "{body}");
                let found = whole.map(|_| serde_json::from_str::<ChatResponse>(&text).unwrap());
                assert_eq!(found.as_ref().map(|found| found.generation().into_owned()), case.generation, "{body}");
                assert_eq!((found, Some(text).filter(|_| whole.is_none())), (case.whole, case.text), "{body}");
            }
            Err(Failure { error, is_passing, .. }) => {
                assert_eq!((Some(error.kind.name()), is_passing), (case.kind.as_deref(), case.passes), "{body}");
                assert!(error.message.contains(&case.says), "{body}: {error}");
                assert!(case.message.is_none_or(|message| message == error.message), "{body}");
                assert!(case.general.is_none_or(|general| general == error.is_general), "{body}");
                let tokens = [error.tokens_in, error.tokens_out];
                assert!(case.tokens.is_none_or(|expected| expected == tokens), "{body}: {tokens:?}");
            }
        }
    }
}

#[test]
fn what_is_taken_out_is_taken_out_before_errors_are_cut() {
    let hide = |text: String| text.replace("secret", "…");
    let refusal = json!({ "error": { "message": format!("{} secret", "x".repeat(QUOTED - 4)) } }).to_string();
    let failure = read(400, &refusal, None, &hide).unwrap_err();
    assert!(failure.error.message.ends_with("x …"), "{failure:?}");
    let answer = json!({ "choices": [{ "message": { "content": "a secret" } }] }).to_string();
    assert_eq!(read(200, &answer, None, &hide).unwrap().text, "a …");
}

#[test]
fn long_responses_are_quoted_in_part() {
    assert_eq!(quoted(" a\n b "), "a b");
    assert_eq!(quoted(&"é".repeat(9999)).chars().count(), QUOTED + 1);
    assert!(quoted(&"word ".repeat(9999)).chars().count() <= QUOTED + 1);
}

#[test]
fn a_pause_in_milliseconds_comes_first() {
    let header = |name: &str, value: &str| (name.parse().unwrap(), value.parse().unwrap());
    let headers = [header("retry-after", "7"), header("retry-after-ms", "1500")];
    assert_eq!(asked_for(&headers.into_iter().collect()), Some(Duration::from_millis(1500)));
}
