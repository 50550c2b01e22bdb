"""Training against transformers and candle: forward, gradient, clipping and AdamW in f32, one thread, random weights. Cases
are 2.7 million parameters with 16 chains of 256 tokens and 64 of 54, and the shape of Qwen2.5-0.5B with one chain of 2,048,
for which candle needs too much memory. candle and asap have the same weights, and must give the same losses.

    python3 benches/peers/training.py
"""

import argparse
import json
import sys

from common import agree, candle, is_with, lines_of_json, measured

PACKAGES = ["torch==2.15.0", "transformers==5.23.0"]
# The minimum speed ratio to the peer.
GOAL = 1.5
SMALL = dict(
    vocab_size=2816, hidden_size=192, intermediate_size=768, num_hidden_layers=4, num_attention_heads=6,
    num_key_value_heads=2,
)
LARGE = dict(
    vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
    num_key_value_heads=2,
)
# Shape, chains, tokens per chain, measured steps.
CASES = {"16x256": (SMALL, 16, 256, 5), "64x54": (SMALL, 64, 54, 5), "0.5b": (LARGE, 1, 2048, 2)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--peer", choices=CASES, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.peer:
        return run_peer(*CASES[given.peer])
    if not is_with("training", *PACKAGES):
        return
    bench = ["cargo", "bench", "--package", "asap-lm", "--locked", "--bench", "training"]
    ours = {case["case"]: case for case in lines_of_json(bench)}
    row = "{:<34}{:>9}{:>9}{:>8}{:>9}".format
    print(row("", "ours", "peer", "ratio", "goal"))
    for case, (_, chains, length, _) in CASES.items():
        (theirs,) = lines_of_json([sys.executable, __file__, "--peer", case])
        speeds = [chains * length / run["cpu"] for run in (ours[case], theirs)]
        ratio = f"{speeds[0] / speeds[1]:.2f}"
        print(row(f"{case}, tokens/CPU s", *map("{:.0f}".format, speeds), ratio, f"> {GOAL}"))
    for theirs in candle("16x256", "64x54"):
        agree("losses", ours[theirs["case"]], theirs, 1e-3)
        speeds = [run["tokens"] / run["cpu"] for run in (ours[theirs["case"]], theirs)]
        ratio = f"{speeds[0] / speeds[1]:.2f}"
        print(row(f"{theirs['case']}, candle, tokens/CPU s", *map("{:.0f}".format, speeds), ratio, ""))
    two = ours["16x256"]["wall"] / ours["16x256-two-cores"]["wall"]
    print(row("16x256, two cores over one", f"{two:.2f}", "", "", "> 1.8"))


def run_peer(shape, chains, length, steps):
    """Measures one case in a separate process."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**shape, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)
    ids = torch.arange(chains * (length + 1)).mul(7919).remainder(shape["vocab_size"]).view(chains, length + 1)

    def step():
        # Reads the same number of tokens as our bench: the last token of a chain is only a target.
        logits = model(ids[:, :-1], use_cache=False).logits
        torch.nn.functional.cross_entropy(logits.view(-1, shape["vocab_size"]), ids[:, 1:].reshape(-1)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()
    _, cpu = measured(step, steps)
    print(json.dumps({"cpu": cpu}))


if __name__ == "__main__":
    main()
