"""Checks of `asap.sft`, the trainer in Python, against `asap train` and against itself.

    python tests/readers/sft.py target/debug/asap

`tests/readers/trainers` installs the wheel and the libraries, and runs this, in minutes on one core.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

import asap
import pyarrow.parquet
import torch
import transformers
from asap import sft
from asap.torch import FeedDataset
from safetensors.torch import load_file

ASAP = Path(sys.argv[1]).resolve()
SAMPLE = Path(__file__).resolve().parents[2] / "data/sample"
GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
# One more than a multiple of a step: with two ranks, one of them has nothing to learn in the last step of an epoch.
ROWS = 49
STEP = 4
EPOCHS = 4
STEPS = EPOCHS * 13
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "dtype": "float32", "hidden_act": "silu",
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 1024,
}
# Small, so that passes hold one to three examples.
SETTINGS = ["--model", "model", "--data", "pruned", "--epochs", str(EPOCHS), "--pass-tokens", "1024"]


def command(*arguments):
    done = subprocess.run([ASAP, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"asap {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def start(out, *more, ranks=1):
    launcher = ["torch.distributed.run", "--nproc-per-node", str(ranks), "--standalone", "-m"] if ranks > 1 else []
    options = [] if "--model" in more else [*SETTINGS, "--step", str(STEP)]
    return subprocess.Popen([sys.executable, "-m", *launcher, "asap.sft", *options, "--out", out, *more],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def trained(out, *more, ranks=1):
    """Trains, and returns the losses and the weights."""
    process = start(out, *more, ranks=ranks)
    text = process.communicate()[0]
    assert process.returncode == 0, text
    return lines(out), load_file(f"{out}/model.safetensors")


def lines(out):
    return [json.loads(line) for line in Path(out, "metrics.jsonl").read_text().splitlines()]


def farthest(left, right):
    assert left.keys() == right.keys()
    return max((left[name] - right[name]).abs().max().item() for name in left)


def apart(left, right):
    """How far gradients are apart, as a share of the largest number of a tensor."""
    return max((left[name] - right[name]).abs().max().item() / right[name].abs().max().item() for name in right)


def make():
    Path("config.json").write_text(json.dumps(CONFIG))
    Path("traces").mkdir()
    for name, rows in {"codeforces-cots.parquet": ROWS // 2, "openr1-math.parquet": ROWS - ROWS // 2}.items():
        pyarrow.parquet.write_table(pyarrow.parquet.read_table(SAMPLE / name).slice(0, rows), f"traces/{name}")
    command("run", "truncate", "--from", "traces", "--to", "pruned", "--set", "asap.refine.max_tokens=160")
    command("train", "--init", "config.json", "--data", "pruned", "--out", "model", "--epochs", "2", "--accumulate", str(STEP),
            "--learning-rate", "1e-2", "--clip", "1")


def packing():
    """Packed examples have the loss and the gradient of the examples alone, also if attention has a window."""
    shutil.copytree("model", "windowed")
    window = {"use_sliding_window": True, "sliding_window": 100, "max_window_layers": 1}
    Path("windowed/config.json").write_text(json.dumps(CONFIG | window))
    step = next(iter(FeedDataset("pruned", "model", step=6)))
    alone, packed = sft.split(step, 1), sft.split(step, 1 << 20)
    assert len(alone) == 6 and len(packed) == 1
    assert all(some["input_ids"].numel() <= 1024 for some in sft.split(step, 1024)) and 1 < len(sft.split(step, 1024)) < 6
    mixed = [packed[0] | {"cu_seq": torch.tensor([0, step["input_ids"].numel()])}]
    for folder in "model", "windowed":
        expected, slopes = learned(folder, alone)
        for passes, attention in (packed, None), ([step], "sdpa"), ([step], "eager"):
            found, others = learned(folder, passes, attention)
            farthest = apart(others, slopes)
            assert abs(found - expected) < 1e-5 * expected and farthest < 1e-4, (folder, attention, found, expected, farthest)
        assert abs(learned(folder, mixed)[0] - expected) > 1e-5 * expected
    assert abs(expected - learned("model", packed)[0]) > 1e-5 * expected, "the window has no effect"
    print(f"asap.sft: 6 packed examples have the loss of 6 examples within {abs(found - expected) / expected:.0e}, and their "
          f"gradient within {farthest:.0e}")


def learned(folder, passes, attention=None):
    """The loss and the gradients of passes."""
    model = sft.load(SimpleNamespace(model=folder, folder=folder, precision="f32", lora=None)).train()
    if attention:
        model.set_attn_implementation(attention)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    loss = sum(model(**each, use_cache=False, num_items_in_batch=1).loss for each in passes)
    loss.backward()
    return loss.item(), {name: weights.grad for name, weights in model.named_parameters()}


def equals_asap_train():
    """One rank makes the steps of `asap train`, and writes the same files. Returns its weights."""
    command("train", *SETTINGS, "--accumulate", str(STEP), "--out", "of-train")
    expected, (found, weights) = lines("of-train"), trained("one")
    assert len(expected) == len(found) == STEPS
    for name in ("step", "epoch", "tokens", "learned"):
        assert [line[name] for line in found] == [line[name] for line in expected], name
    for name in ("loss", "rate", "norm"):
        far = max(abs(ours[name] - theirs[name]) for ours, theirs in zip(found, expected))
        assert far < 1e-4, (name, far)
    distance = farthest(weights, load_file("of-train/model.safetensors"))
    assert distance < 1e-5 < farthest(weights, load_file("model/model.safetensors"))
    names = lambda folder: {str(each.relative_to(folder)) for each in Path(folder).rglob("*")}
    assert names("one") == names("of-train"), names("one") ^ names("of-train")
    ours, theirs = (json.loads(Path(folder, "training.json").read_text()) for folder in ("one", "of-train"))
    assert ours.keys() == theirs.keys()
    assert all(ours[name] == theirs[name] for name in ("version", "traces", "parameters", "steps", "tokens", "epoch_learned"))
    records("one", STEPS)
    records("of-train", STEPS)
    losses = max(abs(ours["loss"] - theirs["loss"]) for ours, theirs in zip(found, expected))
    print(f"asap.sft: {STEPS} steps as asap train, losses within {losses:.0e}, weights within {distance:.0e}")
    return weights


def cuts():
    """Long examples are cut as `asap train` cuts them, or left out."""
    few = ["--model", "model", "--data", "pruned", "--epochs", "1", "--max-length", "400"]
    command("train", *few, "--long", "cut", "--accumulate", str(STEP), "--out", "cut-of-train")
    expected, (found, weights) = lines("cut-of-train"), trained("cut", *few, "--long", "cut", "--step", str(STEP))
    assert [line["tokens"] for line in found] == [line["tokens"] for line in expected] and len(found) == 13
    assert farthest(weights, load_file("cut-of-train/model.safetensors")) < 1e-5
    trained("dropped", *few, "--step", str(STEP))
    cut, dropped = (json.loads(Path(folder, "training.json").read_text()) for folder in ("cut", "dropped"))
    assert cut["traces"] == ROWS and cut["traces_cut"] == dropped["traces_left_out"] > 5 and not dropped["traces_cut"]
    process = start("cut", *few, "--step", str(STEP))
    text = process.communicate()[0]
    assert process.returncode == 1 and "long was cut, and is now drop" in text, text
    print(f"asap.sft: {cut['traces_cut']} long examples are cut as asap train cuts them, or left out")


def masks():
    """Masked examples are learned as `asap train` learns them, and packed as alone."""
    few = ["--model", "model", "--data", "pruned", "--epochs", "1", "--loss", "kept"]
    command("train", *few, "--accumulate", str(STEP), "--out", "masked-of-train")
    expected, (found, weights) = lines("masked-of-train"), trained("masked", *few, "--step", str(STEP))
    for name in ("tokens", "learned"):
        assert [line[name] for line in found] == [line[name] for line in expected], name
    assert all(2 * line["learned"] < line["tokens"] for line in found)
    far = max(abs(ours["loss"] - theirs["loss"]) for ours, theirs in zip(found, expected))
    assert far < 1e-5 and farthest(weights, load_file("masked-of-train/model.safetensors")) < 1e-5, far
    # Of the first step, from the same weights: torch adds the squares of a norm in f32.
    loss, norm = (abs(found[0][name] / expected[0][name] - 1) for name in ("loss", "norm"))
    assert loss < 1e-6 and norm < 1e-5, (loss, norm)
    step = next(iter(FeedDataset("pruned", "model", step=6, loss="kept")))
    (alone, slopes), (packed, others) = (learned("model", sft.split(step, most)) for most in (1, 1 << 20))
    assert abs(packed - alone) < 1e-5 * alone and apart(others, slopes) < 1e-4, (packed, alone, apart(others, slopes))
    print(f"asap.sft: masked examples have the losses of asap train within {far:.0e}")


def golden():
    """Masked examples have the loss and the gradient that the tests of `asap train` expect, packed and alone."""
    expected = load_file(GOLDENS / "train_qwen2/masked.safetensors")
    rows = [json.loads(line) for line in (GOLDENS / "train_qwen2/examples.jsonl").read_text().splitlines()][:6]
    step = {"input_ids": [], "labels": [], "position_ids": []}
    for row in rows:
        prompt, ids = len(row["prompt_ids"]), row["prompt_ids"] + row["response_ids"]
        step["input_ids"] += ids
        step["labels"] += [each if place >= prompt and (place - prompt) // 7 % 2 == 0 else -100 for place, each in enumerate(ids)]
        step["position_ids"] += range(len(ids))
    step = {name: torch.tensor([values]) for name, values in step.items()}
    count, loss = (step["labels"] != -100).sum().item(), expected.pop("loss").item()
    for most in 1, 1 << 20:
        nats, slopes = learned(GOLDENS / "qwen2", sft.split(step, most))
        far = farthest({name: slope / count for name, slope in slopes.items()}, expected)
        assert abs(nats / count - loss) < 1e-6 * loss and far < 1e-6, (most, nats / count, loss, far)
    print(f"asap.sft: the gradient of masked examples as in the tests of asap train, within {far:.0e}")


def checksum(content):
    """The masked CRC-32C of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def records(out, steps):
    """Reads a file of TensorBoard: each record has a length, an event, and a checksum of each."""
    content, found = Path(out, "runs/events.out.tfevents.asap").read_bytes(), 0
    while content:
        length = int.from_bytes(content[:8], "little")
        event, content, header = content[12:12 + length], content[16 + length:], content[:16 + length]
        assert header[8:12] == checksum(header[:8]) and header[-4:] == checksum(event)
        assert found == 0 or (b"loss" in event and b"gradient_norm" in event)
        found += 1
    assert found == steps + 1


def equals_one_rank(expected):
    """Two ranks end with the weights of one, divided by FSDP and not."""
    for flags in ([], ["--fsdp"]):
        found, weights = trained("-".join(["two", *flags]), *flags, ranks=2)
        distance = farthest(weights, expected)
        assert len(found) == STEPS and distance < 1e-5, distance
        print(f"asap.sft: two ranks {' '.join(flags)} end with the weights of one, within {distance:.0e}")


def resumes(expected):
    """Killed twice and stopped once, a training ends with the same weights."""
    for out, flags, ranks in [("killed", [], 1), ("killed-ranks", ["--fsdp"], 2)]:
        straight = trained(f"{out}-straight", *flags, ranks=ranks)[1] if ranks > 1 else expected
        kills = [(8, signal.SIGKILL), (21, signal.SIGKILL), (30, signal.SIGTERM)] if ranks == 1 else [(17, signal.SIGTERM)]
        for step, number in kills:
            interrupt(out, *flags, step=step, number=number, ranks=ranks)
        found, weights = trained(out, *flags, ranks=ranks)
        assert [line["step"] for line in found] == list(range(1, STEPS + 1))
        assert all(torch.equal(weights[name], straight[name]) for name in straight), "the weights differ"
        print(f"asap.sft: {len(kills)} kills, {ranks} ranks, the same weights")


def interrupt(out, *more, step, number, ranks):
    """Trains for some steps, until a signal ends the training."""
    process = start(out, *more, "--checkpoint-every", "5", ranks=ranks)
    while process.poll() is None and not (Path(out, "metrics.jsonl").exists() and len(lines_whole(out)) >= step):
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()[0]
    process.send_signal(number)
    text = process.communicate()[0]
    if number == signal.SIGTERM and ranks == 1:
        assert process.returncode == 75 and "run the same command to resume" in text, text


def cut(checkpoint):
    shard(checkpoint).write_bytes(shard(checkpoint).read_bytes()[:100])


def flip(checkpoint):
    content = bytearray(shard(checkpoint).read_bytes())
    content[len(content) // 2] ^= 1
    shard(checkpoint).write_bytes(content)


def shard(checkpoint):
    return max(checkpoint.glob("*.distcp"), key=lambda each: each.stat().st_size)


DAMAGES = {
    "cut": cut,
    "flip": flip,
    "index": lambda checkpoint: (checkpoint / ".metadata").write_bytes(b""),
    "lost": lambda checkpoint: shard(checkpoint).unlink(),
    "manifest": lambda checkpoint: (checkpoint / "manifest.json").write_text('{"step": 1'),
    "nothing": lambda checkpoint: (checkpoint / "manifest.json").unlink(),
}


def falls_back(expected):
    """If the last checkpoint is damaged, a training resumes after the one before, and ends with the same weights."""
    for ranks, damages in (1, DAMAGES), (2, {"cut": cut}):
        begun = f"begun-{ranks}"
        interrupt(begun, step=12, number=signal.SIGKILL if ranks == 1 else signal.SIGTERM, ranks=ranks)
        last, before = sorted(Path(begun, "checkpoints").iterdir(), key=lambda each: -int(each.name[5:]))
        for name, damage in damages.items():
            out = f"{begun}-{name}"
            shutil.copytree(begun, out)
            damage(Path(out, "checkpoints", last.name))
            process = start(out, "--checkpoint-every", "5", ranks=ranks)
            if ranks == 1 and name == "cut":
                text = process.communicate()[0]
                assert process.returncode == 0, text
                found = load_file(f"{out}/model.safetensors")
                assert all(torch.equal(found[each], expected[each]) for each in expected), "the weights differ"
            else:
                text = "".join(iter(process.stdout.readline, f"note: resumes after step {before.name[5:]} of {out}\n"))
                process.send_signal(signal.SIGTERM)
                process.communicate()
            assert text.count(f"note: the checkpoint of step {last.name[5:]} cannot be read (") == 1 and "Traceback" not in text, text
    for checkpoint in Path("begun-1/checkpoints").iterdir():
        cut(checkpoint)
    process = start("begun-1")
    text = process.communicate()[0]
    assert process.returncode == 1 and text.count("cannot be read") == 2 and "Traceback" not in text, text
    print(f"asap.sft: {len(DAMAGES)} kinds of damage, the checkpoint before the last, the same weights")


def waits_for_space(expected):
    """On a full disk, a training names its last checkpoint. With more space, it ends with the same weights."""
    Path("disk").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "none", "disk"], capture_output=True).returncode:
        return print("asap.sft: not tried on a full disk: only root can mount a small one")
    try:
        for size, kept in ("100k", "there is no checkpoint"), ("4m", "the checkpoint of step 5 is intact"), ("3500k", "step 5 is intact"):
            subprocess.run(["mount", "-o", f"remount,size={size}", "disk"], check=True)
            process = start("disk/out", "--checkpoint-every", "5")
            text = process.communicate()[0]
            error = text.rpartition("error: ")[2]
            assert process.returncode == 75 and error.count("\n") == 1 and "Traceback" not in text, text
            assert "no space is left" in error and kept in error and "run the same command to resume" in error, error
        subprocess.run(["mount", "-o", "remount,size=64m", "disk"], check=True)
        weights = trained("disk/out", "--checkpoint-every", "5")[1]
        assert all(torch.equal(weights[name], expected[name]) for name in expected), "the weights differ"
        print("asap.sft: a full disk at three points, one error each, then the same weights")
    finally:
        subprocess.run(["umount", "--lazy", "disk"], check=True)


def regroups(expected):
    """A training that two ranks began resumes on one rank, and a training of one rank resumes on two."""
    for out, before, after in [("fewer", (["--fsdp"], 2), ([], 1)), ("more", ([], 1), (["--fsdp"], 2))]:
        interrupt(out, *before[0], step=17, number=signal.SIGTERM, ranks=before[1])
        found, weights = trained(out, *after[0], ranks=after[1])
        distance = farthest(weights, expected)
        assert [line["step"] for line in found] == list(range(1, STEPS + 1)) and distance < 1e-5, distance
        print(f"asap.sft: {before[1]} ranks, resumed on {after[1]}, end with the weights of one, within {distance:.0e}")


def lines_whole(out):
    return Path(out, "metrics.jsonl").read_text().split("\n")[:-1]


def follows():
    """A training next to a run takes all its rows."""
    run = ["run", "truncate", "--from", "traces", "--to", "growing", "--set=run.slice_rows=5", "--set=run.commit_seconds=0.1",
           "--set", "asap.refine.max_tokens=160"]
    command(*run, "--part", "1/2")
    options = ["--model", "model", "--data", "growing", "--step", str(STEP), "--epochs", "2", "--warmup-steps", "3", "--follow"]
    process = start("followed", *options)
    while process.poll() is None and not Path("followed/metrics.jsonl").exists():
        time.sleep(0.01)
    command(*run, "--part", "2/2")
    text = process.communicate()[0]
    assert process.returncode == 0, text
    summary = json.loads(Path("followed/training.json").read_text())
    assert (summary["traces"], summary["steps"]) == (ROWS, 2 * (STEPS // EPOCHS)), summary
    straight = json.loads(Path("one/training.json").read_text())
    assert summary["tokens"] == straight["tokens"] * 2 // EPOCHS
    rates = [line["rate"] for line in lines("followed")]
    assert rates[0] == 0 and rates[3:STEPS // EPOCHS] == [4e-5] * (STEPS // EPOCHS - 3) and rates[-1] < 1e-5
    print(f"asap.sft: {summary['steps']} steps next to a run, all {ROWS} rows")


def adapts():
    """Adapters are merged into a folder that asap and transformers load."""
    found, weights = trained("adapted", "--lora", "8", "--learning-rate", "1e-2")
    base = load_file("model/model.safetensors")
    changed = {name for name in base if not torch.equal(base[name], weights[name])}
    assert changed == {name for name in base if "proj.weight" in name}, changed
    assert found[-1]["loss"] < found[0]["loss"] - 0.2, (found[0], found[-1])
    assert command("generate", "--model", "adapted", "--prompt", "What is 2 + 2?", "--max-tokens", "8").strip()
    model = transformers.AutoModelForCausalLM.from_pretrained("adapted", dtype=torch.float32)
    step = next(iter(FeedDataset("pruned", "model", step=ROWS)))
    with torch.no_grad():
        after = model(**step, use_cache=False).loss.item()
    assert after < found[0]["loss"] - 0.2, after
    print(f"asap.sft: adapters of rank 8 lower the loss from {found[0]['loss']:.2f} to {after:.2f}, merged")


def workers():
    """Workers of a DataLoader share the rows. Only the process that reads knows the position."""
    feed = FeedDataset("pruned", "model", step=STEP)
    tokens = lambda steps: sum((step["labels"] != -100).sum().item() for step in steps)
    loader = torch.utils.data.DataLoader(feed, batch_size=None, num_workers=2)
    assert tokens(loader) == tokens(FeedDataset("pruned", "model", step=STEP))
    try:
        feed.state_dict()
    except asap.Error as error:
        assert "num_workers=0" in str(error)
    else:
        raise AssertionError("the position is not known")
    packed = FeedDataset("pruned", "model", step_tokens=700, rank=0, world=3)
    assert packed.count()["steps"] == len(list(packed))
    print("asap.torch: two workers share the rows, and steps of 700 tokens are as many as counted")


def refuses():
    """Bad input, one clear error each, before training."""
    Path("large").mkdir()
    large = {"hidden_size": 16384, "intermediate_size": 65536, "num_hidden_layers": 80, "num_attention_heads": 64}
    Path("large/config.json").write_text(json.dumps(CONFIG | large))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        Path("large", name).write_bytes(Path("model", name).read_bytes())
    cases = [
        (["--model", "nowhere", "--data", "pruned"], "there is no folder nowhere"),
        (["--model", "model", "--data", "nowhere"], "there is no file or folder nowhere"),
        (["--model", "model", "--data", "pruned", "--max-length", "9"], f"all {ROWS} examples have more than 9 tokens (--max-length)"),
        (["--model", "model", "--data", "pruned", "--fsdp"], "torchrun"),
        (["--model", "large", "--data", "pruned"], "not enough memory"),
    ]
    for options, expected in cases:
        process = start("refused", *options)
        text = process.communicate()[0]
        assert process.returncode == 1 and expected in text and "Traceback" not in text, text
        assert not Path("refused").exists()
    process = start("one", "--learning-rate", "1e-3")
    text = process.communicate()[0]
    assert process.returncode == 1 and "learning_rate was 4e-05, and is now 0.001" in text, text
    assert "nothing to do" in start("one").communicate()[0]
    print(f"asap.sft: {len(cases) + 1} wrong inputs, one error each")


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make()
        packing()
        workers()
        weights = equals_asap_train()
        cuts()
        masks()
        golden()
        equals_one_rank(weights)
        resumes(weights)
        falls_back(weights)
        waits_for_space(weights)
        regroups(weights)
        follows()
        adapts()
        refuses()
        os.chdir("/")


if __name__ == "__main__":
    main()
