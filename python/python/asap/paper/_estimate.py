"""A dry run: the commands of a plan, what is missing, and the calls, tokens, hours, disk and money that it takes at most."""

import functools
import gzip
import heapq
import json
import os
import shutil
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import asap
from asap.paper import _check
from asap.paper._cells import Cell, cells, preparations
from asap.paper._plan import Plan, Table, asap_command, shown
from asap.paper._tables import markdown, number

# Tokens per second of a model with this number of parameters, as docs/benchmarks.md and docs/models.md measured them.
_MEASURED = {"cuda": (31_000, 7.6e9, "a 7B shape on an H200"), "cpu": (302, 4.9e8, "Qwen2.5-0.5B, one core")}


class Part(NamedTuple):
    """One part of a step. Its speed is in tokens or calls per second."""

    calls: int | None = None
    tokens: int | None = None
    device: str | None = None
    speed: float | None = None
    source: str | None = None

    def hours(self) -> float | None:
        count = self.calls if self.source == "calls" else self.tokens
        return 0.0 if count == 0 else count / self.speed / 3600 if count and self.speed else None


def estimate(plan: Plan) -> int:
    """Prints all commands with estimates, and what is missing. Returns the exit code."""
    own, steps, parts, cost, asked = cells(plan), {}, {"prune": {}, "train": {}, "serve": {}}, 0.0, set()
    for seed in plan.seeds:
        steps |= dict(preparations(plan, seed))
    for cell in own:
        for name, command in cell.pruning():
            if name not in steps:
                parts["prune"][name], paid = pruning(cell, asked)
                cost = None if paid is None or cost is None else cost + paid
            steps[name] = command
    for cell in own:
        for name, command in cell.training()[1:]:
            steps[name], parts["train"][name] = command, [training(cell)]
    for cell in own:
        steps |= {f"serve/{cell.id}": cell.serve()} if plan.table["serve"] else {}
        steps |= dict(cell.asking())
        parts["serve"] |= {f"eval/{cell.id}/{bench}": [asking(cell, bench)] for bench in cell.benches}
    print("\n".join(f"# {name}\n{shown(command)}" for name, command in steps.items()))
    rows = [row(name, part) for each in parts.values() for name, found in each.items() for part in found]
    print(f"\n{markdown(['step', 'calls, at most', 'tokens, at most', 'where', 'per second', 'by', 'hours'], rows)}")
    print("–: the input is not there yet, or the speed is not known.\n")
    print(totals(plan, own, parts, cost))
    found = _check.lacks(plan, own)
    if found:
        print(f"error: {_check.sentence(plan, found)}", file=sys.stderr)
    return 2 if found else 0


def row(name: str, part: Part) -> list[str]:
    speed = "–" if part.speed is None else f"{part.speed:,.0f}" if part.speed >= 1 else f"{part.speed:g}"
    source = "[speeds] calls" if part.source == "calls" else part.source or "–"
    return [name, number(part.calls, ",.0f"), number(part.tokens, ",.0f"), part.device or "–", speed, source, number(part.hours(), ",.2f")]


def by_plan(plan: Plan, key: str, **part: Any) -> Part:
    """A part with the speed that the plan states."""
    speed = plan.table["speeds"].get(key)
    return Part(speed=speed, source=f"[speeds] {key}" if speed else "unknown", **part)


def totals(plan: Plan, own: list[Cell], parts: dict[str, dict[str, list[Part]]], cost: float | None) -> str:
    """The hours of each kind of steps, side by side, with disk and money."""
    lines, all_hours, is_known = [], 0.0, True
    words = {"prune": "pruning", "train": "training", "serve": "evaluation"}
    for kind, found in parts.items():
        of_jobs, calls = {}, 0.0
        for name, each in found.items():
            # A place asks one model for all of its benchmarks. All runs share the rate of calls.
            job = name.split("/")[1] if kind == "serve" else name
            known = [part.hours() for part in each]
            is_known = is_known and None not in known
            of_jobs[job] = of_jobs.get(job, 0.0) + sum(hours or 0.0 for hours in known)
            calls += sum(part.hours() or 0.0 for part in each if part.source == "calls")
        hours = max(side_by_side(list(of_jobs.values()), plan.places(kind)), calls)
        all_hours += hours
        lines.append(f"{words[kind]}: {hours:,.1f} hours, {plan.places(kind)} at a time")
    more = "" if is_known else " or more, since some steps have no estimate"
    cards = f", {all_hours * plan.gpus:,.0f} GPU hours" if plan.gpus else ""
    lines.append(f"in all: {all_hours:,.1f} hours{cards}{more}")
    disk = _check.disk(plan, [cell for cell in own if cell.prune], [cell for cell in own if cell.is_trained])
    lines.append(f"disk: {disk / 1e9:,.1f} GB at most, of {shutil.disk_usage(_check.existing(plan.to)).free / 1e9:,.1f} GB free")
    price = plan.table["prices"].get("gpu-hour")
    prices = "set anchor.price_per_million_input_tokens and anchor.price_per_million_output_tokens"
    lines.append(f"calls cost {cost:,.2f}" if cost is not None else f"calls cost an unknown amount: {prices}")
    if plan.gpus:
        lines.append(f"GPU hours cost {all_hours * plan.gpus * price:,.2f}" if price else "GPU hours cost an unknown amount: set [prices] gpu-hour")
    return "\n".join(lines)


def side_by_side(hours: Iterable[float], places: int) -> float:
    """The hours of jobs that start in turn, each as soon as a place is free."""
    free = [0.0] * places
    for each in hours:
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def pruning(cell: Cell, asked: set[Any]) -> tuple[list[Part], float | None]:
    """By `asap run --dry-run`, which assumes that the first sample of each row is accepted. Also returns the cost of the calls.
    `asked` holds the requests of other arms: arms with one cache and the same stage 1 pay once."""
    [(_, command)] = cell.pruning()
    done = asap_command(*command[3:], "--dry-run")
    if done.returncode:
        return [Part()], None
    found = json.loads(done.stdout.strip().splitlines()[-1])
    anchor, parts = found["anchor"], []
    calls, tokens = anchor["calls"], anchor["tokens_in"] + anchor["tokens_out"]
    stage_1 = setting(cell, "cache.dir"), cell.corpus, calls, tokens
    if stage_1 in asked:
        calls = 0
    elif stage_1[0]:
        asked.add(stage_1)
    if calls:
        parts.append(by_plan(cell.plan, "calls", calls=calls, tokens=tokens, device="endpoint")._replace(source="calls"))
    if encoder := found["encoder_tokens"]:
        parts.append(by_plan(cell.plan, "encoded-tokens", tokens=encoder, device=f"encoder: {where(found['encoder'])}"))
    if found["scored_tokens"] or not parts:
        parts.append(scoring(cell, found))
    return parts, 0.0 if not calls else anchor["cost"] or None


def setting(cell: Cell, name: str) -> Any:
    found = {**cell.plan.table["prune"].get("set", {}), **cell.plan.arms[cell.arm].get("set", {})}
    return found.get(name, found.get(f"asap.{name}"))


def scoring(cell: Cell, found: Table) -> Part:
    """The tokens that the scoring model reads, and where."""
    if not found["scored_tokens"]:
        return Part(tokens=0)
    held = found["scorer"]
    device = held.get("device") or held.get("backend") or "auto"
    part = by_plan(cell.plan, "scored-tokens", tokens=found["scored_tokens"], device=where(held))
    speed, size, what = _MEASURED.get(device.partition(":")[0], (None, 0, ""))
    own = _check.parameters(cell.plan, setting(cell, "scorer.model") or "")
    if part.speed or not speed or not own:
        return part
    count = (os.cpu_count() or 1) if device == "cpu" else device.count(",") + 1
    return part._replace(speed=speed * size / own * count, source=f"measured: {what}")


def where(held: Table) -> str:
    """The device of a model with its data type, or a backend that chooses both."""
    return " ".join(filter(None, [held.get("dtype"), "on" if held.get("dtype") else "", held.get("device") or held.get("backend") or "auto"]))


@functools.lru_cache
def lengths(location: str, scorer: str) -> tuple[int, float, float]:
    """The rows of a corpus, and the mean tokens of a chain and of the rest, by its first 1,000 rows."""
    rest = "cot_tokens(coalesce(question, '')) + cot_tokens(coalesce(answer, ''))"
    first = "(SELECT * FROM corpus WHERE cot IS NOT NULL LIMIT 1000)"
    sql = f"SELECT (SELECT count(*) FROM corpus) AS n, avg(cot_tokens(cot)) AS chain, avg({rest}) AS rest FROM {first}"
    return tuple(asap.sql(sql, location, settings={"scorer_model": scorer}).to_pylist()[0].values())


def of_corpus(cell: Cell) -> tuple[int, float, float]:
    """The rows of a cell, and the mean tokens of a chain and of the rest."""
    plan, corpus = cell.plan, cell.plan.table["corpora"][cell.corpus]
    rows, chain, rest = lengths(plan.fill(corpus["from"], cell.seed) if cell.prune else cell.data, cell.base)
    return min(rows, corpus.get("sample", rows), corpus.get("limit", rows)), chain, rest


def training(cell: Cell) -> Part:
    """The kept share of each chain, over all epochs; whole chains if others are learned with their context."""
    plan, arm = cell.plan, cell.plan.arms[cell.arm]
    try:
        rows, chain, rest = of_corpus(cell)
    except asap.Error:
        return Part()
    kept = arm.get("kept", arm.get("ratio", plan.table["prune"].get("ratio", 1.0))) if cell.prune and cell.loss == "all" else 1.0
    tokens = rows * (kept * chain + rest) * plan.table["train"].get("epochs", 1)
    return by_plan(plan, "trained-tokens", tokens=tokens, device=gpus(plan, "train"))


def gpus(plan: Plan, kind: str) -> str | None:
    count = plan.table[kind].get("gpus", plan.gpus if kind == "train" else 1)
    return f"{count} GPU{'' if count == 1 else 's'}" if plan.gpus else None


def asking(cell: Cell, bench: str) -> Part:
    """Each problem at each budget, to its end."""
    given, flags, problems = cell.plan.table["benches"][bench], cell.plan.table["eval"], 0
    try:
        for path in (cell.plan.fill(path, cell.seed) for path in given["files"]):
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
                problems += sum(1 for line in file if line.strip())
    except OSError:
        return Part()
    problems = min(problems, flags.get("limit", problems)) * flags.get("samples", 1)
    tokens = problems * sum(given["budgets"])
    return by_plan(cell.plan, "generated-tokens", calls=problems * len(given["budgets"]), tokens=tokens, device=gpus(cell.plan, "serve"))
