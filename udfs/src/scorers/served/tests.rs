//! A server that replies as vLLM, SGLang and others do, by a model of ours, and does so wrongly too.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use asap_lm::config::ModelConfig;
use asap_lm::decoder::Decoder;
use asap_lm::ops::F32Matrix;
use asap_lm::output::Output;
use asap_lm::weights::Weights;
use asap_lm::{Left, Over, QuestionAndSteps, Reading, Scored, Scorer, Wanted};
use asap_test_support::{Call, Reply, Server as TestServer};
use datafusion::common::config::ConfigOptions;
use serde_json::Map;

use super::*;
use crate::Models;

const WINDOW: usize = 900;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens").join(name)
}

/// A model that finds the log-probabilities of all tokens after each token of a text.
struct Whole {
    decoder: Decoder<F32Matrix>,
    output: Output,
    tokenizer: Tokenizer,
    echoes_only: bool,
    takes_only_text: bool,
    is_sglang: bool,
    /// Added to each value: what it returns are logits then.
    shift: f64,
}

impl Whole {
    fn new(model: &str) -> Self {
        let folder = golden(model);
        let config = ModelConfig::load(&folder).unwrap();
        let weights = Weights::<F32Matrix>::load(&folder, &config).unwrap();
        let output = Output::new(weights.output().clone());
        let (decoder, tokenizer) = (Decoder::new(config, weights), Tokenizer::load(&folder).unwrap());
        Self { decoder, output, tokenizer, echoes_only: false, takes_only_text: false, is_sglang: false, shift: 0.0 }
    }

    fn rows(&self, ids: &[u32]) -> Vec<Vec<f64>> {
        let mut rows = Vec::new();
        let chains = Packed { ids, lengths: &[ids.len()] };
        let each = |_, hidden| {
            let logits = self.output.logits(&hidden)?;
            for row in logits.chunks_exact(self.decoder.config.vocab_size) {
                let row: Vec<f64> = row.iter().map(|logit| f64::from(*logit)).collect();
                let sum = row.iter().map(|logit| logit.exp()).sum::<f64>().ln();
                rows.push(row.iter().map(|logit| logit - sum + self.shift).collect());
            }
            Ok(())
        };
        self.decoder.hidden_by_pass(chains, None, &|| true, each).unwrap();
        rows
    }

    /// The most likely tokens of a row, with one that is always there.
    fn top(row: &[f64], most: usize, own: usize) -> Vec<(usize, f64)> {
        let mut order: Vec<usize> = (0..row.len()).collect();
        if let Some(last) = most.checked_sub(1) {
            order.select_nth_unstable_by(last, |a, b| row[*b].total_cmp(&row[*a]));
        }
        order.truncate(most);
        order.push(own);
        order.into_iter().map(|id| (id, row[id])).collect()
    }

    fn reply(&self, call: &Call) -> Reply {
        let path = call.head.split(' ').nth(1).unwrap_or_default();
        let body = &call.body;
        if path == "/v1/models" {
            return Reply::Json(json!({ "data": [{ "id": "m", "max_model_len": WINDOW }] }));
        }
        let ids: Vec<u32> = match &body[if path == "/generate" { "input_ids" } else { "prompt" }] {
            Value::String(text) => self.tokenizer.encode(text, false).unwrap().ids,
            _ if self.takes_only_text => return Reply::error(400, "prompt must be a text"),
            ids => serde_json::from_value(ids.clone()).unwrap(),
        };
        if ids.len() >= WINDOW {
            return Reply::error(400, "This model's maximum context length is too small");
        }
        let text = |id: u32| self.tokenizer.written(&[id]).unwrap();
        let written = |most: u64| {
            let (mut all, mut new) = (ids.clone(), vec![]);
            for _ in 0..most {
                let rows = self.rows(&all);
                let next = Self::top(&rows[all.len() - 1], 1, 0)[0].0 as u32;
                if self.tokenizer.is_special(next) {
                    break;
                }
                all.push(next);
                new.push(next);
            }
            self.tokenizer.decode(&new).unwrap()
        };
        match path {
            "/generate" if self.is_sglang => {
                let rows = self.rows(&ids);
                let start = body["logprob_start_len"].as_u64().unwrap() as usize;
                let top = body["top_logprobs_num"].as_u64().unwrap() as usize;
                let shown =
                    |id: u32| if body["return_text_in_logprobs"] == true { json!(text(id)) } else { Value::Null };
                let own = |at: usize| {
                    let value = if at > start { json!(rows[at - 1][ids[at] as usize]) } else { Value::Null };
                    json!([value, ids[at], shown(ids[at])])
                };
                let tops = |at: usize| match at > start && top > 0 {
                    true => Self::top(&rows[at - 1], top, 0)
                        .iter()
                        .take(top)
                        .map(|(id, value)| json!([value, id, null]))
                        .collect(),
                    false => Value::Null,
                };
                let tokens: Vec<Value> = (start..ids.len()).map(own).collect();
                let tops: Vec<Value> = (start..ids.len()).map(tops).collect();
                Reply::Json(
                    json!({ "text": "", "meta_info": { "prompt_tokens": ids.len(), "input_token_logprobs": tokens,
                    "input_top_logprobs": tops } }),
                )
            }
            "/v1/completions" if body["echo"] == true => {
                if self.is_sglang {
                    return Reply::error(400, "echo is not supported");
                }
                let rows = self.rows(&ids);
                let as_ids = body["return_tokens_as_token_ids"] == true;
                let name = |id: usize| if as_ids { format!("token_id:{id}") } else { text(id as u32) };
                let value = |at: usize| if at == 0 { Value::Null } else { json!(rows[at - 1][ids[at] as usize]) };
                let top = |at: usize| match at {
                    0 => Value::Null,
                    _ => Self::top(&rows[at - 1], body["logprobs"].as_u64().unwrap() as usize, ids[at] as usize)
                        .into_iter()
                        .map(|(id, value)| (name(id), json!(value)))
                        .collect::<Map<_, _>>()
                        .into(),
                };
                let places = 0..ids.len();
                let logprobs = json!({ "tokens": ids.iter().map(|id| name(*id as usize)).collect::<Vec<_>>(),
                    "token_logprobs": places.clone().map(value).collect::<Vec<_>>(),
                    "top_logprobs": places.map(top).collect::<Vec<_>>() });
                Reply::Json(json!({ "choices": [{ "text": "", "logprobs": logprobs, "finish_reason": "length" }] }))
            }
            "/v1/completions" if body["prompt_logprobs"] == 0 && !self.echoes_only && !self.is_sglang => {
                let rows = self.rows(&ids);
                let place = |at: usize| {
                    let Some(row) = at.checked_sub(1).map(|before| &rows[before]) else { return Value::Null };
                    let value = row[ids[at] as usize];
                    let rank = row.iter().filter(|other| **other >= value).count();
                    json!({ ids[at].to_string(): { "logprob": value, "rank": rank, "decoded_token": text(ids[at]) } })
                };
                Reply::Json(json!({ "choices": [{ "text": "x", "logprobs": null, "prompt_token_ids": ids,
                    "prompt_logprobs": (0..ids.len()).map(place).collect::<Vec<_>>() }] }))
            }
            "/v1/completions" => {
                let most = body["max_tokens"].as_u64().unwrap();
                Reply::Json(json!({ "choices": [{ "text": written(most), "finish_reason": "length" }] }))
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

fn scorer_with(url: Option<&str>, retries: i64) -> datafusion::common::Result<Arc<Scorer>> {
    let mut settings = Settings { scorer_model: golden("qwen2").display().to_string(), ..Settings::default() };
    if let Some(url) = url {
        settings.scorer_backend = crate::settings::ScorerBackend::Served;
        (settings.scorer_base_url, settings.anchor_max_retries) = (Some(url.to_string()), retries);
    }
    let mut options = ConfigOptions::new();
    options.extensions.insert(settings);
    Models::default().scorer(&options)
}

fn scorer(url: &str) -> Arc<Scorer> {
    scorer_with(Some(url), 3).unwrap()
}

fn refused(url: &str) -> String {
    scorer_with(Some(url), 3).map(drop).unwrap_err().to_string()
}

fn chain<'a>(question: &'a str, steps: &[&'a str]) -> QuestionAndSteps<'a> {
    QuestionAndSteps { question: question.into(), steps: steps.to_vec() }
}

/// Chains, forks and checks.
fn readings(last: &'static str) -> Vec<Reading<'static>> {
    let steps = ["Let x be 3, so 2x + 1 = 7.", "No, that's not right; wait.", last];
    let questions = ["What is x?", "2 + 2?", "Solve it."];
    let mut readings: Vec<Reading> = questions.iter().map(|question| Reading::Chain(chain(question, &steps))).collect();
    let forks =
        |left| Reading::Answer { chain: chain("What is x?", &steps), answer: "x is 3.", left, over: Over::Answer };
    readings.extend([forks(Left::AllButOne), forks(Left::First)]);
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
        [scorer, &scorer_on_cpu()].map(|scorer| numbers(&scores(scorer, last).unwrap()));
    assert_eq!((ours.len(), stated), (cpu.len(), expected));
    let apart = ours.iter().zip(&cpu).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-5, "{apart}");
}

fn scorer_on_cpu() -> Arc<Scorer> {
    scorer_with(None, 0).unwrap()
}

#[test]
fn each_kind_of_server_gives_the_scores_of_the_cpu() {
    let kinds: [fn(&mut Whole); 4] = [
        |_| (),
        |echo| echo.echoes_only = true,
        |sglang| sglang.is_sglang = true,
        |texts| (texts.echoes_only, texts.takes_only_text) = (true, true),
    ];
    for (kind, change) in kinds.iter().enumerate() {
        let mut model = Whole::new("qwen2");
        change(&mut model);
        let server = serve(model, |_, reply| Reply::After(Duration::from_millis(20), Box::new(reply)));
        let last = if kind == 3 { "So it is 12." } else { UMLAUTS };
        assert_as_by_cpu(&scorer(&server.base_url()), last);
        assert!(server.most_at_once() > 1, "{kind}");
        let skips = |call: &Call| call.body["logprob_start_len"].as_u64().is_some_and(|start| start > 0);
        assert_eq!(server.calls().iter().any(skips), kind == 2);
    }
}

#[test]
fn what_fails_in_passing_changes_no_score_and_loses_no_row() {
    let server = serve(Whole::new("qwen2"), |call, reply| match call.number {
        3 => Reply::Status(429, vec![("retry-after", "0".to_string())], String::new()),
        4 => Reply::error(503, "overloaded"),
        5 => Reply::Close,
        6 => Reply::Cut,
        7 => replaced(reply, "\"logprob\"", "\"missing\""),
        8 => replaced(reply, "\"prompt_logprobs\":[null,", "\"prompt_logprobs\":["),
        9 => Reply::Status(200, vec![], "{\"choices\": [{\"prompt_log".to_string()),
        _ => reply,
    });
    assert_as_by_cpu(&scorer(&server.base_url()), UMLAUTS);
}

#[test]
fn a_wrong_server_is_one_error_before_any_row() {
    let wrong: [(fn(&mut Whole), &str); 3] = [
        (|logits| logits.shift = 9.0, "these are logits"),
        (|logits| (logits.shift, logits.echoes_only) = (9.0, true), "these are logits"),
        (|logits| (logits.shift, logits.is_sglang) = (9.0, true), "these are logits"),
    ];
    for (change, expected) in wrong {
        let mut model = Whole::new("qwen2");
        change(&mut model);
        let server = serve(model, |_, reply| reply);
        let error = refused(&server.base_url());
        assert!(error.contains(expected), "{error}");
    }
    // Another tokenizer, by its texts and by its ids; a model that is not there; one without log-probabilities.
    let other = serve(Whole::new("llama"), |_, reply| reply);
    assert!(refused(&other.base_url()).contains("has another tokenizer: token"), "{}", refused(&other.base_url()));
    let ids =
        serve(Whole::new("qwen2"), |_, reply| replaced(reply, "\"prompt_token_ids\":[", "\"prompt_token_ids\":[1,"));
    assert!(refused(&ids.base_url()).contains("the server read"));
    let several = serve(Whole::new("qwen2"), |_, reply| replaced(reply, "[{\"id\"", "[{\"id\":\"n\"},{\"id\""));
    assert!(refused(&several.base_url()).contains("set asap.scorer.served_model to one of the models"));
    let without = serve(Whole::new("qwen2"), |call, reply| match call.body.is_null() {
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
    let server = serve(Whole::new("qwen2"), move |_, reply| match gone.load(Ordering::SeqCst) {
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
fn a_server_that_comes_back_with_another_model_is_found_out() {
    let (one, other) = (Whole::new("qwen2"), Whole::new("qwen2"));
    let other = Whole { shift: -3.0, ..other };
    let server = TestServer::start(move |call| match call.number {
        ..2 => one.reply(call),
        2 => Reply::Close,
        _ => other.reply(call),
    });
    let error = scores(&scorer(&server.base_url()), UMLAUTS).unwrap_err();
    assert!(error.to_string().contains("has another model than when the command began"), "{error}");
    assert!(!error.is_unavailable());
}

#[test]
fn a_chain_as_long_as_the_servers_window_is_too_long() {
    let server = serve(Whole::new("qwen2"), |_, reply| reply);
    let scorer = scorer(&server.base_url());
    let (mut most, mut long) = (0, None);
    for steps in 1.. {
        let text = "a, ".repeat(steps);
        let reading = [Reading::Chain(chain("q", &[text.as_str()]))];
        let prepared = scorer.prepare(&reading, Wanted::FirstTokens).unwrap();
        if prepared.calls() == 0 {
            long = Some(text);
            break;
        }
        most = prepared.tokens();
    }
    assert!((WINDOW - 3..WINDOW).contains(&most), "{most}");
    let long = long.unwrap();
    let reading = [Reading::Chain(chain("q", &[long.as_str()]))];
    let scored = futures::executor::block_on(scorer.score(scorer.prepare(&reading, Wanted::FirstTokens).unwrap()));
    assert!(matches!(&scored.unwrap()[0], Scored::TooLong(why) if why.contains("899")), "{WINDOW}");
}
