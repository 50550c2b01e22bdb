"""Checks how conversations with several exchanges or tools are learned.

    python tests/readers/conversations.py target/debug/asap [TEMPLATES…]

1. By the chat templates that come with TRL, or by the files given: each message of the assistant is learned once, after exactly
   the tokens that transformers gives a model which is to write this message.
2. An export of conversations trains for a step in TRL, and reaches axolotl's model with the thoughts and calls.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["AXOLOTL_DO_NOT_TRACK"] = "1"

import pyarrow.parquet
import transformers
import yaml
from tokenizers import AddedToken, Tokenizer

PROJECT = Path(__file__).resolve().parents[2]
ASAP = Path(sys.argv[1]).resolve()
# The chat templates of models that think. Others of TRL are for training, or for images.
THINKING = ["deepseek_r1_distill", "gemma4_v5", "glm4moe", "gptoss", "nemotron_3_5_lightning", "nemotron_3_nano", "nemotron_3_super",
            "nemotron_3_ultra", "qwen3", "qwen3_5_think", "qwen3_6", "qwen3_8"]
SPECIAL = """<|start|> <|begin|> <|content|> <|think|> <|channel|> <|message|> <|end|> <|call|> <|return|> [gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|>
    <|im_user|> <|im_assistant|> <|im_system|> <|im_middle|> <|tool_calls_section_begin|> <|tool_calls_section_end|> <|tool_call_begin|>
    <|tool_call_argument_begin|> <|tool_call_end|> ]~!b[ ]~b] [e~[ <｜User｜> <｜Assistant｜> <｜end▁of▁sentence｜> <｜tool▁calls▁begin｜>
    <｜tool▁calls▁end｜> <｜tool▁call▁begin｜> <｜tool▁call▁end｜> <｜tool▁sep｜> <｜tool▁outputs▁begin｜> <｜tool▁outputs▁end｜>
    <｜tool▁output▁begin｜> <｜tool▁output▁end｜> <|turn> <turn|> <|tool_call> <tool_call|> <|tool_response> <tool_response|>""".split()
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds <a> & 'b'.", "parameters": {
    "type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "number"}}, "required": ["b"]}}}]


def call(number, **arguments):
    return [{"id": f"functions.add:{number}", "type": "function", "function": {"name": "add", "arguments": arguments}}]


def rows():
    """Conversations: with calls, with a call without a thought, and without calls."""
    said = lambda role, content, **more: {"role": role, "content": content, **more}
    result = lambda number, content: said("tool", content, tool_call_id=f"functions.add:{number}", name="add")
    talk = [said("system", "Be brief."), said("user", "8 + 5?"),
            said("assistant", "", reasoning_content="A sum.\n\nThe tool adds.", tool_calls=call(0, b=5.0, a=8)), result(0, "13"),
            said("assistant", "", reasoning_content="Check it.", tool_calls=call(1, b=1, a=12)), result(1, "13"),
            said("assistant", "It is 13.", reasoning_content="So 13."), said("user", "And 2?"),
            said("assistant", "15", reasoning_content="13 and 2.\n\nSo 15.")]
    without = [{name: value for name, value in message.items() if name != "reasoning_content" or place != 4}
               for place, message in enumerate(talk)]
    plain = [talk[1], talk[6], talk[7], talk[8]]
    return [talk, without, plain]


def asap(folder, *arguments):
    done = subprocess.run([ASAP, *arguments], cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def model(folder, template):
    """A model's folder with this chat template, and its tokenizer."""
    folder.mkdir()
    plain = Tokenizer.from_file(str(PROJECT / "data/model/tokenizer.json"))
    plain.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    plain.save(str(folder / "tokenizer.json"))
    config = json.loads((PROJECT / "data/model/config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": plain.get_vocab_size()}))
    named = {"eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**named, "chat_template": template}))
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|endoftext|>",
                                                chat_template=template)


def with_texts(message):
    """A message with the arguments of calls as texts, as OpenAI returns them."""
    as_text = lambda call: {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
    return {**message, "tool_calls": list(map(as_text, message["tool_calls"]))} if "tool_calls" in message else message


def fed(folder, name, row):
    """The examples of a row: their tokens, and where each learned part begins and ends."""
    (folder / "row.jsonl").write_text(json.dumps({"messages": list(map(with_texts, row)), "tools": TOOLS}) + "\n")
    stream = asap(folder, "feed", "--data", "row.jsonl", "--model", name)
    for example in pyarrow.ipc.open_stream(stream).read_all().to_pylist():
        ids, labels = example["input_ids"], example["labels"]
        parts = [place for place, label in enumerate(labels) if label != -100 and (place == 0 or labels[place - 1] == -100)]
        ends = [place for place in range(1, len(ids) + 1) if labels[place - 1] != -100 and (place == len(ids) or labels[place] == -100)]
        yield ids, list(zip(parts, ends, strict=True))


def law(folder, path):
    """Returns how many examples each row has with a chat template, and what it refuses."""
    name, template = path.stem, path.read_text()
    tokenizer = model(folder / name, template)
    found, breaks = [], set()
    for row in rows():
        try:
            examples = list(fed(folder, name, row))
        except AssertionError as error:
            found.append(str(error).strip().rpartition("rejected")[2].strip(" ()"))
            continue
        learned = {tuple(ids[:begin]): tokenizer.decode(ids[begin:end]) for ids, parts in examples for begin, end in parts}
        if not any(word in template for word in ("reasoning_content", "thinking", "</think>")):
            # Contents are printed as they are.
            row = [{**message, "content": f"<think>\n{message['reasoning_content']}\n</think>\n\n{message['content']}"}
                   if "reasoning_content" in message else message for message in row]
        # Harmony has the field thinking.
        messages = [message | ({"thinking": message["reasoning_content"]} if "'thinking'" in template + template.replace('"', "'")
                               and "reasoning_content" in message else {}) for message in row]
        # asap prints the same date each day.
        write = lambda upto, generates: tokenizer.apply_chat_template(
            upto, tools=TOOLS, add_generation_prompt=generates, enable_thinking=True, thinking=True, tokenize=False,
        ).replace(time.strftime("%Y-%m-%d"), "2024-07-26")
        for place, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            try:
                prompt, whole = write(messages[:place], True), write(messages[:place + 1], False)
            except TypeError:
                # Some templates take arguments as texts.
                messages = list(map(with_texts, messages))
                prompt, whole = write(messages[:place], True), write(messages[:place + 1], False)
            text = learned.pop(tuple(tokenizer(prompt, add_special_tokens=False)["input_ids"]), None)
            assert text is not None, f"{name}: no example teaches message {place} after {prompt!r}"
            parts = [message.get("reasoning_content", ""), message["content"], *(["add", "12"] if place == 4 and message.get("tool_calls") else [])]
            assert all(part in text for part in parts), f"{name}: message {place} is {text!r}"
            own, thought = whole[len(prompt):], message.get("reasoning_content", "")
            if not whole.startswith(prompt) or thought not in own:
                breaks.add(place)
            elif thought:
                # The template's own text, up to the token that ends the turn.
                assert text.startswith(own.rstrip()) or own.startswith(text), f"{name}: message {place} is {text!r}, not {own!r}"
        assert not learned, f"{name}: others are learned: {learned}"
        found.append(len(examples))
    return found, sorted(breaks)


def export(folder, template):
    """A step on an export of conversations in TRL and axolotl, whose tokens hold each thought, call and result."""
    from axolotl.utils import collators
    from axolotl.utils.data.sft import prepare_datasets
    from axolotl.utils.dict import DictDefault
    from axolotl.utils.schemas.config import AxolotlInputConfig
    from counting import OPTIONS, STEP, Counted, line, run, trained

    (folder / "corpus").mkdir()
    (folder / "corpus/rows.jsonl").write_text("".join(
        json.dumps({"id": str(number), "messages": list(map(with_texts, row)), "tools": TOOLS}) + "\n"
        for number, row in enumerate(rows()[:2] * 2)))
    shutil.copytree(PROJECT / "data/model", folder / "model")
    (folder / "model/chat_template.jinja").write_text(template)
    asap(folder, "run", "random", "--from", "corpus", "--to", "pruned", "--ratio", "0.7")
    asap(folder, "export", "pruned", "--to", "exported")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    kept = pyarrow.parquet.read_table(sorted((folder / "exported").glob("*.parquet"))).to_pylist()

    def check(found, trainer):
        texts = sorted(tokenizer.decode(list(ids)) for ids, _ in found.elements())
        assert len(texts) == len(kept) == 4, (trainer, len(texts))
        last = sorted(message["reasoning_content"] or "" for row in kept for message in row["messages"][-1:])
        assert all(sum(thought in text for text in texts) for thought in last), (trainer, texts, last)
        assert all(part in text for text in texts for part in ["13</tool_response>".replace("13<", "13\n<"), '"name": "add"', '"parameters": {"type": "object"', "It is 13."]), texts
        print(f"{trainer}: a step on an export of {len(kept)} conversations")

    line_of_export = line("TRL").replace('"pruned"', '"exported"').replace('["prompt", "completion"]', '["messages", "tools"]')
    check(trained(folder, line_of_export), "TRL")
    needed = {"base_model": "model", "micro_batch_size": STEP, "gradient_accumulation_steps": 1, "num_epochs": 1,
              "learning_rate": 1e-4, "dataset_prepared_path": "prepared"}
    settings = AxolotlInputConfig(**needed, **yaml.safe_load(line("axolotl").replace("pruned", "exported")))
    with contextlib.chdir(folder):
        prepared, *_ = prepare_datasets(DictDefault({**settings.model_dump(exclude_none=True), "batch_size": STEP}), tokenizer)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model")
    trainer = type("Plain", (Counted, transformers.Trainer), {})
    arguments = transformers.TrainingArguments(output_dir=folder / "plain", **OPTIONS)
    collate = collators.DataCollatorForSeq2Seq(tokenizer, model=model)
    check(run(trainer(model=model, args=arguments, train_dataset=prepared, data_collator=collate)), "axolotl")


def main():
    import trl

    transformers.logging.set_verbosity_error()
    files = [Path(file) for file in sys.argv[2:]]
    files = files or [Path(trl.__file__).parent / f"chat_templates/{name}.jinja" for name in THINKING]
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            found, breaks = law(Path(folder), path)
            print(f"{path.stem}: examples of each conversation: {found}; printed otherwise as a finished turn: {breaks}")
        if not sys.argv[2:]:
            export(Path(folder), (Path(trl.__file__).parent / "chat_templates/qwen3.jinja").read_text())


if __name__ == "__main__":
    main()
