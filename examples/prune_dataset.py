"""Prunes a dataset of traces to 60 % of its tokens, and prints what a trainer reads of the first row.

    python examples/prune_dataset.py [TRACES]
"""

import sys

import asap
from datasets import load_dataset

file = sys.argv[1] if len(sys.argv) > 1 else "data/sample/openr1-math.parquet"
traces = load_dataset("parquet", data_files=file, split="train[:50]")

pruned = asap.prune(traces, "without_anchor", ratio=0.6)

before, after = pruned.summary["tokens_before"], pruned.summary["tokens_out"]
print(f"{len(pruned.rows)} of {len(traces)} rows, {before:,} tokens before, {after:,} after")
train = pruned.rows.select_columns(["prompt", "completion"])
print(train[0]["completion"][0]["content"][:300])
