"""The runner of the paper's comparison: whole plans, killed plans, plans with errors, and the figures from made numbers."""

import collections
import contextlib
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import types
import xml.etree.ElementTree
from pathlib import Path

import asap
import pytest
from asap.paper import _cells, _estimate, _figure2, _plan, _run, _tables
from conftest import ROOT
from endpoint import Endpoint

PLANS = ROOT / "docs/recipes/paper"
# Answers each request after a moment, and writes when it began and ended.
SERVER = """
import hashlib, http.server, json, sys, time

class Calls(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.reply({"object": "list", "data": [{"id": sys.argv[2]}]})

    def do_POST(self):
        begun, body = time.time(), self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.1)
        message = {"role": "assistant", "content": "\\\\boxed{4}"}
        with open("asked.jsonl", "a") as file:
            print(json.dumps({"key": hashlib.sha256(body).hexdigest(), "begun": begun, "ended": time.time()}), file=file)
        self.reply({"object": "chat.completion", "model": sys.argv[2], "usage": {"prompt_tokens": 9, "completion_tokens": 5},
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}]})

    def reply(self, reply):
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass

class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass

Server(("127.0.0.1", int(sys.argv[1])), Calls).serve_forever()
"""
PLAN = """
to = "out"
model = "small"
seeds = [1]

[corpora.math]
from = "{sample}"
limit = 12
benches = ["sums"]

[prune]
ratio = 0.5

[train]
command = "asap train --model {{model}} --data {{data}} --out {{out}} --epochs 1 --accumulate 2 --checkpoint-every 1 --seed {{seed}}"

[benches.sums]
bench = "gsm8k"
files = ["problems.jsonl"]
budgets = [16, 32]

[arms.original]
pipeline = "{plans}/original.sql"
[arms.random]
pipeline = "random"
"""


@pytest.fixture
def plan(workplace):
    """Writes a plan with changes, and problems."""
    problems = [{"question": f"What is {n} + {n % 7}?", "answer": f"#### {n + n % 7}"} for n in range(12)]
    Path("problems.jsonl").write_text("".join(json.dumps(each) + "\n" for each in problems))

    def write(*changes):
        text = PLAN.format(sample=ROOT / "data/sample/openr1-math.parquet", plans=PLANS)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        Path("plan.toml").write_text(text)
        return "plan.toml"

    return write


def command(*given):
    return [sys.executable, "-m", "asap.paper", "run", *map(str, given)]


def run(*given):
    return subprocess.run(command(*given), capture_output=True, text=True, env={**os.environ, "PATH": path()})


def path():
    return f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"


def records(folder):
    return [json.loads(line) for line in Path(folder, "steps.jsonl").read_text().splitlines() if line.endswith("}")]


def table(folder, name):
    with open(f"{folder}/tables/{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_smoke_plan():
    done = run(PLANS / "smoke.toml", "--to", "out/smoke")
    assert done.returncode == 0, done.stderr
    found = {row["arm"]: row for row in table("out/smoke", "efficiency")}
    assert list(found) == ["original", "random", "asap", "asap_mask"]
    assert float(found["original"]["share kept"]) == 1.0
    assert 0.4 < float(found["random"]["share kept"]) <= 0.5 and 0.1 < float(found["asap"]["share kept"]) <= 0.5
    assert all(row["paid answers"] == "0.0" and row["rejects"] == "0.0" for row in found.values())
    assert all(row["samples"] == "24.0" and row["steps"] == "3.0" for row in found.values())
    assert float(found["random"]["tokens per sample"]) < float(found["original"]["tokens per sample"])
    # The masked chains are read whole.
    assert found["asap_mask"]["share kept"] == found["asap"]["share kept"]
    assert float(found["asap_mask"]["tokens per sample"]) > float(found["asap"]["tokens per sample"])
    assert float(found["asap_mask"]["learned per sample"]) == pytest.approx(float(found["asap"]["learned per sample"]), rel=0.1)
    # The accuracies are left out, and the tokens are those of the stored rows.
    rows = table("out/smoke", "methods")
    assert len(rows) == 10 and all(row["accuracy"] == "" for row in rows)
    assert "Accuracy is –: the small model solves no problem: this plan checks that all parts work." in done.stdout
    for row in rows:
        folder = "out/smoke/eval/base/sums" if row["method"] == "base" else f"out/smoke/seed-1/eval/sample/{row['method']}/sums"
        stored = asap.sql(f"SELECT avg(tokens) AS n FROM '{folder}' WHERE budget = {row['budget']}").to_pylist()
        assert float(row["tokens"]) == pytest.approx(stored[0]["n"])
    # A second run does nothing. A kill may leave a part of a line.
    with open("out/smoke/steps.jsonl", "a") as file:
        file.write('\n{"step": "train/sample-as')
    again = run(PLANS / "smoke.toml", "--to", "out/smoke")
    assert (again.returncode, again.stderr, again.stdout) == (0, "", done.stdout)


def test_the_plans_of_the_paper_name_its_settings_and_its_grid():
    plans = {name: _plan.Plan(str(PLANS / f"paper-{name}.toml")) for name in ("qwen7b", "llama8b")}
    qwen, llama = (plan.table for plan in plans.values())
    assert qwen["prune"] == llama["prune"] and all(qwen["arms"][name] == arm for name, arm in llama["arms"].items())
    assert llama["train"]["command"].replace("2e-5", "4e-5") == qwen["train"]["command"]
    for words in ("--dtype bfloat16", "--no-enable-prefix-caching", "--port {port}"):
        assert words in qwen["serve"]["command"] and words in llama["serve"]["command"]
    four = ["base", "original", "spirit", "asap"]
    assert list(llama["arms"]) == four and not any(name.endswith("-budgets") for name in llama["benches"])
    short = {"humaneval+", "gsm8k", "math500"}
    budgets = collections.defaultdict(list)
    for name, bench in qwen["benches"].items():
        budgets[bench.get("bench", name)] += bench["budgets"]
        assert bench.get("arms", four) == four
    for name, found in budgets.items():
        assert sorted(found) == [1024 * n for n in ((1, 2, 4, 6) if name in short else (2, 4, 6, 8, 10, 12))]
    # Ablations are on code, as 14 trainings and one model without training.
    found = {(cell.corpus, cell.arm) for cell in _cells.cells(plans["qwen7b"])}
    assert len(found) == 15 and ("math", "without_anchor") not in found and ("code", "without_surprisal") in found
    assert [plans["qwen7b"].places(kind) for kind in ("prune", "train", "serve")] == [8, 1, 8]
    assert [place.gpus for place in _run.places(plans["qwen7b"], "serve")] == list("01234567")
    flags = plans["llama8b"].prune_flags(qwen["corpora"]["math"], qwen["arms"]["spirit"], 42)
    assert "--ratio" in flags and flags[flags.index("--sample") :] == ["--sample", "10000", "--seed", "42", "--ratio", "0.5"]
    assert "asap.scorer.model=deepseek-ai/DeepSeek-R1-Distill-Qwen-7B" in flags and "asap.scorer.device=cuda" in flags
    # No plan keeps the scoring model from a GPU.
    texts = [path.read_text() for path in [*PLANS.glob("*.toml"), ROOT / "docs/recipes/nightly.toml"]]
    assert len(texts) == 9 and not any("scorer.dtype" in text for text in texts)


def test_the_recipe_and_the_page_name_plans_that_can_be_read(workplace):
    done = subprocess.run([ROOT / "docs/recipes/paper.sh", "--dry-run", "--to", "out"], capture_output=True, text=True, env={**os.environ, "PATH": path()})
    # The traces and the benchmarks are not here.
    assert done.returncode == 2 and "\n  math: there is no corpus traces/openr1-math/data: hf download " in done.stderr
    assert "\n  aime24, aime24-budgets: there is no file bench/aime24.jsonl: curl " in done.stderr
    assert "'deepseek-ai/DeepSeek-R1-Distill-Qwen-7B': there is no folder" in done.stderr
    assert done.stdout.count("\ntorchrun ") == 14 and done.stdout.count("\nvllm serve ") == 15 and not os.path.exists("out")
    page = (ROOT / "docs/paper_run.md").read_text().split("```toml\n")[1].split("```")[0]
    Path("page.toml").write_text(page)
    assert list(_plan.Plan("page.toml").arms) == ["base", "original", "half", "asap"]
    assert list(_plan.Plan(str(PLANS / "mini.toml"), arms=["base", "spirit"], seeds=[1]).arms) == ["base", "spirit"]


def test_sigterm_ends_a_step_and_the_same_command_resumes(plan):
    Path("slow.py").write_text("import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(open('ended', 'w').close()))\n"
                               "print('begun', flush=True)\ntime.sleep(60)")
    process = subprocess.Popen(command(plan(("[corpora.math]", '[[prepare]]\nname = "slow"\ncommand = "python slow.py"\n[corpora.math]'))),
                               stderr=subprocess.PIPE, text=True)
    while not (os.path.exists("out/logs/prepare-slow.out") and "begun" in Path("out/logs/prepare-slow.out").read_text()):
        time.sleep(0.05)
    second = run("plan.toml")
    assert second.returncode == 75 and "another run, or a command of a killed run, works in out" in second.stderr
    process.terminate()
    assert "error: interrupted; run the same command to resume" in process.communicate()[1]
    assert process.returncode == 75 and os.path.exists("ended")
    assert [record["state"] for record in records("out")] == ["started"]


def test_a_dry_run_runs_nothing(plan):
    done = run(plan(("[train]", "[speeds]\nscored-tokens = 1000\ntrained-tokens = 1000\ngenerated-tokens = 100\n[train]")), "--dry-run")
    assert done.returncode == 0 and not os.path.exists("out"), done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("asap train --model small") for line in lines) == 2
    # 12 problems at two budgets, and at most 16 + 32 tokens each.
    asked = [line for line in lines if line.startswith("| eval/")]
    assert asked == [f"| eval/math-{arm}-1/sums | 24 | 576 | – | 100 | [speeds] generated-tokens | 0.00 |" for arm in ("original", "random")]
    trained = [int(line.split(" | ")[2].replace(",", "")) for line in lines if line.startswith("| train/")]
    assert 5_000 < trained[1] == trained[0] < 20_000
    assert "\nin all: 0.0 hours\n" in done.stdout and "\ncalls cost 0.00" in done.stdout and "GB at most, of " in done.stdout


def test_a_dry_run_counts_side_by_side(plan):
    changes = ["gpus=4", "train.gpus=2", "speeds={trained-tokens=1, generated-tokens=0.02}", "prices.gpu-hour=2"]
    done = run(plan(), "--dry-run", *(word for change in changes for word in ("--set", change)))
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| train/")]
    assert len(rows) == 2 and all(row[3] == "2 GPUs" for row in rows), done.stderr
    found = {line.split(":")[0]: line.split(": ")[1] for line in done.stdout.splitlines() if " hours" in line and ": " in line}
    hours = max(float(row[-1]) for row in rows)
    # Two trainings run side by side. Each evaluation takes 8 hours, and without servers, one runs after the other.
    assert found["training"] == f"{hours:,.1f} hours, 2 at a time" and found["evaluation"] == "16.0 hours, 1 at a time"
    assert float(found["in all"].split()[0]) == pytest.approx(hours + 16, abs=0.1)
    cost = next(line for line in done.stdout.splitlines() if line.startswith("GPU hours cost "))
    assert float(cost.split()[-1].replace(",", "")) == pytest.approx((hours + 16) * 4 * 2, rel=0.01)


def test_a_dry_run_says_where_models_are_computed_and_who_knows_the_speed(workplace):
    changes = ["speeds=", f"prune.set.scorer.model={ROOT}/data/model", "prune.set.scorer.device=cpu",
               "arms.random.pipeline=llmlingua2", f"arms.random.set.compressor.model={ENCODER}"]
    done = run(PLANS / "smoke.toml", "--to", "out", "--dry-run", *(word for change in changes for word in ("--set", change)))
    rows = {line.split(" | ")[0]: line.split(" | ")[3:6] for line in done.stdout.splitlines() if line.startswith("| prune/")}
    scored, encoded = rows["| prune/pruned/sample/asap"], rows["| prune/pruned/sample/random"]
    assert "cpu" in scored[0] and scored[1] != "–" and scored[2].startswith("measured: "), done.stdout
    assert encoded[0].startswith("encoder: ") and "cpu" in encoded[0] and encoded[1:] == ["–", "unknown"]
    stated = _estimate.by_plan(_plan.Plan(str(PLANS / "smoke.toml")), "scored-tokens", tokens=72_000_000)
    assert (stated.speed, stated.source, stated.hours()) == (20_000, "[speeds] scored-tokens", 1.0)


def test_an_interrupted_dry_run_is_one_sentence(plan):
    given = plan()
    # A file that never ends.
    os.remove("problems.jsonl")
    os.mkfifo("problems.jsonl")
    process = subprocess.Popen(command(given, "--dry-run"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path()})
    writer = None
    while writer is None:
        with contextlib.suppress(OSError):
            writer = os.open("problems.jsonl", os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.05)
    process.terminate()
    assert process.communicate()[1] == "error: interrupted before anything was written\n" and process.returncode == 130
    os.close(writer)


WRONG = [
    ("seeds = [1]", "seeds = [1", "plan.toml: expected TOML"),
    ("seeds = [1]", 'seeds = ["x"]', "plan.toml: seeds: expected whole numbers, found ['x']"),
    ("seeds = [1]", "sedes = [1]", "plan.toml: has the unknown key sedes (did you mean seeds?)"),
    ("ratio = 0.5", "ration = 0.5", "plan.toml: [prune] has the unknown key ration (did you mean ratio?)"),
    ("budgets = [16, 32]", "budgets = []", "plan.toml: [benches.sums] budgets: expected a list of whole numbers above 0, found []"),
    ("budgets = [16, 32]", "", "plan.toml: [benches.sums] lacks the key budgets"),
    ("[arms.original]", '[benches.more]\nbench = "gsm8k"\nfiles = []\nbudgets = [32]\n[arms.original]',
     "plan.toml: [benches.more] budgets: 32 is also in [benches.sums], which has the same benchmark"),
    ("[arms.original]", '[serve]\ncommand = "x"\nurl = "localhost:8000/v1"\n[arms.original]',
     "plan.toml: [serve] url: expected a URL such as http://localhost:8000/v1, found localhost:8000/v1"),
    ("seeds = [1]", "seeds = [1]\ngpus = 2\nserve = { command = 'x', url = 'http://127.0.0.1:8000/v1' }",
     "plan.toml: [serve] url: 2 servers run side by side, so expected {port} in url and command"),
    ("ratio = 0.5", "ratio = 0.5\ngpus = 0", "plan.toml: [prune] gpus: expected a whole number from 1"),
    ('pipeline = "random"', 'pipeline = "random"\ncorpora = ["code"]', "plan.toml: [arms.random] corpora: expected names of [corpora.NAME], found code"),
    ('benches = ["sums"]', 'benches = ["products"]', "plan.toml: [corpora.NAME] benches: expected the name of one [benches.NAME] in one corpus, found products"),
]


@pytest.mark.parametrize(("old", "new", "expected"), WRONG)
def test_a_wrong_plan_is_one_error(plan, old, new, expected):
    with pytest.raises(_plan.Failed) as error:
        _plan.Plan(plan((old, new)))
    assert str(error.value).startswith(expected) and "\n" not in str(error.value)


def test_a_wrong_command_line_has_exit_code_2(plan):
    for given, expected in [(("none.toml",), "none.toml: No such file"), ((plan(), "--arms", "rand"), "there is no arm rand; the plan has"),
                            ((plan(), "--seeds", "x"), "--seeds: expected a whole number from 0, found x")]:
        done = run(*given)
        assert done.returncode == 2 and done.stderr.startswith("error: ") and expected in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_arms_that_fail_leave_the_others(plan):
    trainer = "import subprocess, sys\nif 'bad_trainer' in sys.argv[1]: sys.exit('error: out of memory')\n" \
              "if 'later' in sys.argv[1]: sys.exit(75)\nsys.exit(subprocess.call([sys.executable, '-m', 'asap', 'train', *sys.argv[2:]]))"
    Path("trainer.py").write_text(trainer)
    arms = '[arms.bad_trainer]\npipeline = "truncate"\n[arms.later]\ndata = "{sample}"\n[arms.random]'
    changes = ("asap train", "python trainer.py {out}"), ("[arms.random]", arms.format(sample=ROOT / "data/sample/openr1-math.parquet"))
    given = plan(*changes)
    done = run(given, "--arms", "original,random,bad_trainer")
    error = "train/math-bad_trainer-1 ended with code 1: out of memory"
    errors = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 1 and len(errors) == 1 and errors[0].startswith(error), done.stderr
    assert error in done.stdout.split("## Missing")[1].split("##")[0]
    rows = {(row["method"], row["bench"], row["budget"]) for row in table("out", "methods")}
    assert rows == {(arm, "gsm8k", budget) for arm in ("original", "random") for budget in ("16", "32")}
    assert {"figure4.svg", "accuracy.svg", "efficiency.md", "efficiency.tex", "methods.tex"} <= set(os.listdir("out/tables"))
    assert run(given, "--arms", "later,bad_trainer").returncode == 75
    retrained = run(plan(("asap train", "python trainer.py {out} --clip 1")), "--arms", "random")
    assert retrained.returncode == 1 and "out/seed-1/models/math/random was trained by another command" in retrained.stderr
    # Finished steps need nothing.
    plan(*changes)
    os.rename("problems.jsonl", "elsewhere.jsonl")
    assert run(given, "--arms", "original,random").returncode == 0
    changed = run(given, "--arms", "original,random", "--set", "benches.sums.budgets=[8]")
    assert changed.returncode == 2 and "1 thing is missing" in changed.stderr and "sums: there is no file problems.jsonl" in changed.stderr


ENDPOINT = {"anchor.provider": "openai", "anchor.base_url": "http://127.0.0.1:9/v1", "anchor.model": "m", "anchor.api_key_env": "NO_KEY"}
ENCODER = ROOT / "tests/goldens/llmlingua2/xlm-roberta-large-tiny"
MISSING = {
    "corpus": (["corpora.sample.from=nowhere", "corpora.sample.fetch=hf download it"], "sample: there is no corpus nowhere: hf download it"),
    "benchmark": (["benches.sums.files=['x.jsonl', 'y.jsonl']", "benches.sums.fetch=curl it"], "sums: there is no file x.jsonl, y.jsonl: curl it"),
    "rows of a benchmark": (["benches.sums.files=['python']"], "sums: python holds no rows: expected JSON lines"),
    "name of a benchmark": (["benches.sums.bench=sums"], "sums: invalid value 'sums' for '--bench <BENCH>'"),
    "model": (["model=org/learns"], "model: asap.scorer.model = 'org/learns': there is no folder"),
    "scoring model": (["prune.set.scorer.model=org/reads"], "asap_mask: asap.scorer.model = 'org/reads': there is no folder"),
    "encoder": (["arms.random.pipeline=llmlingua2", "arms.random.set.compressor.model=org/labels"], "random: asap.compressor.model"),
    "PyTorch of an encoder": (["arms.random.pipeline=llmlingua2", f"arms.random.set.compressor.model={ENCODER}", "arms.random.set.compressor.device=cuda",
                               "arms.random.set.scorer.python=./python"], "random: asap.scorer.python = './python' cannot run the model"),
    "key": ([f"arms.asap.set.{name}={value}" for name, value in ENDPOINT.items()], "asap: asap.anchor.api_key_env"),
    "key of an evaluation": (["eval.set.anchor.api_key_env=NO_KEY"], "base, original, random, asap, asap_mask: anchor.api_key_env = 'NO_KEY'"),
    "program of the trainer": (["train.command=torchrun-8 -m asap.sft --loss {loss}"], "[train]: there is no program torchrun-8"),
    "package of the trainer": (["train.command=./python -m asap.sft --loss {loss}"], "[train]: ./python has no package asap, torch, transformers, accelerate, pyarrow: "),
    "start of the server": (["serve={command='vllm serve', url='http://127.0.0.1:{port}/v1'}"], "[serve]: {here}/vllm --version ended with code 1: ImportError: no libcudart"),
    "program of the server": (["serve={command='vllm-0 serve', url='http://127.0.0.1:{port}/v1'}"], "[serve]: there is no program vllm-0"),
    "disk": (["model=huge"], "out: models, checkpoints and outputs take "),
    "GPUs": (["gpus=3"], "gpus: the plan uses 3 GPUs, and nvidia-smi shows 2"),
    "memory of a GPU": (["gpus=2"], "gpus: GPU 1 has 1,000 of 80,000 MiB free: end the programs that use it"),
    "pipeline": (["arms.random.pipeline=rondom"], "random: there is no file and no built-in pipeline rondom"),
    "setting": (["arms.random.set.refine.ratoi=1"], "random: there is no setting asap.refine.ratoi"),
    "data": (["arms.random={data='lost'}"], "random: there is no data lost"),
}


@pytest.fixture
def machine(workplace, monkeypatch):
    """A Python without packages, a server that does not start, a model that no disk holds, and two GPUs, of which one is full."""
    broken = "echo 'ImportError: no libcudart' >&2; exit 1"
    for name, text in {"python": "exit 1", "vllm": broken, "nvidia-smi": "printf '0, 79000, 80000\\n1, 1000, 80000\\n'"}.items():
        Path(name).write_text(f"#!/bin/sh\n{text}\n")
        os.chmod(name, 0o755)
    shutil.copytree(ROOT / "data/model", "huge")
    with open("huge/more.safetensors", "wb") as file:
        file.truncate(1 << 42)
    monkeypatch.setenv("PATH", f"{workplace}:{path()}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return workplace


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_found_before_anything_is_run(machine, name):
    changes, expected = MISSING[name]
    with pytest.raises(_plan.Failed) as error:
        _run.Run(_plan.Plan(str(PLANS / "smoke.toml"), to="out", changes=changes))
    head, *lines = str(error.value).splitlines()
    assert head.endswith("1 thing is missing, and nothing was run:") and len(lines) == 1, error.value
    expected = expected.replace("{here}", str(machine))
    assert lines[0].startswith(f"  {expected}") or f", {expected}" in lines[0], lines
    assert error.value.code == 2 and not os.path.exists("out")


def test_what_steps_make_is_not_missing(machine):
    """The steps of mini.toml make its corpus, its model, which also scores, and its benchmark. Those of self-training.toml make
    a corpus with several generations in a row."""
    _run.Run(_plan.Plan(str(PLANS / "mini.toml"), to="out", changes=["seeds=[1]"]))
    Path("problems.jsonl").write_text('{"question": "What is 1 + 1?", "answer": "#### 2"}\n')
    changes = ["model=small", "prune.set.scorer.model=small", "benches.sums.files=['problems.jsonl']"]
    _run.Run(_plan.Plan(str(PLANS / "self-training.toml"), to="out", seeds=[1], changes=changes))


def test_all_that_is_missing_is_one_list(machine):
    names = ["corpus", "benchmark", "model", "scoring model", "encoder", "key", "program of the trainer", "program of the server", "GPUs"]
    done = run(PLANS / "smoke.toml", "--to", "out", *(word for name in names for change in MISSING[name][0] for word in ("--set", change)))
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and done.stdout == "" and not os.path.exists("out")
    assert lines[0].startswith("error: ") and all(line.startswith("  ") for line in lines[1:]), done.stderr
    for name in names:
        what = MISSING[name][1].partition(": ")[2]
        assert sum(what in line for line in lines) == 1, f"{what}\n{done.stderr}"


def test_an_encoder_that_is_missing_does_not_hide_what_pytorch_lacks(machine):
    changes = [*MISSING["PyTorch of an encoder"][0], *MISSING["encoder"][0]]
    with pytest.raises(_plan.Failed) as error:
        _run.Run(_plan.Plan(str(PLANS / "smoke.toml"), to="out", changes=changes))
    lines = str(error.value).splitlines()[1:]
    assert [line.split(" = ")[0] for line in lines] == ["  random: asap.compressor.model", "  random: asap.scorer.python"], lines


def test_the_plan_for_one_card_in_miniature(workplace):
    problems = "".join(json.dumps({"question": f"What is {n} + {n % 3}?", "answer": f"#### {n + n % 3}"}) + "\n" for n in range(4))
    Path("problems.jsonl").write_text(problems)
    train = "asap train --model {model} --data {data} --out {out} --epochs {epochs} --seed {seed} --accumulate 8 --checkpoint-every 5 --loss {loss}"
    changes = ["model=small", "prune.set.scorer.model=small", "prune.set.scorer.device=", "serve=", f"train.command={train}", "train.epochs=1",
               f"corpora.math.from={ROOT}/data/sample/openr1-math.parquet", "corpora.math.sample=40", "corpora.math.benches=['gsm8k']",
               "benches.math500=", "benches.gsm8k.files=['problems.jsonl']", "benches.gsm8k.budgets=[8]", "no-accuracy=a stub"]
    done = run(PLANS / "one-card.toml", "--to", "out", "--seeds", "1", *(word for change in changes for word in ("--set", change)))
    assert done.returncode == 0, done.stderr
    arms = ["original", "random", "block", "spirit", "asap", "asap_mask", "random_mask", "without_anchor"]
    found = {row["arm"]: float(row["share kept"]) for row in table("out", "efficiency")}
    assert list(found) == arms and found.pop("original") == 1.0 and all(0.1 < kept <= 0.5 for kept in found.values()), found
    assert [row["method"] for row in table("out", "methods")] == ["base", *arms]
    # At its own size, the plan takes less than a day.
    own = _plan.Plan(str(PLANS / "one-card.toml"))
    speeds, seeds, ratio = own.table["speeds"], len(own.seeds), own.table["prune"]["ratio"]
    trained = seeds * own.table["train"]["epochs"] * own.table["corpora"]["math"]["sample"] * (5_807 * (3 + 5 * ratio) + 8 * 500)
    generated = (8 * seeds + 1) * (1_319 * 2_048 + 500 * 4_096)
    hours = (trained / speeds["trained-tokens"] + generated / speeds["generated-tokens"]) / 3600
    assert 8 < hours + 3 < 24, hours


def test_a_server_that_ends_after_its_first_answer(plan, free_port):
    write = "        self.wfile.write(data)\n"
    ends = "        if b'boxed' in data:\n            print('error: out of memory', flush=True)\n            os._exit(9)\n"
    Path("server.py").write_text(SERVER.replace(write, write + ends).replace("import hashlib", "import os, hashlib"))
    serve = f'[serve]\ncommand = "python server.py {free_port} {{name}}"\nurl = "http://127.0.0.1:{free_port}/v1"'
    few = "[eval]\nlimit = 6\nset = { 'anchor.max_retries' = 0 }"
    done = run(plan(("[arms.original]", f"{serve}\n{few}\n[arms.base]\n[arms.original]")), "--arms", "base")
    errors = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 75 and len(errors) == 1 and errors[0] in done.stdout, done.stderr
    assert errors[0].startswith("eval/base/sums ended with code 75: 10 responses missing"), errors
    assert errors[0].endswith("; the server of base ended with code 9: out of memory (out/logs/serve-base.log)"), errors


def test_a_server_that_does_not_come_up(plan, free_port):
    url = f"http://127.0.0.1:{free_port}/v1"
    serve = '[serve]\ncommand = "python server.py {{model}}"\nurl = "{url}"\nwait = 1\n[arms.base]\n[arms.original]'.format(url=url)
    Path("server.py").write_text("import sys, time\nif 'original' in sys.argv[1]: sys.exit('error: no GPU')\ntime.sleep(60)")
    begun = time.monotonic()
    done = run(plan(("[arms.original]", serve)), "--arms", "base,original")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 1 and len(errors) == 2, done.stderr
    assert f"the server of base did not answer at {url}/models within 1 seconds" in errors[0]
    assert "the server of math/original ended with code 1: no GPU" in errors[1]
    # The server that never answered has ended too.
    assert time.monotonic() - begun < 50


@pytest.fixture
def free_port():
    """A port that is free, as the next one is."""
    import socket

    while True:
        with socket.socket() as found, socket.socket() as following, contextlib.suppress(OSError, OverflowError):
            found.bind(("127.0.0.1", 0))
            following.bind(("127.0.0.1", found.getsockname()[1] + 1))
            return found.getsockname()[1]


MOMENTS = ["prune/pruned/math/original", "prune/pruned/math/asap", "train/math-original-1", "train/math-asap-1", "eval/base/sums", "eval/math-asap-1/sums"]


@pytest.mark.parametrize("gpus", [0, 2])
def test_a_killed_plan_trains_and_asks_nothing_twice(plan, free_port, gpus):
    anchor = Endpoint(faults=0)
    given = {name.replace("anchor_", "anchor.", 1): value for name, value in anchor.settings().items()}
    arm = "".join(f'"{name}" = {json.dumps(value)}\n' for name, value in given.items())
    Path("server.py").write_text(SERVER)
    serve = f'[serve]\ncommand = "python server.py {{port}} {{name}}"\nurl = "http://127.0.0.1:{{port}}/v1"\nport = {free_port}\n'
    written = plan(("seeds = [1]", f"seeds = [1]\ngpus = {gpus}"), ("[train]", "[train]\ngpus = 1"), ("[arms.random]\npipeline = \"random\"", f'{serve}[eval]\nconcurrency = 2\n[arms.base]\n[arms.asap]\npipeline = "asap"\n[arms.asap.set]\n{arm}'))
    # A kill during each kind of step: of all processes, and once of the runner alone. Side by side, a kill hits two steps.
    moments = MOMENTS[::2] if gpus else MOMENTS
    chance, kills, wall, before = random.Random(3), [], [], []
    for moment in moments:
        process = subprocess.Popen(command(written), start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith(moment):
                break
        time.sleep(chance.uniform(0.2, 0.8))
        if moment == MOMENTS[2]:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        kills.append(time.monotonic())
        wall.append(time.time())
        process.wait()
        process.stderr.close()
        # Children of the runner end by themselves.
        while is_locked("out"):
            time.sleep(0.1)
        before = records("out")
    done = run(written)
    assert done.returncode == 0, done.stderr
    found = records("out")
    assert found[: len(before)] == before
    finished = {}
    for place, record in enumerate(found):
        assert record["step"] not in finished, "a finished step was run again"
        if record["state"] == "finished":
            finished[record["step"]] = place
    assert sum(record["state"] == "started" for record in found) >= len(finished) + (3 if gpus else 4), "the kills hit no step"
    assert {name for name in finished if name.startswith("train/")} == {"train/math-original-1", "train/math-asap-1"}
    for arm in ("original", "asap"):
        steps = [json.loads(line)["step"] for line in Path(f"out/seed-1/models/math/{arm}/metrics.jsonl").read_text().splitlines()]
        examples = next(each["summary"]["examples"] for each in found if each["state"] == "finished" and each["step"] == f"count/math-{arm}-1")
        # A checkpoint follows each step of two examples, so that a kill costs at most one.
        assert examples >= 8 and sorted(set(steps)) == list(range(1, (examples + 1) // 2 + 1)) and len(steps) <= len(set(steps)) + len(kills)
    # A call that was in flight at a kill may be sent again.
    assert anchor.repeated(kills) == []
    asked = [json.loads(line) for line in Path("asked.jsonl").read_text().splitlines()]
    seen = {}
    for call in asked:
        again = seen.get(call["key"])
        assert again is None or any(again["begun"] <= kill <= again["ended"] + 2 for kill in wall), "a problem was asked twice"
        seen[call["key"]] = call
    # One call for each problem, for three models: no response is cut off.
    assert len(seen) == 3 * 12
    # A row that is rejected after its direct thought has one answer, and the others have two.
    paid = {row["arm"]: float(row["paid answers"]) for row in table("out", "efficiency")}
    assert paid == {"original": 0, "asap": len({key for key, *_ in anchor.answers})} and 12 < paid["asap"] <= 24
    assert run(written).stdout == done.stdout


def is_locked(folder):
    import fcntl

    with open(f"{folder}/.lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def test_efficiency_next_to_the_paper(tmp_path):
    def cell(arm, corpus):
        (tmp_path / arm).mkdir(exist_ok=True)
        (tmp_path / arm / "metrics.jsonl").write_text('{"step": 1, "seconds": 40}\n{"step": 2, "seconds": 44.12}\n')
        return types.SimpleNamespace(arm=arm, corpus=corpus, id=arm, is_trained=True, error=None, prune=None, model=str(tmp_path / arm))

    cells = [cell("original", "code"), cell("my_arm", "code")]
    done = {f"count/{arm}": {"summary": {"examples": 2, "tokens": tokens}} for arm, tokens in (("original", 26_046), ("my_arm", 8_000))}
    plan = types.SimpleNamespace(table={"model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"}, against="original")
    text = _tables.efficiency(plan, cells, done, str(tmp_path))
    assert "| my_arm | code | – | – | – | – | 2 | – | 4,000 | – | 2 | 42.06 | −69.3 | +0.0 |" in text
    # What both have.
    assert "| original | code | 13,023 | 13,023 | +0.0 | 42.06 | 80.11 | −47.5 |" in text, text
    assert text.count("| my_arm |") == 1 and "| math |" not in text
    assert (tmp_path / "efficiency.md").read_text() == text
    tables = (tmp_path / "efficiency.tex").read_text().split("\\begin{table*}")[1:]
    assert len(tables) == 2 and r"my\_arm & code" in tables[0] and r"in \%}" in tables[0] and "−" not in tables[0]
    for table in tables:
        spec = table.split(r"\begin{tabular}{")[1].split("}")[0]
        rows = [line for line in table.splitlines() if line.endswith(r"\\")]
        assert len(rows) >= 2 and all(row.count(" & ") == len(spec) - 1 for row in rows), table
        assert table.count("{") == table.count("}") and table.rstrip().endswith(r"\end{table*}")
    other = types.SimpleNamespace(table={"model": "small"}, against="original")
    assert "next to" not in _tables.efficiency(other, cells, done, str(tmp_path))


def test_figure_2_counts_what_it_leaves_out(workplace):
    steps = "\n\n".join(f"{word}, 4 + {n} is {4 + n}." for n, word in enumerate(("So", "Wait", "Alternatively", "But")))
    rows = [{"question": f"What is {n}?", "generation": f"<think>\n{steps}{end}"} for n, end in enumerate(("\n</think>\n\nIt is 1.", ""))]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run([sys.executable, "-m", "asap.paper", "figure2", "--from", "rows.jsonl", "--to", "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 chains; ") and "Left out: 1 rows without a chain (no_tags)." in done.stdout
    with open("out/left_out.csv", newline="") as file:
        assert {"left out": "rows without a chain (no_tags)", "count": "1"} in list(csv.DictReader(file))
    assert "Left out: 1 rows without a chain (no_tags)." in Path("out/figure2.svg").read_text()


def test_figure_2_of_made_entropies(tmp_path):
    import numpy

    random = numpy.random.default_rng(1)
    first = [[float(value) for value in random.uniform(1, 5, 10)] for _ in range(30)]
    texts = [[" Alternatively" if value > 4.5 else "So" if value > 3 else "<\n&" for value in values] for values in first]
    chains = [(words, [[value, 0.25, 0.5, None] for value in values]) for words, values in zip(texts, first)]
    # Rows and steps without a score do not count.
    chains += [(None, None), ([None, "So"], [None, []])]
    found = _figure2.collect(chains)
    flat = numpy.array(first).ravel()
    assert found["percentiles"] == {"first": pytest.approx(numpy.percentile(flat, 90)), "others": 0.5}
    assert len(found["first"]) == 300 and len(found["others"]) == 600
    assert sum(found["high"].values()) == 30 and set(found["high"]) == {" Alternatively"}
    _figure2.write(found, str(tmp_path / "figure"))
    with open(tmp_path / "figure/entropies.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("share of first tokens", "share of other tokens"):
        assert sum(float(row[name]) for row in rows) == pytest.approx(1.0)
    with open(tmp_path / "figure/first_tokens_high.csv", newline="") as file:
        row = next(csv.DictReader(file))
    assert (row["first token"], row["count"]) == (" Alternatively", "30")
    assert float(row["share of its steps"]) == pytest.approx(30 / found["all"][" Alternatively"])
    drawn = xml.etree.ElementTree.parse(tmp_path / "figure/figure2.svg").getroot()
    words = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert found["chains"] == 31 and found["left out"] == {"chains longer than the window of the model": 1, "steps without a score": 2}
    # Half of the other tokens are in one bin: ticks of 10 percent.
    assert words[words.index("0") :][:8] and {"10", "20", "30", "40", "50"} <= set(words) and "5" in words
    assert {"entropy of the next token, nats", "share of tokens, %"} <= set(words)
    assert "␣Alternatively" in words and "<·&" in words and f"first tokens: 90th percentile {found['percentiles']['first']:.2f}" in words
