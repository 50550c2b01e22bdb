"""The tables of a plan, as Markdown, CSV and LaTeX, next to the paper's."""

import collections
import contextlib
import csv
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import asap
from asap.paper._cells import Cell
from asap.paper._plan import Plan, Table, asap_command, error_of, tomllib

Row: TypeAlias = list[Any]
# By arm and corpus.
Figures: TypeAlias = dict[tuple[str, str], dict[str, Any]]

# The training efficiency, and how its figures are shown.
_FIGURES = {"share kept": ".3f", "rejects": ",.0f", "paid answers": ",.0f", "their tokens": ",.0f", "samples": ",.0f", "too long": ",.0f",
            "tokens per sample": ",.0f", "learned per sample": ",.0f", "steps": ",.0f", "seconds per step": ",.2f"}
_CHANGES = {"tokens per sample": "tokens, change in %", "seconds per step": "seconds, change in %"}
_SPECIAL = {"\\": r"\textbackslash{}", "–": "--", "−": "$-$", **{each: f"\\{each}" for each in "%_&#${}"}}


def number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form).replace("-", "−")


def markdown(head: Row, rows: Iterable[Row]) -> str:
    lines = [[str(each).replace("|", "\\|") for each in line] for line in (head, ["---"] * len(head), *rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex(title: str, head: Row, rows: Iterable[Row]) -> str:
    """A table at most as wide as the page, for the packages booktabs and graphicx. Long heads have two lines."""
    def line(cells: Iterable[str]) -> str:
        return " & ".join(cells) + " \\\\\n"

    def text(each: object) -> str:
        return str(each).translate(str.maketrans(_SPECIAL))

    heads = [r"\shortstack[r]{" + text(each).replace(" ", r" \\ ", 1) + "}" for each in head]
    fit = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"
    return (f"\\begin{{table*}}[t]\n\\centering\\footnotesize\n\\setlength{{\\tabcolsep}}{{4pt}}\n\\caption{{{text(title)}}}\n{fit}\n"
            f"\\begin{{tabular}}{{ll{'r' * (len(head) - 2)}}}\n\\toprule\n{line(heads)}\\midrule\n{''.join(line(map(text, row)) for row in rows)}"
            "\\bottomrule\n\\end{tabular}}\n\\end{table*}\n")


def put_csv(path: str, head: Row, rows: Iterable[Iterable[Any]]) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def query(sql: str, location: str) -> Table:
    """The only row of a query about a table, whose name is {}."""
    with contextlib.suppress(asap.Error):
        return asap.sql(sql.replace("{}", "'" + location.replace("'", "''") + "'")).to_pylist()[0]
    return {}


def mean(values: Iterable[Any]) -> float | None:
    values = [float(each) for each in values if each is not None]
    return sum(values) / len(values) if values else None


def write(plan: Plan, cells: list[Cell], done: dict[str, Table]) -> str:
    """Writes the tables, and returns their text."""
    folder = f"{plan.to}/tables"
    os.makedirs(folder, exist_ok=True)
    problems = ((cell.arm, problem) for cell in cells for problem in filter(None, [cell.error, *cell.evals.values()]))
    lacks = {f"- {arm}: {problem.removeprefix(f'{arm}: ')}\n" for arm, problem in problems}
    parts = [evaluations(plan, cells, folder, lacks), efficiency(plan, cells, done, folder)]
    parts.insert(0, "## Missing\n\n" + "".join(sorted(lacks)) if lacks else "")
    text = "\n".join([f"# {os.path.basename(plan.path)}\n", *filter(None, parts)])
    Path(folder, "tables.md").write_text(text)
    return f"{text}\nThese tables are in {folder}, also as CSV and LaTeX.\n"


def evaluations(plan: Plan, cells: list[Cell], folder: str, lacks: set[str]) -> str:
    """The tables of `asap eval --table`, in all of its formats."""
    named = {f"{cell.arm}={cell.responses(bench)}": cell.arm for cell in cells if not cell.error
             for bench in cell.benches if bench not in cell.evals}
    reason, text = plan.table.get("no-accuracy"), ""
    more = ["--no-accuracy", reason] if reason else ["--svg", f"{folder}/accuracy.svg", "--svg-budgets", f"{folder}/figure4.svg"]
    more += ["--base", plan.against] if plan.against in named.values() else []
    more += ["--published", "paper"] if printed(plan) else []
    for form, ending in {"csv": "csv", "json": "json", "latex": "tex", "table": "md"}.items() if named else ():
        done = asap_command("eval", "--table", *named, *more, "--format", form)
        if done.returncode:
            lacks.add(f"- tables: {error_of(done.stderr)}\n")
            return ""
        text = f"## Evaluation\n\n{done.stdout}"
        Path(folder, f"methods.{ending}").write_text(done.stdout)
    return text


def costs(cell: Cell, done: dict[str, Table]) -> Table:
    """What it took to prune and to train one cell."""
    count, seconds = done.get(f"count/{cell.id}", {}).get("summary", {}), {}
    with contextlib.suppress(OSError, ValueError, KeyError), open(f"{cell.model}/metrics.jsonl") as lines:
        # A resumed training makes some steps again.
        seconds = {row["step"]: row["seconds"] for row in map(json.loads, lines)}
    found = {"samples": count.get("examples"), "too long": count.get("too_long"), "steps": len(seconds) or None}
    of = {"tokens per sample": "tokens", "learned per sample": "learned"}
    # Trainings of earlier versions did not count learned tokens.
    found |= {name: count[key] / count["examples"] if count.get("examples") and key in count else None for name, key in of.items()}
    found |= {"seconds per step": mean(seconds.values())}
    if cell.prune:
        found |= query('SELECT sum(pruned_tokens) / sum(original_tokens + 0.0) AS "share kept" FROM {}', cell.data)
        found |= query("SELECT sum(rows_rejected) AS rejects FROM cot_history({}) WHERE operation = 'WRITE'", cell.data)
        # The commits leave out the calls of a run that was killed. The answers that an output stores itself do not.
        paid, own = 'AS "paid answers", sum(tokens_in + tokens_out) AS "their tokens" FROM', f"{cell.data}/.asap/cache"
        found |= query(f"SELECT count(DISTINCT key) {paid} {{}}", own) or query(f"SELECT sum(calls) {paid} cot_history({{}}) WHERE operation = 'WRITE'", cell.data)
    return found


def printed(plan: Plan) -> Figures:
    """The training efficiency that the paper prints, by arm and corpus, if the plan trains the paper's model."""
    found = tomllib.loads(Path(__file__).with_name("efficiency.toml").read_text())
    if os.path.basename(plan.table["model"]) != found["model"]:
        return {}
    return {(arm, corpus): dict(zip(_CHANGES, values)) for corpus in ("code", "math") for arm, values in found[corpus].items()}


def change(value: float | None, base: float | None) -> float | None:
    return 100 * (value / base - 1) if value and base else None


def efficiency(plan: Plan, cells: list[Cell], done: dict[str, Table], folder: str) -> str:
    """The training efficiency: means over seeds, and changes to the arm that all are compared with."""
    of_arm, rows = collections.defaultdict(list), []
    for cell in cells:
        if cell.is_trained and not cell.error:
            of_arm[cell.arm, cell.corpus].append(costs(cell, done))
    figures = {key: {name: mean(found.get(name) for found in each) for name in _FIGURES} for key, each in of_arm.items()}
    for (arm, corpus), found in figures.items():
        base = figures.get((plan.against, corpus), {})
        changes = [number(change(found[name], base.get(name)), "+.1f") for name in _CHANGES]
        rows.append([arm, corpus, *map(number, found.values(), _FIGURES.values()), *changes])
    put_csv(f"{folder}/efficiency.csv", ["arm", "corpus", *_FIGURES], [[*key, *found.values()] for key, found in figures.items()])
    note = f"Means over seeds. A sample is one example: prompt, chain and answer. Changes are against {plan.against}.\n"
    tables: dict[str, tuple[str, Row, list[Row]]] = {}
    if rows:
        tables["Training efficiency"] = (note, ["arm", "corpus", *_FIGURES, *_CHANGES.values()], rows)
    if (paper := printed(plan)).keys() & figures.keys():
        tables["Training efficiency, next to the paper's"] = beside(figures, paper)
    Path(folder, "efficiency.tex").write_text("\n".join(latex(title, *table[1:]) for title, table in tables.items()))
    text = "\n".join(f"## {title}\n\n{note}\n{markdown(head, rows)}" for title, (note, head, rows) in tables.items())
    Path(folder, "efficiency.md").write_text(text)
    return text


def beside(figures: Figures, paper: Figures) -> tuple[str, list[str], list[list[str]]]:
    """The figures of the run that the paper prints too, next to the paper's."""
    rows = []
    for key in (key for key in figures if key in paper):
        both = ((figures[key][name], paper[key][name], _FIGURES[name]) for name in _CHANGES)
        cells = ((number(own, form), number(found, form), number(change(own, found), "+.1f")) for own, found, form in both)
        rows.append([*key, *(text for each in cells for text in each)])
    head = ["arm", "corpus", *(text for name in _CHANGES for text in (name, "the paper's", "difference in %"))]
    return "The arms that the paper has too.\n", head, rows
