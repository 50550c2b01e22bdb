"""Queries."""

import contextlib
import os
from typing import Any

from asap import _asap, _data, _messages, _settings


def sql(
    query: str,
    corpus: Any = None,
    *,
    columns: dict[str, str] | None = None,
    settings: dict[str, Any] | None = None,
    **tables: Any,
) -> _asap.Reader:
    """Run a query, and return its rows as a stream of Arrow batches, for any library that reads Arrow data.

    Args:
        query: One SQL statement. The statement can read files, folders and Delta tables: FROM 'out/pruned'.
        corpus: The data that the query reads as the table `corpus`: a location, a dataset, a data frame, an Arrow
            table, a list of dicts or a dict of lists. `asap inspect` shows how asap reads a location.
        columns: The names of the question, cot and answer columns of the corpus, as a dict, if asap cannot recognize
            them.
        settings: Settings by name, as a dict.
        tables: More tables by name, each with a location or rows.

    >>> import asap
    >>> asap.sql("SELECT cot_tokens('2 + 2 is 4') AS tokens").to_pylist()
    [{'tokens': 7}]
    """
    import tempfile

    keep = None
    if corpus is not None and not _data.is_location(corpus):
        # The folder is deleted with the object that stands for it.
        keep = tempfile.TemporaryDirectory(prefix="asap-", ignore_cleanup_errors=True)
        path = os.path.join(keep.name, _data.FILE)
        _data.write(corpus, path)
        corpus = path
    named = [(name, _table(name, data)) for name, data in tables.items()]
    corpus = corpus if corpus is None else _data.location(corpus)
    given = _settings.pairs(settings or {})
    with _messages.about_data(keep.name) if keep else contextlib.nullcontext():
        return _asap.sql(query, corpus, _settings.mapping(columns), named, given, keep)


def _table(name: str, data: Any) -> Any:
    if _data.is_location(data):
        return _data.location(data)
    if _settings.is_known(name) and isinstance(data, (bool, int, float)):
        advice = f"pass settings={{{name!r}: {data!r}}}"
        raise _asap.ArgumentError(f"{name} is a setting, and keywords of asap.sql are tables: {advice}")
    return _data.arrow(data)
