//! Results of Python's difflib and of transformers' tokenizers, exact to the last bit.

use std::sync::Arc;

use asap_kernels::gestalt::Gestalt;
use asap_kernels::matching::walk;
use asap_kernels::steps::strip;
use datafusion::arrow::array::{
    ArrayRef, AsArray, Float64Array, Float64Builder, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
};
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::tests::functions::session::{evaluate, golden_path, query, session};

fn read<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let text = std::fs::read_to_string(golden_path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// Two texts and their similarity, with and without autojunk; numbers in Python's format.
#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    difflib: String,
    plain: String,
}

#[test]
fn similarities_are_identical() {
    let pairs: Vec<Pair> = read("gestalt.jsonl");
    assert_eq!(pairs.len(), 3_000);
    let rows = batch(vec![("a", texts(pairs.iter().map(|p| &*p.a))), ("b", texts(pairs.iter().map(|p| &*p.b)))]);
    let session = session("qwen2");
    let plain = evaluate(&session, &rows, "cot_similarity(a, b)");
    let difflib = evaluate(&session, &rows, "cot_similarity_difflib(a, b)");
    for (row, pair) in pairs.iter().enumerate() {
        let at = |array: &ArrayRef| array.as_primitive::<Float64Type>().value(row);
        assert_eq!(at(&plain), pair.plain.parse::<f64>().unwrap(), "row {row}");
        assert_eq!(at(&difflib), pair.difflib.parse::<f64>().unwrap(), "row {row}, autojunk");
    }
}

/// A text, and what Selective Context keeps of it by words, tokens and sentences.
#[derive(Deserialize)]
struct Selected {
    text: String,
    ratio: f64,
    word: String,
    token: String,
    sentence: String,
}

#[test]
fn texts_are_compressed_as_by_an_independent_selective_context() {
    let rows: Vec<Selected> = read("selective.jsonl");
    assert!(rows.len() >= 20);
    let ratios: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.ratio)));
    let given = batch(vec![("text", texts(rows.iter().map(|row| &*row.text))), ("ratio", ratios)]);
    let session = session("qwen2");
    for level in ["word", "token", "sentence"] {
        let found = query(&session, &given, &format!("cot_selective_context(text, ratio, '{level}')"));
        for (row, found) in rows.iter().zip(found.as_string::<i32>()) {
            let expected = match level {
                "word" => &row.word,
                "token" => &row.token,
                _ => &row.sentence,
            };
            assert_eq!(found, Some(expected.as_str()), "{level} of {:?}", row.text);
        }
    }
    let default = query(&session, &given, "cot_selective_context(text, ratio)");
    assert_eq!(default.as_string::<i32>().value(0), rows[0].word);
}

/// Two chains and the walk of Algorithm 1, with and without autojunk; indices from 0.
#[derive(Deserialize)]
struct Chains {
    original: String,
    coarse: String,
    tau: f64,
    difflib: Walked,
    plain: Walked,
}

#[derive(Deserialize)]
struct Walked {
    matches: Vec<usize>,
    similarities: Vec<String>,
    failed: Option<usize>,
}

impl Walked {
    fn similarities(&self) -> Vec<f64> {
        self.similarities.iter().map(|text| text.parse().unwrap()).collect()
    }
}

fn sections(chain: &str) -> Vec<&str> {
    strip(chain).split("\n\n").map(strip).collect()
}

#[test]
fn walks_are_identical() {
    let rows: Vec<Chains> = read("walks.jsonl");
    assert_eq!(rows.len(), 200);
    for (row, chains) in rows.iter().enumerate() {
        for (autojunk, expected) in [(false, &chains.plain), (true, &chains.difflib)] {
            let (original, coarse) = (sections(&chains.original), sections(&chains.coarse));
            let found = walk(&mut Gestalt::new(autojunk), &original, &coarse, chains.tau);
            let (indices, similarities): (Vec<_>, Vec<_>) =
                found.matches.iter().map(|found| (found.step, found.similarity)).unzip();
            assert_eq!((indices, found.failed), (expected.matches.clone(), expected.failed), "row {row}");
            assert_eq!(similarities, expected.similarities(), "row {row}");
        }
    }
}

fn one_based(indices: &[usize]) -> Vec<i64> {
    indices.iter().map(|index| *index as i64 + 1).collect()
}

#[derive(Deserialize)]
struct Refinement {
    steps: Vec<String>,
    scores: Vec<String>,
    original: i64,
    cases: Vec<Refined>,
}

#[derive(Deserialize)]
struct Refined {
    max_tokens: i64,
    kept: Vec<usize>,
    tokens: i64,
}

#[test]
fn refinements_are_identical() {
    for model in ["qwen2", "llama"] {
        let chains: Vec<Refinement> = read(&format!("refine_{model}.jsonl"));
        let rows: Vec<_> = chains.iter().flat_map(|chain| chain.cases.iter().map(move |case| (chain, case))).collect();
        assert_eq!(rows.len(), 400);
        let (mut steps, mut scores) = (ListBuilder::new(StringBuilder::new()), ListBuilder::new(Float64Builder::new()));
        for (chain, _) in &rows {
            steps.append_value(chain.steps.iter().map(Some));
            scores.append_value(chain.scores.iter().map(|score| Some(score.parse().unwrap())));
        }
        let max_tokens = Int64Array::from_iter_values(rows.iter().map(|(_, case)| case.max_tokens));
        let columns = batch(vec![
            ("steps", Arc::new(steps.finish())),
            ("scores", Arc::new(scores.finish())),
            ("max_tokens", Arc::new(max_tokens)),
        ]);
        let session = session(model);
        let kept = evaluate(&session, &columns, "cot_refine(steps, scores, max_tokens)");
        let whole = evaluate(&session, &columns, "cot_tokens(array_to_string(steps, E'\\n\\n'))");
        let left = "cot_tokens(cot_select(steps, cot_refine(steps, scores, max_tokens)))";
        let left = evaluate(&session, &columns, left);
        let by = evaluate(&session, &columns, "cot_refine_or_fit(steps, scores, max_tokens)['by']");
        let or_fit = "array_to_string(cot_refine_or_fit(steps, scores, max_tokens)['kept'], ' ') = array_to_string(\
                      CASE WHEN cot_refine(steps, scores, max_tokens) = [] THEN cot_fit(steps, scores, max_tokens) \
                      ELSE cot_refine(steps, scores, max_tokens) END, ' ')";
        assert_eq!(evaluate(&session, &columns, or_fit).as_boolean().true_count(), 400, "{model}");
        for (row, (chain, case)) in rows.iter().enumerate() {
            let rule = if case.kept.is_empty() { "cot_fit" } else { "algorithm_2" };
            assert_eq!(by.as_string::<i32>().value(row), rule, "{model} row {row}");
            let kept = kept.as_list::<i32>().value(row);
            assert_eq!(kept.as_primitive::<Int64Type>().values().to_vec(), one_based(&case.kept), "{model} row {row}");
            assert_eq!(whole.as_primitive::<Int64Type>().value(row), chain.original, "{model} row {row}");
            assert_eq!(left.as_primitive::<Int64Type>().value(row), case.tokens, "{model} row {row}");
        }
    }
}
