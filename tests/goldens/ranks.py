# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy==2.4.6", "safetensors==0.8.0", "tokenizers==0.23.3"]
# ///
"""Writes rank_surprisal.jsonl: sums of ranks and surprisals of responses by data/model, in f64 with numpy alone."""

import json
import sys
from pathlib import Path

import numpy
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "data/model"
ROWS, MOST = 24, 100


def logits(ids, weights, config):
    """A decoder of Qwen2, as its paper states it."""
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    width = config["hidden_size"] // heads

    def norm(x, weight):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weight

    def rotated(x):
        angles = numpy.outer(numpy.arange(len(ids)), config["rope_theta"] ** (-numpy.arange(0, width, 2) / width))
        cos, sin = numpy.cos(angles)[:, None], numpy.sin(angles)[:, None]
        one, other = x[..., : width // 2], x[..., width // 2 :]
        return numpy.concatenate([one * cos - other * sin, other * cos + one * sin], -1)

    x = weights["model.embed_tokens.weight"][ids]
    later = numpy.triu(numpy.full((len(ids), len(ids)), -numpy.inf), 1)
    for layer in range(config["num_hidden_layers"]):
        of = f"model.layers.{layer}."

        def linear(x, name):
            bias = weights.get(f"{of}{name}.bias", 0)
            return x @ weights[f"{of}{name}.weight"].T + bias

        h = norm(x, weights[of + "input_layernorm.weight"])
        q = rotated(linear(h, "self_attn.q_proj").reshape(len(ids), heads, width))
        k = rotated(linear(h, "self_attn.k_proj").reshape(len(ids), groups, width)).repeat(heads // groups, 1)
        v = linear(h, "self_attn.v_proj").reshape(len(ids), groups, width).repeat(heads // groups, 1)
        scores = numpy.einsum("qhw,khw->hqk", q, k) / numpy.sqrt(width) + later
        shares = numpy.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        x = x + linear(numpy.einsum("hqk,khw->qhw", shares, v).reshape(len(ids), -1), "self_attn.o_proj")
        h = norm(x, weights[of + "post_attention_layernorm.weight"])
        gate = linear(h, "mlp.gate_proj")
        x = x + linear(gate / (1 + numpy.exp(-gate)) * linear(h, "mlp.up_proj"), "mlp.down_proj")
    return norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T


def main():
    config = json.loads((MODEL / "config.json").read_text())
    weights = {name: values.astype("float64") for name, values in load_file(MODEL / "model.safetensors").items()}
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    chains = [json.loads(line) for line in (HERE / "qwen2/cots.jsonl").read_text().splitlines()]
    lines = []
    for number, chain in enumerate(chains[:ROWS]):
        question, cot, answer = chain["question"], "\n\n".join(chain["steps"]), f"It is \\boxed{{{number}}}."
        # The template of data/model, without its loop.
        prompt = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        parts = [prompt, f"<think>\n{cot}\n</think>\n\n{answer}"]
        before, response = [tokenizer.encode(part, add_special_tokens=False).ids for part in parts]
        ids = before + response + [tokenizer.token_to_id("<|im_end|>")]
        found = logits(ids, weights, config)[len(before) - 1 : -1]
        targets = numpy.array(ids[len(before) :])
        own = numpy.take_along_axis(found, targets[:, None], 1)
        ranks = 1 + (found > own).sum(1)
        surprisals = numpy.log(numpy.exp(found - own).sum(1))
        sums = {"ranks": int(numpy.minimum(ranks, MOST).sum()), "surprisals": round(float(surprisals.sum()), 6)}
        row = {"question": question, "cot": cot, "answer": answer, "tokens": len(targets), **sums}
        lines.append(json.dumps(row, ensure_ascii=False))
    text = "\n".join(lines) + "\n"
    path = HERE / "rank_surprisal.jsonl"
    if "--check" in sys.argv:
        assert path.read_text() == text, f"{path} is out of date"
    else:
        path.write_text(text)


if __name__ == "__main__":
    main()
