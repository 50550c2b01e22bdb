"""The runner of the paper's comparison: whole plans, killed plans, plans with errors, and the figures from made numbers."""

import collections
import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
import types
import xml.etree.ElementTree
from pathlib import Path

import asap
import pytest
from asap.paper import _figure2, _plan, _tables
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
    assert list(found) == ["original", "random", "asap"]
    assert float(found["original"]["share kept"]) == 1.0
    assert 0.4 < float(found["random"]["share kept"]) <= 0.5 and 0.1 < float(found["asap"]["share kept"]) <= 0.5
    assert all(row["paid answers"] == "0.0" and row["rejects"] == "0.0" for row in found.values())
    assert all(row["samples"] == "24.0" and row["steps"] == "3.0" for row in found.values())
    assert float(found["random"]["tokens per sample"]) < float(found["original"]["tokens per sample"])
    # The accuracies are left out, and the tokens are those of the stored rows.
    rows = table("out/smoke", "methods")
    assert len(rows) == 8 and all(row["accuracy"] == "" for row in rows)
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


def test_the_plans_of_the_paper_name_its_settings():
    plans = {name: _plan.Plan(str(PLANS / f"paper-{name}.toml")) for name in ("qwen7b", "llama8b")}
    qwen, llama = (plan.table for plan in plans.values())
    assert qwen["prune"] == llama["prune"] and qwen["corpora"] == llama["corpora"] and qwen["arms"] == llama["arms"]
    assert llama["train"]["command"].replace("2e-5", "4e-5") == qwen["train"]["command"]
    for words in ("--dtype bfloat16", "--no-enable-prefix-caching"):
        assert words in qwen["serve"]["command"] and words in llama["serve"]["command"]
    short = {"humaneval+", "gsm8k", "math500"}
    budgets = collections.defaultdict(list)
    for name, bench in qwen["benches"].items():
        budgets[bench.get("bench", name)] += bench["budgets"]
    for name, found in budgets.items():
        assert sorted(found) == [1024 * (1 if name in short else 2) * n for n in range(1, 7)]
    flags = plans["llama8b"].prune_flags(qwen["corpora"]["math"], qwen["arms"]["spirit"], 42)
    assert flags[-6:] == ["--sample", "10000", "--seed", "42", "--max-tokens", "1000000"] or "--ratio" in flags
    assert "asap.scorer.model=deepseek-ai/DeepSeek-R1-Distill-Qwen-7B" in flags


def test_the_recipe_and_the_page_name_plans_that_can_be_read(workplace):
    done = subprocess.run([ROOT / "docs/recipes/paper.sh", "--dry-run", "--to", "out"], capture_output=True, text=True, env={**os.environ, "PATH": path()})
    # The traces and the benchmarks are not here.
    assert done.returncode == 1 and "error: math: there is no corpus traces/openr1-math/data" in done.stderr
    assert done.stdout.count("\ntorchrun ") == 16 and done.stdout.count("\nvllm serve ") == 17 and not os.path.exists("out")
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
    assert asked == [f"| eval/math-{arm}-1/sums | 24 | 576 | 0.00 |" for arm in ("original", "random")]
    trained = [int(line.split(" | ")[2].replace(",", "")) for line in lines if line.startswith("| train/")]
    assert 5_000 < trained[1] == trained[0] < 20_000


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
    arms = """[arms.bad_trainer]\npipeline = "truncate"\n[arms.bad_pipeline]\npipeline = "spirt"\n[arms.later]\ndata = "{sample}"
[arms.bad_model]\npipeline = "random"\nset = {{ "scorer.model" = "org/nowhere" }}
[arms.bad_setting]\npipeline = "random"\nset = {{ "refine.ratoi" = 1 }}\n[arms.bad_data]\ndata = "nowhere"\n[arms.random]"""
    given = plan(("asap train", "python trainer.py {out}"), ("[arms.random]", arms.format(sample=ROOT / "data/sample/openr1-math.parquet")),
                 ("[arms.original]", '[benches.lost]\nbench = "gsm8k"\nfiles = ["lost.jsonl"]\nbudgets = [8]\n'
                  '[benches.unknown]\nfiles = ["problems.jsonl"]\nbudgets = [8]\n[arms.original]'),
                 ('benches = ["sums"]', 'benches = ["sums", "lost", "unknown"]'))
    done = run(given, "--arms", "original,random,bad_trainer,bad_pipeline,bad_model,bad_setting,bad_data")
    expected = ["lost: there is no file lost.jsonl", "unknown: invalid value 'unknown' for '--bench <BENCH>'",
                "bad_pipeline: there is no file and no built-in pipeline spirt",
                "bad_model: asap.scorer.model = 'org/nowhere': there is no folder", "bad_setting: there is no setting asap.refine.ratoi", "bad_data: there is no data nowhere",
                "train/math-bad_trainer-1 ended with code 1: out of memory"]
    errors = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 1 and len(errors) == len(expected), done.stderr
    # All that can be known is known before anything is run.
    first = next(place for place, line in enumerate(done.stderr.splitlines()) if line.startswith("prune/"))
    assert first == len(expected) - 1
    missing = done.stdout.split("## Missing")[1].split("##")[0]
    for text in expected:
        assert sum(error.startswith(text) for error in errors) == 1 and text in missing, text
    assert "\n- bad_pipeline: there is no file" in missing, missing
    rows = {(row["method"], row["bench"], row["budget"]) for row in table("out", "methods")}
    assert rows == {(arm, "gsm8k", budget) for arm in ("original", "random") for budget in ("16", "32")}
    assert {"figure4.svg", "accuracy.svg", "efficiency.md", "efficiency.tex", "methods.tex"} <= set(os.listdir("out/tables"))
    assert run(given, "--arms", "later,bad_trainer").returncode == 75
    retrained = run(plan(("asap train", "python trainer.py {out} --clip 1")), "--arms", "random")
    assert retrained.returncode == 1 and "out/seed-1/models/math/random was trained by another command" in retrained.stderr


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
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_a_killed_plan_trains_and_asks_nothing_twice(plan, free_port):
    anchor = Endpoint(faults=0)
    given = {name.replace("anchor_", "anchor.", 1): value for name, value in anchor.settings().items()}
    arm = "".join(f'"{name}" = {json.dumps(value)}\n' for name, value in given.items())
    Path("server.py").write_text(SERVER)
    serve = f'[serve]\ncommand = "python server.py {free_port} {{name}}"\nurl = "http://127.0.0.1:{free_port}/v1"\n'
    written = plan(("[arms.random]\npipeline = \"random\"", f'{serve}[eval]\nconcurrency = 2\n[arms.base]\n[arms.asap]\npipeline = "asap"\n[arms.asap.set]\n{arm}'))
    # A kill during each kind of step: of all processes, and once of the runner alone.
    moments = ["prune/pruned/math/original", "train/math-original-1", "eval/base/sums", "prune/pruned/math/asap", "train/math-asap-1", "eval/math-asap-1/sums"]
    chance, kills, wall, before = random.Random(3), [], [], []
    for moment in moments:
        process = subprocess.Popen(command(written), start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith(moment):
                break
        time.sleep(chance.uniform(0.2, 0.8))
        if moment == moments[1]:
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
    assert sum(record["state"] == "started" for record in found) >= len(finished) + 4, "the kills hit no step"
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
    assert "| my_arm | code | – | – | – | – | 2 | – | 4,000 | 2 | 42.06 | −69.3 | +0.0 |" in text
    # What the run lacks and what the paper lacks.
    for line in ("| original | code | 13,023 | 13,023 | +0.0 | 42.06 | 80.11 | −47.5 |", "| my_arm | code | 4,000 | – | – | 42.06 | – | – |",
                 "| asap | math | – | 1,834 | – | – | 15.36 | – |"):
        assert line in text, text
    assert (tmp_path / "efficiency.md").read_text() == text
    tables = (tmp_path / "efficiency.tex").read_text().split("\\begin{table*}")[1:]
    assert len(tables) == 2 and r"my\_arm & code" in tables[0] and r"in \%}" in tables[0] and "−" not in tables[0]
    for table in tables:
        spec = table.split(r"\begin{tabular}{")[1].split("}")[0]
        rows = [line for line in table.splitlines() if line.endswith(r"\\")]
        assert len(rows) >= 3 and all(row.count(" & ") == len(spec) - 1 for row in rows), table
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
