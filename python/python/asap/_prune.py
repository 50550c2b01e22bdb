"""Pruning in memory: a run over the rows of a file, into a temporary folder."""

import glob
import os
import sys
from typing import Any

from asap import _asap, _data, _messages, _run, _settings
from asap._data import Location
from asap._results import Output, Pruned
from asap._sql import sql


def prune(
    data: Any,
    pipeline: Location = "asap",
    columns: dict[str, str] | None = None,
    *,
    to: Location | None = None,
    **options: Any,
) -> Pruned:
    """Prune a dataset, a data frame, an Arrow table, a list of dicts, a dict of lists or the files of a location.

    The result has the rows that `asap run` writes, in the order of the input. `prune` holds rows and rejects in memory.
    For a corpus that does not fit in memory, use `run`.

    Args:
        data: The corpus. If SELECT * FROM corpus_shapes() does not list its layout, name the columns.
        pipeline: The name of a pipeline of asap, or a file with one SELECT over the table corpus.
        columns: The names of the question, cot and answer columns, as a dict, if asap cannot recognize them.
        to: The location of the output, which also holds the paid answers of a language model. By default, output and
            answers are deleted with the result.
        options: Settings by name, such as refine_max_tokens, and flags of `asap run`, such as limit and quiet.

    Returns:
        A tuple of rows, rejects and summary. Rows and rejects have the type of data. For a location, they are Arrow
        tables.
    """
    import shutil
    import tempfile

    _run.check_pipeline(pipeline)
    if "part" in options:
        raise _asap.ArgumentError("prune returns all rows: pass part to asap.run, which writes them to a table")
    quiet = options.pop("quiet", False)
    folder = tempfile.mkdtemp(prefix="asap-")
    is_held = not _data.is_location(data)
    output = os.path.join(folder, _data.OUTPUT) if to is None else _data.location(to)
    try:
        with _messages.about_data(folder, is_held):
            found = _pruned(data, pipeline, columns, folder, output, quiet, options)
    except BaseException as error:
        if to is None and glob.glob(os.path.join(glob.escape(output), ".asap", "cache", "*")):
            paid = f"the answers to sent calls are in {output}: pass to={output!r} to use them"
            if isinstance(error, _asap.Error):
                raise type(error)(f"{error}; {paid}") from None
            print(paid, file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, KeyboardInterrupt) and to is None:
            kept = "the pruned rows are lost: with to='out/pruned', a repeated call resumes after them"
            raise KeyboardInterrupt(f"interrupted; {kept}") from None
        raise
    summary = _run.with_notes(found.summary, quiet, lambda note: _messages.of_data(note, folder, is_held))
    pruned = Pruned(found.rows, found.rejects, summary)
    place = Output(output, folder, is_held)
    pruned.output = None if found.rows is None else place
    return pruned


def _pruned(
    data: Any,
    pipeline: Location,
    columns: dict[str, str] | None,
    folder: str,
    output: str,
    quiet: bool,
    options: dict[str, Any],
) -> Pruned:
    source, held = data, os.path.join(folder, _data.FILE)
    if not _data.is_location(data):
        source = held
        if not _data.write(data, held):
            columns = _data.write_nothing(held, columns)
        options = {"on_change": "reprocess", **options}
    summary = _run.summary_of(pipeline, source, output, columns, quiet, options, returns_rejects=True)
    if options.get("dry_run"):
        return Pruned(None, None, summary)
    try:
        rows, rejects = _rows_of(output)
    except _asap.InputError:
        if summary["rows_in"] or not summary["nothing_to_do"]:
            raise
        # A run without rows makes no table. Its query has the columns.
        columns = columns if source == held else _data.write_nothing(held, columns)
        given = _run.arguments(source, output, columns, options)[1]
        query = (_asap.pipeline(_data.location(pipeline)), held, _settings.mapping(columns), [], given, None)
        rows, rejects = _data.without_status(query), _asap.sql(*query)
    return Pruned(_data.like(data, rows), _data.like(data, rejects), summary)


def _rows_of(output: str) -> tuple[_asap.Reader, _asap.Reader]:
    named = output.replace("'", "''").rstrip("/")
    rows = sql(f"SELECT * FROM '{named}' ORDER BY source")
    try:
        return rows, sql(f"SELECT * FROM '{named}/.asap/rejects' ORDER BY source")
    except _asap.InputError:
        # The output has no rejects.
        nothing = "CAST(NULL AS VARCHAR) AS status, CAST(NULL AS VARCHAR) AS error"
        return rows, sql(f"SELECT *, {nothing} FROM '{named}' LIMIT 0")
