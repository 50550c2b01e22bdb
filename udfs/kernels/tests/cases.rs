//! The functions of this crate, by their names in `cases.jsonl`: what they give for their arguments.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use asap_kernels::budget::{by_score, share};
use asap_kernels::code_fences::{Blocks, Turn, code, language, unfenced};
use asap_kernels::extractive::{core, write};
use asap_kernels::functions::{Function, without_lowest_functional};
use asap_kernels::gestalt::Gestalt;
use asap_kernels::health::{is_cut_off, is_hollow, scripts};
use asap_kernels::matching::walk;
use asap_kernels::rendered;
use asap_kernels::selective::{Level, Unit, keep, sentences};
use asap_kernels::steps::{Separator, select, steps, strip};
use asap_kernels::tags::{
    answer_beside, bare_chain, begins_with_chain, openings, parts, response, response_or_all, think, wrap,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    function: String,
    of: Value,
    gives: Value,
}

#[test]
fn functions_give_what_the_cases_say() {
    for line in include_str!("cases.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        // Every hash map has a different seed, so repetitions reveal a dependence on the order of iteration.
        (0..20).for_each(|_| assert_eq!(result(&case.function, &case.of), case.gives, "{line}"));
    }
}

fn result(function: &str, of: &Value) -> Value {
    let text = of.as_str().unwrap_or_default();
    match function {
        "steps" => json!(steps(text)),
        "line_steps" => json!(Separator::Line.steps(text)),
        "select" => call(of, |(steps, kept): (Vec<String>, Vec<usize>)| select(&texts(&steps), kept)),
        "strip" => json!(strip(text)),
        "think_and_response" => json!([think(text), response(text)]),
        "before_and_again" => json!(parts(text).map(|parts| (parts.before, parts.thinks_again))),
        "bare_chain" => json!(bare_chain(text)),
        "answer_beside" => call(of, |(chain, held): (String, String)| answer_beside(&chain, &held).map(String::from)),
        "rendered" => json!(rendered::turns(text)),
        "response_or_all" => json!(response_or_all(text)),
        "wrap" => call(of, |(cot, answer): (String, String)| wrap(&cot, &answer)),
        "unfenced" => json!(unfenced(text)),
        "code" => json!(code(text)),
        "language" => json!(language(text)),
        "blocks" => blocks(text),
        "function" => json!(Function::of(text).name()),
        "without_lowest_functional" => call(of, |(names, scores, share): (Vec<String>, Vec<Option<f64>>, f64)| {
            let named = |name: String| Function::ALL.into_iter().find(|function| function.name() == name).unwrap();
            without_lowest_functional(&names.into_iter().map(named).collect::<Vec<_>>(), &scores, share)
        }),
        "by_score" => json!(by_score(&scores(of))),
        "share" => call(of, |(ratio, tokens)| share(ratio, tokens)),
        "walk" => call(of, |(original, coarse, threshold): (Vec<String>, Vec<String>, f64)| {
            let walk = walk(&mut Gestalt::new(false), &texts(&original), &texts(&coarse), threshold);
            (walk.matches.iter().map(|found| found.step).collect::<Vec<_>>(), walk.failed)
        }),
        "ratio" => call(of, |(a, b): (String, String)| {
            let mut gestalt = Gestalt::new(false);
            gestalt.set_b(&b);
            gestalt.ratio(&a)
        }),
        "units" => call(of, |(level, sentence, tokens): (String, String, Spans<f64>)| {
            let (_, level) = Level::ALL.into_iter().find(|(name, _)| *name == level).unwrap();
            let tokens: Vec<_> = tokens.into_iter().map(|(from, to, nats)| (from..to, nats)).collect();
            let units = level.units(&sentence, &tokens).into_iter();
            units.map(|unit| (unit.span.start, unit.span.end, unit.nats)).collect::<Vec<_>>()
        }),
        "sentences" => json!(sentences(text).into_iter().map(|span| &text[span]).collect::<Vec<_>>()),
        "keep" => call(of, |(text, units, ratio): (String, Spans<Option<f64>>, f64)| {
            let unit = |(from, to, nats): (_, _, Option<f64>)| Unit { span: from..to, nats: nats.unwrap_or(f64::NAN) };
            keep(&text, &units.into_iter().map(unit).collect::<Vec<_>>(), ratio)
        }),
        "scripts" => json!(scripts(text)),
        "is_hollow" => call(of, |(original, pruned): (String, String)| is_hollow(&original, &pruned)),
        "is_cut_off" => json!(is_cut_off(text)),
        "thought" => call(of, |(question, answer): (String, String)| write(&question, &answer)),
        "core" => call(of, |(steps, thought): (Vec<String>, String)| core(&texts(&steps), &thought)),
        // The numbers of the kept steps, from 1.
        "coarse" => call(of, |(question, answer, steps): (String, String, Vec<String>)| {
            let kept = core(&texts(&steps), &write(&question, &answer).unwrap());
            kept.into_iter().map(|step| step + 1).collect::<Vec<_>>()
        }),
        other => panic!("no function {other}"),
    }
}

/// Parts of a text from and to a byte, each with its self-information.
type Spans<T> = Vec<(usize, usize, T)>;

fn call<A: DeserializeOwned, R: Serialize>(of: &Value, function: impl FnOnce(A) -> R) -> Value {
    json!(function(serde_json::from_value(of.clone()).unwrap()))
}

fn texts(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

/// JSON has no NaN, so it is the text `NaN` here.
fn scores(of: &Value) -> Vec<Option<f64>> {
    let score = |score: &Value| score.as_f64().or_else(|| score.as_str().map(|nan| nan.parse().unwrap()));
    of.as_array().unwrap().iter().map(score).collect()
}

/// The turn of each line, and whether a block is open after it.
fn blocks(text: &str) -> Value {
    let mut blocks = Blocks::default();
    let turn = |line| match blocks.read(line) {
        Some(Turn::Opens(info)) => json!([{ "opens": info }, blocks.is_open()]),
        Some(Turn::Closes) => json!(["closes", blocks.is_open()]),
        None => json!([null, blocks.is_open()]),
    };
    text.lines().map(turn).collect()
}

#[test]
fn each_opening_tag_begins_a_chain() {
    openings().for_each(|tag| assert!(begins_with_chain(&format!(" {tag} So 84.")), "{tag}"));
}
