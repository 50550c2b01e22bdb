"""Steps of `asap feed` as a PyTorch IterableDataset that can be resumed.

    from asap_feed import AsapFeed

    feed = AsapFeed("out/pruned", "Qwen/Qwen2.5-0.5B", step=16)
    for epoch in range(3):
        for step in feed:
            loss = model(**step, use_cache=False).loss  # input_ids, position_ids, labels: one row of packed examples
            ...
    torch.save(feed.state_dict(), "feed.pt")            # after the last step that was taken
    feed.load_state_dict(torch.load("feed.pt"))         # the next iteration resumes there, whatever was read ahead

Each iteration is the next pass: `epochs` more epochs (1 by default), each in an order of its own. After `load_state_dict` the
next iteration finishes the pass that was saved; a pass that was saved when it was over is followed by the next one. Load a state
into a feed with the same arguments: others are refused where they change the rows.

`position_ids` begin anew at each example. transformers keeps examples apart by them with `attn_implementation` "sdpa" or
"flash_attention_2". With several trainers every one gives its rank and their number; some may have a few steps more.

The Trainer of transformers takes the next step before it trains on one: what `state_dict()` said a step ago is the place
after it there.
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
        options = {"step": step, "max-length": max_length, "long": long, "seed": seed, "rank": rank, "world": world,
                   "columns": columns}
        for name, value in options.items():
            if value is not None:
                self.command += [f"--{name}", str(value)]
        if follow:
            self.command.append("--follow")
        self.epochs = epochs
        # After the last step that was taken, and how many passes are over.
        self.position, self.passes = None, 0
        self.is_loaded = False

    def state_dict(self):
        """The place after the last step that was taken."""
        return {"position": self.position, "passes": self.passes}

    def load_state_dict(self, state):
        """The next iteration resumes after `state`."""
        self.position, self.passes, self.is_loaded = state["position"], state["passes"], True

    def __iter__(self):
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError("asap feed reads ahead itself, and a worker's position would be lost: use num_workers=0")
        resume, of_pass = self.begin()
        command = self.command + ["--epochs", str((of_pass + 1) * self.epochs)] + resume
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            with process.stdout as stream, pyarrow.ipc.open_stream(stream) as steps:
                for step in steps:
                    packed = pack(step)
                    self.position = step["position"][-1].as_py()
                    yield packed
            if process.wait() != 0:
                raise RuntimeError(f"{' '.join(process.args)} ended with code {process.returncode}")
            self.passes = of_pass + 1
        finally:
            process.kill()
            process.wait()

    def begin(self):
        """The option that says where an iteration begins, and the number of its pass."""
        is_loaded, self.is_loaded = self.is_loaded, False
        if self.position is None:
            return [], 0
        version, epoch, window, row, deciding = self.position.split(":", 4)
        reached = int(epoch) // self.epochs
        if is_loaded and self.passes <= reached:
            return ["--resume", self.position], reached
        # What was broken off is over, too.
        self.passes = max(self.passes, reached + 1)
        return ["--resume", f"{version}:{self.passes * self.epochs}:0:0:{deciding}"], self.passes


def pack(step):
    """The examples of a step one behind the other."""
    ids, labels = step["input_ids"], step["labels"]
    lengths = torch.from_numpy(ids.value_lengths().to_numpy(zero_copy_only=False).copy())
    positions = torch.cat([torch.arange(length) for length in lengths])
    flat = lambda lists: torch.from_numpy(lists.flatten().to_numpy().astype("int64"))
    return {name: values.unsqueeze(0) for name, values in
            {"input_ids": flat(ids), "position_ids": positions, "labels": flat(labels)}.items()}
