"""Messages of the command in the words of Python, and notes as warnings."""

import contextlib
import functools
import re
import sys
import warnings

from asap import _asap

_PHRASES = {
    "\n\nFor more information, try '--help'.": "",
    " (from --set)": "",
    "name its location with --from": "pass its location or its rows as corpus=…",
    "start without --resume": "start without load_state_dict",
    "question=…[,input=…],cot=…[,answer=…][,system=…][,flag=…]": "columns={'question': …, 'cot': …}",
    "run the same command again": "repeat the call",
    "run the same command": "repeat the call",
    "; information_schema.df_settings lists all settings": "; asap.settings() lists all",
}
# Flags of `asap feed` and `asap view`, and those that Python names otherwise.
_OTHERS = ("against", "epochs", "exam", "follow", "long", "max_length", "model", "rank", "seed", "step", "step_tokens", "to", "world")
_SWITCHES = {"new_generation", "dry_run", "follow"}
_VALUE = r"\d[\d./]*%?|reprocess|ignore|fail|add|all|none|needed|drop|cut"
_FLAG = re.compile(rf"('?)--([a-z]+(?:-[a-z]+)*)(?: <[^>]*>)?\1(?:[ =]({_VALUE})(?![\w%]))?")
_MAPPING = re.compile(r"--columns '([^'\n]*)'")
_ROLE = re.compile(r",(?=(?:question|input|cot|answer|system|flag)=)")
_SETTING = re.compile(r"(?:--set )?\basap\.([a-z_]+(?:\.[a-z_]+)?)")
# A file or a variable has the key of the setting.
_FROM_ELSEWHERE = re.compile(r" \(from [^)]+\)\Z")
# Rows in memory, as the engine reads them.
_FOLDER = r"[^\s'\"]*/asap-[a-z0-9_]{8}/"
_FILE = "rows.parquet"
_ROWS, _OUTPUT = re.compile(_FOLDER + re.escape(_FILE)), re.compile(rf"{_FOLDER}pruned")
_shown = set()


class Note(UserWarning):
    """Something about the data or the run that you may not expect."""


def note(text):
    """Warns once in a process, at the line that called asap."""
    if text in _shown:
        return
    _shown.add(text)
    level, frame = 1, sys._getframe()
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] == "asap":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, Note, stacklevel=level)


def in_python(text):
    """A message of the command, with the arguments of Python instead of flags."""
    for phrase, words in _PHRASES.items():
        text = text.replace(phrase, words)
    text = _OUTPUT.sub("the output", _ROWS.sub("the data", text))
    text = _MAPPING.sub(lambda found: f"columns={mapping(found[1])}", text)
    if not _FROM_ELSEWHERE.search(text):
        text = _SETTING.sub(_setting, text)
    return _FLAG.sub(_argument, text)


def of_data(text):
    """A message about rows in memory."""
    return in_python(text).replace(_FILE, "the data")


@contextlib.contextmanager
def about_data(is_held=True):
    """Errors of this block are about rows in memory."""
    try:
        yield
    except _asap.Error as error:
        if not is_held:
            raise
        raise _asap.Error(str(error).replace(_FILE, "the data")) from None


def mapping(columns):
    """What the flag --columns takes, as a dict."""
    return dict(piece.partition("=")[::2] for piece in _ROLE.split(columns))


@functools.lru_cache
def _arguments():
    return {**{name: name for name in (*_asap.flags(), *_OTHERS)}, "from": "from_", "set": "settings"}


@functools.lru_cache
def _settings():
    return {name for name, _ in _asap.settings()}


def _argument(found):
    _, flag, value = found.groups()
    name = _arguments().get(flag.replace("-", "_"))
    if name is None:
        # A flag of another program, such as cargo.
        return found[0]
    if value is None:
        return f"{name}=True" if name in _SWITCHES else name
    return f"{name}={value if value.isdigit() else repr(value)}"


def _setting(found):
    name = found[1].replace(".", "_")
    return name if name in _settings() else found[0]
