"""Runs a plan step by step. Each step is one command, which resumes by itself. Finished steps are recorded and not run again."""

import collections
import contextlib
import ctypes
import fcntl
import functools
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TextIO, TypeAlias

from asap.paper import _check, _tables
from asap.paper._cells import Cell, cells, finished, is_done, preparations
from asap.paper._plan import Failed, Plan, Step, error_of, shown

Process: TypeAlias = subprocess.Popen[Any]

_PAUSE = 0.05


class Interrupted(Exception):
    """The run was asked to stop."""


def end_with_parent() -> None:
    """Asks this process to end when the runner ends, even if the runner is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Place(NamedTuple):
    """Where one step of a kind runs at a time: its GPUs, as CUDA numbers them, and the port of its server."""

    gpus: str | None
    port: int

    def fill(self, text: str) -> str:
        return text.replace("{port}", str(self.port))

    def environment(self) -> Mapping[str, str]:
        return os.environ if self.gpus is None else {**os.environ, "CUDA_VISIBLE_DEVICES": self.gpus}


def places(plan: Plan, kind: str) -> list[Place]:
    """The places of a kind of steps. The GPUs are those that this process sees."""
    own = plan.table[kind].get("gpus", plan.gpus if kind == "train" else 1)
    first = plan.table["serve"].get("port", 8000)
    seen = _check.visible() or [str(number) for number in range(plan.gpus)]
    gpus = [",".join(seen[place * own : (place + 1) * own]) if plan.gpus else None for place in range(plan.places(kind))]
    return [Place(each, first + place) for place, each in enumerate(gpus)]


Job: TypeAlias = Callable[[Place], Iterator[None]]


class Steps:
    """The steps of a folder, recorded in steps.jsonl: one line when a step starts, and one when it ends."""

    def __init__(self, folder: str) -> None:
        os.makedirs(f"{folder}/logs", exist_ok=True)
        self.folder, self.path, self.failed, self.children, self.is_stopped = folder, f"{folder}/steps.jsonl", {}, [], False
        # Children inherit the lock: it lasts until all processes of a killed run have ended.
        self.lock = open(f"{folder}/.lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            message = f"another run, or a command of a killed run, works in {folder}: run the same command again when it has ended"
            raise Failed(message, 75) from None
        self.done = finished(folder)

    def record(self, **record: Any) -> None:
        with open(self.path, "a") as file:
            # A kill may have left a part of a line.
            file.write("\n" + json.dumps({**record, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}, ensure_ascii=False))

    def run(self, name: str, command: list[str], place: Place) -> Iterator[None]:
        """Runs a step, unless it is finished. A generator that yields while it waits."""
        text, log = shown(command), f"{self.folder}/logs/{name.replace('/', '-')}"
        if is_done(self.done, name, command):
            return
        if name in self.failed:
            raise self.failed[name]
        print(f"{name}: {place.fill(text)}", file=sys.stderr, flush=True)
        self.record(step=name, state="started", command=text)
        begun = time.monotonic()
        with open(f"{log}.out", "w+") as out, open(f"{log}.log", "w+") as messages:
            code = yield from self.wait(self.start(command, out, messages, place))
            for file in (out, messages):
                file.seek(0)
            printed, said = out.read(), messages.read()
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

    def start(self, command: list[str], out: TextIO, messages: TextIO, place: Place) -> Process:
        if self.is_stopped:
            raise Interrupted
        try:
            return subprocess.Popen([place.fill(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=messages,
                                    env=place.environment(), pass_fds=[self.lock.fileno()], preexec_fn=end_with_parent)
        except OSError as error:
            raise Failed(f"cannot start {command[0]}: {error.strerror}") from error

    def wait(self, process: Process) -> Generator[None, None, int]:
        self.children.append(process)
        while process.poll() is None:
            yield
        self.children.remove(process)
        if self.is_stopped:
            raise Interrupted
        return process.returncode

    def stop(self, number: int, _: object) -> None:
        """Stops all steps. Each commits what it has, and ends. A second signal ends the runner at once."""
        self.is_stopped = True
        signal.signal(number, signal.SIG_DFL)
        # Ctrl-C has reached the steps already.
        for child in self.children if number == signal.SIGTERM else ():
            child.terminate()


class Server:
    """A server of a cell's model, if the plan has one."""

    def __init__(self, steps: Steps, cell: Cell, place: Place) -> None:
        self.steps, self.cell, self.place, self.process = steps, cell, place, None
        self.log = f"{steps.folder}/logs/serve-{cell.id}.log"

    def begin(self) -> Iterator[None]:
        """Starts the server, and waits until it answers. A generator that yields while it waits."""
        serve, command = self.cell.plan.table["serve"], self.cell.serve()
        health = self.place.fill(serve.get("health", f"{serve['url'].rstrip('/')}/models"))
        until = time.monotonic() + serve.get("wait", 900)
        if answers(health):
            raise Failed(f"before the server of {self.cell.label} starts, another one already answers at {health}: stop it")
        print(f"serve/{self.cell.id}: {self.place.fill(shown(command))}", file=sys.stderr, flush=True)
        with open(self.log, "w") as messages:
            self.process = self.steps.start(command, messages, messages, self.place)
        while not answers(health):
            if why := self.ended():
                raise Failed(why)
            if self.steps.is_stopped:
                raise Interrupted
            if time.monotonic() > until:
                raise Failed(f"the server of {self.cell.label} did not answer at {health} within {serve.get('wait', 900)} seconds ({self.log})")
            yield

    def ended(self) -> str | None:
        """Why the server has ended, if it has."""
        if self.process is None or self.process.poll() is None:
            return None
        with open(self.log, errors="replace") as messages:
            why = error_of(messages.read())
        return f"the server of {self.cell.label} ended with code {self.process.returncode}: {why} ({self.log})"

    def end(self) -> None:
        if self.process is not None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
            self.process.kill()
            self.process.wait()


def answers(url: str) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException), urllib.request.urlopen(url, timeout=5) as reply:
        return reply.status == 200
    return False


class Run:
    """One run of a plan, with its errors so far. All cells are pruned, then all are trained, and then all are evaluated."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.cells = plan, cells(plan)
        _check.require(plan, self.cells)
        self.steps, self.code, self.errors = Steps(plan.to), 0, []
        for seed in plan.seeds:
            os.makedirs(f"{plan.to}/seed-{seed}", exist_ok=True)

    def fail(self, error: Failed) -> None:
        self.code = max(self.code, error.code)
        if str(error) not in self.errors:
            self.errors.append(str(error))
            print(f"error: {error}", file=sys.stderr, flush=True)

    def run(self) -> int:
        """Runs all steps that are not finished, and writes the tables. Returns the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.steps.stop)
        self.all([Place(None, 0)], lambda cell: list(preparations(self.plan, cell.seed)))
        self.all(places(self.plan, "prune"), Cell.pruning)
        for cell in self.cells:
            self.check_trained(cell)
        self.all(places(self.plan, "train"), Cell.training)
        self.side_by_side([functools.partial(self.ask, cell) for cell in self.cells if not cell.error], places(self.plan, "serve"))
        print(_tables.write(self.plan, self.cells, self.steps.done), end="")
        return self.code

    def side_by_side(self, jobs: Iterable[Job], places: list[Place]) -> None:
        """Runs jobs, as many at a time as there are places. A job is a generator that yields while it waits."""
        waiting, running = collections.deque(jobs), {}
        while running or waiting and not self.steps.is_stopped:
            for place in places:
                if waiting and place not in running and not self.steps.is_stopped:
                    running[place] = waiting.popleft()(place)
            for place, job in list(running.items()):
                try:
                    next(job)
                except (StopIteration, Interrupted):
                    del running[place]
            time.sleep(_PAUSE if running else 0)
        if self.steps.is_stopped:
            raise Failed("interrupted; run the same command to resume", 75)

    def all(self, places: list[Place], steps_of: Callable[[Cell], list[Step]]) -> None:
        """Runs the steps of all cells. Cells may share steps. A step that fails ends the cells that need it."""
        wanted = {}
        for cell in self.cells:
            if steps := [] if cell.error else steps_of(cell):
                wanted.setdefault(tuple(name for name, _ in steps), (steps, []))[1].append(cell)
        self.side_by_side([functools.partial(self.in_turn, *each) for each in wanted.values()], places)

    def in_turn(self, steps: list[Step], cells: list[Cell], place: Place) -> Iterator[None]:
        try:
            for step in steps:
                yield from self.steps.run(*step, place)
        except Failed as error:
            self.fail(error)
            for cell in cells:
                cell.error = str(error)

    def check_trained(self, cell: Cell) -> None:
        """The stored responses are those of the model that was trained first."""
        for name, command in cell.training()[1:]:
            before = self.steps.done.get(name, {}).get("command", shown(command))
            if before != shown(command) and not cell.error:
                error = Failed(f"{cell.model} was trained by another command: use another --to, or the earlier command: {before}")
                cell.error = str(error)
                self.fail(error)

    def ask(self, cell: Cell, place: Place) -> Iterator[None]:
        """Evaluates a model on all of its benchmarks."""
        wanted = dict(zip(cell.benches, cell.asking()))
        if all(is_done(self.steps.done, *step) for step in wanted.values()):
            return
        server = Server(self.steps, cell, place)
        try:
            if self.plan.table["serve"]:
                yield from server.begin()
            for bench, step in wanted.items():
                try:
                    yield from self.steps.run(*step, place)
                except Failed as error:
                    cell.evals[bench] = "; ".join(filter(None, [str(error), server.ended()]))
                    self.fail(Failed(cell.evals[bench], error.code))
        except Failed as error:
            cell.error = str(error)
            self.fail(error)
        finally:
            server.end()
