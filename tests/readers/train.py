"""Whether others' trainers take what asap makes for them: a trained folder, a table of tokens, a stream of tokens.

    python tests/readers/train.py target/debug/asap

`tests/readers/trainers` installs the libraries and runs this, in a minute on one core.
"""

import collections
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "pipelines/python"))

import datasets
import pyarrow.parquet
import torch
import transformers
import trl
from asap_feed import AsapFeed

ASAP = Path(sys.argv[1]).resolve()
# Nats that transformers and asap may differ by in f32.
CLOSE = 1e-4
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "dtype": "float32", "hidden_act": "silu",
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 1024,
}
ROWS = 48
# Examples of a step, and steps of an epoch.
STEP = 4
STEPS = ROWS // STEP


def asap(folder, *arguments):
    done = subprocess.run([ASAP, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"asap {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def make(folder):
    """A pruned table, a model that is trained on it for long enough to be far from uniform, and the table as tokens."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    asap(folder, "sample", "--rows", str(ROWS), "--seed", "3", "--to", "traces")
    asap(folder, "run", "truncate", "--from", "traces", "--to", "pruned", "--set", "asap.refine.max_tokens=160")
    asap(folder, "train", "--init", "config.json", "--data", "pruned", "--out", "model", "--epochs", "8",
         "--accumulate", str(STEP), "--learning-rate", "1e-2", "--clip", "1")
    asap(folder, "run", "examples", "--from", "pruned", "--to", "table", "--originals", "none",
         "--set", "asap.scorer.model=model")
    copy = "COPY (SELECT input_ids, attention_mask, labels FROM examples) TO 'examples/' STORED AS PARQUET"
    asap(folder, "sql", "-c", "CREATE EXTERNAL TABLE examples STORED AS DELTATABLE LOCATION 'table'", "-c", copy)


def scores(folder):
    """The trained folder in transformers: each step's surprisal and perplexity are those of asap."""
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
        # The first token is predicted from nothing.
        nats = [None, *(-probabilities.gather(1, ids[0, 1:, None])[:, 0]).tolist()]
        for (begin, end), first, perplexity in zip(spans, row["first"], row["perplexity"], strict=True):
            places = enumerate(encoded["offset_mapping"])
            own = [nats[place] for place, (left, right) in places if right > begin and left < end]
            pairs = [(own[0], first), (sum(own) / len(own), math.log(perplexity))]
            farthest = max([farthest, *(abs(theirs - ours) for theirs, ours in pairs)])
            steps += 1
    mean = sum(nats[1:]) / len(nats[1:])
    assert mean < math.log(CONFIG["vocab_size"]) - 1, f"the model learned nothing: {mean} nats a token"
    assert farthest <= CLOSE, f"transformers and asap differ by {farthest} nats"
    print(f"transformers: {steps} steps of {len(rows)} chains, surprisal and perplexity within {farthest:.1e} nats")


def table(folder):
    """The pipeline `examples` in TRL's SFTTrainer: each row reaches the model with our labels, nothing else does."""
    rows = pyarrow.parquet.read_table(folder / "examples").to_pylist()
    expected = collections.Counter((tuple(row["input_ids"]), tuple(row["labels"])) for row in rows)
    found = collections.Counter()

    class Trainer(trl.SFTTrainer):
        def compute_loss(self, model, inputs, *arguments, **more):
            for ids, mask, labels in zip(inputs["input_ids"], inputs["attention_mask"], inputs["labels"], strict=True):
                real = mask.bool()
                assert (labels[~real] == -100).all(), "a padding is learned"
                found[tuple(ids[real].tolist()), tuple(labels[real].tolist())] += 1
            return super().compute_loss(model, inputs, *arguments, **more)

    settings = trl.SFTConfig(
        output_dir=folder / "trl", num_train_epochs=1, per_device_train_batch_size=STEP, max_length=None, use_cpu=True,
        bf16=False, report_to="none", save_strategy="no", disable_tqdm=True, logging_strategy="no",
    )
    dataset = datasets.load_dataset(
        "parquet", data_dir=str(folder / "examples"), split="train", cache_dir=str(folder / "cache")
    )
    trainer = Trainer(str(folder / "model"), args=settings, train_dataset=dataset)
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    assert found == expected, f"{sum((expected - found).values())} of {len(rows)} rows did not come as they are"
    learned = sum(label != -100 for row in rows for label in row["labels"])
    print(f"TRL: {len(rows)} rows as they are, {learned} tokens of them learned")


class Training:
    """transformers' model and torch's AdamW on the stream."""

    def __init__(self, folder, **options):
        self.feed = AsapFeed(folder / "pruned", folder / "model", step=STEP, epochs=2, asap=ASAP, **options)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def parts(self):
        return {"feed": self.feed, "model": self.model, "optimizer": self.optimizer}

    def run(self, most=None):
        """Trains to the end of the feed, or for so many steps, and says how many they were."""
        for count, step in enumerate(self.feed, 1):
            self.model(**step, use_cache=False).loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            if count == most:
                break
        return count


def stream(folder):
    """`asap_feed.py`: a training that is stopped and goes on ends in the same weights; ranks share the rows."""
    straight = Training(folder)
    assert straight.run() == 2 * STEPS
    stopped = Training(folder)
    # In the second epoch.
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
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs), "other weights"
    assert not any(torch.equal(theirs[name], before[name]) for name in theirs), "weights that were not trained"

    part = lambda rank, world: AsapFeed(folder / "pruned", folder / "model", step=STEP, asap=ASAP, rank=rank, world=world)
    whole, *ranks = [examples(part(rank, world)) for rank, world in [(0, 1), (0, 2), (1, 2)]]
    assert sum(whole.values()) == ROWS and ranks[0] + ranks[1] == whole, "the ranks are no partition"
    shares = " and ".join(str(sum(rank.values())) for rank in ranks)
    print(f"asap_feed.py: {2 * STEPS} steps, stopped after {most}, the same weights; two ranks of {shares} rows")


def examples(feed):
    """The examples of a feed, each as the tokens between two beginnings."""
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
        scores(folder)
        table(folder)
        stream(folder)


if __name__ == "__main__":
    main()
