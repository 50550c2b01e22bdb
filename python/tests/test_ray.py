"""Runs on a Ray cluster of two machines give what one process gives."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import asap
import pyarrow.parquet
import pytest
import ray
import ray.cluster_utils
import ray.data
from asap import _parts
from conftest import ROOT, SAMPLE
from endpoint import Endpoint
from ray_kills import contents

CONVERSATIONS = ROOT / "tests/goldens/conversations.jsonl"

os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two machines with a CPU each. The second one has no model in its cache of Hugging Face."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(home))
        patch.setenv("HF_HOME", str(home / "hub"))
        repository = home / "hub/hub/models--org--small"
        shutil.copytree(ROOT / "data/model", repository / "snapshots/1")
        (repository / "refs").mkdir()
        (repository / "refs/main").write_text("1")
        two = ray.cluster_utils.Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        two.add_node(num_cpus=1, env_vars={"HF_HOME": str(home)})
        ray.init(two.address, logging_level="error", log_to_driver=False)
        yield two
        ray.shutdown()
        two.shutdown()


def run(pipeline="asap", **options):
    given = {"from_": str(SAMPLE), "to": "out/ray", "limit": 40, "slice_rows": 4, "parts": 4, "quiet": True, **options}
    return asap.ray.run(pipeline, **given)


def by_one_process(pipeline="asap", **options):
    given = {"from_": str(SAMPLE), "to": "out/one", "limit": 40, "slice_rows": 4, "quiet": True, **options}
    return asap.run(pipeline, **given)


def test_two_workers_give_what_one_process_gives(cluster):
    Path("mine.sql").write_text(asap._asap.pipeline("random"))
    for pipeline, corpus in (("asap", SAMPLE), ("mine.sql", SAMPLE), ("without_anchor", CONVERSATIONS)):
        given = {"from_": str(corpus), "refine_max_tokens": 40}
        one = by_one_process(pipeline, to=f"out/one-{pipeline}", **given)
        asap._messages._shown.clear()
        with pytest.warns(asap.Note, match="made with default models"):
            two = run(pipeline, to=f"out/ray-{pipeline}", quiet=False, **given)
        rows, rejects = contents(f"out/ray-{pipeline}")
        assert (rows, rejects) == contents(f"out/one-{pipeline}") and len(rows) > 9
        assert rejects or corpus == CONVERSATIONS
        differ = {name for name in one if one[name] != two[name]}
        assert set(one) == set(two) and differ <= {"to", "seconds", "seconds_by_part", "table_version", "notes"}
        assert sorted(one["notes"]) == sorted(two["notes"])
    again = run(to="out/ray-asap", refine_max_tokens=40)
    assert again["nothing_to_do"] and again["rows_in"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pipeline": lambda row: row}, "found a function: a pipeline is one SELECT"),
        ({"refine_max_tokn": 3}, "did you mean refine_max_tokens?"),
        ({"pipeline": "asp"}, "did you mean asap?"),
        ({"part": "1/2"}, "pass parts=64 instead of part"),
        ({"dry_run": True}, "call asap.run(…, dry_run=True)"),
        ({"new_generation": True}, "call asap.run(…, new_generation=True, limit=1)"),
        ({"parts": 0}, "parts takes a whole number from 1, found 0"),
        ({"num_cpus": 3}, "no machine of the Ray cluster has num_cpus=3 and num_gpus=0"),
        ({"num_cpus": 0}, "a task needs CPUs or GPUs"),
        ({"from_": "nowhere"}, "nowhere"),
    ],
)
def test_an_error_is_clear(cluster, options, message):
    with pytest.raises(asap.Error) as error:
        run(**{"parts": 2, **options})
    assert message in str(error.value) and not os.path.exists("out")


def test_ray_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(asap.Error, match="pip install ray"):
        run()


def test_the_import_loads_no_ray():
    subprocess.run(
        [sys.executable, "-c", "import sys, asap; asap.ray.run; assert 'ray' not in sys.modules"], check=True
    )


def test_a_worker_without_the_model_is_refused(cluster):
    with pytest.raises(asap.Error) as error:
        run(parts=8, scorer_model="org/small")
    message = str(error.value)
    assert "is refused before its first row: the files of scorer_model = org/small are missing there" in message
    # The other worker ends its part, and the run resumes where all machines have the model.
    assert re.search(r"; [012] of 8 parts are done", message), message


def test_a_worker_with_other_settings_is_refused(cluster, monkeypatch):
    monkeypatch.setenv("ASAP_REFINE_MAX_TOKENS", "99")
    monkeypatch.setenv("ASAP_ANCHOR_MAX_CALLS", "7")
    with pytest.raises(asap.Error) as error:
        run()
    message = str(error.value)
    assert "asap.refine.max_tokens is None there and 99 here" in message and not os.path.exists("out")
    assert "asap.anchor.max_calls is None there and 7 here" in message
    # A file in the folder of the driver is that of the workers too.
    Path("asap.toml").write_text("[refine]\nmax_tokens = 99\n[anchor]\nmax_calls = 7\n")
    assert run(limit=8)["rows_in"] == 8


def test_the_tasks_divide_a_limit_on_calls(cluster):
    endpoint = Endpoint(faults=0)
    by_one_process(**endpoint.settings())
    needed, endpoint = endpoint.calls, Endpoint(faults=0)
    with pytest.raises(
        asap.Error, match=f"anchor_max_calls allows {needed - 9} requests, and {needed - 9} count as sent"
    ):
        run(**endpoint.settings(), anchor_max_calls=needed - 9)
    assert endpoint.calls == needed - 9
    # What one part leaves, another gets. Rejects are asked again, because the first run did not commit them.
    run(**endpoint.settings(), anchor_max_calls=30)
    assert endpoint.calls <= needed + 21 and not endpoint.repeated()
    assert contents("out/ray") == contents("out/one")


def test_the_tasks_share_a_limit_on_cost(cluster):
    endpoint = Endpoint(faults=0.1)
    by_one_process(**endpoint.settings())
    expected, endpoint = contents("out/one"), Endpoint(faults=0.1)
    with pytest.raises(asap.Error, match="together more than anchor_max_cost = 2"):
        run(**endpoint.settings(), anchor_max_cost=2)
    assert 1 < endpoint.cost() <= 2
    run(**endpoint.settings(), anchor_max_cost=50)
    assert contents("out/ray") == expected and not endpoint.repeated()


def test_an_interrupt_commits_and_the_next_run_resumes(cluster):
    endpoint = Endpoint(faults=0, pause=0.2)
    options = {"from_": str(SAMPLE), "to": "out/ray", "limit": 200, "slice_rows": 4, "parts": 4, **endpoint.settings()}
    connect = f"ray.init({cluster.address!r}, logging_level='error', log_to_driver=False)"
    code = f"import ray, asap; {connect}; asap.ray.run('asap', **{options!r})"
    driver = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    while len(endpoint.answers) < 60:
        assert driver.poll() is None, driver.stderr.read()
        time.sleep(0.05)
    driver.send_signal(signal.SIGINT)
    printed = driver.communicate(timeout=60)[1]
    assert (
        driver.returncode != 0
        and "interrupted: committing the finished rows" in printed
        and "KeyboardInterrupt" in printed
    )
    rows, rejects = contents("out/ray")
    assert 0 < len(rows) + len(rejects) < 200
    summary = asap.ray.run("asap", quiet=True, **options)
    assert summary["rows_in"] == 200 - len(rows) - len(rejects) and not endpoint.repeated()


def test_a_cluster_that_was_killed_is_not_waited_for(workplace):
    # Sockets of Ray are in this folder, and their paths must be short.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder, "ray").mkdir()
        Path(folder, "ray/ray_current_cluster").write_text("127.0.0.1:1")
        options = {"from_": str(SAMPLE), "to": "out/ray", "limit": 4, "parts": 1, "quiet": True}
        code = f"import asap; print(asap.ray.run('truncate', **{options!r})['rows_in'])"
        command, given = [sys.executable, "-c", code], os.environ | {"RAY_TMPDIR": folder}
        assert subprocess.check_output(command, env=given, text=True, timeout=100).split()[-1] == "4"


def test_killed_workers_and_drivers_lose_no_row(workplace):
    script = ROOT / "python/tests/ray_kills.py"
    command = [sys.executable, script, "--workers", "2", "--drivers", "1", "--rows", "24"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "3 kills, 0 violations" in done.stdout, done.stdout + done.stderr


def test_map_batches_gives_what_a_run_gives(cluster, traces):
    pyarrow.parquet.write_table(traces, "rows.parquet")
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = asap.prune("rows.parquet", "truncate", refine_max_tokens=160, quiet=True).rows.to_pylist()
    data = ray.data.read_parquet(os.path.abspath("rows.parquet"))
    for options in ({}, {"batch_format": "pyarrow"}):
        added = data.map_batches(asap.Pruner("truncate", refine_max_tokens=160), concurrency=2, **options).take_all()
        assert len(added) == len(traces) and {"problem", "error"} <= set(added[0])
        assert [row["completion"] for row in added if row["status"] == "ok"] == [row["completion"] for row in rows]


def test_the_progress_is_one_line():
    ended = [{"rows_in": 1000, "anchor": {"calls": 1200, "cost": 0.5}}]
    running = [(500, 1000, 1000, 0.25), (0, 0, 0, 0.0)]
    line = "1 of 4 parts, 2 running, 1,500 rows, 2,200 calls, cost 0.7500, 2 min left"
    assert _parts.progress_line(ended, running, 4, 60) == line
    assert _parts.progress_line([], [], 4, 60) == "0 of 4 parts, 0 running, 0 rows"


def test_a_pipeline_of_the_driver_needs_no_file(workplace):
    sql = asap._asap.pipeline("truncate")
    assert asap.ray._pipeline_in(str(workplace), {"pipeline": "truncate", "sql": sql}) == "truncate"
    written = asap.ray._pipeline_in(str(workplace), {"pipeline": "elsewhere/mine.sql", "sql": sql})
    assert written == str(workplace / "mine.sql") and Path(written).read_text() == sql
