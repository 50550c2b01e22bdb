"""Steps of `asap feed` as a PyTorch dataset that resumes at an exact position.

    from asap.torch import FeedDataset

    feed = FeedDataset("out/pruned", "Qwen/Qwen2.5-0.5B", step=16)
    for step in feed:
        loss = model(**step, use_cache=False).loss
    torch.save(feed.state_dict(), "feed.pt")

A step is one row of packed examples: `input_ids`, `position_ids` and `labels`, each of shape [1, tokens].
`position_ids` start at 0 again at each example. With the attention "sdpa" or "flash_attention_2", transformers uses
`position_ids` to keep the examples apart.
"""

# Without PyTorch, a type checker takes this file for it.
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

import torch

from asap import _asap, _cli, _messages, _settings
from asap._data import Location


class FeedDataset(torch.utils.data.IterableDataset[dict[str, torch.Tensor]]):
    """Steps of packed examples. Each iteration is the next pass over the rows, in another order.

    After `load_state_dict`, the next iteration finishes the saved pass. If the saved pass was over, the next pass
    begins.

    Args:
        data: A Delta table, or a folder or file of rows.
        model: A folder in Hugging Face's layout, or org/name on the Hub.
        epochs: The number of epochs of a pass.
        step: The number of rows of a step. A conversation may have several examples.
        step_tokens: The maximum number of tokens of a step, instead of `step`. A longer example gets its own step.
        max_length: The maximum number of tokens of an example.
        long: What to do with longer examples: "drop" or "cut".
        loss: What to learn: whole chains ("all"), or only the steps that a pipeline kept, with the other steps of the
            chain before pruning as context ("kept").
        seed: The seed of the order of rows.
        rank: The rank of this process. By default, torch.distributed or torchrun sets it. All ranks have equally many
            steps.
        world: The number of processes that share each step.
        columns: The names of the question, cot and answer columns, as a dict, if asap cannot recognize them.
        follow: Whether the first epoch reads new rows after each commit of a run.
    """

    # A command that reads a feed names flags in its messages.
    _is_command = False

    def __init__(
        self,
        data: Location,
        model: Location,
        *,
        epochs: int = 1,
        step: int = 16,
        step_tokens: int | None = None,
        max_length: int = 16_384,
        long: Literal["drop", "cut"] = "drop",
        loss: Literal["all", "kept"] = "all",
        seed: int = 42,
        rank: int | None = None,
        world: int | None = None,
        columns: dict[str, str] | None = None,
        follow: bool = False,
    ) -> None:
        options = {
            "data": os.fspath(data),
            "model": os.fspath(model),
            "max-length": max_length,
            "long": long,
            "loss": loss,
            "seed": seed,
        }
        options |= {"columns": _settings.mapping(columns)}
        options |= {"step": step} if step_tokens is None else {"step-tokens": step_tokens}
        flags = [f"--{name}={value}" for name, value in options.items() if value is not None]
        self._flags = [*flags, *(["--follow"] if follow else [])]
        self._epochs = epochs
        self._rank, self._world = _rank() if rank is None else (rank, world or 1)
        self._position: str | None = None
        self._passes, self._is_loaded = 0, False
        # Other processes see this: the position that a worker reached is unknown here.
        self._is_read_by_workers = torch.zeros(1, dtype=torch.bool).share_memory_()

    def count(self) -> dict[str, Any]:
        """Count the examples and tokens of an epoch, its longest example and the steps of a pass. Returns a dict.

        After `load_state_dict`, count the version of the data that the loaded position belongs to.
        """
        parts = [f"--world={self._parts()[1]}", f"--epochs={self._epochs}", "--count"]
        parts += [f"--resume={self._position}"] if self._position else []
        with tempfile.TemporaryFile() as messages:
            done = subprocess.run(self._command() + parts, stdout=subprocess.PIPE, stderr=messages)
            _report(messages, done.returncode, self._is_command)
        return json.loads(done.stdout)

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last step that your loop took."""
        if self._is_read_by_workers and torch.utils.data.get_worker_info() is None:
            what = "workers read the feed, so its position is not known here"
            raise _asap.ArgumentError(f"{what}: pass num_workers=0 to DataLoader")
        return {"position": self._position, "passes": self._passes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume after `state` with the next iteration."""
        self._position, self._passes, self._is_loaded = state["position"], state["passes"], True

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        self._is_read_by_workers |= torch.utils.data.get_worker_info() is not None
        resume, passes = self._begin()
        rank, world = self._parts()
        epochs = (passes + 1) * self._epochs
        command = [*self._command(), f"--rank={rank}", f"--world={world}", f"--epochs={epochs}", *resume]
        for step in _steps(command, self._is_command):
            packed = _pack(step)
            self._position = step["position"][-1].as_py()
            yield packed
        self._passes = passes + 1

    def _command(self) -> list[str]:
        return _cli.words("feed", *self._flags, in_python=not self._is_command)

    def _parts(self) -> tuple[int, int]:
        """Which part of each step this process reads, and the number of parts."""
        worker = torch.utils.data.get_worker_info()
        if worker is None:
            return self._rank, self._world
        return self._rank * worker.num_workers + worker.id, self._world * worker.num_workers

    def _begin(self) -> tuple[list[str], int]:
        """The option that says where an iteration begins, and how many passes are over."""
        is_loaded, self._is_loaded = self._is_loaded, False
        if self._position is None:
            return [], 0
        version, epoch, _, _, deciding = self._position.split(":", 4)
        reached = int(epoch) // self._epochs
        if is_loaded and self._passes <= reached:
            return [f"--resume={self._position}"], reached
        # An iteration that was broken off is over, too.
        self._passes = max(self._passes, reached + 1)
        return [f"--resume={version}:{self._passes * self._epochs}:0:0:{deciding}"], self._passes


def _rank() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def _steps(command: list[str], is_command: bool) -> Iterator[Any]:
    """The Arrow batches that a feed writes."""
    import pyarrow

    # At the end of the interpreter, modules lose their names before generators close.
    ended_early = (pyarrow.ArrowInvalid, OSError)
    with tempfile.TemporaryFile() as messages:
        # Ctrl-C is for the trainer, which may take further steps until its checkpoint.
        feed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, start_new_session=True)
        try:
            assert feed.stdout is not None
            with feed.stdout:
                try:
                    with pyarrow.ipc.open_stream(feed.stdout) as steps:
                        yield from steps
                except ended_early:
                    # A feed that fails ends its stream too early, and says why.
                    if feed.wait() == 0:
                        raise
            _report(messages, feed.wait(), is_command)
        finally:
            feed.kill()
            feed.wait()


def _report(messages: BinaryIO, code: int, is_command: bool) -> None:
    """Report the notes of the command, and raise its error."""
    messages.seek(0)
    text = messages.read().decode(errors="replace")
    if code != 0:
        error = text.rpartition("error: ")[2].strip() or f"asap feed ended with code {code}"
        raise _cli.ERRORS.get(code, _asap.Error)(error)
    for line in text.splitlines():
        if line.startswith("note: ") and not is_command:
            _messages.note(line.removeprefix("note: "))
        else:
            print(line, file=sys.stderr)


def _pack(step: Any) -> dict[str, torch.Tensor]:
    """The examples of a step in one row."""
    lengths = step["input_ids"].value_lengths().to_pylist()
    rows = {name: torch.from_numpy(step[name].flatten().to_numpy().astype("int64")) for name in ("input_ids", "labels")}
    rows["position_ids"] = torch.cat([torch.arange(length) for length in lengths])
    return {name: rows[name].unsqueeze(0) for name in ("input_ids", "position_ids", "labels")}
