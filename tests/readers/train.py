"""Checks that other trainers accept asap's outputs: a trained folder, an export, a table of tokens, a stream of tokens.

    python tests/readers/train.py target/debug/asap

`tests/readers/trainers` installs the libraries and runs this, in minutes on one core.
"""

import collections
import contextlib
import functools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
# No telemetry.
os.environ["AXOLOTL_DO_NOT_TRACK"] = "1"
# LLaMA-Factory requires older libraries than TRL. Only its options, its reader of data and its collator are used.
os.environ["DISABLE_VERSION_CHECK"] = "1"
PROJECT = Path(__file__).resolve().parents[2]

import asap as wheel
import datasets
import pyarrow.parquet
import torch
import transformers
import yaml
from asap.torch import FeedDataset
from axolotl.utils import collators as axolotl_collators
from axolotl.utils.data.sft import prepare_datasets
from axolotl.utils.dict import DictDefault
from axolotl.utils.schemas.config import AxolotlInputConfig
from counting import OPTIONS, STEP, Counted, line, line_of, run, trained
from llamafactory.data import SFTDataCollatorWith4DAttentionMask, get_dataset, get_template_and_fix_tokenizer
from llamafactory.hparams.data_args import DataArguments

ASAP = Path(sys.argv[1]).resolve()
# The maximum difference between transformers and asap in f32, in nats.
CLOSE = 1e-4
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "dtype": "float32", "hidden_act": "silu",
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 1024,
}
ROWS = 48
# The number of tokens to which TRL cuts an example by default, and the maximum length in each trainer's settings in the docs.
DEFAULT = 1024
LENGTH = 32768
# Steps per epoch.
STEPS = ROWS // STEP


def asap(folder, *arguments):
    done = subprocess.run([ASAP, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"asap {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def make(folder):
    """Returns a pruned table, a model trained on it until its predictions are far from uniform, and the table as token IDs."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "traces").mkdir()
    for name in ["codeforces-cots.parquet", "openr1-math.parquet"]:
        rows = pyarrow.parquet.read_table(PROJECT / "data/sample" / name).slice(0, ROWS // 2)
        pyarrow.parquet.write_table(rows, folder / "traces" / name)
    asap(folder, "run", "truncate", "--from", "traces", "--to", "pruned", "--set", "asap.refine.max_tokens=160")
    asap(folder, "train", "--init", "config.json", "--data", "pruned", "--out", "model", "--epochs", "8",
         "--accumulate", str(STEP), "--learning-rate", "1e-2", "--clip", "1")
    asap(folder, "run", "truncate", "--from", "traces", "--to", "long", "--set", "asap.scorer.model=model",
         "--set", "asap.refine.max_tokens=2000")
    asap(folder, "run", "examples", "--from", "long", "--to", "table", "--originals", "none",
         "--set", "asap.scorer.model=model")
    copy = "COPY (SELECT input_ids, attention_mask, labels FROM examples) TO 'examples/' STORED AS PARQUET"
    asap(folder, "sql", "-c", "CREATE EXTERNAL TABLE examples STORED AS DELTATABLE LOCATION 'table'", "-c", copy)
    asap(folder, "export", "long", "--to", "export")
    # Whole chains, of which half of the steps are learned.
    asap(folder, "run", "random", "--from", "traces", "--to", "half", "--ratio", "0.5", "--set", "asap.scorer.model=model")
    masks = re.search(r'-c "(COPY .*)"', (PROJECT / "docs/learn_from_parts.md").read_text())[1]
    asap(folder, "sql", "--set", "asap.scorer.model=model", "-c", masks.replace("out/half", "half"))


def scores(folder):
    """The trained folder in transformers: each step's surprisal and perplexity equal those of asap."""
    columns = "cot_surprisal(question, steps) AS first, cot_perplexity(question, steps) AS perplexity"
    query = f"SELECT question, steps, {columns} FROM (SELECT question, cot_steps(cot) AS steps FROM corpus)"
    rows = json.loads(asap(folder, "sql", "-q", "--from", "pruned", "--format", "json", "-c", query,
                           "--set", "asap.scorer.model=model"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).eval()
    farthest, steps = 0.0, 0
    for row in rows:
        user = [{"role": "user", "content": row["question"]}]
        text = tokenizer.apply_chat_template(user, add_generation_prompt=True, tokenize=False) + "<think>\n"
        spans = []
        for step in row["steps"]:
            spans.append((len(text), len(text) + len(step)))
            text += step + "\n\n"
        encoded = tokenizer(text.removesuffix("\n\n"), add_special_tokens=False, return_offsets_mapping=True)
        ids = torch.tensor([encoded["input_ids"]])
        with torch.no_grad():
            probabilities = model(ids).logits[0, :-1].double().log_softmax(-1)
        # The first token has no context.
        nats = [None, *(-probabilities.gather(1, ids[0, 1:, None])[:, 0]).tolist()]
        for (begin, end), first, perplexity in zip(spans, row["first"], row["perplexity"], strict=True):
            places = enumerate(encoded["offset_mapping"])
            own = [nats[place] for place, (left, right) in places if right > begin and left < end]
            pairs = [(own[0], first), (sum(own) / len(own), math.log(perplexity))]
            farthest = max([farthest, *(abs(theirs - ours) for theirs, ours in pairs)])
            steps += 1
    mean = sum(nats[1:]) / len(nats[1:])
    assert mean < math.log(CONFIG["vocab_size"]) - 1, f"the model learned nothing: {mean} nats per token"
    assert farthest <= CLOSE, f"transformers and asap differ by {farthest} nats"
    print(f"transformers: {steps} steps of {len(rows)} chains, surprisal and perplexity within {farthest:.1e} nats")


class Plain(Counted, transformers.Trainer):
    """The trainer of transformers, which those of axolotl and LLaMA-Factory extend."""


def plain(folder, rows, collate):
    """Returns the tokens and labels that reach the model, for the rows and the collator of a trainer. `collate` makes it for
    a tokenizer and a model."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model")
    arguments = transformers.TrainingArguments(output_dir=folder / "plain", **OPTIONS)
    return run(Plain(model=model, args=arguments, train_dataset=rows, data_collator=collate(tokenizer, model)))


def axolotl(folder, name):
    """Returns what reaches the model from the files `name` by the docs' line for axolotl."""
    needed = {"base_model": "model", "micro_batch_size": STEP, "gradient_accumulation_steps": 1, "num_epochs": 1,
              "learning_rate": 1e-4, "dataset_prepared_path": "axolotl"}
    settings = AxolotlInputConfig(**needed, **yaml.safe_load(line("axolotl, tokens").replace("out/tokens", name)))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    with contextlib.chdir(folder):
        rows, *_ = prepare_datasets(DictDefault({**settings.model_dump(exclude_none=True), "batch_size": STEP}), tokenizer)
    return plain(folder, rows, lambda tokenizer, model: axolotl_collators.DataCollatorForSeq2Seq(tokenizer, model=model))


def llama_factory(folder, name):
    """Returns what reaches the model from the files `name` by the docs' line for LLaMA-Factory."""
    spans = line_of("LLaMA-Factory, tokens")
    load = functools.partial(datasets.load_dataset, cache_dir=str(folder / "cache"))
    with contextlib.chdir(folder):
        eval(spans[1].replace("out/tokens", name), {"load_dataset": load})
        [arguments] = transformers.HfArgumentParser(DataArguments).parse_dict({"template": "empty", **yaml.safe_load(spans[0])})
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
        template = get_template_and_fix_tokenizer(tokenizer, arguments)
        held = get_dataset(template, None, arguments, None, stage="sft", tokenizer=tokenizer, processor=None)
    collate = lambda tokenizer, model: SFTDataCollatorWith4DAttentionMask(template=template, model=model, tokenizer=tokenizer)
    return plain(folder, held["train_dataset"], collate)


def unsloth(folder, name):
    """Returns what reaches the model from the files `name` by the docs' lines for unsloth."""
    program = Path(__file__).parent / "counting.py"
    done = subprocess.run([sys.executable, program, folder, name], capture_output=True, text=True)
    assert done.returncode == 0, f"unsloth failed:\n{done.stdout}{done.stderr}"
    found = json.loads(done.stdout.splitlines()[-1])
    return collections.Counter({(tuple(ids), tuple(labels)): count for ids, labels, count in found})


def table(folder):
    """The pipeline `examples` and masked chains in four trainers, by the docs' lines: exactly our rows and labels reach the
    model."""
    trainers = {"TRL": lambda name: trained(folder, line("TRL, tokens").replace("out/tokens", name)),
                "unsloth": functools.partial(unsloth, folder), "axolotl": functools.partial(axolotl, folder),
                "LLaMA-Factory": functools.partial(llama_factory, folder)}
    for name in ["examples", "masked"]:
        rows = pyarrow.parquet.read_table(folder / name).to_pylist()
        expected = collections.Counter((tuple(row["input_ids"]), tuple(row["labels"])) for row in rows)
        longest = max(len(row["input_ids"]) for row in rows)
        assert longest > DEFAULT, f"no row is longer than the {DEFAULT} tokens that TRL keeps by default: {longest}"
        learned = sum(label != -100 for row in rows for label in row["labels"])
        for trainer, read in trainers.items():
            found = read(name)
            assert found == expected, f"{trainer}: {sum((expected - found).values())} of {len(rows)} rows of {name} were changed"
        print(f"{', '.join(trainers)}: {len(rows)} rows of {name} unchanged, the longest of {longest} tokens, {learned} tokens learned")


def export(folder):
    """An export in TRL, by the docs' line: each row's chain, answer and end token are learned."""
    rows = pyarrow.parquet.read_table(sorted((folder / "export").glob("*.parquet"))).to_pylist()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    found = trained(folder, line("TRL").replace('"pruned"', '"export"'))
    end = "<|im_end|>"
    learned = sorted(tokenizer.decode([label for label in labels if label != -100]).strip() for _, labels in found)
    assert max(len(ids) for ids, _ in found) > DEFAULT
    assert learned == sorted(row["completion"][0]["content"] + end for row in rows), "a completion was cut or changed"
    print(f"TRL: {len(rows)} rows of an export, each with its answer and {end}")


def pruned(folder):
    """What `asap.prune` returns in TRL, by the docs' line: the examples of an export of the same run."""
    load = functools.partial(datasets.load_dataset, split="train", cache_dir=str(folder / "cache"))
    options = {"scorer_model": str(folder / "model"), "refine_max_tokens": 2000, "quiet": True}
    traces = load("parquet", data_files=str(folder / "traces/openr1-math.parquet"))
    rows = wheel.prune(traces, "truncate", **options).rows
    exported = load(str(folder / "export"))
    for name in ("prompt", "completion", "messages"):
        assert rows.features[name] == exported.features[name], f"{name}: {rows.features[name]}, {exported.features[name]}"
        assert set(map(str, rows[name])) <= set(map(str, exported[name])), name
    found = trained(folder, line("TRL"), load=lambda *_, **__: rows)
    assert found.total() == len(rows) > 0 and found <= trained(folder, line("TRL").replace('"pruned"', '"export"'))
    print(f"TRL: {len(rows)} rows of asap.prune, as in an export, which the lines for the other trainers read")


def lengths():
    """No trainer cuts an example at the lengths of the docs' lines. The parsers of axolotl and LLaMA-Factory read theirs."""
    needed = {"base_model": "model", "micro_batch_size": 1, "gradient_accumulation_steps": 1, "learning_rate": 1e-4}
    for name in ["axolotl", "axolotl, tokens"]:
        parsed = AxolotlInputConfig(**needed, **yaml.safe_load(line(name)))
        assert parsed.sequence_len >= LENGTH and parsed.excess_length_strategy == "raise", parsed
    options = yaml.safe_load(line("LLaMA-Factory"))
    [parsed] = transformers.HfArgumentParser(DataArguments).parse_dict(options)
    assert parsed.cutoff_len >= LENGTH, parsed
    assert int(re.search(r"max_seq_length=(\d+)", line("unsloth"))[1]) >= LENGTH
    print(f"axolotl, LLaMA-Factory, unsloth: no example of up to {LENGTH} tokens is cut")


class Training:
    """transformers' model and torch's AdamW on the stream."""

    def __init__(self, folder, **options):
        self.feed = FeedDataset(folder / "pruned", folder / "model", step=STEP, epochs=2, **options)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def parts(self):
        return {"feed": self.feed, "model": self.model, "optimizer": self.optimizer}

    def run(self, most=None):
        """Trains to the end of the feed, or for the given number of steps. Returns the number of steps."""
        for count, step in enumerate(self.feed, 1):
            self.model(**step, use_cache=False).loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            if count == most:
                break
        return count


def stream(folder):
    """`asap.torch`: a training that is stopped and resumed gives the same weights. Ranks share the rows."""
    straight = Training(folder)
    assert straight.run() == 2 * STEPS
    stopped = Training(folder)
    # The stop is in the second epoch.
    most = STEPS + 3
    assert stopped.run(most) == most
    torch.save({name: part.state_dict() for name, part in stopped.parts().items()}, folder / "state.pt")
    resumed = Training(folder)
    state = torch.load(folder / "state.pt")
    for name, part in resumed.parts().items():
        part.load_state_dict(state[name])
    assert resumed.run() == 2 * STEPS - most
    theirs, ours = straight.model.state_dict(), resumed.model.state_dict()
    before = Training(folder).model.state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs), "the weights differ"
    assert not any(torch.equal(theirs[name], before[name]) for name in theirs), "some weights were not trained"

    part = lambda rank, world: FeedDataset(folder / "pruned", folder / "model", step=STEP, rank=rank, world=world)
    whole, *ranks = [examples(part(rank, world)) for rank, world in [(0, 1), (0, 2), (1, 2)]]
    assert sum(whole.values()) == ROWS and ranks[0] + ranks[1] == whole, "the ranks do not partition the rows"
    shares = " and ".join(str(sum(rank.values())) for rank in ranks)
    print(f"asap.torch: {2 * STEPS} steps, stopped after {most}, the same weights; two ranks of {shares} rows")


def passes(folder):
    """Each iteration of a feed is the next epoch, even after one was interrupted or loaded."""
    feed = lambda epochs: FeedDataset(folder / "pruned", folder / "model", step=STEP, epochs=epochs)
    tokens = lambda steps: [step["input_ids"].tolist() for step in steps]
    straight = tokens(feed(4))
    epoch = lambda number: straight[number * STEPS:(number + 1) * STEPS]
    again = feed(1)
    assert [tokens(again) for _ in range(2)] == [epoch(0), epoch(1)], "an iteration is not an epoch"
    over = again.state_dict()
    for _, step in zip(range(2), again):
        last = step
    # The third iteration was interrupted after two steps.
    broken = again.state_dict()
    assert last["input_ids"].tolist() == epoch(2)[1] and tokens(again) == epoch(3)
    for state, rest in [(over, [epoch(2), epoch(3)]), (broken, [epoch(2)[2:], epoch(3)])]:
        loaded = feed(1)
        loaded.load_state_dict(state)
        assert [tokens(loaded) for _ in range(2)] == rest, state
    other = FeedDataset(folder / "pruned", folder / "model", step=STEP, seed=7)
    other.load_state_dict(broken)
    try:
        tokens(other)
    except wheel.Error:
        print("asap.torch: four iterations, four epochs; a state of another seed is refused")
    else:
        raise AssertionError("a state of another seed was loaded")


def examples(feed):
    """Returns the examples of a feed, each as the tokens between two start positions."""
    found = collections.Counter()
    for step in feed:
        begins = (step["position_ids"][0] == 0).nonzero()[:, 0].tolist()
        for begin, end in zip(begins, [*begins[1:], step["input_ids"].shape[1]], strict=True):
            found[tuple(step["input_ids"][0, begin:end].tolist())] += 1
    return found


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FutureWarning)
    datasets.disable_progress_bars()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        make(folder)
        lengths()
        scores(folder)
        table(folder)
        export(folder)
        pruned(folder)
        stream(folder)
        passes(folder)


if __name__ == "__main__":
    main()
