"""Measures the CPU time of a run on Ray, and of the same run in parts by hand. Prints a table in Markdown.

    python benches/peers/ray_overhead.py --repeats 3

The CPU time of Ray's own processes is separate: they run whether asap does or not.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
DRIVER = """
import sys, ray, asap
ray.init("local", num_cpus=2, logging_level="error", log_to_driver=False)
rows, parts, num_cpus = map(int, sys.argv[3:])
asap.ray.run("asap", from_=sys.argv[1], to=sys.argv[2], limit=rows, parts=parts, num_cpus=num_cpus, quiet=True)
"""


def by_hand(output, given, workers):
    """CPU seconds of one process per worker, at the same time, with as many threads in all as there are CPUs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "RAYON_NUM_THREADS": str(2 // workers)}
    job = ["asap", "--from", given.data, "--to", output, "--limit", str(given.rows), "--quiet"]
    command = [sys.executable, "-m", "asap", "run", *job]
    parts = [subprocess.Popen([*command, f"--part={part}/{workers}"], env=environment) for part in range(1, workers + 1)]
    assert all(part.wait() == 0 for part in parts)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def on_ray(output, given, workers):
    """CPU seconds of the driver and of all processes that did a part, and of each other process of Ray by its name."""
    arguments = [given.data, output, str(given.rows), str(given.parts), str(2 // workers)]
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, *arguments])
    seconds, names = {}, {}
    while driver.poll() is None:
        for process, name, used in descendants(driver.pid):
            seconds[process] = used
            # A worker that was idle before or after a part is still the worker of the part.
            if names.get(process) != "part":
                names[process] = name
        time.sleep(0.1)
    assert driver.returncode == 0
    own = sum(used for process, used in seconds.items() if names[process] in ("part", "driver"))
    others = {}
    for process, used in seconds.items():
        if names[process] not in ("part", "driver"):
            others[names[process]] = others.get(names[process], 0) + used
    return own, others


def descendants(ancestor):
    """The processes below this one, with their names and CPU seconds so far."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{entry}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        found[int(entry)] = int(fields[1]), command, (int(fields[11]) + int(fields[12])) / TICKS
    for process, (parent, command, used) in found.items():
        above = process
        while above in found and above != ancestor:
            above = found[above][0]
        if above == ancestor:
            yield process, "driver" if process == ancestor else kind(command), used


def kind(command):
    if command.startswith("ray::_part"):
        return "part"
    names = ("gcs_server", "log_monitor", "monitor.py", "dashboard", "runtime_env", "raylet/raylet", "ray::")
    name = next((name for name in names if name in command), "others")
    return {"ray::": "idle workers", "raylet/raylet": "raylet", "monitor.py": "monitor", "runtime_env": "agents"}.get(name, name)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--data", default=str(ROOT / "data/sample"))
    arguments.add_argument("--rows", type=int, default=2000)
    arguments.add_argument("--parts", type=int, default=8)
    arguments.add_argument("--repeats", type=int, default=3)
    given = arguments.parse_args()
    hand, cluster, idle = {1: [], 2: []}, {1: [], 2: []}, {}
    with tempfile.TemporaryDirectory(prefix="asap-overhead-") as folder:
        for repeat in range(given.repeats):
            for workers in (1, 2):
                hand[workers].append(by_hand(f"{folder}/hand-{workers}-{repeat}", given, workers))
                own, others = on_ray(f"{folder}/ray-{workers}-{repeat}", given, workers)
                cluster[workers].append(own)
                idle[workers] = others
                print(f"{workers} workers: by hand {hand[workers][-1]:.1f} s, on Ray {own:.1f} s, {others}", file=sys.stderr, flush=True)
    print("| workers | `--part` by hand | on Ray | overhead | Ray's own processes |\n|---|---|---|---|---|")
    for workers in (1, 2):
        one, other = min(hand[workers]), min(cluster[workers])
        print(f"| {workers} | {one:.1f} s | {other:.1f} s | {100 * (other / one - 1):.1f} % | {sum(idle[workers].values()):.1f} s |")
    named = ", ".join(sorted({name for others in idle.values() for name in others}))
    print(f"\nRay's own processes: {named}.")


if __name__ == "__main__":
    main()
