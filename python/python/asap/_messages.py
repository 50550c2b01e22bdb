"""Notes as warnings, and messages about rows in memory."""

import contextlib
import inspect
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from asap import _asap, _data

_shown: set[str] = set()


class Note(UserWarning):
    """Something about the data or the run that you may not expect."""


def note(text: str) -> None:
    """Warns once in a process, at the line that called asap."""
    if text in _shown:
        return
    _shown.add(text)
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] == "asap":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, Note, stacklevel=level)


if "ipykernel" in sys.modules:
    _formatted = warnings.formatwarning

    def _without_place(message: Warning | str, category: type[Warning], *place: Any) -> str:
        """In a notebook, the place of a warning is a line of a temporary file."""
        return f"note: {message}\n" if issubclass(category, Note) else _formatted(message, category, *place)

    warnings.formatwarning = _without_place


def of_data(text: str, folder: str, is_held: bool = True) -> str:
    """A message about a temporary folder. If `is_held`, its file has the rows in memory. Commands get placeholders."""
    file, output = os.path.join(folder, _data.FILE), os.path.join(folder, _data.OUTPUT)
    text = text.replace(f"--from {file}", "--from DATA").replace(f"asap inspect {output}", "asap inspect OUT")
    # Titles of Markdown escape underscores, which names of temporary folders may have.
    for path, name in ((file, "the data"), (output, "the output")):
        text = text.replace(path, name).replace(path.replace("_", "\\_"), name)
    return text.replace(_data.FILE, "the data") if is_held else text


@contextlib.contextmanager
def about_data(folder: str, is_held: bool = True) -> Iterator[None]:
    """Errors of this block are about a temporary folder."""
    try:
        yield
    except _asap.Error as error:
        raise type(error)(of_data(str(error), folder, is_held)) from None
