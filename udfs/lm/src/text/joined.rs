//! The token count of joined steps, while steps are removed one by one.

use std::collections::BTreeSet;

use asap_kernels::steps::{join, select, separator, without_line_breaks};

use crate::Result;
use crate::text::cuts::Cuts;
use crate::text::tokenizer::Tokenizer;

/// Joined steps ([`select`]). The chain is tokenized once. Removing a step only tokenizes the text between the last
/// cut before it and the first cut after it. Counts always equal those of the whole joined text.
///
/// ```text
///   step 0              step 1              step 2
///   Wait| 4 + 5 is| 9.\n\nSo| x is 9 and y|, too.\n\nIt is| 9
///   start  inner    junction  inner           junction …       | is a cut
/// ```
pub struct Joined<'a> {
    tokenizer: &'a Tokenizer,
    steps: &'a [&'a str],
    cuts: Cuts,
    inner: Vec<Option<Inner>>,
    kept: BTreeSet<usize>,
    /// Number of tokens from a step's last cut, or at the end from the chain's start, to the next cut or the chain's end.
    junctions: Vec<usize>,
    tokens: usize,
}

#[derive(Debug, Clone, Copy)]
struct Inner {
    from: usize,
    to: usize,
    tokens: usize,
}

impl<'a> Joined<'a> {
    pub fn new(tokenizer: &'a Tokenizer, steps: &'a [&'a str]) -> Result<Self> {
        let start = steps.len();
        let text = join(steps.iter().copied());
        let chain = tokenizer.chain(&text)?;
        let cuts = tokenizer.cuts(&chain);
        let mut joined = Self {
            tokenizer,
            steps,
            cuts,
            inner: Vec::with_capacity(steps.len()),
            kept: (0..start).collect(),
            junctions: vec![0; start + 1],
            tokens: chain.len(),
        };
        let (mut step_start, mut counted, mut before) = (0, 0, start);
        for (place, step) in steps.iter().enumerate() {
            // The step may become the last one.
            let text = without_line_breaks(step);
            let inner = cuts.first(text).zip(cuts.last(text)).map(|(from, to)| {
                let (first, end) = (chain.tokens_before(step_start + from), chain.tokens_before(step_start + to));
                joined.junctions[before] = first - counted;
                (counted, before) = (end, place);
                Inner { from, to, tokens: end - first }
            });
            joined.inner.push(inner);
            step_start += step.len() + steps.get(place + 1).map_or(0, |next| separator(step, next).len());
        }
        joined.junctions[before] = chain.len() - counted;
        Ok(joined)
    }

    /// The token count of the remaining steps, joined.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The token count of a step, tokenized on its own.
    pub fn tokens_alone(&self, step: usize) -> Result<usize> {
        let text = self.steps[step];
        let Some(inner) = self.inner[step] else { return self.tokenizer.count(text) };
        let (head, tail) = (self.tokenizer.count(&text[..inner.from])?, self.count_after_cut(text, inner.to, "")?);
        Ok(head + inner.tokens + tail)
    }

    /// The indices of the remaining steps, ascending.
    pub fn kept(&self) -> Vec<usize> {
        self.kept.iter().copied().collect()
    }

    /// Removes steps in the given order until at most `max_tokens` tokens remain or the order ends. The tokenizer remembers
    /// the token count of the result.
    pub fn prune(mut self, order: impl IntoIterator<Item = usize>, max_tokens: usize) -> Result<Vec<usize>> {
        for step in order {
            if self.tokens <= max_tokens {
                break;
            }
            self.remove(step)?;
        }
        let kept = self.kept();
        self.tokenizer.remember_length(&select(self.steps, kept.iter().copied()), self.tokens);
        Ok(kept)
    }

    pub fn remove(&mut self, step: usize) -> Result<()> {
        let before = self.junction_before(step);
        self.tokens -= self.junctions[before];
        if let Some(inner) = self.inner[step] {
            self.tokens -= inner.tokens + self.junctions[step];
        }
        self.kept.remove(&step);
        self.junctions[before] = self.count_junction(before)?;
        self.tokens += self.junctions[before];
        Ok(())
    }

    /// The step with the last cut before `step`; the number of steps for the chain's start.
    fn junction_before(&self, step: usize) -> usize {
        let before = self.kept.range(..step).rev().find(|before| self.inner[**before].is_some());
        before.copied().unwrap_or(self.steps.len())
    }

    /// Counts the tokens from a step's last cut, or the chain's start, to the next cut or the chain's end.
    fn count_junction(&self, before: usize) -> Result<usize> {
        let (first, mut last) = if before < self.steps.len() { (before + 1, Some(before)) } else { (0, None) };
        let mut text = String::new();
        for step in self.kept.range(first..) {
            text.push_str(last.map_or("", |last| separator(self.steps[last], self.steps[*step])));
            last = Some(*step);
            if let Some(inner) = self.inner[*step] {
                text.push_str(&self.steps[*step][..inner.from]);
                break;
            }
            text.push_str(self.text_of(*step));
        }
        match self.inner.get(before).copied().flatten() {
            Some(inner) => self.count_after_cut(self.text_of(before), inner.to, &text),
            None => self.tokenizer.count(&text),
        }
    }

    /// A remaining step as it stands in the chain: the last one has no line breaks at its end, unless it was the last before.
    fn text_of(&self, step: usize) -> &'a str {
        let is_last = step + 1 < self.steps.len() && self.kept.last() == Some(&step);
        if is_last { without_line_breaks(self.steps[step]) } else { self.steps[step] }
    }

    fn count_after_cut(&self, step: &str, cut: usize, text: &str) -> Result<usize> {
        let context = self.cuts.context(step, cut);
        let tokens = self.tokenizer.count(&[context, &step[cut..], text].concat())?;
        Ok(tokens - context.bytes().map(|letter| self.tokenizer.count_of_letter(letter)).sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;

    use super::*;
    use crate::testing::{all, golden_tokenizer as golden, gpt2, nasty_steps, sentence_piece, tokenizer};

    fn naive(tokenizer: &Tokenizer, steps: &[&str], kept: &[usize]) -> usize {
        tokenizer.count(&select(steps, kept.iter().copied())).unwrap()
    }

    #[test]
    fn tokenizers_are_known_by_how_they_split() {
        for (tokenizer, cuts) in all() {
            assert_eq!(tokenizer.cuts(&tokenizer.chain("a b").unwrap()), cuts);
        }
        let qwen2 = tokenizer(&golden("qwen2"));
        assert_eq!(qwen2.cuts(&qwen2.chain("a<|im_end|>").unwrap()), Cuts::Unknown);
        // A token that crosses the cuts of its kind: merges may run over them.
        let mut crossing = sentence_piece();
        crossing["model"]["vocab"]["a▁"] = json!(10_000);
        crossing["model"]["merges"].as_array_mut().unwrap().insert(0, json!("a ▁"));
        let crossing = tokenizer(&crossing);
        assert_eq!(crossing.cuts(&crossing.chain("a b").unwrap()), Cuts::Unknown);
        let mut random = golden("llama");
        random["model"]["dropout"] = json!(0.5);
        assert_eq!(Cuts::of(&random, []), Cuts::Unknown);
        let mut prefixed = gpt2();
        prefixed["pre_tokenizer"]["add_prefix_space"] = json!(true);
        assert_eq!(Cuts::of(&prefixed, []), Cuts::Unknown);
    }

    #[test]
    fn a_long_chain_is_tokenised_once() {
        let steps: Vec<String> = (0..1_733).map(|n| format!("Step {n}: then {n} + 1 is {}, right?", n + 1)).collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let tokenizer = tokenizer(&golden("qwen2"));
        let joined = Joined::new(&tokenizer, &steps).unwrap();
        let whole = joined.tokens();
        let counted_before = tokenizer.tokenized_bytes();
        let kept = joined.prune((0..steps.len()).rev(), whole / 4).unwrap();
        assert!(naive(&tokenizer, &steps, &kept) <= whole / 4);
        let counted = tokenizer.tokenized_bytes() - counted_before;
        assert!(counted < 40 * steps.len(), "{counted} bytes were tokenized again");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn every_length_is_that_of_the_whole_text(steps in nasty_steps(), seed: u64) {
            thread_local!(static ALL: [(Tokenizer, Cuts); 6] = all());
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            ALL.with(|all| for (tokenizer, cuts) in all {
                let mut joined = Joined::new(tokenizer, &steps).unwrap();
                let mut kept: Vec<usize> = (0..steps.len()).collect();
                for step in &kept {
                    assert_eq!(joined.tokens_alone(*step).unwrap(), tokenizer.count(steps[*step]).unwrap());
                }
                assert_eq!(joined.tokens(), naive(tokenizer, &steps, &kept));
                let mut order = kept.clone();
                order.shuffle(&mut StdRng::seed_from_u64(seed));
                for step in order {
                    joined.remove(step).unwrap();
                    kept.retain(|other| *other != step);
                    assert_eq!(joined.kept(), kept);
                    assert_eq!(joined.tokens(), naive(tokenizer, &steps, &kept), "{cuts:?} {steps:?} {kept:?}");
                }
            });
        }
    }
}
