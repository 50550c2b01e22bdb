"""Runs a plan step by step. Each step is one command, which resumes by itself. Finished steps are recorded and not run again."""

import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

from asap.paper import _tables
from asap.paper._plan import Failed, asap_words, error_of, shown, words


def terminate(*_):
    raise KeyboardInterrupt("SIGTERM")


def end_with_parent():
    """Asks this process to end when the runner ends, even if the runner is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Cell:
    """One arm with one corpus and one seed: its commands, and where they write. An arm that is not trained has no corpus."""

    def __init__(self, plan, seed, name, corpus):
        self.plan, self.seed, self.arm, self.corpus = plan, seed, name, corpus
        self.error, self.evals, self.prune = None, {}, None
        arm, table, own = plan.arms[name], plan.table, f"{plan.to}/seed-{seed}"
        self.is_trained, self.base = plan.is_trained(arm), plan.fill(table["model"], seed)
        self.label = f"{corpus}/{name}" if self.is_trained else name
        self.root, self.id, self.model = own, f"{self.label}-{seed}".replace("/", "-"), f"{own}/models/{self.label}"
        if not self.is_trained:
            self.benches, self.model = list(table["benches"]), self.base
            # A model that no seed changes is evaluated once.
            texts = [table["model"], *(path for bench in table["benches"].values() for path in bench["files"])]
            if not any(self.depends(text) for text in texts):
                self.root, self.id = plan.to, name
            return
        given = table["corpora"][corpus]
        self.benches, self.data, flags = given["benches"], plan.fill(arm.get("data", ""), seed), plan.prune_flags(given, arm, seed)
        if "pipeline" in arm:
            depends = self.depends(given["from"]) or flags != plan.prune_flags(given, arm, "{seed}")
            folder = f"{own}/pruned" if depends else plan.fill(table["prune"].get("to", "{to}/pruned"), seed)
            source, self.data = plan.fill(given["from"], seed), f"{folder}/{self.label}"
            self.prune = asap_words(["run", plan.fill(arm["pipeline"], seed), "--from", source, "--to", self.data, *flags, "--format", "json"])

    def depends(self, text):
        return self.plan.fill(text, self.seed) != self.plan.fill(text, "{seed}")

    def train(self):
        values = {"model": self.base, "data": self.data, "out": self.model, "name": self.id}
        return words(self.plan.fill(self.plan.table["train"]["command"], self.seed, **values))

    def count(self):
        most = self.plan.table["train"].get("max-length", 16_384)
        return asap_words(["feed", "--data", self.data, "--model", self.base, "--count", "--max-length", str(most)])

    def serve(self):
        return words(self.plan.fill(self.plan.table["serve"]["command"], self.seed, model=self.model, name=self.id))

    def responses(self, bench):
        return f"{self.root}/eval/{self.label}/{bench}"

    def ask(self, bench):
        plan, given, serve = self.plan, self.plan.table["benches"][bench], self.plan.table["serve"]
        files = [word for path in given["files"] for word in ("--data", plan.fill(path, self.seed))]
        model = ["--endpoint", serve["url"], "--model", self.id] if serve else ["--model", self.model]
        where = ["--budget", ",".join(map(str, sorted(given["budgets"]))), "--to", self.responses(bench), "--format", "json"]
        flags = plan.flags({**plan.table["eval"], **plan.arms[self.arm].get("eval", {})}, self.seed)
        return asap_words(["eval", "--bench", given.get("bench", bench), *files, *model, *where, *flags])


def cells(plan):
    corpora = list(plan.table["corpora"])
    return [Cell(plan, seed, name, corpus) for seed in plan.seeds for name, arm in plan.arms.items()
            for corpus in (corpora if plan.is_trained(arm) else [None])]


def preparations(plan, seed):
    """The names and commands of the steps before all arms. A step that no seed changes runs once."""
    for step in plan.table["prepare"]:
        text = plan.fill(step["command"], seed)
        name = step["name"] if text == plan.fill(step["command"], "{seed}") else f"seed-{seed}/{step['name']}"
        yield f"prepare/{name}", words(text)


class Steps:
    """The steps of a folder, recorded in steps.jsonl: one line when a step starts, and one when it ends."""

    def __init__(self, folder):
        os.makedirs(f"{folder}/logs", exist_ok=True)
        self.folder, self.path, self.done, self.failed = folder, f"{folder}/steps.jsonl", {}, {}
        # Children inherit the lock: it lasts until all processes of a killed run have ended.
        self.lock = open(f"{folder}/.lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            message = f"another run, or a command of a killed run, works in {folder}: run the same command again when it has ended"
            raise Failed(message, 75) from None
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    if record["state"] == "finished":
                        self.done[record["step"]] = record

    def record(self, **record):
        with open(self.path, "a") as file:
            # A kill may have left a part of a line.
            file.write("\n" + json.dumps({**record, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}, ensure_ascii=False))

    def is_done(self, name, command):
        return self.done.get(name, {}).get("command") == shown(command)

    def run(self, name, command):
        """Runs a step, unless it is finished."""
        text, log = shown(command), f"{self.folder}/logs/{name.replace('/', '-')}"
        if self.is_done(name, command):
            return
        if name in self.failed:
            raise self.failed[name]
        print(f"{name}: {text}", file=sys.stderr, flush=True)
        self.record(step=name, state="started", command=text)
        begun = time.monotonic()
        with open(f"{log}.out", "w+") as out, open(f"{log}.log", "w+") as messages:
            code = wait(self.start(command, out, messages))
            printed, said = [file.seek(0) or file.read() for file in (out, messages)]
        ended = {"step": name, "command": text, "seconds": round(time.monotonic() - begun, 3)}
        if code:
            why, how = error_of(said or printed), f"ended with code {code}" if code > 0 else f"was ended by signal {-code}"
            self.record(**ended, state="failed", error=why)
            # A process that was killed resumes.
            self.failed[name] = Failed(f"{name} {how}: {why} ({log}.log)", 75 if code == 75 or code < 0 else 1)
            raise self.failed[name]
        ended["summary"] = {}
        with contextlib.suppress(ValueError, IndexError):
            ended["summary"] = json.loads(printed.strip().splitlines()[-1])
        self.record(**ended, state="finished")
        self.done[name] = ended

    def start(self, command, out, messages):
        try:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=messages, pass_fds=[self.lock.fileno()],
                                    preexec_fn=end_with_parent)
        except OSError as error:
            raise Failed(f"cannot start {command[0]}: {error.strerror}") from error

    @contextlib.contextmanager
    def server(self, cell):
        """A server of the cell's model, if the plan has one. Yields a function that says why the server has ended."""
        serve = cell.plan.table["serve"]
        if not serve:
            yield lambda: None
            return
        health, most = serve.get("health", f"{serve['url'].rstrip('/')}/models"), serve.get("wait", 900)
        log, command = f"{self.folder}/logs/serve-{cell.id}.log", cell.serve()
        if answers(health):
            raise Failed(f"before the server of {cell.label} starts, another one already answers at {health}: stop it")
        print(f"serve/{cell.id}: {shown(command)}", file=sys.stderr, flush=True)
        with open(log, "w+") as messages:
            process, until = self.start(command, messages, messages), time.monotonic() + most

            def ended():
                why = process.poll() is not None and error_of(messages.seek(0) or messages.read())
                return why and f"the server of {cell.label} ended with code {process.returncode}: {why} ({log})"

            try:
                while not answers(health):
                    if ended():
                        raise Failed(ended())
                    if time.monotonic() > until:
                        raise Failed(f"the server of {cell.label} did not answer at {health} within {most} seconds ({log})")
                    time.sleep(0.2)
                yield ended
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(60)
                process.kill()
                process.wait()


def wait(process):
    try:
        return process.wait()
    except KeyboardInterrupt as interrupt:
        # The command commits what it has, and ends. Ctrl-C has reached it, and a second signal would end it at once.
        if interrupt.args:
            process.terminate()
        process.wait()
        raise


def answers(url):
    with contextlib.suppress(OSError, http.client.HTTPException), urllib.request.urlopen(url, timeout=5) as reply:
        return reply.status == 200


class Run:
    """One run of a plan, with its errors so far."""

    def __init__(self, plan):
        plan.check()
        self.plan, self.cells, self.steps = plan, cells(plan), Steps(plan.to)
        self.errors, self.code = [], 0

    def fail(self, error):
        self.code = max(self.code, error.code)
        if str(error) not in self.errors:
            self.errors.append(str(error))
            print(f"error: {error}", file=sys.stderr, flush=True)

    def run(self):
        """Runs all steps that are not finished, and writes the tables. Returns the exit code."""
        for problem in map(self.plan.sentence, self.plan.problems):
            self.fail(Failed(problem))
        try:
            for cell in self.cells:
                try:
                    self.run_cell(cell)
                except Failed as error:
                    cell.error = str(error)
                    self.fail(error)
        except KeyboardInterrupt:
            raise Failed("interrupted; run the same command to resume", 75) from None
        print(_tables.write(self.plan, self.cells, self.steps.done), end="")
        return self.code

    def run_cell(self, cell):
        os.makedirs(f"{self.plan.to}/seed-{cell.seed}", exist_ok=True)
        for name, command in preparations(self.plan, cell.seed):
            self.steps.run(name, command)
        needs = [("arms", cell.arm), ("train", "model"), ("serve", "command"), *([("corpora", cell.corpus), ("train", "command")] if cell.is_trained else [])]
        for key in filter(self.plan.problems.get, needs):
            raise Failed(self.plan.sentence(key))
        if cell.prune:
            self.steps.run(f"prune/{os.path.relpath(cell.data, self.plan.to)}", cell.prune)
        if cell.is_trained:
            self.steps.run(f"count/{cell.id}", cell.count())
            before = self.steps.done.get(f"train/{cell.id}", {}).get("command", shown(cell.train()))
            if before != shown(cell.train()):
                # The stored responses are those of the model that was trained first.
                raise Failed(f"{cell.model} was trained by another command: use another --to, or the earlier command: {before}")
            self.steps.run(f"train/{cell.id}", cell.train())
        problems = self.plan.problems
        cell.evals = {bench: self.plan.sentence(("benches", bench)) for bench in cell.benches if ("benches", bench) in problems}
        wanted = {bench: (f"eval/{cell.id}/{bench}", cell.ask(bench)) for bench in cell.benches if bench not in cell.evals}
        is_open = not all(self.steps.is_done(*step) for step in wanted.values())
        with self.steps.server(cell) if is_open else contextlib.nullcontext() as ended:
            for bench, step in wanted.items():
                try:
                    self.steps.run(*step)
                except Failed as error:
                    cell.evals[bench] = "; ".join(filter(None, [str(error), ended()]))
                    self.fail(Failed(cell.evals[bench], error.code))
