"""The paper's figure 2: the entropies of the first tokens of steps, and of all other tokens."""

import array
import collections
import math
import os
import statistics
from pathlib import Path
from xml.sax.saxutils import escape

import asap
from asap import _asap
from asap.paper._tables import put_csv

_BINS = 40
_SHOWN = 20
_COLORS = {"first": "#d95f02", "others": "#1b9e77"}
_NAMES = {"first": "first tokens", "others": "other tokens"}


def draw(args):
    pairs = (pair.removeprefix("asap.").partition("=") for pair in args.set)
    settings = {name.replace(".", "_"): value for name, _, value in pairs}
    chains = f"SELECT question, cot_steps(cot) AS steps FROM corpus WHERE cot IS NOT NULL LIMIT {args.limit or 'ALL'}"
    sql = f"SELECT cot_first_token(question, steps) AS tokens, cot_token_entropies(question, steps) AS entropies FROM ({chains})"
    batches = asap.sql(sql, args.source, settings=settings)
    found = collect((row["tokens"], row["entropies"]) for batch in batches for row in batch.to_pylist())
    write(found, args.to)
    shown = (f"{len(found[key]):,} {name}, 90th percentile {found['percentiles'][key]:.3f} nats" for key, name in _NAMES.items())
    print(f"{'; '.join(shown)}. The figure is in {args.to}.")


def collect(chains):
    """The entropies of first tokens and of all others, and how often each text is a first token: in all states, and at or above
    the 90th percentile of first tokens. A chain is the first token of each step, and the entropies of the tokens of each step."""
    first, others, texts = array.array("d"), array.array("d"), []
    for tokens, entropies in chains:
        for text, values in zip(tokens or (), entropies or ()):
            if text is not None and values and values[0] is not None:
                texts.append(text)
                first.append(values[0])
                others.extend(value for value in values[1:] if value is not None)
    if len(first) < 2 or len(others) < 2:
        raise _asap.Error("figure2 found no two scored steps with two tokens each")
    found = {"first": first, "others": others, "all": collections.Counter(sorted(texts))}
    found["percentiles"] = {key: statistics.quantiles(found[key], n=10, method="inclusive")[-1] for key in _NAMES}
    high = found["percentiles"]["first"]
    return {**found, "high": collections.Counter(sorted(text for text, value in zip(texts, first) if value >= high))}


def write(found, folder):
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
    for name in ("all", "high"):
        rows = [[text, n, n / found[name].total(), n / found["all"][text]] for text, n in found[name].most_common()]
        put_csv(f"{folder}/first_tokens_{name}.csv", ["first token", "count", "share", "share of its steps"], rows)
    Path(folder, "figure2.svg").write_text(svg(edges, shares, found))


def svg(edges, shares, found):
    width, height, top = 520, 320, 46
    tallest = max(map(max, shares.values()))
    x = [60 + width * edge / edges[-1] for edge in edges]

    def y(share):
        return top + height * (1 - share / tallest)

    def text(at, where, words, more=""):
        return f'<text x="{at:.1f}" y="{where:.1f}" {more}>{escape(words)}</text>'

    parts = [text(60, 24, "Entropy of the next token (nats)", 'font-size="15"')]
    for line, (key, color) in enumerate(_COLORS.items()):
        bars = "".join(f"M{low:.1f},{y(0):.1f}V{y(share):.1f}H{high:.1f}V{y(0):.1f}" for low, high, share in zip(x, x[1:], shares[key]))
        parts.append(f'<path d="{bars}" fill="{color}" fill-opacity="0.5" stroke="{color}"/>')
        percentile = found["percentiles"][key]
        at = 60 + width * percentile / edges[-1]
        parts.append(f'<path d="M{at:.1f},{top}V{y(0):.1f}" stroke="{color}" stroke-width="2" stroke-dasharray="6 4"/>')
        words = f"{_NAMES[key]}: 90th percentile {percentile:.2f}"
        parts.append(text(60 + width, top + 14 + 18 * line, words, f'fill="{color}" text-anchor="end"'))
    for nats in range(int(edges[-1]) + 1):
        parts.append(text(60 + width * nats / edges[-1], top + height + 18, f"{nats}", 'text-anchor="middle"'))
    parts += [text(54, y(tallest * part / 5) + 4, f"{20 * tallest * part:.0f} %", 'text-anchor="end"') for part in range(6)]
    parts.append(f'<path d="M60,{top}V{top + height}H{60 + width}" fill="none" stroke="black"/>')
    for left, name, title in ((640, "all", "Most frequent first tokens"), (870, "high", "… at or above the 90th percentile")):
        parts.append(text(left, 24, title, 'font-size="13"'))
        counts = found[name].most_common(_SHOWN)
        for row, (token, count) in enumerate(counts):
            down, length = top + row * height / _SHOWN, 90 * count / counts[0][1]
            parts.append(text(left + 80, down + 11, visible(token), 'text-anchor="end"'))
            size = f'width="{length:.1f}" height="11" fill="{_COLORS["first"]}" fill-opacity="0.7"'
            parts.append(f'<rect x="{left + 86}" y="{down + 2:.1f}" {size}/>')
            parts.append(text(left + 90 + length, down + 11, f"{count:,}", 'font-size="10"'))
    frame = 'xmlns="http://www.w3.org/2000/svg" width="1110" height="400" font-family="sans-serif" font-size="12"'
    return "\n".join([f'<svg {frame}>\n<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def visible(token):
    """A token in one short word: spaces and control characters are shown, since XML cannot hold the latter."""
    shown = "".join("␣" if letter == " " else letter if letter.isprintable() else "·" for letter in token)
    return shown if len(shown) <= 12 else f"{shown[:11]}…"
