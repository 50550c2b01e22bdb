"""Runs into a Delta table, and what all runs of Python share."""

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from asap import _asap, _cli, _data, _messages, _settings
from asap._data import Location
from asap._progress import Progress

KEYWORDS = ("columns", "from_", "pipeline", "quiet", "to")


def run(
    pipeline: Location,
    from_: Location | list[Location],
    to: Location,
    *,
    columns: dict[str, str] | None = None,
    quiet: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Run a pipeline over a corpus, and commit the result to a Delta table, as `asap run` does.

    If a run was interrupted, repeat the call to resume.

    Args:
        pipeline: The name of a pipeline of asap, or a file with one SELECT over the table corpus.
        from_: The location of the corpus, or a list of locations, each with a name: math=s3://lake/math.
        to: The location of the output.
        columns: The names of the question, cot and answer columns, as a dict, if asap cannot recognize them.
        quiet: Whether to hide the progress.
        options: Settings by name, such as refine_max_tokens, and flags of `asap run`, such as limit, dry_run and part.

    Returns:
        The summary of the run, or the estimate of a dry run, as a dict.
    """
    check_pipeline(pipeline)
    return with_notes(summary_of(pipeline, from_, to, columns, quiet, options), quiet)


def exam(
    pipelines: Location | list[Location],
    from_: Location,
    to: Location,
    *,
    shares: list[float] | None = None,
    questions: int | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    quiet: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Compare pipelines by whether the answer survives pruning, as `asap exam` does.

    If an exam was interrupted, repeat the call to resume.

    Args:
        pipelines: Names of pipelines, or files with one SELECT over the table corpus. asap adds the controls.
        from_: The location of the corpus.
        to: The location of the rows.
        shares: The shares of the tokens of a chain that are kept. By default 0.25, 0.5 and 0.75.
        questions: The maximum number of questions. By default 100.
        max_tokens: The maximum number of tokens of a chain; longer chains are skipped. By default 4096.
        seed: The seed of the questions and of the random controls.
        quiet: Whether to hide the progress.
        settings: Settings by name, such as scorer_model.

    Returns:
        The summary of the exam, as a dict.
    """
    names = pipelines if isinstance(pipelines, (list, tuple)) else [pipelines]
    given = {"pipelines": [_data.location(each) for each in names], "from": _data.location(from_)}
    given |= {
        "to": _data.location(to),
        "shares": shares,
        "questions": questions,
        "max-tokens": max_tokens,
        "seed": seed,
    }
    found = dict(_settings.pairs(settings, ("pipelines", "from_", "to", "shares", "questions", "seed", "quiet")))
    given["config"] = found.pop("config", None)
    flags = [f"--{name}={_text(value)}" for name, value in given.items() if value is not None]
    return json.loads(_cli.run(["exam", *flags, "--format=json"], found, quiet).splitlines()[-1])


def summary_of(
    pipeline: Location,
    from_: Location | list[Location],
    to: Location,
    columns: dict[str, str] | None,
    quiet: bool,
    options: dict[str, Any],
    *,
    returns_rejects: bool = False,
) -> dict[str, Any]:
    """Runs a pipeline, and returns its summary."""
    flags, settings = arguments(from_, to, columns, options)
    flags = [_data.location(pipeline), *flags]
    progress = None if quiet else Progress()
    try:
        return json.loads(_asap.run(flags, settings, progress, returns_rejects))
    finally:
        if progress:
            progress.close()


def with_notes(summary: dict[str, Any], quiet: bool, words: Callable[[str], str] = str) -> dict[str, Any]:
    """The summary of a run, with its notes as warnings."""
    notes = [words(note) for note in summary.get("notes", [])]
    for note in [] if quiet else notes:
        _messages.note(note)
    return {**summary, "notes": notes} if notes else summary


def arguments(
    from_: Location | list[Location],
    to: Location,
    columns: dict[str, str] | None,
    options: dict[str, Any],
    others: Iterable[str] = (),
) -> tuple[list[str], _settings.Pairs]:
    """The flags of `asap run` after its pipeline, and the settings. `others` are more keywords of the call."""
    known = {name for name in _asap.flags() if not _settings.is_known(name) or name == "config"}
    locations = from_ if isinstance(from_, (list, tuple)) else [from_]
    flags = [*(f"--from={_data.location(each)}" for each in locations), f"--to={_data.location(to)}"]
    given = {"columns": _settings.mapping(columns), **options}
    for name, value in given.items():
        if name not in known or value is None or value is False:
            continue
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            flags.append(flag)
        else:
            flags.append(f"{flag}={_text(value)}")
    settings = {name: value for name, value in options.items() if name not in known}
    return flags, _settings.pairs(settings, (*KEYWORDS, *others, *known))


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def check_pipeline(pipeline: object) -> None:
    if not isinstance(pipeline, (str, os.PathLike)):
        found = _data.named(pipeline)
        raise _asap.ArgumentError(
            f"expected the name of a pipeline, or a file of SQL, found {found}: a pipeline is one SELECT over the "
            "table corpus"
        )
