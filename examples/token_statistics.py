"""Counts steps and tokens of each chain with functions over a Polars data frame, and prints the longest chains.

    python examples/token_statistics.py [TRACES]
"""

import sys

import asap
import polars

file = sys.argv[1] if len(sys.argv) > 1 else "data/sample/openr1-math.parquet"
traces = asap.sql("SELECT id, cot FROM corpus WHERE status IS NULL LIMIT 200", corpus=file).to_polars()

traces = traces.with_columns(tokens=asap.tokens(traces["cot"]), steps=asap.steps(traces["cot"]))
traces = traces.with_columns(polars.col("steps").list.len())

print(traces.select(polars.len().alias("rows"), polars.col("tokens").sum(), polars.col("steps").mean().round(1)))
print(traces.sort("tokens", descending=True).select("id", "steps", "tokens").head(5))
