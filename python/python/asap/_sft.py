"""The output folder of a training (the same layout as `asap train`), and checks before it begins."""

# Without PyTorch, a type checker takes asap/torch.py for it.
# pyright: reportAttributeAccessIssue=false

import argparse
import contextlib
import fcntl
import importlib.util
import json
import math
import os
import shutil
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

from asap import _asap, _messages, _settings

T = TypeVar("T")
Args: TypeAlias = argparse.Namespace
# What `FeedDataset.count` returns.
Counts: TypeAlias = dict[str, Any]

_SHOWN_SECONDS = 30.0
_KEPT = 2
_BLOCK = 1 << 24
# A disk with fewer free bytes is full.
_FULL = 1 << 20
# Settings that change no more than the last bits of the weights, or only where things are.
_FREE = {"out", "folder", "model", "data", "checkpoint_every", "pass_tokens", "fsdp"}
# Settings that earlier trainings did not have, with what they did.
_EARLIER = {"long": "drop", "loss": "all"}
_WEIGHTS = (".safetensors", ".bin", ".pth", ".pt", ".gguf", ".onnx", ".h5", ".msgpack", ".ot")
_OF_TRAININGS = ("README.md", "settings.json", "metrics.jsonl", "training.json")
# Bytes of a weight with its gradient and two moments, all in f32.
_TRAINED_BYTES = 16


class Interrupted(Exception):
    """The process was asked to stop, and has written a checkpoint."""


class TryLater(Exception):
    """A file could not be written. The same command resumes."""


class Parser(argparse.ArgumentParser):
    """Errors are one sentence. `lacks` says why there is no option, by its name."""

    lacks: dict[str, str] = {}

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            flag = unknown.split()[0].partition("=")[0]
            known = {each.lstrip("-").replace("-", "_"): each for each in self._option_string_actions}
            message = f"there is no option {flag}{self.lacks.get(flag) or _settings.nearest(flag.lstrip('-'), known)}"
        self.exit(2, f"error: {message.removeprefix('argument ')}\n")


def whole(least: int) -> Callable[[str], int]:
    """The type of a whole number."""
    def read(text: str) -> int:
        with contextlib.suppress(ValueError):
            if int(text) >= least:
                return int(text)
        raise argparse.ArgumentTypeError(f"expected a whole number from {least}, found {text}")

    return read


def number(least: float | None = None, most: float | None = None, *, above: float | None = None) -> Callable[[str], float]:
    """The type of a finite number."""
    expected = f"above {above}" if above is not None else f"from {least}" + ("" if most is None else f" to {most}")

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            found = float(text)
            fits = (above is None or found > above) and (least is None or found >= least) and (most is None or found <= most)
            if math.isfinite(found) and fits:
                return found
        raise argparse.ArgumentTypeError(f"expected a number {expected}, found {text}")

    return read


def check_rows(args: Args, total: Counts) -> None:
    """Raises an error if there is no row to train on. Says why."""
    if total["examples"]:
        return
    if total["too_long"]:
        others = f", and {total['rejected']:,} others are rejected{why(total)}" if total["rejected"] else ""
        raise _asap.Error(f"{args.data} has no row to train on: all {total['too_long']:,} examples have more than "
                          f"{args.max_length:,} tokens (--max-length){others}; use a larger --max-length")
    rejected = f": {total['rejected']:,} rows are rejected{why(total)}" if total["rejected"] else ""
    raise _asap.Error(f"{args.data} has no row to train on{rejected}")


def why(total: Counts) -> str:
    """Why rows are rejected, in brackets; nothing without a reason."""
    reasons = sorted(total["reasons"].items(), key=lambda each: -each[1])
    said = "; ".join(f"{rows:,} row{'' if rows == 1 else 's'}: {reason}" for reason, rows in reasons)
    return f" ({said})" if said else ""


def note_rows(total: Counts) -> None:
    """Reports what is not trained on: rejected rows, and system prompts that the chat template does not print."""
    if total["rejected"]:
        _messages.note(f"{total['rejected']:,} rows are rejected{why(total)}")
    if total["without_system"]:
        rows = f"{total['without_system']:,} row{'' if total['without_system'] == 1 else 's'}"
        _messages.note(f"the chat template does not print a system prompt: it is not in the prompt of {rows}")


def check_packages(names: Iterable[str]) -> None:
    for name in ["torch", "transformers", "pyarrow", *names]:
        if importlib.util.find_spec(name) is None:
            raise _asap.Error(f"asap.sft needs {name}, which is not installed: run pip install {name}")


def silence() -> None:
    """Leaves out the bars and notes of the libraries. Errors remain."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore", FutureWarning)
    warnings.filterwarnings("ignore", module="torch.distributed")


def model_folder(model: str) -> str:
    """The folder of a model, as `asap train` finds it."""
    folder = _asap.model_folder(model)
    if not os.path.isfile(f"{folder}/config.json"):
        raise _asap.Error(f"there is no model in {model}: expected a folder in Hugging Face's layout, with config.json")
    return folder


def check_memory(args: Args, processes: Any, total: Counts) -> None:
    """Raises an error if the model cannot fit, before its weights are read."""
    import psutil
    import torch

    device, world = processes.device, processes.num_processes
    parameters, trained, config = counted(args)
    longest = total["longest"] or min(args.max_length, getattr(config, "max_position_embeddings", args.max_length))
    tokens = max(longest, min(args.pass_tokens, total["tokens"] or args.pass_tokens))
    width = 2 if args.precision == "bf16" else 4
    frozen = width if args.lora and not args.fsdp else 4
    # Autocast keeps copies of the weights for a forward pass.
    state = trained * (_TRAINED_BYTES + (2 if width == 2 else 0)) + (parameters - trained) * frozen
    # Checkpointed: the input of each layer, one layer's activations, and logits with their gradient in f32.
    layer = 8 * config.hidden_size + 3 * getattr(config, "intermediate_size", 4 * config.hidden_size)
    through = tokens * (width * (config.num_hidden_layers * config.hidden_size + 2 * layer) + 12 * config.vocab_size)
    if args.fsdp:
        # The embeddings and one layer are whole on each process, with their gradients.
        whole = 2 * config.vocab_size * config.hidden_size + parameters // config.num_hidden_layers
        state = state // world + 2 * width * whole
    if device.type == "cuda":
        where, free = "GPU", torch.cuda.mem_get_info(device)[0]
    else:
        where, free = "process", psutil.virtual_memory().available // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if processes.is_main_process:
        count = f"{parameters / 1e6:.1f} million parameters"
        print(f"memory     {_shown(state)} for {count}, about {_shown(through)} for a pass of {tokens:,} tokens", file=sys.stderr)
    if state + through > free:
        raise _asap.Error(
            f"not enough memory: each {where} needs {_shown(state)} for the model and about {_shown(through)} for a pass of "
            f"{tokens:,} tokens, but {_shown(free)} are free; use --fsdp on more GPUs, --lora 16, a lower --max-length and "
            "--pass-tokens, or a smaller model"
        )


def counted(args: Args) -> tuple[int, int, Any]:
    """The numbers of weights and of trained weights, without reading them, and the config."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(args.folder)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError, KeyError) as error:
        raise _asap.Error(f"{args.model}: transformers cannot read the model: {str(error).splitlines()[0]}") from error
    sizes = [each.numel() for each in model.parameters()]
    trained = sum(sizes)
    if args.lora:
        layers = [each for name, each in model.named_modules() if isinstance(each, torch.nn.Linear) and name != "lm_head"]
        trained = args.lora * sum(each.in_features + each.out_features for each in layers)
    return sum(sizes), trained, config


def _shown(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size < 10e9 else f"{size / 1e9:,.1f} GB"


class Folder:
    """The output folder. Only the first process writes to it, except for the shards of checkpoints."""

    def __init__(self, args: Args, processes: Any) -> None:
        self.path, self.args, self.processes = Path(args.out), args, processes
        self.is_main = processes.is_main_process
        self.saved, self.shown, self.lock = 0, time.monotonic(), None
        given = {name: value for name, value in vars(args).items() if name not in _FREE}
        config = (Path(args.folder) / "config.json").read_text()
        self.settings = {**given, "base": f"{args.model}: {json.loads(config)}", "data": os.path.realpath(args.data)}

    def begin(self) -> str | None:
        """Checks that the folder is new, or holds this training. Returns its position, '' for a new one, None if complete."""
        if "://" in str(self.args.out):
            raise _asap.Error(f"{self.args.out}: asap.sft writes to a local folder")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _asap.Error(f"cannot create the folder {self.args.out}: {reason(error)}") from error
        self.lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _asap.Error(f"{self.args.out}: another training uses it; wait for it to end") from error
        held = self._read("settings.json")
        if held is None and any(not each.name.startswith(".asap-") for each in self.path.iterdir()):
            raise _asap.Error(f"{self.args.out} exists; use a new folder for the model, or remove it")
        if held is None:
            return ""
        for name, value in self.settings.items():
            was = held["settings"].get(name, _EARLIER.get(name))
            if was != json.loads(json.dumps(value)):
                raise _asap.Error(f"{self.args.out} holds another training ({name} was {was}, and is now {value}): use a new "
                                  "folder, or the same settings")
        if (self.path / "training.json").exists():
            print(f"note: nothing to do: {self.args.out} is already trained", file=sys.stderr)
            return None
        return held["position"]

    def start(self, position: str) -> None:
        """Writes which training this is. One that is killed before its first checkpoint begins again with the same rows."""
        if self.is_main:
            version = int(position.split(":")[0])
            with self.writing("its settings"):
                self._write("settings.json", {"settings": self.settings, "version": version, "table": None, "position": position})

    def restore(self, model: Any, optimizer: Any) -> dict[str, Any] | None:
        """Restores the last intact checkpoint, if there is one. Returns its manifest."""
        damaged, manifest = [], None
        for step, folder in reversed(self._checkpoints()):
            why = self._first(self._damage(folder)) or self._first(self._load(folder, model, optimizer))
            if why is None:
                self.saved, manifest = step, json.loads((folder / "manifest.json").read_text())
                break
            damaged.append(f"the checkpoint of step {step} cannot be read ({why})")
        if damaged and manifest is None:
            raise _asap.Error(f"{self.args.out}: {', and '.join(damaged)}: restore one, or remove {self.path / 'checkpoints'} to "
                              "train from the first step")
        if self.is_main:
            for each in damaged:
                print(f"note: {each}", file=sys.stderr)
            lines = self._lines(self.saved)
            with self.writing("the metrics"):
                (self.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
                (self.path / "runs").mkdir(exist_ok=True)
                self._events().write_bytes(b"".join(map(_asap.tensorboard_record, ["", *map(json.dumps, lines)])))
            if manifest:
                print(f"note: resumes after step {self.saved} of {self.args.out}", file=sys.stderr)
        return manifest

    def _checkpoints(self) -> list[tuple[int, Path]]:
        """The steps of checkpoints with their folders, in order."""
        found = ((int(each.name.removeprefix("step-")), each) for each in self.path.glob("checkpoints/step-*"))
        return sorted(found)

    def _first(self, found: str | None) -> str | None:
        """The first value of the processes that is not None."""
        return next((each for each in self._gathered(found) if each is not None), None)

    def _gathered(self, found: T) -> list[T]:
        from accelerate.utils import gather_object

        return gather_object([found])

    def _damage(self, folder: Path) -> str | None:
        """What is wrong with the files of a checkpoint, or None. Each process reads its share of them."""
        try:
            files = json.loads((folder / "manifest.json").read_text())["files"]
            for name, expected in sorted(files.items())[self.processes.process_index :: self.processes.num_processes]:
                found = sums(folder / name)
                if found != expected:
                    return f"{name} has {found[0]:,} of {expected[0]:,} bytes" if found[0] != expected[0] else f"{name} has changed"
        except (OSError, ValueError, KeyError) as error:
            return reason(error) if isinstance(error, OSError) else f"manifest.json is damaged: {error}"
        return None

    def _load(self, folder: Path, model: Any, optimizer: Any) -> str | None:
        """Restores a checkpoint. Returns why it cannot be read, or None."""
        import torch.distributed.checkpoint as checkpoint
        from torch.distributed.checkpoint.state_dict import set_state_dict

        parts, options = _parts(model, optimizer)
        try:
            checkpoint.load(parts, checkpoint_id=folder, no_dist=self.processes.num_processes == 1)
        except (Exception, checkpoint.CheckpointException) as error:
            return reason(error)
        set_state_dict(model, optimizer, model_state_dict=parts["model"], optim_state_dict=parts["optimizer"], options=options)
        return None

    def save(self, state: dict[str, Any], model: Any, optimizer: Any) -> None:
        """Writes a checkpoint, which gets its name once it is complete, and removes all but the last two."""
        import torch.distributed.checkpoint as checkpoint

        if state["step"] == self.saved:
            return
        work = self.path / ".asap-checkpoint"
        with self.writing(f"the checkpoint of step {state['step']}", work):
            if self.is_main:
                shutil.rmtree(work, ignore_errors=True)
            self.processes.wait_for_everyone()
            checkpoint.save(_parts(model, optimizer)[0], checkpoint_id=work, no_dist=self.processes.num_processes == 1)
            # Each process reads what it wrote.
            own = [each for each in work.iterdir() if each.name.startswith(f"__{self.processes.process_index}_")]
            own += [work / ".metadata"] if self.is_main else []
            files = {name: found for part in self._gathered({each.name: sums(each) for each in own}) for name, found in part.items()}
            if self.is_main:
                self._name(state, work, files)
        self.saved = state["step"]

    def _name(self, state: dict[str, Any], work: Path, files: dict[str, list[int]]) -> None:
        """Names a complete checkpoint, and removes older ones, and damaged ones of later steps."""
        (work / "manifest.json").write_text(json.dumps({**state, "files": files}))
        named = self.path / f"checkpoints/step-{state['step']}"
        named.parent.mkdir(exist_ok=True)
        shutil.rmtree(named, ignore_errors=True)
        work.rename(named)
        earlier = [folder for step, folder in self._checkpoints() if step <= state["step"]]
        for _, folder in self._checkpoints():
            if folder not in earlier[-_KEPT:]:
                shutil.rmtree(folder)

    @contextlib.contextmanager
    def writing(self, what: str, work: Path | None = None) -> Iterator[None]:
        """Raises one error for all that can fail while files are written, such as a full disk."""
        from torch.distributed.checkpoint import CheckpointException

        try:
            yield
        except (Exception, CheckpointException) as error:
            is_full = self.path.exists() and shutil.disk_usage(self.path).free < _FULL
            why = "no space is left" if is_full else reason(error)
            if self.is_main and work:
                shutil.rmtree(work, ignore_errors=True)
            advice = "free some space, and run" if is_full else "run"
            text = f"{self.args.out}: cannot write {what}: {why}; {self.kept()}; {advice} the same command to resume"
            raise TryLater(text if self.is_main else "") from error

    def kept(self) -> str:
        is_there = (self.path / f"checkpoints/step-{self.saved}").exists()
        return f"the checkpoint of step {self.saved} is intact" if is_there else "there is no checkpoint"

    def write_line(self, line: dict[str, Any], steps: int | None) -> None:
        """Writes the metrics of a step, and shows them every 30 seconds."""
        if not self.is_main:
            return
        with self.writing("the metrics"), open(self.path / "metrics.jsonl", "a") as file, open(self._events(), "ab") as events:
            text = json.dumps(line)
            file.write(text + "\n")
            events.write(_asap.tensorboard_record(text))
        if time.monotonic() - self.shown >= _SHOWN_SECONDS:
            self.shown = time.monotonic()
            of, speed = f" of {steps:,}" if steps else "", line["tokens"] / max(line["seconds"], 1e-9)
            print(f"training: step {line['step']:,}{of}, loss {line['loss']:.3f}, rate {line['rate']:.2e}, norm "
                  f"{line['norm']:.2f}, {speed:,.0f} tokens/s", file=sys.stderr)

    def finish(self, model: Any, summary: dict[str, Any], end: int | None) -> None:
        """Writes the model, and then the summary."""
        work = self.path / ".asap-model"
        with self.writing("the model", work):
            self._write_model(model, work, end)
            (self.path / "README.md").write_text(self._card(summary))
            self._write("training.json", {"out": str(self.args.out), **summary})
        shutil.rmtree(self.path / "checkpoints", ignore_errors=True)
        print(f"{self.args.out}: {summary['steps']:,} steps, {summary['tokens']:,} tokens, loss {summary['loss']:.3f} nats per "
              "token in the last epoch")

    def _write_model(self, model: Any, work: Path, end: int | None) -> None:
        """Writes the weights in the base's dtype, with the other files of the base."""
        import torch

        base = Path(self.args.folder)
        shutil.rmtree(work, ignore_errors=True)
        config = json.loads((base / "config.json").read_text())
        dtype = getattr(torch, config.get("dtype") or config.get("torch_dtype") or "float32")
        model.to(dtype).save_pretrained(work)
        for file in base.iterdir():
            is_weight = file.name.removesuffix(".index.json").endswith(_WEIGHTS)
            if file.is_file() and not is_weight and not file.name.startswith(".") and file.name not in _OF_TRAININGS:
                shutil.copy(file, work / file.name)
        generation = json.loads((base / "generation_config.json").read_text()) if (base / "generation_config.json").exists() else {}
        held = generation.get("eos_token_id")
        others = held if isinstance(held, list) else [held]
        generation["eos_token_id"] = [end, *(each for each in others if each not in (None, end))]
        (work / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
        readable = (work / "generation_config.json").stat().st_mode
        for file in work.iterdir():
            # safetensors writes files that only their owner can read.
            file.chmod(readable)
            file.replace(self.path / file.name)
        work.rmdir()

    def _card(self, summary: dict[str, Any]) -> str:
        rows = "".join(f"| `{name}` | {value} |\n" for name, value in self.settings.items() if name != "base")
        what = f"Adapters of rank {self.args.lora}" if self.args.lora else "All parameters"
        return (
            f"---\nbase_model: {json.dumps(self.args.model)}\n---\n\n# {self.args.model} trained on {self.args.data}\n\n"
            f"{what} of `{self.args.model}` were trained by `asap.sft` (AdamW, cosine decay) on {summary['traces']:,} examples "
            f"of `{self.args.data}` (version or fingerprint {summary['version']}): {summary['steps']:,} steps of "
            f"{self.args.step} examples. The loss of the last epoch is {summary['loss']:.3f} nats per token to learn.\n\n"
            f"| setting | |\n|---|---|\n{rows}\n`metrics.jsonl` holds every step.\n"
        )

    def _events(self) -> Path:
        return self.path / "runs/events.out.tfevents.asap"

    def _lines(self, step: int) -> list[dict[str, Any]]:
        path = self.path / "metrics.jsonl"
        # A kill may cut the last line.
        text = path.read_text().splitlines() if path.exists() else []
        lines = [json.loads(line) for line in text if line.endswith("}")]
        return [line for line in lines if line["step"] <= step]

    def _read(self, name: str) -> Any:
        path = self.path / name
        try:
            return json.loads(path.read_text()) if path.exists() else None
        except ValueError as error:
            raise _asap.Error(f"{path} is damaged ({error}): restore it, or use a new folder") from error

    def _write(self, name: str, value: object) -> None:
        work = self.path / f".asap-{name}"
        work.write_text(json.dumps(value, indent=2, default=str))
        work.replace(self.path / name)


def sums(file: Path) -> list[int]:
    """The size of a file, and its CRC-32."""
    size, total = 0, 0
    with open(file, "rb") as content:
        while block := content.read(_BLOCK):
            size, total = size + len(block), zlib.crc32(block, total)
    return [size, total]


def reason(error: BaseException) -> str:
    """Why an error occurred, in a line."""
    # Several processes give their errors together.
    for each in getattr(error, "failures", {}).values():
        error = each[0] if isinstance(each, tuple) else each
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _parts(model: Any, optimizer: Any) -> tuple[dict[str, Any], Any]:
    """The trained weights and the moments, each process with its own shards."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    options = StateDictOptions(ignore_frozen_params=True, strict=False)
    weights, moments = get_state_dict(model, optimizer, options=options)
    return {"model": weights, "optimizer": moments}, options
