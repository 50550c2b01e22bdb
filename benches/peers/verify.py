"""asap against math-verify: the verdicts on the golden answers, in CPU seconds of one run on one machine.

`cargo bench` verifies the same rows. The peer parses the expected answer and the response with its default configuration,
which stops slow cases after five seconds.
"""

import json

from common import ROOT, bench, is_with, measured, ours

PEER = ("math-verify==0.9.0", "latex2sympy2_extended[antlr4_13_2]==1.11.0")
GOAL = "20 x"


def main():
    if is_with("verify", *PEER):
        bench("verify")
        for name in ["answers", "answers_held_out"]:
            compare(name)


def compare(name):
    lines = (ROOT / "tests" / "goldens" / f"{name}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    verdicts, seconds = measured(lambda: [verdict(row) for row in rows], times=1)
    right = sum(found == row["intended"] for found, row in zip(verdicts, rows))
    wrongly = sum(found and not row["intended"] for found, row in zip(verdicts, rows))
    our = ours("verify", name)
    print(f"{name}: {len(rows)} rows, math-verify {right} as intended, {wrongly} accepted wrongly")
    print(f"ours {our * 1e3:.1f} ms, math-verify {seconds:.2f} s, ratio {seconds / our:.0f} x, goal {GOAL}")


def verdict(row):
    from math_verify import parse, verify

    return verify(parse(f"\\boxed{{{row['gold']}}}"), parse(row["response"]))


if __name__ == "__main__":
    main()
