"""The examples of the SQL functions, in Python."""

import ast
import re
from typing import Any

_CALL = re.compile(r"select cot_(?P<name>\w+)\((?P<arguments>.*)\)(?P<part>\[[^\[\]]*\])?;\Z", re.DOTALL)
_TEXT = re.compile(r"(E?)'((?:[^']|'')*)'")
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")


def translated(example: str) -> tuple[str, str] | None:
    """The call of an example, and its result if it shows one. None if it is more than one call with constants."""
    query, _, shown = example.partition("\n-- ")
    call = _CALL.match(query)
    if call is None:
        return None
    try:
        constants = ast.literal_eval(f"[{_TEXT.sub(_text, call['arguments'])}]")
    except (ValueError, SyntaxError):
        return None
    # A list would be a column.
    arguments = ", ".join(repr(tuple(constant) if isinstance(constant, list) else constant) for constant in constants)
    part = call["part"] or ""
    if part[1:-1].isdigit():
        part = f"[{int(part[1:-1]) - 1}]"
    return f"asap.{call['name']}({arguments}){part}", shown.replace("\n-- ", "\n")


def _text(literal: re.Match[str]) -> str:
    escaped, text = literal.groups()
    return repr(text.encode().decode("unicode_escape") if escaped else text.replace("''", "'"))


def result(shown: str, is_text: bool) -> Any:
    """The Python value that SQL shows like this."""
    if shown == "NULL":
        return None
    if is_text or not (shown.startswith(("[", "{")) or shown in ("true", "false") or _NUMBER.match(shown)):
        return shown.replace("\\n", "\n")
    if shown.startswith("["):
        return [result(item, False) for item in _items(shown[1:-1])]
    if shown.startswith("{"):
        items = (item.split(": ", 1) for item in _items(shown[1:-1]))
        return {name: result(value, False) for name, value in items}
    return ast.literal_eval(shown.capitalize())


def _items(shown: str) -> list[str]:
    items: list[str] = []
    depth = start = 0
    for place, character in enumerate(shown):
        depth += (character in "[{") - (character in "]}")
        if depth == 0 and shown.startswith(", ", place):
            items.append(shown[start:place])
            start = place + 2
    return [*items, shown[start:]]
