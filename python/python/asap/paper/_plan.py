"""A plan: a TOML file that says which arms are pruned, trained and evaluated, and how."""

import functools
import os
import shlex
import shutil
import subprocess
import sys

from asap import _asap, _settings

try:
    import tomllib
except ImportError:
    import tomli as tomllib

# The keys of each table; a plan needs those with a mark. In prune and corpora, the flags of `asap run` are keys too.
_KEYS = {
    "plan": "to! model! benches! arms! seeds against no-accuracy prepare corpora prune train serve eval speeds",
    "prepare": "name! command!",
    "corpora": "from! benches!",
    "prune": "to set",
    "train": "command! epochs max-length",
    "serve": "command! url! health wait",
    "eval": "set concurrency temperature top-p samples stop limit python prompt suffix",
    "benches": "files! budgets! bench",
    "arms": "pipeline data kept set max-tokens ratio eval",
    "speeds": "scored-tokens trained-tokens generated-tokens calls",
}


class Failed(Exception):
    """A step failed, and with it all that needs it. The code is the exit code: 2 for a wrong plan, 75 if repeating helps."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


def asap_words(arguments):
    return [sys.executable, "-m", "asap", *arguments]


def words(command):
    """A command as a list. `asap` and `python` are those of this process."""
    found = shlex.split(command)
    return {"asap": asap_words([]), "python": [sys.executable]}.get(found[0], found[:1]) + found[1:] if found else []


def shown(command):
    """The command as a user types it."""
    command = ["asap", *command[3:]] if command[:3] == asap_words([]) else command
    return shlex.join("python" if word == sys.executable else word for word in command)


def error_of(text):
    """The error in what a program printed: asap's own, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["no message"])[-1]


@functools.lru_cache
def asap_command(*arguments):
    return subprocess.run(asap_words(arguments), capture_output=True, text=True)


def failure(*arguments):
    """The error of a command of asap, or None."""
    done = asap_command(*arguments)
    return error_of(done.stderr) if done.returncode else None


class Plan:
    """A plan. `problems` has a sentence for each (table, name) of an arm, a bench or a corpus that cannot be run."""

    def __init__(self, path, to=None, arms=None, seeds=None):
        self.path, self.problems = path, {}
        try:
            with open(path, "rb") as file:
                self.table = table = tomllib.load(file)
        except (OSError, ValueError) as error:
            raise self.wrong(getattr(error, "strerror", f"expected TOML: {error}")) from error
        self.check_keys("plan", table, "")
        for name in ("prune", "train", "serve", "eval", "speeds"):
            self.check_keys(name, table.setdefault(name, {}), f"[{name}] ")
        named = [(name, key, each) for name in ("corpora", "benches", "arms") for key, each in table.setdefault(name, {}).items()]
        for name, key, each in [*named, *(("prepare", "N", each) for each in table.setdefault("prepare", []))]:
            self.check_keys(name, each, f"[{name}.{key}] ")
        self.to, self.seeds = to or table["to"], seeds or table.get("seeds", [42])
        for name in arms or ():
            if name not in table["arms"]:
                raise self.wrong(f"there is no arm {name}; the plan has {', '.join(table['arms'])}")
        self.arms = {name: arm for name, arm in table["arms"].items() if not arms or name in arms}
        self.against = table.get("against", "original")
        self.check_values()

    def wrong(self, message):
        return Failed(f"{self.path}: {message}", 2)

    def check_keys(self, name, table, where):
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

    def check_values(self):
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
        for key in ("url", "health"):
            if not str(url := self.table["serve"].get(key, "http://")).startswith(("http://", "https://")):
                raise self.wrong(f"[serve] {key}: expected a URL such as http://localhost:8000/v1, found {url}")
        if not all(type(seed) is int for seed in self.seeds):
            raise self.wrong(f"seeds: expected whole numbers, found {self.seeds!r}")
        if any(map(self.is_trained, self.arms.values())) and not (self.table["train"] and self.table["corpora"]):
            raise self.wrong("an arm is trained, so the plan needs [train] and a [corpora.NAME]")

    @staticmethod
    def is_trained(arm):
        return "pipeline" in arm or "data" in arm

    def fill(self, text, seed, **more):
        """The text with its placeholders filled in. With the seed "{seed}", it shows whether it depends on the seed."""
        known = {"seed": seed, "to": self.to, "work": f"{self.to}/seed-{seed}", "plan": os.path.dirname(self.path) or ".",
                 "epochs": self.table["train"].get("epochs", ""), **more}
        for name, value in known.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def flags(self, table, seed):
        """The keys of a table as flags of a command of asap, and its settings as --set."""
        found = []
        for key, value in table.items():
            values = value if isinstance(value, list) else [value] if value is not False else []
            if key == "set":
                values = [f"asap.{name.removeprefix('asap.')}={_settings.text(each)}" for name, each in value.items()]
            found += [word for each in values for word in [f"--{key}", self.fill(str(each), seed)][: 1 if each is True else 2]]
        return found

    def prune_flags(self, corpus, arm, seed):
        """Flags of `asap run` for an arm. What the corpus and the arm state replaces what is stated for all."""
        shared, own = self.table["prune"], {key: arm[key] for key in ("max-tokens", "ratio") if key in arm}
        settings = {"set": {**shared.get("set", {}), **arm.get("set", {})}}
        merged = {**shared, **corpus, **own, **settings}
        return self.flags({key: value for key, value in merged.items() if key not in ("to", "from", "benches")}, seed)

    def sentence(self, key):
        return f"[{key[0]}] {key[1]}: {self.problems[key]}" if key[0] in ("train", "serve") else f"{key[1]}: {self.problems[key]}"

    def check(self):
        """Finds missing files, programs, pipelines and settings before anything is run."""
        table, seed = self.table, self.seeds[0]

        def is_made(path):  # Steps of the plan make what is in its folder.
            return os.path.abspath(path).startswith(os.path.abspath(self.to) + os.sep)

        def lost(kind, paths):
            for path in (self.fill(path, seed) for path in paths):
                if "://" not in path and not is_made(path) and not os.path.exists(path):
                    return f"there is no {kind} {path}"

        def lost_model(*settings):  # The tokenizer is enough to know that a model is there.
            return None if is_made(settings[-1].partition("=")[2]) else failure("sql", "-q", "-c", "SELECT cot_tokens('')", *settings)

        found = {("corpora", name): lost("corpus", [corpus["from"]]) for name, corpus in table["corpora"].items()}
        for name, bench in table["benches"].items():
            asked = ["eval", "--bench", bench.get("bench", name), *self.flags(table["eval"], seed)]
            found["benches", name] = lost("file", bench["files"]) or failure(*asked, "--help")
        for kind in ("train", "serve"):
            program = "".join(words(self.fill(table[kind].get("command", "python"), seed))[:1])
            found[kind, "command"] = None if shutil.which(program) else f"there is no program {program}"
        found["train", "model"] = lost_model("--set", f"asap.scorer.model={self.fill(table['model'], seed)}")
        for name, arm in self.arms.items():
            found["arms", name] = lost("data", [arm.get("data", ".")]) or failure("eval", *self.flags(arm.get("eval", {}), seed), "--help")
            if "pipeline" in arm and not found["arms", name]:
                flags = self.prune_flags(next(iter(table["corpora"].values())), arm, seed)
                models = [word for word in flags if word.startswith("asap.scorer.model=")]
                problem = failure("run", self.fill(arm["pipeline"], seed), "--print", *flags)
                found["arms", name] = problem or models and lost_model("--set", *models)
        self.problems = {key: problem for key, problem in found.items() if problem}
