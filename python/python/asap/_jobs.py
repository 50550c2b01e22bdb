"""Whole jobs: queries, runs, and pruning in memory. What only some need is imported there, so that the import is quick."""

import json
import os
import sys
import time
from collections.abc import Mapping
from os import PathLike
from typing import Any, NamedTuple

from asap import _asap, _data, _messages, _settings
from asap._asap import Reader

_LINES = 30.0
_DRAWN = 0.2
_KEYWORDS = ("columns", "from_", "pipeline", "quiet", "to")


def pipelines() -> dict[str, str]:
    """Return the names of the built-in pipelines with what they do, as a dict.

    >>> import asap
    >>> asap.pipelines()["pir"].split(". ", 4)[-1]
    'Differs from its publication: only rules find the functional steps. The paper also asks a language model.'
    """
    return dict(_asap.pipelines())


def settings() -> dict[str, str]:
    """Return the names of all settings with their descriptions, as a dict.

    >>> import asap
    >>> asap.settings()["refine_max_tokens"]
    'The maximum number of tokens of a pruned chain (L_max of Algorithm 2). Unset: 4096, or only `asap.refine.ratio` if that is set.'
    """
    return dict(_asap.settings())


def sql(
    query: str,
    corpus: Any = None,
    *,
    columns: dict[str, str] | None = None,
    settings: dict[str, Any] | None = None,
    **tables: Any,
) -> Reader:
    """Run a query, and return its rows as a stream of Arrow batches, for any library that reads Arrow data.

    Args:
        query: One SQL statement. The statement can read files, folders and Delta tables: FROM 'out/pruned'.
        corpus: The data that the query reads as the table `corpus`: a location, a dataset, a data frame, an Arrow table, a
            list of dicts or a dict of lists. `asap inspect` shows how asap reads a location.
        columns: The names of the question, cot and answer columns of the corpus, as a dict, if asap cannot recognize them.
        settings: Settings by name, as a dict.
        tables: More tables by name, each with a location or rows.

    >>> import asap
    >>> asap.sql("SELECT cot_tokens('2 + 2 is 4') AS tokens").to_pylist()
    [{'tokens': 7}]
    """
    import tempfile

    keep = None
    is_held = corpus is not None and not _data.is_location(corpus)
    if is_held:
        # The folder is deleted with the object that stands for it.
        keep = tempfile.TemporaryDirectory(prefix="asap-", ignore_cleanup_errors=True)
        path = os.path.join(keep.name, "rows.parquet")
        _data.write(corpus, path)
        corpus = path
    named = [(name, _table(name, data)) for name, data in tables.items()]
    corpus = corpus if corpus is None else _data.location(corpus)
    given = _settings.pairs(settings or {})
    with _messages.about_data(is_held):
        return _asap.sql(query, corpus, _settings.mapping(columns), named, given, keep)


def _table(name, data):
    if _data.is_location(data):
        return _data.location(data)
    if _settings.is_known(name) and isinstance(data, (bool, int, float)):
        raise _asap.Error(f"{name} is a setting, and keywords of asap.sql are tables: pass settings={{{name!r}: {data!r}}}")
    return _data.arrow(data)


def run(
    pipeline: str | PathLike,
    *,
    from_: str | PathLike | list,
    to: str | PathLike,
    columns: dict[str, str] | None = None,
    quiet: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Run a pipeline over a corpus, and commit the result to a Delta table, as `asap run` does.

    If a run was interrupted, repeat the call to resume.

    Args:
        pipeline: The name of a pipeline of asap, or a file with one SELECT over the table corpus.
        from_: The location of the corpus, or a list of locations, each with a name: math=s3://lake/math.
        to: The location of the output.
        columns: The names of the question, cot and answer columns, as a dict, if asap cannot recognize them.
        quiet: Whether to hide the progress.
        options: Settings by name, such as refine_max_tokens, and flags of `asap run`, such as limit, dry_run and part.

    Returns:
        The summary of the run, or the estimate of a dry run, as a dict.
    """
    _check_pipeline(pipeline)
    return _with_notes(_run(pipeline, from_, to, columns, quiet, options), quiet)


def _run(pipeline, from_, to, columns, quiet, options, *, returns_rejects=False):
    flags, settings = _arguments(from_, to, columns, options)
    flags = [_data.location(pipeline), *flags]
    progress = None if quiet else _Progress()
    try:
        return json.loads(_asap.run(flags, settings, progress, returns_rejects))
    finally:
        if progress:
            progress.close()


def _with_notes(summary, quiet, words=_messages.in_python):
    """The summary of a run, with its notes as warnings."""
    notes = [words(note) for note in summary.get("notes", [])]
    for note in [] if quiet else notes:
        _messages.note(note)
    return {**summary, "notes": notes} if notes else summary


def _arguments(from_, to, columns, options, others=()):
    """The flags of `asap run` after its pipeline, and the settings. `others` are more keywords of the call."""
    known = {name for name in _asap.flags() if not _settings.is_known(name) or name == "config"}
    flags = [*(f"--from={_data.location(each)}" for each in _listed(from_)), f"--to={_data.location(to)}"]
    given = {"columns": _settings.mapping(columns), **options}
    for name, value in given.items():
        if name not in known or value is None or value is False:
            continue
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            flags.append(flag)
        else:
            flags.append(f"{flag}={','.join(map(str, value)) if isinstance(value, (list, tuple)) else value}")
    settings = {name: value for name, value in options.items() if name not in known}
    return flags, _settings.pairs(settings, (*_KEYWORDS, *others, *known))


class Pruned(NamedTuple("Pruned", [("rows", Any), ("rejects", Any), ("summary", dict[str, Any])])):
    """What `prune` returns. A notebook shows its report."""

    rows: Any
    """The rows of the output, with the type of the input. Trainers read either prompt and completion, or messages."""
    rejects: Any
    """The rows that cannot be pruned, each with its status and error."""
    summary: dict[str, Any]
    """The summary of the run."""

    def __repr__(self):
        if self.rows is None:
            return f"<asap.Pruned: an estimate for {self.summary['rows']:,} rows>"
        rows, rejects = _count(self.rows, self.summary["rows_out"]), _count(self.rejects, self.summary["rows_rejected"])
        return f"<asap.Pruned: {rows:,} rows, {rejects:,} rejects>"

    _output = None
    _folder = None

    def _repr_html_(self):
        try:
            return report(self)._repr_html_()
        except _asap.Error:
            # The notebook shows the text instead.
            return None

    def __reduce__(self):
        return Pruned, tuple(self)


class _Folder:
    """Deletes a folder when it is deleted itself."""

    def __init__(self, path):
        import shutil
        import weakref

        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


class Report:
    """What pruning did to a corpus. A notebook shows it."""

    def __init__(self, data: Any, against: str | PathLike | None = None, exam: str | PathLike | None = None) -> None:
        output = data._output if isinstance(data, Pruned) else data
        if not _data.is_location(output):
            found = "an estimate, or a copy of a result" if isinstance(data, Pruned) else f"a {type(data).__name__}"
            raise _asap.Error(f"expected the location of an output, or what asap.prune returned, found {found}")
        # The output lives as long as its result.
        self._data = data
        self._places = [None if place is None else _data.location(place) for place in (output, against, exam)]
        self._html = _asap.report(*self._places, None)

    def to(self, file: str | PathLike) -> None:
        """Write the report with 20 chains to a file, as `asap view --to` does: .html, .md or .json."""
        _asap.report(*self._places, os.fspath(file))

    def _repr_html_(self):
        return self._html

    def __repr__(self):
        return f"<asap.Report of {self._places[0]}>"


def report(data: Any, *, against: str | PathLike | None = None, exam: str | PathLike | None = None) -> Report:
    """Show what pruning did, in a notebook: the first screen of `asap view`.

    Args:
        data: The location of an output, or what `prune` returned.
        against: The location of a second output of the same input, to compare with.
        exam: The location of the rows of `asap exam`, which show whether answers survive.
    """
    return Report(data, against, exam)


def _count(rows, otherwise):
    """The number of rows. A stream has no length."""
    if isinstance(rows, dict):
        rows = next(iter(rows.values()), ())
    return len(rows) if hasattr(rows, "__len__") else otherwise


def prune(
    data: Any,
    pipeline: str | PathLike = "asap",
    columns: dict[str, str] | None = None,
    *,
    to: str | PathLike | None = None,
    **options: Any,
) -> Pruned:
    """Prune a dataset, a data frame, an Arrow table, a list of dicts, a dict of lists or the files of a location.

    The result has the rows that `asap run` writes, in the order of the input. `prune` holds rows and rejects in memory. For a
    corpus that does not fit in memory, use `run`.

    Args:
        data: The corpus. If SELECT * FROM corpus_shapes() does not list its layout, name the columns.
        pipeline: The name of a pipeline of asap, or a file with one SELECT over the table corpus.
        columns: The names of the question, cot and answer columns, as a dict, if asap cannot recognize them.
        to: The location of the output, which also holds the paid answers of a language model. By default, output and
            answers are deleted with the result.
        options: Settings by name, such as refine_max_tokens, and flags of `asap run`, such as limit and quiet.

    Returns:
        A tuple of rows, rejects and summary. Rows and rejects have the type of data. For a location, they are Arrow tables.
    """
    import shutil
    import tempfile

    _check_pipeline(pipeline)
    if "part" in options:
        raise _asap.Error("prune returns all rows: pass part to asap.run, which writes them to a table")
    quiet, is_held = options.pop("quiet", False), not _data.is_location(data)
    folder = tempfile.mkdtemp(prefix="asap-")
    output = os.path.join(folder, "pruned") if to is None else _data.location(to)
    try:
        with _messages.about_data(is_held):
            found = _pruned(data, pipeline, columns, folder, output, quiet, options)
    except BaseException as error:
        if os.path.isdir(os.path.join(output, ".asap", "cache")) and to is None:
            paid = f"the answers to sent calls are in {output}: pass to={output!r} to use them"
            if isinstance(error, _asap.Error):
                raise _asap.Error(f"{error}; {paid}") from None
            print(paid, file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    found = found._replace(summary=_with_notes(found.summary, quiet, _messages.of_data if is_held else _messages.in_python))
    found._folder, found._output = _Folder(folder), None if found.rows is None else output
    return found


def _pruned(data, pipeline, columns, folder, output, quiet, options):
    source, held = data, os.path.join(folder, "rows.parquet")
    if not _data.is_location(data):
        source = held
        if not _data.write(data, held):
            columns = _data.write_nothing(held, columns)
        options = {"on_change": "reprocess", **options}
    summary = _run(pipeline, source, output, columns, quiet, options, returns_rejects=True)
    if options.get("dry_run"):
        return Pruned(None, None, summary)
    try:
        rows, rejects = _rows_of(output)
    except _asap.Error:
        if summary["rows_in"] or not summary["nothing_to_do"]:
            raise
        # A run without rows makes no table. Its query has the columns.
        columns = columns if source == held else _data.write_nothing(held, columns)
        given = _arguments(source, output, columns, options)[1]
        query = [_asap.pipeline(_data.location(pipeline)), held, _settings.mapping(columns), [], given, None]
        rows, rejects = _data.without_status(query), _asap.sql(*query)
    return Pruned(_data.like(data, rows), _data.like(data, rejects), summary)


def _rows_of(output):
    named = output.replace("'", "''").rstrip("/")
    rows = sql(f"SELECT * FROM '{named}' ORDER BY source")
    try:
        return rows, sql(f"SELECT * FROM '{named}/.asap/rejects' ORDER BY source")
    except _asap.Error as error:
        if "has no rejects" not in str(error):
            raise
    nothing = "CAST(NULL AS VARCHAR) AS status, CAST(NULL AS VARCHAR) AS error"
    return rows, sql(f"SELECT *, {nothing} FROM '{named}' LIMIT 0")


class Pruner:
    """Prunes batches: a function for `Dataset.map(pruner, batched=True)`, and for `map_batches` of ray.data.

    A Pruner keeps all rows of a batch. It adds the columns prompt, completion, messages, status and error, or replaces columns
    with these names. A pruned row has the status ok. A row that the pipeline leaves out has the status filtered. If a row
    cannot be pruned, its status is the reason, and error has the details. If the status is not ok, then prompt, completion and
    messages are NULL.

    Two pruners are equal if their fingerprints are equal. A fingerprint covers the pipeline, the columns, the settings that
    change results, the version of asap and the files of its models. So a second `map` with an equal pruner reads the rows from
    the cache of the library datasets.

    Args:
        pipeline: The name of a pipeline of asap, or a file with one SELECT over the table corpus.
        columns: The names of the question, cot and answer columns, as a dict, if asap cannot recognize them.
        settings: Settings by name.
    """

    def __init__(
        self, pipeline: str | PathLike = "asap", columns: dict[str, str] | None = None, **settings: Any
    ) -> None:
        _check_pipeline(pipeline)
        self._name = os.fspath(pipeline)
        self._set(_asap.pipeline(self._name), _settings.mapping(columns), _settings.pairs(settings, _KEYWORDS))

    _name = None

    def _set(self, pipeline, columns, settings):
        self._pipeline, self._columns, self._settings = pipeline, columns, sorted(settings)
        self.fingerprint = _asap.fingerprint(self._pipeline, self._columns, self._settings)

    def __call__(self, batch: Any) -> Any:
        import tempfile

        import pyarrow

        if type(batch) is dict and all(_data.library(column) == "numpy" for column in batch.values()):
            # A batch of ray.data, which takes a table too.
            batch = pyarrow.table({name: column if column.ndim == 1 else list(column) for name, column in batch.items()})
        _check_batch(batch)
        with tempfile.TemporaryDirectory(prefix="asap-") as folder, _messages.about_data():
            path = os.path.join(folder, "rows.parquet")
            rows = _data.write(batch if _data.is_arrow(batch) or isinstance(batch, list) else dict(batch), path)
            pruned = _data.to_arrow(_asap.prune(self._pipeline, path, self._columns, self._settings))
        if not {"prompt", "completion", "messages"} & set(pruned.column_names):
            raise _asap.Error(
                "a Pruner needs a pipeline with the columns prompt and completion, or messages, found "
                f"{', '.join(pruned.column_names)}: use asap.prune or asap.run"
            )
        return _with_columns(batch, _aligned(pruned, rows))

    def __reduce__(self):
        # The fingerprint is that of this process: it covers settings files and the files of models.
        return _restored, (self._pipeline, self._columns, tuple(self._settings), self.fingerprint)

    def __repr__(self):
        shown = [f"columns={_messages.mapping(self._columns)}"] if self._columns else []
        shown += [f"{name}={value}" for name, value in self._settings]
        return f"<asap.Pruner{f' of {self._name}' if self._name else ''}{': ' if shown else ''}{', '.join(shown)}>"

    def __eq__(self, other):
        return isinstance(other, Pruner) and self.fingerprint == other.fingerprint

    def __hash__(self):
        return hash(self.fingerprint)


def _check_batch(batch):
    if _data.is_arrow(batch) or isinstance(batch, list):
        return
    is_columns = isinstance(batch, Mapping)
    if not is_columns or any(value is None or isinstance(value, (str, bytes, int, float, dict)) for value in batch.values()):
        found = "one row" if is_columns else type(batch).__name__
        raise _asap.Error(f"a Pruner takes a batch of rows, found {found}: pass batched=True to map")


def _restored(pipeline, columns, settings, fingerprint):
    pruner = Pruner.__new__(Pruner)
    pruner._set(pipeline, columns, list(settings))
    if pruner.fingerprint != fingerprint:
        raise _asap.Error(
            "this process has other settings, another version of asap or another model than the one that made the Pruner: "
            "use the same in all"
        )
    return pruner


def _aligned(pruned, rows):
    """The columns of a Pruner, with a row for each row of the batch."""
    import pyarrow.compute

    place_of = {row: place for place, row in enumerate(pruned["source"].combine_chunks().field("row").to_pylist())}
    places = pyarrow.array([place_of.get(row) for row in range(rows)], pyarrow.int64())
    names = [name for name in ("prompt", "completion", "messages", "error") if name in pruned.column_names]
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
    for name in ("prompt", "completion", "messages"):
        if name in columns:
            nothing = pyarrow.scalar(None, columns[name].type)
            columns[name] = pyarrow.compute.if_else(is_ok, columns[name], nothing)
    return columns


def _with_columns(batch, columns):
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
        return [{**row, **more} for row, more in zip(batch, added)]
    # What map takes.
    return {name: _Typed(column) for name, column in columns.items()}


class _Typed(list):
    """Values with their Arrow type, which the values of one batch may not show: all of them may be NULL."""

    def __init__(self, column):
        super().__init__(column.to_pylist())
        self._column = column

    def __arrow_array__(self, type=None):
        return self._column if type is None else self._column.cast(type)


def _check_pipeline(pipeline):
    if not isinstance(pipeline, (str, os.PathLike)):
        raise _asap.Error(
            f"expected the name of a pipeline, or a file of SQL, found a {type(pipeline).__name__}: a pipeline is one SELECT "
            "over the table corpus"
        )


def _listed(locations):
    return list(locations) if isinstance(locations, (list, tuple)) else [locations]


class _Progress:
    """Shows a line on stderr: in place on a terminal and in a notebook, else every 30 seconds."""

    def __init__(self):
        self._is_drawn = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._pause = _DRAWN if self._is_drawn else _LINES
        self._begun = self._last = time.monotonic()
        self._width = 0

    def __call__(self, line):
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

    def close(self):
        if self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)
