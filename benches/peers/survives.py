"""Survival of answers against transformers: the same model, rows and results, one thread, CPU seconds.

    python3 benches/peers/survives.py MODEL

MODEL is a folder in Hugging Face's layout, such as SmolLM2-135M-Instruct. A chain adds 60 numbers in 60 steps of about
1,900 tokens in total. Five prunings keep 25, 35, 50, 70 and 100 % of it: the first steps, or all but the longest. The
peer reads each text with the keys and values of what it shares with the text before it, the scored answer and the
answer that it writes included.
"""

import json
import os
import random
import subprocess
import sys
import time

from common import ROOT, folder, is_with

PACKAGES = ["torch==2.15.0", "transformers==5.23.0", "accelerate==1.15.0", "numpy", "safetensors"]
# The minimum speed ratio to the peer.
GOAL = 1.2
ROWS, STEPS = 4, 60
SHARES = [0.25, 0.35, 0.5, 0.7, 1.0]
BEFORE_ANSWER = "\n</think>\n\nThe final answer is \\boxed{"
STATED = 64


def main():
    if not is_with("survives", *PACKAGES):
        return
    model, place = os.path.abspath(sys.argv[1]), folder("survives")
    rows = write(place)
    bench = ["cargo", "bench", "--package", "asap-lm", "--locked", "--bench", "survival"]
    env = {**os.environ, "ASAP_BENCH_FOLDER": str(place), "ASAP_BENCH_MODEL": model}
    lines = subprocess.check_output(bench, text=True, cwd=ROOT, env=env).splitlines()
    ours = {case["case"]: case for case in map(json.loads, filter(lambda line: line.startswith("{"), lines))}
    print_row = lambda *cells: print("{:<12}{:>10}{:>10}{:>8}{:>8}{:>12}{:>8}{:>10}".format(*cells))
    print_row("", "ours", "peer", "ratio", "goal", "difference", "stated", "tokens")
    for case, mine in ours.items():
        cpu, found = check(model, rows, case)
        apart = max(abs(a[0] - b[0]) for a, b in zip(mine["found"], found, strict=True))
        alike = sum(a[1] == b[1] for a, b in zip(mine["found"], found))
        read = sum(each[2] + each[3] for each in mine["found"])
        ratio, alike = f"{cpu / mine['cpu']:.2f}", f"{alike}/{len(found)}"
        print_row(case, f"{mine['cpu']:.1f} s", f"{cpu:.1f} s", ratio, f"> {GOAL}", f"{apart:.1e}", alike, read)


def write(place):
    """Writes the rows, always the same."""
    random.seed(1)
    rows = []
    for _ in range(ROWS):
        sum_, steps = 0, []
        numbers = [random.randrange(1, 100) for _ in range(STEPS)]
        for number in numbers:
            words = random.choice(["", "Then ", "Next comes the number that follows in the list: ", "Let me go on. "])
            steps.append(f"{words}{sum_} + {number} = {sum_ + number}, so the sum is {sum_ + number} now.")
            sum_ += number
        question, answer = f"What is the sum of {', '.join(map(str, numbers))}?", str(sum_)
        row = {"question": question, "answer": answer}
        for order in ("prefix", "longest"):
            going = list(range(STEPS))[::-1] if order == "prefix" else sorted(range(STEPS), key=lambda i: -len(steps[i]))
            ladder = []
            for share in SHARES:
                kept = list(range(STEPS))
                for step in going:
                    if sum(len(steps[i]) for i in kept) <= share * sum(map(len, steps)):
                        break
                    kept.remove(step)
                ladder.append([steps[i] for i in kept])
            row[order] = ladder
        rows.append(row)
    place.mkdir(parents=True, exist_ok=True)
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def check(folder, rows, order):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    begun, found = time.process_time(), []
    with torch.inference_mode():
        for row in rows:
            found += ladder(torch, tokenizer, model, row, order)
    return time.process_time() - begun, found


def ladder(torch, tokenizer, model, row, order):
    """The mean ln P of the answer and what is stated in its place, for each rung."""
    from transformers import DynamicCache

    cache, held, found = DynamicCache(config=model.config), [], []

    def read(ids):
        """The logits of the tokens of a text that the cache does not have; it has the text then."""
        nonlocal held
        common = min(next((i for i, (a, b) in enumerate(zip(held, ids)) if a != b), len(held)), len(ids) - 1)
        if common < len(held):
            cache.crop(common - len(held))
        rest = torch.tensor([ids[common:]])
        held = ids
        keep = min(KEPT, rest.shape[1])
        return model(rest, past_key_values=cache, use_cache=True, logits_to_keep=keep).logits[0]

    for steps in row[order]:
        before = row["question"] + "\n" + "\n\n".join(steps) + BEFORE_ANSWER
        prompt = tokenizer(before)["input_ids"]
        encoded = tokenizer(before + row["answer"], return_offsets_mapping=True)
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        first = next(i for i, (_, end) in enumerate(offsets) if end > len(before))
        last = read(prompt)[-1]
        stated, written = "", []
        while len(written) < STATED and last.argmax().item() != tokenizer.eos_token_id:
            written.append(last.argmax().item())
            stated = tokenizer.decode(written)
            if closing(stated) is not None:
                break
            last = read(prompt + written)[-1]
        logits = read(ids[:first])[-1:]
        logits = torch.cat([logits, read(ids)]) if len(ids) > first else logits
        logs = torch.log_softmax(logits[: len(ids) - first], -1)
        score = logs.gather(1, torch.tensor(ids[first:])[:, None]).mean().item()
        found.append((score, stated[: closing(stated)].strip()))
    return found


# Logits that are computed of each text: those of its last tokens suffice.
KEPT = 8


def closing(text):
    """The place of the brace that closes the box."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return place
    return None


if __name__ == "__main__":
    main()
