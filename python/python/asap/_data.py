"""Datasets, data frames and tables: as files that a run reads, and from the rows of its output."""

import os

from asap import _asap
from asap._functions import _is_arrow, _library

_BATCH = 10_000


def write(data, path):
    """Write rows to a Parquet file."""
    _asap.write_parquet(arrow(data), path)


def arrow(data):
    """Rows with Arrow's PyCapsule interface, for the engine."""
    library = _library(data)
    if library == "datasets" and isinstance(data, dict):
        raise _asap.Error(f"expected a Dataset, found a {type(data).__name__} of {', '.join(data)}: pass one of them")
    if library == "datasets":
        return _batches(data)
    if library == "pandas":
        # The index would become a column.
        return data.reset_index(drop=True)
    if library == "polars":
        import polars

        # The engine reads no dictionaries of its string views.
        return data.lazy().with_columns(polars.selectors.by_dtype(polars.Categorical, polars.Enum).cast(str)).collect()
    if not _is_arrow(data):
        raise _asap.Error(
            "expected a Dataset, an IterableDataset, a data frame, an Arrow table or a location, found a "
            f"{type(data).__name__}"
        )
    return data


def _batches(dataset):
    """The rows of a dataset, as a stream."""
    import pyarrow

    tables = _tables(dataset)
    first = next(tables, None)
    if first is None:
        if dataset.features is None:
            raise _asap.Error("the dataset has no rows and no features")
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
    library = _library(data)
    if library == "polars":
        import polars

        return polars.DataFrame(rows)
    try:
        table = plain(rows)
    except ImportError:
        return rows
    if library == "pandas":
        return table.to_pandas()
    if library == "datasets":
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
