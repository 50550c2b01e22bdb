"""Whether answers survive in the output of the pipeline `verified` by the judgement of another prompt, and of another model.

    python3 benches/peers/verified.py MODEL OUTPUT …

OUTPUT is a table of `asap run`. MODEL is a folder in Hugging Face's layout: the scoring model of the run, or another
model. transformers reads the question as a user's turn of the chat template, the chain between think tags, and the start
of an answer in words that asap does not use. It states an answer after the original and after the pruned chain. A chain
counts if the answer after its original is correct.
"""

import json
import os
import subprocess
import sys

from common import is_with, target

PACKAGES = ["torch==2.15.0", "transformers==5.23.0", "accelerate==1.15.0", "numpy", "safetensors"]
BEFORE_ANSWER = "\n</think>\n\n**Answer**\n\nWe conclude that the answer to the question is $"
STATED = 64


def main():
    if not is_with("survives", *PACKAGES):
        return
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, outputs = os.path.abspath(sys.argv[1]), sys.argv[2:]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    print("{:<40}{:>8}{:>10}{:>12}{:>10}".format("output", "chains", "of them", "survives", "tokens"), flush=True)
    stated = {}
    for output in outputs:
        rows = sql(f"SELECT question, cot, original_cot, answer, pruned_tokens, original_tokens FROM '{output}'")
        asked = [(row["question"], row[chain], row["answer"]) for row in rows for chain in ("original_cot", "cot")]
        for question, chain, _ in asked:
            if (question, chain) not in stated:
                stated[question, chain] = state(torch, tokenizer, model, question, chain)
        verdicts = verified([(stated[question, chain], answer) for question, chain, answer in asked])
        counted = [(row, pruned) for row, original, pruned in zip(rows, verdicts[::2], verdicts[1::2]) if original]
        kept = sum(row["pruned_tokens"] for row, _ in counted) / sum(row["original_tokens"] for row, _ in counted)
        share = sum(pruned for _, pruned in counted) / len(counted)
        print(f"{output:<40}{len(rows):>8}{len(counted):>10}{share:>11.1%} {kept:>9.1%}", flush=True)


def sql(query):
    """Returns the rows of a query."""
    asap = [target() / "debug/asap", "sql", "--quiet", "--format", "nd-json", "--maxrows", "inf", "-c", query]
    return [json.loads(line) for line in subprocess.check_output(asap, text=True).splitlines()]


def verified(pairs):
    """Returns whether each stated answer is the expected one, by the rules of cot_verify."""
    quote = lambda text: "'" + text.replace("'", "''") + "'"
    values = ", ".join(f"({place}, {quote(f'The answer is ${stated}$')}, {quote(answer)})"
                       for place, (stated, answer) in enumerate(pairs))
    table = f"(VALUES {values}) AS t(place, stated, answer)"
    rows = sql(f"SELECT cot_verify(answer, stated) AS is_right FROM {table} ORDER BY place")
    return [bool(row["is_right"]) for row in rows]


def state(torch, tokenizer, model, question, chain):
    """The answer that the model states: always the likeliest token, up to the dollar sign."""
    turns = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    text = prompt + "<think>\n" * ("<think>" not in prompt) + chain + BEFORE_ANSWER
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)
    with torch.inference_mode():
        out = model.generate(**ids, max_new_tokens=STATED, do_sample=False, stop_strings="$", tokenizer=tokenizer)
    return tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True).split("$")[0].strip()


if __name__ == "__main__":
    main()
