"""The module in Rust. Use the package `asap`."""

from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any, TypeAlias

import pandas
import polars
import pyarrow

__version__: str

class Error(Exception):
    """A failure of asap. Its subclasses say what kind of failure."""

class ArgumentError(Error):
    """An argument or a setting is wrong."""

class BudgetError(Error):
    """A limit on calls or on their cost is spent. `calls` is the number of calls that were sent."""

    calls: int

class InputError(Error):
    """The data cannot be read, or a query or a pipeline is wrong."""

class RejectsError(Error):
    """More rows were rejected than the run allows."""

class TableError(Error):
    """Another process changed the output meanwhile. Repeat the call if you still want its rows."""

class UnavailableError(Error):
    """An endpoint, a store or a backend does not answer now. Repeat the call later."""

class Column:
    """A column of results, for any library that reads Arrow data."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...
    def to_pylist(self) -> list[Any]:
        """Return the values as Python objects."""

class Reader:
    """The rows of a query, as a stream of Arrow batches. They can be read once."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        """Return an iterator over the rows, as record batches of pyarrow."""

    def to_arrow(self) -> pyarrow.Table:
        """Return the rows as a table of pyarrow."""

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame of pandas."""

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a data frame of Polars."""

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as a list of dicts."""

_Pairs: TypeAlias = list[tuple[str, str]]
# A line of progress, and what it counts: rows, all rows, calls and their cost.
_Show: TypeAlias = Callable[[str, int, int, int, float], None]

def all_rows(reader: Reader) -> Column: ...
def before_fork() -> None: ...
def call(name: str, arguments: list[Any], settings: _Pairs) -> Any: ...
def fingerprint(sql: str, columns: str | None, settings: _Pairs) -> str: ...
def flags() -> list[str]: ...
def functions() -> list[tuple[str, str, str, list[tuple[str, str, str, bool]], str]]: ...
def main(arguments: list[str], program: list[str], in_python: bool) -> int: ...
def found_model(named: str) -> str | None: ...
def model_folder(named: str) -> str: ...
def next_batch(reader: Reader) -> Column | None: ...
def pipeline(named: str) -> str: ...
def pipelines() -> list[tuple[str, str]]: ...
def prune(sql: str, corpus: str, columns: str | None, settings: _Pairs) -> Reader: ...
def report(output: str, against: str | None, exam: str | None, to: str | None) -> str: ...
def run(flags: list[str], settings: _Pairs, show: _Show | None, returns_rejects: bool) -> str: ...
def settings() -> list[tuple[str, str]]: ...
def sql(
    query: str,
    corpus: str | None,
    columns: str | None,
    tables: list[tuple[str, Any]],
    settings: _Pairs,
    keep: object | None,
) -> Reader: ...
def tensorboard_record(line: str) -> bytes: ...
def write_parquet(data: Any, path: str | PathLike[str]) -> int: ...
