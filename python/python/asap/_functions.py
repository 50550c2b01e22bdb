"""The functions, from the declarations of the SQL functions."""

import sys
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from asap import _asap, _data, _examples, _settings

_TEMPLATE = """
def {name}({parameters}**settings):
    return _call({sql!r}, [{arguments}], {required}, settings)
"""
_WIDTH = 112
# What an argument takes by its kind, with the types of a value and of its items. The engine checks Arrow data.
_LISTS = (list, tuple)
_PLAIN = (str, int, float, dict, *_LISTS)
_KINDS: dict[str, tuple[str, tuple[type, ...], tuple[type, ...]]] = {
    "text": ("a text", (str,), ()),
    "int": ("a whole number", (int,), ()),
    "number": ("a number", (int, float), ()),
    "texts": ("a tuple of texts", _LISTS, (str,)),
    "ints": ("a tuple of whole numbers", _LISTS, (int,)),
    "numbers": ("a tuple of numbers", _LISTS, (int, float)),
    "trace": ("a tuple of dicts", _LISTS, (dict,)),
    "conversation": ("a tuple of turns", (*_LISTS, dict), (dict, *_LISTS)),
    "question": ("a text, or a tuple of turns", (str, *_LISTS, dict), (dict, *_LISTS)),
}


class Argument(NamedTuple):
    """An argument of a function. `kind` is what it holds, such as text or numbers."""

    name: str
    kind: str
    about: str
    is_optional: bool


class Declaration(NamedTuple):
    """A SQL function. `returns` is the type of its result, which may also be None."""

    sql: str
    about: str
    example: str
    arguments: list[Argument]
    returns: str


def _call(name: str, arguments: list[Any], required: int, settings: dict[str, Any]) -> Any:
    while len(arguments) > required and arguments[-1] is None:
        arguments.pop()
    python = name.removeprefix("cot_")
    columns = [_readable(argument) for argument in arguments]
    for argument, value in zip(DECLARED[python].arguments, columns, strict=False):
        _check(python, argument, value)
    try:
        return _as_given(_asap.call(name, columns, _settings.pairs(settings)), arguments)
    except _asap.Error as error:
        raise type(error)(str(error).replace(name, f"asap.{python}")) from None


def _check(function: str, argument: Argument, value: Any) -> None:
    """Raises an error in Python's words if the first value has another type than the argument takes."""
    expected, kinds, items = _KINDS[argument.kind]
    is_column = isinstance(value, list)
    first = _first(value) if is_column else value
    if not isinstance(first, _PLAIN):
        return
    found, advice = type(first).__name__, ""
    if isinstance(first, kinds) and not isinstance(first, bool):
        item = _first(first) if items and isinstance(first, _LISTS) else None
        if isinstance(item, items) or not isinstance(item, _PLAIN):
            return
        found += f" of {type(item).__name__}"
    elif is_column and kinds == _LISTS:
        advice = f". A list is a column with a value for each row: write the {argument.name} of one row as a tuple"
    found = f"a list of {found}" if is_column else f"{_data.article(found)} {found}"
    takes = f"{argument.name} of asap.{function} takes {expected}, or a list of them as a column"
    raise _asap.ArgumentError(f"{takes}, found {found}{advice}")


def _first(values: list[Any] | tuple[Any, ...]) -> Any:
    return next((value for value in values if value is not None), None)


def _readable(argument: Any) -> Any:
    """A list, Arrow data or a constant."""
    library = _data.library(argument)
    if library == "pandas" and _data.is_arrow(argument) and hasattr(argument, "dtype"):
        return _data.column(argument.name, argument)
    if library == "polars" and hasattr(argument, "dtype"):
        _data.check_polars(argument.name, argument.dtype)
    if _data.is_arrow(argument) or isinstance(argument, (list, tuple, str, dict)):
        return argument
    if library == "datasets":
        return list(argument)
    # Arrays of NumPy and older pandas have no Arrow form.
    return argument.tolist() if hasattr(argument, "tolist") else argument


def _as_given(found: Any, arguments: list[Any]) -> Any:
    """A column in the library of the first argument that is one."""
    if not isinstance(found, _asap.Column):
        return found
    column = next(argument for argument in arguments if _data.is_arrow(argument))
    library = _data.library(column)
    if library == "polars":
        return sys.modules["polars"].Series(found)
    if library == "pyarrow":
        return sys.modules["pyarrow"].chunked_array(found)
    if library == "pandas":
        import pyarrow

        return pyarrow.chunked_array(found).to_pandas().set_axis(column.index)
    return found


def _documented(declared: Declaration) -> str:
    lines = [*_wrapped(declared.about), ""]
    if declared.arguments:
        lines.append("Args:")
        described = [f"{each.name}: {each.about}" for each in declared.arguments]
        described.append("settings: Settings by name, such as scorer_model.")
        for text in described:
            lines += _wrapped(text, "    ", "        ")
    call = _examples.translated(declared.example)
    if call is None:
        lines += ["", "In SQL:", textwrap.indent(declared.example, "    ")]
    elif call[1]:
        # Python shows no None.
        lines += ["", f">>> print({call[0]})" if call[1] == "NULL" else f">>> {call[0]}"]
        lines.append(repr(_examples.result(call[1], declared.returns == "str")))
    else:
        lines += ["", f">>> {call[0]}  # doctest: +SKIP"]
    return "\n".join(lines)


def _wrapped(text: str, first: str = "", others: str = "") -> list[str]:
    wrapper = textwrap.TextWrapper(_WIDTH, first, others, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)


def _define() -> dict[str, Callable[..., Any]]:
    scope: dict[str, Any] = {"_call": _call, "__name__": "asap"}
    exec("".join(_source(name, declared) for name, declared in DECLARED.items()), scope)
    for name, declared in DECLARED.items():
        scope[name].__doc__ = _documented(declared)
    return {name: scope[name] for name in DECLARED}


def _source(name: str, declared: Declaration) -> str:
    parameters = "".join(f"{each.name}=None, " if each.is_optional else f"{each.name}, " for each in declared.arguments)
    required = sum(not each.is_optional for each in declared.arguments)
    names = ", ".join(each.name for each in declared.arguments)
    return _TEMPLATE.format(name=name, parameters=parameters, sql=declared.sql, arguments=names, required=required)


def _declared() -> dict[str, Declaration]:
    found = {}
    for sql, about, example, arguments, returns in _asap.functions():
        of = [Argument(*argument) for argument in arguments]
        found[sql.removeprefix("cot_")] = Declaration(sql, about, example, of, returns)
    return found


DECLARED = _declared()
FUNCTIONS = _define()
