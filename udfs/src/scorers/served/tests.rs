//! A server that replies as vLLM, SGLang and others do, by a model of ours, and does so wrongly too.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use asap_llm::Llm;
use asap_lm::config::ModelConfig;
use asap_lm::decoder::Decoder;
use asap_lm::ops::F32Matrix;
use asap_lm::weights::Weights;
use asap_lm::{QuestionAndSteps, Reading, Scored, Scorer, Wanted};
use asap_test_support::{Call, Reply, Server as TestServer};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::config::ConfigOptions;
use serde_json::Map;

use super::*;
use crate::Models;
use crate::tests::functions::session::session_asking;

const WINDOW: usize = 900;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens").join(name)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Vllm,
    /// Token ids, but only with `echo`.
    Echo,
    Sglang,
    /// Texts, with `echo`.
    Texts,
}

/// A model that replies as a kind of server.
struct Whole {
    decoder: Decoder<F32Matrix>,
    tokenizer: Tokenizer,
    kind: Kind,
    /// Added to each value: what it returns are no log-probabilities then.
    shift: f64,
    /// Whether each value is that of the place after its token.
    is_late: bool,
}

impl Whole {
    fn new(model: &str, kind: Kind) -> Self {
        let folder = golden(model);
        let config = ModelConfig::load(&folder).unwrap();
        let weights = Weights::<F32Matrix>::load(&folder, &config).unwrap();
        let tokenizer = Tokenizer::load(&folder).unwrap();
        Self { decoder: Decoder::new(config, weights), tokenizer, kind, shift: 0.0, is_late: false }
    }

    /// The values of all tokens after each token of a text.
    fn rows(&self, ids: &[u32]) -> Vec<Vec<f64>> {
        let mut rows = Vec::new();
        let each = |_, hidden| {
            for row in self.decoder.logits(&hidden)?.chunks_exact(self.decoder.config.vocab_size) {
                let sum = row.iter().map(|logit| f64::from(*logit).exp()).sum::<f64>().ln();
                rows.push(row.iter().map(|logit| f64::from(*logit) - sum + self.shift).collect());
            }
            Ok(())
        };
        self.decoder.hidden_by_pass(Packed { ids, lengths: &[ids.len()] }, None, &|| true, each).unwrap();
        rows
    }

    /// The likeliest tokens of a row.
    fn top(row: &[f64], most: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..row.len() as u32).collect();
        if let Some(last) = most.checked_sub(1) {
            order.select_nth_unstable_by(last, |a, b| row[*b as usize].total_cmp(&row[*a as usize]));
        }
        order.truncate(most);
        order
    }

    fn reply(&self, call: &Call) -> Reply {
        let (path, body) = (call.head.split(' ').nth(1).unwrap_or_default(), &call.body);
        if path == "/v1/models" {
            return Reply::Json(json!({ "data": [{ "id": "m", "max_model_len": WINDOW }] }));
        }
        let ids: Vec<u32> = match &body[if path == "/generate" { "input_ids" } else { "prompt" }] {
            Value::String(text) => self.tokenizer.encode(text, false).unwrap().ids,
            _ if self.kind == Kind::Texts => return Reply::error(400, "prompt must be a text"),
            ids => serde_json::from_value(ids.clone()).unwrap(),
        };
        if ids.len() >= WINDOW {
            return Reply::error(400, "This model's maximum context length is too small");
        }
        let mut rows = self.rows(&ids);
        rows.rotate_left(usize::from(self.is_late));
        let number = |name: &str| body[name].as_u64().unwrap_or(0) as usize;
        let (start, most) = (
            number("logprob_start_len"),
            number("logprobs").max(number("top_logprobs_num")).max(number("prompt_logprobs")),
        );
        let value = |at: usize| (at > start).then(|| rows[at - 1][ids[at] as usize]);
        let text = |id: u32| self.tokenizer.text(&[id]).unwrap();
        let name = |id: u32| match body["return_tokens_as_token_ids"] == true {
            true => format!("token_id:{id}"),
            false => text(id),
        };
        let top = |at: usize| (at > start).then(|| Self::top(&rows[at - 1], most));
        let each = |of: &dyn Fn(usize) -> Value| (start..ids.len()).map(of).collect::<Vec<_>>();
        match (path, self.kind) {
            ("/generate", Kind::Sglang) => {
                let triple = |at: usize, id: u32| json!([rows[at - 1][id as usize], id, null]);
                let tops = |at| top(at).map(|top| top.into_iter().map(|id| triple(at, id)).collect::<Vec<_>>());
                Reply::Json(json!({ "text": "", "meta_info": { "prompt_tokens": ids.len(),
                    "input_token_logprobs": each(&|at| json!([value(at), ids[at], text(ids[at])])),
                    "input_top_logprobs": each(&|at| json!(tops(at))) } }))
            }
            ("/v1/completions", Kind::Vllm | Kind::Echo | Kind::Texts) if body["echo"] == true => {
                let named = |at: usize, id: u32| (name(id), json!(rows[at - 1][id as usize]));
                let tops = |at| top(at).map(|top| top.into_iter().map(|id| named(at, id)).collect::<Map<_, _>>());
                let logprobs = json!({ "tokens": each(&|at| json!(name(ids[at]))),
                    "token_logprobs": each(&|at| json!(value(at))), "top_logprobs": each(&|at| json!(tops(at))) });
                Reply::Json(json!({ "choices": [{ "text": "", "logprobs": logprobs, "finish_reason": "length" }] }))
            }
            ("/v1/completions", Kind::Vllm) if body["prompt_logprobs"].is_u64() => {
                let entry = |at: usize, id: u32| {
                    let (row, value) = (&rows[at - 1], rows[at - 1][id as usize]);
                    let rank = row.iter().filter(|other| **other >= value).count();
                    (id.to_string(), json!({ "logprob": value, "rank": rank, "decoded_token": text(id) }))
                };
                let place = |at: usize| {
                    let top = top(at)?.into_iter().chain([ids[at]]);
                    Some(top.map(|id| entry(at, id)).collect::<Map<_, _>>())
                };
                let place = |at| json!(place(at));
                let places = each(&place);
                Reply::Json(json!({ "choices": [{ "text": "x", "logprobs": null, "prompt_token_ids": ids,
                    "prompt_logprobs": places }] }))
            }
            ("/v1/completions", _) => {
                let mut all = ids.clone();
                for _ in 0..number("max_tokens") {
                    match Self::top(&self.rows(&all)[all.len() - 1], 1)[0] {
                        end if self.tokenizer.is_special(end) => break,
                        next => all.push(next),
                    }
                }
                let text = self.tokenizer.decode(&all[ids.len()..]).unwrap();
                Reply::Json(json!({ "choices": [{ "text": text, "logprobs": null, "finish_reason": "length" }] }))
            }
            _ => Reply::error(404, "Not Found"),
        }
    }
}

fn serve(model: Whole, change: impl Fn(&Call, Reply) -> Reply + Send + Sync + 'static) -> TestServer {
    TestServer::start(move |call| change(call, model.reply(call)))
}

/// A reply whose text has each `from` replaced.
fn replaced(reply: Reply, from: &str, to: &str) -> Reply {
    match reply {
        Reply::Json(body) => Reply::Status(200, vec![], body.to_string().replace(from, to)),
        other => other,
    }
}

/// The settings of a model on a server, or on the CPU.
fn settings(url: Option<&str>, retries: i64) -> Settings {
    let mut settings = Settings { scorer_model: golden("qwen2").display().to_string(), ..Settings::default() };
    if let Some(url) = url {
        settings.scorer_backend = crate::settings::ScorerBackend::of("served");
        (settings.scorer_base_url, settings.anchor_max_retries) = (Some(url.to_string()), retries);
    }
    settings
}

fn scorer_with(url: Option<&str>, retries: i64) -> datafusion::common::Result<Arc<Scorer>> {
    let mut options = ConfigOptions::new();
    options.extensions.insert(settings(url, retries));
    Models::default().scorer(&options)
}

fn scorer(url: &str) -> Arc<Scorer> {
    scorer_with(Some(url), 3).unwrap()
}

fn refused(url: &str) -> String {
    scorer_with(Some(url), 3).map(drop).unwrap_err().to_string()
}

fn chain<'a>(question: &'a str, steps: &[&'a str]) -> QuestionAndSteps<'a> {
    QuestionAndSteps::new(question.into(), steps.to_vec())
}

/// Chains, forks and checks.
fn readings(last: &'static str) -> Vec<Reading<'static>> {
    let steps = ["Let x be 3, so 2x + 1 = 7.", "No, that's not right; wait.", last];
    let questions = ["What is x?", "2 + 2?", "Solve it."];
    let mut readings: Vec<Reading> = questions.iter().map(|question| Reading::Chain(chain(question, &steps))).collect();
    readings.push(Reading::Answer { chain: chain("What is x?", &steps), answer: "x is 3.", left_out: true });
    readings.extend([true, false].map(|states| Reading::Survival {
        chain: chain("2 + 2?", &steps),
        answer: "4",
        states,
    }));
    readings
}

fn scores(scorer: &Scorer, last: &'static str) -> asap_lm::Result<Vec<Scored>> {
    futures::executor::block_on(scorer.score(scorer.prepare(&readings(last), Wanted::AllTokens)?))
}

/// The numbers of all scores but entropies, and what was stated.
fn numbers(scored: &[Scored]) -> (Vec<f64>, Vec<String>) {
    let (mut numbers, mut texts) = (vec![], vec![]);
    for row in scored {
        let Scored::Steps(scores) = row else { panic!("{row:?}") };
        numbers.extend(scores.first.iter().map(|score| f64::from(score.unwrap().surprisal)));
        numbers.extend(scores.perplexity.iter().map(|score| f64::from(score.unwrap()).ln()));
        numbers.extend(&scores.answers);
        numbers.extend(scores.survival.iter().map(|survival| survival.log_probability));
        texts.extend(scores.survival.iter().filter_map(|survival| survival.stated.clone()));
    }
    (numbers, texts)
}

const UMLAUTS: &str = "Über naïve cafés: 你好 is 12.";

fn assert_as_by_cpu(scorer: &Scorer, last: &'static str) {
    let [(ours, stated), (cpu, expected)] =
        [scorer, &scorer_with(None, 0).unwrap()].map(|scorer| numbers(&scores(scorer, last).unwrap()));
    assert_eq!((ours.len(), stated), (cpu.len(), expected));
    let apart = ours.iter().zip(&cpu).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-5, "{apart}");
}

#[test]
fn each_kind_of_server_gives_the_scores_of_the_cpu() {
    for kind in [Kind::Vllm, Kind::Echo, Kind::Sglang, Kind::Texts] {
        let slowly = |_: &Call, reply| Reply::After(Duration::from_millis(20), Box::new(reply));
        let server = serve(Whole::new("qwen2", kind), slowly);
        // A server that takes texts names no parts of characters.
        let last = if kind == Kind::Texts { "So it is 12." } else { UMLAUTS };
        assert_as_by_cpu(&scorer(&server.base_url()), last);
        assert!(server.most_at_once() > 1, "{kind:?}");
        let skips = |call: &Call| call.body["logprob_start_len"].as_u64().is_some_and(|start| start > 0);
        assert_eq!(server.calls().iter().any(skips), kind == Kind::Sglang);
    }
}

#[test]
fn what_fails_in_passing_changes_no_score_and_loses_no_row() {
    let server = serve(Whole::new("qwen2", Kind::Vllm), |call, reply| match call.number {
        5 => Reply::Status(429, vec![("retry-after", "0".to_string())], String::new()),
        6 => Reply::error(503, "overloaded"),
        7 => Reply::Close,
        8 => Reply::Cut,
        9 => replaced(reply, "\"logprob\"", "\"missing\""),
        10 => replaced(reply, "\"prompt_logprobs\":[null,", "\"prompt_logprobs\":["),
        11 => Reply::Status(200, vec![], "{\"choices\": [{\"prompt_log".to_string()),
        _ => reply,
    });
    assert_as_by_cpu(&scorer(&server.base_url()), UMLAUTS);
}

#[test]
fn a_wrong_server_is_one_error_before_any_row() {
    for kind in [Kind::Vllm, Kind::Echo, Kind::Sglang, Kind::Texts] {
        let server = serve(Whole { shift: 9.0, ..Whole::new("qwen2", kind) }, |_, reply| reply);
        let error = refused(&server.base_url());
        assert!(error.contains("these are logits"), "{error}");
    }
    for kind in [Kind::Vllm, Kind::Echo, Kind::Sglang, Kind::Texts] {
        let server = serve(Whole { is_late: true, ..Whole::new("qwen2", kind) }, |_, reply| reply);
        let error = refused(&server.base_url());
        assert!(error.contains("given the token itself too"), "{error}");
    }
    // Another tokenizer, by its texts and by its ids; a model that is not there; one without log-probabilities.
    let other = serve(Whole::new("llama", Kind::Vllm), |_, reply| reply);
    assert!(refused(&other.base_url()).contains("has another tokenizer: token"), "{}", refused(&other.base_url()));
    let ids = serve(Whole::new("qwen2", Kind::Vllm), |_, reply| {
        replaced(reply, "\"prompt_token_ids\":[", "\"prompt_token_ids\":[1,")
    });
    assert!(refused(&ids.base_url()).contains("the server read"));
    let several =
        serve(Whole::new("qwen2", Kind::Vllm), |_, reply| replaced(reply, "[{\"id\"", "[{\"id\":\"n\"},{\"id\""));
    assert!(refused(&several.base_url()).contains("set asap.scorer.served_model to one of the models"));
    let without = serve(Whole::new("qwen2", Kind::Vllm), |call, reply| match call.body.is_null() {
        true => reply,
        false => Reply::Json(json!({ "choices": [{ "text": "x", "logprobs": null }] })),
    });
    let error = refused(&without.base_url());
    assert!(error.contains("expected a server that returns the log-probabilities of given tokens"), "{error}");
    assert!(refused("http://me:secret@localhost/v1").contains("asap.scorer.base_url takes an address without user"));
}

#[test]
fn a_server_that_goes_away_ends_the_query_and_can_be_asked_again() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    let server = serve(Whole::new("qwen2", Kind::Vllm), move |_, reply| match gone.load(Ordering::SeqCst) {
        true => Reply::Close,
        false => reply,
    });
    let scorer = scorer_with(Some(&server.base_url()), 0).unwrap();
    is_gone.store(true, Ordering::SeqCst);
    let error = scores(&scorer, UMLAUTS).unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().starts_with("the server of the scoring model: "), "{error}");
}

#[test]
fn a_server_that_changes_its_model_is_found_out() {
    let one = Whole::new("qwen2", Kind::Vllm);
    let other = Whole { shift: -3.0, ..Whole::new("qwen2", Kind::Vllm) };
    let server = TestServer::start(move |call| match call.number {
        ..7 => one.reply(call),
        _ => other.reply(call),
    });
    let error = scores(&scorer(&server.base_url()), UMLAUTS).unwrap_err();
    assert!(error.to_string().contains("has another model than when the command began"), "{error}");
    assert!(!error.is_unavailable());
}

#[test]
fn a_chain_as_long_as_the_servers_window_is_too_long() {
    let server = serve(Whole::new("qwen2", Kind::Vllm), |_, reply| reply);
    let scorer = scorer(&server.base_url());
    let prepared = |times: usize| {
        let text = "a, ".repeat(times);
        scorer.prepare(&[Reading::Chain(chain("q", &[&text]))], Wanted::FirstTokens).unwrap()
    };
    let fits = (400..500).map(prepared).filter(|prepared| prepared.calls() > 0);
    let most = fits.map(|prepared| prepared.tokens()).max().unwrap();
    assert!((WINDOW - 3..WINDOW).contains(&most), "{most}");
    let scored = futures::executor::block_on(scorer.score(prepared(499))).unwrap();
    assert!(matches!(&scored[0], Scored::TooLong(why) if why.contains("899")), "{scored:?}");
}

/// A reply of vLLM with this value for every token.
fn with_values(reply: Reply, value: f64) -> Reply {
    let Reply::Json(mut body) = reply else { return reply };
    for place in body["choices"][0]["prompt_logprobs"].as_array_mut().into_iter().flatten() {
        for entry in place.as_object_mut().into_iter().flat_map(Map::values_mut) {
            entry["logprob"] = json!(value);
        }
    }
    Reply::Json(body)
}

#[test]
fn a_server_that_breaks_midway_rejects_no_row() {
    for value in [-9999.0, -1e308] {
        let server = serve(Whole::new("qwen2", Kind::Vllm), move |call, reply| match call.number {
            ..7 => reply,
            _ => with_values(reply, value),
        });
        let error = scores(&scorer(&server.base_url()), UMLAUTS).unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(error.to_string().contains("returns no finite log-probabilities any longer"), "{error}");
    }
}

#[test]
fn a_row_that_a_server_cannot_score_fails_alone() {
    let fatal = Arc::new(parking_lot::Mutex::new(Value::Null));
    let server = serve(Whole::new("qwen2", Kind::Vllm), move |call, reply| {
        let mut fatal = fatal.lock();
        if call.number == 6 {
            *fatal = call.body["prompt"].clone();
        }
        if *fatal == call.body["prompt"] && call.number > 5 { with_values(reply, -9999.0) } else { reply }
    });
    let scored = scores(&scorer(&server.base_url()), UMLAUTS).unwrap();
    let failed = scored.iter().filter(|row| matches!(row, Scored::NotFinite)).count();
    assert!(failed == 1 && scored.len() > 1, "{scored:?}");
}

#[test]
fn a_server_that_breaks_one_reply_costs_no_score() {
    let server = serve(Whole::new("qwen2", Kind::Vllm), |call, reply| match call.number {
        6 => with_values(reply, -9999.0),
        _ => reply,
    });
    assert_as_by_cpu(&scorer(&server.base_url()), UMLAUTS);
}

#[test]
fn a_window_that_holds_no_chain_is_one_error_before_any_row() {
    for window in [0, 9] {
        let server = serve(Whole::new("qwen2", Kind::Vllm), move |_, reply| {
            replaced(reply, "\"max_model_len\":900", &format!("\"max_model_len\":{window}"))
        });
        let error = refused(&server.base_url());
        assert!(error.contains(&format!("found max_model_len = {window} in its list of models")), "{error}");
        assert!(server.calls().iter().all(|call| call.body.is_null()));
    }
}

/// The rank-surprisal ratios of two examples.
async fn ratios(url: Option<&str>) -> datafusion::common::Result<Vec<f64>> {
    let session = session_asking(&Llm::default(), settings(url, 3));
    let sql = "SELECT cot_rank_surprisal(question, E'3 + 4 is 7.\\n\\nSo 7 it is.', '7')['ratio'] \
               FROM (VALUES ('What is 3 + 4?'), ('And 4 + 3?')) AS t(question)";
    let batches = session.sql(sql).await?.collect().await?;
    Ok(batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Float64Type>().values().to_vec()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_ranks_is_refused_before_the_first_row() {
    for kind in [Kind::Echo, Kind::Sglang, Kind::Texts] {
        let server = serve(Whole::new("qwen2", kind), |_, reply| reply);
        scorer(&server.base_url());
        let to_open = server.count();
        let error = ratios(Some(&server.base_url())).await.unwrap_err().to_string();
        assert!(error.contains("cot_rank_surprisal: the backend served cannot rank tokens"), "{error}");
        assert_eq!(server.count(), 2 * to_open, "{kind:?}: only the calls that open the server");
    }
    let server = serve(Whole::new("qwen2", Kind::Vllm), |_, reply| reply);
    let (served, cpu) = (ratios(Some(&server.base_url())).await.unwrap(), ratios(None).await.unwrap());
    assert_eq!((served.len(), cpu.len()), (2, 2));
    assert!(served.iter().zip(&cpu).all(|(one, other)| (one / other - 1.0).abs() < 1e-3), "{served:?} {cpu:?}");
}
