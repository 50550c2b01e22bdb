"""A plan: a TOML file that says which arms are pruned, trained and evaluated, and how."""

import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from asap import _asap, _settings

try:
    import tomllib
except ImportError:
    import tomli as tomllib

Table: TypeAlias = dict[str, Any]
# The name of a step, and its command.
Step: TypeAlias = tuple[str, list[str]]

# The keys of each table; a plan needs those with a mark. In prune and corpora, the flags of `asap run` are keys too.
_KEYS = {
    "plan": "to! model! benches! arms! seeds against no-accuracy gpus prepare corpora prune train serve eval speeds prices",
    "prepare": "name! command!",
    "corpora": "from! benches! fetch",
    "prune": "to set gpus",
    "train": "command! epochs max-length gpus",
    "serve": "command! url! health wait port gpus",
    "eval": "set concurrency temperature top-p samples stop limit python prompt suffix",
    "benches": "files! budgets! bench arms fetch",
    "arms": "pipeline data output loss kept set max-tokens ratio eval corpora",
    "speeds": "scored-tokens encoded-tokens trained-tokens generated-tokens calls",
    "prices": "gpu-hour",
}
# Keys of prune and corpora that are no flags of `asap run`.
_OWN = ("to", "from", "benches", "fetch", "gpus")


class Failed(Exception):
    """A step failed, and with it all that needs it. The code is the exit code: 2 for a wrong plan, 75 if repeating helps."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def asap_words(arguments: Iterable[str]) -> list[str]:
    return [sys.executable, "-m", "asap", *arguments]


def words(command: str) -> list[str]:
    """A command as a list. `asap` and `python` are those of this process."""
    found = shlex.split(command)
    return {"asap": asap_words([]), "python": [sys.executable]}.get(found[0], found[:1]) + found[1:] if found else []


def shown(command: Sequence[str]) -> str:
    """The command as a user types it."""
    command = ["asap", *command[3:]] if command[:3] == asap_words([]) else command
    return shlex.join("python" if word == sys.executable else word for word in command)


def error_of(text: str) -> str:
    """The error in what a program printed: asap's own, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["no message"])[-1]


@functools.lru_cache
def asap_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(asap_words(arguments), capture_output=True, text=True)


def failure(*arguments: str) -> str | None:
    """The error of a command of asap, or None."""
    done = asap_command(*arguments)
    return error_of(done.stderr) if done.returncode else None


def toml(text: str) -> Any:
    """A value of the command line: TOML, or else text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text


class Plan:
    """A plan, with the changes that the command line makes."""

    def __init__(
        self, path: str, to: str | None = None, arms: list[str] | None = None, seeds: list[int] | None = None,
        changes: Iterable[str] = (),
    ) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                self.table = table = tomllib.load(file)
        except (OSError, ValueError) as error:
            raise self.wrong(getattr(error, "strerror", f"expected TOML: {error}")) from error
        for change in changes:
            self.change(change)
        self.check_keys("plan", table, "")
        for name in ("prune", "train", "serve", "eval", "speeds", "prices"):
            self.check_keys(name, table.setdefault(name, {}), f"[{name}] ")
        named = [(name, key, each) for name in ("corpora", "benches", "arms") for key, each in table.setdefault(name, {}).items()]
        for name, key, each in [*named, *(("prepare", "N", each) for each in table.setdefault("prepare", []))]:
            self.check_keys(name, each, f"[{name}.{key}] ")
        self.to, self.seeds = to or table["to"], seeds or table.get("seeds", [42])
        for name in arms or ():
            if name not in table["arms"]:
                raise self.wrong(f"there is no arm {name}; the plan has {', '.join(table['arms'])}")
        self.arms = {name: arm for name, arm in table["arms"].items() if not arms or name in arms}
        self.against, self.gpus = table.get("against", "original"), table.get("gpus", 0)
        self.check_values()

    def wrong(self, message: str) -> Failed:
        return Failed(f"{self.path}: {message}", 2)

    def change(self, text: str) -> None:
        """Changes a key of the plan, as in `train.epochs=1`. Without a value, removes the key."""
        key, _, value = text.partition("=")
        try:
            nested, path = tomllib.loads(f"{key} = 0"), []
        except ValueError:
            raise self.wrong(f"--set {text}: expected KEY=VALUE, such as train.epochs=1") from None
        while isinstance(nested, dict):
            [(name, nested)] = nested.items()
            path.append(name)
        table = self.table
        for place, name in enumerate(path):
            if not isinstance(table, dict):
                raise self.wrong(f"--set {text}: {'.'.join(path[:place])} is no table")
            rest = ".".join(path[place:])
            # The names of settings have dots.
            if rest in table or rest == name or path[place - 1 : place] == ["set"]:
                table.pop(rest, None)
                if value:
                    table[rest] = toml(value)
                return
            table = table.setdefault(name, {})

    def check_keys(self, name: str, table: Any, where: str) -> None:
        keys = set(_KEYS[name].replace("!", "").split())
        if name in ("prune", "corpora"):
            keys |= {each.replace("_", "-") for each in (*_asap.flags(), "ratio", "max-tokens")} - {"dry-run", "quiet", "part"}
        if not isinstance(table, dict):
            raise self.wrong(f"{where}expected a table, found {table!r}")
        for key in table:
            if key not in keys:
                hint = _settings.nearest(key, {each.replace("-", "_"): each for each in keys})
                raise self.wrong(f"{where}has the unknown key {key}{hint}")
        for key in _KEYS[name].split():
            if key.endswith("!") and key[:-1] not in table and (table or name not in ("train", "serve")):
                raise self.wrong(f"{where}lacks the key {key[:-1]}")

    def check_values(self) -> None:
        asked, owners = {}, [bench for corpus in self.table["corpora"].values() for bench in corpus["benches"]]
        for bench in owners:
            if bench not in self.table["benches"] or owners.count(bench) > 1:
                raise self.wrong(f"[corpora.NAME] benches: expected the name of one [benches.NAME] in one corpus, found {bench}")
        for name, bench in self.table["benches"].items():
            budgets = bench["budgets"]
            if not isinstance(budgets, list) or not budgets or not all(type(each) is int and each > 0 for each in budgets):
                raise self.wrong(f"[benches.{name}] budgets: expected a list of whole numbers above 0, found {budgets!r}")
            for budget in budgets:
                first = asked.setdefault((bench.get("bench", name), budget), name)
                if first != name:
                    raise self.wrong(f"[benches.{name}] budgets: {budget} is also in [benches.{first}], which has the same benchmark")
        for name, known, lists in (("benches", "arms", "arms"), ("arms", "corpora", "corpora")):
            for key, each in self.table[name].items():
                for other in each.get(lists, ()):
                    if other not in self.table[known]:
                        raise self.wrong(f"[{name}.{key}] {lists}: expected names of [{known}.NAME], found {other}")
        for name, arm in self.table["arms"].items():
            if "pipeline" not in self.table["arms"].get(arm.get("output", name), {}) and "output" in arm:
                raise self.wrong(f"[arms.{name}] output: expected the name of an arm with a pipeline, found {arm['output']}")
            if arm.get("loss", "all") not in ("all", "kept"):
                raise self.wrong(f"[arms.{name}] loss: expected all or kept, found {arm['loss']}")
            if "loss" in arm and "{loss}" not in self.table["train"].get("command", ""):
                raise self.wrong(f"[arms.{name}] loss: expected the placeholder {{loss}} in the command of [train], as in --loss {{loss}}")
        for key in ("url", "health"):
            if not str(url := self.table["serve"].get(key, "http://")).startswith(("http://", "https://")):
                raise self.wrong(f"[serve] {key}: expected a URL such as http://localhost:8000/v1, found {url}")
        for kind in ("prune", "train", "serve"):
            own = self.table[kind].get("gpus", 1)
            if not all(type(each) is int for each in (self.gpus, own)) or own < 1 or self.gpus and own > self.gpus:
                raise self.wrong(f"[{kind}] gpus: expected a whole number from 1 to the gpus of the plan, {self.gpus}, found {own}")
        if self.places("serve") > 1 and "{port}" not in self.table["serve"].get("url", "{port}"):
            raise self.wrong(f"[serve] url: {self.places('serve')} servers run side by side, so expected {{port}} in url and command")
        if not all(type(seed) is int for seed in self.seeds):
            raise self.wrong(f"seeds: expected whole numbers, found {self.seeds!r}")
        if any(map(self.is_trained, self.arms.values())) and not (self.table["train"] and self.table["corpora"]):
            raise self.wrong("an arm is trained, so the plan needs [train] and a [corpora.NAME]")

    def places(self, kind: str) -> int:
        """How many steps of a kind run side by side. A training takes all GPUs, unless [train] states others."""
        own = self.table[kind].get("gpus", self.gpus if kind == "train" else 1)
        return max(self.gpus // own, 1) if own and (kind != "serve" or self.table["serve"]) else 1

    @staticmethod
    def is_trained(arm: Table) -> bool:
        return any(key in arm for key in ("pipeline", "data", "output"))

    def fill(self, text: str, seed: int | str, **more: str) -> str:
        """The text with its placeholders filled in. With the seed "{seed}", it shows whether it depends on the seed."""
        known = {"seed": seed, "to": self.to, "work": f"{self.to}/seed-{seed}", "plan": os.path.dirname(self.path) or ".",
                 "epochs": self.table["train"].get("epochs", ""), **more}
        for name, value in known.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def flags(self, table: Table, seed: int | str) -> list[str]:
        """The keys of a table as flags of a command of asap, and its settings as --set."""
        found = []
        for key, value in table.items():
            values: list[Any]
            if key == "set":
                values = [f"asap.{name.removeprefix('asap.')}={_settings.text(each)}" for name, each in value.items()]
            else:
                values = value if isinstance(value, list) else [value] if value is not False else []
            found += [word for each in values for word in [f"--{key}", self.fill(str(each), seed)][: 1 if each is True else 2]]
        return found

    def prune_flags(self, corpus: Table, arm: Table, seed: int | str) -> list[str]:
        """Flags of `asap run` for an arm. What the corpus and the arm state replaces what is stated for all."""
        shared, own = self.table["prune"], {key: arm[key] for key in ("max-tokens", "ratio") if key in arm}
        settings = {"set": {**shared.get("set", {}), **arm.get("set", {})}}
        merged = {**shared, **corpus, **own, **settings}
        return self.flags({key: value for key, value in merged.items() if key not in _OWN}, seed)
