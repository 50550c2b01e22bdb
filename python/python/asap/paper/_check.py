"""What the open steps of a plan need: files, models, keys, programs, packages, disk and GPUs. All that is missing is one list."""

import functools
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator

from asap import _asap
from asap.paper._cells import Cell, finished, is_done, preparations
from asap.paper._plan import Failed, Plan, Step, Table, asap_command, error_of, failure, shown

# In the error that a setting causes, its value is replaced by one that always works, to find further errors.
_WORKS = {"scorer.device": "cpu", "scorer.backend": "cpu", "scorer.model": "small", "api_key_env": "PATH"}
# What reference programs and tests of a benchmark import in addition to Python's own modules.
_MODULES = {"leetcode": ["sortedcontainers"]}
# A program that is also started, since a broken installation shows only then. The packages of programs.
_STARTED = "vllm"
_PACKAGES = {"vllm": "vllm", "torchrun": "torch"}
# A row for the pipelines of a corpus that steps have yet to make. Some read several generations.
_ROW = {"question": "2 + 2?", "answer": "4", "generations": ["<think>\n2 + 2 is 4.\n\nIt is 4.\n</think>\n\n4"], "correctness": [True]}
# Bytes for each parameter: a weight and two moments in f32 in a checkpoint, and with gradient and bf16 copy on GPUs.
_CHECKPOINT, _TRAINED = 12, 18
# Two checkpoints, and the one that is written.
_CHECKPOINTS = 3


def require(plan: Plan, cells: list[Cell]) -> None:
    """Raises an error with all that is missing."""
    found = lacks(plan, cells)
    if found:
        raise Failed(sentence(plan, found), 2)


def sentence(plan: Plan, found: list[str]) -> str:
    things = "1 thing is" if len(found) == 1 else f"{len(found)} things are"
    return f"{plan.path}: {things} missing, and nothing was run:\n" + "\n".join(f"  {each}" for each in found)


def lacks(plan: Plan, cells: list[Cell]) -> list[str]:
    """A sentence for each missing thing, with those that need it. Finished steps need nothing."""
    done, table, found = finished(plan.to), plan.table, {}

    def lacking(who: str, problem: str | None, fetch: str | None = None) -> None:
        if problem:
            names = found.setdefault(f"{problem}{f': {fetch}' if fetch else ''}", [])
            names += [] if who in names else [who]

    def is_open(steps: Iterable[Step]) -> bool:
        return not all(is_done(done, *step) for step in steps)

    for step in dict(step for seed in plan.seeds for step in preparations(plan, seed)).items():
        for problem in of_command(step[1]) if is_open([step]) else ():
            lacking(step[0], problem)
    pruned = [cell for cell in cells if is_open(cell.pruning())]
    trained = [cell for cell in cells if is_open(cell.training())]
    asked = [cell for cell in cells if is_open(cell.asking())]
    for cell in pruned:
        corpus = table["corpora"][cell.corpus]
        lacking(str(cell.corpus), lost(plan, "corpus", [corpus["from"]], cell.seed), corpus.get("fetch"))
        for problem in of_pruning(plan, cell, corpus):
            lacking(cell.arm, problem)
    for cell in trained:
        lacking(cell.arm, lost(plan, "data", [plan.arms[cell.arm].get("data", ".")], cell.seed))
        for problem in of_command(cell.training()[-1][1]):
            lacking("[train]", problem)
    for cell in [*trained, *asked]:
        model = f"asap.scorer.model={cell.base}"
        lacking("model", None if is_made(plan, cell.base) else failure("sql", "-q", "-c", "SELECT cot_tokens('')", "--set", model))
    for cell in asked:
        own = {**table["eval"], **plan.arms[cell.arm].get("eval", {})}
        for name, key in own.get("set", {}).items():
            if name.endswith("api_key_env") and key not in os.environ:
                lacking(cell.arm, f"{name} = {key!r}: this environment variable is not set")
        for bench in cell.benches:
            given = table["benches"][bench]
            same = [each for each in table["benches"].values() if each["files"] == given["files"]]
            fetch = next((each["fetch"] for each in same if "fetch" in each), None)
            lacking(bench, lost(plan, "file", given["files"], cell.seed), fetch)
            for problem in of_bench(given.get("bench", bench), [plan.fill(file, cell.seed) for file in given["files"]], own):
                lacking(bench, problem)
            lacking(bench, failure("eval", "--bench", given.get("bench", bench), *plan.flags(own, cell.seed), "--help"))
        for problem in of_command(cell.serve()) if table["serve"] else ():
            lacking("[serve]", problem)
    needed, free = disk(plan, pruned, trained), shutil.disk_usage(existing(plan.to)).free
    if needed > free:
        lacking(plan.to, f"models, checkpoints and outputs take {needed / 1e9:,.1f} GB, and the disk has {free / 1e9:,.1f} GB free")
    for problem in of_gpus(plan, trained) if [*pruned, *trained, *asked] else ():
        lacking("gpus", problem)
    return [f"{', '.join(names)}: {problem}" for problem, names in found.items()]


def is_made(plan: Plan, path: str) -> bool:
    """Steps of the plan make what is in its folder."""
    return os.path.abspath(path).startswith(os.path.abspath(plan.to) + os.sep)


def lost(plan: Plan, kind: str, paths: Iterable[str], seed: int) -> str | None:
    paths = [plan.fill(path, seed) for path in paths]
    lost = [path for path in paths if "://" not in path and not is_made(plan, path) and not os.path.exists(path)]
    return f"there is no {kind} {', '.join(lost)}" if lost else None


def of_pruning(plan: Plan, cell: Cell, corpus: Table) -> Iterable[str]:
    """What the pipeline of a cell lacks, by a dry run of one row."""
    arm, pipeline, source = plan.arms[cell.arm], cell.pruning()[0][1][4], plan.fill(corpus["from"], cell.seed)
    few = {key: value for key, value in corpus.items() if key not in ("sample", "seed")} | {"limit": 1}
    flags = _standing(plan, plan.prune_flags(few, arm, cell.seed))
    if os.path.exists(source):
        return of_row(pipeline, source, plan.to, flags)
    if os.path.isfile(pipeline):  # Its columns are those of the corpus.
        return filter(None, [failure("run", pipeline, "--print", *flags)])
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/row.jsonl"
        with open(source, "w") as file:
            json.dump(_ROW, file)
        return of_row(pipeline, source, plan.to, flags)


def _standing(plan: Plan, flags: list[str]) -> list[str]:
    """The flags, with asap's own model in place of models that steps of the plan have yet to make."""
    keys = [word.partition("=") for word in flags if word.startswith(("asap.scorer.model=", "asap.anchor.model="))]
    made = [key for key, _, path in keys if is_made(plan, path) and not os.path.exists(path)]
    return [*flags, *(word for key in made for word in ("--set", f"{key}=small"))]


def of_row(pipeline: str, source: str, folder: str, flags: list[str]) -> list[str]:
    """What a pipeline lacks for one row. A dry run writes nothing to the folder."""
    where, problems = ["--from", source, "--to", f"{folder}/none", "--dry-run", "--format", "json"], []
    while True:
        done = asap_command("run", pipeline, *where, *flags)
        if done.returncode == 0:
            found = json.loads(done.stdout.strip().splitlines()[-1])
            places = [found.get(model) or {} for model in ("scorer", "encoder")]
            return [*problems, *(place["lacks"] for place in places if place.get("lacks"))]
        problems.append(error_of(done.stderr))
        works = next(_settings(flags, problems[-1]), None)
        if works is None:
            return [*problems, *of_encoder(problems[-1], source, folder, flags)]
        flags = [*flags, "--set", works]


def of_encoder(problem: str, source: str, folder: str, flags: list[str]) -> list[str]:
    """What PyTorch lacks for an encoder that is missing itself: a scoring model takes its place."""
    given = dict(word.removeprefix("asap.").split("=", 1) for word in flags if word.startswith("asap."))
    device, backend = given.get("compressor.device", "cpu"), given.get("compressor.backend")
    if "compressor.model" not in problem or device == "cpu" and backend != "torch":
        return []
    given = {"scorer.model": "small", "scorer.backend": "torch", "scorer.device": device, "scorer.python": given.get("scorer.python")}
    own = [word for name, value in given.items() if value for word in ("--set", f"asap.{name}={value}")]
    return of_row("self_information_steps", source, folder, own)


def _settings(flags: list[str], problem: str) -> Iterator[str]:
    """The settings that the problem is about, with values that work, unless they have them."""
    names = [word.partition("=")[0].removeprefix("asap.") for word in flags if word.startswith("asap.")]
    for part, value in _WORKS.items():
        for name in names:
            works = f"asap.{name}={value}"
            if name.endswith(part) and name in problem and works not in flags:
                yield works


def of_bench(bench: str, files: list[str], flags: Table) -> Iterator[str]:
    """What the files and the Python of a benchmark lack. A failed download may have written a page in place of rows."""
    for file in filter(os.path.isfile, files):
        with open(file, "rb") as rows:
            start = rows.read(2)
        if not start.startswith((b"{", b"\x1f\x8b")):
            yield f"{file} holds no rows: expected JSON lines, perhaps with gzip, found {start!r}; fetch the file again"
    python = flags.get("python", "python3")
    for module in _MODULES.get(bench, []):
        done = subprocess.run([python, "-s", "-c", f"import {module}"], capture_output=True)
        if done.returncode != 0:
            yield f"{python} has no package {module}: {python} -m pip install {module}"


def of_command(command: list[str]) -> list[str]:
    """What a command lacks: its program, and the packages of its Python."""
    path = shutil.which(command[0])
    if not path:
        package = _PACKAGES.get(os.path.basename(command[0]))
        return [f"there is no program {command[0]}{f': python -m pip install {package}' if package else ''}"]
    if os.path.basename(path) == _STARTED:
        return starts(path, "--version")
    python = path
    if not _is_python(path):
        with open(path, "rb") as file:
            words = file.readline(1000).decode(errors="replace").removeprefix("#!").split()
        python = words[-1] if words else ""
    module = command[command.index("-m") + 1] if "-m" in command[:-1] else "asap"
    if module == "asap" or not _is_python(python):
        return []
    needs = [module.partition(".")[0], *(["torch", "transformers", "accelerate", "pyarrow"] if module == "asap.sft" else [])]
    needs += ["peft"] if "--lora" in command else []
    ask = f"import importlib.util as u; print(*[n for n in {needs!r} if u.find_spec(n) is None])"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    absent = done.stdout.split() if done.returncode == 0 else needs
    if absent:
        return [f"{command[0]} has no package {', '.join(absent)}: {python} -m pip install {' '.join(absent)}"]
    return starts(python, "-c", f"import {_STARTED}") if _STARTED in needs else []


@functools.lru_cache
def starts(*command: str) -> list[str]:
    """Why a command does not start. Its imports are among what it does first."""
    done = subprocess.run(command, capture_output=True, text=True)
    return [f"{shown(command)} ended with code {done.returncode}: {error_of(done.stderr or done.stdout)}"] if done.returncode else []


def _is_python(path: str) -> bool:
    return re.fullmatch(r"python[\d.]*", os.path.basename(path)) is not None


def existing(path: str) -> str:
    path = os.path.abspath(path)
    return path if os.path.exists(path) else existing(os.path.dirname(path))


def disk(plan: Plan, pruned: list[Cell], trained: list[Cell]) -> int:
    """The bytes that open steps write at most: models, checkpoints of trainings side by side, and original and pruned rows."""
    models = {cell.model: cell.base for cell in trained}
    side_by_side = min(len(models), plan.places("train"))
    largest = max((parameters(plan, base) for base in models.values()), default=0)
    rows = {cell.data: plan.table["corpora"][cell.corpus] for cell in pruned}
    outputs = 0
    for corpus in rows.values():
        folder = plan.fill(corpus["from"], plan.seeds[0])
        most = min((corpus[key] for key in ("sample", "limit") if key in corpus), default=None)
        outputs += 2 * min(size(folder), size(folder) if most is None else 100_000 * most)
    return sum(size(model_folder(base)) for base in models.values()) + _CHECKPOINTS * _CHECKPOINT * largest * side_by_side + outputs


def size(path: str) -> int:
    """The bytes of the files of a folder, or of one file. A path that does not exist has none."""
    paths = [path] if os.path.isfile(path) else glob.glob(f"{glob.escape(path)}/**", recursive=True) if os.path.isdir(path) else []
    return sum(os.path.getsize(each) for each in paths if os.path.isfile(each))


def model_folder(model: str) -> str:
    """The folder of a model, or "" if there is none yet."""
    return _asap.found_model(model) or ""


def parameters(plan: Plan, model: str) -> int:
    """The number of parameters, by the size of the weights."""
    folder, width = model_folder(plan.fill(model, plan.seeds[0])), 2
    weights = sum(map(os.path.getsize, glob.glob(f"{glob.escape(folder)}/*.safetensors"))) if folder else 0
    if weights and os.path.exists(f"{folder}/config.json"):
        with open(f"{folder}/config.json") as file:
            config = json.load(file)
        width = 4 if (config.get("dtype") or config.get("torch_dtype")) == "float32" else 2
    return weights // width


def visible() -> list[str]:
    """The GPUs that this process may use, if its environment limits them."""
    return [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]


def of_gpus(plan: Plan, trained: list[Cell]) -> list[str]:
    """What the GPUs lack, if there is an nvidia-smi."""
    if plan.gpus and "CUDA_VISIBLE_DEVICES" in os.environ and len(visible()) < plan.gpus:
        return [f"the plan uses {plan.gpus} GPUs, and CUDA_VISIBLE_DEVICES names {len(visible())}: change one of them"]
    if not plan.gpus or not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=index,memory.free,memory.total", "--format=csv,noheader,nounits"]
    query += ["-i", ",".join(visible())] if visible() else []
    lines = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
    cards = [list(map(int, line.split(","))) for line in lines if re.fullmatch(r"[\d, ]+", line)][: plan.gpus]
    if len(cards) < plan.gpus:
        return [f"the plan uses {plan.gpus} GPUs, and nvidia-smi shows {len(cards)}: change the key gpus"]
    # vLLM takes a share of the whole card.
    problems = [f"GPU {index} has {free:,} of {total:,} MiB free: end the programs that use it"
                for index, free, total in cards if free < 0.9 * total]
    smallest, own = min(total for *_, total in cards), plan.table["train"].get("gpus", plan.gpus)
    for cell in trained:
        command = cell.training()[-1][1]
        needed = _TRAINED * parameters(plan, cell.base) // (own if "--fsdp" in command else 1) >> 20
        if "asap.sft" in command and "--lora" not in command and needed > smallest:
            problems.append(f"a training needs {needed:,} MiB of each GPU, and the smallest has {smallest:,} MiB: use --fsdp, "
                            "more GPUs or --lora")
    return list(dict.fromkeys(problems))
