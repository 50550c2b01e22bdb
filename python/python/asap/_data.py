"""Datasets, data frames and tables: as files that a run reads, and from the rows of its output."""

import os
from collections.abc import Mapping

from asap import _asap

_BATCH = 10_000


def is_arrow(data):
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def library(data):
    return type(data).__module__.partition(".")[0]


def write(data, path):
    """Write rows to a Parquet file. Returns the number of rows."""
    return _asap.write_parquet(arrow(data), path)


def arrow(data):
    """Rows with Arrow's PyCapsule interface, for the engine."""
    source = library(data)
    if source == "datasets" and isinstance(data, dict):
        raise _asap.Error(f"expected a Dataset, found a {type(data).__name__} of {', '.join(data)}: pass one of them")
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
        raise _asap.Error(
            "expected a Dataset, an IterableDataset, a data frame, an Arrow table, a list of dicts, a dict of lists or a "
            f"location, found a {type(data).__name__}"
        )
    return data


def columns_of(rows):
    """A list of dicts as a dict of lists. A row without a value has None."""
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise _asap.Error(f"expected a list of dicts, one for each row, found {row!r:.40} in place {place}")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _checked(columns):
    """A dict of lists of one length."""
    for name, values in columns.items():
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
            raise _asap.Error(f"expected a dict of lists, found a {type(values).__name__} in {name}: put one row in a list, "
                              "[row]")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise _asap.Error(f"expected lists of one length, found {', '.join(f'{each} in {name}' for name, each in lengths.items())}")
    return columns


def _of_columns(columns):
    import pyarrow

    names = [str(name) for name, _ in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise _asap.Error(f"the data has several columns {twice}: rename them, or leave them out")
    return pyarrow.table([column(name, values) for name, values in columns], names=names)


def column(name, values):
    """The values of a column as Arrow data. NaN in a column of objects is NULL, as in a data frame."""
    import pyarrow

    if isinstance(values, (pyarrow.Array, pyarrow.ChunkedArray)):
        return values
    try:
        return pyarrow.array(values, from_pandas=True)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        raise _asap.Error(f"column {name} holds values that have no common Arrow type ({', '.join(kinds[:3])}): convert the "
                          f"column, for example to text, or leave it out; {str(error).splitlines()[0]}") from None


def check_polars(name, kind):
    if str(kind.base_type()) in ("Object", "Int128", "UInt128"):
        raise _asap.Error(f"column {name} has the type {kind}, which asap cannot read: convert the column, for example to text, "
                          "or leave it out")


def _of_polars(frame):
    import polars

    frame = frame.lazy()
    for name, kind in frame.collect_schema().items():
        check_polars(name, kind)
    # The engine reads no dictionaries of its string views.
    return frame.with_columns(polars.selectors.by_dtype(polars.Categorical, polars.Enum).cast(str)).collect()


def write_nothing(path, columns):
    """Rewrite a file without rows, so that it has the columns of a corpus. Returns the names of these columns."""
    columns = columns or {role: role for role in ("question", "cot", "answer")}
    held = []
    if os.path.exists(path):
        held = [row["column_name"] for row in _asap.sql(f"DESCRIBE '{path}'", None, None, [], [], None).to_pylist()]
    texts = dict.fromkeys([*columns.values(), *held])
    texts = ", ".join(f"CAST(NULL AS VARCHAR) AS {_quoted(name)}" for name in texts)
    _asap.write_parquet(_asap.sql(f"SELECT {texts} LIMIT 0", None, None, [], [], None), path)
    return columns


def without_status(query):
    """The rows of a query without the columns of rejects."""
    def of(text):
        return _asap.sql(text, None, None, [("found", _asap.sql(*query))], [], None)

    names = [row["column_name"] for row in of("DESCRIBE found").to_pylist()]
    return of(f"SELECT {', '.join(map(_quoted, [name for name in names if name not in ('status', 'error')]))} FROM found")


def _quoted(name):
    return '"' + name.replace('"', '""') + '"'


def _batches(dataset):
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


def _tables(dataset):
    import pyarrow

    if dataset.features is None:
        # As Arrow data, datasets would join rows, and fail if a value is NULL in only some of them.
        return (pyarrow.table(batch) for batch in dataset.iter(batch_size=_BATCH))
    return dataset.with_format("arrow").iter(batch_size=_BATCH)


def _chain(first, others):
    import pyarrow

    yield first
    for table in others:
        # Batches of a stream may differ in columns that are NULL.
        try:
            yield table if table.schema.equals(first.schema) else table.cast(first.schema)
        except (ValueError, pyarrow.ArrowNotImplementedError) as error:
            raise _asap.Error(
                f"the first {_BATCH:,} rows of the dataset have other types than later rows: {error}; name the types: "
                "dataset.cast(features)"
            ) from error


def like(data, rows):
    """The rows, in the library of `data`."""
    source = library(data)
    if source == "polars":
        return rows.to_polars()
    if isinstance(data, (list, tuple)):
        return rows.to_pylist()
    if isinstance(data, dict):
        table = rows.to_arrow()
        return dict(zip(table.column_names, (column.to_pylist() for column in table.columns)))
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


def _nothing():
    yield from ()


def batches(reader):
    """The batches of a reader."""
    while (rows := reader._next()) is not None:
        yield from plain(rows).to_batches()


def to_arrow(reader):
    return plain(reader._all())


def to_pandas(reader):
    return to_arrow(reader).to_pandas()


def to_polars(reader):
    import polars

    return polars.DataFrame(reader._all())


def plain(rows):
    """A pyarrow table of types that all libraries read: texts are no views."""
    import pyarrow

    table = pyarrow.table(rows)
    return table.cast(pyarrow.schema([field.with_type(_plain_type(field.type)) for field in table.schema]))


def _plain_type(kind):
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


def is_location(data):
    return isinstance(data, (str, os.PathLike))


def location(data):
    """The text of a location. Without a shell, no one else replaces the user's folder."""
    if not is_location(data):
        raise _asap.Error(f"expected a location, found {type(data).__name__}: asap.prune and asap.sql take data in memory")
    return os.path.expanduser(os.fspath(data))
