"""The recipes of schedulers give, part by part, what one process gives."""

import os
import subprocess
import sys
from pathlib import Path

import asap
import pyarrow.parquet
import pytest
import yaml
from conftest import ROOT
from ray_kills import contents

RECIPES = ROOT / "docs/recipes"
PARTS = 3


@pytest.fixture
def job(traces, workplace, monkeypatch):
    """A corpus of several files, its output by one process, and the commands of this environment on the path."""
    os.makedirs("traces")
    for number in range(5):
        pyarrow.parquet.write_table(traces.slice(3 * number, 3), f"traces/{number}.parquet")
    monkeypatch.setenv("FROM", "traces")
    monkeypatch.setenv("TO", "out/parts")
    monkeypatch.setenv("PARTS", str(PARTS))
    commands = os.path.dirname(sys.executable)
    monkeypatch.setenv("PATH", f"{workplace}/stubs:{commands}:{os.environ['PATH']}")
    asap.run("asap", from_="traces", to="out/one", quiet=True)


def sh(command, **variables):
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_slurm_array(job):
    script = RECIPES / "slurm.sh"
    assert "#SBATCH --array=1-64%" in script.read_text() and "PARTS=${PARTS:-64}" in script.read_text()
    for task in range(1, PARTS + 1):
        sh([script], SLURM_ARRAY_TASK_ID=str(task), SLURM_ARRAY_TASK_COUNT="1")
    assert contents("out/parts") == contents("out/one")


def test_an_indexed_job_of_kubernetes(job):
    text = (RECIPES / "kubernetes.yaml").read_text()
    spec = yaml.safe_load(text)["spec"]
    container = spec["template"]["spec"]["containers"][0]
    command = [*container["command"], *container["args"]]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", 64) and "/64" in command[-1]
    assert {each["name"] for each in container["env"]} == {"FROM", "TO"}
    command[-1] = command[-1].replace("/64", f"/{PARTS}")
    for index in range(PARTS):
        sh(command, JOB_COMPLETION_INDEX=str(index))
    assert contents("out/parts") == contents("out/one")


STUB = """#!/usr/bin/env python3
# Checks the job with the real command, then runs it here.
import os, subprocess, sys

arguments = sys.argv[1:]
subprocess.run([{hf!r}, "jobs", "run", "--dry-run", *arguments[2:]], check=True)
variables = [arguments[place + 1] for place, word in enumerate(arguments) if word == "--env"]
place = arguments.index("registry.example.com/asap:0.1.0")
os.environ.update(pair.split("=", 1) for pair in variables)
os.execvp(arguments[place + 1], arguments[place + 1 :])
"""


def test_jobs_of_hugging_face(job):
    os.makedirs("stubs")
    Path("stubs/hf").write_text(STUB.format(hf=os.path.join(os.path.dirname(sys.executable), "hf")))
    os.chmod("stubs/hf", 0o755)
    shown = sh([RECIPES / "hf-jobs.sh"], IMAGE="registry.example.com/asap:0.1.0", HF_TOKEN="hf_none")
    assert shown.count("Job configuration") == PARTS and f"PART={PARTS}/{PARTS}" in shown
    assert contents("out/parts") == contents("out/one")
    # Parts that are done do nothing.
    before = len(os.listdir("out/parts/_delta_log"))
    sh([RECIPES / "hf-jobs.sh"], IMAGE="registry.example.com/asap:0.1.0", HF_TOKEN="hf_none")
    assert len(os.listdir("out/parts/_delta_log")) == before
