# /// script
# requires-python = ">=3.11"
# dependencies = ["jinja2==3.1.6", "tokenizers==0.23.3", "transformers==5.23.0"]
# ///
"""Writes udfs/lm/tests/lessons.jsonl: conversations as training examples, by chat templates in transformers.

Each example is the text before the last message of the assistant that it teaches, and this message. `learned` are the places of
the messages, each up to the token that ends it. What a template writes of a message after the text before it is the message,
unless RESPONSES has another text.
"""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

FOLDER = Path(__file__).resolve().parent
OUT = FOLDER.parents[1] / "udfs/lm/tests"
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds <a> & 'b'.", "parameters": {
    "type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "number"}}}}}]
LIKE_QWEN38 = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "<think>\n{{ m.reasoning_content | trim }}\n</think>\n\n{% endif %}{{ m.content | trim }}{% for c in m.tool_calls %}"
    "\n<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v | tojson }}"
    "\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}"
    "<|im_start|>assistant\n<think>\n{% endif %}")
LIKE_GLM = (
    "[gMASK]{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}"
    "{% endfor %}{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>\n<think>"
    "{{ m.reasoning_content.strip() if m.reasoning_content and loop.index0 > ns.last }}</think>"
    "{% if m.content.strip() %}\n{{ m.content.strip() }}{% endif %}{% for c in m.tool_calls %}\n<tool_call>{{ c.function.name }}"
    "{% for k, v in c.function.arguments.items() %}\n<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v | tojson(ensure_ascii=False) }}</arg_value>"
    "{% endfor %}\n</tool_call>{% endfor %}{% elif m.role == 'tool' %}<|observation|>\n{{ m.content }}{% else %}<|{{ m.role }}|>\n"
    "{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
LIKE_KIMI = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'assistant' and not m.get('tool_calls') %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}<|im_start|>{{ m.get('name') or m.role }}<|im_middle|>"
    "{% if m.role == 'assistant' %}<think>{% if loop.index0 > ns.last %}{{ m.get('reasoning_content', '') }}{% endif %}</think>{% endif %}"
    "{{ m.content }}{% for c in m.get('tool_calls') or [] %}<|call|>{{ c.function.name }}:{{ c['id'] }}<|args|>"
    "{% if c['function']['arguments'] is string %}{{ c['function']['arguments'] }}{% else %}{{ c['function']['arguments'] | tojson }}"
    "{% endif %}<|call_end|>{% endfor %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant<|im_middle|>{% endif %}")
LIKE_GPT_OSS = (
    "{% for m in messages %}{% if m.role == 'assistant' and 'tool_calls' in m %}{% set ns = namespace(final=false) %}"
    "{% for later in messages[loop.index:] %}{% if later.role == 'assistant' and 'tool_calls' not in later %}{% set ns.final = true %}"
    "{% endif %}{% endfor %}{% if m.thinking and not ns.final %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>"
    "{% endif %}<|start|>assistant to={{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>"
    "{{ m.tool_calls[0].function.arguments | tojson }}<|call|>{% elif m.role == 'assistant' %}{% if loop.last and not add_generation_prompt %}"
    "{% if 'thinking' in m %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
    "<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|return|>{% else %}<|start|>assistant<|channel|>final<|message|>"
    "{{ m.content }}<|end|>{% endif %}{% else %}<|start|>{{ m.role }}<|message|>{{ m.content | tojson if m.role == 'tool' else m.content }}"
    "<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}")
LIKE_NEMOTRON = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% if m.reasoning_content and loop.index0 > ns.last %}"
    "<think>\n{{ m.reasoning_content }}\n</think>\n{% else %}<think></think>{% endif %}{% endif %}{{ m.content }}{% for c in m.tool_calls %}"
    "<tool_call>{{ c.function.name }}{{ c.function.arguments | tojson }}</tool_call>\n{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}")
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
QWEN3, R1, *_ = [json.loads(line).get("template") for line in open(OUT / "conversations.jsonl")]
HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"]
R1_TOKENS = ["<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"]
# The messages of the assistant are 2 (a call), 4 and 6. In the second conversation, the call has no thought. In the third one,
# there is no call, and messages are 2 and 4.
CASES = [
    ("Qwen3 drops the thoughts of earlier exchanges.", QWEN3, [], [[[2, 4], [6]], [[2, 4], [6]], [[2], [4]]]),
    ("DeepSeek-R1-Distill drops all thoughts.", R1, R1_TOKENS, [None, None, [[2], [4]]]),
    ("Like Qwen3.8, which keeps all thoughts.", LIKE_QWEN38, [], [[[2, 4, 6]], [[2, 4, 6]], [[2, 4]]]),
    ("Like GLM-4.5, whose turns end with the token of the next turn.", LIKE_GLM,
     ["[gMASK]", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"], [[[2, 4], [6]], [[2, 4], [6]], [[2], [4]]]),
    ("Like Kimi K2 Thinking, which drops all thoughts up to the last text.", LIKE_KIMI,
     ["<|im_middle|>", "<|call|>", "<|args|>", "<|call_end|>"], [[[2, 4], [6]], [[2, 4], [6]], [[2], [4]]]),
    ("Like gpt-oss, which drops thoughts before a final text.", LIKE_GPT_OSS, HARMONY, [[[2, 4], [6]], [[2, 4], [6]], [[2], [4]]]),
    ("Like Nemotron 3, whose prompt opens the thought that it leaves out of messages without one.", LIKE_NEMOTRON, [],
     [[[2, 4], [6]], [[2], [4], [6]], [[2], [4]]]),
    ("ChatML, in which thoughts are a part of the content.", CHATML, [], [None, None, [[2, 4]]]),
]
THOUGHTS = {2: "A sum.\n\nThe tool adds.", 4: "So 13.", 6: "13 and 2.\n\nSo 15."}
OF_GPT_OSS = "<|channel|>analysis<|message|>So 13.<|end|><|start|>assistant<|channel|>final<|message|>It is 13.<|return|>"
# By case, conversation and message. A response of R1 follows the tag that its prompt opens.
RESPONSES = {
    **{("Like Kimi", number, place): f"<think>{thought}</think>{text}<|im_end|>"
       for thought, text, places in [(THOUGHTS[4], "It is 13.", [(0, 4), (1, 4), (2, 2)]), (THOUGHTS[6], "15", [(0, 6), (1, 6), (2, 4)])]
       for number, place in places},
    **{("DeepSeek", 2, place): f"{thought}\n</think>\n\n{text}<｜end▁of▁sentence｜>"
       for place, thought, text in [(2, THOUGHTS[4], "It is 13."), (4, THOUGHTS[6], "15")]},
    ("Like gpt-oss", 0, 4): OF_GPT_OSS,
    ("Like Nemotron", 1, 2): "\n</think>\n<tool_call>add{\"b\": 5.0, \"a\": 8}</tool_call>\n<|im_end|>\n",
}


def conversation(number):
    said = lambda role, text: {"role": role, "content": text}
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"b": 5.0, "a": 8}}}
    all_messages = [
        said("system", "Be brief."), said("user", "8 + 5?"), {**said("assistant", ""), "tool_calls": [call]},
        {**said("tool", "13"), "tool_call_id": "c1", "name": "add"}, said("assistant", "It is 13."), said("user", "And 2?"),
        said("assistant", "15")]
    thoughts = {place: thought for place, thought in THOUGHTS.items() if number != 1 or place != 2}
    for place, thought in thoughts.items():
        all_messages[place] |= {"reasoning_content": thought, "thinking": thought}
    return all_messages if number != 2 else all_messages[:2] + all_messages[4:]


def examples(why, tokenizer, number, groups):
    messages, found = conversation(number), []
    if why.startswith("ChatML"):
        for each in messages:
            thought = each.pop("reasoning_content", None)
            each["content"] = f"<think>\n{thought}\n</think>\n\n{each['content']}" if thought else each["content"]
    write = lambda upto, generates: tokenizer.apply_chat_template(
        messages[:upto], tools=TOOLS, add_generation_prompt=generates, tokenize=False, enable_thinking=True, thinking=True)
    encode = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]

    def response(place):
        other = [text for (name, of, at), text in RESPONSES.items() if why.startswith(name) and (of, at) == (number, place)]
        if other:
            return other[0]
        prompt, whole = write(place, True), write(place + 1, False)
        assert whole.startswith(prompt), (why, place, whole, prompt)
        return whole[len(prompt):]

    for group in groups:
        last = group[-1]
        text = write(last, True) + response(last)
        begins = [len(write(place, True)) for place in group]
        assert all(text.startswith(write(place, True)) for place in group), (why, group)
        ids, learned = encode(text[:begins[0]]), []
        for place, begin, end in zip(group, begins, [*begins[1:], len(text)]):
            own = encode(text[begin:end])
            special = [token in tokenizer.all_special_ids for token in own]
            # Up to the last special token of the message, or with GLM to the first one after it.
            told = response(place).rstrip("\n")
            if not text[begin:].startswith(told):
                # Later on, Qwen3 leaves out the empty tags of a message without a thought.
                told = told.removeprefix("<think>\n\n</think>\n\n")
            assert text[begin:].startswith(told), (why, place)
            said = len(encode(told))
            said += said < len(own) and not special[said - 1]
            learned.append([len(ids), len(ids) + said])
            ids += own if end < len(text) else own[:said]
        if ids[-1] not in tokenizer.all_special_ids:
            ids.append(tokenizer.eos_token_id)
            learned.append([len(ids) - 1, len(ids)])
        # As one text, the tokens are the same.
        assert encode(text)[:len(ids) - 1] == ids[:-1], (why, group)
        found.append({"ids": ids, "learned": learned})
    return found


def main():
    with open(OUT / "lessons.jsonl", "w") as out:
        for why, template, special, groups in CASES:
            plain = Tokenizer.from_file(str(FOLDER / "qwen2/tokenizer.json"))
            plain.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
            tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, chat_template=template, bos_token=None, eos_token="<|endoftext|>")
            all_special = [token.content for token in plain.get_added_tokens_decoder().values() if token.special]
            tokenizer.add_special_tokens({"additional_special_tokens": all_special})
            found = [None if group is None else examples(why, tokenizer, number, group) for number, group in enumerate(groups)]
            out.write(json.dumps({"why": why, "template": template, "special": special, "conversations": found}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
