"""Baseline methods against transformers and llmlingua: the same models, rows and results, one thread, CPU seconds.

    python3 benches/peers/baselines.py

A question has 70 tokens, its chain 12 steps and about 600 tokens. The decoder has the shape of SmolLM2-135M, the encoder
that of BERT-base. Both have random weights: the cost does not depend on them. llmlingua would download the tokenizer of
GPT-3.5 to count tokens; here each word counts as one.
"""

import json
import os
import random
import subprocess
import sys
import time
import types

from common import ROOT, folder, is_with

PACKAGES = ["torch==2.15.0", "transformers==5.23.0", "accelerate==1.15.0", "numpy", "safetensors"]
# The minimum speed ratio to the peer.
GOALS = {"pass": 1.5, "attribution": 3.0, "llmlingua2": 1.5}
ROWS, STEPS, WORDS = 4, 12, 16


def main():
    if not is_with("baselines", *PACKAGES):
        return
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "llmlingua==0.2.2"])
    place = folder("baselines") / "models"
    rows = write(place)
    bench = ["cargo", "bench", "--package", "asap-lm", "--locked", "--bench", "baselines"]
    lines = subprocess.check_output(bench, text=True, cwd=ROOT, env={**os.environ, "ASAP_BENCH_FOLDER": str(place)})
    ours = {case["case"]: case for case in map(json.loads, filter(lambda line: line.startswith("{"), lines.splitlines()))}
    row = "{:<32}{:>10}{:>10}{:>8}{:>8}{:>12}".format
    print(row("", "ours", "peer", "ratio", "goal", "difference"))
    for case, mine in ours.items():
        what, _, dtype = case.partition(" ")
        # Published code computes the logits of all tokens, although those of the answer suffice.
        for only in [False, True] if what == "attribution" else [None]:
            cpu, found = llmlingua2(place, rows) if not dtype else score(loaded(place, dtype), rows, what, only)
            if dtype:
                apart = max(abs(a / b - 1) for a, b in zip(flat(mine["found"]), flat(found), strict=True))
                apart = f"{apart:.1e}"
            else:
                apart = f"{sum(a != b for a, b in zip(mine['found'], found))} of {len(found)}"
            name = case + (", the answer's logits" if only else "")
            print(row(name, f"{mine['cpu']:.2f} s", f"{cpu:.2f} s", f"{cpu / mine['cpu']:.2f}", f"> {GOALS[what]}", apart))


def flat(values):
    if isinstance(values, list):
        return [number for value in values for number in flat(value)]
    return [values]


def write(place):
    """Writes models and rows, always the same."""
    import shutil

    import torch
    from transformers import BertConfig, BertForTokenClassification, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shutil.rmtree(place, ignore_errors=True)
    decoder = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, rope_theta=1e5, tie_word_embeddings=True, bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForCausalLM(decoder).save_pretrained(place / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "data/model" / name, place / "model")
    bert = ROOT / "tests/goldens/llmlingua2/bert-base-multilingual-cased-tiny"
    encoder = BertConfig(vocab_size=1600, max_position_embeddings=512)
    encoder.num_labels = 2
    named = place / "encoder"
    BertForTokenClassification(encoder).save_pretrained(named)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(bert / name, named)
    # llmlingua recognizes a BERT by its path.
    (place / "bert-base-multilingual-cased").symlink_to("encoder")
    random.seed(1)
    words = (ROOT / "README.md").read_text().split()
    sentence = lambda count: " ".join(random.choice(words) for _ in range(count))
    rows = [
        {"question": sentence(20), "steps": [sentence(WORDS) for _ in range(STEPS)], "answer": sentence(4)}
        for _ in range(ROWS)
    ]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def loaded(place, dtype):
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    torch.set_num_threads(1)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(place / "model/tokenizer.json"))
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    return torch, tokenizer, AutoModelForCausalLM.from_pretrained(place / "model", dtype=dtype).eval()


def score(model, rows, what, only):
    torch, *model = model
    begun, found = time.process_time(), []
    with torch.inference_mode():
        for row in rows:
            found.append(one_pass(torch, *model, row) if what == "pass" else attribution(torch, *model, row, only))
    return time.process_time() - begun, found


def one_pass(torch, tokenizer, model, row):
    """Returns perplexity and sum of entropies of each step's own tokens."""
    before = row["question"] + "\n"
    encoded = tokenizer(before + "\n\n".join(row["steps"]), return_offsets_mapping=True)
    ids = torch.tensor(encoded["input_ids"])
    logs = torch.log_softmax(model(ids[None], use_cache=False).logits[0, :-1].float(), -1)
    nats = -logs.gather(1, ids[1:, None])[:, 0]
    entropies = -(logs.exp() * logs).sum(-1)
    scores, start = [[], []], len(before)
    for step in row["steps"]:
        own = [i for i, (a, b) in enumerate(encoded["offset_mapping"]) if b > start and a < start + len(step)]
        scores[0].append(nats[own[0] - 1 : own[-1]].mean().exp().item())
        scores[1].append(entropies[own[0] - 1 : own[-1]].sum().item())
        start += len(step) + 2
    return scores


def attribution(torch, tokenizer, model, row, only):
    """Returns the mean nats of the answer after the chain and after each chain without one of its steps."""
    steps, scores = row["steps"], []
    for lacking in range(-1, len(steps)):
        chain = "\n\n".join(step for place, step in enumerate(steps) if place != lacking)
        before = f"{row['question']}\n{chain}\n</think>\n"
        encoded = tokenizer(before + row["answer"], return_offsets_mapping=True)
        ids = torch.tensor(encoded["input_ids"])
        own = [i for i, (_, end) in enumerate(encoded["offset_mapping"]) if end > len(before)]
        logits = model(ids[None], use_cache=False, logits_to_keep=len(own) + 1 if only else 0).logits[0, :-1]
        logs = torch.log_softmax(logits[-len(own) :].float(), -1)
        scores.append(-logs.gather(1, ids[own, None]).mean().item())
    return scores


def llmlingua2(place, rows):
    """Compresses the chains to half of their words."""
    import torch

    class Words:
        def encode(self, word, **_):
            return [word]

    for name in ("tiktoken", "nltk"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["tiktoken"].encoding_for_model = lambda _: Words()
    from llmlingua import PromptCompressor

    torch.set_num_threads(1)
    named = str(place / "bert-base-multilingual-cased")
    compressor = PromptCompressor(model_name=named, use_llmlingua2=True, device_map="cpu")
    texts = ["\n\n".join(row["steps"]) for row in rows]
    begun = time.process_time()
    found = [compressor.compress_prompt([text], rate=0.5)["compressed_prompt"] for text in texts]
    return time.process_time() - begun, found


if __name__ == "__main__":
    main()
