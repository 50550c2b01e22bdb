//! Words and numbers that all commands share.

use std::time::Duration;

use asap::config::{self, SettingArgs};
use asap::failure::Failure;
use asap::output::{count, error_line, rough};
use asap::progress::Bar;
use asap_llm::Usage;
use asap_pipelines::run::Observer;
use asap_udfs::settings::{OnError, Positive};
use asap_udfs::typo;
use datafusion::error::DataFusionError;

#[test]
fn thousands_are_grouped() {
    assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
}

#[test]
fn what_was_typed_is_no_bug_of_the_engine() {
    let error = DataFusionError::Internal("Function 'md5' failed to match any signature.".to_string());
    assert_eq!(error_line(&error), "Function 'md5' failed to match any signature");
}

#[test]
fn an_error_shows_no_signature() {
    let source = "GET https://user:word@host/a?X-Amz-Signature=0a1b: 403".into();
    let error = DataFusionError::from(object_store::Error::Generic { store: "HTTP", source });
    let said = "Generic HTTP error: GET https://…@host/a?X-Amz-Signature=…: 403";
    assert_eq!(error_line(&error.context("somewhere")), said);
}

#[test]
fn a_line_says_what_is_known() {
    let bar = Bar::new("pruning", true);
    bar.begin(2000, 1);
    let wide = 200;
    assert_eq!(bar.line(Duration::from_secs(10), 0, wide), "0 of 2,000 rows, 0 tokens/s");
    // The scored tokens are counted before a row is done.
    assert_eq!(bar.line(Duration::from_secs(10), 8192, wide), "0 of 2,000 rows, 8,192 tokens scored, 819 tokens/s");
    bar.begin(2000, 4);
    bar.advance(500, 30_000);
    bar.slices(1, 2, Usage { calls: 1200, failed: 3, cost: 0.25, ..Usage::default() });
    let all = "500 of 2,000 rows, 1 of 4 slices, 3,000 tokens/s, 1,200 calls, 3 failed, cost 0.2500, 30s left";
    assert_eq!(bar.line(Duration::from_secs(10), 0, all.len()), all);
    for (width, expected) in [
        (71, "500 of 2,000 rows, 3,000 tokens/s, 1,200 calls, 3 failed, 30s left"),
        (45, "500 of 2,000 rows, 3,000 tokens/s, 30s left"),
        (30, "500 of 2,000 rows, 30s left"),
        (10, "500 of 2,0"),
    ] {
        assert_eq!(bar.line(Duration::from_secs(10), 0, width), expected);
    }
    assert_eq!([59, 3_661, 576_969].map(rough), ["59s", "1h 1m", "6days 16h"]);
}

#[test]
fn a_file_may_nest_its_keys() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "on_error = 'fail'\n'refine.max_tokens' = 7\n[asap.scorer]\nmodel = 'x'\n";
    std::fs::write(file.path(), text).unwrap();
    let settings = config::load(&SettingArgs { set: vec![], config: Some(file.path().into()) }).unwrap();
    assert_eq!((settings.refine_max_tokens, settings.scorer_model.as_str()), (Some(Positive(7)), "x"));
    assert_eq!(settings.on_error, OnError::Fail);
}

#[test]
fn a_wrong_key_names_where_it_came_from() {
    let args = SettingArgs { set: vec!["asap.scorer.modle=x".into()], config: None };
    let Err(Failure::Usage(message)) = config::load(&args) else { panic!("accepted") };
    assert_eq!(message, "there is no setting asap.scorer.modle; did you mean asap.scorer.model? (from --set)");
}

#[test]
fn only_a_name_that_is_near_is_meant() {
    let known = ["run", "sql", "inspect", "truncate", "corpus"];
    for (typed, meant) in [("rnu", "run"), ("trucate", "truncate"), ("corpsu", "corpus"), ("INSPECT", "inspect")] {
        assert_eq!(typo::nearest(typed, known), Some(meant));
    }
    for typed in ["nope", "x", "prune", "width_bucket"] {
        assert_eq!(typo::nearest(typed, known), None, "{typed}");
    }
    assert_eq!(typo::hint("rnu", known), " (did you mean run?)");
    assert_eq!(typo::hint("nope", known), "");
}
