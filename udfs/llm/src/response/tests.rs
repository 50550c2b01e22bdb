use super::*;
use crate::openai::API;
use serde_json::json;

fn read_ok(body: &Value) -> Result<Answer, Failure> {
    read(&API, StatusCode::OK, &HeaderMap::new(), &body.to_string(), 40, None, &|text| text)
}

fn failure(status: u16, body: &str) -> Failure {
    read(&API, StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body, 1, None, &|text| text).unwrap_err()
}

fn completion(content: Value, finish: &str) -> Value {
    json!({
        "choices": [{ "message": { "content": content }, "finish_reason": finish }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 3 },
    })
}

#[test]
fn an_answer_comes_with_its_tokens() {
    let answer = read_ok(&completion(json!("yes"), "stop")).unwrap();
    assert_eq!(answer, Answer { text: "yes".to_string(), tokens_in: 7, tokens_out: 3, ..Answer::default() });
    let without_usage = json!({ "choices": [{ "message": { "content": "hello" } }] });
    let answer = read_ok(&without_usage).unwrap();
    assert_eq!((answer.tokens_in, answer.tokens_out), (10, 2));
    let of_python =
        r#"{"choices": [{"message": {"content": "a \ud800"}}], "usage": {"x": NaN, "completion_tokens": 3}}"#;
    let answer =
        read(&API, StatusCode::OK, &HeaderMap::new(), &format!("\u{feff}{of_python}"), 4, None, &|text| text).unwrap();
    assert_eq!((&*answer.text, answer.tokens_out), ("a \u{fffd}", 3));
}

#[test]
fn a_whole_response_keeps_the_thought_and_how_it_ended() {
    let read_whole = |body: &Value| -> Result<ChatResponse, Failure> {
        let answer = read(&API, StatusCode::OK, &HeaderMap::new(), &body.to_string(), 40, Some(2.5), &|text| text)?;
        Ok(serde_json::from_str(&answer.text).unwrap())
    };
    for name in ["reasoning_content", "reasoning"] {
        let mut body = completion(json!("42"), "stop");
        body["choices"][0]["message"][name] = json!("17 + 25");
        body["model"] = json!("r1");
        let found = read_whole(&body).unwrap();
        let expected = ChatResponse {
            reasoning: Some("17 + 25".to_string()),
            content: "42".to_string(),
            opens_thought: false,
            finish_reason: Some("stop".to_string()),
            prompt_tokens: Some(7),
            completion_tokens: Some(3),
            model: Some("r1".to_string()),
            seconds: 2.5,
            cached: false,
        };
        assert_eq!(found.generation(), "<think>\n17 + 25\n</think>\n\n42");
        assert_eq!(found, expected);
    }
    let mut cut = completion(Value::Null, "length");
    assert_eq!(read_whole(&cut).unwrap().content, "");
    cut["choices"][0]["message"]["reasoning"] = json!("17 +");
    assert_eq!(read_whole(&cut).unwrap().generation(), "<think>\n17 +");
    let without_usage = read_whole(&json!({ "choices": [{ "message": { "content": "42" } }] })).unwrap();
    assert_eq!((without_usage.completion_tokens, without_usage.finish_reason), (None, None));
    for body in [completion(Value::Null, "stop"), completion(json!("n"), "content_filter")] {
        assert_eq!(read_whole(&body).unwrap_err().error.tokens_out, 3, "{body}");
    }
}

#[test]
fn parts_and_counts_with_a_point_are_read() {
    let parts = json!([{ "type": "text", "text": "ye" }, { "type": "text", "text": "s" }]);
    let mut body = completion(parts, "stop");
    body["usage"] = json!({ "prompt_tokens": 7.0, "completion_tokens": 3.0 });
    let answer = read_ok(&body).unwrap();
    assert_eq!(answer, Answer { text: "yes".to_string(), tokens_in: 7, tokens_out: 3, ..Answer::default() });
}

#[test]
fn what_is_taken_out_is_taken_out_before_errors_are_cut() {
    let hide = |text: String| text.replace("secret", "…");
    let body = json!({ "error": { "message": format!("{} secret", "x".repeat(QUOTED - 4)) } }).to_string();
    let failure = read(&API, StatusCode::BAD_REQUEST, &HeaderMap::new(), &body, 1, None, &hide).unwrap_err();
    assert!(failure.error.message.ends_with("x …"), "{failure:?}");
    let answer = read(
        &API,
        StatusCode::OK,
        &HeaderMap::new(),
        &completion(json!("a secret"), "stop").to_string(),
        1,
        None,
        &hide,
    );
    assert_eq!(answer.unwrap().text, "a …");
}

#[test]
fn what_is_no_answer_says_why_and_whether_to_try_again() {
    let cases = [
        (completion(json!("ye"), "length"), FailureKind::TooLong, false, "cut off after 3 tokens"),
        (completion(json!("n"), "content_filter"), FailureKind::Refused, false, "filter"),
        (completion(Value::Null, "stop"), FailureKind::BadResponse, false, "found none"),
        (json!({ "choices": [{ "message": { "refusal": "I won't" } }] }), FailureKind::Refused, false, "I won't"),
        (json!({ "choices": [{ "message": { "content": null } }] }), FailureKind::BadResponse, true, "found none"),
        (json!({ "choices": [] }), FailureKind::BadResponse, true, "expected a choice"),
        (json!({ "choices": "many" }), FailureKind::BadResponse, true, "expected a choice"),
        (json!({ "error": { "message": "overloaded" } }), FailureKind::BadResponse, true, "overloaded"),
        (json!({ "error": { "message": "slow", "code": 429 } }), FailureKind::RateLimited, true, "429: slow"),
        (json!({ "error": { "message": "key", "code": "401" } }), FailureKind::Denied, false, "401: key"),
    ];
    for (body, kind, is_passing, words) in cases {
        let failure = read_ok(&body).unwrap_err();
        assert_eq!((failure.error.kind, failure.is_passing), (kind, is_passing), "{body}");
        assert!(failure.error.message.contains(words), "{failure:?}");
    }
    let paid = read_ok(&completion(Value::Null, "stop")).unwrap_err().error;
    assert_eq!((paid.tokens_in, paid.tokens_out), (7, 3));
}

#[test]
fn a_status_says_whether_to_try_again() {
    let window = "This model's maximum context length is 8192 tokens. However, you requested 13000 tokens.";
    let cases = [
        (429, "", FailureKind::RateLimited, true),
        (429, "insufficient_quota", FailureKind::Denied, false),
        (500, "", FailureKind::Unavailable, true),
        (529, "", FailureKind::Unavailable, true),
        (408, "", FailureKind::Timeout, true),
        (401, "", FailureKind::Denied, false),
        (402, "", FailureKind::Denied, false),
        (403, "", FailureKind::Denied, false),
        (404, "", FailureKind::Denied, false),
        (410, "", FailureKind::Denied, false),
        (403, "Your chosen model requires moderation and your input was flagged", FailureKind::Refused, false),
        (403, window, FailureKind::TooLong, false),
        (400, "", FailureKind::Refused, false),
        (413, "Payload Too Large", FailureKind::TooLong, false),
        (400, window, FailureKind::TooLong, false),
        (418, "", FailureKind::Refused, false),
    ];
    for (status, body, kind, is_passing) in cases {
        let failure = failure(status, body);
        assert_eq!((failure.error.kind, failure.is_passing), (kind, is_passing), "{status} {body}");
    }
    let body = json!({ "error": { "message": window } }).to_string();
    assert_eq!(failure(400, &body).error.message, format!("400: {window}"));
}

#[test]
fn an_account_or_key_that_is_not_served_is_denied_under_any_status() {
    let error = |message: &str| json!({ "error": { "message": message, "code": 400, "status": "INVALID_ARGUMENT" } });
    let quota = json!({ "error": { "message": "You exceeded your current quota", "code": "insufficient_quota" } });
    let arrears = json!({ "code": "Arrearage", "message": "Access denied, your account is not in good standing." });
    let limited = "Rate limit reached. Need more? Upgrade at https://console.example.org/settings/billing";
    let cases = [
        (400, error("API key not valid. Please pass a valid API key."), FailureKind::Denied),
        (400, error("Your credit balance is too low to access the API."), FailureKind::Denied),
        (400, error("Billing hard limit has been reached"), FailureKind::Denied),
        (400, quota.clone(), FailureKind::Denied),
        (422, quota.clone(), FailureKind::Denied),
        (429, quota.clone(), FailureKind::Denied),
        (200, quota, FailureKind::Denied),
        (400, arrears, FailureKind::Denied),
        (400, json!([error("API key not valid. Please pass a valid API key.")]), FailureKind::Denied),
        // Only a pause, although the message names billing.
        (429, error(limited), FailureKind::RateLimited),
        // The endpoint repeats a prompt about billing after its own words.
        (422, json!({ "detail": [{ "msg": "no", "input": "Our billing API key not valid" }] }), FailureKind::Refused),
    ];
    for (status, body, kind) in cases {
        let failure = failure(status, &body.to_string());
        assert_eq!((failure.error.kind, failure.is_passing), (kind, kind == FailureKind::RateLimited), "{body}");
    }
}

#[test]
fn a_request_that_is_general_is_known_from_a_text_that_is() {
    let cases = [
        (400, "temperature is not supported", true),
        (418, "I am a teapot", true),
        (400, "The prompt triggered our content management policy", false),
        (400, "Input data may contain inappropriate content", false),
        (403, "your input was flagged", false),
        (400, "maximum context length is 10", false),
        (413, "entity too large", false),
        (401, "wrong key", false),
    ];
    for (status, message, is_general) in cases {
        let body = json!({ "error": { "message": message } }).to_string();
        assert_eq!(failure(status, &body).error.is_general, is_general, "{status} {message}");
    }
    let refusal = json!({ "choices": [{ "message": { "refusal": "I won't" } }] });
    assert!(!read_ok(&refusal).unwrap_err().error.is_general);
}

#[test]
fn long_responses_are_quoted_in_part() {
    assert_eq!(quoted(" a\n b "), "a b");
    assert_eq!(quoted(&"é".repeat(9999)).chars().count(), QUOTED + 1);
    assert!(quoted(&"word ".repeat(9999)).chars().count() <= QUOTED + 1);
}
