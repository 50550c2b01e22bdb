"""Scores tokens with PyTorch and transformers: the backend `torch` of asap, which starts this file as a child process.

The only argument is a JSON object: `model` (a folder), `device` (`cpu`, `cuda` or `cuda:N`), `dtype` (`f32`, `bf16`) and
`is_encoder` (whether the model labels tokens).
Requests come on stdin and replies go to stdout: a line of JSON, then little-endian int32 or float32, then a line that ends
a reply. The process ends with its stdin.

    {"id", "ask": "score", "lengths", "rows"}   ids of the chains, rows, tokens to score    -> surprisals, entropies, ranks
    {"id", "ask": "forks", "texts", "rows"}     the same; each text takes tokens of the first one
    {"id", "ask": "continue", "texts"}          ids of the texts  -> one line for each written token, then the same
    {"id", "ask": "keep", "lengths", "rows"}    positions and ids of the tokens of chunks, by an encoder
                                                -> probabilities to keep each token, and to drop it, and 1
"""

# Without PyTorch, a type checker takes asap/torch.py for it.
# pyright: reportAttributeAccessIssue=false

import builtins
import contextlib
import functools
import inspect
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, TypeAlias

# A text by its ids, and where it begins in the first one.
Text: TypeAlias = tuple[int, list[int]]
# Rows, each with a token to score after it.
Asked: TypeAlias = list[tuple[int, int]]
# Surprisals and entropies.
Scores: TypeAlias = tuple[Any, Any, Any]
Answer: TypeAlias = tuple[list[Scores], dict[str, Any]]

PIECE = 1024
"""Rows that go through the output layer at once: its results have the width of the vocabulary."""
MOST = 16_384
"""Tokens of a pass."""
COMPILED_AFTER = 120.0
"""Seconds of work after which compiling the layers pays."""


class Stopped(Exception):
    """No caller waits for the result."""


def own_stdout() -> BinaryIO:
    """Returns stdout, and sends what libraries print to stderr instead."""
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return stdout


class Model:
    """A model on a device, and what it can do there."""

    def __init__(self, folder: str, device: str, dtype: str) -> None:
        self.load("AutoModelForCausalLM", folder, device, dtype)
        self.base, self.decoder = self.model.base_model, self.model.get_decoder()
        self.config = self.model.config.get_text_config()
        # The name changed in transformers 5.
        named = inspect.signature(self.base.forward).parameters
        self.cache_name = "cache" if "cache" in named else "past_key_values"
        self.vocabulary = self.model.get_output_embeddings().weight.shape[0]
        self.attention = self.config._attn_implementation
        self.window = min(
            size for name in ("sliding_window", "attention_chunk_size")
            if (size := getattr(self.config, name, None) or 1 << 60)
        )
        self.tokens, self.worked, self.compiles = self.tokens_that_fit(), 0.0, self.on_card
        self.keeps = self.agrees(self.kept_forks)
        self.packs = self.on_card and self.attention == "sdpa" and self.agrees(self.packed_forks)

    def load(self, kind: str, folder: str, device: str, dtype: str) -> None:
        """Loads the model with a class of transformers."""
        global torch, transformers
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.device = torch.device(device)
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
        self.on_card = self.device.type == "cuda"
        if self.on_card:
            torch.cuda.set_device(self.device)
        self.check_room(folder, dtype)
        loaded = getattr(transformers, kind).from_pretrained(folder, dtype=dtype, local_files_only=True)
        self.model = loaded.eval().to(self.device)

    def check_room(self, folder: str, dtype: Any) -> None:
        """Fails if the weights do not fit the card's free memory."""
        if self.on_card:
            files = [file for file in os.scandir(folder) if file.name.endswith(".safetensors")]
            with open(os.path.join(folder, "config.json")) as file:
                config = json.load(file)
            held = config.get("dtype") or config.get("torch_dtype") or "float32"
            width = 4 if held == "float32" else 2
            needed = sum(os.stat(file.path).st_size for file in files) * dtype.itemsize // width
            free, _ = torch.cuda.mem_get_info(self.device)
            if needed + (1 << 30) > free:
                raise SystemExit(f"the model needs {needed / 1e9 + 1:.1f} GB of memory, {free / 1e9:.1f} GB are free")

    def tokens_that_fit(self) -> int:
        """The tokens of a pass that fit the free memory."""
        if not self.on_card:
            return MOST // 2
        free, _ = torch.cuda.mem_get_info(self.device)
        wide = getattr(self.config, "intermediate_size", None) or 4 * self.config.hidden_size
        token = (12 * self.config.hidden_size + 4 * wide) * self.model.dtype.itemsize
        return max(PIECE, min(MOST, int(0.8 * (free - 16 * PIECE * self.vocabulary) / token)))

    def agrees(self, forks: Callable[[list[Text], list[Asked]], list[Scores]]) -> bool:
        """Whether this way of reading forks gives what whole texts give, on random tokens."""
        ids = torch.randint(0, self.vocabulary, (48,), generator=torch.Generator().manual_seed(7)).tolist()
        texts = [(0, ids[:24]), (8, ids[24:36]), (19, ids[36:])]
        asked = [[(row, ids[row + 1]) for row in range(10, 23)], [(row, 5) for row in range(12)], [(3, 7), (11, 9)]]
        try:
            way, whole = (torch.cat([part[0] for part in read(texts, asked)]) for read in (forks, self.whole_forks))
        except Exception as error:
            print(f"{forks.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
            return False
        apart = (way - whole).abs()
        is_near = apart.max() < 1e-3 if self.model.dtype == torch.float32 else apart.mean() < 0.5
        print(f"{forks.__name__}: {apart.mean():.2g} nats apart, {apart.max():.2g} at most", file=sys.stderr)
        return bool(is_near)

    def read(self, ids: list[list[int]], cache: Any = None, **more: Any) -> Any:
        """Reads a batch of texts of one length, after what the cache holds."""
        ids = torch.tensor(ids, device=self.device)
        held = {} if cache is None else {self.cache_name: cache}
        return self.base(input_ids=ids, use_cache=cache is not None, **held, **more)

    def logits(self, read: Any, hidden: Any) -> Any:
        """The logits of hidden states, by the model's own output layer and what it does after it."""
        forward = self.base.forward
        read.last_hidden_state = hidden[None]
        self.base.forward = lambda *_, **__: read
        try:
            return self.model(input_ids=torch.zeros(1, len(hidden), dtype=torch.long, device=self.device)).logits[0]
        finally:
            self.base.forward = forward

    def scored(self, read: Any, hidden: Any, ids: Sequence[int]) -> Scores:
        """The surprisal of each token, the entropy of its distribution and its rank, from the hidden states that predict it."""
        surprisals, entropies, ranks = [torch.zeros(0)], [torch.zeros(0)], [torch.zeros(0)]
        for states, targets in zip(hidden.split(PIECE), torch.tensor(ids, device=self.device).long().split(PIECE)):
            if not len(targets):
                continue
            logits = self.logits(read, states).float()
            ranks.append(1 + (logits > logits.gather(-1, targets[:, None])).sum(-1).float().cpu())
            logs = logits.log_softmax(-1)
            surprisals.append(-logs.gather(-1, targets[:, None])[:, 0].cpu())
            # A token of probability 0 adds nothing.
            entropies.append(-(logs.exp() * logs.clamp(min=-1e30)).sum(-1).cpu())
        return torch.cat(surprisals), torch.cat(entropies), torch.cat(ranks)

    def alone(self, ids: list[int], asked: Asked) -> Scores:
        """The scores of a text; `asked` are pairs of a row and the token to score after it."""
        if not asked:
            return (torch.zeros(0),) * 3
        read = self.read([ids])
        rows, targets = zip(*asked)
        return self.scored(read, read.last_hidden_state[0, list(rows)], targets)

    def packed(self, chains: list[list[int]], asked: list[Asked]) -> list[Scores]:
        """The scores of several chains side by side, each with attention to itself only."""
        lengths = [len(chain) for chain in chains]
        starts = [0]
        for length in lengths:
            starts.append(starts[-1] + length)
        ids = [[token for chain in chains for token in chain]]
        positions = torch.cat([torch.arange(length) for length in lengths])[None].to(self.device)
        more = {"cu_seq": torch.tensor(starts, dtype=torch.int32, device=self.device), "longest": max(lengths)}
        self.use(side_by_side())
        try:
            read = self.read(ids, position_ids=positions, **more)
        finally:
            self.use(self.attention)
        rows = [start + row for start, own in zip(starts, asked) for row, _ in own]
        hidden, targets = read.last_hidden_state[0, rows], [token for own in asked for _, token in own]
        found = self.scored(read, hidden, targets)
        return list(zip(*(part.split([len(own) for own in asked]) for part in found)))

    def use(self, attention: str) -> None:
        for config in (self.model.config, self.config, self.decoder.config):
            config._attn_implementation = attention

    def score(self, chains: list[list[int]], asked: list[Asked]) -> list[Scores]:
        """The scores of each chain: packed where that is possible, else each alone."""
        found: list[Any] = [None] * len(chains)
        for pack in packs(chains, self.tokens if self.packs else 0):
            own = [chains[place] for place in pack], [asked[place] for place in pack]
            scores = self.packed(*own) if len(pack) > 1 else [self.alone(own[0][0], own[1][0])]
            for place, score in zip(pack, scores):
                found[place] = score
        return found

    def whole_forks(self, texts: list[Text], asked: list[Asked]) -> list[Scores]:
        whole = texts[0][1]
        shifted = [[(row + start, token) for row, token in own] for (start, _), own in zip(texts, asked)]
        return [self.alone(whole[:start] + own, rows) for (start, own), rows in zip(texts, shifted)]

    def packed_forks(self, texts: list[Text], asked: list[Asked]) -> list[Scores]:
        whole = texts[0][1]
        shifted = [[(row + start, token) for row, token in own] for (start, _), own in zip(texts, asked)]
        return self.packed([whole[:start] + own for start, own in texts], shifted)

    def kept_forks(self, texts: list[Text], asked: list[Asked]) -> list[Scores]:
        """Reads the first text once; the others continue from its keys and values, many at a time."""
        cache = transformers.DynamicCache()
        found: list[Any] = [None] * len(texts)
        read = self.read([texts[0][1]], cache)
        rows = [row for row, _ in asked[0]]
        found[0] = self.scored(read, read.last_hidden_state[0, rows], [token for _, token in asked[0]])
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        token_bytes = sum(part[:, :, :1].nbytes for layer in layers for part in layer)
        room = torch.cuda.mem_get_info(self.device)[0] // 4 if self.on_card else 1 << 30
        most = max(1, room // token_bytes)
        order, group = sorted(range(1, len(texts)), key=lambda place: -len(texts[place][1])), []
        for place in order + [None]:
            longest = len(texts[group[0]][1]) if group else 0
            prefix = max((texts[other][0] for other in group + ([place] if place else [])), default=0)
            if group and (place is None or (len(group) + 1) * (prefix + longest) > most):
                for other, scores in zip(group, self.group(layers, [texts[g] for g in group], [asked[g] for g in group])):
                    found[other] = scores
                group = []
            group.append(place)
        return found

    def group(self, layers: list[Any], texts: list[Text], asked: list[Asked]) -> list[Scores]:
        """Texts that continue from prefixes of one text: padded on the right, and each sees its own prefix only."""
        count, longest = len(texts), max(len(own) for _, own in texts)
        prefix = max(start for start, _ in texts)
        cache = transformers.DynamicCache()
        for place, layer in enumerate(layers):
            cache.update(*(part[:, :, :prefix].expand(count, -1, -1, -1) for part in layer), place)
        starts = torch.tensor([start for start, _ in texts], device=self.device)[:, None]
        own = torch.arange(longest, device=self.device)
        before = (torch.arange(prefix, device=self.device) < starts)[:, None, None].expand(-1, 1, longest, -1)
        mask = torch.cat([before, (own <= own[:, None]).expand(count, 1, -1, -1)], -1)
        mask = torch.zeros(mask.shape, dtype=self.model.dtype, device=self.device).masked_fill(~mask, -torch.inf)
        ids = [own + [0] * (longest - len(own)) for _, own in texts]
        read = self.read(ids, cache, attention_mask=mask, position_ids=starts + own)
        picked = [(text, row) for text, own in enumerate(asked) for row, _ in own]
        places, rows = ([pick[side] for pick in picked] for side in (0, 1))
        found = self.scored(read, read.last_hidden_state[places, rows], [token for own in asked for _, token in own])
        return list(zip(*(part.split([len(own) for own in asked]) for part in found)))

    def forks(self, texts: list[Text], asked: list[Asked]) -> list[Scores]:
        longest = max(start + len(own) for start, own in texts)
        if self.keeps and longest <= self.window:
            try:
                return self.kept_forks(texts, asked)
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
        return self.whole_forks(texts, asked)

    def compile(self) -> None:
        """Compiles the layers of a long job."""
        self.compiles = False
        try:
            torch._dynamo.config.suppress_errors = True
            for layer in self.decoder.layers:
                layer.compile(dynamic=True)
        except Exception as error:
            print(f"layers are not compiled: {error}", file=sys.stderr)


class Encoder(Model):
    """An encoder with two labels for each token, on a device. The second label means to keep the token."""

    def __init__(self, folder: str, device: str, dtype: str) -> None:
        self.load("AutoModelForTokenClassification", folder, device, dtype)
        self.config = self.model.config
        self.vocabulary, self.worked, self.compiles, self.keeps, self.packs = 0, 0.0, False, False, True
        self.tokens = self.tokens_that_fit()
        # Tokens that were added to the tokenizer only are the mean of all others.
        words = self.model.get_input_embeddings()
        self.mean = words.weight.shape[0]
        with torch.inference_mode():
            words.weight = torch.nn.Parameter(torch.cat([words.weight, words.weight.mean(0, keepdim=True)]), False)

    def keep(self, chunks: list[list[list[int]]]) -> list[Any]:
        """The probability to keep each token; chunks are pairs of positions and ids."""
        found: list[Any] = [None] * len(chunks)
        for pack in packs([ids for _, ids in chunks], self.tokens):
            lengths = [len(chunks[place][1]) for place in pack]
            # The longest chunk is the first.
            padded = [[own + [0] * (lengths[0] - len(own)) for own in chunks[place]] for place in pack]
            positions, ids = torch.tensor(padded, device=self.device).unbind(1)
            seen = torch.arange(lengths[0], device=self.device) < torch.tensor(lengths, device=self.device)[:, None]
            more = {"position_ids": positions, "attention_mask": seen.long()}
            logits = self.model(input_ids=ids.clamp(max=self.mean), **more).logits
            for place, length, keep in zip(pack, lengths, logits.float().softmax(-1)[..., 1].cpu()):
                found[place] = keep[:length]
        return found


@functools.cache
def side_by_side() -> str:
    """Makes causal attention over texts that stand side by side known to transformers. Returns its name.

    It takes `cu_seq`, where each text begins and the last one ends, and `longest`, the tokens of the longest text. The
    trainer `asap.sft` uses it too.
    """
    import torch
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    varlen_attn: Any = None
    with contextlib.suppress(ImportError):
        from torch.nn.attention.varlen import varlen_attn
    known = inspect.signature(varlen_attn).parameters if varlen_attn else ()

    def attend(
        module: Any, query: Any, key: Any, value: Any, mask: Any, cu_seq: Any, longest: int,
        scaling: float | None = None, sliding_window: int | None = None, **more: Any,
    ) -> tuple[Any, None]:
        if mask is not None or more.get("s_aux") is not None:
            raise ValueError("this model has a mask or sinks of its own, which attention over texts side by side leaves out")
        kind = query.device.type
        if torch.is_autocast_enabled(kind):
            query, key, value = (heads.to(torch.get_autocast_dtype(kind)) for heads in (query, key, value))
        is_plain = not more.get("dropout") and more.get("softcap") is None
        is_plain &= "scale" in known or scaling in (None, query.shape[-1] ** -0.5)
        is_plain &= "window_size" in known or not sliding_window
        if varlen_attn and is_plain and kind == "cuda" and query.dtype != torch.float32 and len(cu_seq) > 2:
            return fused(query, key, value, cu_seq, longest, scaling, sliding_window), None
        starts, results = cu_seq.tolist(), []
        for start, end in zip(starts, starts[1:]):
            own, seen = (heads[:, :, start:end] for heads in (query, key, value)), None
            if sliding_window and end - start > sliding_window:
                seen = torch.ones(end - start, end - start, dtype=torch.bool, device=query.device).tril().triu(1 - sliding_window)
            results.append(sdpa_attention_forward(module, *own, seen, scaling=scaling, **more)[0])
        return torch.cat(results, 1), None

    def fused(
        query: Any, key: Any, value: Any, cu_seq: Any, longest: int, scaling: float | None, sliding_window: int | None
    ) -> Any:
        """PyTorch's variable-length attention, which computes in half precision on a GPU."""
        left = sliding_window - 1 if sliding_window else -1
        options: dict[str, Any] = {"window_size": (left, 0)} if "window_size" in known else {"is_causal": True}
        if "scale" in known:
            options["scale"] = scaling
        query, key, value = (heads[0].transpose(0, 1) for heads in (query, key, value))
        groups = query.shape[1] // key.shape[1]
        if "enable_gqa" in known:
            options["enable_gqa"] = groups > 1
        else:
            key, value = (heads.repeat_interleave(groups, 1) for heads in (key, value))
        return varlen_attn(query, key, value, cu_seq, cu_seq, longest, longest, **options)[None]

    AttentionInterface.register("asap_side_by_side", attend)
    return "asap_side_by_side"


class Walk:
    """Keys and values that walk from text to text: what the next text does not share is dropped."""

    def __init__(self, model: Model) -> None:
        self.model, self.cache, self.ids = model, transformers.DynamicCache(), []

    def go(self, ids: list[int]) -> int:
        """Reads what is missing up to these tokens; returns how many."""
        shared = 0
        while shared < min(len(ids), len(self.ids)) and ids[shared] == self.ids[shared]:
            shared += 1
        self.truncate(shared)
        if ids[shared:]:
            self.append(ids[shared:])
        return len(ids) - shared

    def truncate(self, tokens: int) -> None:
        if tokens < len(self.ids):
            self.ids = self.ids[:tokens]
            if not tokens:
                self.cache = transformers.DynamicCache()
            for layer in self.cache.layers:
                layer.keys, layer.values = layer.keys[:, :, :tokens], layer.values[:, :, :tokens]

    def append(self, ids: list[int]) -> Any:
        positions = torch.arange(len(self.ids), len(self.ids) + len(ids), device=self.model.device)[None]
        read = self.model.read([ids], self.cache, position_ids=positions)
        self.ids = self.ids + ids
        return read


def packs(chains: list[list[int]], most: int) -> Iterator[list[int]]:
    """Places of chains that are read together, at most this many tokens; the longest chains first."""
    pack, size = [], 0
    for place in sorted(range(len(chains)), key=lambda place: -len(chains[place])):
        if pack and size + len(chains[place]) > most:
            yield pack
            pack, size = [], 0
        pack.append(place)
        size += len(chains[place])
    if pack:
        yield pack


class Server:
    """Answers requests until stdin ends."""

    def __init__(self, model: Any, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.model, self.stdin, self.stdout = model, stdin, stdout

    def say(self, **line: Any) -> None:
        self.stdout.write(json.dumps(line).encode() + b"\n")
        self.stdout.flush()

    def numbers(self, count: int) -> list[int]:
        return list(struct.unpack(f"<{count}i", self.bytes(4 * count)))

    def bytes(self, count: int) -> builtins.bytes:
        data = self.stdin.read(count)
        if len(data) < count:
            raise SystemExit(0)
        return data

    def serve(self) -> None:
        for line in iter(self.stdin.readline, b""):
            asked = json.loads(line)
            begun = time.monotonic()
            with torch.inference_mode():
                try:
                    scores, more = getattr(self, "answer_" + asked["ask"])(asked)
                except Stopped:
                    scores, more = [], {"stopped": True}
                except torch.OutOfMemoryError as error:
                    scores, more = [], {"memory": str(error).split("\n")[0]}
            if "memory" in more:
                torch.cuda.empty_cache()
            self.reply(asked["id"], scores, more)
            self.model.worked += time.monotonic() - begun
            if self.model.compiles and self.model.worked > COMPILED_AFTER:
                self.model.compile()

    def reply(self, number: int, scores: list[Scores], more: dict[str, Any]) -> None:
        parts = [torch.cat([torch.zeros(0), *(score[side] for score in scores)]) for side in range(3)]
        self.say(id=number, scores=len(parts[0]), tokens=self.model.tokens, **more)
        for part in parts:
            self.stdout.write(struct.pack(f"<{len(part)}f", *part.tolist()))
        self.say(end=number)

    def texts(self, lengths: list[int], rows: int) -> tuple[list[list[int]], list[Asked]]:
        """Reads texts, and the rows and tokens to score of each."""
        ids, own_rows, targets = self.numbers(sum(lengths)), self.numbers(rows), self.numbers(rows)
        texts, asked, start, place = [], [], 0, 0
        for length in lengths:
            texts.append(ids[start : start + length])
            own = []
            while place < len(own_rows) and own_rows[place] < start + length:
                own.append((own_rows[place] - start, targets[place]))
                place += 1
            asked.append(own)
            start += length
        return texts, asked

    def fitting(self, read: Callable[..., Any], *given: Any) -> Any:
        """Reads in packs, and in smaller ones if memory runs out."""
        while True:
            try:
                return read(*given)
            except torch.OutOfMemoryError:
                if not self.model.packs or self.model.tokens <= PIECE:
                    raise
                self.model.tokens //= 2
                torch.cuda.empty_cache()

    def answer_score(self, asked: dict[str, Any]) -> Answer:
        return self.fitting(self.model.score, *self.texts(asked["lengths"], asked["rows"])), {}

    def answer_keep(self, asked: dict[str, Any]) -> Answer:
        sides, chunks, start = (self.numbers(asked["rows"]), self.numbers(asked["rows"])), [], 0
        for length in asked["lengths"]:
            chunks.append([side[start : start + length] for side in sides])
            start += length
        return [(keep, 1 - keep, torch.ones_like(keep)) for keep in self.fitting(self.model.keep, chunks)], {}

    def answer_forks(self, asked: dict[str, Any]) -> Answer:
        texts, rows = self.texts([length for _, length in asked["texts"]], asked["rows"])
        return self.model.forks([(start, own) for (start, _), own in zip(asked["texts"], texts)], rows), {}

    def answer_continue(self, asked: dict[str, Any]) -> Answer:
        texts = [[self.numbers(length) for length in lengths] for *lengths, _, _ in asked["texts"]]
        walk, scores, tokens = Walk(self.model), [], []
        for (shared, before, answered), (*_, answer, states) in zip(texts, asked["texts"]):
            read = walk.go(shared)
            result = walk.append(answered)
            own = result.last_hidden_state[0, answer - 1 : len(answered) - 1]
            scores.append(self.model.scored(result, own, answered[answer:]))
            walk.truncate(len(shared))
            read += len(answered)
            if states:
                read += len(before)
                self.write(walk, before, asked["id"])
                walk.truncate(len(shared))
            tokens.append(read)
        return scores, {"read": tokens}

    def write(self, walk: Walk, ids: list[int], number: int) -> None:
        """Writes the likeliest tokens, until the other side has read enough."""
        while True:
            result = walk.append(ids)
            token = int(self.model.logits(result, result.last_hidden_state[0, -1:]).argmax(-1)[0])
            self.say(id=number, token=token)
            match self.bytes(1):
                case b"+":
                    ids = [token]
                case b".":
                    return
                case _:
                    raise Stopped


def main() -> None:
    stdout = own_stdout()
    # The folder that asap runs in has no modules of ours.
    sys.path[:] = [folder for folder in sys.path if folder]
    asked = json.loads(sys.argv[1])
    try:
        kind = Encoder if asked.get("is_encoder") else Model
        model = kind(asked["model"], asked["device"], asked["dtype"])
    except (Exception, SystemExit) as error:
        what = str(error).strip().split("\n")[0]
        failed = what if isinstance(error, SystemExit) else f"{type(error).__name__}: {what}"
        stdout.write(json.dumps({"failed": failed}).encode() + b"\n")
        return
    server = Server(model, sys.stdin.buffer, stdout)
    server.say(ready=True, continues=model.keeps, tokens=model.tokens, vocabulary=model.vocabulary)
    server.serve()


if __name__ == "__main__":
    main()
