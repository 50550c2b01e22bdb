"""Settings as keywords."""

import json
import os

from asap import _asap


def text(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return json.dumps(list(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def pairs(settings):
    return [(name, text(value)) for name, value in settings.items()]


def mapping(columns):
    """The columns as the flag --columns takes them."""
    if columns is None or isinstance(columns, str):
        return columns
    if not isinstance(columns, dict):
        raise _asap.Error(
            f"columns takes a dict such as {{'question': 'problem', 'cot': 'solution'}}, found {type(columns).__name__}"
        )
    return ",".join(f"{role}={name}" for role, name in columns.items())
