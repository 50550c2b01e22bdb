"""Writes the sections of docs/benchmarks.md between `<!-- bench NAME -->` and `<!-- /bench NAME -->` from
benches/results/NAME.json, and `<!-- bench summary -->` from all of them.

    python3 benches/table.py [--check]

With --check, it writes nothing, and exits 1 if the page differs from the results.
"""

import json
import re
import sys
import textwrap
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
SECTION = re.compile(r"<!-- bench (\w+) -->\n.*?<!-- /bench \1 -->", re.DOTALL)


def main():
    # Decimals stay text, so that 1.10 is written as 1.10.
    files = (ROOT / "benches" / "results").glob("*.json")
    benches = {path.stem: json.loads(path.read_text(), parse_float=str) for path in files}
    page = PAGE.read_text()
    names = [match[1] for match in SECTION.finditer(page)]
    if sorted(names) != sorted([*benches, "summary"]):
        sys.exit(f"{PAGE} has sections for {sorted(names)}; the results are {sorted(benches)}")
    sections = {name: section(bench) for name, bench in benches.items()}
    sections["summary"] = summary(benches[name] for name in names if name in benches)
    marked = "<!-- bench {0} -->\n{1}\n<!-- /bench {0} -->".format
    written = SECTION.sub(lambda match: marked(match[1], sections[match[1]]), page)
    if "--check" not in sys.argv:
        PAGE.write_text(written)
    elif written != page:
        sys.exit(f"{PAGE} differs from the results; run python3 benches/table.py")


def summary(benches):
    """The lowest and the highest ratio of speed of each bench."""
    rows = ["| bench | lowest ratio | highest ratio |", "|---|---:|---:|"]
    for bench in benches:
        ratios = [result["ratio"] for result in bench["results"] if result["ratio"] and result["unit"] != "GB"]
        if ratios:
            least, most = (text(choice(ratios, key=float)) for choice in (min, max))
            rows.append(f"| {bench['title']} | {least} | {most} |")
    return "\n".join(rows)


def section(bench):
    *others, last = [f"`{command}`" for command in bench["command"]]
    commands = f"{', '.join(others)} and {last}" if others else last
    peer = f"Peer: {bench['peer']}. " if bench["peer"] else ""
    parts = [wrapped(f"Run {commands}. {peer}{bench['note']}")]
    parts += [table(*build) for build in groupby(bench["results"], key=build_of)]
    parts += [wrapped(f"**Where this comparison is unfair to the peer.** {bench['unfair']}")] if bench["peer"] else []
    return "\n\n".join([*parts, wrapped(f"**Limit.** {bench['limit']}")])


def build_of(result):
    return result["machine"] + (f", commit {result['commit']}" if result["commit"] else "")


def table(build, results):
    rows = [[build, "asap", "peer", "unit", "ratio", "goal"]]
    for result in results:
        values = (result[key] for key in ["what", "ours", "peer", "unit", "ratio"])
        rows.append([*map(text, values), goal(result)])
    # Without the columns that have no value.
    head, *rows = zip(*(column for column in zip(*rows) if any(column[1:])))
    rule = "|".join("---" if name in (build, "unit") else "---:" for name in head)
    head, *rows = (f"| {' | '.join(row)} |" for row in [head, *rows])
    return "\n".join([head, f"|{rule}|", *rows])


def goal(result):
    """The goal bounds the ratio from below, or, with a `bound`, asap's value."""
    if result["goal"] is None:
        return ""
    sign = "≤" if result.get("bound") == "most" else "≥"
    unit = result["unit"] if "bound" in result else ""
    return f"{sign} {text(result['goal'])} {unit}".rstrip()


def text(value):
    return "" if value is None else f"{value:,}" if isinstance(value, int) else value


def wrapped(paragraph):
    return textwrap.fill(paragraph, 120, break_on_hyphens=False, break_long_words=False)


if __name__ == "__main__":
    main()
