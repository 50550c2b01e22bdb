"""Runs each file of examples/ as a user would: from the root of the project."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT

SHOWN = {"prune_dataset.py": "50 of 50 rows", "removed_steps.py": "\n- ", "token_statistics.py": "tokens"}


def test_each_example_is_run():
    assert sorted(SHOWN) == sorted(path.name for path in (ROOT / "examples").iterdir())


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_prints_what_it_says(name, workplace):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name], cwd=ROOT, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert SHOWN[name] in done.stdout, done.stdout
