"""The paper's figure 2: the entropies of the first tokens of steps, and of all other tokens."""

import argparse
import array
import collections
import math
import os
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import asap
from asap import _asap
from asap.paper._plan import Table
from asap.paper._tables import put_csv

_BINS = 40
_SHOWN = 20
_COLORS = {"first": "#1f77b4", "others": "#ff7f0e"}
_NAMES = {"first": "first tokens", "others": "other tokens"}


def draw(args: argparse.Namespace) -> None:
    pairs = (pair.removeprefix("asap.").partition("=") for pair in args.set)
    settings = {name.replace(".", "_"): value for name, _, value in pairs}
    chains = f"SELECT question, cot_steps(cot) AS steps FROM corpus WHERE cot IS NOT NULL LIMIT {args.limit or 'ALL'}"
    sql = f"SELECT cot_first_token(question, steps) AS tokens, cot_token_entropies(question, steps) AS entropies FROM ({chains})"
    batches = asap.sql(sql, args.source, settings=settings)
    found = collect((row["tokens"], row["entropies"]) for batch in batches for row in batch.to_pylist())
    # A generation that was cut off inside its chain has no closing tag, and so no chain.
    rows = asap.sql("SELECT status, count(*) AS rows FROM corpus WHERE cot IS NULL GROUP BY status ORDER BY status", args.source, settings=settings)
    found["left out"].update({f"rows without a chain ({row['status']})": row["rows"] for row in rows.to_pylist()})
    write(found, args.to)
    shown = (f"{len(found[key]):,} {name}, 90th percentile {found['percentiles'][key]:.3f} nats" for key, name in _NAMES.items())
    print(f"{found['chains']:,} chains; {'; '.join(shown)}. {left_out(found)}. The figure is in {args.to}.")


def collect(chains: Iterable[tuple[Any, Any]]) -> Table:
    """The entropies of first tokens and of all others, and how often each text is a first token: in all states, and at or above
    the 90th percentile of first tokens. A chain is the first token of each step, and the entropies of the tokens of each step."""
    first, others, scored = array.array("d"), array.array("d"), 0
    texts: list[str] = []
    lost: collections.Counter[str] = collections.Counter()
    for tokens, entropies in chains:
        scored += tokens is not None
        lost["chains longer than the window of the model"] += tokens is None
        for text, values in zip(tokens or [], entropies or []):
            lost["steps without a score"] += not (text is not None and values and values[0] is not None)
            if text is not None and values and values[0] is not None:
                texts.append(text)
                first.append(values[0])
                others.extend(value for value in values[1:] if value is not None)
    if len(first) < 2 or len(others) < 2:
        raise _asap.Error("figure2 found no two scored steps with two tokens each")
    found: Table = {"first": first, "others": others, "all": collections.Counter(sorted(texts)), "chains": scored, "left out": lost}
    found["percentiles"] = {key: statistics.quantiles(found[key], n=10, method="inclusive")[-1] for key in _NAMES}
    high = found["percentiles"]["first"]
    return {**found, "high": collections.Counter(sorted(text for text, value in zip(texts, first) if value >= high))}


def left_out(found: Table) -> str:
    return "Left out: " + (", ".join(f"{count:,} {what}" for what, count in found["left out"].items() if count) or "nothing")


def write(found: Table, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    largest = math.ceil(max(*found["first"], *found["others"], 1.0))
    edges, shares = [largest * bin / _BINS for bin in range(_BINS + 1)], {}
    for key in _NAMES:
        counts = collections.Counter(min(int(value / largest * _BINS), _BINS - 1) for value in found[key])
        shares[key] = [counts[bin] / len(found[key]) for bin in range(_BINS)]
    put_csv(f"{folder}/entropies.csv", ["from nats", "to nats", "share of first tokens", "share of other tokens"],
            zip(edges, edges[1:], *shares.values()))
    put_csv(f"{folder}/percentiles.csv", ["tokens", "count", "mean nats", "90th percentile, nats"],
            [[name, len(found[key]), statistics.fmean(found[key]), found["percentiles"][key]] for key, name in _NAMES.items()])
    put_csv(f"{folder}/left_out.csv", ["left out", "count"], found["left out"].items())
    for name in ("all", "high"):
        rows = [[text, n, n / found[name].total(), n / found["all"][text]] for text, n in found[name].most_common()]
        put_csv(f"{folder}/first_tokens_{name}.csv", ["first token", "count", "share", "share of its steps"], rows)
    Path(folder, "figure2.svg").write_text(svg(edges, shares, found))


def svg(edges: list[float], shares: dict[str, list[float]], found: Table) -> str:
    width, height, top, left = 520, 320, 46, 70
    tallest = 100 * max(map(max, shares.values()))
    tick = next((each for each in (1, 2, 5, 10) if tallest <= 6 * each), 20)
    highest = tick * math.ceil(tallest / tick)
    middle = 'text-anchor="middle"'
    x = [left + width * edge / edges[-1] for edge in edges]

    def y(percent: float) -> float:
        return top + height * (1 - percent / highest)

    def text(at: float, where: float, words: str, more: str = "") -> str:
        return f'<text x="{at:.1f}" y="{where:.1f}" {more}>{escape(words)}</text>'

    parts = [text(left, 24, "How uncertain the model is", 'font-size="15"')]
    for line, (key, color) in enumerate(_COLORS.items()):
        bars = "".join(f"M{low:.1f},{y(0):.1f}V{y(100 * share):.1f}H{high:.1f}V{y(0):.1f}" for low, high, share in zip(x, x[1:], shares[key]))
        parts.append(f'<path d="{bars}" fill="{color}" fill-opacity="0.5" stroke="{color}"/>')
        percentile = found["percentiles"][key]
        at = left + width * percentile / edges[-1]
        parts.append(f'<path d="M{at:.1f},{top}V{y(0):.1f}" stroke="{color}" stroke-width="2" stroke-dasharray="6 4"/>')
        words = f"{_NAMES[key]}: 90th percentile {percentile:.2f}"
        parts.append(text(left + width, 18 + 18 * line, words, f'fill="{color}" text-anchor="end"'))
    for nats in range(int(edges[-1]) + 1):
        parts.append(text(left + width * nats / edges[-1], y(0) + 18, f"{nats}", middle))
    parts += [text(left - 6, y(percent) + 4, f"{percent}", 'text-anchor="end"') for percent in range(0, highest + 1, tick)]
    parts.append(text(left + width / 2, y(0) + 40, "entropy of the next token, nats", middle))
    parts.append(f'<g transform="translate(24 {top + height / 2}) rotate(-90)">{text(0, 0, "share of tokens, %", middle)}</g>')
    parts.append(text(left, y(0) + 64, f"{found['chains']:,} chains. {left_out(found)}.", 'font-size="10"'))
    parts.append(f'<path d="M{left},{top}V{top + height}H{left + width}" fill="none" stroke="black"/>')
    for left, name, title in ((650, "all", "Most frequent first tokens"), (910, "high", "… at or above the 90th percentile")):
        parts.append(text(left, 24, title, 'font-size="13"'))
        counts = found[name].most_common(_SHOWN)
        for row, (token, count) in enumerate(counts):
            down, length = top + row * height / _SHOWN, 90 * count / counts[0][1]
            parts.append(text(left + 104, down + 11, visible(token), 'text-anchor="end"'))
            size = f'width="{length:.1f}" height="11" fill="{_COLORS["first"]}" fill-opacity="0.7"'
            parts.append(f'<rect x="{left + 110}" y="{down + 2:.1f}" {size}/>')
            parts.append(text(left + 114 + length, down + 11, f"{count:,}", 'font-size="10"'))
    frame = 'xmlns="http://www.w3.org/2000/svg" width="1180" height="440" font-family="sans-serif" font-size="12"'
    return "\n".join([f'<svg {frame}>\n<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def visible(token: str) -> str:
    """A token in one short word: spaces and control characters are shown, since XML cannot hold the latter."""
    shown = "".join("␣" if letter == " " else letter if letter.isprintable() else "·" for letter in token)
    return shown if len(shown) <= 16 else f"{shown[:15]}…"
