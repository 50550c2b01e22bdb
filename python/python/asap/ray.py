"""Runs on a Ray cluster. A task of Ray does a part of the run, as `asap run --part K/N` does. Ray moves no rows."""

import functools
import json
import os
import socket
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, TypeAlias

from asap import _asap, _data, _parts, _run, _settings
from asap._data import Location

_Job: TypeAlias = dict[str, Any]

_REFUSED_FLAGS = {
    "part": "asap.ray.run divides the run itself: pass parts=64 instead of part",
    "dry_run": "an estimate needs no cluster: call asap.run(…, dry_run=True)",
    "new_generation": (
        "each part would delete the rows of the others: call asap.run(…, new_generation=True, limit=1), then "
        "asap.ray.run without new_generation"
    ),
}
# A model that has no files.
_NOWHERE = "/nowhere"


def run(
    pipeline: Location,
    from_: Location | list[Location],
    to: Location,
    *,
    parts: int = 64,
    num_cpus: float = 1,
    num_gpus: float = 0,
    max_retries: int = 3,
    columns: dict[str, str] | None = None,
    quiet: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Run a pipeline on a Ray cluster, and commit the result to a Delta table.

    Each part of the run is a task of Ray, and commits its own slices. All machines must see the corpus and the output.
    If your program is not connected to a cluster, Ray connects the program to the cluster on this machine, or starts a
    cluster. Ctrl-C commits the finished rows. If a run was interrupted, repeat the call to resume.

    Args:
        pipeline: The name of a pipeline of asap, or a file with one SELECT over the table `corpus`.
        from_: The location of the corpus, or a list of locations, each with a name: math=s3://lake/math.
        to: The location of the output.
        parts: The number of parts.
        num_cpus: The number of CPUs and threads of a task. Each task opens its own copy of the models.
        num_gpus: The number of GPUs of a task.
        max_retries: The maximum number of times that a part starts again after its worker was lost.
        columns: The names of the question, cot and answer columns, as a dict, if asap cannot recognize them.
        quiet: Whether to hide the progress.
        options: Settings by name, such as refine_max_tokens, and flags of `asap run`, such as limit.

    Returns:
        The summary of the run, summed over its parts, as a dict.
    """
    started = time.monotonic()
    _run.check_pipeline(pipeline)
    _check(parts, num_cpus, num_gpus, options)
    pipeline, to = _data.location(pipeline), _data.location(to)
    flags, settings = _run.arguments(from_, to, columns, options, ("parts", "num_cpus", "num_gpus", "max_retries"))
    given = settings if options.get("config") is None else [*settings, ("config", os.fspath(options["config"]))]
    job: _Job = {
        "pipeline": pipeline,
        "sql": _asap.pipeline(pipeline),
        "columns": _settings.mapping(columns),
        "flags": flags,
    }
    job |= {"settings": settings, "given": given, "folder": os.getcwd(), "threads": max(1, int(num_cpus))}
    job["id"] = uuid.uuid4().hex
    job["expected"] = _state(job)
    ray = _connected(quiet)
    slots = functools.partial(_slots, ray, {"CPU": num_cpus, "GPU": num_gpus})
    if not slots():
        needs = f"num_cpus={num_cpus} and num_gpus={num_gpus}"
        raise _asap.ArgumentError(f"no machine of the Ray cluster has {needs} for a task")
    # asap itself starts a lost part again. Ray would start it with its first share of max_cost and max_calls, of which
    # a part may be spent.
    task = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=0)(_part)
    start, refusal = functools.partial(task.remote, job), functools.partial(_refusal, job)
    limited = {"settings": job["expected"]["settings"], "max_retries": max_retries}
    work = _parts.Parts(ray, start, slots, parts, refusal=refusal, quiet=quiet, **limited)
    summary = {**work.run(), "pipeline": pipeline, "seconds": time.monotonic() - started}
    if options.get("retry_rejects") is None:
        _check_rows(summary, to)
    return _run.with_notes(summary, quiet)


def _check(parts: int, num_cpus: float, num_gpus: float, options: dict[str, Any]) -> None:
    for name, why in _REFUSED_FLAGS.items():
        if options.get(name):
            raise _asap.ArgumentError(why)
    if not isinstance(parts, int) or parts < 1:
        raise _asap.ArgumentError(f"parts takes a whole number from 1, found {parts!r}")
    if num_cpus < 0 or num_gpus < 0 or not num_cpus + num_gpus:
        raise _asap.ArgumentError(f"a task needs CPUs or GPUs, found num_cpus={num_cpus} and num_gpus={num_gpus}")


def _connected(quiet: bool) -> Any:
    try:
        import ray
    except ImportError as error:
        raise _asap.Error("asap.ray needs Ray, which is not installed: run pip install ray") from error
    if not ray.is_initialized():
        address = "local" if "RAY_ADDRESS" not in os.environ and _is_lost() else None
        silent: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"} if quiet else {}
        ray.init(address, **silent)
    return ray


def _is_lost() -> bool:
    """Whether a killed program left the address of its cluster, which is gone. Ray would try to connect for minutes."""
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    try:
        host, _, port = Path(folder, "ray/ray_current_cluster").read_text().strip().rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    return False


def _slots(ray: Any, needs: dict[str, float]) -> int:
    """How many tasks the machines of the cluster have room for."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    needs = {name: amount for name, amount in needs.items() if amount}
    return sum(min(int(has.get(name, 0) // amount) for name, amount in needs.items()) for has in machines)


def _part(job: _Job, part: str, shares: dict[str, int], board: Any) -> dict[str, Any]:
    """Does a part, in a worker. Returns the summary or the error: Ray would wrap an error that is raised."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(job["threads"]))
    folder = os.getcwd()
    try:
        # Relative locations and asap.toml are those of the driver, if this machine has its folder.
        os.chdir(job["folder"])
    except OSError:
        pass
    try:
        return _refused(job) or {"summary": _done(job, part, shares, board)}
    except _asap.BudgetError as error:
        return {"error": str(error), "spent": error.calls}
    except _asap.Error as error:
        return {"error": str(error)}
    finally:
        os.chdir(folder)


def _refused(job: _Job) -> dict[str, Any] | None:
    """Why this worker must not do a part, if it must not."""
    try:
        found = _state(job)
        if found == job["expected"]:
            return None
        return {"refused": {**found, "files": _files(job), "host": socket.gethostname()}}
    except _asap.Error as error:
        return {"refused": {"error": str(error), "host": socket.gethostname()}}


def _done(job: _Job, part: str, shares: dict[str, int], board: Any) -> dict[str, Any]:
    last = 0.0

    def show(_: str, *counts: int | float) -> None:
        nonlocal last
        if time.monotonic() - last >= 1.0:
            last = time.monotonic()
            board.write.remote(part, counts)

    limits = {name.removeprefix("asap.").replace(".", "_"): str(share) for name, share in shares.items()}
    settings = [*(pair for pair in job["settings"] if pair[0] not in limits), *limits.items()]
    with tempfile.TemporaryDirectory(prefix="asap-") as folder:
        flags = [_pipeline_in(folder, job), *job["flags"], f"--part={part}"]
        return json.loads(_asap.run(flags, settings, show if board else None, True))


def _pipeline_in(folder: str, job: _Job) -> str:
    """The name of the pipeline, or a file with its SQL: that of the driver may not be on this machine."""
    try:
        if _asap.pipeline(job["pipeline"]) == job["sql"]:
            return job["pipeline"]
    except _asap.Error:
        pass
    path = os.path.join(folder, os.path.basename(job["pipeline"]))
    with open(path, "w", encoding="utf-8") as file:
        file.write(job["sql"])
    return path


def _state(job: _Job) -> dict[str, Any]:
    """What must be equal in all processes of a run."""
    query = "SELECT name, value FROM information_schema.df_settings WHERE name LIKE 'asap.%'"
    rows = _asap.sql(query, None, None, [], job["given"], None).to_pylist()
    return {
        "version": _asap.__version__,
        "settings": {row["name"]: row["value"] for row in rows},
        "fingerprint": _fingerprint(job, job["columns"], job["given"]),
    }


def _fingerprint(job: _Job, columns: str | None, settings: _settings.Pairs) -> str:
    """A hash of the files of models and prompts, and of what else determines the rows."""
    return _hashed(job["id"], job["sql"], columns, tuple(settings))


@functools.lru_cache
def _hashed(_: str, sql: str, columns: str | None, settings: tuple[tuple[str, str], ...]) -> str:
    """Hashes files once in a process and run. Until the next run, they and asap.toml may change."""
    return _asap.fingerprint(sql, columns, list(settings))


def _files(job: _Job) -> dict[str, str | None]:
    """A hash of the files of each model, with those of the prompts. None for a model without files."""
    absent = {"scorer_model": _NOWHERE, "compressor_model": _NOWHERE, "anchor_provider": "extractive"}
    models = {"scorer_model": "scorer_model", "compressor_model": "compressor_model", "anchor_model": "anchor_provider"}
    found: dict[str, str | None] = {}
    for name, setting in models.items():
        others = [pair for pair in absent.items() if pair[0] != setting]
        with_it = _fingerprint(job, None, [*job["given"], *others])
        without = _fingerprint(job, None, [*job["given"], *absent.items()])
        found[name] = None if with_it == without else with_it
    return found


def _refusal(job: _Job, found: dict[str, Any]) -> str:
    """The error that a refused worker ends the run with."""
    where = f"a worker on {found['host']} is refused before its first row"
    if "error" in found:
        return f"{where}: {found['error']}"
    expected = job["expected"]
    differences: list[str] = []
    if found["version"] != expected["version"]:
        differences.append(f"the version of asap is {found['version']} there and {expected['version']} here")
    for name, value in expected["settings"].items():
        if found["settings"].get(name) != value:
            differences.append(f"{name} is {found['settings'].get(name)} there and {value} here")
    for name, files in _files(job).items():
        if found["files"][name] != files:
            model = expected["settings"][f"asap.{name.replace('_', '.', 1)}"]
            what = "differ" if found["files"][name] else "are missing there"
            differences.append(f"the files of {name} = {model} {what}")
    return (
        f"{where}: {', '.join(differences) or 'its models or prompts differ'}. Give all machines the same version, "
        "models, prompts, asap.toml and ASAP_ variables, or pass settings as keywords"
    )


def _check_rows(summary: dict[str, Any], to: str) -> None:
    """An output without rows is a failure, as in `asap run`, which judges all parts together."""
    if summary["rows_out"] or not summary["rows_rejected"]:
        return
    if summary["rows_rejected"] < 20:
        output = to.rstrip("/").replace("'", "''")
        try:
            if _asap.sql(f"SELECT 1 AS n FROM '{output}' LIMIT 1", None, None, [], [], None).to_pylist():
                return
        except _asap.Error:
            pass
    raise _asap.RejectsError(
        f"none of {summary['rows_in']} rows reached the output; asap inspect {to}/.asap/rejects shows why, row by row"
    )
