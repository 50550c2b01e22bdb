//! A chain as the model reads it, with the tokens that score each step.

use std::ops::Range;

use crate::ask::check::{ANSWER_PROMPT, in_common};
use crate::backend::{Continuation, Continued, Fork, QuestionKey, Target, TokenScore};
use crate::example::Example;
use crate::text::conversation::Turn;
use crate::{Asked, PromptTemplate, Result, Tokenizer};
use asap_kernels::steps::{join, separator};
use asap_kernels::tags::{BEFORE_ANSWER, continuation};

const CLOSING: &str = "\n</think>\n";

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuestionAndSteps<'a> {
    pub question: Asked<'a>,
    /// The steps; the model reads them joined by blank lines.
    pub steps: Vec<&'a str>,
    /// Of a conversation with several exchanges or tools: its turns, whose thoughts have the steps. The model reads these
    /// instead of the question.
    pub turns: Vec<Turn<'a>>,
}

impl<'a> QuestionAndSteps<'a> {
    /// The steps of one exchange.
    pub fn new(question: Asked<'a>, steps: Vec<&'a str>) -> Self {
        Self { question, steps, turns: vec![] }
    }

    /// Renders what precedes the last step, and drops it.
    ///
    /// # Errors
    /// [`LmError::Prompt`](crate::LmError::Prompt) if the prompt cannot be rendered.
    pub fn try_prompt(&self, prompt: &PromptTemplate) -> Result<()> {
        match self.turns.is_empty() {
            true => prompt.render(self.question).map(drop),
            false => prompt.render_conversation(&self.turns, &self.steps).map(drop),
        }
    }

    /// The same with only some of the steps, by their ascending indices.
    pub fn with_steps(&self, kept: &[usize]) -> Self {
        let mut turns = self.turns.clone();
        let mut end = 0;
        for turn in &mut turns {
            let own = end..end + turn.steps;
            end = own.end;
            turn.steps = kept.iter().filter(|step| own.contains(step)).count();
        }
        Self { question: self.question, steps: kept.iter().map(|step| self.steps[*step]).collect(), turns }
    }

    /// The text before the answer: up to the last text of a conversation, or to the end of the thought. `asked` is the rendered
    /// question; None if it is not rendered yet.
    fn before_answer(
        &self,
        prompt: &PromptTemplate,
        asked: &mut Option<String>,
        closing: impl FnOnce(&str) -> String,
    ) -> Result<String> {
        if self.turns.is_empty() {
            let asked = match asked {
                Some(asked) => asked,
                None => asked.insert(prompt.render(self.question)?),
            };
            return Ok([asked.as_str(), &closing(&join(self.steps.iter().copied()))].concat());
        }
        let mut rendered = prompt.render_conversation(&self.turns, &self.steps)?;
        rendered.text.truncate(rendered.answer);
        Ok(rendered.text)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RowTokens {
    pub ids: Vec<u32>,
    pub steps: Vec<StepTokens>,
    /// Texts that end in an answer; all except the first continue from a prefix of the first.
    pub answers: Vec<Fork>,
    pub check: Option<Continuation>,
}

impl Fork {
    /// A text of tokens `ids` whose first `common` tokens are shared; `scored` are the tokens to score.
    fn new(mut ids: Vec<u32>, common: usize, scored: Range<usize>) -> Self {
        // The token that predicts the first own scored token must be an own token too.
        let from = common.min(common.max(scored.start) - 1);
        let scored_there = (from + 1).saturating_sub(scored.start);
        let own = scored.start.max(from + 1) - from..scored.end - from;
        Self { from, ids: ids.split_off(from), scored_there, scored: own }
    }

    /// Targets for its own tokens to score. `start` is the position of its first own token.
    pub fn targets(&self, start: usize) -> Vec<Target> {
        let target = |token: usize| Target { row: (start + token - 1) as u32, id: self.ids[token] };
        self.scored.clone().map(target).collect()
    }
}

/// A step's tokens: from the one that covers its first character to the last that begins before its end, if any.
pub(crate) type StepTokens = Option<Range<u32>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wanted {
    /// Surprisal and entropy of each step's first token.
    FirstTokens,
    /// Also perplexity and entropy of each step, which need every token of every step.
    AllTokens,
    /// Also the scores of every token.
    EachToken,
}

/// The scores of a row per step; None if no token precedes the step's first token.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scores {
    pub first: Vec<Option<TokenScore>>,
    /// exp of the mean surprisal of each step's tokens; empty unless all tokens were requested.
    pub perplexity: Vec<Option<f32>>,
    /// Sum of the entropies of the predictions of each step's tokens, in nats; empty unless all tokens were requested.
    pub entropy: Vec<Option<f32>>,
    /// The same as a mean over the step's tokens.
    pub mean_entropy: Vec<Option<f32>>,
    /// The scores of each step's tokens; empty unless each token was requested.
    pub tokens: Vec<Option<Vec<TokenScore>>>,
    /// Mean −ln P, in nats, of the scored tokens of each text that ends in an answer.
    pub answers: Vec<f64>,
    /// Whether the answer survives; only if that was checked.
    pub survival: Option<Continued>,
}

impl Scores {
    pub fn is_finite(&self) -> bool {
        self.first.iter().flatten().all(|score| score.surprisal.is_finite() && score.entropy.is_finite())
            && self.perplexity.iter().chain(&self.entropy).flatten().all(|score| !score.is_nan())
            && self.answers.iter().all(|nats| nats.is_finite())
            && self.survival.iter().all(|survival| survival.log_probability.is_finite())
    }
}

impl RowTokens {
    /// Tokenizes the prompt of a question and the steps, joined, as one text.
    pub(crate) fn encode(tokenizer: &Tokenizer, prompt: &PromptTemplate, chain: &QuestionAndSteps) -> Result<Self> {
        let QuestionAndSteps { question, steps, turns } = chain;
        if !turns.is_empty() {
            let rendered = prompt.render_conversation(turns, steps)?;
            let end = rendered.steps.last().map_or(rendered.text.len(), |last| last.end);
            let spans: Vec<(u32, u32)> = rendered.steps.iter().map(|own| (own.start as u32, own.end as u32)).collect();
            let encoded = tokenizer.encode(&rendered.text[..end], prompt.adds_special())?;
            return Ok(Self { steps: locate(&encoded.offsets, &spans), ids: encoded.ids, ..Self::default() });
        }
        let prompt_text = prompt.render(*question)?;
        let mut start = prompt_text.len();
        let span = |(place, step): (usize, &&str)| {
            let span = (start as u32, (start + step.len()) as u32);
            start += step.len() + steps.get(place + 1).map_or(0, |next| separator(step, next).len());
            span
        };
        let spans: Vec<(u32, u32)> = steps.iter().enumerate().map(span).collect();
        let chain = join(steps.iter().copied());
        let encoded = tokenizer.encode_with_prompt(&prompt_text, &chain, prompt.adds_special())?;
        Ok(Self { steps: locate(&encoded.offsets, &spans), ids: encoded.ids, ..Self::default() })
    }

    /// The first token of each step; None if no token precedes it, or if the step has no token.
    pub(crate) fn first_tokens(&self) -> impl Iterator<Item = Option<u32>> {
        let first = |own: &StepTokens| own.as_ref().filter(|own| own.start > 0).map(|own| self.ids[own.start as usize]);
        self.steps.iter().map(first)
    }

    /// Tokenizes each chain of a question with its prompt, the closing tag and the answer as one text, whose answer is to be
    /// scored. Tokens that a text shares with the first one are read once.
    pub(crate) fn with_answer<'a>(
        tokenizer: &Tokenizer,
        prompt: &PromptTemplate,
        chains: impl Iterator<Item = QuestionAndSteps<'a>>,
        answer: &str,
    ) -> Result<Self> {
        let (mut answers, mut asked): (Vec<Fork>, _) = (Vec::new(), None);
        for chain in chains {
            let before = chain.before_answer(prompt, &mut asked, |chain| [chain, CLOSING].concat())?;
            let encoded = tokenizer.encode(&[&before, answer].concat(), prompt.adds_special())?;
            let span = (before.len() as u32, (before.len() + answer.len()) as u32);
            let scored = locate(&encoded.offsets, &[span]).remove(0).unwrap_or(0..0);
            let scored = scored.start.max(1) as usize..scored.end.max(1) as usize;
            let common = answers.first().map_or(0, |whole| in_common(&whole.ids, &encoded.ids));
            answers.push(Fork::new(encoded.ids, common, scored));
        }
        Ok(Self { answers, ..Self::default() })
    }

    /// Tokenizes the prompt of a chain's question, the steps, the end of the thought and the answer as one text. If the
    /// model `states` an answer too, [`ANSWER_PROMPT`] precedes both.
    pub(crate) fn checked(
        tokenizer: &Tokenizer,
        prompt: &PromptTemplate,
        chain: &QuestionAndSteps,
        answer: &str,
        states: bool,
        question: QuestionKey,
    ) -> Result<Self> {
        let answer_prompt = if states { ANSWER_PROMPT } else { "" };
        let before =
            chain.before_answer(prompt, &mut None, |chain| continuation(chain, BEFORE_ANSWER, ""))? + answer_prompt;
        let whole = tokenizer.encode(&[&before, answer].concat(), prompt.adds_special())?;
        let span = (before.len() as u32, (before.len() + answer.len()) as u32);
        let scored = locate(&whole.offsets, &[span]).remove(0).unwrap_or(0..0);
        let scored = scored.start.max(1) as usize..scored.end.max(1) as usize;
        let before = tokenizer.encode(&before, prompt.adds_special())?.ids;
        Ok(Self { check: Some(Continuation::new(question, before, &whole.ids, scored, states)), ..Self::default() })
    }

    /// An example, with its learned pieces as steps.
    pub(crate) fn of_example(Example { ids, learned }: &Example) -> Self {
        let step = |own: &Range<usize>| (!own.is_empty()).then_some(own.start as u32..own.end as u32);
        Self { ids: ids.clone(), steps: learned.iter().map(step).collect(), ..Self::default() }
    }

    pub(crate) fn alone(tokenizer: &Tokenizer, start: u32, step: &str) -> Result<Self> {
        let mut ids = vec![start];
        ids.extend(tokenizer.encode(step, false)?.ids);
        let own = (ids.len() > 1).then_some(1..ids.len() as u32);
        Ok(Self { ids, steps: vec![own], ..Self::default() })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.steps.as_slice()) + self.tokens() * size_of::<u32>() + self.answers.len() * size_of::<Fork>()
    }

    pub(crate) fn tokens(&self) -> usize {
        let checked = self.check.as_ref().map_or(0, Continuation::tokens);
        self.ids.len() + self.answers.iter().map(|text| text.ids.len()).sum::<usize>() + checked
    }

    pub(crate) fn longest(&self) -> usize {
        let checked = self.check.as_ref().map_or(self.ids.len(), Continuation::longest);
        self.answers.iter().map(|text| text.from + text.ids.len()).max().unwrap_or(checked)
    }

    /// Computes the scores of texts from the token scores of [`Fork::targets`], text by text.
    pub(crate) fn answer_scores(&self, tokens: &[TokenScore]) -> Scores {
        let mut rest = tokens;
        let mut of_first = vec![];
        let mean = |text: &Fork| {
            let own = rest.split_off(..text.scored.len()).unwrap_or_default();
            let own = own.iter().map(|token| f64::from(token.surprisal));
            if of_first.is_empty() {
                of_first = own.clone().collect();
            }
            let sum = of_first[..text.scored_there].iter().sum::<f64>() + own.sum::<f64>();
            sum / (text.scored_there + text.scored.len()) as f64
        };
        let answers = self.answers.iter().map(mean).collect();
        Scores { answers, ..Scores::default() }
    }

    /// Targets for the tokens to score. `start` is the position of the row's first token.
    pub(crate) fn targets(&self, wanted: Wanted, start: usize) -> Vec<Target> {
        let target = |token: u32| Target { row: start as u32 + token - 1, id: self.ids[token as usize] };
        let scored = |own: &Range<u32>| match wanted {
            Wanted::FirstTokens => own.start.max(1)..own.start + 1,
            Wanted::AllTokens | Wanted::EachToken => own.start.max(1)..own.end,
        };
        self.steps.iter().flatten().flat_map(scored).map(target).collect()
    }

    /// Computes the scores of steps from the token scores of [`RowTokens::targets`].
    pub(crate) fn scores(&self, wanted: Wanted, tokens: &[TokenScore]) -> Scores {
        let mut tokens = tokens.iter().copied();
        let mut scores = Scores { first: Vec::with_capacity(self.steps.len()), ..Scores::default() };
        for own in &self.steps {
            let own = own.clone().unwrap_or(0..0);
            let first_score = if own.start > 0 { tokens.next() } else { None };
            scores.first.push(first_score);
            if wanted >= Wanted::AllTokens {
                let others = tokens.by_ref().take(own.len().saturating_sub(1));
                let each: Vec<TokenScore> = first_score.into_iter().chain(others).collect();
                let surprisal = each.iter().map(|token| f64::from(token.surprisal)).sum::<f64>() / own.len() as f64;
                let entropy = each.iter().map(|token| f64::from(token.entropy)).sum::<f64>();
                scores.perplexity.push(first_score.map(|_| surprisal.exp() as f32));
                scores.entropy.push(first_score.map(|_| entropy as f32));
                scores.mean_entropy.push(first_score.map(|_| (entropy / own.len() as f64) as f32));
                if wanted == Wanted::EachToken {
                    scores.tokens.push(first_score.map(|_| each));
                }
            }
        }
        scores
    }
}

/// The tokens of each byte span; spans ascend. Tokens without bytes (a BOS) cover nothing.
fn locate(offsets: &[(u32, u32)], spans: &[(u32, u32)]) -> Vec<StepTokens> {
    let is_empty = |token: usize| offsets[token].0 == offsets[token].1;
    let mut first = 0;
    let locate_one = |(from, to): &(u32, u32)| {
        while first < offsets.len() && (is_empty(first) || offsets[first].1 <= *from) {
            first += 1;
        }
        let begins_before_end = |token: &usize| offsets[*token].0 < *to;
        let own = (first..offsets.len()).filter(|token| !is_empty(*token)).take_while(begins_before_end);
        let last = own.last().filter(|_| from < to)?;
        Some(first as u32..last as u32 + 1)
    };
    spans.iter().map(locate_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(surprisal: f32) -> TokenScore {
        TokenScore { surprisal, entropy: 0.0, rank: 1 }
    }

    #[test]
    fn tokens_belong_to_the_step_whose_text_they_cover() {
        // <s> | "ab\n\n" as one token | "é" in two pieces | "c" | </s>, for the steps "ab" and "éc".
        let offsets = [(0, 0), (0, 4), (4, 6), (4, 6), (6, 7), (0, 0)];
        assert_eq!(locate(&offsets, &[(0, 2), (4, 7)]), [Some(1..2), Some(2..5)]);
        // A token that spans prompt and step is the step's first token.
        assert_eq!(locate(&[(0, 3), (3, 5)], &[(2, 5)]), [Some(0..2)]);
        // An empty step, or one whose characters the tokenizer drops, has no tokens.
        assert_eq!(locate(&[(0, 1), (1, 5), (9, 10)], &[(3, 3), (5, 7), (9, 10)]), [None, None, Some(2..3)]);
    }

    #[test]
    fn the_first_token_of_all_has_no_score() {
        let row =
            RowTokens { ids: vec![7, 8, 9, 10, 11], steps: vec![Some(0..2), None, Some(3..5)], ..RowTokens::default() };
        let target = |row, id| Target { row, id };
        assert_eq!(row.targets(Wanted::FirstTokens, 100), [target(102, 10)]);
        assert_eq!(row.targets(Wanted::AllTokens, 0), [target(0, 8), target(2, 10), target(3, 11)]);

        let scores = row.scores(Wanted::FirstTokens, &[score(2.0)]);
        let first = vec![None, None, Some(score(2.0))];
        assert_eq!(scores, Scores { first, ..Scores::default() });
        let scores = row.scores(Wanted::AllTokens, &[score(9.0), score(2.0), score(3.0)]);
        assert_eq!(scores.first, [None, None, Some(score(2.0))]);
        assert_eq!(scores.perplexity, [None, None, Some(2.5_f32.exp())]);
        assert!(scores.tokens.is_empty());
        let scores = row.scores(Wanted::EachToken, &[score(9.0), score(2.0), score(3.0)]);
        assert_eq!(scores.tokens, [None, None, Some(vec![score(2.0), score(3.0)])]);
        assert_eq!(row.first_tokens().collect::<Vec<_>>(), [None, None, Some(10)]);
    }
}
