//! The decoder of all four families. Long chains run in parts that reuse the KV cache of earlier parts.

use std::ops::Range;
use std::path::Path;

use candle_core::{Device, Tensor};

use crate::Result;
use crate::backend::{Fork, IsWanted, Packed, TOKENS_PER_PASS};
use crate::model::config::ModelConfig;
use crate::model::layer::Run;
use crate::model::pass::{Before, Chunk, KvCache, chunked, pass};
use crate::model::rope::Rope;
use crate::model::weights::Weights;
use crate::ops::{self, Projection, Sequence};

/// A decoder. Projections are `M`: `Tensor` in f32, `Bf16Matrix` or `StoredMatrix`.
#[derive(Debug, Clone)]
pub struct Decoder<M = Tensor> {
    pub config: ModelConfig,
    pub weights: Weights<M>,
    pub(crate) rope: Rope,
    /// Number of hidden states that went through the output layer so far.
    #[cfg(test)]
    pub(crate) output_rows: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl<M: Projection> Decoder<M> {
    pub fn new(config: ModelConfig, weights: Weights<M>) -> Self {
        let rope = Rope::new(&config.rope, config.head_dim);
        Self {
            config,
            weights,
            rope,
            #[cfg(test)]
            output_rows: Default::default(),
        }
    }

    /// Computes the hidden states after the final norm, [rows, hidden]. Calls `each` once per pass with a range and the
    /// rows of that range. The range indexes `asked`, which must ascend, or all tokens if `asked` is None.
    ///
    /// # Errors
    /// If a token is not in the vocabulary, any error of `each`, [`LmError::Abandoned`](crate::LmError::Abandoned) once `is_wanted` returns false.
    pub fn hidden_by_pass(
        &self,
        Packed { ids, lengths }: Packed,
        asked: Option<&[u32]>,
        is_wanted: &IsWanted,
        mut each: impl FnMut(Range<usize>, Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut before: Option<KvCache> = None;
        for Chunk { tokens, chains, of } in chunked(lengths) {
            if chains[0].earlier == 0 {
                before = of.map(|length| self.empty_kv_cache(length));
            }
            let before: &mut [&mut KvCache] = &mut before.iter_mut().collect::<Vec<_>>();
            let (places, rows) = asked_in(asked, &tokens);
            let rows = rows.as_deref();
            each(places, self.pass(&ids[tokens], &chains, Before::Own(before), rows, is_wanted)?)?;
        }
        Ok(())
    }

    pub(crate) fn empty_kv_cache(&self, tokens: usize) -> KvCache {
        let values = tokens * self.config.heads().key_width();
        let room = || [Vec::with_capacity(values), Vec::with_capacity(values)];
        KvCache { tokens: 0, layers: self.weights.layers.iter().map(|_| room()).collect() }
    }

    /// Returns the final hidden states of the tokens in `asked`, which must ascend, and the KV cache of all tokens.
    pub(crate) fn prefill(&self, ids: &[u32], asked: &[u32], is_wanted: &IsWanted) -> Result<(Tensor, KvCache)> {
        let mut before = self.empty_kv_cache(ids.len());
        Ok((self.read_on(ids, asked, &mut before, is_wanted)?, before))
    }

    /// Reads the next tokens of a text, and adds them to its KV cache. Returns the final hidden states of those in
    /// `asked`, which must ascend and count from the first of `ids`. After an error the KV cache is of no use.
    pub(crate) fn read_on(
        &self,
        ids: &[u32],
        asked: &[u32],
        before: &mut KvCache,
        is_wanted: &IsWanted,
    ) -> Result<Tensor> {
        let start = before.tokens;
        let parts = ids.chunks(TOKENS_PER_PASS).map(|part| {
            let chain = Sequence { earlier: before.tokens, tokens: part.len() };
            let own = chain.earlier - start..chain.earlier - start + chain.tokens;
            let (_, rows) = asked_in(Some(asked), &own);
            self.pass(part, &[chain], Before::Own(&mut [&mut *before]), rows.as_deref(), is_wanted)
        });
        Ok(Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)?)
    }

    /// Reads the next tokens of several texts as one batch, and adds them to their KV caches. Returns the final hidden
    /// states of all tokens, [tokens, hidden].
    pub(crate) fn append(&self, ids: &[Vec<u32>], before: &mut [&mut KvCache], is_wanted: &IsWanted) -> Result<Tensor> {
        let texts = before.iter().zip(ids);
        let chains: Vec<Sequence> =
            texts.map(|(before, ids)| Sequence { earlier: before.tokens, tokens: ids.len() }).collect();
        self.pass(&ids.concat(), &chains, Before::Own(before), None, is_wanted)
    }

    /// Returns the final hidden states of the texts' own tokens in `asked`, [rows, hidden]. Texts continue `begun`.
    pub(crate) fn forks(&self, texts: &[Fork], begun: &KvCache, asked: &[u32], is_wanted: &IsWanted) -> Result<Tensor> {
        let chains: Vec<Sequence> =
            texts.iter().map(|text| Sequence { earlier: text.from, tokens: text.ids.len() }).collect();
        let ids: Vec<u32> = texts.iter().flat_map(|text| text.ids.iter().copied()).collect();
        self.pass(&ids, &chains, Before::Shared(begun), Some(asked), is_wanted)
    }

    fn pass(
        &self,
        ids: &[u32],
        chains: &[Sequence],
        before: Before,
        asked: Option<&[u32]>,
        is_wanted: &IsWanted,
    ) -> Result<Tensor> {
        let mut x = Vec::new();
        self.embed(ids, &mut x)?;
        let table = self.rope.table(chains.iter().map(|chain| chain.earlier + chain.tokens).max().unwrap_or(0));
        let mut run = Run::new(&self.config, chains, &table, is_wanted);
        run.attention = M::attention();
        pass(run, &self.weights, &mut x, before, asked)?;
        Ok(Tensor::from_vec(x, ((), self.config.hidden_size), &Device::Cpu)?)
    }

    pub(crate) fn embed(&self, ids: &[u32], x: &mut Vec<f32>) -> Result<()> {
        x.clear();
        x.reserve(ids.len() * self.config.hidden_size);
        let mut widened = Vec::new();
        for id in ids {
            let row = *id as usize..*id as usize + 1;
            ops::read_rows(&self.weights.embed, row, &mut widened, |row| x.extend_from_slice(row))?;
        }
        Ok(())
    }
}

/// The entries of `asked` that are among these tokens, and their rows within them.
fn asked_in(asked: Option<&[u32]>, tokens: &Range<usize>) -> (Range<usize>, Option<Vec<u32>>) {
    let Some(asked) = asked else { return (tokens.clone(), None) };
    let place = |token: usize| asked.partition_point(|row| (*row as usize) < token);
    let places = place(tokens.start)..place(tokens.end);
    let rows = asked[places.clone()].iter().map(|row| row - tokens.start as u32).collect();
    (places, Some(rows))
}

impl Decoder {
    /// Loads a folder in Hugging Face's layout, in f32.
    pub fn load(folder: &Path) -> Result<Self> {
        let config = ModelConfig::load(folder)?;
        let weights = Weights::load(folder, &config)?;
        Ok(Self::new(config, weights))
    }

    /// Returns the hidden states of [`Decoder::hidden_by_pass`] in one tensor.
    pub fn hidden(&self, ids: &[u32], lengths: &[usize]) -> Result<Tensor> {
        let mut passes = Vec::new();
        self.hidden_by_pass(Packed { ids, lengths }, None, &|| true, |_, hidden| {
            passes.push(hidden);
            Ok(())
        })?;
        Ok(Tensor::cat(&passes, 0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden;

    #[test]
    fn rows_that_are_asked_are_what_they_are_among_all() {
        let decoder = Decoder::load(&golden("qwen2")).unwrap();
        // A chain in parts, the first of which has no requested rows, followed by other chains.
        let lengths = [8500, 40, 30];
        let ids: Vec<u32> = (0..8570).map(|i| i * 31 % 380).collect();
        let asked = [8192, 8300, 8301, 8499, 8539, 8540];
        let all = decoder.hidden(&ids, &lengths).unwrap();
        let expected = all.index_select(&Tensor::new(&asked, &Device::Cpu).unwrap(), 0).unwrap();
        let expected = expected.to_vec2::<f32>().unwrap().concat();
        let close = |found: &[f32], expected: &[f32]| {
            assert_eq!(found.len(), expected.len());
            found.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-5, "{a} against {b}"));
        };
        let (mut found, mut places) = (Vec::new(), Vec::new());
        let each = |own: Range<usize>, hidden: Tensor| {
            places.extend(own);
            found.extend(hidden.to_vec2::<f32>()?.concat());
            Ok(())
        };
        let chains = Packed { ids: &ids, lengths: &lengths };
        decoder.hidden_by_pass(chains, Some(&asked), &|| true, each).unwrap();
        assert_eq!(places, [0, 1, 2, 3, 4, 5]);
        close(&found, &expected);
        let (hidden, before) = decoder.prefill(&ids[..8500], &asked[..4], &|| true).unwrap();
        assert_eq!(before.tokens, 8500);
        close(&hidden.to_vec2::<f32>().unwrap().concat(), &expected[..4 * decoder.config.hidden_size]);
    }
}
