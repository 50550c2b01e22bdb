"""The paper's figure 2: the entropies of the first tokens of steps, and of all other tokens."""

import array
import collections
import os
from xml.sax.saxutils import escape

import asap
from asap import _asap
from asap.paper._tables import put, put_csv

_BINS = 40
_SHOWN = 20
_COLORS = ("#d95f02", "#1b9e77")


def draw(args):
    settings = dict(pair.partition("=")[::2] for pair in args.set)
    settings = {name.removeprefix("asap.").replace(".", "_"): value for name, value in settings.items()}
    limit = f" LIMIT {args.limit}" if args.limit else ""
    chains = f"SELECT question, cot_steps(cot) AS steps FROM corpus WHERE cot IS NOT NULL{limit}"
    sql = f"SELECT cot_first_token(question, steps) AS tokens, cot_token_entropies(question, steps) AS entropies FROM ({chains})"
    batches = asap.sql(sql, args.source, settings=settings)
    found = collect((row["tokens"], row["entropies"]) for batch in batches for row in batch.to_pylist())
    write(found, args.to)
    first, others = found["percentiles"]
    print(f"{len(found['first']):,} first tokens, 90th percentile {first:.3f} nats; {len(found['others']):,} other tokens, "
          f"90th percentile {others:.3f} nats. The figure is in {args.to}.")
    return 0


def collect(chains):
    """The entropies of first tokens and of all others, and how often each text is a first token: in all states, and at or above
    the 90th percentile of first tokens. A chain is the first token of each step, and the entropies of the tokens of each step."""
    import numpy

    first, others, texts = array.array("d"), array.array("d"), []
    for tokens, entropies in chains:
        for text, values in zip(tokens or (), entropies or ()):
            if text is None or not values or values[0] is None:
                continue
            texts.append(text)
            first.append(values[0])
            others.extend(value for value in values[1:] if value is not None)
    if not first or not others:
        raise _asap.Error("figure2 found no scored step with at least two tokens")
    first, others = numpy.array(first), numpy.array(others)
    percentiles = [float(numpy.percentile(values, 90)) for values in (first, others)]
    high = [text for text, value in zip(texts, first) if value >= percentiles[0]]
    counts = {"all": collections.Counter(texts), "high": collections.Counter(high)}
    return {"first": first, "others": others, "percentiles": percentiles, **counts}


def write(found, folder):
    import numpy

    os.makedirs(folder, exist_ok=True)
    edges = numpy.linspace(0.0, numpy.ceil(max(found["first"].max(), found["others"].max(), 1.0)), _BINS + 1)
    shares = [numpy.histogram(found[name], edges)[0] / len(found[name]) for name in ("first", "others")]
    rows = [(float(low), float(high), *map(float, each)) for low, high, *each in zip(edges, edges[1:], *shares)]
    put_csv(f"{folder}/entropies.csv", ["from nats", "to nats", "share of first tokens", "share of other tokens"], rows)
    summary = [[name, len(found[key]), float(found[key].mean()), percentile]
               for name, key, percentile in zip(("first tokens", "other tokens"), ("first", "others"), found["percentiles"])]
    put_csv(f"{folder}/percentiles.csv", ["tokens", "count", "mean nats", "90th percentile, nats"], summary)
    for name in ("all", "high"):
        count = sum(found[name].values())
        tokens = sorted(found[name].items(), key=lambda item: (-item[1], item[0]))
        head = ["first token", "count", "share", "share of its steps"]
        put_csv(f"{folder}/first_tokens_{name}.csv", head, [[text, n, n / count, n / found["all"][text]] for text, n in tokens])
    put(f"{folder}/figure2.svg", svg(edges, shares, found))


def svg(edges, shares, found):
    width, height, top = 520, 320, 46
    tallest, largest = max(share.max() for share in shares), edges[-1]
    def x(value):
        return 60 + width * value / largest

    def y(share):
        return top + height * (1 - share / tallest)

    def text(at, where, words, more=""):
        return f'<text x="{at:.1f}" y="{where:.1f}" {more}>{escape(words)}</text>'

    parts = [text(60, 24, "Entropy of the next token (nats)", 'font-size="15"')]
    for share, color, name, percentile, line in zip(shares, _COLORS, ("first tokens", "other tokens"), found["percentiles"], (0, 1)):
        bars = "".join(f"M{x(low):.1f},{y(0):.1f}V{y(each):.1f}H{x(high):.1f}V{y(0):.1f}"
                       for low, high, each in zip(edges, edges[1:], share))
        parts.append(f'<path d="{bars}" fill="{color}" fill-opacity="0.5" stroke="{color}"/>')
        parts.append(f'<path d="M{x(percentile):.1f},{top}V{y(0):.1f}" stroke="{color}" stroke-width="2" stroke-dasharray="6 4"/>')
        words, more = f"{name}: 90th percentile {percentile:.2f}", f'fill="{color}" text-anchor="end"'
        parts.append(text(60 + width, top + 14 + 18 * line, words, more))
    parts += [text(x(value), top + height + 18, f"{value}", 'text-anchor="middle"') for value in range(int(largest) + 1)]
    parts += [text(54, y(tallest * part / 5) + 4, f"{20 * tallest * part:.0f} %", 'text-anchor="end"') for part in range(6)]
    parts.append(f'<path d="M60,{top}V{top + height}H{60 + width}" fill="none" stroke="black"/>')
    titles = {"all": "Most frequent first tokens", "high": "… at or above the 90th percentile"}
    for left, (name, title) in zip((640, 870), titles.items()):
        parts.append(text(left, 24, title, 'font-size="13"'))
        counts = sorted(found[name].items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
        for row, (token, count) in enumerate(counts):
            down, length = top + row * height / _SHOWN, 90 * count / counts[0][1]
            parts.append(text(left + 80, down + 11, visible(token), 'text-anchor="end"'))
            place = f'x="{left + 86}" y="{down + 2:.1f}" width="{length:.1f}" height="11"'
            parts.append(f'<rect {place} fill="{_COLORS[0]}" fill-opacity="0.7"/>')
            parts.append(text(left + 90 + length, down + 11, f"{count:,}", 'font-size="10"'))
    body = "\n".join(parts)
    frame = 'xmlns="http://www.w3.org/2000/svg" width="1110" height="400" font-family="sans-serif" font-size="12"'
    return f'<svg {frame}>\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'


def visible(token):
    """A token in one short word: spaces and control characters are shown, since XML cannot hold the latter."""
    shown = "".join("␣" if letter == " " else letter if letter.isprintable() else "·" for letter in token)
    return shown if len(shown) <= 12 else f"{shown[:11]}…"
