//! Compares scores with transformers, and tests how rows are read.

use super::*;
use crate::ask::survival::Checker;
use crate::backend::TOKENS_PER_PASS;
use crate::backend::{Backend, Fork, IsWanted, Packed, Target, TokenScore};
use crate::model::decoder::Decoder;
use crate::score::loaded::CpuModel;
use crate::testing::{self, By, ScoredChain, chains, golden, lines, read, steps};
use crate::{Asked, Computed, Dtype, Joined, Turn};
use asap_kernels::steps::join;

fn scorer(name: &str) -> Scorer {
    testing::scorer(Computed::Cpu(Dtype::F32), name, &Arc::default())
}

fn score(scorer: &Scorer, chains: &[QuestionAndSteps], wanted: Wanted) -> Vec<Scored> {
    read(scorer, &chains.iter().cloned().map(Reading::Chain).collect::<Vec<_>>(), wanted)
}

/// The logarithm of the perplexity of each text alone.
fn self_information(scorer: &Scorer, texts: &[String]) -> Vec<Option<f32>> {
    let alone: Vec<Reading> = texts.iter().map(|text| Reading::Alone(text)).collect();
    let scored = read(scorer, &alone, Wanted::AllTokens).into_iter();
    scored.map(|alone| steps(alone).perplexity[0].map(f32::ln)).collect()
}

fn model(name: &str) -> CpuModel<candle_core::Tensor> {
    let decoder = Decoder::load(&golden(name)).unwrap();
    let (tokenizer, memory) = (Arc::new(Tokenizer::load(&golden(name)).unwrap()), Arc::default());
    CpuModel { decoder, checker: Checker::new(&golden(name), &tokenizer, &memory).unwrap() }
}

fn question_and_steps(chain: &ScoredChain) -> QuestionAndSteps<'_> {
    QuestionAndSteps::new(chain.question.as_str().into(), chain.steps.iter().map(String::as_str).collect())
}

/// The tolerance of a number, absolute up to 1.
fn relative(expected: f64) -> f64 {
    1e-4 * expected.max(1.0)
}

fn assert_close(found: &[Option<f32>], expected: &[Option<f64>], tolerance: fn(f64) -> f64, of: &str) {
    assert_eq!(found.len(), expected.len(), "{of}");
    for pair in found.iter().zip(expected) {
        let is_close = match pair {
            (Some(found), Some(expected)) => (f64::from(*found) - expected).abs() < tolerance(*expected),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_close, "{of}: {pair:?}");
    }
}

#[test]
fn scores_agree_with_transformers() {
    for name in ["qwen2", "llama", "qwen3", "mistral", "yarn", "linear"] {
        let scorer = scorer(name);
        let chains = chains(name);
        let rows: Vec<_> = chains.iter().map(question_and_steps).collect();
        let found = score(&scorer, &rows, Wanted::AllTokens);
        for (found, chain) in found.into_iter().map(steps).zip(&chains) {
            let [surprisal, entropy] = [|token: TokenScore| token.surprisal, |token: TokenScore| token.entropy]
                .map(|number| found.first.iter().map(|token| token.map(number)).collect::<Vec<_>>());
            assert_close(&surprisal, &chain.surprisal, |_| 1e-4, name);
            assert_close(&entropy, &chain.entropy, |_| 1e-4, name);
            assert_close(&found.perplexity, &chain.perplexity, relative, name);
        }
    }
}

#[derive(serde::Deserialize)]
struct BaselineScores {
    id: usize,
    answer: String,
    step_entropy_sum: Vec<Option<f64>>,
    step_entropy_mean: Vec<Option<f64>>,
    self_information: Vec<Option<f64>>,
    answer_nll: f64,
    answer_nll_without: Vec<f64>,
}

#[test]
fn baselines_agree_with_transformers() {
    for name in ["qwen2", "llama"] {
        let (scorer, chains) = (scorer(name), chains(name));
        for expected in lines::<BaselineScores>(golden(&format!("scores_{name}.jsonl"))) {
            let texts = &chains[expected.id].steps;
            let chain = question_and_steps(&chains[expected.id]);
            let reading = Reading::Answer { chain: chain.clone(), answer: &expected.answer, left_out: true };
            let found = steps(read(&scorer, &[reading], Wanted::AllTokens).remove(0));
            assert_eq!(found.answers.len(), texts.len() + 1);
            let nats = std::iter::once(&expected.answer_nll).chain(&expected.answer_nll_without);
            for (found, expected) in found.answers.iter().zip(nats) {
                assert!((found - expected).abs() < 1e-4, "{name} {found} {expected}");
            }
            let found = steps(score(&scorer, &[chain], Wanted::AllTokens).remove(0));
            assert_close(&found.entropy, &expected.step_entropy_sum, relative, name);
            assert_close(&found.mean_entropy, &expected.step_entropy_mean, relative, name);
            assert_close(&self_information(&scorer, texts), &expected.self_information, relative, name);
        }
    }
}

/// A line of `tests/goldens/entropies_*.jsonl`: the entropies of each step's tokens, and the text of its first token.
#[derive(serde::Deserialize)]
struct TokenEntropies {
    id: usize,
    entropies: Vec<Option<Vec<f64>>>,
    first_tokens: Vec<Option<String>>,
}

#[test]
fn entropies_of_tokens_agree_with_transformers() {
    for name in ["qwen2", "llama"] {
        let (scorer, chains) = (scorer(name), chains(name));
        for expected in lines::<TokenEntropies>(golden(&format!("entropies_{name}.jsonl"))) {
            let chain = question_and_steps(&chains[expected.id]);
            assert_eq!(scorer.first_tokens(&chain).unwrap(), Ok(expected.first_tokens));
            let found = steps(score(&scorer, &[chain], Wanted::EachToken).remove(0));
            assert_eq!(found.tokens.len(), expected.entropies.len());
            for (step, (own, expected)) in found.tokens.iter().zip(expected.entropies).enumerate() {
                assert_eq!(own.is_some(), expected.is_some(), "{name}");
                let nats: Vec<Option<f32>> = own.iter().flatten().map(|token| Some(token.entropy)).collect();
                let expected: Vec<Option<f64>> = expected.into_iter().flatten().map(Some).collect();
                assert_close(&nats, &expected, |_| 1e-4, name);
                // They add up to the entropy of the step, and begin with the entropy of its first token.
                assert_eq!(nats.first().copied().flatten(), found.first[step].map(|token| token.entropy));
                let sum = nats.iter().flatten().map(|nats| f64::from(*nats)).sum::<f64>() as f32;
                assert_eq!(own.as_ref().map(|_| sum), found.entropy[step], "{name}");
            }
        }
    }
}

#[test]
fn bf16_moves_scores_by_little() {
    for name in ["qwen2", "llama", "qwen3"] {
        let [whole, half] =
            [Dtype::F32, Dtype::Bf16].map(|dtype| testing::scorer(Computed::Cpu(dtype), name, &Arc::default()));
        let chains = chains(name);
        let rows: Vec<_> = chains.iter().map(question_and_steps).collect();
        let [whole, half] = [whole, half].map(|scorer| score(&scorer, &rows, Wanted::FirstTokens));
        let mut differences = vec![];
        for (whole, half) in whole.into_iter().map(steps).zip(half.into_iter().map(steps)) {
            let pairs = whole.first.iter().zip(&half.first).filter_map(|(a, b)| Some(((*a)?, (*b)?)));
            differences.extend(pairs.map(|(a, b)| f64::from((a.surprisal - b.surprisal).abs())));
        }
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        assert!(mean > 0.0 && mean < 0.02, "{name}: {mean}");
    }
}

#[test]
fn a_row_longer_than_a_pass_is_scored_in_order() {
    let (scorer, chains) = (scorer("llama"), chains("llama"));
    let row = |chain| RowTokens::encode(&scorer.tokenizer, &scorer.prompt, &question_and_steps(chain)).unwrap();
    let ids = chains.iter().flat_map(|chain| row(chain).ids).collect::<Vec<u32>>();
    let ids: Vec<u32> = ids.into_iter().cycle().take(TOKENS_PER_PASS + 700).collect();
    let mut model = model("llama");
    let rows = [TOKENS_PER_PASS + 500, 3, TOKENS_PER_PASS - 1, TOKENS_PER_PASS, 3];
    let targets = rows.map(|row| Target { row: row as u32, id: ids[row + 1] });
    let chain = Packed { ids: &ids, lengths: &[ids.len()] };
    let found = model.score(chain, &targets, &|| true).unwrap();
    for (target, found) in targets.iter().zip(&found) {
        let alone = model.score(chain, std::slice::from_ref(target), &|| true).unwrap();
        assert!((alone[0].surprisal - found.surprisal).abs() < 1e-5);
    }
    assert!((found[1].surprisal - found[4].surprisal).abs() < 1e-5);
}

#[test]
fn only_the_rows_before_first_tokens_go_through_the_output_layer() {
    let (scorer, mut model) = (scorer("qwen2"), model("qwen2"));
    let mut scored_steps = 0;
    for chain in chains("qwen2") {
        let row = RowTokens::encode(&scorer.tokenizer, &scorer.prompt, &question_and_steps(&chain)).unwrap();
        let ids = Packed { ids: &row.ids, lengths: &[row.ids.len()] };
        model.score(ids, &row.targets(Wanted::FirstTokens, 0), &|| true).unwrap();
        scored_steps += chain.surprisal.iter().flatten().count();
    }
    assert_eq!(model.decoder.output_rows.load(std::sync::atomic::Ordering::Relaxed), scored_steps);
}

#[test]
fn a_chain_is_tokenized_once_for_its_length_its_pruning_and_its_scores() {
    let scorer = scorer("qwen2");
    let (tokenizer, steps) = (&scorer.tokenizer, vec!["A step, and more of it."; 50]);
    let chain = join(steps.iter().copied());
    let mut read = 0;
    let mut since = || {
        let before = std::mem::replace(&mut read, tokenizer.tokenized_bytes());
        read - before
    };
    since();
    tokenizer.length(&chain).unwrap();
    assert_eq!(since(), chain.len());
    let joined = Joined::new(tokenizer, &steps).unwrap();
    let half = joined.tokens() / 2;
    assert_eq!(joined.prune(0..50, usize::MAX).unwrap().len(), 50);
    assert_eq!(since(), 0);
    scorer.too_long(&QuestionAndSteps::new("How much?".into(), steps.clone()), None).unwrap();
    assert!(since() < chain.len() / 5, "only the prompt");
    let kept = Joined::new(tokenizer, &steps).unwrap().prune((0..50).rev(), half).unwrap();
    assert!(since() < chain.len(), "only the places where steps were removed");
    tokenizer.length(&join(kept.iter().map(|step| steps[*step]))).unwrap();
    assert_eq!(since(), 0);
}

#[test]
fn a_batch_gives_what_single_rows_give_and_each_row_is_computed_once() {
    let (batch, single) = (scorer("llama"), scorer("llama"));
    let chains = chains("llama");
    let mut rows: Vec<_> = chains.iter().map(question_and_steps).collect();
    rows.extend_from_within(..10);
    let found = score(&batch, &rows, Wanted::FirstTokens);
    assert_eq!(batch.model.thread.prefills(), chains.len() as u64);
    for (found, chain) in found.into_iter().map(steps).zip(&rows) {
        let alone = steps(score(&single, std::slice::from_ref(chain), Wanted::FirstTokens).remove(0));
        for (found, alone) in found.first.iter().zip(&alone.first) {
            let difference = found.zip(*alone).map_or(0.0, |(a, b)| (a.surprisal - b.surprisal).abs());
            assert!(difference < 1e-5 && found.is_some() == alone.is_some());
        }
    }
    assert_eq!(single.model.thread.prefills(), chains.len() as u64);

    // Scoring all tokens takes one more pass, which also serves requests for first tokens.
    let read = batch.tokenizer.tokenized_bytes();
    score(&batch, &rows, Wanted::AllTokens);
    score(&batch, &rows, Wanted::FirstTokens);
    assert_eq!(batch.model.thread.prefills(), 2 * chains.len() as u64);
    assert_eq!(batch.tokenizer.tokenized_bytes(), read);
}

#[test]
fn prompts_are_part_of_a_row() {
    let short = scorer("qwen2");
    let (tokenizer, model) = (Arc::clone(&short.tokenizer), Arc::clone(&short.model));
    let long = Scorer::new(&golden("qwen2"), Some("{question} So: "), tokenizer, model, &Arc::default());
    let chain = QuestionAndSteps::new("2 + 2?\n".into(), vec!["It is 4.", "", "Done."]);
    let first = |scorer: &Scorer| steps(score(scorer, std::slice::from_ref(&chain), Wanted::FirstTokens).remove(0));
    let (short, long) = (first(&short), first(&long.unwrap()));
    assert!(short.first[0].is_some() && short.first[2].is_some() && short.first[0] != long.first[0]);
    assert_eq!((short.first[1], long.first[1]), (None, None), "a step without text has no first token");
    // So is a system prompt, which precedes the question.
    let scorer = self::scorer("qwen2");
    let asked = |system, question| QuestionAndSteps { question: Asked { system, question }, ..chain.clone() };
    let asked = [asked(Some("Be brief."), "2?"), asked(None, "Be brief.\n\n2?"), asked(None, "2?")];
    let [system, same, without] =
        asked.map(|chain| steps(score(&scorer, &[chain], Wanted::FirstTokens).remove(0)).first[0]);
    assert!(system == same && system != without);
}

#[test]
fn a_chain_beyond_the_window_says_so_in_numbers() {
    let scorer = scorer("qwen2");
    let chain = QuestionAndSteps::new("Count.".into(), vec!["7 "; 2500]);
    let why = "7,503 tokens with its prompt, the model's window is 4,096";
    let text = format!("Count.{}", ["7 "; 2500].join("\n\n"));
    assert_eq!(scorer.tokenizer.encode(&text, true).unwrap().ids.len(), 7503);
    assert_eq!(scorer.too_long(&chain, None).unwrap().as_deref(), Some(why));
    let scored = score(&scorer, &[chain], Wanted::FirstTokens);
    assert_eq!(scored, [Scored::TooLong(why.to_string())]);
    assert_eq!(scorer.model.thread.prefills(), 0);
    let fits = QuestionAndSteps::new("Count.".into(), vec!["1", "2"]);
    assert_eq!(scorer.too_long(&fits, None).unwrap(), None);
    assert_eq!(scorer.too_long(&fits, Some("7")).unwrap(), None);
}

#[test]
fn texts_that_share_their_beginning_have_the_scores_that_each_has_alone() {
    let mut model = model("qwen2");
    let tokens = |count: usize, seed: u32| (0..count as u32).map(|i| (i * 31 + seed) % 1700).collect::<Vec<_>>();
    let fork =
        |from, count: usize, seed| Fork { from, ids: tokens(count, seed), scored_there: 0, scored: count - 3..count };
    // More tokens than fit one pass, a text that shares nothing, and one that is almost the first.
    let mut texts = vec![fork(0, 1200, 1)];
    texts.extend((0..12).map(|i| fork(i * 97, 1100 - i * 80, i as u32 + 2)));
    texts.push(fork(1196, 4, 1));
    let shared = model.score_forks(&texts, &|| true).unwrap();
    let mut unshared =
        By(|chains: Packed, targets: &[Target], is_wanted: &IsWanted| model.score(chains, targets, is_wanted));
    let alone = unshared.score_forks(&texts, &|| true).unwrap();
    assert_eq!((shared.len(), alone.len()), (3 * texts.len(), 3 * texts.len()));
    for (shared, alone) in shared.iter().zip(&alone) {
        assert!((shared.surprisal - alone.surprisal).abs() < 1e-4, "{shared:?} {alone:?}");
    }
}

#[test]
fn steps_of_a_conversation_are_scored_where_they_stand() {
    let scorer = scorer("qwen2");
    let said = |role, text: &'static str, steps| Turn { role, text: Some(text.into()), steps, ..Turn::default() };
    let turns = vec![
        said("user", "8 + 5?", 0),
        said("assistant", "13", 2),
        said("user", "And 2?", 0),
        said("assistant", "15", 1),
    ];
    let chain = QuestionAndSteps { turns, ..QuestionAndSteps::new("".into(), vec!["A sum.", "So 13.", "So 15."]) };
    // The golden prompts are the question alone.
    let first = "8 + 5?\n\n<think>\n";
    let second = [first, "A sum.\n\nSo 13.\n</think>\n\n13\n\nAnd 2?\n\n<think>\n"].concat();
    let alone = [
        QuestionAndSteps::new(first.into(), vec!["A sum.", "So 13."]),
        QuestionAndSteps::new(second.as_str().into(), vec!["So 15."]),
    ];
    let scores = |chains: &[QuestionAndSteps]| -> Vec<_> {
        let scored = score(&scorer, chains, Wanted::AllTokens).into_iter().map(steps);
        scored
            .flat_map(|scores| scores.first.iter().copied().zip(scores.perplexity.clone()).collect::<Vec<_>>())
            .collect()
    };
    let (found, expected) = (scores(std::slice::from_ref(&chain)), scores(&alone));
    assert_eq!(found.len(), 3);
    for (place, ((first, perplexity), (first_alone, perplexity_alone))) in found.into_iter().zip(expected).enumerate() {
        let [first, first_alone] = [first, first_alone].map(|token| token.unwrap().surprisal);
        assert!((first - first_alone).abs() < 1e-4, "{first} {first_alone}");
        // The last token of a thought may cover the line end before its closing tag.
        assert!(place == 1 || (perplexity.unwrap() / perplexity_alone.unwrap() - 1.0).abs() < 1e-4);
    }
    // The answer follows the last thought, also if that is pruned.
    let survives = |chain: &QuestionAndSteps| {
        let reading = Reading::Survival { chain: chain.clone(), answer: "15", states: true };
        steps(read(&scorer, &[reading], Wanted::AllTokens).remove(0)).survival.clone().unwrap().log_probability
    };
    let [whole, pruned] = [&[0, 1, 2][..], &[0]].map(|kept| survives(&chain.with_steps(kept)));
    assert!(whole.is_finite() && pruned.is_finite() && whole != pruned);
    let whole_alone = QuestionAndSteps::new(second.as_str().into(), vec!["So 15."]);
    assert!((whole - survives(&whole_alone)).abs() < 1e-4);
    assert_eq!(scorer.too_long(&chain, Some("15")).unwrap(), None);
}
