"""Prune chain-of-thought corpora, so that reasoning models can be fine-tuned at a fraction of the cost.

Each SQL function of asap is a Python function without the prefix `cot_`: `cot_steps` is `asap.steps`. The module
`asap.functions` lists the functions. They take Arrow data, lists and single values:

>>> import asap
>>> asap.steps("2 + 2?\\n\\nIt is 4.")
['2 + 2?', 'It is 4.']
>>> asap.similarity(["2 + 2 is 4", None], "2 + 2 = 4")
[0.8421052631578947, None]

`asap.prune` prunes a dataset, a data frame, a table or a list of dicts. `asap.run` runs a pipeline and writes a Delta
table. `asap.sql` runs a query. `asap.report` shows what pruning did. `asap.exam` checks whether answers survive.
`asap.Pruner` prunes batches in `Dataset.map`. `asap.ray.run` runs a pipeline on a Ray cluster. Settings are keywords,
with underscores instead of dots: `refine_max_tokens=2048` sets `asap.refine.max_tokens`. `asap.settings()` lists the
settings, and `asap.pipelines()` the built-in pipelines.
"""

import os as _os
from typing import NoReturn as _NoReturn

from asap import _asap, functions, ray
from asap._asap import (
    ArgumentError,
    BudgetError,
    Column,
    Error,
    InputError,
    Reader,
    RejectsError,
    TableError,
    UnavailableError,
    __version__,
)
from asap._messages import Note
from asap._prune import prune
from asap._pruner import Pruner
from asap._results import Pruned, Report, report
from asap._run import exam, run
from asap._settings import nearest as _nearest
from asap._settings import pipelines, settings
from asap._sql import sql

globals().update({name: getattr(functions, name) for name in functions.__all__})
# Windows does not fork.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(before=_asap.before_fork)

# `from asap import *` leaves out the functions, some of which have names of Python: match, random, select.
__all__ = [
    "ArgumentError",
    "BudgetError",
    "Column",
    "Error",
    "InputError",
    "Note",
    "Pruned",
    "Pruner",
    "Reader",
    "RejectsError",
    "Report",
    "TableError",
    "UnavailableError",
    "__version__",
    "exam",
    "functions",
    "pipelines",
    "prune",
    "ray",
    "report",
    "run",
    "settings",
    "sql",
]


def __getattr__(name: str) -> _NoReturn:
    hint = _nearest(name, {each: each for each in (*__all__, *functions.__all__)})
    raise AttributeError(f"module 'asap' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """The jobs. `dir(asap.functions)` lists the functions."""
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__"]
