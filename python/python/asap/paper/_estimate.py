"""A dry run: the commands of a plan, with the calls, tokens and hours that they take at most."""

import functools
import gzip
import json
import subprocess
import sys

import asap
from asap.paper._plan import asap_words, shown
from asap.paper._run import cells, preparations
from asap.paper._tables import markdown, number


def estimate(plan):
    """Prints all commands with estimates. Returns the exit code."""
    plan.check()
    steps = {}

    def add(name, command, estimated=lambda *_: (None, None, None), *of):
        if name not in steps:
            print(f"# {name}\n{shown(command)}")
            steps[name] = estimated(*of)

    for seed in plan.seeds:
        for name, command in preparations(plan, seed):
            add(name, command)
    for cell in cells(plan):
        if cell.prune:
            add(f"prune/{cell.data}", cell.prune, pruning, cell)
        if cell.is_trained:
            add(f"train/{cell.id}", cell.train(), training, cell)
        if plan.table["serve"]:
            add(f"serve/{cell.id}", cell.serve())
        for bench in cell.benches:
            add(f"eval/{cell.id}/{bench}", cell.ask(bench), asking, cell, bench)
    steps["all that is known"] = [sum(each[place] or 0 for each in steps.values()) for place in range(3)]
    rows = [[name, *map(number, each, (",.0f", ",.0f", ",.2f"))] for name, each in steps.items()]
    print(f"\n{markdown(['step', 'calls, at most', 'tokens, at most', 'hours'], rows)}")
    print("–: the input is not there yet, or [speeds] does not state a speed.")
    for key in plan.problems:
        print(f"error: {plan.sentence(key)}", file=sys.stderr)
    return 1 if plan.problems else 0


def hours(cell, **counts):
    """The hours of tokens and calls at the speeds of the plan."""
    speeds = {name.replace("-", "_"): speed for name, speed in cell.plan.table["speeds"].items()}
    known = [(count, speeds.get(name)) for name, count in counts.items() if count]
    return None if any(not speed for _, speed in known) else sum(count / speed for count, speed in known) / 3600


def pruning(cell):
    """By `asap run --dry-run`, which assumes that the first sample of each row is accepted."""
    done = subprocess.run([*cell.prune, "--dry-run"], capture_output=True, text=True)
    if done.returncode:
        return None, None, None
    found = json.loads(done.stdout.strip().splitlines()[-1])
    anchor, scored = found["anchor"], found["scored_tokens"]
    return anchor["calls"], scored + anchor["tokens_in"] + anchor["tokens_out"], hours(cell, scored_tokens=scored, calls=anchor["calls"])


@functools.lru_cache
def lengths(location, scorer):
    """The rows of a corpus, and the mean tokens of a chain and of the rest, by its first 1,000 rows."""
    rest = "cot_tokens(coalesce(question, '')) + cot_tokens(coalesce(answer, ''))"
    first = "(SELECT * FROM corpus WHERE cot IS NOT NULL LIMIT 1000)"
    sql = f"SELECT (SELECT count(*) FROM corpus) AS n, avg(cot_tokens(cot)) AS chain, avg({rest}) AS rest FROM {first}"
    return tuple(asap.sql(sql, location, settings={"scorer_model": scorer}).to_pylist()[0].values())


def training(cell):
    """The kept share of each chain, over all epochs."""
    plan, arm, corpus = cell.plan, cell.plan.arms[cell.arm], cell.plan.table["corpora"][cell.corpus]
    try:
        rows, chain, rest = lengths(plan.fill(corpus["from"], cell.seed) if cell.prune else cell.data, cell.base)
    except asap.Error:
        return None, None, None
    rows = min(rows, corpus.get("sample", rows), corpus.get("limit", rows))
    kept = arm.get("kept", arm.get("ratio", plan.table["prune"].get("ratio", 1.0))) if cell.prune else 1.0
    tokens = rows * (kept * chain + rest) * plan.table["train"].get("epochs", 1)
    return None, tokens, hours(cell, trained_tokens=tokens)


def asking(cell, bench):
    """Each problem at each budget, to its end."""
    given, flags, problems = cell.plan.table["benches"][bench], cell.plan.table["eval"], 0
    try:
        for path in (cell.plan.fill(path, cell.seed) for path in given["files"]):
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
                problems += sum(1 for line in file if line.strip())
    except OSError:
        return None, None, None
    problems = min(problems, flags.get("limit", problems)) * flags.get("samples", 1)
    tokens = problems * sum(given["budgets"])
    return problems * len(given["budgets"]), tokens, hours(cell, generated_tokens=tokens)
