"""Scoring against transformers and candle on the shape of Qwen2.5-0.5B: 2,048 tokens, and 16,384 in 4 of the 24 layers.
40 positions, one thread, random weights. candle and asap have the same weights, and must give the same scores.

    python3 benches/peers/scoring.py
"""

import argparse
import json
import sys
from pathlib import Path

from common import agree, candle, is_with, lines_of_json, measured

PACKAGES = ["torch==2.15.0", "transformers==5.23.0"]
# The minimum speed ratio to the peer.
GOALS = {"f32": 1.1, "bf16": 1.2}
LONG_GOALS = {"f32": 1.1, "bf16": 2.0}
# MB of weights: the model has 494,032,768 parameters.
WEIGHTS = {"f32": 1976, "bf16": 988}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.peer:
        dtype, tokens, layers = given.peer
        return run_peer(dtype, int(tokens), int(layers))
    if not is_with("scoring", *PACKAGES):
        return
    bench = ["cargo", "bench", "--package", "asap-lm", "--locked", "--bench", "scoring"]
    ours = {case["case"]: case for case in lines_of_json(bench)}
    row = "{:<28}{:>9}{:>9}{:>8}{:>9}".format
    print(row("", "ours", "peer", "ratio", "goal"))
    for dtype, goal in GOALS.items():
        (theirs,) = lines_of_json([sys.executable, __file__, "--peer", dtype, "2048", "24"])
        speeds = [2048 / run["cpu"] for run in (ours[dtype], theirs)]
        peaks = [run["peak"] / 1e6 for run in (ours[dtype], theirs)]
        print(row(f"{dtype}, tokens/CPU s", *map("{:.0f}".format, speeds), f"{speeds[0] / speeds[1]:.2f}", f"> {goal}"))
        bound = WEIGHTS[dtype] + 300
        print(row(f"{dtype}, peak MB", *map("{:.0f}".format, peaks), f"{peaks[0] / peaks[1]:.2f}", f"< {bound}"))
    for dtype, goal in LONG_GOALS.items():
        (theirs,) = lines_of_json([sys.executable, __file__, "--peer", dtype, "16384", "4"])
        speeds = [16384 / run["cpu"] for run in (ours[f"{dtype}-16384"], theirs)]
        what = f"{dtype}, 16,384 tokens"
        print(row(what, *map("{:.0f}".format, speeds), f"{speeds[0] / speeds[1]:.2f}", f"> {goal}"))
    (theirs,) = candle("f32")
    agree("surprisal", ours["f32"], theirs, 1e-3)
    speeds = [2048 / run["cpu"] for run in (ours["f32"], theirs)]
    peaks = [run["peak"] / 1e6 for run in (ours["f32"], theirs)]
    print(row("f32, candle, tokens/CPU s", *map("{:.0f}".format, speeds), f"{speeds[0] / speeds[1]:.2f}", ""))
    print(row("f32, candle, peak MB", *map("{:.0f}".format, peaks), f"{peaks[0] / peaks[1]:.2f}", ""))
    for dtype in GOALS:
        two = ours[dtype]["wall"] / ours[f"{dtype}-two-cores"]["wall"]
        print(row(f"{dtype}, two cores over one", f"{two:.2f}", "", "", "> 1.8"))
        cases = [ours[f"{dtype}-equal"], ours[f"{dtype}-mixed"]]
        linear = [(case["cpu"] - case["attention"]) / case["tokens"] for case in cases]
        print(row(f"{dtype}, mixed over equal", f"{linear[0] / linear[1]:.2f}", "", "", "> 0.9"))


def shape(layers=24):
    """Returns the config of Qwen2.5-0.5B with this number of layers."""
    from transformers import Qwen2Config

    return Qwen2Config(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=layers, num_attention_heads=14,
        num_key_value_heads=2, max_position_embeddings=32768, rms_norm_eps=1e-6, rope_theta=1e6,
        tie_word_embeddings=True,
    )


def run_peer(dtype, tokens, layers):
    """Measures one type in a separate process, since its peak memory is measured too."""
    import torch
    from transformers import Qwen2ForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.set_default_dtype({"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
    model = Qwen2ForCausalLM(shape(layers)).eval()
    ids = torch.arange(tokens).mul(7919).remainder(151936)[None]
    rows = torch.arange(1, 41) * (tokens - 2) // 40

    def score():
        return torch.log_softmax(model(ids, logits_to_keep=rows, use_cache=False).logits.float(), -1)

    with torch.inference_mode():
        _, cpu = measured(score)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps({"cpu": cpu, "peak": peak}))


if __name__ == "__main__":
    main()
