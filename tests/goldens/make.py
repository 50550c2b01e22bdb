# /// script
# requires-python = "==3.11.7"
# dependencies = [
#     "llmlingua==0.2.2",
#     "numpy==2.4.6",
#     "safetensors==0.8.0",
#     "tokenizers==0.23.3",
#     "torch==2.15.0",
#     "transformers==5.23.0",
# ]
# ///
"""Makes the expected values of this folder again, with the programs that asap is compared with.

    uv run tests/goldens/make.py [--check] [NAME...]

Writes the named files, or all of them. With --check, compares what it makes with the files, and exits 1 if they differ.
Texts and integers must be equal; other numbers may differ by 1e-4, above 1 by 1e-4 of the number. A file that has
inputs and expected values keeps its inputs. README.md names the inputs.
"""

import argparse
import json
import math
import os
import random
import re
import shutil
import sys
import tempfile
from difflib import SequenceMatcher
from functools import cache, partial
from itertools import product
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
MODELS = ["qwen2", "llama"]
SCORED = [*MODELS, "qwen3", "mistral", "yarn", "linear"]
# Families that candle-transformers runs.
OTHERS = ["phi3", "gemma2", "qwen3_moe"]
ENCODERS = ["xlm-roberta-large-tiny", "bert-base-multilingual-cased-tiny"]
# Files without spaces between values.
COMPACT = ("gestalt", "walks", "refine")
# Numbers are equal within this distance, and above 1 within this share.
TOLERANCE = 1e-4
CLOSE = "\n</think>\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="compare with the files, and write nothing")
    arguments.add_argument("names", nargs="*", metavar="NAME", help="a file or folder; all if none is named")
    given = arguments.parse_args()
    goldens = all_goldens()
    chosen = {} if given.names else goldens
    for name in given.names:
        named = {path: make for path, make in goldens.items() if f"{path}/".startswith(name.rstrip("/") + "/")}
        chosen |= named or sys.exit(f"expected a file or a folder of {list(goldens)}, found {name}")
    # transformers reads these when it is imported: it loads nothing from the network, and prints errors only.
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    differ = 0
    for path, make in chosen.items():
        if not given.check:
            write(FOLDER / path, make())
            print(f"{path}: written", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / Path(path).name
            write(written, make())
            difference = first_difference(read(written), read(FOLDER / path))
        differ += difference is not None
        print(f"{path}: {'as committed' if difference is None else 'differs at ' + difference}", flush=True)
    if differ:
        sys.exit(f"{differ} of {len(chosen)} files differ")


def all_goldens():
    """Returns, by path, the functions that make the contents of the files."""
    goldens = {"gestalt.jsonl": gestalt, "walks.jsonl": walks}
    goldens |= {f"{name}/cots.jsonl": partial(cots, name) for name in SCORED}
    goldens |= {f"{name}/scores.jsonl": partial(next_tokens, name) for name in OTHERS}
    for name in MODELS:
        goldens[f"refine_{name}.jsonl"] = partial(refine, name)
        goldens[f"greedy_{name}.jsonl"] = partial(generated, f"greedy_{name}.jsonl", name, max_new_tokens=32)
        penalties = {"repetition_penalty": 1.3, "exponential_decay_length_penalty": (12, 1.2)}
        file = f"penalised_{name}.jsonl"
        goldens[file] = partial(generated, file, name, max_new_tokens=64, **penalties)
        goldens[f"scores_{name}.jsonl"] = partial(scores, name)
        for index, file in enumerate(["trace.json", "grads.safetensors", "weights_after.safetensors"]):
            goldens[f"train_{name}/{file}"] = lambda name=name, index=index: train(name)[index]
    goldens["train_qwen2/masked.safetensors"] = partial(masked, "qwen2")
    for encoder, file in product(ENCODERS, ["goldens.jsonl", "hard.jsonl"]):
        goldens[f"llmlingua2/{encoder}/{file}"] = partial(compressed, encoder, file)
    for encoder in ENCODERS:
        goldens[f"llmlingua2/{encoder}/keep.jsonl"] = partial(kept, encoder)
    goldens["conversations.jsonl"] = conversations
    goldens["tokenskip.jsonl"] = tokenskip
    return goldens


def rows(path):
    """Reads one value in JSON per line. Texts may hold other line ends, so splitlines would cut them."""
    return [json.loads(line) for line in (FOLDER / path).read_text().split("\n") if line]


def read(path):
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return rows(path) if path.suffix == ".jsonl" else json.loads(path.read_text())


def write(path, content):
    if path.suffix == ".safetensors":
        from safetensors.torch import save_file

        save_file(content, path)
    elif path.suffix == ".jsonl":
        separators = (",", ":") if path.name.startswith(COMPACT) else (", ", ": ")
        lines = [json.dumps(row, ensure_ascii=False, separators=separators) + "\n" for row in content]
        path.write_text("".join(lines))
    else:
        path.write_text(json.dumps(content, indent=1))


def first_difference(found, expected, place=""):
    """Returns where two values differ and how, or None."""
    if type(found) is not type(expected):
        return f"{place}: expected {expected!r}, found {found!r}"
    if isinstance(found, dict):
        if list(found) != list(expected):
            return f"{place}: expected the keys {list(expected)}, found {list(found)}"
        pairs = ((f"{place}.{key}", found[key], expected[key]) for key in expected)
    elif isinstance(found, list):
        if len(found) != len(expected):
            return f"{place}: expected {len(expected)} values, found {len(found)}"
        pairs = ((f"{place}[{index}]", *pair) for index, pair in enumerate(zip(found, expected)))
    elif hasattr(found, "shape"):
        allowed = TOLERANCE * expected.abs().clamp(min=1)
        equal = found.shape == expected.shape and bool(((found - expected).abs() <= allowed).all())
        return None if equal else f"{place}: a number of the tensor"
    elif isinstance(found, float):
        equal = abs(found - expected) <= TOLERANCE * max(1, abs(expected))
        return None if equal else f"{place}: expected {expected}, found {found}"
    else:
        return None if found == expected else f"{place}: expected {expected!r}, found {found!r}"
    return next((inner for pair in pairs if (inner := first_difference(*pair[1:], pair[0])) is not None), None)


# Python's difflib


def ratio(a, b, autojunk):
    return SequenceMatcher(None, a, b, autojunk=autojunk).ratio()


def gestalt():
    texts = [(row["a"], row["b"]) for row in rows("gestalt.jsonl")]
    return [{"a": a, "b": b, "difflib": repr(ratio(a, b, True)), "plain": repr(ratio(a, b, False))} for a, b in texts]


def walks():
    return [{**row, "difflib": walk(row, True), "plain": walk(row, False)} for row in rows("walks.jsonl")]


def walk(row, autojunk):
    """Looks for each section of the coarse chain in the original, after the match of the section before it."""
    original, coarse = (
        [section.strip() for section in text.strip().split("\n\n")] for text in (row["original"], row["coarse"])
    )
    matches, similarities, place = [], [], 0
    for index, section in enumerate(coarse):
        while place < len(original) and ratio(original[place], section, autojunk) < row["tau"]:
            place += 1
        if place == len(original):
            return {"matches": matches, "similarities": similarities, "failed": index}
        matches.append(place)
        similarities.append(repr(ratio(original[place], section, autojunk)))
        place += 1
    return {"matches": matches, "similarities": similarities, "failed": None}


# transformers and tokenizers


@cache
def tokenizer(name):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(FOLDER / name / "tokenizer.json"))


def load(name, dtype):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(FOLDER / name, dtype=dtype, attn_implementation="eager")


model = cache(load)


def token_scores(name, dtype, ids):
    """Returns for each token −ln P and the entropy of the prediction, in nats. The first token has neither."""
    import torch

    with torch.inference_mode():
        log_p = torch.log_softmax(model(name, dtype)(torch.tensor([ids])).logits[0, :-1], -1)
    surprisal = -log_p.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    entropy = -(log_p.exp() * log_p).sum(-1)
    return [None, *surprisal.tolist()], [None, *entropy.tolist()]


def mean(values):
    return sum(values) / len(values)


def first_token(encoding, character):
    """Returns the first token that covers the character, or a later one."""
    return next(index for index, (_, end) in enumerate(encoding.offsets) if end > character)


def spans(encoding, question, steps):
    """Returns for each step its first token and the tokens of its text. Without a token before it, it has none."""
    firsts, characters, start = [], [], len(question)
    for step in steps:
        firsts.append(first_token(encoding, start))
        characters.append(start + len(step))
        start += len(step) + 2
    made = []
    for first, character, end in zip(firsts, characters, [*firsts[1:], len(encoding.ids)]):
        own = [token for token in range(first, end) if encoding.offsets[token][0] < character]
        made.append((first, own if first > 0 else []))
    return made


def cots(name):
    """Scores the steps of the chains. The tests of the first two models compare f32 with f32."""
    dtype = "float32" if name in MODELS else "float64"
    made = []
    for row in rows(f"{name}/cots.jsonl"):
        encoding = tokenizer(name).encode(row["question"] + "\n\n".join(row["steps"]))
        surprisal, entropy = token_scores(name, dtype, encoding.ids)
        steps = spans(encoding, row["question"], row["steps"])
        made.append({
            "question": row["question"],
            "steps": row["steps"],
            "tokens": len(encoding.ids),
            "first_token": [first for first, _ in steps],
            "surprisal": [surprisal[first] for first, _ in steps],
            "entropy": [entropy[first] for first, _ in steps],
            "perplexity": [math.exp(mean([surprisal[i] for i in own])) if own else None for _, own in steps],
        })
    return made


def next_tokens(name):
    """Scores all tokens of chains but the first."""
    made = []
    for row in rows(f"{name}/scores.jsonl"):
        surprisal, entropy = token_scores(name, "float32", row["ids"])
        made.append({"ids": row["ids"], "surprisal": surprisal[1:], "entropy": entropy[1:]})
    return made


def length(name, steps):
    """Returns the number of tokens of a chain."""
    return len(tokenizer(name).encode("\n\n".join(steps), add_special_tokens=False).ids)


def refine(name):
    """Removes the step with the lowest score until the chain has at most `max_tokens` tokens."""
    made = []
    for row in rows(f"{name}/cots.jsonl"):
        steps, values = row["steps"], [value or 0.0 for value in row["surprisal"]]
        original, cases = length(name, steps), []
        for share in [1, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1, 0]:
            most, kept = int(share * original), list(range(len(steps)))
            for step in sorted(kept, key=lambda step: (values[step], step)):
                if length(name, [steps[step] for step in kept]) <= most:
                    break
                kept.remove(step)
            cases.append({"max_tokens": most, "kept": kept, "tokens": length(name, [steps[step] for step in kept])})
        made.append({"steps": steps, "scores": [repr(value) for value in values], "original": original, "cases": cases})
    return made


def generated(path, name, **options):
    import torch

    made = []
    for row in rows(path):
        prompt = torch.tensor([tokenizer(name).encode(row["prompt"]).ids])
        options |= {"attention_mask": torch.ones_like(prompt), "do_sample": False}
        ids = model(name, "float32").generate(prompt, **options)
        made.append({"prompt": row["prompt"], "ids": ids[0, prompt.shape[1] :].tolist()})
    return made


def conversations():
    """Scores the steps of all thoughts of a conversation in one text, by `data/model`. Its chat template prints roles and texts
    only: thoughts stand in think tags before the text of their message, and calls in their tags after it."""
    from transformers import AutoTokenizer

    name, made = "../../data/model", []
    template = AutoTokenizer.from_pretrained(FOLDER / name)
    for row in rows("conversations.jsonl"):
        messages, steps = [], []
        for message in row["messages"]:
            thought, text = message.get("reasoning_content"), message["content"] or ""
            steps += thought.split("\n\n") if thought else []
            opened = f"<think>\n{thought}\n</think>\n\n" if thought else ""
            calls = [call["function"] for call in message.get("tool_calls", [])]
            closed = [
                f'\n<tool_call>\n{{"name": "{call["name"]}", "arguments": {call["arguments"]}}}\n</tool_call>' for call in calls
            ]
            messages.append({"role": message["role"], "content": opened + text + "".join(closed)})
        text = template.apply_chat_template(messages, tokenize=False)
        spans, end = [], 0
        for step in steps:
            spans.append((text.index(step, end), text.index(step, end) + len(step)))
            end = spans[-1][1]
        # Nothing after the last step is read.
        encoding = tokenizer(name).encode(text[:end])
        surprisal, entropy = token_scores(name, "float32", encoding.ids)
        firsts = [first_token(encoding, start) for start, _ in spans]
        begins = [start for start, _ in encoding.offsets]
        own = [[i for i in range(first, len(begins)) if begins[i] < end] for first, (_, end) in zip(firsts, spans)]
        expected = {
            "surprisal": [surprisal[first] for first in firsts],
            "entropy": [entropy[first] for first in firsts],
            "perplexity": [math.exp(mean([surprisal[i] for i in tokens])) for tokens in own],
        }
        made.append({"messages": row["messages"], "expected": expected})
    return made


# Scores of other methods, in f64


def answer_nll(name, question, steps, answer):
    """Returns the mean −ln P of the answer after a chain."""
    before = question + "\n\n".join(steps) + CLOSE
    encoding = tokenizer(name).encode(before + answer)
    surprisal, _ = token_scores(name, "float64", encoding.ids)
    # The first token of all has no score.
    return mean(surprisal[max(first_token(encoding, len(before)), 1) :])


def alone(name, text):
    """Returns −ln P of each token of a text that follows nothing but the start token."""
    start = "<|begin_of_text|>" if name == "llama" else "<|endoftext|>"
    ids = tokenizer(name).encode(text, add_special_tokens=False).ids
    return token_scores(name, "float64", [tokenizer(name).token_to_id(start), *ids])[0][1:]


def scores(name):
    chains, made = rows(f"{name}/cots.jsonl"), []
    for row in rows(f"scores_{name}.jsonl"):
        question, steps, answer = chains[row["id"]]["question"], chains[row["id"]]["steps"], row["answer"]
        encoding = tokenizer(name).encode(question + "\n\n".join(steps))
        _, entropy = token_scores(name, "float64", encoding.ids)
        entropies = [[entropy[i] for i in own] for _, own in spans(encoding, question, steps)]
        singles = [alone(name, step) for step in steps]
        whole = answer_nll(name, question, steps, answer)
        rests = [steps[:index] + steps[index + 1 :] for index in range(len(steps))]
        without = [answer_nll(name, question, rest, answer) for rest in rests]
        made.append({
            "id": row["id"],
            "answer": answer,
            "step_entropy_sum": [sum(own) if own else None for own in entropies],
            "step_entropy_mean": [mean(own) if own else None for own in entropies],
            "self_information": [mean(single) for single in singles],
            "self_information_tokens": [len(single) for single in singles],
            "answer_nll": whole,
            "answer_nll_without": without,
            "attribution": [nats - whole for nats in without],
        })
    return made


# Training


@cache
def train(name):
    """Returns the trace, the gradient of one batch of all examples, and the weights after 24 steps."""
    import torch
    from transformers import get_scheduler

    trained = load(name, "float32").train()
    examples = rows(f"train_{name}/examples.jsonl")

    def accumulate(batch):
        """Adds the gradients of the examples, and returns the loss and the number of learned tokens."""
        count, nats = sum(len(example["response_ids"]) for example in batch), 0.0
        for example in batch:
            response = torch.tensor(example["response_ids"])
            ids = torch.tensor([example["prompt_ids"] + example["response_ids"]])
            logits = trained(ids).logits[0, -len(response) - 1 : -1]
            loss = torch.nn.functional.cross_entropy(logits, response, reduction="sum") / count
            loss.backward()
            nats += loss.item()
        return nats, count

    loss, count = accumulate(examples)
    gradients = {key: weight.grad.clone() for key, weight in trained.named_parameters()}
    norm = sum(gradient.double().square().sum().item() for gradient in gradients.values()) ** 0.5
    trained.zero_grad()
    constants = {
        "name": "AdamW", "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0, "peak_lr": 1e-3,
        "scheduler": "cosine_with_min_lr", "min_lr_rate": 0.1, "warmup_steps": 3, "steps": 24, "clip": 0.2,
    }
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    scheduler = get_scheduler("cosine_with_min_lr", optimizer, 3, 24, scheduler_specific_kwargs={"min_lr_rate": 0.1})
    one_batch = {"loss": loss, "supervised_tokens": count, "grad_norm": norm}
    trace = {"one_batch": one_batch, "optimizer": constants, "steps": []}
    for step in range(24):
        loss, count = accumulate([examples[(4 * step + i) % len(examples)] for i in range(4)])
        norm = torch.nn.utils.clip_grad_norm_(trained.parameters(), 0.2).item()
        made = {"step": step, "lr": scheduler.get_last_lr()[0], "loss": loss, "grad_norm_before_clip": norm}
        trace["steps"].append({**made, "supervised_tokens": count})
        optimizer.step()
        scheduler.step()
        trained.zero_grad()
    return trace, gradients, {key: weight.detach().clone() for key, weight in trained.named_parameters()}


def masked(name):
    """Returns the mean loss of masked examples and its gradient: of each response, every second run of seven tokens is
    learned, from the first on."""
    import torch

    trained, batch = load(name, "float32").train(), []
    for example in rows(f"train_{name}/examples.jsonl")[:6]:
        prompt, ids = len(example["prompt_ids"]), example["prompt_ids"] + example["response_ids"]
        learned = lambda place: place >= prompt and (place - prompt) // 7 % 2 == 0
        batch.append((ids, [each if learned(place) else -100 for place, each in enumerate(ids)]))
    count = sum(label != -100 for _, labels in batch for label in labels)
    nats = torch.zeros(())
    for ids, labels in batch:
        logits = trained(torch.tensor([ids])).logits[0, :-1]
        nats = nats + torch.nn.functional.cross_entropy(logits, torch.tensor(labels[1:]), reduction="sum")
    loss = nats / count
    loss.backward()
    return {"loss": loss.detach(), **{key: weight.grad for key, weight in trained.named_parameters()}}


# llmlingua


class Words:
    """Weighs a word in place of the tokenizer of OpenAI that llmlingua downloads."""

    def encode(self, text):
        return re.findall(r"\w{1,4}|[^\w\s]", text)


@cache
def compressor(encoder, without_new=False):
    import tiktoken

    tiktoken.encoding_for_model = lambda _: Words()
    from llmlingua import PromptCompressor

    folder = FOLDER / "llmlingua2" / encoder
    with tempfile.TemporaryDirectory() as copy:
        folder = copy_without_new(folder, Path(copy)) if without_new else folder
        return PromptCompressor(str(folder), device_map="cpu", use_llmlingua2=True)


def copy_without_new(folder, to):
    """Copies an encoder without the rows and entries that llmlingua adds for its force tokens."""
    from safetensors.torch import load_file, save_file

    # llmlingua recognizes an encoder by the name of its folder.
    copy = shutil.copytree(folder, to / folder.name)
    config, tokens, settings = (
        json.loads((copy / file).read_text()) for file in ["config.json", "tokenizer.json", "tokenizer_config.json"]
    )
    config["vocab_size"] = 1500
    tokens["added_tokens"] = [token for token in tokens["added_tokens"] if not token["content"].startswith("[NEW")]
    settings = {key: value for key, value in settings.items() if not key.endswith("_special_tokens")}
    for file, content in zip(["config.json", "tokenizer.json", "tokenizer_config.json"], [config, tokens, settings]):
        (copy / file).write_text(json.dumps(content))
    tensors = load_file(copy / "model.safetensors")
    for key, tensor in tensors.items():
        if key.endswith("word_embeddings.weight"):
            tensors[key] = tensor[:1500].clone()
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    return copy


def compressed(encoder, file):
    made = []
    for row in rows(f"llmlingua2/{encoder}/{file}"):
        inputs = {key: row[key] for key in ("text", "rate", "kwargs")}
        result = compressor(encoder, row.get("without_new", False)).compress_prompt(
            [row["text"]], rate=row["rate"], return_word_label=True, **row["kwargs"]
        )
        made.append({**inputs, "compressed": result["compressed_prompt"]})
        if "without_new" in row:
            made[-1]["without_new"] = row["without_new"]
        else:
            made[-1]["labels"] = result["fn_labeled_original_prompt"]
            made[-1] |= {"origin": result["origin_tokens"], "comp": result["compressed_tokens"]}
    return made


def kept(encoder):
    """The probability of each token to be kept, chunk by chunk. The last id stands for a token without a row."""
    import torch
    from transformers import AutoModelForTokenClassification

    model, made = AutoModelForTokenClassification.from_pretrained(FOLDER / "llmlingua2" / encoder).eval(), []
    words = model.get_input_embeddings().weight
    words = torch.cat([words, words.mean(0, keepdim=True)])
    for row in rows(f"llmlingua2/{encoder}/keep.jsonl"):
        with torch.no_grad():
            read = model(inputs_embeds=words[row["ids"]][None], position_ids=torch.tensor([row["positions"]]))
        keep = read.logits[0].softmax(-1)[:, 1].tolist()
        made.append({"ids": row["ids"], "positions": row["positions"], "keep": [round(each, 7) for each in keep]})
    return made


def tokenskip():
    """Makes rows as TokenSkip's `get_llamafactory_input.py` does from chains that its `LLMLingua.py` compressed."""
    draw, made = random.Random(42), []
    for row in rows("tokenskip.jsonl"):
        row = {key: row[key] for key in ("id", "question", "cot", "answer")}
        gamma = draw.choice([1.0, 0.9, 0.8, 0.7, 0.6, 0.5])
        text, asked = row["cot"], row["question"]
        if gamma < 1:
            text = compressor(ENCODERS[0]).compress_prompt([text], rate=gamma)["compressed_prompt"]
            asked = f"{asked}<|eot_id|>{gamma}<|eot_id|>"
        output = f"{text}\n\nThe final answer is: $\\boxed{{{row['answer']}}}$"
        made.append({**row, "gamma": gamma, "input": asked, "output": output})
    return made


if __name__ == "__main__":
    main()
