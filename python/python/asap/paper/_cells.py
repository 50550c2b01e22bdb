"""The cells of a plan, which are its arms by corpora and seeds, with their steps."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator

from asap.paper._plan import Plan, Step, Table, asap_words, shown, words


class Cell:
    """One arm with one corpus and one seed: its commands, and where they write. An arm that is not trained has no corpus."""

    def __init__(self, plan: Plan, seed: int, name: str, corpus: str | None) -> None:
        self.plan, self.seed, self.arm, self.corpus = plan, seed, name, corpus
        self.error: str | None = None
        self.evals: dict[str, str] = {}
        self.prune: list[str] | None = None
        arm, table, own = plan.arms[name], plan.table, f"{plan.to}/seed-{seed}"
        self.loss, pruned = arm.get("loss", "all"), arm.get("output", name)
        self.is_trained, self.base = plan.is_trained(arm), plan.fill(table["model"], seed)
        self.label = f"{corpus}/{name}" if self.is_trained else name
        self.root, self.id, self.model = own, f"{self.label}-{seed}".replace("/", "-"), f"{own}/models/{self.label}"
        if not self.is_trained:
            self.benches, self.model = self.asked(table["benches"]), self.base
            # A model that no seed changes is evaluated once.
            texts = [table["model"], *(path for bench in table["benches"].values() for path in bench["files"])]
            if not any(self.depends(text) for text in texts):
                self.root, self.id = plan.to, name
            return
        given, arm = table["corpora"][corpus], table["arms"][pruned]
        self.benches, self.data, flags = self.asked(given["benches"]), plan.fill(arm.get("data", ""), seed), plan.prune_flags(given, arm, seed)
        if "pipeline" in arm:
            depends = self.depends(given["from"]) or flags != plan.prune_flags(given, arm, "{seed}")
            folder = f"{own}/pruned" if depends else plan.fill(table["prune"].get("to", "{to}/pruned"), seed)
            source, self.data = plan.fill(given["from"], seed), f"{folder}/{corpus}/{pruned}"
            self.prune = asap_words(["run", plan.fill(arm["pipeline"], seed), "--from", source, "--to", self.data, *flags, "--format", "json"])

    def asked(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.arm in self.plan.table["benches"][name].get("arms", [self.arm])]

    def depends(self, text: str) -> bool:
        return self.plan.fill(text, self.seed) != self.plan.fill(text, "{seed}")

    def pruning(self) -> list[Step]:
        """The steps that prune, with their names."""
        return [(f"prune/{os.path.relpath(self.data, self.plan.to)}", self.prune)] if self.prune else []

    def training(self) -> list[Step]:
        if not self.is_trained:
            return []
        table = self.plan.table["train"]
        values = {"model": self.base, "data": self.data, "out": self.model, "name": self.id, "loss": self.loss}
        most = str(table.get("max-length", 16_384))
        count = asap_words(["feed", "--data", self.data, "--model", self.base, "--count", "--max-length", most, "--loss", self.loss])
        return [(f"count/{self.id}", count), (f"train/{self.id}", words(self.plan.fill(table["command"], self.seed, **values)))]

    def asking(self) -> list[Step]:
        return [(f"eval/{self.id}/{bench}", self.ask(bench)) for bench in self.benches]

    def serve(self) -> list[str]:
        return words(self.plan.fill(self.plan.table["serve"]["command"], self.seed, model=self.model, name=self.id))

    def responses(self, bench: str) -> str:
        return f"{self.root}/eval/{self.label}/{bench}"

    def ask(self, bench: str) -> list[str]:
        plan, given, serve = self.plan, self.plan.table["benches"][bench], self.plan.table["serve"]
        files = [word for path in given["files"] for word in ("--data", plan.fill(path, self.seed))]
        model = ["--endpoint", serve["url"], "--model", self.id] if serve else ["--model", self.model]
        where = ["--budget", ",".join(map(str, sorted(given["budgets"]))), "--to", self.responses(bench), "--format", "json"]
        flags = plan.flags({**plan.table["eval"], **plan.arms[self.arm].get("eval", {})}, self.seed)
        return asap_words(["eval", "--bench", given.get("bench", bench), *files, *model, *where, *flags])


def cells(plan: Plan) -> list[Cell]:
    corpora, found = list(plan.table["corpora"]), {}
    for seed in plan.seeds:
        for name, arm in plan.arms.items():
            for corpus in arm.get("corpora", corpora) if plan.is_trained(arm) else [None]:
                cell = Cell(plan, seed, name, corpus)
                found.setdefault(cell.id, cell)
    return list(found.values())


def preparations(plan: Plan, seed: int) -> Iterator[Step]:
    """The names and commands of the steps before all arms. A step that no seed changes runs once."""
    for step in plan.table["prepare"]:
        text = plan.fill(step["command"], seed)
        name = step["name"] if text == plan.fill(step["command"], "{seed}") else f"seed-{seed}/{step['name']}"
        yield f"prepare/{name}", words(text)


def finished(folder: str) -> dict[str, Table]:
    """The records of the finished steps of a folder, by name."""
    done = {}
    with contextlib.suppress(FileNotFoundError), open(f"{folder}/steps.jsonl", "rb") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if record["state"] == "finished":
                    done[record["step"]] = record
    return done


def is_done(done: dict[str, Table], name: str, command: list[str]) -> bool:
    return done.get(name, {}).get("command") == shown(command)
