"""asap against cydifflib (C++): similarities of pairs and Algorithm 1, in CPU seconds of one run on one machine.

`cargo bench` writes the texts and our results. The peer computes the same from them. As in published code, its walk
computes `SequenceMatcher(None, a, b, autojunk=False).ratio()` of each pair that it visits.
"""

import json
import sys

from common import bench, is_with, measured, ours, target

PEER = "cydifflib==1.2.0"
THRESHOLD = 0.6
GOAL = "10 x"
# Cubic for difflib: minutes to hours.
CUBIC = ["aa and ab", "ab and aab"]


def main():
    if is_with("matching", PEER):
        bench("matching")
        compare()


def compare():
    inputs = json.loads((target() / "tmp" / "matching.json").read_text())
    pairs, walks = inputs["pairs"], inputs["walks"]
    similarities, for_pairs = measured(lambda: [similarity(a, b) for a, b in pairs])
    if similarities != inputs["similarities"]:
        sys.exit("the similarities differ")
    matches, for_walks = measured(lambda: [matched(*walk) for walk in walks])
    if matches != inputs["matched"]:
        sys.exit("the walks differ")
    rows = [
        ("cot_similarity, a pair", ours("matching", "2000 similarities") / len(pairs), for_pairs / len(pairs), GOAL),
        ("cot_match, a pair decided", ours("matching", "2000 decisions") / len(pairs), for_pairs / len(pairs), GOAL),
        ("cot_match, a walk", ours("matching", "20 walks") / len(walks), for_walks / len(walks), GOAL),
    ]
    for name, a, b in inputs["adversarial"]:
        peer = None if name in CUBIC else measured(lambda: similarity(a, b), times=1)[1]
        rows.append((name, ours("matching", name), peer, ""))
    print(f"{'':30} {'ours':>12} {'cydifflib':>12} {'ratio':>8} {'goal':>6}")
    for name, our, peer, goal in rows:
        against = f"{'cubic':>12} {'':8}" if peer is None else f"{peer * 1e6:9.1f} µs {peer / our:6.1f} x"
        print(f"{name:30} {our * 1e6:9.1f} µs {against} {goal:>6}")


def similarity(a, b):
    from cydifflib import SequenceMatcher

    return SequenceMatcher(None, a, b, autojunk=False).ratio()


def matched(original, coarse):
    """Algorithm 1: each coarse step takes the first step after the last match that is similar enough."""
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
