"""asap against evalplus: verdicts on the reference programs of HumanEval+ and on mutants of them, in CPU seconds.

    python3 benches/peers/programs.py HumanEvalPlus.jsonl

A mutant is a reference program with one operator or constant changed. Some mutants are right, for no test reaches the
change. The peer runs each program in a forked process, asap in its sandbox; both have a least time limit of 4 seconds.
"""

import ast
import json
import os
import random
import resource
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from common import ROOT, folder, is_with, target

PEER = "evalplus==0.3.1"
# Programs that are judged in all.
COUNT = 500
# The least time limit, in seconds.
LEAST = 4.0
SEED = 0
SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def main():
    if is_with("programs", PEER):
        from evalplus.gen.util import trusted_exec

        build()
        rows = [json.loads(line) for line in open(sys.argv[1])]
        for row in rows:
            row["program"] = row["prompt"] + row["canonical_solution"]
            for part in ("base", "plus"):
                inputs, entry = row[f"{part}_input"], row["entry_point"]
                row[part] = trusted_exec(row["program"], inputs, entry, record_time=True)
        programs = [(row, "reference", row["program"]) for row in rows]
        for seed in (SEED, SEED + 1, SEED + 2):
            programs += [(row, "mutant", mutant(row, seed)) for row in rows]
        compare(programs[:COUNT])


def mutant(row, seed):
    """Changes one operator or number of the entry point, drawn by the seed and the problem."""
    tree = ast.parse(row["program"])
    body = next(node for node in ast.walk(tree) if getattr(node, "name", None) == row["entry_point"])
    changes = [node for node in ast.walk(body) if change(node, apply=False)]
    if changes:
        change(random.Random(f"{seed} {row['task_id']}").choice(changes), apply=True)
    return ast.unparse(tree)


def change(node, apply):
    if isinstance(node, ast.Constant) and type(node.value) is int:
        if apply:
            node.value += 1
        return True
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        if apply:
            node.ops[0] = SWAPS[type(node.ops[0])]()
        return True
    if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS:
        if apply:
            node.op = SWAPS[type(node.op)]()
        return True
    return False


def compare(programs):
    responses = folder("programs") / "responses.jsonl"
    lines = [{"id": row["task_id"], "response": f"```python\n{program}\n```"} for row, _, program in programs]
    responses.write_text("".join(json.dumps(line) + "\n" for line in lines))
    references, first = measured(judge)
    print(f"{sum(verdict['reason'] == 'ok' for verdict in references)} of {len(references)} reference programs pass")
    # This run begins with the reference programs too.
    ours, seconds = measured(lambda: judge(responses))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        theirs, their_seconds = measured(lambda: list(threads.map(verdict_of_peer, programs)))
    print(f"{len(programs)} programs: ours {seconds - first:.1f} CPU s, evalplus {their_seconds:.1f} CPU s")
    table = Counter((kind, our["reason"] == "ok", their) for (_, kind, _), our, their in zip(programs, ours, theirs))
    for (kind, our, their), count in sorted(table.items()):
        print(f"{kind}: {count} that pass here {our}, with evalplus {their}")
    for (row, kind, program), our, their in zip(programs, ours, theirs):
        if (our["reason"] == "ok") != their:
            print(f"{row['task_id']} {kind}: ours {our}, evalplus {their}\n{program}\n")


def measured(work):
    """Returns the result and the CPU seconds of the processes that were started."""
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = work()
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return result, end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime


def build():
    command = ["cargo", "build", "--release", "--locked", "-p", "asap-programs", "--example", "judge"]
    subprocess.check_call(command, cwd=ROOT)


def judge(*responses):
    command = [target() / "release" / "examples" / "judge", "humaneval_plus", sys.argv[1], *responses]
    output = subprocess.check_output(command, text=True, env=dict(os.environ, PYTHON=sys.executable))
    return [json.loads(line) for line in output.splitlines()]


def verdict_of_peer(case):
    """evalplus runs the tests of HumanEval and those that it adds one after the other."""
    from evalplus.eval import PASS, untrusted_check

    row, _, program = case
    for part in ("base", "plus"):
        expected, seconds = row[part]
        status, _ = untrusted_check(
            "humaneval", program, row[f"{part}_input"], row["entry_point"], expected, row["atol"], seconds, True, LEAST
        )
        if status != PASS:
            return False
    return True


if __name__ == "__main__":
    main()
