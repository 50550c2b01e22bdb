"""The functions of the wheel against SQL and against the same rules in Python through datasets, in CPU seconds of one run.

Run it with a Python that has the wheel and datasets: `pip install ./python datasets`. Each side runs in a process of its own,
and the results must be equal. A figure is the median of seven calls; datasets computes once. The CPU seconds are those of its threads and forked processes, without imports and the start of the engine.
"""

import os
import re
import subprocess
import sys
import tempfile
from itertools import chain, islice, cycle
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHAINS, PAIRS = 100_000, 100_000
SIDES = ("asap", "sql", "datasets")


def main():
    if len(sys.argv) > 1:
        return measure(*sys.argv[1:])
    print(f"{'CPU seconds':32} {'asap':>8} {'SQL':>8} {'ratio':>6} {'datasets':>9} {'ratio':>6}")
    for what in ("steps", "similarity"):
        found = {side: subprocess.check_output([sys.executable, __file__, what, side], text=True).split() for side in SIDES}
        if len({digest for _, digest in found.values()}) > 1:
            sys.exit(f"the results of {what} differ: {found}")
        ours, sql, python = (float(found[side][0]) for side in SIDES)
        print(f"{what:32} {ours:8.2f} {sql:8.2f} {ours / sql:6.2f} {python:9.1f} {python / ours:6.1f}")


def texts():
    """The chains of the sample, repeated."""
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(ROOT / "data/sample/openr1-math.parquet", columns=["generations"])
    return list(chain.from_iterable(filter(None, rows["generations"].to_pylist())))


def table(what):
    import pyarrow

    if what == "steps":
        return pyarrow.table({"cot": list(islice(cycle(texts()), CHAINS))})
    sentences = [part for text in texts() for part in split(text)]
    return pyarrow.table({"a": list(islice(cycle(sentences), PAIRS)), "b": list(islice(cycle(sentences[1:]), PAIRS))})


def split(cot):
    """The rule of cot_steps."""
    parts = (part.strip("\r\n").rstrip() for part in re.split(r"(?:\r?\n){2,}", cot))
    return [part for part in parts if part]


def similarity(a, b):
    from difflib import SequenceMatcher

    return SequenceMatcher(None, a, b, autojunk=False).ratio()


def work(what, side, data):
    """A function that computes a list of results."""
    import asap
    import datasets
    import pyarrow

    if side == "asap":
        columns = [data[name] for name in data.column_names]
        return lambda: getattr(asap, what)(*columns)
    if side == "sql":
        query = f"SELECT cot_{what}({', '.join(data.column_names)}) AS found FROM t"
        return lambda: pyarrow.table(asap.sql(query, t=data))["found"]
    rule = {
        "steps": lambda rows: {"found": [split(cot) for cot in rows["cot"]]},
        "similarity": lambda rows: {"found": [similarity(a, b) for a, b in zip(rows["a"], rows["b"])]},
    }[what]
    rows = datasets.Dataset(data)
    return lambda: rows.map(rule, batched=True, remove_columns=rows.column_names)["found"]


def measure(what, side):
    import hashlib

    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        datasets.config.HF_DATASETS_CACHE = folder
        data = table(what)
        # The first call opens the engine.
        work(what, side, data.slice(0, 10))()
        computed = work(what, side, data)
        seconds = []
        for _ in range(1 if side == "datasets" else 7):
            before = os.times()
            found = computed()
            seconds.append(sum(after - begun for after, begun in zip(os.times()[:4], before[:4])))
        values = found.to_pylist() if hasattr(found, "to_pylist") else list(found)
    # A query returns rows in any order.
    print(sorted(seconds)[len(seconds) // 2], hashlib.sha256(repr(sorted(map(repr, values))).encode()).hexdigest())


if __name__ == "__main__":
    main()
