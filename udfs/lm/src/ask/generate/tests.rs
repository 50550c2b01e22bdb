//! Answers compared with transformers, and answers in batches with single ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::{chains, golden, lines};

const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 0, max_tokens: 24, stop: Vec::new() };
const QUESTION: [Message; 1] = [Message { role: "user", content: "What is 17 + 25?" }];

fn generator(model: &str) -> Generator {
    Generator::load(&golden(model), &Arc::default()).unwrap()
}

/// Answers one prompt; None as soon as `is_wanted` returns false.
fn answer_prompt(
    generator: &mut Generator,
    prompt: Prompt,
    sampling: &Sampling,
    is_wanted: &IsWanted,
) -> Result<Option<Generated>> {
    let (mut prompt, mut found) = (Some(prompt), Ok(None));
    let next = |_: &Generator, _| Some(((), Ok(prompt.take()?), sampling.clone()));
    generator.serve(next, |()| is_wanted(), |(), answer| found = answer.map(Some));
    found
}

fn answer(generator: &mut Generator, messages: &[Message], sampling: Sampling) -> Generated {
    let prompt = generator.prompt(messages, false).unwrap();
    answer_prompt(generator, prompt, &sampling, &|| true).unwrap().unwrap()
}

#[test]
fn tokens_one_at_a_time_give_the_logits_of_the_whole_pass() {
    for model in ["qwen2", "llama", "qwen3", "mistral", "yarn", "linear"] {
        let folder = golden(model);
        let decoder: Decoder = Decoder::load(&folder).unwrap();
        let tokenizer = Tokenizer::load(&folder).unwrap();
        let texts: Vec<String> = chains(model).iter().take(4).map(|chain| chain.steps.join("\n\n")).collect();
        // Longer than the block of keys in attention.
        let ids = tokenizer.encode(&texts.join("\n\n").repeat(3), true).unwrap().ids;
        let ids = &ids[..ids.len().min(700)];
        let whole = decoder.hidden(ids, &[ids.len()]).unwrap();
        let first = ids.len().saturating_sub(300).max(1);
        let (_, mut before) = decoder.prefill(&ids[..first], &[], &|| true).unwrap();
        for (place, id) in ids.iter().enumerate().skip(first) {
            let hidden = decoder.append(&[vec![*id]], &mut [&mut before], &|| true).unwrap();
            let found = decoder.logits(&hidden).unwrap();
            let expected = decoder.logits(&whole.narrow(0, place, 1).unwrap()).unwrap();
            let furthest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(furthest < 1e-4, "{model}, token {place}: {furthest}");
        }
    }
}

#[derive(serde::Deserialize)]
struct Greedy {
    prompt: String,
    ids: Vec<u32>,
}

fn assert_follows(generator: &mut Generator, file: &str, max_tokens: usize) {
    for greedy in lines::<Greedy>(golden(file)) {
        let ids = generator.tokenizer.encode(&greedy.prompt, true).unwrap().ids;
        let (prompt, sampling) = (Prompt { ids, opens_thought: false }, Sampling { max_tokens, ..GREEDY });
        let text = answer_prompt(generator, prompt, &sampling, &|| true).unwrap().unwrap();
        assert_eq!(text.ids, greedy.ids, "{file} {}", greedy.prompt);
    }
}

#[test]
fn greedy_answers_agree_with_transformers() {
    for model in ["qwen2", "llama"] {
        let mut generator = generator(model);
        assert_follows(&mut generator, &format!("greedy_{model}.jsonl"), 32);
        generator.config.repetition_penalty = 1.3;
        generator.config.length_penalty = Some((12, 1.2));
        assert_follows(&mut generator, &format!("penalised_{model}.jsonl"), 64);
    }
}

#[derive(serde::Deserialize)]
struct Nucleus {
    prompt: String,
    temperature: f64,
    top_p: f64,
    kept: Vec<u32>,
}

#[test]
fn the_nucleus_is_that_of_transformers() {
    for model in ["qwen2", "llama"] {
        let generator = generator(model);
        for Nucleus { prompt, temperature, top_p, kept } in lines(golden(&format!("nucleus_{model}.jsonl"))) {
            let ids = generator.tokenizer.encode(&prompt, true).unwrap().ids;
            let logits = generator.read_prompt(&ids, &|| true).unwrap().logits;
            let sampling = Sampling { temperature, top_p, ..GREEDY };
            let (_, weights) = Sampler::new(sampling, generator.config.clone(), &ids).nucleus(&logits);
            let found: std::collections::BTreeSet<u32> = weights.iter().map(|(id, _)| *id).collect();
            assert!(found.iter().eq(&kept), "{model}, {prompt}, {temperature}, {top_p}");
        }
    }
}

#[test]
fn a_prompt_is_read_once_for_all_its_samples() {
    let sampling = |seed| Sampling { temperature: 1.0, seed, ..GREEDY };
    let fresh = |seed| answer(&mut self::generator("qwen2"), &QUESTION, sampling(seed));
    let mut generator = generator("qwen2");
    for seed in 1..4 {
        assert_eq!(answer(&mut generator, &QUESTION, sampling(seed)), fresh(seed));
    }
    // One row of the output layer per token, and one for the prompt, which is read once.
    let tokens = (1..4).map(|seed| fresh(seed).tokens_out - 1).sum::<usize>();
    assert_eq!(generator.decoder.output_rows.load(Ordering::Relaxed), tokens + 1);
}

#[test]
fn an_answer_that_no_one_waits_for_is_not_finished() {
    let mut generator = generator("qwen2");
    // The prompt is read in two blocks per layer; then `is_wanted` is called before each token.
    let blocks = 2 * generator.decoder.config.num_hidden_layers;
    for enough in [blocks - 1, blocks + 2] {
        let asked = AtomicUsize::new(0);
        let is_wanted = || asked.fetch_add(1, Ordering::Relaxed) < enough;
        let prompt = generator.prompt(&QUESTION, false).unwrap();
        assert_eq!(answer_prompt(&mut generator, prompt, &GREEDY, &is_wanted).unwrap(), None);
        assert_eq!(asked.into_inner(), enough + 1);
    }
}

#[test]
fn the_end_token_ends_an_answer_and_is_not_in_its_text() {
    let mut generator = generator("llama");
    assert_eq!(generator.config.ends, [1999]);
    let ids = answer(&mut generator, &QUESTION, GREEDY).ids;
    generator.config.ends = vec![ids[5]];
    let length = ids.iter().position(|id| *id == ids[5]).unwrap() + 1;
    let whole = answer(&mut generator, &QUESTION, GREEDY);
    assert_eq!((whole.tokens_out, whole.finish, &*whole.ids), (length, Finish::Stop, &ids[..length]));
    assert_eq!(whole.text, generator.tokenizer.decode(&ids[..length - 1]).unwrap());
    let cut = answer(&mut generator, &QUESTION, Sampling { max_tokens: 1, ..GREEDY });
    assert_eq!((cut.tokens_out, cut.finish == Finish::Length), (1, length > 1));
}

#[test]
fn texts_that_go_on_together_are_those_that_go_on_alone() {
    let mut generator = generator("llama");
    let question = |i: usize| format!("What is {i} + {}?{}", i * i, " Say why.".repeat(i % 7));
    let stop = vec!["e".to_string(), "no such text".to_string()];
    let sampling = Sampling { temperature: 1.0, top_p: 0.95, max_tokens: 40, stop, ..GREEDY };
    // Answers end at different times: more texts than fit a batch, of several lengths.
    generator.config.ends.extend(0..300);
    let mut found = std::collections::BTreeMap::new();
    let each = |place: SampleIndex, answer: Result<Generated>| found.insert(place, answer.unwrap()).is_none();
    generator.answer_all(
        (0..30).map(|i| Question { system: None, text: question(i) }),
        3,
        sampling.clone(),
        each,
        &|| true,
    );
    let places: Vec<SampleIndex> =
        (0..30).flat_map(|question| (0..3).map(move |sample| SampleIndex { question, sample })).collect();
    assert!(found.keys().eq(&places));
    let lengths: std::collections::BTreeSet<usize> = found.values().map(|answer| answer.tokens_out).collect();
    assert!(lengths.len() > 5, "{lengths:?}");
    for place in [0, 1, 2, 40, 89].map(|place| places[place]) {
        let asked = question(place.question as usize);
        let prompt = generator.prompt(&[Message { role: "user", content: &asked }], true).unwrap();
        let sampling = Sampling { seed: place.seed(sampling.seed), ..sampling.clone() };
        let alone = answer_prompt(&mut generator, prompt, &sampling, &|| true).unwrap().unwrap();
        assert_eq!(found[&place], alone, "{place:?}");
    }
}

#[test]
fn a_text_is_cut_before_the_first_stop_string() {
    let mut generator = generator("qwen2");
    let whole = answer(&mut generator, &QUESTION, GREEDY);
    let at = |place: usize| whole.text.char_indices().nth(place).unwrap().0;
    // Of any length and at any place, so within tokens and across them.
    for (from, to) in [(0, 1), (0, 4), (3, 5), (9, 20), (11, 12), (17, 30)] {
        let stop = &whole.text[at(from)..at(to)];
        let stops = vec!["no such text".to_string(), stop.to_string()];
        let found = answer(&mut generator, &QUESTION, Sampling { stop: stops, ..GREEDY });
        assert_eq!(found.text, whole.text[..whole.text.find(stop).unwrap()], "{stop:?}");
        assert_eq!((found.finish, found.tokens_out), (Finish::Stop, found.ids.len()), "{stop:?}");
        // No token is generated after the one that completes the stop string.
        let text = |ids: &[u32]| generator.tokenizer.decode(ids).unwrap();
        assert!(text(&found.ids).contains(stop) && whole.ids.starts_with(&found.ids), "{stop:?}");
        assert!(!text(&found.ids[..found.ids.len() - 1]).contains(stop), "{stop:?}");
    }
    let unstopped = answer(&mut generator, &QUESTION, Sampling { stop: vec!["no such text".to_string()], ..GREEDY });
    assert_eq!(unstopped, whole);
}

#[test]
fn a_prompt_says_whether_it_opens_the_thought() {
    let mut generator = generator("qwen2");
    for thinks in [false, true] {
        // Without a chat template, the prompt of a thinking model ends in the opening tag.
        let prompt = generator.prompt(&QUESTION, thinks).unwrap();
        let found = answer_prompt(&mut generator, prompt, &GREEDY, &|| true).unwrap().unwrap();
        assert_eq!(found.opens_thought, thinks);
    }
}

#[test]
fn prompts_that_arrive_later_join_the_batch() {
    let mut generator = generator("llama");
    let asked = |i: usize| format!("What is {i} + 3?");
    let (mut is_turn, mut asks, mut found) = (false, 0, Vec::new());
    let next = |generator: &Generator, is_empty: bool| {
        // One prompt per step of the batch, and the end only once it is empty.
        is_turn = !is_turn;
        let number = (is_turn || is_empty).then_some(asks).filter(|number| *number < 40)?;
        asks += 1;
        Some((number, generator.prompt(&[Message { role: "user", content: &asked(number) }], true), GREEDY))
    };
    generator.serve(next, |number| number % 5 != 4, |number, answer| found.push((number, answer.unwrap())));
    found.sort_by_key(|(number, _)| *number);
    assert!(found.iter().map(|(number, _)| *number).eq((0..40).filter(|number| number % 5 != 4)));
    for (number, batched) in found.iter().step_by(7) {
        let prompt = generator.prompt(&[Message { role: "user", content: &asked(*number) }], true).unwrap();
        assert_eq!(answer_prompt(&mut generator, prompt, &GREEDY, &|| true).unwrap().as_ref(), Some(batched));
    }
}
