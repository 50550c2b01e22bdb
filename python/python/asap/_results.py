"""What pruning gives, and its report."""

import os
import shutil
import weakref
from pathlib import Path
from typing import Any, NamedTuple

from asap import _asap, _data, _messages
from asap._data import Location


class Output(str):
    """The location of an output. The temporary folder of the call, in which it may be, is deleted with it."""

    _folder: str
    _is_held: bool

    def __new__(cls, location: str, folder: str, is_held: bool) -> "Output":
        output = super().__new__(cls, location)
        output._folder, output._is_held = folder, is_held
        weakref.finalize(output, shutil.rmtree, folder, ignore_errors=True)
        return output

    def words(self, text: str) -> str:
        """A text without the temporary folder."""
        return _messages.of_data(text, self._folder, self._is_held)


class _Fields(NamedTuple):
    rows: Any
    rejects: Any
    summary: dict[str, Any]


class Pruned(_Fields):
    """What `prune` returns. A notebook shows its report.

    Attributes:
        rows: The rows of the output, with the type of the input. Trainers read either prompt and completion, or
            messages.
        rejects: The rows that cannot be pruned, each with its status and error.
        summary: The summary of the run.
        output: The location of the output. By default, it is deleted with the result. None for an estimate, and for a
            copy of a result.
    """

    output: Output | None = None

    def __repr__(self) -> str:
        if self.rows is None:
            return f"<asap.Pruned: an estimate for {self.summary['rows']:,} rows>"
        rows, rejects = _count(self.rows, self.summary["rows_out"]), _count(self.rejects, self.summary["rows_rejected"])
        return f"<asap.Pruned: {rows:,} rows, {rejects:,} rejects>"

    def _repr_html_(self) -> str | None:
        try:
            return report(self).html
        except _asap.Error:
            # The notebook shows the text instead.
            return None

    def __reduce__(self) -> tuple[Any, ...]:
        return Pruned, tuple(self)


class Report:
    """What pruning did to a corpus. A notebook shows it.

    Attributes:
        html: The report as HTML, in a frame.
    """

    html: str

    def __init__(self, data: Location | Pruned, against: Location | None = None, exam: Location | None = None) -> None:
        output = data.output if isinstance(data, Pruned) else data
        if not _data.is_location(output):
            found = "an estimate, or a copy of a result" if isinstance(data, Pruned) else _data.named(data)
            what = "expected the location of an output, or what asap.prune returned"
            raise _asap.ArgumentError(f"{what}, found {found}")
        # The output lives as long as its result.
        self._data = data
        self._output = _data.location(output)
        self._against, self._exam = (None if place is None else _data.location(place) for place in (against, exam))
        self.html = self._words(_asap.report(self._output, self._against, self._exam, None))

    def to(self, file: Location) -> None:
        """Write the report with 20 chains to a file, as `asap view --to` does: .html, .md or .json."""
        _asap.report(self._output, self._against, self._exam, os.fspath(file))
        if isinstance(self._data, Pruned):
            Path(file).write_text(self._words(Path(file).read_text("utf-8")), "utf-8")

    def _words(self, text: str) -> str:
        output = self._data.output if isinstance(self._data, Pruned) else None
        return text if output is None else output.words(text)

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<asap.Report of {self._output}>"


def report(data: Location | Pruned, *, against: Location | None = None, exam: Location | None = None) -> Report:
    """Show what pruning did, in a notebook: the first screen of `asap view`.

    Args:
        data: The location of an output, or what `prune` returned.
        against: The location of a second output of the same input, to compare with.
        exam: The location of the rows of `asap exam`, which show whether answers survive.
    """
    return Report(data, against, exam)


def _count(rows: Any, otherwise: int) -> int:
    """The number of rows. A stream has no length."""
    if isinstance(rows, dict):
        rows = next(iter(rows.values()), ())
    return len(rows) if hasattr(rows, "__len__") else otherwise
