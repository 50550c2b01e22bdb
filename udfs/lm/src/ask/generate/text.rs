//! One text while it is generated, and where it ends.

use super::Finish;
use crate::ask::sampling::Sampler;
use crate::model::pass::KvCache;
use crate::{Result, Tokenizer};

/// Tokens that are decoded along with those that may hold a stop string, since the first ones may begin within a
/// character.
const BEFORE_STOP: usize = 8;

#[derive(Debug)]
pub(super) struct Text {
    pub sampler: Sampler,
    pub kv_cache: KvCache,
    pub tokens_in: usize,
    pub opens_thought: bool,
    pub ids: Vec<u32>,
    pub most: usize,
    pub stop: Vec<String>,
    pub finish: Option<Finish>,
}

impl Text {
    pub(crate) fn take(&mut self, logits: &mut [f32], ends: &[u32], tokenizer: &Tokenizer) -> Result<()> {
        let id = self.sampler.next(logits);
        self.ids.push(id);
        if ends.contains(&id) || self.has_stop(tokenizer)? {
            self.finish = Some(Finish::Stop);
        } else if self.ids.len() == self.most {
            self.finish = Some(Finish::Length);
        }
        Ok(())
    }

    /// Returns whether the last token completes a stop string. The whole text is decoded only if its end has one.
    fn has_stop(&self, tokenizer: &Tokenizer) -> Result<bool> {
        let Some(longest) = self.stop.iter().map(String::len).max() else { return Ok(false) };
        // No token is shorter than a byte, except special ones, which are not in the text.
        let last = self.ids.iter().rev().filter(|id| !tokenizer.is_special(**id)).take(longest + BEFORE_STOP);
        let mut last: Vec<u32> = last.copied().collect();
        last.reverse();
        let has = |ids: &[u32]| tokenizer.decode(ids).map(|text| first_stop(&text, &self.stop).is_some());
        Ok(has(&last)? && has(&self.ids)?)
    }

    /// Returns the text without special tokens, cut before its first stop string.
    pub(crate) fn decode(&self, ends: &[u32], tokenizer: &Tokenizer) -> Result<String> {
        let is_ended = self.ids.last().is_some_and(|id| ends.contains(id));
        let mut text = tokenizer.decode(&self.ids[..self.ids.len() - usize::from(is_ended)])?;
        text.truncate(first_stop(&text, &self.stop).unwrap_or(text.len()));
        Ok(text)
    }
}

fn first_stop(text: &str, stop: &[String]) -> Option<usize> {
    stop.iter().filter_map(|stop| text.find(stop)).min()
}
