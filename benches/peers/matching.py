"""Ours against cydifflib (C++): similarities of pairs and Algorithm 1, in CPU seconds of one run on one machine.

`cargo bench` writes the texts and our results; the peer computes the same from them. As in published code, its walk takes
`SequenceMatcher(None, a, b, autojunk=False).ratio()` of each pair that it visits.
"""

import json
import subprocess
import sys
import time
import venv
from pathlib import Path

PEER = "cydifflib==1.2.0"
THRESHOLD = 0.6
GOAL = "10 x"
# Cubic for difflib: minutes to hours.
CUBIC = ["aa and ab", "ab and aab"]
ROOT = Path(__file__).resolve().parents[2]


def main():
    metadata = subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT)
    target = Path(json.loads(metadata)["target_directory"])
    peers = target / "peers" / "matching"
    if Path(sys.prefix) != peers:
        venv.create(peers, with_pip=True)
        subprocess.check_call([peers / "bin/pip", "install", "--quiet", PEER])
        subprocess.check_call([peers / "bin/python", __file__, *sys.argv[1:]])
        return
    if "--no-bench" not in sys.argv:
        subprocess.check_call(["cargo", "bench", "--workspace", "--locked", "--bench", "matching"], cwd=ROOT)
    compare(target)


def compare(target):
    inputs = json.loads((target / "tmp" / "matching.json").read_text())
    pairs, walks = inputs["pairs"], inputs["walks"]
    similarities, for_pairs = measured(lambda: [similarity(a, b) for a, b in pairs])
    if similarities != inputs["similarities"]:
        sys.exit("the similarities differ")
    matches, for_walks = measured(lambda: [matched(*walk) for walk in walks])
    if matches != inputs["matched"]:
        sys.exit("the walks differ")
    rows = [
        ("cot_similarity, a pair", ours(target, "2000 similarities") / len(pairs), for_pairs / len(pairs), GOAL),
        ("cot_match, a pair decided", ours(target, "2000 decisions") / len(pairs), for_pairs / len(pairs), GOAL),
        ("cot_match, a walk", ours(target, "20 walks") / len(walks), for_walks / len(walks), GOAL),
    ]
    for name, a, b in inputs["adversarial"]:
        peer = None if name in CUBIC else measured(lambda: similarity(a, b), times=1)[1]
        rows.append((name, ours(target, name), peer, ""))
    print(f"{'':30} {'ours':>12} {'cydifflib':>12} {'ratio':>8} {'goal':>6}")
    for name, our, peer, goal in rows:
        against = f"{'cubic':>12} {'':8}" if peer is None else f"{peer * 1e6:9.1f} µs {peer / our:6.1f} x"
        print(f"{name:30} {our * 1e6:9.1f} µs {against} {goal:>6}")


def ours(target, name):
    folder = "".join("_" if letter in '?"/\\*<>:|^' else letter for letter in name)
    estimates = json.loads((target / "criterion" / "matching" / folder / "new" / "estimates.json").read_text())
    return estimates["median"]["point_estimate"] / 1e9


def measured(work, times=3):
    """The result and the least CPU seconds of a few times."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return result, min(seconds)


def similarity(a, b):
    from cydifflib import SequenceMatcher

    return SequenceMatcher(None, a, b, autojunk=False).ratio()


def matched(original, coarse):
    """Algorithm 1: each coarse step takes the first step behind the last match that is similar enough."""
    taken, step = [], 0
    for coarse_step in coarse:
        while step < len(original) and similarity(original[step], coarse_step) < THRESHOLD:
            step += 1
        if step == len(original):
            return taken
        taken.append(step)
        step += 1
    return taken


if __name__ == "__main__":
    main()
