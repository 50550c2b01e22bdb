"""The stub of the functions, from their declarations.

A call gives a value if all of its arguments are values, a list if at least one of them is a list, and a column of Arrow
data if at least one of them is that. So each function has three overloads.
"""

import textwrap

from asap import _functions

# What an argument takes by its kind: values, and what is added by lists. A constant list is a tuple.
KINDS = {
    "text": ("str | None", "list[str] | list[str | None]"),
    "int": ("int | None", "Sequence[int | None]"),
    "number": ("float | None", "Sequence[float | None]"),
    "texts": (
        "tuple[str | None, ...] | None",
        "Sequence[list[str] | list[str | None] | tuple[str | None, ...] | None]",
    ),
    "ints": ("tuple[int | None, ...] | None", "Sequence[Sequence[int | None] | None]"),
    "numbers": ("tuple[float | None, ...] | None", "Sequence[Sequence[float | None] | None]"),
    "trace": ("tuple[_Turn, ...] | None", "Sequence[Sequence[_Turn] | None]"),
    "conversation": ("tuple[_Turn, ...] | _Turn | None", "Sequence[Sequence[_Turn] | _Turn | None]"),
    "question": ("_Text | _Conversation", "_TextList | _ConversationList"),
}
HEAD = '''\
"""The functions of asap, each of which is also an attribute of `asap`."""

# The tests write this file with UPDATE=1.
# The types of values are among those of lists.
# pyright: reportOverlappingOverload=false

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, overload

class _Stream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _Array(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...

class _Listed(Protocol):
    """An array of NumPy, or a Series of pandas 2."""

    def tolist(self) -> Any: ...

_Arrow: TypeAlias = _Stream | _Array | _Listed
_Turn: TypeAlias = dict[str, Any] | dict[str, str] | dict[str, str | None]
'''


def functions():
    names = sorted(_functions.DECLARED)
    # The function cot_functions is the module, which can be called.
    shown = textwrap.wrap(", ".join(f'"{name}"' for name in names if name != "functions"), 112)
    lines = [*HEAD.splitlines(), "", "__all__ = [", *(f"    {line}" for line in shown), "]"]
    for kind, (value, column) in KINDS.items():
        name = f"_{kind.capitalize()}"
        lines += [f"{name}: TypeAlias = {value}", f"{name}List: TypeAlias = {name} | {column}"]
        lines.append(f"{name}Arrow: TypeAlias = {name}List | _Arrow")
    for name in names:
        declared = _functions.DECLARED[name]
        returns = declared.returns
        value = returns if returns == "Any" else f"{returns} | None"
        column = f"list[{value}]"
        lines += ["", *overload(name, declared, "", value)]
        lines += [f'    r"""{lines_of(name)}', '    """']
        lines += overload(name, declared, "List", column, " ...")
        lines += overload(name, declared, "Arrow", "Any", " ...")
    return "\n".join(lines) + "\n"


def overload(name, declared, form, returns, body=""):
    """An overload. `form` is the end of the names of types."""
    typed = [(each.name, f"_{each.kind.capitalize()}{form}", each.is_optional) for each in declared.arguments]
    parameters = [f"{of}: {kind}{' = None' if is_optional else ''}" for of, kind, is_optional in typed]
    parameters.append("**settings: Any")
    line = f"def {name}({', '.join(parameters)}) -> {returns}:{body}"
    if len(line) <= 120:
        return ["@overload", line]
    one_line = f"    {', '.join(parameters)}"
    inner = [one_line] if len(one_line) <= 120 else [f"    {each}," for each in parameters]
    return ["@overload", f"def {name}(", *inner, f") -> {returns}:{body}"]


def lines_of(name):
    return textwrap.indent(_functions.FUNCTIONS[name].__doc__, "    ").strip()
