"""From Parquet to Parquet: one process of `asap sql` against `datasets.map` with difflib and tokenizers.

Both read the same file and use two cores. Seconds are CPU seconds of the processes and their children. The peer is slow,
so it processes only the first rows. Both are reported as rows per CPU second and per second. In those rows both must find
the same matches and count the same tokens.

A filter over the table `corpus` is compared with the same filter over its file. With `--before`, an older build reads the
same messages.

    python3 benches/peers/flow.py [--asap target/release/asap] [--rows 100000] [--peer-rows 2000] [--before OLDER]
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, folder, is_with, target

PEERS = ["datasets==4.4.1", "tokenizers==0.23.2", "pyarrow==22.0.0"]
THRESHOLD = 0.6
FOLDER = folder("flow")
MODEL = ROOT / "data" / "model"
STEPS = ["cot_steps(cot) AS steps", "cot_match(cot, cut) AS matches"]
TOKENS = ["cot_tokens(cot) AS tokens"]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--asap", type=Path, default=target() / "release" / "asap")
    arguments.add_argument("--rows", type=int, default=100_000)
    arguments.add_argument("--peer-rows", type=int, default=2_000)
    arguments.add_argument("--before", type=Path, help="an older build of asap, for the rows of messages")
    arguments.add_argument("--peer", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.peer:
        return run_peer(*given.peer.split(","))
    if not is_with("flow", *PEERS):
        return
    filters(given.asap, given.before)
    all_rows, few_rows = write(given.rows), write(given.peer_rows)
    print(f"{'':22} {'ours':>12} {'peer':>12} {'ratio':>8} {'goal':>6}   (rows per CPU second, then per second)")
    for name, columns, goal in [("steps, match", STEPS, 40), ("steps, match, tokens", STEPS + TOKENS, 15)]:
        ours = measured(command(given.asap, columns, all_rows))
        theirs = measured([sys.executable, __file__, "--peer", f"{few_rows},{len(columns)}"])
        measured(command(given.asap, ["cot"] + columns, few_rows))
        compare(few_rows)
        for kind in ["cpu", "seconds"]:
            our, their = given.rows / ours[kind], given.peer_rows / theirs[kind]
            print(f"{name:22} {our:12.0f} {their:12.1f} {our / their:6.1f} x {goal:4} x")
        print(f"{'':22} {ours['cpu'] / ours['seconds']:.1f} cores, {ours['memory'] / 1e6:.0f} MB of peak memory")


def filters(asap, before):
    """Prints the CPU seconds of filters over a corpus, of the same filter over the file, and of an older build: the least of
    five, one after the other."""
    flat, messages = write_corpora(400_000)
    print(f"{'':44} {'ours':>8} {'peer':>8} {'ratio':>8}   (CPU seconds)")
    for name, condition in [("length", "length(cot) > 600"), ("text", "cot LIKE '%Alternatively%'")]:
        over_corpus = f"SELECT count(*) FROM corpus WHERE {condition}"
        over_file = f"SELECT count(*) FROM '{flat}' WHERE {condition.replace('cot', 'reasoning')}"
        pairs = [(f"flat columns, {name}", [asap, flat, over_corpus], [asap, flat, over_file])]
        if before:
            pairs += [(f"messages, {name}", [asap, messages, over_corpus], [before, messages, over_corpus])]
        for title, ours, theirs in pairs:
            times = [[measured(query(*run))["cpu"] for run in (ours, theirs)] for _ in range(5)]
            our, their = map(min, zip(*times))
            print(f"{title:44} {our:8.2f} {their:8.2f} {our / their:8.2f}")


def query(asap, path, sql):
    return [asap, "sql", "-q", "--from", path, "-c", sql]


def measured(command):
    """Returns CPU seconds, seconds and peak memory in bytes of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    seconds = time.perf_counter() - start
    return {"cpu": usage.ru_utime + usage.ru_stime, "seconds": seconds, "memory": usage.ru_maxrss * 1024}


def command(asap, columns, path):
    query = f"COPY (SELECT {', '.join(columns)} FROM '{path}') TO '{FOLDER / 'ours.parquet'}'"
    return [asap, "sql", "-q", "--set", f"asap.scorer.model={MODEL}", "-c", query]


def compare(path):
    """Ends the script if the results differ."""
    from pyarrow.parquet import read_table

    ours = {row.pop("cot"): row for row in read_table(FOLDER / "ours.parquet").to_pylist()}
    for row, theirs in zip(read_table(path).to_pylist(), read_table(FOLDER / "peer.parquet").to_pylist()):
        for found in (ours[row["cot"]], theirs):
            del found["steps"]  # the peer drops the indentation of the first line
            found["matches"] = found["matches"] and [match["step"] for match in found["matches"]]
        if ours[row["cot"]] != theirs:
            sys.exit(f"the matches or tokens differ in {row['cot'][:20]}…")


def write(rows):
    """Writes chains of the sample, each with its row's number so that no two are equal, and every other step of them."""
    import pyarrow
    import pyarrow.parquet

    path = FOLDER / f"{rows}.parquet"
    if path.exists():
        return path
    generations = pyarrow.parquet.read_table(ROOT / "data/sample/codeforces-cots.parquet")["generation"].to_pylist()
    chains = [generation.split("</think>")[0].removeprefix("<think>").strip() for generation in generations]
    schema = pyarrow.schema([("cot", pyarrow.string()), ("cut", pyarrow.string())])
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for first in range(0, rows, 5_000):
            cots = [f"Row {row}. {chains[row % len(chains)]}" for row in range(first, min(first + 5_000, rows))]
            cuts = ["\n\n".join(steps_of(cot)[::2]) for cot in cots]
            writer.write_table(pyarrow.table({"cot": cots, "cut": cuts}, schema=schema))
    return path


def write_corpora(rows):
    """Writes questions, chains of 1,000 characters and answers: as columns, and as messages with think tags."""
    import pyarrow
    import pyarrow.parquet

    paths = [FOLDER / f"{name}-{rows}.parquet" for name in ("flat", "messages")]
    if all(path.exists() for path in paths):
        return paths
    generations = pyarrow.parquet.read_table(ROOT / "data/sample/codeforces-cots.parquet")["generation"].to_pylist()
    chains = [generation.split("</think>")[0].removeprefix("<think>").strip()[:1000] for generation in generations]
    made = [(f"Question {row}?", f"Row {row}. {chains[row % len(chains)]}", f"{row}") for row in range(rows)]
    questions, cots, answers = zip(*made)
    flat = pyarrow.table({"question": questions, "reasoning": cots, "answer": answers})
    pyarrow.parquet.write_table(flat, paths[0], compression="zstd")
    texts = ([("user", question), ("assistant", f"<think>\n{cot}\n</think>\n\n{answer}")] for question, cot, answer in made)
    messages = [[{"role": role, "content": text} for role, text in row] for row in texts]
    pyarrow.parquet.write_table(pyarrow.table({"messages": messages}), paths[1], compression="zstd")
    return paths


def steps_of(chain):
    return [step.strip() for step in re.split(r"(?:\r?\n){2,}", chain) if step.strip()]


def matches_of(original, coarse):
    """Algorithm 1 with difflib, as in published code, without autojunk."""
    from difflib import SequenceMatcher

    taken, step = [], 0
    for coarse_step in coarse:
        while step < len(original):
            similarity = SequenceMatcher(None, original[step], coarse_step, autojunk=False).ratio()
            step += 1
            if similarity >= THRESHOLD:
                taken.append({"step": step, "similarity": similarity})
                break
        else:
            return None
    return taken


def run_peer(path, columns):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets
    from tokenizers import Tokenizer

    datasets.disable_progress_bars()
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))

    def row(row):
        steps = steps_of(row["cot"])
        result = {"steps": steps, "matches": matches_of(steps, steps_of(row["cut"]))}
        if int(columns) == 3:
            result["tokens"] = len(tokenizer.encode(row["cot"], add_special_tokens=False))
        return result

    rows = datasets.Dataset.from_parquet(path, cache_dir=str(FOLDER / "cache"))
    rows = rows.map(row, num_proc=2, remove_columns=["cot", "cut"], load_from_cache_file=False)
    rows.to_parquet(str(FOLDER / "peer.parquet"))


if __name__ == "__main__":
    main()
