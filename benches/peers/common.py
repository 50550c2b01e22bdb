"""Shared by the peers' scripts: an environment with the peer, our bench and its results, CPU seconds."""

import json
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def target():
    """Returns the folder that cargo builds in."""
    metadata = subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT)
    return Path(json.loads(metadata)["target_directory"])


def folder(name):
    """Returns the folder that the script of this name keeps between its runs."""
    return target() / "peers" / name


def is_with(name, *packages):
    """Returns whether this process has the packages. If not, runs the same script with them, and the caller returns."""
    environment = folder(name) / "venv"
    if Path(sys.prefix) == environment:
        return True
    venv.create(environment, with_pip=True)
    subprocess.check_call([environment / "bin/pip", "install", "--quiet", *packages])
    subprocess.check_call([environment / "bin/python", *sys.argv])
    return False


def bench(name):
    """Runs our bench, unless --no-bench reuses its last results."""
    if "--no-bench" not in sys.argv:
        subprocess.check_call(["cargo", "bench", "--workspace", "--locked", "--bench", name], cwd=ROOT)


def lines_of_json(command):
    """Returns the lines of JSON that a command prints."""
    lines = subprocess.check_output(command, text=True, cwd=ROOT).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def candle(*cases):
    """Runs cases of the bench of candle, and returns what it prints."""
    bench = ["cargo", "bench", "--package", "asap-benches-candle", "--locked", "--bench", "candle", "--", *cases]
    return lines_of_json(bench)


def agree(key, ours, theirs, tolerance):
    """Exits if the numbers of two runs of a case differ by more than the tolerance."""
    worst = max(abs(our - their) for our, their in zip(ours[key], theirs[key], strict=True))
    if worst > tolerance:
        sys.exit(f"the {key} of {theirs['case']} differ from the peer's by {worst}, expected at most {tolerance}")


def ours(group, name):
    """Returns the median CPU seconds that criterion measured."""
    letters = "".join("_" if letter in '?"/\\*<>:|^' else letter for letter in name)
    estimates = json.loads((target() / "criterion" / group / letters / "new" / "estimates.json").read_text())
    return estimates["median"]["point_estimate"] / 1e9


def measured(work, times=3):
    """Returns the result and the minimum CPU seconds of a few runs."""
    seconds = []
    for _ in range(times):
        result = None  # freed outside of the measured time
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return result, min(seconds)
