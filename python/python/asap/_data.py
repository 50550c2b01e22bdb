"""Datasets, data frames and tables: as files that a run reads, and from the rows of its output."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

from asap import _asap

Location: TypeAlias = str | os.PathLike[str]

# The names of rows in memory and of their output, in a temporary folder.
FILE = "rows.parquet"
OUTPUT = "pruned"
_BATCH = 10_000


def is_arrow(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def library(data: object) -> str:
    return type(data).__module__.partition(".")[0]


def named(value: object) -> str:
    """The type of a value, with its article."""
    name = type(value).__name__
    return "None" if value is None else f"{article(name)} {name}"


def article(name: str) -> str:
    return "an" if name[0] in "aeioAEIO" else "a"


def write(data: Any, path: Location) -> int:
    """Write rows to a Parquet file. Returns the number of rows."""
    return _asap.write_parquet(arrow(data), path)


def arrow(data: Any) -> Any:
    """Rows with Arrow's PyCapsule interface, for the engine."""
    source = library(data)
    if source == "datasets" and isinstance(data, dict):
        found = f"{named(data)} of {', '.join(data)}"
        raise _asap.ArgumentError(f"expected a Dataset, found {found}: pass one of them")
    if source == "datasets":
        return _batches(data)
    if source == "pandas" and hasattr(data, "columns"):
        return _of_columns([(name, data.iloc[:, place]) for place, name in enumerate(data.columns)])
    if source == "polars" and hasattr(data, "columns"):
        return _of_polars(data)
    if isinstance(data, (list, tuple)):
        return _of_columns(columns_of(data).items())
    if isinstance(data, dict):
        return _of_columns(_checked(data).items())
    kind = str(getattr(data, "type", "struct")) if source == "pyarrow" else "struct"
    is_column = hasattr(data, "dtype") or not kind.startswith("struct")
    if not is_arrow(data) or is_column:
        raise _asap.ArgumentError(
            "expected a Dataset, an IterableDataset, a data frame, an Arrow table, a list of dicts, a dict of lists or "
            f"a location, found {named(data)}"
        )
    return data


def columns_of(rows: Collection[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """A list of dicts as a dict of lists. A row without a value has None."""
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise _asap.ArgumentError(f"expected a list of dicts, one for each row, found {row!r:.40} in place {place}")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _checked(columns: dict[str, Any]) -> dict[str, Any]:
    """A dict of lists of one length."""
    for name, values in columns.items():
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
            found = f"{named(values)} in {name}"
            raise _asap.ArgumentError(f"expected a dict of lists, found {found}: put one row in a list, [row]")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{each} in {name}" for name, each in lengths.items())
        raise _asap.InputError(f"expected lists of one length, found {found}")
    return columns


def _of_columns(columns: Collection[tuple[Any, Any]]) -> Any:
    import pyarrow

    names = [str(name) for name, _ in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise _asap.InputError(f"the data has several columns {twice}: rename them, or leave them out")
    return pyarrow.table([column(name, values) for name, values in columns], names=names)


def column(name: object, values: Any) -> Any:
    """The values of a column as Arrow data. NaN in a column of objects is NULL, as in a data frame."""
    import pyarrow

    if isinstance(values, (pyarrow.Array, pyarrow.ChunkedArray)):
        return values
    try:
        return pyarrow.array(values, from_pandas=True)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        raise _asap.InputError(
            f"column {name} holds values that have no common Arrow type ({', '.join(kinds[:3])}): convert the column, "
            f"for example to text, or leave it out; {str(error).splitlines()[0]}"
        ) from None


def check_polars(name: str, kind: Any) -> None:
    if str(kind.base_type()) in ("Object", "Int128", "UInt128"):
        raise _asap.InputError(
            f"column {name} has the type {kind}, which asap cannot read: convert the column, for example to text, or "
            "leave it out"
        )


def _of_polars(frame: Any) -> Any:
    import polars

    frame = frame.lazy()
    for name, kind in frame.collect_schema().items():
        check_polars(name, kind)
    # The engine reads no dictionaries of its string views.
    return frame.with_columns(polars.selectors.by_dtype(polars.Categorical, polars.Enum).cast(str)).collect()


def write_nothing(path: str, columns: dict[str, str] | None) -> dict[str, str]:
    """Rewrite a file without rows, so that it has the columns of a corpus. Returns the names of these columns."""
    columns = columns or {role: role for role in ("question", "cot", "answer")}
    held: list[str] = []
    if os.path.exists(path):
        held = [row["column_name"] for row in _asap.sql(f"DESCRIBE '{path}'", None, None, [], [], None).to_pylist()]
    texts = dict.fromkeys([*columns.values(), *held])
    texts = ", ".join(f"CAST(NULL AS VARCHAR) AS {_quoted(name)}" for name in texts)
    _asap.write_parquet(_asap.sql(f"SELECT {texts} LIMIT 0", None, None, [], [], None), path)
    return columns


def without_status(query: tuple[Any, ...]) -> _asap.Reader:
    """The rows of a query without the columns of rejects."""

    def of(text: str) -> _asap.Reader:
        return _asap.sql(text, None, None, [("found", _asap.sql(*query))], [], None)

    names = [row["column_name"] for row in of("DESCRIBE found").to_pylist()]
    kept = [_quoted(name) for name in names if name not in ("status", "error")]
    return of(f"SELECT {', '.join(kept)} FROM found")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _batches(dataset: Any) -> Any:
    """The rows of a dataset, as a stream."""
    import pyarrow

    tables = _tables(dataset)
    first = next(tables, None)
    if first is None:
        if dataset.features is None:
            return pyarrow.table({})
        return dataset.features.arrow_schema.empty_table()
    batches = (batch for table in _chain(first, tables) for batch in table.to_batches())
    return pyarrow.RecordBatchReader.from_batches(first.schema, batches)


def _tables(dataset: Any) -> Iterator[Any]:
    import pyarrow

    if dataset.features is None:
        # As Arrow data, datasets would join rows, and fail if a value is NULL in only some of them.
        return (pyarrow.table(batch) for batch in dataset.iter(batch_size=_BATCH))
    return dataset.with_format("arrow").iter(batch_size=_BATCH)


def _chain(first: Any, others: Iterable[Any]) -> Iterator[Any]:
    import pyarrow

    yield first
    for table in others:
        # Batches of a stream may differ in columns that are NULL.
        try:
            yield table if table.schema.equals(first.schema) else table.cast(first.schema)
        except (ValueError, pyarrow.ArrowNotImplementedError) as error:
            raise _asap.InputError(
                f"the first {_BATCH:,} rows of the dataset have other types than later rows: {error}; name the types: "
                "dataset.cast(features)"
            ) from error


def like(data: Any, rows: _asap.Reader) -> Any:
    """The rows, in the library of `data`."""
    source = library(data)
    if source == "polars":
        return rows.to_polars()
    if isinstance(data, (list, tuple)):
        return rows.to_pylist()
    if isinstance(data, dict):
        table = rows.to_arrow()
        return {name: table[name].to_pylist() for name in table.column_names}
    try:
        table = plain(rows)
    except ImportError:
        return rows
    if source == "pandas":
        return table.to_pandas()
    if source == "datasets":
        import datasets

        found = datasets.Dataset(table)
        if not isinstance(data, datasets.IterableDataset):
            return found
        if not len(found):
            return datasets.IterableDataset.from_generator(_nothing, features=found.features)
        return found.to_iterable_dataset()
    return table


def _nothing() -> Iterator[Any]:
    yield from ()


def batches(reader: _asap.Reader) -> Iterator[Any]:
    """The batches of a reader."""
    while (rows := _asap.next_batch(reader)) is not None:
        yield from plain(rows).to_batches()


def to_arrow(reader: _asap.Reader) -> Any:
    return plain(_asap.all_rows(reader))


def to_pandas(reader: _asap.Reader) -> Any:
    return to_arrow(reader).to_pandas()


def to_polars(reader: _asap.Reader) -> Any:
    import polars

    return polars.DataFrame(_asap.all_rows(reader))


def plain(rows: Any) -> Any:
    """A pyarrow table of types that all libraries read: texts are no views."""
    import pyarrow

    table = pyarrow.table(rows)
    return table.cast(pyarrow.schema([field.with_type(_plain_type(field.type)) for field in table.schema]))


def _plain_type(kind: Any) -> Any:
    import pyarrow

    if pyarrow.types.is_string_view(kind):
        return pyarrow.string()
    if pyarrow.types.is_binary_view(kind):
        return pyarrow.binary()
    if pyarrow.types.is_list(kind):
        return pyarrow.list_(_plain_type(kind.value_type))
    if pyarrow.types.is_struct(kind):
        return pyarrow.struct([(field.name, _plain_type(field.type)) for field in kind])
    return kind


def is_location(data: object) -> TypeGuard[Location]:
    return isinstance(data, (str, os.PathLike))


def location(data: object) -> str:
    """The text of a location. Without a shell, no one else replaces the user's folder."""
    if not is_location(data):
        found = named(data)
        raise _asap.ArgumentError(f"expected a location, found {found}: asap.prune and asap.sql take data in memory")
    return os.path.expanduser(os.fspath(data))
