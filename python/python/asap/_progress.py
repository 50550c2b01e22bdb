"""The progress of a call on stderr."""

import sys
import time

_LINES = 30.0
_DRAWN = 0.2


class Progress:
    """Shows a line on stderr: in place on a terminal and in a notebook, else every 30 seconds."""

    def __init__(self) -> None:
        self._is_drawn = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._pause = _DRAWN if self._is_drawn else _LINES
        self._last = time.monotonic()
        self._width = 0

    def __call__(self, line: str) -> None:
        now = time.monotonic()
        if now - self._last < self._pause:
            return
        self._last = now
        line = f"pruning: {line}"
        if self._is_drawn:
            print(f"\r{line.ljust(self._width)}", end="", file=sys.stderr, flush=True)
            self._width = len(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)
