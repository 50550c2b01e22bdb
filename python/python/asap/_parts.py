"""The parts of a run on a cluster: which wait, which run, and what they gave."""

import collections
import functools
import math
import sys
import time
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from asap import _asap
from asap._progress import Progress

_POLL = 1.0
# The running tasks divide these limits.
_MAX_CALLS = "asap.anchor.max_calls"
_LIMITS = (_MAX_CALLS, "asap.anchor.max_requests_per_minute", "asap.anchor.max_tokens_per_minute")
# Rows, all rows (0 if the number is unknown), calls and their cost.
Counts: TypeAlias = tuple[int, int, int, float]


class Board:
    """An actor that has the progress of each part."""

    def __init__(self) -> None:
        self.counts: dict[str, Counts] = {}

    def write(self, part: str, counts: Counts) -> None:
        self.counts[part] = counts

    def read(self) -> dict[str, Counts]:
        return self.counts


class Parts:
    """Does all parts. `start` starts the task of a part, and `slots` counts the tasks that the cluster has room for."""

    def __init__(
        self,
        ray: Any,
        start: Callable[[str, dict[str, int], Any], Any],
        slots: Callable[[], int],
        parts: int,
        *,
        settings: dict[str, Any],
        refusal: Callable[[dict[str, Any]], str],
        max_retries: int,
        quiet: bool,
    ) -> None:
        self.ray, self.start, self.slots, self.parts = ray, start, slots, parts
        self.refusal, self.max_retries = refusal, max_retries
        self.limits = {name: int(settings[name]) for name in _LIMITS if settings.get(name)}
        self.calls = 0
        self.waiting = collections.deque(range(1, parts + 1))
        self.running: dict[Any, tuple[int, dict[str, int], bool]] = {}
        self.lost: collections.Counter[int] = collections.Counter()
        self.summaries: list[dict[str, Any]] = []
        self.failures: dict[int, str] = {}
        self.stopped: str | None = None
        # After a part spent its share, one part runs at a time, with all that remains.
        self.one_by_one = False
        self.begun = time.monotonic()
        self.board = None if quiet else ray.remote(num_cpus=0, max_restarts=-1)(Board).remote()
        self.progress = Progress()

    def run(self) -> dict[str, Any]:
        """Returns the summary of all parts."""
        try:
            while self._submit():
                ended, _ = self.ray.wait(list(self.running), timeout=_POLL)
                for task in ended:
                    self._take(task)
                self._show()
        except BaseException as error:
            self._cancel(isinstance(error, KeyboardInterrupt))
            raise
        finally:
            if self.board:
                self.progress.close()
                self.ray.kill(self.board)
        if self.stopped or self.failures:
            raise _asap.Error(self._why())
        lost = self.lost.total()
        notes = [f"{lost} workers were lost: the summary leaves out the slices that they committed"] if lost else []
        return summed(self.summaries, notes)

    def _submit(self) -> bool:
        """Starts parts, and returns whether any part runs."""
        slots = 1 if self.one_by_one else max(1, self.slots())
        # If the first parts all failed, so would the others.
        is_over = self.stopped or (len(self.failures) >= slots and not self.summaries)
        while self.waiting and not is_over and len(self.running) < slots:
            shares = self._shares(slots)
            if min(shares.values(), default=1) <= 0:
                if not self.running:
                    self.stopped = self._spent()
                break
            part = self.waiting.popleft()
            task = self.start(f"{part}/{self.parts}", shares, self.board)
            self.running[task] = (part, shares, self.one_by_one)
        return bool(self.running)

    def _shares(self, slots: int) -> dict[str, int]:
        """What the next part gets of each limit: as much of the rest as each running task."""
        tasks = min(slots, len(self.running) + len(self.waiting))
        shares: dict[str, int] = {}
        for name, limit in self.limits.items():
            rest = limit - self.calls if name == _MAX_CALLS else limit
            free = rest - sum(given[name] for _, given, _ in self.running.values())
            shares[name] = min(free, -(-rest // tasks))
        return shares

    def _take(self, task: Any) -> None:
        part, shares, was_alone = self.running.pop(task)
        errors = self.ray.exceptions
        # If the part does not report its calls, it may have sent all that it was allowed.
        calls = shares.get(_MAX_CALLS, 0)
        try:
            found = self.ray.get(task)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            self.lost[part] += 1
            if self.lost[part] <= self.max_retries:
                self.waiting.appendleft(part)
                found = {}
            else:
                found = {"error": f"its worker was lost {self.lost[part]} times: {_first_line(error)}"}
        except errors.RayError as error:
            found = {"error": _first_line(getattr(error, "cause", None) or error)}
        self._judge(part, found, calls, was_alone)

    def _judge(self, part: int, found: dict[str, Any], calls: int, was_alone: bool) -> None:
        if "summary" in found:
            calls = found["summary"]["anchor"]["calls"]
        elif "spent" in found:
            calls = found["spent"]
        self.calls += calls
        if "summary" in found:
            self.summaries.append(found["summary"])
            self.one_by_one = False
        elif "refused" in found:
            self.stopped = self.stopped or self.refusal(found["refused"])
        elif "spent" in found:
            if was_alone:
                has_calls = self.calls < self.limits.get(_MAX_CALLS, math.inf)
                self.stopped = found["error"] if has_calls else self._spent()
            self.one_by_one = True
            self.waiting.append(part)
        elif "error" in found:
            self.failures[part] = found["error"]

    def _spent(self) -> str:
        lost = self.lost.total()
        shares = f", including the shares of {lost} lost workers" if lost else ""
        return (
            f"anchor_max_calls allows {self.limits[_MAX_CALLS]} requests, and {self.calls} count as sent{shares}. "
            "Every paid answer is kept: raise that setting and repeat the call"
        )

    def _why(self) -> str:
        done = f"{len(self.summaries)} of {self.parts} parts are done"
        if not self.failures:
            return f"{self.stopped}; {done}"
        failed = ", ".join(map(str, list(self.failures)[:10])) + (", …" if len(self.failures) > 10 else "")
        first = self.stopped or next(iter(self.failures.values()))
        return f"{first}; {done}, failed: {failed}. Repeat the call to resume"

    def _show(self) -> None:
        if not self.board:
            return
        try:
            counts = self.ray.get(self.board.read.remote(), timeout=_POLL)
        except self.ray.exceptions.RayError:
            # The display is not worth a failure.
            counts = {}
        running = [counts.get(f"{part}/{self.parts}", (0, 0, 0, 0)) for part, _, _ in self.running.values()]
        self.progress(progress_line(self.summaries, running, self.parts, time.monotonic() - self.begun))

    def _cancel(self, is_interrupt: bool) -> None:
        """Ends the running tasks, which commit their finished rows. A second Ctrl-C ends them immediately."""
        if is_interrupt:
            doing = "committing the finished rows; a second Ctrl-C ends the tasks immediately"
            print(f"\ninterrupted: {doing}", file=sys.stderr)
        tasks = list(self.running)
        try:
            for task in tasks:
                self.ray.cancel(task)
            if tasks:
                self.ray.wait(tasks, num_returns=len(tasks))
        except KeyboardInterrupt:
            for task in tasks:
                self.ray.cancel(task, force=True)
            raise


def progress_line(
    summaries: Collection[dict[str, Any]], running: Collection[Counts], parts: int, seconds: float
) -> str:
    """The progress of a run, from the summaries of its ended parts and the counts of its running parts."""
    rows = sum(summary["rows_in"] for summary in summaries)
    calls = sum(summary["anchor"]["calls"] for summary in summaries)
    cost = sum(summary["anchor"]["cost"] for summary in summaries)
    done = float(len(summaries))
    for number, of, sent, paid in running:
        rows, calls, cost = rows + number, calls + sent, cost + paid
        done += number / of if of else 0
    shown = [f"{len(summaries)} of {parts} parts", f"{len(running)} running", f"{rows:,} rows"]
    shown += [f"{calls:,} calls"] if calls else []
    shown += [f"cost {cost:.4f}"] if cost else []
    if 0 < done < parts:
        shown.append(f"{-(-seconds / done * (parts - done) // 60):.0f} min left")
    return ", ".join(shown)


def summed(summaries: list[dict[str, Any]], notes: list[str]) -> dict[str, Any]:
    """One summary of all parts."""
    found = functools.reduce(_merged, summaries)
    # At its start, each part counts the open slices of the others as left, and the same rows as beyond the limit.
    found["slices_left"] = 0
    found["rows_beyond_limit"] = max(summary["rows_beyond_limit"] for summary in summaries)
    versions = [summary["table_version"] for summary in summaries if summary["table_version"] is not None]
    found["table_version"] = max(versions, default=None)
    found["nothing_to_do"] = all(summary["nothing_to_do"] for summary in summaries)
    found["notes"] = [*notes, *found["notes"]]
    return found


def _merged(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, dict):
        return {name: _merged(one.get(name), other.get(name)) for name in {**one, **other}}
    if isinstance(one, list):
        return [*one, *(each for each in other if each not in one)]
    return one or other if isinstance(one, (bool, str)) else one + other


def _first_line(error: object) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
