"""Counts the tokens and labels that reach a model. unsloth changes TRL when it is imported, so it has a process of its own:

    python tests/readers/counting.py FOLDER NAME

trains the model of a folder on its files NAME by the docs' lines for unsloth, and prints what reached the model.
"""

import collections
import contextlib
import functools
import json
import os
import re
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
if __name__ == "__main__":
    os.environ["UNSLOTH_DISABLE_STATISTICS"] = "1"
    from unsloth import FastLanguageModel

import datasets
import transformers
import trl

GUIDE = Path(__file__).resolve().parents[2] / "docs/training.md"
# Examples per step.
STEP = 4
# For the test machine.
OPTIONS = {"num_train_epochs": 1, "per_device_train_batch_size": STEP, "use_cpu": True, "bf16": False, "report_to": "none",
           "save_strategy": "no", "disable_tqdm": True, "logging_strategy": "no"}


class Counted:
    """A trainer that counts the tokens and labels of the examples that reach the model in `found`."""

    def compute_loss(self, model, inputs, *arguments, **more):
        for ids, mask, labels in zip(inputs["input_ids"], inputs["attention_mask"], inputs["labels"], strict=True):
            real = mask.bool()
            assert (labels[~real] == -100).all(), "padding is learned"
            self.found[tuple(ids[real].tolist()), tuple(labels[real].tolist())] += 1
        return super().compute_loss(model, inputs, *arguments, **more)


def run(trainer):
    """Trains for an epoch. Returns the tokens and labels that reached the model."""
    trainer.found = collections.Counter()
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return trainer.found


def trained(folder, expression, model=None, load=None):
    """Returns the tokens and labels that reach the model, for an expression of the docs that creates a TRL trainer. `model`
    replaces that of the folder, and `load` replaces `load_dataset`."""
    trainer = type("Trainer", (Counted, trl.SFTTrainer), {})
    # Defaults, overridden by the line's own options.
    config = functools.partial(trl.SFTConfig, output_dir=folder / "trl", **OPTIONS)
    load = load or functools.partial(datasets.load_dataset, cache_dir=str(folder / "cache"))
    names = {"SFTTrainer": trainer, "SFTConfig": config, "load_dataset": load, "model": model or str(folder / "model")}
    with contextlib.chdir(folder):
        return run(eval(expression, names))


def line_of(name):
    """Returns the code spans of a line of the docs."""
    return re.findall("`(.*?)`", re.search(rf"^\| {name} \| (.*)", GUIDE.read_text(), re.MULTILINE)[1])


def line(name):
    return line_of(name)[0]


def main():
    folder, name = Path(sys.argv[1]), sys.argv[2]
    names = {"FastLanguageModel": FastLanguageModel, "model": str(folder / "model")}
    exec(line("unsloth"), names)
    found = trained(folder, line("TRL, tokens").replace("out/tokens", name), model=names["model"])
    print(json.dumps([[*example, count] for example, count in found.items()]))


if __name__ == "__main__":
    main()
