//! Backward pass of one layer: rows in blocks per core, gradients of weights in one product over all tokens.
//!
//! ```text
//! all cores: attention ◀── block: gate, up ─ norm ─ attention output ◀── block: down
//!     └──▶ block: rotate ─ q, k, v ─ norm                                  all cores: by each weight
//! ```

use std::ops::Range;

use candle_core::Tensor;

use super::gradient::LayerGradient;
use super::keep::{Attended, Mlp, room};
use crate::Result;
use crate::model::layer::Run;
use crate::model::weights::LayerWeights;
use crate::ops::gradients::{add, add_parts, rms_norm, sum_rows, swiglu};
use crate::ops::{self, BackwardScratch, Cores, Direction, Linear, Matrix, Pool, Update, multiply, read};

#[derive(Debug, Default)]
pub(super) struct Room {
    activated: Vec<f32>,
    normed: Vec<f32>,
    by_gathered: Vec<f32>,
    attention: Pool<BackwardScratch>,
    rows: Pool<Vec<f32>>,
}

/// Turns the gradient of a layer's output, [tokens, hidden], into that of its input, and adds the gradients of its
/// weights to `sum`. Overwrites the layer's activations.
pub(super) fn layer(
    run: &Run,
    weights: &LayerWeights,
    (input, attended, mlp): (&[f32], &mut Attended, &mut Mlp),
    gradient: &mut [f32],
    sum: &mut LayerGradient,
    room: &mut Room,
) -> Result<()> {
    through_mlp(run, weights, mlp, gradient, sum, room)?;
    through_attention(run, weights, (input, attended), gradient, sum, room)
}

/// Turns the gradient of the output of the MLP half into that of its input.
fn through_mlp(
    run: &Run,
    weights: &LayerWeights,
    [half, gate, up]: &mut Mlp,
    gradient: &mut [f32],
    sum: &mut LayerGradient,
    Room { activated, normed, rows, .. }: &mut Room,
) -> Result<()> {
    let (hidden, wide) = (run.config.hidden_size, run.config.intermediate_size);
    let epsilon = run.config.rms_norm_eps;
    room(activated, gate.len());
    room(normed, half.len());
    read([&weights.post_norm, &weights.gate, &weights.up, &weights.down], |[norm, w_gate, w_up, w_down]| {
        ops::on_blocks(run.block, [(activated, wide), (normed, hidden)], |tokens, [activated, normed]| -> Result<_> {
            let own = tokens.start * wide..tokens.end * wide;
            ops::swiglu_to(&gate[own.clone()], &up[own], activated);
            ops::rms_norm_to(run.hidden_of(half, &tokens), norm, epsilon, normed);
            Ok(())
        })?;
        by_weight(gradient, activated, hidden, sum.down);
        let arrays = [(gradient, hidden), (activated, wide), (gate, wide), (up, wide)];
        let by_norms = ops::on_blocks(run.block, arrays, |tokens, [gradient, by_activated, gate, up]| -> Result<_> {
            rows.with(|by_normed| {
                let by_normed = ops::at_least(by_normed, gradient.len());
                through(tokens.len(), gradient, w_down, by_activated, Update::Replace, run.cores);
                swiglu(by_activated, gate, up);
                through(tokens.len(), gate, w_gate, by_normed, Update::Replace, run.cores);
                through(tokens.len(), up, w_up, by_normed, Update::Add, run.cores);
                let by_norm = rms_norm(by_normed, run.hidden_of(half, &tokens), norm, epsilon);
                add(gradient, by_normed);
                Ok(by_norm)
            })
        })?;
        by_norms.iter().for_each(|parts| add_parts(sum.post_norm, parts));
        by_weight(gate, normed, wide, sum.gate);
        by_weight(up, normed, wide, sum.up);
        Ok(())
    })?
}

/// Turns the gradient of the output of the attention half into that of the layer's input.
fn through_attention(
    run: &Run,
    weights: &LayerWeights,
    (input, attended): (&[f32], &mut Attended),
    gradient: &mut [f32],
    sum: &mut LayerGradient,
    Room { normed, by_gathered, attention: scratch, rows, .. }: &mut Room,
) -> Result<()> {
    let (hidden, heads) = (run.config.hidden_size, run.config.heads());
    room(by_gathered, attended.gathered.len());
    let arrays = [(&mut **by_gathered, heads.query_width()), (&mut **normed, hidden)];
    read([&weights.o.weight, &weights.input_norm], |[w_o, norm]| {
        ops::on_blocks(run.block, arrays, |tokens, [by_gathered, normed]| -> Result<_> {
            through(tokens.len(), run.hidden_of(gradient, &tokens), w_o, by_gathered, Update::Replace, run.cores);
            ops::rms_norm_to(run.hidden_of(input, &tokens), norm, run.config.rms_norm_eps, normed);
            Ok(())
        })
    })??;
    by_linear(gradient, &attended.gathered, hidden, &mut sum.o);
    let Attended { q, k, v, gathered, log_sums } = attended;
    ops::attend_backward([q, k, v], [gathered, by_gathered, log_sums], heads, run.chains, scratch);
    through_projections(run, weights, (input, normed), [q, k, v], gradient, sum, rows)
}

/// Turns the gradients of queries, keys and values into that of the layer's input, and adds it to `gradient`.
fn through_projections(
    run: &Run,
    weights: &LayerWeights,
    (input, normed): (&[f32], &[f32]),
    [q, k, v]: [&mut [f32]; 3],
    gradient: &mut [f32],
    sum: &mut LayerGradient,
    rows: &Pool<Vec<f32>>,
) -> Result<()> {
    let (queries, keys) = (run.config.heads().query_width(), run.config.heads().key_width());
    let arrays = [(gradient, run.config.hidden_size), (&mut *q, queries), (&mut *k, keys), (&mut *v, keys)];
    let parts = ops::on_blocks(run.block, arrays, |tokens, [gradient, q, k, v]| -> Result<_> {
        let own = run.hidden_of(normed, &tokens);
        let by_q_norm = through_heads(run, &tokens, (q, queries), own, (&weights.q, &weights.q_norm))?;
        let by_k_norm = through_heads(run, &tokens, (k, keys), own, (&weights.k, &weights.k_norm))?;
        let projections = [&weights.q.weight, &weights.k.weight, &weights.v.weight, &weights.input_norm];
        rows.with(|by_normed| {
            let by_normed = ops::at_least(by_normed, gradient.len());
            let by_norm = read(projections, |[w_q, w_k, w_v, norm]| {
                through(tokens.len(), q, w_q, by_normed, Update::Replace, run.cores);
                through(tokens.len(), k, w_k, by_normed, Update::Add, run.cores);
                through(tokens.len(), v, w_v, by_normed, Update::Add, run.cores);
                rms_norm(by_normed, run.hidden_of(input, &tokens), norm, run.config.rms_norm_eps)
            })?;
            add(gradient, by_normed);
            Ok((by_norm, [by_q_norm, by_k_norm]))
        })
    })?;
    for (by_norm, [by_q_norm, by_k_norm]) in &parts {
        add_parts(sum.input_norm, by_norm);
        for (sum, part) in [(&mut sum.q_norm, by_q_norm), (&mut sum.k_norm, by_k_norm)] {
            if let Some(sum) = sum {
                add_parts(sum, part);
            }
        }
    }
    for (by, width, sum) in [(q, queries, &mut sum.q), (k, keys, &mut sum.k), (v, keys, &mut sum.v)] {
        by_linear(by, normed, width, sum);
    }
    Ok(())
}

/// Turns the gradient of rotated queries or keys into that of their projection. Returns the partial sums of the
/// gradient of the weight of their norm, if they have one.
fn through_heads(
    run: &Run,
    tokens: &Range<usize>,
    (by, width): (&mut [f32], usize),
    normed: &[f32],
    (linear, norm): (&Linear, &Option<Tensor>),
) -> Result<Vec<f32>> {
    run.rotate(by, width, tokens, Direction::Backward);
    let Some(norm) = norm else { return Ok(vec![]) };
    let mut projected = vec![0.0; by.len()];
    linear.multiply(normed, &mut projected, Update::Replace, run.cores)?;
    Ok(read([norm], |[norm]| rms_norm(by, &projected, norm, run.config.rms_norm_eps))?)
}

/// Adds the gradients of a projection's weight and bias over all tokens.
fn by_linear(gradient: &[f32], x: &[f32], outputs: usize, sum: &mut Linear<&mut [f32], &mut [f32]>) {
    by_weight(gradient, x, outputs, sum.weight);
    if let Some(bias) = &mut sum.bias {
        sum_rows(gradient, bias);
    }
}

/// Computes the gradient of a projection's input rows from that of its output.
fn through(rows: usize, gradient: &[f32], weight: &[f32], to: &mut [f32], write: Update, cores: Cores) {
    let (outputs, inputs) = (gradient.len() / rows, to.len() / rows);
    let weight = Matrix::dense(weight, outputs, inputs);
    multiply(Matrix::dense(gradient, rows, outputs), weight, 1.0, to, write, cores);
}

/// Adds the gradient of a weight, [outputs, inputs], over all tokens: from its output's gradient and its input.
fn by_weight(gradient: &[f32], x: &[f32], outputs: usize, sum: &mut [f32]) {
    let tokens = gradient.len() / outputs;
    let gradient = Matrix::dense(gradient, tokens, outputs);
    multiply(gradient.t(), Matrix::dense(x, tokens, x.len() / tokens), 1.0, sum, Update::Add, Cores::All);
}
