"""Compares the backend `torch` of scores with asap's own engine on its four families, packed chains with chains alone, and
Phi-3 and conversations with transformers. Then compares the encoder of `torch` with transformers and with asap's own engine."""

import json
import os
import subprocess
import sys
import tempfile

import torch
from asap import scorer
from transformers import AutoModelForCausalLM, AutoTokenizer, Phi3Config

asap, models = os.path.abspath(sys.argv[1]), os.path.abspath("tests/goldens")
STEPS = ["2 + 2 is 4.", "Twice 4 is 8, so 8 it is.", "Let me check: 8 / 2 is 4.", "So the answer is 8."]
CALLS = {
    "surprisal": "cot_surprisal({0})",
    "entropy": "cot_step_entropy({0})",
    "attribution": "cot_attribution({0}, '8')",
    "survives": "cot_survives({0}, [0, 2], '8')",
}


def query(sql, model, backend):
    settings = {"model": model, "backend": backend, "dtype": "f32", "python": sys.executable}
    given = [word for key, value in settings.items() for word in ("--set", f"asap.scorer.{key}={value}")]
    command = [asap, "sql", "-q", "--format", "json", *given, "-c", sql]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def scores(model, backend):
    arguments = f"'What is 2 * (2 + 2)?', {STEPS!r}"
    columns = ", ".join(f"{call.format(arguments)} AS {name}" for name, call in CALLS.items())
    return query(f"SELECT {columns}", model, backend)[0]


def numbers(value):
    if isinstance(value, dict):
        return [number for own in value.values() for number in numbers(own)]
    if isinstance(value, list):
        return [number for own in value for number in numbers(own)]
    return [value]


for family in ("qwen2", "qwen3", "llama", "mistral"):
    own, by_torch = (numbers(scores(f"{models}/{family}", backend)) for backend in ("cpu", "torch"))
    assert len(own) == len(by_torch) > 3 * len(STEPS)
    for a, b in zip(own, by_torch):
        assert abs(a - b) < 1e-4 if isinstance(a, float) else a == b, (family, a, b)

asked = "named_struct('question', question, 'system', system, 'turns', turns)"
for backend in ("cpu", "torch"):
    sql = f"SELECT expected, cot_surprisal({asked}, cot_steps(cot)) AS found FROM cot_corpus('{models}/conversations.jsonl')"
    conversations = query(sql, "data/model", backend)
    assert len(conversations) == 100
    for row in conversations:
        for found, expected in zip(row["found"], row["expected"]["surprisal"], strict=True):
            assert abs(found - expected) < 1e-4, (backend, row)

for family in ("qwen2", "mistral"):
    reader = scorer.Model(f"{models}/{family}", "cpu", "f32")
    chains = [[(7 * place + 3 * length) % reader.vocabulary for place in range(length)] for length in (40, 1, 230)]
    asked = [[(row, chain[row]) for row in range(0, len(chain), 3)] for chain in chains]
    with torch.inference_mode():
        packed = reader.packed(chains, asked)
        for own, chain, rows in zip(packed, chains, asked):
            for ours, theirs in zip(own, reader.alone(chain, rows)):
                assert (ours - theirs).abs().max() < 1e-4, family
        assert (packed[2][0] - reader.packed([chains[0] + chains[2]], [[(row + 40, id) for row, id in asked[2]]])[0][0]).abs().max() > 1e-3

with tempfile.TemporaryDirectory() as folder:
    tokenizer = AutoTokenizer.from_pretrained(f"{models}/llama")
    tokenizer.save_pretrained(folder)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = Phi3Config(vocab_size=len(tokenizer), max_position_embeddings=256, pad_token_id=0, **shape)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(folder)
    found = scores(folder, "auto")["surprisal"]
    prompt = "What is 2 * (2 + 2)?\n<think>\n"
    for place, surprisal in enumerate(found):
        before = prompt + "".join(f"{step}\n\n" for step in STEPS[:place])
        whole = tokenizer(before + STEPS[place], return_offsets_mapping=True)
        first = next(token for token, (begin, _) in enumerate(whole.offset_mapping) if begin >= len(before))
        with torch.no_grad():
            logs = model(torch.tensor([whole.input_ids])).logits[0].log_softmax(-1)
        assert abs(surprisal + logs[first - 1, whole.input_ids[first]].item()) < 1e-4, (place, surprisal)

for name in ("xlm-roberta-large-tiny", "bert-base-multilingual-cased-tiny"):
    folder = f"{models}/llmlingua2/{name}"
    goldens = [json.loads(line) for line in open(f"{folder}/keep.jsonl")]
    encoder = scorer.Encoder(folder, "cpu", "f32")
    # Together, and in packs of one chunk.
    for encoder.tokens in (1024, 1):
        with torch.inference_mode():
            found = encoder.keep([(golden["positions"], golden["ids"]) for golden in goldens])
        for keep, golden in zip(found, goldens, strict=True):
            assert (keep - torch.tensor(golden["keep"])).abs().max() < 1e-5, name
    texts = []
    for backend in ("cpu", "torch"):
        settings = {"model": folder, "backend": backend}
        given = [word for key, value in settings.items() for word in ("--set", f"asap.compressor.{key}={value}")]
        given += ["--set", f"asap.scorer.python={sys.executable}"]
        sql = f"SELECT cot_llmlingua2(text, rate) AS kept FROM '{folder}/goldens.jsonl'"
        done = subprocess.run([asap, "sql", "-q", "--format", "json", *given, "-c", sql], check=True, capture_output=True)
        texts.append(json.loads(done.stdout))
    assert texts[0] == texts[1] and len(texts[0]) == 200, name
print("scores and encoders of torch agree")
