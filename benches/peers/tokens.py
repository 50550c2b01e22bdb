"""Ours against the Python package tokenizers, the same crate underneath, in CPU seconds of one run on one machine.

`cargo bench` writes the chains and our tokens; the peer must find the same. `CORPUS` names other traces than the sample's.
"""

import json
import subprocess
import sys
import time
import venv
from pathlib import Path

PEER = "tokenizers==0.23.2"
ROOT = Path(__file__).resolve().parents[2]


def main():
    metadata = subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT)
    target = Path(json.loads(metadata)["target_directory"])
    peers = target / "peers" / "tokens"
    if Path(sys.prefix) != peers:
        venv.create(peers, with_pip=True)
        subprocess.check_call([peers / "bin/pip", "install", "--quiet", PEER])
        subprocess.check_call([peers / "bin/python", __file__, *sys.argv[1:]])
        return
    if "--no-bench" not in sys.argv:
        subprocess.check_call(["cargo", "bench", "--workspace", "--locked", "--bench", "tokens"], cwd=ROOT)
    compare(target)


def compare(target):
    from tokenizers import Tokenizer

    inputs = json.loads((target / "tmp" / "tokens.json").read_text())
    chains = inputs["chains"]
    megabytes = sum(len(chain.encode()) for chain in chains) / 1e6
    print(f"{'MB per CPU second':44} {'ours':>8} {'peer':>8} {'ratio':>8} {'goal':>6}")
    for model, ids in inputs["ids"].items():
        tokenizer = Tokenizer.from_file(str(ROOT / model / "tokenizer.json"))
        ways = [
            ("ids", "encode_batch_fast", "2 x", lambda: tokenizer.encode_batch_fast(chains, add_special_tokens=False)),
            ("offsets", "encode", "", lambda: [tokenizer.encode(chain, add_special_tokens=False) for chain in chains]),
        ]
        for what, way, goal, work in ways:
            found, seconds = measured(work)
            if [encoding.ids for encoding in found] != ids:
                sys.exit(f"the tokens of {model} differ")
            our, peer = megabytes / ours(target, f"{model}, {what}"), megabytes / seconds
            print(f"{model + ', ' + way:44} {our:8.1f} {peer:8.2f} {our / peer:6.1f} x {goal:>6}")


def ours(target, name):
    folder = "".join("_" if letter in '?"/\\*<>:|^' else letter for letter in name)
    estimates = json.loads((target / "criterion" / "tokens" / folder / "new" / "estimates.json").read_text())
    return estimates["median"]["point_estimate"] / 1e9


def measured(work, times=3):
    """The result and the least CPU seconds of a few times."""
    seconds = []
    for _ in range(times):
        result = None  # freed outside of the time that is measured
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return result, min(seconds)


if __name__ == "__main__":
    main()
