"""The command `asap`."""

import os
import signal
import sys

from asap import _asap


def main(in_python: bool = False) -> None:
    """Runs the command of sys.argv. If `in_python`, messages name arguments as Python does, not flags."""
    # The command has its own reaction to Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = _asap.main(["asap", *sys.argv[1:]], [sys.executable, "-m", "asap"], in_python)
    # No thread of the command outlives it.
    os._exit(code)
