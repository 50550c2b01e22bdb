"""asap against the Python package tokenizers, built on the same crate, in CPU seconds of one run on one machine.

`cargo bench` writes the chains and our tokens. The peer must find the same. `CORPUS` names traces other than the sample's.
To refine, the peer tokenizes the remaining chain after each dropped step, as in published code. A second peer is the release
candidate of tokenizers 1.0, which gives no offsets; it runs in an environment of its own.
"""

import json
import subprocess
import sys

from common import ROOT, bench, is_with, measured, ours, target

PEER = "tokenizers==0.23.2"
NEXT = "tokenizers==1.0.0rc3"


def main():
    if "--next" in sys.argv:
        if is_with("tokens_next", NEXT):
            compare_next()
    elif is_with("tokens", PEER):
        bench("tokens")
        compare()
        subprocess.check_call([sys.executable, __file__, "--next"])


def compare():
    from tokenizers import Tokenizer

    inputs = json.loads((target() / "tmp" / "tokens.json").read_text())
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
            our, peer = megabytes / ours("tokens", f"{model}, {what}"), megabytes / seconds
            print(f"{model + ', ' + way:44} {our:8.1f} {peer:8.2f} {our / peer:6.1f} x {goal:>6}")
    print(f"{'chains refined per CPU second':44}")
    chains = inputs["steps"]
    for model, kept in inputs["kept"].items():
        tokenizer = Tokenizer.from_file(str(ROOT / model / "tokenizer.json"))
        found, seconds = measured(lambda: [refine(tokenizer, steps) for steps in chains])
        if found != kept:
            sys.exit(f"the remaining steps of {model} differ")
        our, peer = len(chains) / ours("tokens", f"{model}, refine"), len(chains) / seconds
        print(f"{model:44} {our:8.0f} {peer:8.1f} {our / peer:6.1f} x")


def compare_next():
    from tokenizers import Tokenizer

    inputs = json.loads((target() / "tmp" / "tokens.json").read_text())
    chains = inputs["chains"]
    megabytes = sum(len(chain.encode()) for chain in chains) / 1e6
    print(f"{NEXT}, MB per CPU second")
    for model, ids in inputs["ids"].items():
        tokenizer = Tokenizer.from_file(str(ROOT / model / "tokenizer.json"))
        found, seconds = measured(lambda: tokenizer.encode_batch(chains, add_special_tokens=False))
        if [list(encoding.ids) for encoding in found] != ids:
            sys.exit(f"the tokens of {model} differ")
        our, peer = megabytes / ours("tokens", f"{model}, ids"), megabytes / seconds
        print(f"{model + ', encode_batch':44} {our:8.1f} {peer:8.2f} {our / peer:6.1f} x")


def refine(tokenizer, steps):
    """Drops the steps with the lowest scores, one by one, until a quarter of the tokens remains."""
    kept = list(range(len(steps)))

    def tokens():
        return len(tokenizer.encode("\n\n".join(steps[place] for place in kept), add_special_tokens=False))

    most = tokens() // 4
    for place in sorted(kept, key=lambda place: place * 7919 % 1009):
        if tokens() <= most:
            break
        kept.remove(place)
    return kept


if __name__ == "__main__":
    main()
