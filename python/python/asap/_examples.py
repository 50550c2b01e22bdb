"""The examples of the SQL functions, in Python."""

import ast
import re

_CALL = re.compile(r"select cot_(?P<name>\w+)\((?P<arguments>.*)\)(?P<part>\[[^\[\]]*\])?;\Z", re.DOTALL)
_TEXT = re.compile(r"(E?)'((?:[^']|'')*)'")
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")


def translated(example):
    """The call of an example, and its result if it shows one. None if it is more than one call with constants."""
    query, _, shown = example.partition("\n-- ")
    call = _CALL.match(query)
    try:
        constants = ast.literal_eval(f"[{_TEXT.sub(_text, call['arguments'])}]")
    except (TypeError, ValueError, SyntaxError):
        return None
    # A list would be a column.
    arguments = ", ".join(repr(tuple(constant) if isinstance(constant, list) else constant) for constant in constants)
    part = call["part"] or ""
    if part[1:-1].isdigit():
        part = f"[{int(part[1:-1]) - 1}]"
    return f"asap.{call['name']}({arguments}){part}", shown.replace("\n-- ", "\n")


def _text(literal):
    escaped, text = literal.groups()
    return repr(text.encode().decode("unicode_escape") if escaped else text.replace("''", "'"))


def result(shown, is_text):
    """The Python value that SQL shows like this."""
    if shown == "NULL":
        return None
    if is_text or not (shown.startswith(("[", "{")) or shown in ("true", "false") or _NUMBER.match(shown)):
        return shown.replace("\\n", "\n")
    if shown.startswith("["):
        return [result(item, False) for item in _items(shown[1:-1])]
    if shown.startswith("{"):
        return {name: result(value, False) for name, value in (item.split(": ", 1) for item in _items(shown[1:-1]))}
    return ast.literal_eval(shown.capitalize())


def _items(shown):
    items, depth, start = [], 0, 0
    for place, character in enumerate(shown):
        depth += (character in "[{") - (character in "]}")
        if depth == 0 and shown.startswith(", ", place):
            items.append(shown[start:place])
            start = place + 2
    return [*items, shown[start:]]
