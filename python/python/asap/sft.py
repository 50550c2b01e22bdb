"""Fine-tune a model on the rows of a table, on GPUs or CPUs, with transformers, accelerate and peft.

    python -m asap.sft --model Qwen/Qwen3-0.6B --data out/pruned --out out/model
    torchrun --nproc-per-node 8 -m asap.sft --model Qwen/Qwen3-8B --data out/pruned --out out/model --fsdp

Run the same command again to resume from the last checkpoint, even after a kill.
"""

# Without PyTorch, a type checker takes asap/torch.py for it.
# pyright: reportAttributeAccessIssue=false

import argparse
import contextlib
import datetime
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from asap import _asap, _sft
from asap._sft import Args

if TYPE_CHECKING:
    from asap.torch import FeedDataset

T = TypeVar("T")

# Options of `asap train` that asap.sft lacks.
_LACKS: dict[str, str] = {
    **dict.fromkeys(("--checkpoints", "--device", "--format", "--held-out", "--init", "--keep"), ": only asap train has it"),
    **dict.fromkeys(("--accumulate", "--micro-batch"), ": only asap train has it; set --step to their product"),
}


def arguments() -> argparse.Namespace:
    shape = argparse.RawDescriptionHelpFormatter
    parser = _sft.Parser(prog="python -m asap.sft", description=__doc__, formatter_class=shape)
    parser.lacks = _LACKS
    option = parser.add_argument
    whole, number = _sft.whole, _sft.number
    option("--model", metavar="DIR", required=True,
           help="start from this model: a folder in Hugging Face's layout, org/name in the Hub's cache, or small")
    option("--data", metavar="LOC", required=True, help="train on a Delta table, or a folder or file of Parquet or JSON lines")
    option("--columns", metavar="question=…,cot=…,answer=…",
           help="name the question, cot and answer columns if asap cannot recognize them")
    option("--out", metavar="DIR", required=True, help="write the trained model and its checkpoints to this folder")
    option("--epochs", type=whole(1), default=10, help="train on each row this many times (10)")
    option("--max-length", type=whole(1), default=16_384, help="set the maximum tokens of an example (16384)")
    option("--long", choices=["drop", "cut"], default="drop",
           help="leave out longer examples (drop), or cut them, so that they have no end (cut)")
    option("--loss", choices=["all", "kept"], default="all",
           help="learn whole chains (all), or only the steps that a pipeline kept, with the others as context (kept)")
    option("--learning-rate", type=number(above=0), default=4e-5, help="set the highest learning rate (4e-5)")
    option("--warmup", type=number(0, 1), default=0.03, help="set the fraction of steps used for warm-up (0.03)")
    option("--warmup-steps", type=whole(0), help="set the warm-up length in steps (overrides --warmup)")
    option("--min-rate", type=number(0, 1), default=0.1, help="set the final rate, as a fraction of the highest rate (0.1)")
    option("--clip", type=number(above=0), default=0.2, help="clip the gradient norm to this value (0.2)")
    option("--weight-decay", type=number(0), default=0.0, help="set AdamW's weight decay, for matrices only (0)")
    option("--step", type=whole(1), default=16, help="set the number of rows per step, over all processes (16)")
    option("--pass-tokens", type=whole(1), default=4096,
           help="set the maximum tokens of a forward pass; a longer example gets its own pass (4096)")
    option("--seed", type=whole(0), default=42, help="seed the row order (42)")
    option("--checkpoint-every", metavar="STEPS", type=whole(1), default=500, help="write a checkpoint after this many steps (500)")
    option("--precision", choices=["bf16", "f32"], help="compute in bf16 (default on GPUs) or f32 (default on CPUs)")
    option("--lora", metavar="R", type=whole(1),
           help="train adapters of this rank, and merge the adapters into the model at the end")
    option("--fsdp", action="store_true", help="divide the weights and the optimizer state among the processes")
    option("--follow", action="store_true",
           help="read new rows after each commit of a run; the first epoch ends when the run is finished")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    try:
        train(args)
        leave()
    except _asap.Error as error:
        # A folder without files is of no use.
        with contextlib.suppress(OSError):
            os.rmdir(args.out)
        sys.exit(f"error: {error}")
    except _sft.Interrupted as stopped:
        print(f"interrupted after step {stopped}; run the same command to resume", file=sys.stderr)
        leave()
        sys.exit(75)
    except _sft.TryLater as error:
        # The first process speaks for all. Others may wait for it, so it does not wait for them.
        if str(error):
            print(f"error: {error}", file=sys.stderr)
        sys.exit(75)


def leave() -> None:
    """Waits for all processes: torch may abort a process that ends while others still communicate."""
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def train(args: Args) -> None:
    _sft.check_packages(["accelerate", *(["peft"] if args.lora else [])])
    import accelerate
    import torch

    _sft.silence()
    # A process may wait for another one that counts rows, or for a run that is followed.
    processes = accelerate.PartialState(cpu=not torch.cuda.is_available(), timeout=datetime.timedelta(days=7))
    if args.step % processes.num_processes:
        raise _asap.Error(f"--step {args.step}: expected a multiple of the number of processes, {processes.num_processes}")
    if args.fsdp and not torch.distributed.is_initialized():
        raise _asap.Error("--fsdp divides the model among processes: start them with torchrun --nproc-per-node N -m asap.sft")
    args.precision = args.precision or ("f32" if processes.device.type == "cpu" else "bf16")
    args.folder = _sft.model_folder(args.model)
    out = _sft.Folder(args, processes)
    begun_at = processes_agree(processes, out.begin)
    if begun_at is None:
        return
    feed = dataset(args, processes)
    if begun_at:
        feed.load_state_dict({"position": begun_at, "passes": 0})
    total = processes_agree(processes, feed.count)
    if not args.follow:
        _sft.check_rows(args, total)
        if processes.is_main_process:
            _sft.note_rows(total)
    _sft.check_memory(args, processes, total)
    out.start(total["position"])
    training = Training(args, processes, out, total)
    feed.load_state_dict({"position": training.state["position"], "passes": 0})
    training.run(feed)
    if args.follow:
        total = processes_agree(processes, feed.count)
        _sft.check_rows(args, total)
        if processes.is_main_process:
            _sft.note_rows(total)
    training.finish(total)


def dataset(args: Args, processes: Any) -> "FeedDataset":
    from asap.torch import FeedDataset

    step = args.step // processes.num_processes
    feed = FeedDataset(args.data, args.folder, epochs=args.epochs, step=step, max_length=args.max_length, long=args.long, loss=args.loss,
                       seed=args.seed, rank=processes.process_index, world=processes.num_processes, columns=args.columns, follow=args.follow)
    feed._is_command = True  # pyright: ignore[reportPrivateUsage]
    return feed


def processes_agree(processes: Any, function: Callable[[], T]) -> T:
    """What `function` returns in the first process."""
    from accelerate.utils import broadcast_object_list

    found: list[Any] = [function() if processes.is_main_process else None]
    return broadcast_object_list(found)[0] if processes.num_processes > 1 else found[0]


class Training:
    """The model with its optimizer, and the steps made so far."""

    def __init__(self, args: Args, processes: Any, out: _sft.Folder, total: dict[str, Any]) -> None:
        import torch

        self.args, self.processes, self.out, self.total = args, processes, out, total
        # Adapters begin with equal weights on all ranks.
        torch.manual_seed(args.seed)
        self.model = self.build_in_turns() if args.fsdp else self.build()
        trained = [weights for weights in self.model.parameters() if weights.requires_grad]
        decays, others = [[each for each in trained if (each.ndim > 1) == decay] for decay in (True, False)]
        groups = [{"params": decays, "weight_decay": args.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=args.learning_rate)
        self.state = {"step": 0, "position": total["position"], "learning": {"steps": 0, "tokens": 0, "loss": 0.0, "epoch": 0,
                      "epoch_learned": 0}, "epoch_steps": None, "held_out": [], "end": None, "files": {}}
        self.state = out.restore(self.model, self.optimizer) or self.state
        self.rates = Rates(args, None if args.follow else total["steps"], self.state)
        self.seconds, self.tokens, self.begun, self.is_asked = 0.0, 0, time.monotonic(), False

    def build(self) -> Any:
        return prepared(self.args, load(self.args), self.processes.device)

    def build_in_turns(self) -> Any:
        """Builds the shards of the model. On each machine, only one process at a time holds the whole model."""
        import torch
        from torch.distributed.device_mesh import init_device_mesh

        model, mesh = None, init_device_mesh(self.processes.device.type, (self.processes.num_processes,))
        # Machines may have different numbers of processes.
        own = self.processes.local_process_index
        for turn in range(int(self.sum(own, maximum=True)) + 1):
            if turn == own:
                model = sharded(self.args, prepared(self.args, load(self.args, torch.float32), self.processes.device), mesh)
            self.processes.wait_for_everyone()
        return model

    def run(self, feed: "FeedDataset") -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.stop)
        for step in feed:
            self.step(step, feed.state_dict()["position"])
            is_asked = self.sum(self.is_asked).item() > 0
            if is_asked or self.state["step"] % self.args.checkpoint_every == 0:
                self.out.save(self.state, self.model, self.optimizer)
            if is_asked:
                raise _sft.Interrupted(self.state["step"])
        self.out.save(self.state, self.model, self.optimizer)

    def stop(self, *_: object) -> None:
        self.is_asked = True

    def step(self, packed: dict[str, Any], position: str) -> None:
        begun, state, epoch = time.monotonic(), self.state, int(position.split(":")[1])
        rate = self.rates.rate(state["step"], epoch)
        passes = split(packed, self.args.pass_tokens)
        is_learned = packed["labels"] != -100
        # A copy of an example with nothing to learn, which fills up the last step of an epoch, is not counted.
        tokens, learned = map(int, self.sum(packed["labels"].numel() * is_learned.any(), is_learned.sum()).tolist())
        loss, norm = self.gradient(passes, learned)
        if not math.isfinite(loss + norm):
            raise _asap.Error(f"the loss of step {state['step'] + 1} is no longer finite: lower the learning rate (this is "
                              f"another training and needs another --out); {self.out.kept()}")
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        state["step"] += 1
        state["position"], state["end"] = position, int(packed["input_ids"][0, -1])
        learning = state["learning"]
        if epoch != learning["epoch"]:
            learning |= {"epoch": epoch, "epoch_learned": 0, "loss": 0.0}
        learning["steps"], learning["tokens"] = state["step"], learning["tokens"] + tokens
        learning["epoch_learned"] += learned
        learning["loss"] += (loss - learning["loss"]) * learned / learning["epoch_learned"]
        seconds = time.monotonic() - begun
        self.seconds, self.tokens = self.seconds + seconds, self.tokens + tokens
        self.out.write_line({"step": state["step"], "epoch": epoch, "loss": loss, "rate": rate, "norm": norm, "tokens": tokens,
                             "learned": learned, "time": time.time(), "seconds": seconds}, self.rates.planned)

    def gradient(self, passes: list[dict[str, Any]], learned: int) -> tuple[float, float]:
        """Adds up the gradient of a step over passes and processes. Returns the mean loss, and the norm before clipping."""
        import torch

        world, device = self.processes.num_processes, self.processes.device
        # With FSDP, each pass needs all processes.
        count = int(self.sum(len(passes), maximum=True)) if self.args.fsdp else len(passes)
        nothing = {**passes[0], "labels": torch.full_like(passes[0]["labels"], -100)}
        losses = torch.zeros(1, device=device, dtype=torch.float64)
        for each in passes + [nothing] * (count - len(passes)):
            inputs = {name: values if name == "longest" else values.to(device) for name, values in each.items()}
            with torch.autocast(device.type, torch.bfloat16) if self.args.precision == "bf16" else contextlib.nullcontext():
                loss = self.model(**inputs, use_cache=False, num_items_in_batch=learned).loss
            # FSDP averages over the processes.
            (loss * world if self.args.fsdp else loss).backward()
            losses += loss.detach().double()
        weights = [each for each in self.model.parameters() if each.grad is not None]
        if world > 1 and not self.args.fsdp:
            for each in weights:
                torch.distributed.all_reduce(each.grad)
        norm = torch.nn.utils.clip_grad_norm_(weights, self.args.clip)
        return self.sum(losses).item(), float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)

    def sum(self, *numbers: Any, maximum: bool = False) -> Any:
        """Sums numbers over all processes, or takes their maximum."""
        import torch

        found = torch.tensor([float(number) for number in numbers], device=self.processes.device, dtype=torch.float64)
        if self.processes.num_processes > 1:
            torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX if maximum else torch.distributed.ReduceOp.SUM)
        return found

    def finish(self, total: dict[str, Any]) -> None:
        """Writes the model, and then its summary, which marks it as complete."""
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=bool(self.args.lora))
        weights = get_model_state_dict(self.model, options=options)
        if not self.processes.is_main_process:
            return
        import torch

        model = load(self.args, torch.float32)
        if self.args.lora:
            model = adapted(self.args, model)
        # Frozen weights are not among the trained ones: they keep the values of the loaded model.
        absent = [name for name, each in model.named_parameters() if each.requires_grad and name not in weights]
        if absent:
            raise _asap.Error(f"the trained model lacks {len(absent)} weights, such as {absent[0]}")
        model.load_state_dict(weights, strict=False)
        model = model.merge_and_unload() if self.args.lora else model
        summary = {
            "version": int(self.state["position"].split(":")[0]), "rows_rejected": total["rejected"],
            "rejected_because": total["reasons"], "rows_without_system": total["without_system"],
            "traces": total["examples"], "traces_cut": total["cut"], "traces_left_out": total["too_long"],
            "parameters": sum(each.numel() for each in model.parameters()), "vocabulary": model.config.vocab_size,
            **self.state["learning"], "held_out": None, "tokens_per_second": self.tokens / max(self.seconds, 1e-9),
            "seconds": time.monotonic() - self.begun,
        }
        self.out.finish(model, summary, self.state["end"])


class Rates:
    """The learning rates of `asap train`: a cosine over all steps, or over all epochs but the first of a followed run."""

    def __init__(self, args: Args, planned: int | None, state: dict[str, Any]) -> None:
        warmup = math.ceil((planned or 0) * args.warmup) if args.warmup_steps is None else args.warmup_steps
        self.args, self.planned, self.state, self.warmup = args, planned, state, warmup

    def rate(self, step: int, epoch: int) -> float:
        if self.planned is not None:
            return self.cosine(step, self.warmup, self.planned)
        if epoch == 0:
            return self.args.learning_rate * min(1.0, step / self.warmup if self.warmup else 1.0)
        first = self.state["epoch_steps"] = self.state["epoch_steps"] or step
        return self.cosine(step - first, 0, first * (self.args.epochs - 1))

    def cosine(self, step: int, warmup: int, steps: int) -> float:
        peak, floor = self.args.learning_rate, self.args.min_rate
        if step < warmup:
            return peak * step / warmup
        progress = min(1.0, (step - warmup) / max(1, steps - warmup))
        return peak * (0.5 * (1.0 + math.cos(math.pi * progress)) * (1.0 - floor) + floor)


def split(packed: dict[str, Any], most: int) -> list[dict[str, Any]]:
    """The examples of a step as passes of at most `most` tokens. A longer example gets its own pass."""
    import torch

    begins = (packed["position_ids"][0] == 0).nonzero()[:, 0].tolist()
    passes = [[0]]
    for begin, end in zip(begins, [*begins[1:], packed["position_ids"].shape[1]]):
        if end - passes[-1][0] > most and begin > passes[-1][0]:
            passes.append([begin])
        passes[-1].append(end)
    # Where examples begin and end, for attention over examples side by side.
    return [{name: values[:, ends[0]:ends[-1]] for name, values in packed.items()}
            | {"cu_seq": torch.tensor(ends, dtype=torch.int32) - ends[0], "longest": max(map(int.__sub__, ends[1:], ends))}
            for ends in passes]


def load(args: Args, dtype: Any = None) -> Any:
    """The base, with weights in f32: the masters of autocast. Adapters train next to a base in the dtype of the passes."""
    import torch
    from transformers import AutoModelForCausalLM

    from asap.scorer import side_by_side

    dtype = dtype or (torch.bfloat16 if args.lora and args.precision == "bf16" else torch.float32)
    try:
        # With SDPA, transformers makes a mask over the pass, which takes twice the time on a GPU.
        return AutoModelForCausalLM.from_pretrained(args.folder, dtype=dtype, attn_implementation=side_by_side())
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise _asap.Error(f"{args.model}: transformers cannot load the model: {str(error).splitlines()[0]}") from error


def adapted(args: Args, model: Any) -> Any:
    import peft

    config = peft.LoraConfig(r=args.lora, lora_alpha=2 * args.lora, target_modules="all-linear", task_type="CAUSAL_LM")
    return peft.get_peft_model(model, config)


def prepared(args: Args, model: Any, device: Any) -> Any:
    """The model with adapters, and with activation checkpointing."""
    if args.lora:
        model = adapted(args, model)
    # transformers 4 names it so, and 5 still does.
    model.gradient_checkpointing_enable({"use_reentrant": False})
    # FSDP moves each shard itself: the whole model may not fit on the device.
    return (model if args.fsdp else model.to(device)).train()


def sharded(args: Args, model: Any, mesh: Any) -> Any:
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dtype = torch.bfloat16 if args.precision == "bf16" else None
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    base = model.get_base_model() if args.lora else model
    names = set(base._no_split_modules or ())
    for module in [each for each in model.modules() if type(each).__name__ in names]:
        fully_shard(module, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


if __name__ == "__main__":
    main()
