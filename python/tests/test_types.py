"""What users of a type checker see."""

import json
import os
import subprocess
import sys
from pathlib import Path

# Their attributes have types of PyTorch.
PROGRAMS = ("asap.scorer", "asap.sft")
# PyTorch, which the tests do not install, has its base class.
UNKNOWN = {"asap.torch.FeedDataset"}


def test_all_public_names_have_types():
    programs = Path(sys.executable).parent
    command = [programs / "basedpyright", "--verifytypes", "asap", "--ignoreexternal", "--outputjson"]
    given = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    found = json.loads(subprocess.run(command, env=given, capture_output=True, text=True).stdout)
    found = {each["name"]: each for each in found["typeCompleteness"]["symbols"] if each["isExported"]}
    assert {"asap.Pruner", "asap.functions.steps", "asap.ray.run", "asap.torch.FeedDataset.count"} <= set(found)
    unknown = {name for name, each in found.items() if not each["isTypeKnown"] and not name.startswith(PROGRAMS)}
    assert unknown <= UNKNOWN
