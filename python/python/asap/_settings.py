"""Settings as keywords, and what can be named: settings and pipelines."""

import difflib
import functools
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from asap import _asap, _data

# Names with underscores, and values as text.
Pairs: TypeAlias = list[tuple[str, str]]

# The budget, the setting that most calls name, and former flags of `asap run`.
_SHORT = {
    "max_tokens": "refine_max_tokens",
    "ratio": "refine_ratio",
    "slice_rows": "run_slice_rows",
    "target_shard_bytes": "run_shard_bytes",
    "commit_every": "run_commit_seconds",
    "grace": "run_grace_seconds",
}
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}
_ROLES = ("question", "input", "cot", "answer", "system", "flag")


def pipelines() -> dict[str, str]:
    """Return the names of the built-in pipelines with what they do, as a dict.

    >>> import asap
    >>> asap.pipelines()["pir"].split(". ", 4)[-1]
    'Differs from its publication: only rules find the functional steps. The paper also asks a language model.'
    """
    return dict(_asap.pipelines())


def settings() -> dict[str, str]:
    """Return the names of all settings with their descriptions, as a dict.

    >>> import asap
    >>> asap.settings()["refine_max_tokens"].split(". ")[0]
    'The maximum number of tokens of a pruned chain (L_max of Algorithm 2)'
    """
    return dict(_asap.settings())


def text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return json.dumps(list(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _seconds(value: Any) -> Any:
    """The number of seconds of a time such as 100ms, which the former flags took."""
    time = re.fullmatch(r"([\d.]+) ?(ms|s|min|m|h)", value) if isinstance(value, str) else None
    return f"{float(time[1]) * _UNITS[time[2]]:g}" if time else value


def pairs(settings: Mapping[str, Any], others: Iterable[str] = ()) -> Pairs:
    """The settings by their full names. `others` are the names of the other arguments of the call."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        full = _SHORT.get(name, name)
        if full not in _known():
            raise _asap.ArgumentError(_unknown(name, others))
        if full != name and value is None:
            continue
        if full in found:
            names = " and ".join(each for each in settings if _SHORT.get(each, each) == full)
            raise _asap.ArgumentError(f"{names} are one setting: pass one of them")
        found[full] = text(_seconds(value) if full.endswith("_seconds") else value)
    return list(found.items())


@functools.lru_cache
def _known() -> set[str]:
    return {"config", *(name for name, _ in _asap.settings())}


def is_known(name: str) -> bool:
    return name in _SHORT or name in _known()


def _unknown(name: str, others: Iterable[str]) -> str:
    if name in _asap.flags():
        return f"{name} is a flag of asap run, not a setting: pass it to asap.run or asap.prune"
    known = {each: each for each in (*others, *_SHORT, *_known())}
    # A setting without its group, such as `model`.
    for each in sorted(_known()):
        short = each.partition("_")[2]
        known[short] = known.get(short, each) if known.get(short) in (None, short) else f"{known[short]} or {each}"
    hint = nearest(name, known)
    return f"there is no setting {name}{hint or '; asap.settings() lists all'}"


def nearest(name: str, known: Mapping[str, str]) -> str:
    """A hint at the name that was meant. `known` has what each name stands for."""
    name = name.lower().replace(".", "_").replace("-", "_").removeprefix("asap_")
    near = difflib.get_close_matches(name, known, 1, 0.6)
    return f" (did you mean {known[near[0]]}?)" if near else ""


def mapping(columns: dict[str, str] | str | None) -> str | None:
    """The columns as the flag --columns takes them."""
    if columns is None or isinstance(columns, str):
        return columns
    if not isinstance(columns, dict):
        example = "{'question': 'problem', 'cot': 'solution'}"
        raise _asap.ArgumentError(f"columns takes a dict such as {example}, found {_data.named(columns)}")
    for role in columns:
        if role not in _ROLES:
            hint = nearest(str(role), {each: each for each in _ROLES})
            raise _asap.ArgumentError(f"columns has the key {role!r}{hint}: expected some of {', '.join(_ROLES)}")
    return ",".join(f"{role}={name}" for role, name in columns.items())
