//! Compares survival with transformers, and tests what is read once.

use std::collections::BTreeMap;

use super::*;
use crate::testing::{self, ScoredChain, chains, golden, lines, read, steps};
use crate::{
    Computed, Dtype, Joined, LoadedModel, QuestionAndSteps, Reading, Scored, Scorer, Tokenizer, Wanted, prune_exactly,
};
use asap_kernels::budget::{by_score, share};
use asap_kernels::controls::Control;

/// A line of `tests/goldens/survives_*.jsonl`.
#[derive(serde::Deserialize)]
struct Line {
    id: usize,
    answer: String,
    checks: Vec<Expected>,
    budget: usize,
    controls: BTreeMap<String, Kept>,
    rung: Option<Rung>,
}

#[derive(serde::Deserialize)]
struct Expected {
    kept: Vec<usize>,
    log_probability: f64,
    stated: Option<String>,
    written: Option<usize>,
    margin: Option<f64>,
}

#[derive(serde::Deserialize)]
struct Kept {
    kept: Vec<usize>,
    cut: Option<usize>,
    piece: Option<String>,
}

#[derive(serde::Deserialize)]
struct Rung {
    share: f64,
    kept: Vec<usize>,
}

fn scorer(name: &str, memory: &Arc<Memory>) -> Scorer {
    testing::scorer(Computed::Cpu(Dtype::F32), name, memory)
}

/// What is read of an answer of the goldens: the content of its box, the whole of a number or a program.
fn reading<'a>(chain: &'a ScoredChain, kept: &[usize], answer: &'a str) -> Reading<'a> {
    let steps = kept.iter().map(|step| chain.steps[*step].as_str()).filter(|step| !step.trim().is_empty()).collect();
    let chain = QuestionAndSteps::new(chain.question.as_str().into(), steps);
    let answer_in_box = answer.rsplit_once("\\boxed{").map(|(_, rest)| &rest[..closing(rest).unwrap()]);
    Reading::Survival { chain, answer: answer_in_box.unwrap_or(answer), states: !answer.starts_with("```") }
}

fn check(scorer: &Scorer, readings: &[Reading]) -> Vec<Continued> {
    let scored = read(scorer, readings, Wanted::AllTokens).into_iter();
    scored.map(|scored| steps(scored).survival.clone().unwrap()).collect()
}

#[test]
fn survival_agrees_with_transformers() {
    for name in ["qwen2", "llama"] {
        let (scorer, chains) = (scorer(name, &Arc::default()), chains(name));
        let mut clear = 0;
        for Line { id, answer, checks, .. } in lines(golden(&format!("survives_{name}.jsonl"))) {
            let readings: Vec<_> = checks.iter().map(|check| reading(&chains[id], &check.kept, &answer)).collect();
            for (found, expected) in check(&scorer, &readings).into_iter().zip(checks) {
                let apart = (found.log_probability - expected.log_probability).abs();
                assert!(apart < 1e-4, "{name} {id} {:?}: {apart}", expected.kept);
                assert_eq!(found.stated.is_some(), expected.stated.is_some());
                // Where the two likeliest tokens are nearly equally likely, rounding decides.
                if expected.margin.is_some_and(|margin| margin > 1e-3) {
                    assert_eq!(found.stated, expected.stated, "{name} {id} {:?}", expected.kept);
                    assert_eq!(Some(found.tokens_written), expected.written);
                    clear += 1;
                }
            }
        }
        assert!(clear > 100, "{name}: {clear}");
    }
}

#[test]
fn controls_and_rungs_agree_with_an_independent_program() {
    for name in ["qwen2", "llama"] {
        let (scorer, chains) = (scorer(name, &Arc::default()), chains(name));
        let tokenizer = Tokenizer::load(&golden(name)).unwrap();
        for Line { id, answer, budget, controls, rung, checks } in lines(golden(&format!("survives_{name}.jsonl"))) {
            let chain = &chains[id];
            let steps: Vec<&str> = chain.steps.iter().map(String::as_str).collect();
            let lengths: Vec<usize> = steps.iter().map(|step| tokenizer.count(step).unwrap()).collect();
            let scores =
                |control: Control| control.scores(&steps, &lengths, 42).into_iter().map(Some).collect::<Vec<_>>();
            for (control, expected) in controls {
                let (_, of) = Control::ALL.into_iter().find(|(known, _)| *known == control).unwrap();
                let found = prune_exactly(&tokenizer, &steps, by_score(&scores(of)), budget).unwrap();
                let cut = expected.cut.zip(expected.piece.as_deref());
                assert_eq!(
                    (found.kept, found.cut.as_ref().map(|(step, piece)| (*step, &**piece))),
                    (expected.kept, cut),
                    "{name} {id} {control}"
                );
            }
            let Some(expected) = rung else { continue };
            let whole = checks[0].log_probability;
            let all = Joined::new(&tokenizer, &steps).unwrap().tokens();
            let rung = [0.25, 0.35, 0.5, 0.7].into_iter().find_map(|rung| {
                let order = by_score(&scores(Control::Longest));
                let kept = Joined::new(&tokenizer, &steps).unwrap().prune(order, share(rung, all)).unwrap();
                let survives =
                    |kept: &[usize]| check(&scorer, &[reading(chain, kept, &answer)])[0].log_probability >= whole;
                (!kept.is_empty() && survives(&kept)).then_some((rung, kept))
            });
            let (share, kept) = rung.unwrap_or_else(|| (1.0, (0..steps.len()).collect()));
            assert_eq!((share, kept), (expected.share, expected.kept), "{name} {id}");
        }
    }
}

#[test]
fn what_texts_share_is_read_once_in_any_order_and_changes_nothing() {
    let chains = chains("llama");
    let longest = chains.iter().max_by_key(|chain| chain.tokens).unwrap();
    let other = &chains[8];
    let kept = |chain: &ScoredChain, part: usize| (0..chain.steps.len() * part / 5).collect::<Vec<_>>();
    // The rungs of two questions, mixed and not in order.
    let rungs =
        [(longest, 3), (other, 5), (longest, 5), (longest, 1), (other, 2), (longest, 4), (longest, 2), (other, 1)];
    let readings: Vec<Reading> =
        rungs.iter().map(|(chain, part)| reading(chain, &kept(chain, *part), "\\boxed{7}")).collect();
    let together = check(&scorer("llama", &Arc::default()), &readings);
    let one_by_one = scorer("llama", &Arc::default());
    let tokenizer = Arc::new(Tokenizer::load(&golden("llama")).unwrap());
    let apart: Vec<Continued> =
        readings.iter().map(|of| check(&one_by_one, std::slice::from_ref(of)).remove(0)).collect();
    for (together, apart) in together.iter().zip(&apart) {
        assert!((together.log_probability - apart.log_probability).abs() < 1e-5);
        assert_eq!(together.stated, apart.stated);
    }
    let tokens =
        |chain: &ScoredChain| tokenizer.count(&format!("{}{}", chain.question, chain.steps.join("\n\n"))).unwrap();
    // Each text ends in about 40 tokens of its own.
    let read: usize = together.iter().map(|survival| survival.tokens_read).sum();
    assert!(read < tokens(longest) + tokens(other) + 40 * rungs.len(), "{read}");
    let read: usize = apart.iter().map(|survival| survival.tokens_read).sum();
    assert!(read < 2 * (tokens(longest) + tokens(other)) + 40 * rungs.len(), "{read}");
    // Counted, not read: the same, and the most that may be written.
    let folder = golden("llama");
    let (counted, memory) = (Arc::default(), Arc::default());
    let model = LoadedModel::counted(&folder, Arc::clone(&counted), &tokenizer, &memory).unwrap();
    let counting = Scorer::new(&folder, Some("{question}"), tokenizer, Arc::new(model), &memory).unwrap();
    let found = check(&counting, &readings);
    for (found, together) in found.iter().zip(&together) {
        assert_eq!((found.tokens_read, found.tokens_written), (together.tokens_read, STATED));
    }
    let sum: usize = found.iter().map(|survival| survival.tokens_read + survival.tokens_written).sum();
    assert_eq!(counted.all.load(std::sync::atomic::Ordering::Relaxed), sum as u64);
    // Without memory for the KV caches, everything is read anew.
    let memory = Arc::new(Memory::default());
    memory.limit(0);
    let forgetful = scorer("llama", &memory);
    let again: Vec<Continued> =
        readings.iter().map(|of| check(&forgetful, std::slice::from_ref(of)).remove(0)).collect();
    assert!(again.iter().zip(&apart).all(|(again, apart)| again.stated == apart.stated));
    assert!(again.iter().map(|survival| survival.tokens_read).sum::<usize>() > read);
}

#[test]
fn the_window_holds_what_may_be_written() {
    let scorer = scorer("qwen2", &Arc::default());
    let why = |words: usize| {
        let text = "7 ".repeat(words);
        let chain = QuestionAndSteps::new("Count.".into(), vec![&text]);
        let reading = Reading::Survival { chain, answer: "7", states: true };
        read(&scorer, &[reading], Wanted::AllTokens).remove(0)
    };
    assert!(matches!(why(1000), Scored::Steps(_)));
    assert!(matches!(why(2040), Scored::TooLong(why) if why.contains("with its prompt and answer")));
}

#[test]
fn a_box_ends_at_its_own_brace() {
    assert_eq!(closing("42}."), Some(2));
    assert_eq!(closing("\\frac{1}{2}} and {"), Some(11));
    assert_eq!(closing("\\{1, 2\\}\\\\}"), Some(10));
    assert_eq!(closing("\\text{a"), None);
}
