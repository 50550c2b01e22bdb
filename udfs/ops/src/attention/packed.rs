//! Attention with keys and values in bf16, packed once for all queries.

use super::{Block, Heads, PACKED_KEYS, Sequence, Softmax, head_of, parts};
use crate::bf16::{by_panel, nearest, padded_pairs, round_rows, unit};
use crate::lines::{Line, PANEL};
use crate::{Arithmetic, Cores, Matrix, Result, Update, amx, dots, on_all_cores};
use asap_kernels::vectorized;

/// The distance between rows of weights.
const PAIRS: usize = PACKED_KEYS / 2;
/// Lines per pair of inputs.
const LINES: usize = PANEL / 16;

/// Numbers in bf16: packed keys and values, and rows of queries and of weights.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) lines: Vec<Line>,
    queries: Vec<u32>,
    weights: Vec<u32>,
}

/// Parts in the order of chains, keys and heads. The keys of a part are a weight with an output for each of them, its
/// values a weight with an input for each.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a> {
    lines: &'a [Line],
    heads: Heads,
    arithmetic: Arithmetic,
}

impl<'a> Packed<'a> {
    pub(super) fn new(
        kv: [&[f32]; 2],
        (heads, arithmetic): (Heads, Arithmetic),
        chains: &[Sequence],
        cores: Cores,
        lines: &'a mut Vec<Line>,
    ) -> Result<Self> {
        let of_part = lines_of_keys(heads) + lines_of_values(heads);
        let count = chains.iter().map(|chain| parts(*chain)).sum::<usize>() * heads.key;
        lines.resize(count * of_part, Line::default());
        let mut rest = lines.chunks_exact_mut(of_part);
        let (mut tasks, mut from) = (Vec::with_capacity(count), 0);
        for chain in chains {
            let tokens = chain.earlier + chain.tokens;
            for first in (0..parts(*chain)).map(|part| part * PACKED_KEYS) {
                let (from, count) = (from + first, PACKED_KEYS.min(tokens - first));
                let own = |head| kv.map(|x| head_of(x, from, count, (head, heads.key, heads.width)));
                tasks.extend((0..heads.key).map(own).zip(&mut rest));
            }
            from += tokens;
        }
        let pack = |([k, v], to): ([Matrix; 2], &mut [Line])| -> Result<()> {
            let (keys, values) = to.split_at_mut(lines_of_keys(heads));
            vectorized!({
                pack_keys(k, keys);
                pack_values(v, values);
            });
            Ok(())
        };
        match cores {
            Cores::One => tasks.into_iter().try_for_each(pack),
            Cores::All => on_all_cores(tasks, pack).map(drop),
        }?;
        Ok(Self { lines, heads, arithmetic })
    }

    fn part(self, part: usize, key_head: usize) -> (&'a [Line], &'a [Line]) {
        let (keys, values) = (lines_of_keys(self.heads), lines_of_values(self.heads));
        let lines = &self.lines[(part * self.heads.key + key_head) * (keys + values)..];
        (&lines[..keys], &lines[keys..][..values])
    }
}

impl Softmax {
    /// Gathers the values of one key head for the rows of a block, whose chain begins at part `first`.
    pub(super) fn gather_packed(&mut self, packed: Packed, (first, key_head): (usize, usize), block: &Block) {
        let Heads { query, key, width } = packed.heads;
        let (rows, pairs) = (self.max.len(), padded_pairs(width));
        let scale = (width as f32).sqrt().recip();
        vectorized!(self.queries.iter_mut().for_each(|x| *x *= scale));
        round_rows(&self.queries, width, &mut self.pairs.queries);
        self.scores.resize(rows * PACKED_KEYS, 0.0);
        self.pairs.weights.resize(rows.next_multiple_of(amx::BLOCK) * PAIRS, 0);
        let unit = unit(packed.arithmetic);
        for (part, from) in (0..block.end).step_by(PACKED_KEYS).enumerate() {
            let count = PACKED_KEYS.min(block.end - from);
            let (keys, values) = packed.part(first + part, key_head);
            for (panel, keys) in keys.chunks_exact(pairs * LINES).take(count.div_ceil(PANEL)).enumerate() {
                let (queries, scores) = ((&*self.pairs.queries, pairs), (&mut *self.scores, PACKED_KEYS));
                by_panel(unit.as_ref(), queries, keys, scores, panel * PANEL, Update::Replace);
            }
            // Keys after `count` weigh nothing: the unit takes whole groups of pairs.
            let own_pairs = padded_pairs(count);
            let mut weights = std::mem::take(&mut self.pairs.weights);
            self.weigh(
                PACKED_KEYS,
                |row| block.seen(row / (query / key), from, count),
                |row, scores| dots::round(&scores[..2 * own_pairs], &mut weights[row * PAIRS..][..own_pairs]),
            );
            self.pairs.weights = weights;
            for (panel, values) in values.chunks_exact(PAIRS * LINES).enumerate() {
                let (values, gathered) = (&values[..own_pairs * LINES], (&mut *self.gathered, width));
                by_panel(unit.as_ref(), (&self.pairs.weights, PAIRS), values, gathered, panel * PANEL, Update::Add);
            }
        }
    }
}

fn lines_of_keys(heads: Heads) -> usize {
    PACKED_KEYS / PANEL * padded_pairs(heads.width) * LINES
}

fn lines_of_values(heads: Heads) -> usize {
    heads.width.div_ceil(PANEL) * PAIRS * LINES
}

/// Packs keys in panels of outputs. The lines of missing keys keep arbitrary numbers: nothing reads their scores.
#[inline(always)]
fn pack_keys(keys: Matrix, lines: &mut [Line]) {
    let pairs = padded_pairs(keys.columns);
    for key in 0..keys.rows {
        let row = &keys.values[key * keys.row_stride..][..keys.columns];
        let panel = &mut lines[key / PANEL * pairs * LINES..][..pairs * LINES];
        let to = panel[key % PANEL / 16..].iter_mut().step_by(LINES).map(|line| &mut line.0[key % 16]);
        let numbers = row.chunks(2).map(|pair| joined(pair[0], pair.get(1).copied().unwrap_or(0.0)));
        to.zip(numbers.chain(std::iter::repeat(0))).for_each(|(to, pair)| *to = pair);
    }
}

/// Packs values in panels of outputs; missing keys have zeros.
#[inline(always)]
fn pack_values(values: Matrix, lines: &mut [Line]) {
    let zeros = [0.0; PANEL];
    for (panel, lines) in lines.chunks_exact_mut(PAIRS * LINES).enumerate() {
        let own = (panel * PANEL)..values.columns.min((panel + 1) * PANEL);
        let row = |key: usize| match key < values.rows {
            true => &values.values[key * values.row_stride..][own.clone()],
            false => &zeros[..own.len()],
        };
        for (pair, lines) in lines.chunks_exact_mut(LINES).enumerate() {
            let numbers = row(2 * pair).iter().zip(row(2 * pair + 1)).map(|(a, b)| joined(*a, *b));
            let to = lines.iter_mut().flat_map(|line| &mut line.0);
            to.zip(numbers.chain(std::iter::repeat(0))).for_each(|(to, pair)| *to = pair);
        }
    }
}

#[inline(always)]
fn joined(first: f32, second: f32) -> u32 {
    nearest(first) | nearest(second) << 16
}
