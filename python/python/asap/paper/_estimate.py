"""A dry run: the commands of a plan, with the calls, tokens and hours that they take at most."""

import functools
import gzip
import json
import sys

import asap
from asap.paper._plan import asap_command, shown
from asap.paper._run import cells, preparations
from asap.paper._tables import markdown, number

_UNKNOWN = (None, None, None)


def estimate(plan):
    """Prints all commands with estimates. Returns the exit code."""
    plan.check()
    steps = {name: (command, _UNKNOWN) for seed in plan.seeds for name, command in preparations(plan, seed)}
    for cell in cells(plan):
        if cell.prune:
            steps.setdefault(f"prune/{cell.data}", (cell.prune, pruning(cell)))
        if cell.is_trained:
            steps[f"train/{cell.id}"] = cell.train(), training(cell)
        if plan.table["serve"]:
            steps[f"serve/{cell.id}"] = cell.serve(), _UNKNOWN
        steps |= {f"eval/{cell.id}/{bench}": (cell.ask(bench), asking(cell, bench)) for bench in cell.benches}
    print("\n".join(f"# {name}\n{shown(command)}" for name, (command, _) in steps.items()))
    found = {name: figures for name, (_, figures) in steps.items()}
    found["all that is known"] = [sum(each or 0 for each in column) for column in zip(*found.values())]
    rows = [[name, *map(number, figures, (",.0f", ",.0f", ",.2f"))] for name, figures in found.items()]
    print(f"\n{markdown(['step', 'calls, at most', 'tokens, at most', 'hours'], rows)}")
    print("–: the input is not there yet, or [speeds] does not state a speed.")
    print(*(f"error: {plan.sentence(key)}\n" for key in plan.problems), sep="", end="", file=sys.stderr)
    return 1 if plan.problems else 0


def hours(cell, **counts):
    """The hours of tokens and calls at the speeds of the plan."""
    known = [(count, cell.plan.table["speeds"].get(name.replace("_", "-"))) for name, count in counts.items() if count]
    return None if any(not speed for _, speed in known) else sum(count / speed for count, speed in known) / 3600


def pruning(cell):
    """By `asap run --dry-run`, which assumes that the first sample of each row is accepted."""
    done = asap_command(*cell.prune[3:], "--dry-run")
    if done.returncode:
        return _UNKNOWN
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
        return _UNKNOWN
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
        return _UNKNOWN
    problems = min(problems, flags.get("limit", problems)) * flags.get("samples", 1)
    tokens = problems * sum(given["budgets"])
    return problems * len(given["budgets"]), tokens, hours(cell, generated_tokens=tokens)
