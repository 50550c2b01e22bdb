"""The command `asap`, and commands in processes of their own."""

import os
import signal
import subprocess
import sys
import tempfile

from asap import _asap

# The errors by exit code.
ERRORS = {2: _asap.ArgumentError, 3: _asap.RejectsError, 4: _asap.TableError, 75: _asap.UnavailableError}


def main(in_python: bool = False) -> None:
    """Runs the command of sys.argv. If `in_python`, messages name arguments as Python does, not flags."""
    # The command has its own reaction to Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = _asap.main(["asap", *sys.argv[1:]], [sys.executable, "-m", "asap"], in_python)
    # No thread of the command outlives it.
    os._exit(code)


def words(*arguments: str, in_python: bool = True) -> list[str]:
    """The words that start a command in a process of its own."""
    return [sys.executable, "-c", f"from asap import _cli; _cli.main({in_python})", *arguments]


def run(arguments: list[str], settings: dict[str, str], quiet: bool) -> str:
    """Runs a command, and returns what it prints. Ctrl-C ends it as on the command line."""
    variables = {f"ASAP_{name.upper()}": value for name, value in settings.items()}
    error: list[str] = []
    interrupts = 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
        process = subprocess.Popen(
            words(*arguments),
            env={**os.environ, **variables},
            stdout=printed,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        assert process.stderr is not None
        while True:
            try:
                line = process.stderr.readline()
            except KeyboardInterrupt:
                interrupts += 1
                process.send_signal(signal.SIGINT)
                continue
            if error or line.startswith("error: "):
                error.append(line.removeprefix("error: "))
            elif line and not quiet:
                print(line, end="", file=sys.stderr, flush=True)
            if not line:
                break
        code, message = process.wait(), "".join(error).strip()
        if interrupts:
            raise KeyboardInterrupt(message)
        if code:
            raise ERRORS.get(code, _asap.Error)(message or f"asap {arguments[0]} ended with code {code}")
        printed.seek(0)
        return printed.read()
