"""The progress of a call on stderr."""

import sys
import time
from typing import Any

_LINES = 30.0
_DRAWN = 0.2


class Progress:
    """Shows a line: in place on a terminal and in a notebook, else every 30 seconds on stderr."""

    def __init__(self) -> None:
        self._is_notebook = "ipykernel" in sys.modules
        self._is_drawn = self._is_notebook or sys.stderr.isatty()
        self._pause = _DRAWN if self._is_drawn else _LINES
        self._last = time.monotonic()
        self._width = 0
        self._display: Any = None

    def __call__(self, line: str, *_: float) -> None:
        now = time.monotonic()
        if now - self._last < self._pause:
            return
        self._last = now
        line = f"pruning: {line}"
        if self._is_notebook:
            self._update(line)
        elif self._is_drawn:
            print(f"\r{line.ljust(self._width)}", end="", file=sys.stderr, flush=True)
            self._width = len(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def _update(self, line: str) -> None:
        """Updates one display: a saved notebook keeps each write to stderr."""
        from IPython.display import display

        shown = {"text/plain": line}
        if self._display is None:
            self._display = display(shown, raw=True, display_id=True)
        else:
            self._display.update(shown, raw=True)

    def close(self) -> None:
        if self._display is not None:
            self._update("")
        elif self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)
