"""Scoring on an NVIDIA GPU against transformers: the shape of R1-Distill-Qwen-7B, random weights, one chain after the other.

The peer scores like published code: a forward pass with the logits of all positions. With `--targets-only` it computes only
the logits of the scored positions.

    python3 benches/peers/scoring_cuda.py [--targets-only]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, is_with

PACKAGES = ["torch==2.15.0", "transformers==5.23.0"]
LENGTHS = [8192, 10_240, 12_288, 14_336, 16_384]
RUNS = 3
# The minimum speed ratio to the peer, and the minimum speed in tokens per second.
RATIO, SPEED = 3, 30_000


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--targets-only", action="store_true", help="let the peer compute only the logits of scored positions")
    given = arguments.parse_args()
    if not is_with("scoring", *PACKAGES):
        return
    bench = ["cargo", "bench", "--package", "asap-lm", "--locked", "--features", "cuda", "--bench", "scoring_cuda"]
    # The CUDA libraries of torch, so that both sides use the same ones.
    libraries = [str(path) for path in sorted(Path(sys.prefix).glob("lib/python3.*/site-packages/nvidia/**/lib"))]
    known = os.environ.get("LD_LIBRARY_PATH", "")
    environment = os.environ | {"LD_LIBRARY_PATH": ":".join(libraries + [known])}
    lines = subprocess.check_output(bench, text=True, cwd=ROOT, env=environment).splitlines()
    (ours,) = [json.loads(line) for line in lines if line.startswith("{")]
    speeds = [sum(LENGTHS) / seconds for seconds in (ours["seconds"], peer(given.targets_only))]
    row = "{:<20}{:>9}{:>9}{:>8}{:>9}".format
    print(row("", "ours", "peer", "ratio", "goal"))
    print(row("tokens per second", *map("{:.0f}".format, speeds), f"{speeds[0] / speeds[1]:.2f}", f"> {RATIO}"))
    print(row("against the goal", f"{speeds[0] / SPEED:.2f}", "", "", "> 1"))


def peer(targets_only):
    """Returns the seconds that transformers takes for all chains."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    config = Qwen2Config(
        vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
        num_key_value_heads=4, max_position_embeddings=131072, rms_norm_eps=1e-6, rope_theta=1e4,
        tie_word_embeddings=False,
    )
    with torch.device("cuda"):
        model = Qwen2ForCausalLM(config).eval()

    def score(length):
        ids = torch.arange(length, device="cuda").mul(7919).remainder(config.vocab_size)[None]
        rows = torch.arange(1, 41, device="cuda") * (length - 2) // 40
        if targets_only:
            logits = model(ids, logits_to_keep=rows, use_cache=False).logits[0]
        else:
            logits = model(ids, use_cache=False).logits[0, rows]
        return torch.log_softmax(logits.float(), -1).gather(-1, ids[0, rows + 1, None])

    best = float("inf")
    with torch.inference_mode():
        for _ in range(RUNS):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for length in LENGTHS:
                score(length)
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - begun)
    return best


if __name__ == "__main__":
    main()
