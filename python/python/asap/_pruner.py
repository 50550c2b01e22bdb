"""Pruning of batches, for `map` of datasets and `map_batches` of ray.data."""

import os
from collections.abc import Mapping
from typing import Any

from asap import _asap, _data, _messages, _run, _settings
from asap._data import Location

_OF_TRAINERS = ("prompt", "completion", "messages")


class Pruner:
    """Prunes batches: a function for `Dataset.map(pruner, batched=True)`, and for `map_batches` of ray.data.

    A Pruner keeps all rows of a batch. It adds the columns prompt, completion, messages, status and error, or replaces
    columns with these names. A pruned row has the status ok. A row that the pipeline leaves out has the status
    filtered. If a row cannot be pruned, its status is the reason, and error has the details. If the status is not ok,
    then prompt, completion and messages are NULL.

    Two pruners are equal if their fingerprints are equal. A fingerprint covers the pipeline, the columns, the settings
    that change results, the version of asap and the files of its models. So a second `map` with an equal pruner reads
    the rows from the cache of the library datasets.

    Args:
        pipeline: The name of a pipeline of asap, or a file with one SELECT over the table corpus.
        columns: The names of the question, cot and answer columns, as a dict, if asap cannot recognize them.
        settings: Settings by name.
    """

    fingerprint: str
    _name: str | None = None

    def __init__(self, pipeline: Location = "asap", columns: dict[str, str] | None = None, **settings: Any) -> None:
        _run.check_pipeline(pipeline)
        self._name = os.fspath(pipeline)
        given = _settings.pairs(settings, _run.KEYWORDS)
        self._set(_asap.pipeline(self._name), columns, given)

    def _set(self, pipeline: str, columns: dict[str, str] | None, settings: _settings.Pairs) -> None:
        self._pipeline, self._columns, self._settings = pipeline, columns, sorted(settings)
        self.fingerprint = _asap.fingerprint(pipeline, _settings.mapping(columns), self._settings)

    def __call__(self, batch: Any) -> Any:
        import tempfile

        import pyarrow

        if type(batch) is dict and all(_data.library(column) == "numpy" for column in batch.values()):
            # A batch of ray.data, which takes a table too.
            flat = {name: column if column.ndim == 1 else list(column) for name, column in batch.items()}
            batch = pyarrow.table(flat)
        _check_batch(batch)
        with tempfile.TemporaryDirectory(prefix="asap-") as folder, _messages.about_data(folder):
            path = os.path.join(folder, _data.FILE)
            rows = _data.write(batch if _data.is_arrow(batch) or isinstance(batch, list) else dict(batch), path)
            columns = _settings.mapping(self._columns)
            pruned = _data.to_arrow(_asap.prune(self._pipeline, path, columns, self._settings))
        if not set(_OF_TRAINERS) & set(pruned.column_names):
            raise _asap.ArgumentError(
                "a Pruner needs a pipeline with the columns prompt and completion, or messages, found "
                f"{', '.join(pruned.column_names)}: use asap.prune or asap.run"
            )
        return _with_columns(batch, _aligned(pruned, rows))

    def __reduce__(self) -> tuple[Any, ...]:
        # The fingerprint is that of this process: it covers settings files and the files of models.
        return Pruner._restored, (self._pipeline, self._columns, tuple(self._settings), self.fingerprint)

    @classmethod
    def _restored(
        cls, pipeline: str, columns: dict[str, str] | None, settings: tuple[tuple[str, str], ...], fingerprint: str
    ) -> "Pruner":
        pruner = cls.__new__(cls)
        pruner._set(pipeline, columns, list(settings))
        if pruner.fingerprint != fingerprint:
            raise _asap.ArgumentError(
                "this process has other settings, another version of asap or another model than the one that made the "
                "Pruner: use the same in all"
            )
        return pruner

    def __repr__(self) -> str:
        shown = [f"columns={self._columns!r}"] if self._columns else []
        shown += [f"{name}={value}" for name, value in self._settings]
        return f"<asap.Pruner{f' of {self._name}' if self._name else ''}{': ' if shown else ''}{', '.join(shown)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pruner) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)


def _check_batch(batch: Any) -> None:
    if _data.is_arrow(batch) or isinstance(batch, list):
        return
    one = (str, bytes, int, float, dict)
    is_columns = isinstance(batch, Mapping)
    if not is_columns or any(value is None or isinstance(value, one) for value in batch.values()):
        found = "one row" if is_columns else _data.named(batch)
        raise _asap.ArgumentError(f"a Pruner takes a batch of rows, found {found}: pass batched=True to map")


def _aligned(pruned: Any, rows: int) -> dict[str, Any]:
    """The columns of a Pruner, with a row for each row of the batch."""
    import pyarrow.compute

    place_of = {row: place for place, row in enumerate(pruned["source"].combine_chunks().field("row").to_pylist())}
    places = pyarrow.array([place_of.get(row) for row in range(rows)], pyarrow.int64())
    names = [name for name in (*_OF_TRAINERS, "error") if name in pruned.column_names]
    columns = {name: pruned[name].combine_chunks().take(places) for name in names}
    statuses = [None] * pruned.num_rows
    if "status" in pruned.column_names:
        statuses = pruned["status"].to_pylist()
    status = ["filtered" if row not in place_of else statuses[place_of[row]] or "ok" for row in range(rows)]
    columns["status"] = pyarrow.array(status, pyarrow.string())
    # A batch without an error must have the type of others.
    if "error" in columns:
        columns["error"] = columns["error"].fill_null("")
    is_ok = pyarrow.array([each == "ok" for each in status])
    for name in _OF_TRAINERS:
        if name in columns:
            nothing = pyarrow.scalar(None, columns[name].type)
            columns[name] = pyarrow.compute.call_function("if_else", [is_ok, columns[name], nothing])
    return columns


def _with_columns(batch: Any, columns: dict[str, Any]) -> Any:
    """The batch with these columns, in its library."""
    import pyarrow

    library = _data.library(batch)
    if library == "pandas":
        return batch.assign(**pyarrow.table(columns).to_pandas().set_index(batch.index))
    if library == "polars":
        import polars

        return batch.with_columns(polars.from_arrow(pyarrow.table(columns)))
    if isinstance(batch, (pyarrow.RecordBatch, pyarrow.Table)):
        for name, column in columns.items():
            place = batch.schema.get_field_index(name)
            batch = batch.append_column(name, column) if place < 0 else batch.set_column(place, name, column)
        return batch
    if isinstance(batch, list):
        added = pyarrow.table(columns).to_pylist()
        return [{**row, **more} for row, more in zip(batch, added, strict=True)]
    # What map takes.
    return {name: _Typed(column) for name, column in columns.items()}


class _Typed(list[Any]):
    """Values with their Arrow type, which the values of one batch may not show: all of them may be NULL."""

    def __init__(self, column: Any) -> None:
        super().__init__(column.to_pylist())
        self._column = column

    def __arrow_array__(self, type: Any = None) -> Any:
        return self._column if type is None else self._column.cast(type)
