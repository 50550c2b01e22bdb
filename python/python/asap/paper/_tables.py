"""The tables of a plan, as Markdown and CSV."""

import collections
import contextlib
import csv
import io
import json
import os
import statistics

import asap


def number(value, form=",.1f"):
    return "–" if value is None else format(value, form).replace("-", "−")


def markdown(head, rows):
    lines = [[str(each).replace("|", "\\|") for each in line] for line in (head, ["---"] * len(head), *rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.partial", "w", newline="") as file:
        file.write(text)
    os.replace(f"{path}.partial", path)


def put_csv(path, head, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    put(path, text.getvalue())


def query(sql, location):
    """The rows of a query about a table, whose name is {}."""
    with contextlib.suppress(asap.Error):
        return asap.sql(sql.replace("{}", "'" + location.replace("'", "''") + "'")).to_pylist()
    return []


def mean(values):
    values = [float(each) for each in values if each is not None]
    return sum(values) / len(values) if values else None


def write(plan, cells, done):
    """Writes the tables, and returns their text."""
    folder, answers = f"{plan.to}/tables", read(cells)
    lacks = {f"- {cell.arm}: {cell.error}\n" for cell in cells if cell.error}
    lacks |= {f"- {cell.arm}: {problem}\n" for cell in cells for problem in cell.evals.values()}
    lacks |= {f"- accuracies: {plan.table['no-accuracy']}\n"} if "no-accuracy" in plan.table else set()
    parts = ["## Missing\n\n" + "".join(sorted(lacks))] if lacks else []
    parts += [methods(plan, answers, folder), efficiency(plan, cells, done, folder), significance(plan, answers, folder)]
    text = "\n".join([f"# {os.path.basename(plan.path)}\n", *filter(None, parts)])
    put(f"{folder}/tables.md", text)
    return f"{text}\nThese tables are in {folder}, also as CSV.\n"


def read(cells):
    """The graded responses by arm, bench, budget and seed."""
    found, locations = collections.defaultdict(list), {}
    for cell in cells:
        if not cell.error:
            locations |= {cell.responses(bench): (cell, bench) for bench in cell.benches if bench not in cell.evals}
    for location, (cell, bench) in locations.items():
        for row in query("SELECT budget, id, correct, tokens, seconds FROM {} WHERE correct IS NOT NULL", location):
            found[cell.arm, bench, row["budget"], cell.seed].append(row)
    return found


def methods(plan, answers, folder):
    """Methods by benchmarks, and methods by budgets for each benchmark."""
    benches, figures, texts = plan.table["benches"], {}, {}
    for key in [(arm, bench, budget) for arm in plan.arms for bench, given in benches.items() for budget in sorted(given["budgets"])]:
        of_seeds = list(filter(None, (answers.get((*key, seed)) for seed in plan.seeds)))
        right = [] if "no-accuracy" in plan.table else [100 * mean(row["correct"] for row in rows) for rows in of_seeds]
        spread = statistics.stdev(right) if len(right) > 1 else None
        tokens, seconds = (mean(row[column] for rows in of_seeds for row in rows) for column in ("tokens", "seconds"))
        figures[key] = mean(right), spread, tokens, seconds
        accuracy = number(mean(right)) + (f" ± {number(spread)}" if len(right) > 1 else "")
        texts[key] = f"{accuracy} / {number(tokens, ',.0f')} / {number(seconds, '.2f')}"
    head = ["arm", "bench", "budget", "accuracy, %", "standard deviation over seeds", "tokens", "seconds"]
    put_csv(f"{folder}/methods.csv", head, [[*key, *found] for key, found in figures.items()])
    tables = {"Methods by benchmarks": [(bench, given["budget"]) for bench, given in benches.items()]}
    tables |= {f"{bench} by budgets": [(bench, budget) for budget in sorted(given["budgets"])] for bench, given in benches.items()}
    parts = ["Accuracy in percent (± its standard deviation over seeds), mean tokens of a response, mean seconds of a request.\n"]
    for title, columns in tables.items():
        rows = [[arm, *(texts[arm, bench, budget] for bench, budget in columns)] for arm in plan.arms]
        parts.append(f"## {title}\n\n{markdown(['arm', *(f'{bench}, {budget:,}' for bench, budget in columns)], rows)}")
    return "\n".join(parts)


def costs(cell, done):
    """What it took to prune and to train one cell."""
    count = done.get(f"count/{cell.id}", {}).get("summary", {})
    examples, seconds = count.get("examples"), {}
    with contextlib.suppress(OSError, ValueError, KeyError), open(f"{cell.model}/metrics.jsonl") as lines:
        # A resumed training makes some steps again.
        seconds = {row["step"]: row["seconds"] for row in map(json.loads, lines)}
    found = {}
    if cell.prune:
        found |= (query("SELECT sum(pruned_tokens) / sum(original_tokens + 0.0) AS share FROM {}", cell.data) or [{}])[0]
        found |= (query("SELECT sum(rows_rejected) AS rejects FROM cot_history({}) WHERE operation = 'WRITE'", cell.data) or [{}])[0]
        # The commits leave out the calls of a run that was killed. The stored answers do not.
        paid = "SELECT count(DISTINCT key) AS answers, sum(tokens_in + tokens_out) AS tokens FROM {}"
        found |= (query(paid, f"{cell.data}/.asap/cache") or [{"answers": 0, "tokens": 0}])[0]
    return [*map(found.get, ("share", "rejects", "answers", "tokens")), examples, count.get("too_long"),
            count["tokens"] / examples if examples else None, len(seconds) or None, mean(seconds.values())]


def efficiency(plan, cells, done, folder):
    """The training efficiency: means over seeds, and changes to the arm that all are compared with."""
    names = ["share kept", "rejects", "paid answers", "their tokens", "samples", "too long", "tokens per sample", "steps", "seconds per step"]
    forms, of_arm = [".3f", ",.0f", ",.0f", ",.0f", ",.0f", ",.0f", ",.0f", ",.0f", ",.2f"], collections.defaultdict(list)
    for cell in cells:
        if cell.is_trained and not cell.error:
            of_arm[cell.arm, cell.corpus].append(costs(cell, done))
    figures = {key: list(map(mean, zip(*each))) for key, each in of_arm.items()}
    rows = []
    for (arm, corpus), found in figures.items():
        base = figures.get((plan.against, corpus), [None] * len(names))
        pairs = [(found[place], base[place]) for place in (6, 8)]
        changes = [100 * (own / other - 1) if own is not None and other else None for own, other in pairs]
        rows.append([arm, corpus, *map(number, found, forms), *(number(each, "+.1f") for each in changes)])
    put_csv(f"{folder}/efficiency.csv", ["arm", "corpus", *names], [[*key, *found] for key, found in figures.items()])
    head = ["arm", "corpus", *names, "tokens, change in %", "seconds, change in %"]
    note = f"Means over seeds. A sample is one example: prompt, chain and answer. Changes are against {plan.against}.\n"
    return f"## Training efficiency\n\n{note}\n{markdown(head, rows)}" if rows else ""


def by_problem(plan, answers, arm, bench, column):
    """The mean of a figure for each problem: over samples, and over seeds if all seeds have the same problems."""
    given, values = plan.table["benches"][bench], collections.defaultdict(list)
    is_same = all(plan.fill(path, 1) == plan.fill(path, 2) for path in given["files"])
    for seed in plan.seeds:
        for row in answers.get((arm, bench, given["budget"], seed), ()):
            values[0 if is_same else seed, row["id"]].append(row[column])
    return {problem: mean(each) for problem, each in values.items()}


def compare(differences, is_accuracy):
    """The mean difference, its 95 % bootstrap interval, and a p-value."""
    import numpy
    from scipy import stats

    values, options = numpy.array(differences), {"n_resamples": 9_999, "batch": 500, "rng": 1}
    middle = float(values.mean())
    low = high = middle
    if len(set(differences)) > 1:
        low, high = stats.bootstrap((values,), numpy.mean, method="percentile", **options).confidence_interval
    if not values.any():
        return middle, low, high, 1.0
    if is_accuracy and set(differences) <= {-1.0, 0.0, 1.0}:
        better, worse = int((values > 0).sum()), int((values < 0).sum())
        return middle, low, high, stats.binomtest(better, better + worse).pvalue
    return middle, low, high, float(stats.permutation_test((values,), numpy.mean, permutation_type="samples", **options).pvalue)


def holm(values):
    """P-values after Holm's correction."""
    found, largest = dict.fromkeys(range(len(values))), 0.0
    for rank, place in enumerate(sorted(found, key=values.__getitem__)):
        found[place] = largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
    return list(found.values())


def significance(plan, answers, folder):
    """Whether an arm differs from the one that all are compared with."""
    head, rows, notes = ["arm", "bench", "figure", "problems", "difference", "from", "to", "p", "p (Holm)"], [], set()
    for column, scale in [("correct", 100.0), ("tokens", 1.0)]["no-accuracy" in plan.table:]:
        found = []
        for bench in plan.table["benches"]:
            base = by_problem(plan, answers, plan.against, bench, column)
            for arm in [arm for arm in plan.arms if arm != plan.against and base]:
                own = by_problem(plan, answers, arm, bench, column)
                if own and own.keys() != base.keys():
                    notes.add(f"{arm} and {plan.against} have different problems of {bench}, so they are not compared.\n")
                elif own:
                    middle, low, high, p = compare([own[problem] - base[problem] for problem in sorted(base)], column == "correct")
                    found.append([arm, bench, column, len(own), scale * middle, scale * low, scale * high, p])
        rows += [[*row, p] for row, p in zip(found, holm([row[-1] for row in found]))]
    put_csv(f"{folder}/significance.csv", head, rows)
    shown = [[*row[:4], *(number(each, "+.1f") for each in row[4:7]), *(f"{each:.3g}" for each in row[7:])] for row in rows]
    note = (f"Each arm minus {plan.against}, paired by problem: accuracy in points, and tokens, with 95 % bootstrap intervals. p of accuracies "
            "is McNemar's exact test if a problem has one response. Otherwise, p is a permutation of signs. Holm's correction covers all "
            "rows of a figure.\n")
    return f"## Significance\n\n{note}\n{markdown(head, shown)}{''.join(sorted(notes))}" if rows or notes else ""
