"""The ladder of `verified` against transformers with reused keys: the answers of three chains of about 1,900 tokens after
25, 35, 50 and 70 % of their steps and after all of them. The shape of Qwen2.5-0.5B, one thread, the same random weights.

    python3 benches/peers/ladder.py
"""

import argparse
import json
import os
import random
import shutil
import sys

from common import ROOT, agree, folder, is_with, lines_of_json, measured
from scoring import PACKAGES, shape

# The minimum speed ratio to the peer.
GOAL = 1.3
SHARES = [0.25, 0.35, 0.5, 0.7, 1.0]
GOLDEN = ROOT / "tests/goldens/qwen2"
FOLDER = folder("ladder")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--peer", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.peer:
        return run_peer(given.peer)
    if not is_with("scoring", *PACKAGES):
        return
    make_folder()
    os.environ["ASAP_BENCH_LADDER"] = str(FOLDER)
    bench = ["cargo", "bench", "--package", "asap-lm", "--locked", "--bench", "scoring", "--"]
    for dtype, tolerance in [("f32", 1e-3), ("bf16", 0.1)]:
        runs = [lines_of_json([*bench, f"{dtype}-ladder"])[0] for _ in range(2)]
        ours = min(runs, key=lambda run: run["cpu"])
        (theirs,) = lines_of_json([sys.executable, __file__, "--peer", dtype])
        agree("log_probability", ours, theirs, tolerance)
        ratio = theirs["cpu"] / ours["cpu"]
        print(f"{dtype}: {ours['cpu']:.1f} CPU s, peer {theirs['cpu']:.1f}, ratio {ratio:.2f}, goal > {GOAL}; ", end="")
        print(f"the peer read {theirs['read']} tokens")


def make_folder():
    """Writes the model in both types, and the rungs: of each chain, the first steps of a random order."""
    import torch
    from transformers import Qwen2ForCausalLM

    draw = random.Random(0)
    chains = list(map(json.loads, (GOLDEN / "cots.jsonl").read_text().splitlines()))
    chains = sorted(chains, key=lambda chain: -chain["tokens"])[:3]
    orders = [draw.sample(range(len(chain["steps"])), len(chain["steps"])) for chain in chains]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "rungs.jsonl", "w") as file:
        for share in SHARES:
            kept = [sorted(order[: round(share * len(order))]) for order in orders]
            steps = [[chain["steps"][step] for step in own] for chain, own in zip(chains, kept)]
            answered = [{"question": chain["question"], "answer": "The answer is 204."} for chain in chains]
            checks = [check | {"steps": own} for check, own in zip(answered, steps)]
            file.write(json.dumps(checks) + "\n")
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(shape()).eval()
    for dtype in ["f32", "bf16"]:
        model.to(getattr(torch, {"f32": "float32", "bf16": "bfloat16"}[dtype])).save_pretrained(FOLDER / dtype)
        for name in ["tokenizer.json", "tokenizer_config.json"]:
            shutil.copy(GOLDEN / name, FOLDER / dtype)


def run_peer(dtype):
    """Measures one type. A chain's cache keeps what the next rung shares; a rung and its answer are read in one pass."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(FOLDER / dtype, dtype="auto").eval()
    tokenizer = AutoTokenizer.from_pretrained(FOLDER / dtype)
    rungs = list(map(json.loads, (FOLDER / "rungs.jsonl").read_text().splitlines()))

    def climb():
        held = [([], DynamicCache(config=model.config)) for _ in rungs[0]]
        found, read = [], 0
        for place, check in ((place, check) for rung in rungs for place, check in enumerate(rung)):
            before = check["question"] + "\n\n".join(check["steps"]) + "\n</think>\n\n"
            encoded = tokenizer(before + check["answer"], return_offsets_mapping=True)
            ids = encoded["input_ids"]
            spans = enumerate(encoded["offset_mapping"])
            first = next(i for i, (start, end) in spans if end > len(before) and end > start)
            earlier, cache = held[place]
            common = next((i for i, (a, b) in enumerate(zip(earlier, ids)) if a != b), min(len(earlier), len(ids)))
            common = min(common, first - 1)
            if common < len(earlier):
                cache.crop(common - len(earlier))
            own = torch.tensor([ids[common:]])
            logits = model(own, past_key_values=cache, logits_to_keep=len(ids) - first + 1).logits[0]
            scores = logits[:-1].float().log_softmax(-1).gather(1, torch.tensor(ids[first:])[:, None])
            found.append(scores.mean().item())
            read += len(ids) - common
            held[place] = ids, cache
        return found, read

    with torch.inference_mode():
        (found, read), cpu = measured(climb, times=2)
    print(json.dumps({"case": f"{dtype}-ladder", "cpu": cpu, "read": read, "log_probability": found}))


if __name__ == "__main__":
    main()
