"""Kills workers and drivers of runs on Ray at seeded times, and checks what they leave.

    python python/tests/ray_kills.py --workers 20 --drivers 5

Each run asks a misbehaving endpoint, within limits on calls and cost. It prints a line for each run. It ends with exit
code 1 if a row is missing, doubled or different, if a stored answer was paid again, or if a limit was exceeded.
"""

import argparse
import functools
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import asap
import ray
from endpoint import Endpoint

SAMPLE = Path(__file__).parents[2] / "data/sample/openr1-math.parquet"
JOB = {"from_": str(SAMPLE), "slice_rows": 3, "commit_every": "1s", "quiet": True, "refine_max_tokens": 300}
ON_RAY = {"parts": 5, "max_retries": 5}
DRIVER = """
import json, sys, asap, ray
ray.init(sys.argv[1], logging_level="error", log_to_driver=False)
asap.ray.run("asap", **json.loads(sys.argv[2]))
"""


def contents(output):
    """Rows and rejects, in order, without what names their run and how often it asked."""

    def read(table):
        rows = asap.sql(f"SELECT * FROM '{table}' ORDER BY source").to_pylist()
        return [{name: row[name] for name in row if not name.startswith("_") and name != "cached"} for row in rows]

    rows, rejects = read(output), read(f"{output}/.asap/rejects")
    return rows, [{**row, "error": row["error"].partition(" (retries")[0]} for row in rejects]


def difference(expected, rows, rejects):
    """The first value that is different."""
    for there, here in zip(expected["rows"] + expected["rejects"], rows + rejects):
        for name, value in there.items():
            if here.get(name) != value:
                return f"{here['source']}, {name}: {here.get(name)!r:.100}, expected {value!r:.100}"
    return "their number"


def workers():
    """The processes of this program's Ray that do a part."""
    parents, parts = {}, []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            if Path(f"/proc/{entry}/cmdline").read_text().startswith("ray::_part"):
                parts.append(int(entry))
        except (OSError, ValueError):
            pass

    def is_ours(process):
        while process in parents:
            if process == os.getpid():
                return True
            process = parents[process]
        return False

    return [part for part in parts if is_ours(part)]


def kill_a_worker(after, chance, killed, is_over):
    """Kills one of the processes that do a part, as soon as there is one after this time."""
    time.sleep(after)
    while not is_over.is_set():
        found = sorted(workers())
        if found:
            killed.append(time.monotonic())
            os.kill(chance.choice(found), signal.SIGKILL)
            return
        time.sleep(0.01)


def note_ends(processes, ends):
    """Notes when the processes end."""
    while processes:
        left = [process for process in processes if os.path.exists(f"/proc/{process}")]
        ends += [time.monotonic()] * (len(processes) - len(left))
        processes = left
        time.sleep(0.01)


class Trial:
    """A run with a kill, and what must be true after it."""

    def __init__(self, folder, expected, seed):
        """`seed` decides the time of the kill, the process and the faults of the endpoint."""
        self.output, self.expected, self.killed = f"{folder}/out-{seed}", expected, []
        self.chance = random.Random(seed)
        self.endpoint = Endpoint(pause=0.05, seed=seed)
        # Some trials reach the limits, others do not.
        most = self.chance.choice([1.3, 3])
        self.limits = {
            "anchor_max_cost": most * expected["cost"],
            "anchor_max_calls": int(2 * most * expected["calls"]),
        }
        self.options = {**expected["job"], **ON_RAY, "to": self.output, **self.endpoint.settings()}
        self.wrong, self.calls_before, self.raised = [], 0, 0

    def run(self):
        """Runs to the end. What a killed process reserved counts as spent, so a limit may have to be raised."""
        while True:
            try:
                return asap.ray.run("asap", **self.options, **self.limits)
            except asap.Error as error:
                if "budget is spent" not in str(error) and "max_calls allows" not in str(error):
                    raise
            self.check_limits()
            self.raised += 1
            self.calls_before = self.endpoint.calls
            self.limits = {name: 2 * limit for name, limit in self.limits.items()}

    def in_flight(self):
        """The costs of the answers that a killed process may have waited for."""
        answers = self.endpoint.answers
        return [cost for _, begun, ended, cost in answers if any(begun <= kill <= ended + 2 for kill in self.killed)]

    def check_limits(self):
        cost, in_flight, most = self.endpoint.cost(), sum(self.in_flight()), self.limits["anchor_max_cost"]
        if cost > most + in_flight + 1e-9:
            self.wrong.append(f"cost {cost:.4f} is more than {most:.4f} and {in_flight:.4f} in flight")
        calls, most = self.endpoint.calls - self.calls_before, self.limits["anchor_max_calls"]
        if calls > most:
            self.wrong.append(f"{calls} calls are more than {most}")

    def with_lost_worker(self):
        is_over = threading.Event()
        after = self.chance.uniform(0, self.expected["seconds"])
        killer = threading.Thread(target=kill_a_worker, args=(after, self.chance, self.killed, is_over))
        killer.start()
        try:
            self.run()
        finally:
            is_over.set()
            killer.join()
        self.verdict("worker")

    def with_lost_driver(self, address):
        driver = subprocess.Popen([sys.executable, "-c", DRIVER, address, json.dumps({**self.options, **self.limits})])
        while not workers() and driver.poll() is None:
            time.sleep(0.05)
        watcher = None
        try:
            driver.wait(self.chance.uniform(0, self.expected["seconds"]))
        except subprocess.TimeoutExpired:
            self.killed.append(time.monotonic())
            driver.kill()
            driver.wait()
            # Its tasks end after it, and the next run may already have begun.
            lost = workers()
            watcher = threading.Thread(target=note_ends, args=(lost, self.killed))
            watcher.start()
        # The limit on calls is that of one run.
        self.calls_before = self.endpoint.calls
        self.run()
        if watcher:
            watcher.join()
        self.verdict("driver")

    def verdict(self, what):
        """Checks the output, and prints a line."""
        self.check_limits()
        endpoint, wrong = self.endpoint, self.wrong
        rows, rejects = contents(self.output)
        sources = [str(row["source"]) for row in (*rows, *rejects)]
        if len(sources) != len(set(sources)) or len(sources) != self.options["limit"]:
            wrong.append(f"{len(sources)} rows, {len(set(sources))} different, of {self.options['limit']}")
        if (rows, rejects) != (self.expected["rows"], self.expected["rejects"]):
            wrong.append(
                f"rows or rejects differ from those of one process: {difference(self.expected, rows, rejects)}"
            )
        again = endpoint.repeated(self.killed)
        if again:
            ages = [min((kill - ended for kill in self.killed if kill > ended), default=0) for _, ended in again]
            wrong.append(f"{len(again)} stored answers were paid again, {max(ages):.1f} s older than the kill")
        twice = len(endpoint.answers) - len({key for key, *_ in endpoint.answers})
        killed = "killed" if self.killed else "ended before the kill"
        raised = f", limits raised {self.raised} times" if self.raised else ""
        print(
            f"{what} {killed}: {len(rows)} rows, {len(rejects)} rejects, {endpoint.calls} calls, {twice} of "
            f"{len(self.in_flight())} in flight paid twice, cost {endpoint.cost():.4f}{raised}: "
            f"{'; '.join(wrong) or 'ok'}",
            flush=True,
        )
        endpoint.shutdown()


def reference(folder, rows):
    """What one process gives, from an endpoint without faults; and how long Ray takes."""
    endpoint = Endpoint(faults=0, pause=0.05)
    job = {**JOB, "limit": rows}
    options = {**job, **endpoint.settings()}
    asap.run("asap", to=f"{folder}/one", **options)
    rows, rejects = contents(f"{folder}/one")
    calls, cost = endpoint.calls, endpoint.cost()
    # The second time, the workers are open.
    for output in ("ray", "again"):
        begun = time.monotonic()
        asap.ray.run("asap", to=f"{folder}/{output}", **options, **ON_RAY)
        assert contents(f"{folder}/{output}") == (rows, rejects), "Ray and one process differ without a kill"
    assert rejects
    return {
        "job": job,
        "rows": rows,
        "rejects": rejects,
        "calls": calls,
        "cost": cost,
        "seconds": time.monotonic() - begun,
    }


def tried(folder, expected, seed, lose):
    """The trials of a seed: until a process was killed, since some end before the time of their kill."""
    for attempt in itertools.count():
        trial = Trial(folder, expected, f"{seed}-{attempt}")
        lose(trial)
        yield trial
        if trial.killed:
            return


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--workers", type=int, default=20)
    arguments.add_argument("--drivers", type=int, default=5)
    arguments.add_argument("--rows", type=int, default=60)
    arguments.add_argument("--first", type=int, default=0, help="the first seed")
    given = arguments.parse_args()
    seeds = (
        range(given.first, given.first + given.workers),
        range(1000 + given.first, 1000 + given.first + given.drivers),
    )
    with tempfile.TemporaryDirectory(prefix="asap-kills-") as folder:
        # Settings of the folder of the caller do not matter.
        Path(folder, "asap.toml").touch()
        os.chdir(folder)
        own = ray.init("local", num_cpus=2, logging_level="error", log_to_driver=False, include_dashboard=False)
        expected = reference(folder, given.rows)
        trials = [trial for seed in seeds[0] for trial in tried(folder, expected, seed, Trial.with_lost_worker)]
        lose = functools.partial(Trial.with_lost_driver, address=own.address_info["gcs_address"])
        trials += [trial for seed in seeds[1] for trial in tried(folder, expected, seed, lose)]
        ray.shutdown()
    kills, violations = sum(bool(trial.killed) for trial in trials), sum(bool(trial.wrong) for trial in trials)
    print(f"{kills} kills, {violations} violations")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
