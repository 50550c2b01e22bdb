"""Prints the steps that pruning removed from the first chain of a file, with the surprisal of each first token.

    python examples/removed_steps.py [TRACES]
"""

import sys

import asap

file = sys.argv[1] if len(sys.argv) > 1 else "data/trace.jsonl"
STEPS = """
    SELECT step['step'] AS number, step['dropped'] AS dropped, step['surprisal'] AS nats, text
    FROM (SELECT unnest(steps) AS step, unnest(cot_steps(original_cot)) AS text FROM pruned)
"""

pruned = asap.prune(file, "without_anchor", ratio=0.6, limit=1)

for step in asap.sql(STEPS, pruned=pruned.rows).to_pylist():
    sign = " " if step["dropped"] is None else "-"
    print(f"{sign} {step['number']:3} {step['nats']:6.2f}  {step['text'][:100]}")
