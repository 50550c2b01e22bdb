"""Makes survives_qwen2.jsonl and survives_llama.jsonl: whether answers survive in parts of the chains of cots.jsonl, what
each control keeps of them at exactly a budget, and which rung of a ladder is kept. Independent of asap: transformers
5.23.0 reads every text anew, in f64.

    python3 tests/goldens/survives.py
"""

import hashlib
import json
import pathlib
import re

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).parent
ANSWER_PROMPT = "The final answer is \\boxed{"
SHARES = [0.25, 0.35, 0.5, 0.7]
SEED = 42


def closing(text):
    """The place of the brace that closes a box whose opening brace precedes the text."""
    depth = 0
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        if match.group() == "{":
            depth += 1
        elif match.group() == "}":
            if depth == 0:
                return match.start()
            depth -= 1
    return None


def expected(answer):
    """What an answer states, or None for a program."""
    if "```" in answer and "\\boxed" not in answer:
        return None
    if "\\boxed{" in answer:
        rest = answer.rpartition("\\boxed{")[2]
        return rest[: closing(rest)]
    stated = re.search(r"answer is:? (.*?)\.?$", answer)
    if stated:
        return stated.group(1)
    return answer.strip() if "\n" not in answer.strip() else None


class Reader:
    def __init__(self, folder):
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(self, text):
        found = self.tokenizer(text, return_offsets_mapping=True)
        return found["input_ids"], found["offset_mapping"]

    def count(self, text):
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @torch.no_grad()
    def check(self, question, steps, answer):
        """The mean ln P of an answer's tokens after some steps, and what is written greedily in its place."""
        box = expected(answer)
        text = question + "\n\n".join(step for step in steps if step.strip()) + "\n</think>\n\n"
        if box is not None:
            text += ANSWER_PROMPT
        ids, offsets = self.encode(text + (answer if box is None else box))
        first = next(i for i, (start, end) in enumerate(offsets) if end > len(text) and end > start)
        log_p = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        scores = [log_p[i - 1, ids[i]].item() for i in range(first, len(ids))]
        found = {"log_probability": sum(scores) / len(scores)}
        if box is not None:
            found |= self.state(text)
        return found

    def state(self, text):
        before = torch.tensor([self.encode(text)[0]])
        made = self.model.generate(
            before, attention_mask=torch.ones_like(before), do_sample=False, max_new_tokens=64,
            return_dict_in_generate=True, output_logits=True,
        )
        ids = made.sequences[0, before.shape[1]:].tolist()
        best = [logits[0].topk(2).values for logits in made.logits]
        for end in range(1, len(ids) + 1):
            written = self.tokenizer.decode(ids[:end], skip_special_tokens=True, clean_up_tokenization_spaces=False)
            if closing(written) is not None:
                break
        stated = written[: closing(written)].strip()
        return {"stated": stated, "written": end, "margin": min((a - b).item() for a, b in best[:end])}

    # What controls keep

    def scores(self, control, steps):
        count, lengths = len(steps), [self.count(step) for step in steps]
        if control == "prefix":
            return [-i for i in range(count)]
        if control == "suffix":
            return list(range(count))
        if control == "longest":
            return [-length for length in lengths]
        content = SEED.to_bytes(8, "little", signed=True)
        for step in steps:
            content += len(step.encode()).to_bytes(8, "little") + step.encode()
        at = (int.from_bytes(hashlib.sha256(content).digest()[:8], "big") >> 11) / 2**53
        whole, start, scores = sum(lengths), 0, []
        for length in lengths:
            middle = start + length / 2
            start += length
            # The smallest block around the middle: it begins at the share `at` of the places where it can.
            low, high = 0.0, float(whole)
            for _ in range(200):
                size = (low + high) / 2
                begin = at * (whole - size)
                low, high = (low, size) if begin <= middle <= begin + size else (size, high)
            scores.append(-high)
        return scores

    def refine(self, steps, scores, budget):
        """The steps that stay, and the last one that went."""
        kept, last = list(range(len(steps))), None
        for step in sorted(range(len(steps)), key=lambda i: scores[i]):
            if self.count("\n\n".join(steps[i] for i in kept)) <= budget:
                break
            kept.remove(step)
            last = step
        return kept, last

    def exactly(self, steps, scores, budget):
        kept, last = self.refine(steps, scores, budget)
        if last is None:
            return {"kept": kept, "cut": None}
        from_end = last < kept[0] if kept else last > 0 and last + 1 == len(steps)
        offsets = self.tokenizer(steps[last], add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        for tokens in range(len(offsets) - 1, 0, -1):
            text = steps[last]
            piece = text[offsets[-tokens][0]:] if from_end else text[: offsets[tokens - 1][1]]
            put_back = sorted([*kept, last])
            whole = "\n\n".join(piece if i == last else steps[i] for i in put_back)
            if piece.strip() and self.count(whole) <= budget:
                return {"kept": put_back, "cut": last, "piece": piece}
        return {"kept": kept, "cut": None}

    def rung(self, question, steps, scores, answer, whole):
        """The shortest share after which a program is no less likely than after the whole chain."""
        all_tokens, least = self.count("\n\n".join(steps)), whole["log_probability"]
        for share in SHARES:
            kept, _ = self.refine(steps, scores, int(share * all_tokens))
            if kept and self.check(question, [steps[i] for i in kept], answer)["log_probability"] >= least:
                return {"share": share, "kept": kept}
        return {"share": 1.0, "kept": list(range(len(steps)))}


def make(model):
    """The lines of survives_MODEL.jsonl."""
    reader = Reader(HERE / model)
    chains = [json.loads(line) for line in open(HERE / model / "cots.jsonl")]
    for line in open(HERE / f"scores_{model}.jsonl"):
        answer = json.loads(line)
        question, steps = chains[answer["id"]]["question"], chains[answer["id"]]["steps"]
        count = len(steps)
        parts = [list(range(count)), list(range(count // 2)), list(range(0, count, 2)), []]
        parts = [part for place, part in enumerate(parts) if part not in parts[:place]]
        checks = [reader.check(question, [steps[i] for i in part], answer["answer"]) for part in parts]
        found = {"id": answer["id"], "answer": answer["answer"]}
        found["checks"] = [{"kept": part} | check for part, check in zip(parts, checks)]
        budget = reader.count("\n\n".join(steps)) // 2
        controls = ["block", "longest", "prefix", "suffix"]
        kept = {name: reader.exactly(steps, reader.scores(name, steps), budget) for name in controls}
        found |= {"budget": budget, "controls": kept}
        if expected(answer["answer"]) is None:
            scores = reader.scores("longest", steps)
            found["rung"] = reader.rung(question, steps, scores, answer["answer"], checks[0])
        yield found


if __name__ == "__main__":
    for model in ["qwen2", "llama"]:
        lines = [json.dumps(line, ensure_ascii=False) for line in make(model)]
        (HERE / f"survives_{model}.jsonl").write_text("\n".join(lines) + "\n")
