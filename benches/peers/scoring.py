"""Scoring against transformers on the shape of Qwen2.5-0.5B: 2,048 tokens, 40 positions, one thread, random weights.

    python3 benches/peers/scoring.py
"""

import json
import pathlib
import subprocess
import sys
import venv

TARGET = pathlib.Path(__file__).resolve().parents[2] / "target"
PACKAGES = ["torch==2.15.0", "transformers==5.23.0"]
# Ours has to be so much faster than the peer.
GOALS = {"f32": 1.1, "bf16": 1.2}
# Numbers of the model: 494,032,768.
WEIGHTS = {"f32": 1976, "bf16": 988}


def peer(dtype):
    """Runs in the venv, in a process of its own: its peak memory is measured too."""
    import time

    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.set_default_dtype({"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
    config = Qwen2Config(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, max_position_embeddings=32768, rms_norm_eps=1e-6, rope_theta=1e6,
        tie_word_embeddings=True,
    )
    model = Qwen2ForCausalLM(config).eval()
    ids = torch.arange(2048).mul(7919).remainder(151936)[None]
    rows = torch.arange(1, 41) * 2046 // 40
    best = float("inf")
    with torch.inference_mode():
        for _ in range(3):
            begun = time.process_time()
            logits = model(ids, logits_to_keep=rows, use_cache=False).logits
            torch.log_softmax(logits.float(), -1)
            best = min(best, time.process_time() - begun)
    status = pathlib.Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps({"cpu": best, "peak": peak}))


def last_json(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main():
    folder = TARGET / "peers" / "scoring"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    bench = ["cargo", "bench", "--workspace", "--locked", "--bench", "scoring"]
    lines = subprocess.run(bench, check=True, capture_output=True, text=True).stdout.splitlines()
    ours = {case["case"]: case for case in map(json.loads, (line for line in lines if line.startswith("{")))}
    row = "{:<28}{:>9}{:>9}{:>8}{:>9}".format
    print(row("", "ours", "peer", "ratio", "goal"))
    for dtype, goal in GOALS.items():
        theirs = last_json([python, __file__, dtype])
        speeds = [2048 / run["cpu"] for run in (ours[dtype], theirs)]
        peaks = [run["peak"] / 1e6 for run in (ours[dtype], theirs)]
        print(row(f"{dtype}, tokens/CPU s", *map("{:.0f}".format, speeds), f"{speeds[0] / speeds[1]:.2f}", f"> {goal}"))
        bound = WEIGHTS[dtype] + 300
        print(row(f"{dtype}, peak MB", *map("{:.0f}".format, peaks), f"{peaks[0] / peaks[1]:.2f}", f"< {bound}"))
    for dtype in GOALS:
        two = ours[dtype]["wall"] / ours[f"{dtype}-two-cores"]["wall"]
        print(row(f"{dtype}, two cores over one", f"{two:.2f}", "", "", "> 1.8"))
        linear = [(case["cpu"] - case["attention"]) / case["tokens"] for case in (ours[f"{dtype}-equal"], ours[f"{dtype}-mixed"])]
        print(row(f"{dtype}, mixed over equal", f"{linear[0] / linear[1]:.2f}", "", "", "> 0.9"))


if __name__ == "__main__":
    peer(sys.argv[1]) if len(sys.argv) > 1 else main()
