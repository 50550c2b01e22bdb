"""Steps of `asap feed` as a PyTorch IterableDataset that goes on where it was.

    from asap_feed import AsapFeed

    feed = AsapFeed("out/pruned", "Qwen/Qwen2.5-0.5B", epochs=3, step=16)
    for step in feed:
        loss = model(**step, use_cache=False).loss      # input_ids, position_ids, labels: one row of packed examples
        ...
    torch.save(feed.state_dict(), "feed.pt")            # behind the last step that was taken
    feed.load_state_dict(torch.load("feed.pt"))         # the next one comes next, whatever was read ahead

`position_ids` begin anew at each example. transformers keeps examples apart by them with `attn_implementation` "sdpa" or
"flash_attention_2". With several trainers every one gives its rank and their number; some may have a few steps more.

The Trainer of transformers takes the next step before it trains on one: what `state_dict()` said a step ago is the place
behind it there.
"""

import subprocess

import pyarrow
import torch


class AsapFeed(torch.utils.data.IterableDataset):
    """Packed steps, each a dict of tensors of shape [1, tokens]."""

    def __init__(self, data, model, *, epochs=1, step=16, max_length=16384, long="drop", seed=42, rank=0, world=1,
                 columns=None, follow=False, asap="asap"):
        """`data` is a Delta table or a folder or file of rows, `model` a folder or org/name in the Hub's cache; a step has
        `step` examples of at most `max_length` tokens. `asap` is the program."""
        self.command = [asap, "feed", "--data", str(data), "--model", str(model)]
        options = {"epochs": epochs, "step": step, "max-length": max_length, "long": long, "seed": seed, "rank": rank,
                   "world": world, "columns": columns}
        for name, value in options.items():
            if value is not None:
                self.command += [f"--{name}", str(value)]
        if follow:
            self.command.append("--follow")
        self.position = None

    def state_dict(self):
        """The place behind the last step that was taken."""
        return {"position": self.position}

    def load_state_dict(self, state):
        """Goes on behind `state` when it is next iterated."""
        self.position = state["position"]

    def __iter__(self):
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError("asap feed reads ahead itself, and a worker's position would be lost: use num_workers=0")
        resume = ["--resume", self.position] if self.position else []
        process = subprocess.Popen(self.command + resume, stdout=subprocess.PIPE)
        try:
            with process.stdout as stream, pyarrow.ipc.open_stream(stream) as steps:
                for step in steps:
                    packed = pack(step)
                    self.position = step["position"][-1].as_py()
                    yield packed
            if process.wait() != 0:
                raise RuntimeError(f"{' '.join(process.args)} ended with code {process.returncode}")
        finally:
            process.kill()
            process.wait()


def pack(step):
    """The examples of a step one behind the other."""
    ids, labels = step["input_ids"], step["labels"]
    lengths = torch.from_numpy(ids.value_lengths().to_numpy(zero_copy_only=False).copy())
    positions = torch.cat([torch.arange(length) for length in lengths])
    flat = lambda lists: torch.from_numpy(lists.flatten().to_numpy().astype("int64"))
    return {name: values.unsqueeze(0) for name, values in
            {"input_ids": flat(ids), "position_ids": positions, "labels": flat(labels)}.items()}
