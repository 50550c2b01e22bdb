"""Answers of 64 tokens against transformers' generate. Both use the same folder with the shape of Qwen2.5-0.5B and random
weights, the same questions through its chat template, greedy decoding, and one thread, in f32 and in bf16.

    python3 benches/peers/generation.py
"""

import argparse
import json
import os
import sys
from pathlib import Path

from common import folder, is_with, lines_of_json, measured

PACKAGES = ["torch==2.15.0", "transformers==5.23.0", "jinja2"]
# The minimum speed ratio to the peer.
GOAL = 1.2
TOKENS = 64
# Questions and type of the weights.
CASES = {"32": (32, "f32"), "1": (1, "f32"), "32-bf16": (32, "bf16"), "1-bf16": (1, "bf16")}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--peer", choices=CASES, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if not is_with("generation", *PACKAGES):
        return
    if given.peer:
        return run_peer(*CASES[given.peer])
    os.environ["ASAP_BENCH_FOLDER"] = str(folder("generation"))
    bench = ["cargo", "bench", "--package", "asap-lm", "--locked", "--bench", "generation"]
    ours = {case["case"]: case for case in lines_of_json(bench)}
    row = "{:<34}{:>9}{:>9}{:>8}{:>9}".format
    print(row("", "ours", "peer", "ratio", "goal"))
    for case, (questions, dtype) in CASES.items():
        (theirs,) = lines_of_json([sys.executable, __file__, "--peer", case])
        speeds = [run["tokens"] / run["cpu"] for run in (ours[case], theirs)]
        ratio = f"{speeds[0] / speeds[1]:.2f}"
        print(row(f"{dtype}, {questions} questions, tokens/CPU s", *map("{:.1f}".format, speeds), ratio, f"> {GOAL}"))
    two = ours["32"]["wall"] / ours["32-two-cores"]["wall"]
    print(row("f32, 32, two cores over one", f"{two:.2f}", "", "", ""))


def run_peer(questions, dtype):
    """Measures one case in a separate process."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    path = Path(os.environ["ASAP_BENCH_FOLDER"]) / dtype
    model = AutoModelForCausalLM.from_pretrained(path, dtype="auto").eval()
    tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
    asked = [f"What is {i} + {i * i}? Think step by step, then say the result." for i in range(questions)]
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True)
        for text in asked
    ]

    def answer():
        inputs = tokenizer(texts, padding=True, add_special_tokens=False, return_tensors="pt")
        with torch.inference_mode():
            return model.generate(**inputs, do_sample=False, max_new_tokens=TOKENS, min_new_tokens=TOKENS)

    _, cpu = measured(answer)
    print(json.dumps({"tokens": questions * TOKENS, "cpu": cpu}))


if __name__ == "__main__":
    main()
