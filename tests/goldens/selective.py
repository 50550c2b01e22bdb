"""Makes entropies_*.jsonl (the entropy of every token of some chains of cots.jsonl, and the text of each step's first
token) and selective.jsonl (texts as Selective Context compresses them). Independent of asap: transformers 5.24.0 reads
every text in f64, uniseg 0.10.1 finds words and sentences, and numpy the percentile.

    python3 tests/goldens/selective.py
"""

import json
import sys

import numpy
import torch
from make import FOLDER, MODELS, mean, rows, spans, token_scores, tokenizer, write
from uniseg.sentencebreak import sentences
from uniseg.wordbreak import words

START = "<|endoftext|>"
# Chains up to this many tokens keep the files small.
LONGEST = 400
# No unit may be this near the threshold: rounding would decide whether it stays.
LEAST_MARGIN = 1e-5


def entropies(name):
    made = []
    for place, row in enumerate(rows(f"{name}/cots.jsonl")):
        question, steps = row["question"], row["steps"]
        encoding = tokenizer(name).encode(question + "\n\n".join(steps))
        if len(encoding.ids) > LONGEST:
            continue
        entropy = token_scores(name, "float64", encoding.ids)[1]
        own = [tokens for _, tokens in spans(encoding, question, steps)]
        text = tokenizer(name).decode
        made.append({
            "id": place,
            "entropies": [[round(entropy[token], 5) for token in tokens] if tokens else None for tokens in own],
            "first_tokens": [text([encoding.ids[t[0]]], skip_special_tokens=False) if t else None for t in own],
        })
    return made


def trimmed(pieces):
    """Returns the pieces that are not white space, as places in their text without the white space around them."""
    made, start = [], 0
    for piece in pieces:
        if piece.strip():
            begin = start + len(piece) - len(piece.lstrip())
            made.append((begin, begin + len(piece.strip())))
        start += len(piece)
    return made


def units(text, level):
    """Returns the end of each unit in the text, and its self-information."""
    made = []
    for start, end in trimmed(sentences(text)):
        sentence = text[start:end]
        encoding = tokenizer("qwen2").encode(sentence, add_special_tokens=False)
        ids = [tokenizer("qwen2").token_to_id(START), *encoding.ids]
        tokens = list(zip(encoding.offsets, token_scores("qwen2", "float64", ids)[0][1:]))
        if level == "sentence":
            places = [(0, len(sentence))]
        elif level == "word":
            places = trimmed(words(sentence))
        else:
            places = []
            for (begin, stop), _ in tokens:
                # Tokens that share a character are one unit.
                if places and begin < places[-1][1]:
                    begin = places.pop()[0]
                places.append((begin, stop))
        shares = [[] for _ in places]
        for (first, last), nats in tokens:
            covered = [unit for unit, (begin, stop) in enumerate(places) if begin < last and first < stop]
            for unit in covered:
                shares[unit].append(nats / len(covered))
        made += [(start + stop, mean(own) if own else numpy.nan) for (_, stop), own in zip(places, shares)]
    return made


def compressed(text, ratio, level):
    of_text = units(text, level)
    threshold = numpy.nanpercentile([nats for _, nats in of_text], 100 * (1 - ratio))
    kept, start = "", 0
    for end, nats in of_text:
        if 0 < abs(nats - threshold) < LEAST_MARGIN:
            sys.exit(f"choose another ratio than {ratio} for {text[:40]!r}: a {level} is too near the threshold")
        if not nats < threshold:
            kept += text[start:end]
        start = end
    return kept.strip()


def selective():
    made = []
    for row in rows("selective.jsonl"):
        of_levels = {level: compressed(row["text"], row["ratio"], level) for level in ["word", "token", "sentence"]}
        made.append({"text": row["text"], "ratio": row["ratio"], **of_levels})
    return made


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in MODELS:
        write(FOLDER / f"entropies_{name}.jsonl", entropies(name))
    write(FOLDER / "selective.jsonl", selective())
