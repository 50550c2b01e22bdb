"""Jobs give what the commands give."""

import gc
import html
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import asap
import datasets
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from conftest import ROOT, SAMPLE
from endpoint import Endpoint

PIPELINES = sorted(path.stem for path in (ROOT / "pipelines/sql").glob("*.sql"))
ENCODER = str(ROOT / "tests/goldens/llmlingua2/xlm-roberta-large-tiny")


def short_traces():
    """Rows with short chains, in the columns of OpenR1, which all pipelines read."""
    chains = [
        "The sum of 2 and 2 is asked.\n\nHmm 🧮.\n\nSo 2 + 2 is 4.\n\nWait, is it?\n\nYes, it is 4.",
        "Three boxes of 5.\r\n\r\nThat is 3 · 5 = 15.\r\n\r\nI check: 5 + 5 + 5 = 15.",
        "",
    ]
    generations = [
        [f"<think>\n{chain}\n</think>\n\nIt is \\boxed{{{gold}}}."] for chain, gold in zip(chains, (4, 15, 1))
    ]
    return pyarrow.table(
        {
            "problem": ["2 + 2?", "How many are in 3 boxes of 5?", "1?", "A question without generations?"],
            "answer": ["4", "15", "1", None],
            "generations": pyarrow.array([*generations, None], pyarrow.list_(pyarrow.string())),
            "correctness_math_verify": [[True], [True], [True], None],
        }
    )


def by_command(traces, pipeline):
    pyarrow.parquet.write_table(traces, "rows.parquet")
    command = [sys.executable, "-m", "asap", "run", pipeline, "--from", "rows.parquet", "--to", "out", "--quiet"]
    settings = ["--set", "asap.refine.max_tokens=40", "--set", f"asap.compressor.model={ENCODER}"]
    subprocess.run([*command, *settings], check=True)
    rows = asap.sql("SELECT * FROM 'out' ORDER BY source").to_pylist()
    return rows, asap.sql("SELECT * FROM 'out/.asap/rejects' ORDER BY source").to_pylist()


def comparable(rows):
    """Rows without what names their run."""
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_prune_gives_what_a_run_gives(pipeline):
    traces, settings = short_traces(), {"refine_max_tokens": 40, "compressor_model": ENCODER}
    rows, rejects = by_command(traces, pipeline)
    pruned = asap.prune(traces, pipeline, **settings, quiet=True)
    assert comparable(pruned.rows.to_pylist()) == comparable(rows)
    assert [row["source"] for row in pruned.rejects.to_pylist()] == [row["source"] for row in rejects]
    assert (len(rows), len(rejects)) == (pruned.summary["rows_out"], pruned.summary["rows_rejected"]) == (2, 2)
    if pipeline == "examples":
        return
    added = asap.Pruner(pipeline, **settings)(traces)
    is_ok = [status == "ok" for status in added["status"].to_pylist()]
    assert sum(is_ok) == len(rows) and len(is_ok) == len(traces)
    for name in ("prompt", "completion", "messages"):
        ok = [value for value, is_ok in zip(added[name].to_pylist(), is_ok) if is_ok]
        assert ok == [row[name] for row in rows], name


def test_a_report_shows_what_pruning_did(traces, workplace):
    pruned = asap.prune(traces, "truncate", max_tokens=100, quiet=True)
    shown = html.unescape(pruned._repr_html_())
    folder = Path(pruned.output).parent
    kept = f"This run kept {100 * pruned.summary['tokens_out'] / pruned.summary['tokens_in']:.1f} % of the tokens of"
    # The temporary folder is in no title, and in no command.
    assert str(folder) not in shown and "asap exam --from DATA --pipelines truncate" in shown
    assert kept in shown and "Things to look at" in shown and "<svg" in shown and "default-src 'none'" in shown
    # The page is an attribute of a frame without rights: nothing of it is in the notebook.
    assert re.fullmatch(
        r'<iframe title="[^"]*" srcdoc="[^"]*" sandbox="" style="[^"]*"></iframe>', pruned._repr_html_()
    )
    assert "<script" not in shown and not re.search(r"(?:src|href)=", shown.replace(" srcdoc=", ""))
    report = asap.report(pruned)
    assert report._repr_html_() == pruned._repr_html_() and str(folder) in repr(report)
    report.to("report.md")
    written = Path("report.md").read_text()
    assert kept in written and str(folder) not in written and "the output, version " in written
    # The output lives as long as what shows it.
    rows, _, summary = copy = pickle.loads(pickle.dumps(pruned))
    assert copy == pruned and copy._repr_html_() is None and summary["rows_out"] == len(rows)
    del pruned
    gc.collect()
    assert folder.exists()
    del report
    gc.collect()
    assert not folder.exists()
    asap.run("random", from_=str(SAMPLE), to="out", limit=8, quiet=True)
    asap.run("truncate", from_=str(SAMPLE), to="other", limit=6, quiet=True)
    assert "Both outputs have 6 of the 8 chains" in asap.report("out", against="other")._repr_html_()
    with pytest.raises(asap.Error, match="there is no folder nowhere"):
        asap.report("nowhere")
    with pytest.raises(asap.Error, match="ends in .html, .md or .json"):
        asap.report("out").to("report.pdf")
    for wrong in (copy, asap.prune(traces, dry_run=True, quiet=True), traces):
        with pytest.raises(asap.Error, match="expected the location of an output, or what asap.prune returned"):
            asap.report(wrong)
    compressed = asap.prune(traces, "llmlingua2", compressor_model=ENCODER, quiet=True)
    assert len(compressed.rows) and compressed._repr_html_() is None


def test_an_exam_gives_what_the_command_gives(workplace):
    given = ["--pipelines", "random", "--from", SAMPLE, "--to", "command", "--questions", "2", "--shares", "0.5"]
    command = [sys.executable, "-m", "asap", "exam", *given, "--format", "json", "--set", "asap.scorer.model=small"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    options = {"questions": 2, "shares": [0.5], "scorer_model": "small", "quiet": True}
    assert asap.exam("random", SAMPLE, "out", **options) == {**json.loads(printed.splitlines()[-1]), "to": "out"}
    with pytest.raises(asap.ArgumentError, match="^invalid value '2' for shares: expected a number above 0"):
        asap.exam(["random"], SAMPLE, "out", shares=[2], quiet=True)
    with pytest.raises(asap.ArgumentError, match=r"no setting question \(did you mean questions\?\)"):
        asap.exam(["random"], SAMPLE, "out", question=2)


def test_rows_are_of_the_kind_of_the_data(traces):
    pyarrow.parquet.write_table(traces, "rows.parquet")
    expected = asap.prune("rows.parquet", "truncate", quiet=True)
    assert isinstance(expected.rows, pyarrow.Table) and expected.rejects["status"].to_pylist() != []
    prompts = expected.rows["prompt"].to_pylist()
    dataset = datasets.Dataset(traces)
    frames = [dataset, dataset.select(range(len(traces))), traces.to_pandas(), polars.DataFrame(traces)]
    for data in frames:
        pruned = asap.prune(data, "truncate", quiet=True)
        assert type(pruned.rows) is type(pruned.rejects) is type(data)
        found = pruned.rows["prompt"]
        found = found.to_list() if isinstance(found, (pandas.Series, polars.Series)) else list(found)
        assert [[dict(turn) for turn in prompt] for prompt in found] == prompts
    stream = asap.prune(dataset.to_iterable_dataset(), "truncate", quiet=True).rows
    assert isinstance(stream, datasets.IterableDataset)
    assert [row["prompt"] for row in stream] == prompts


def test_a_run_resumes_and_reports(traces):
    pyarrow.parquet.write_table(traces, "rows.parquet")
    first = asap.run("truncate", from_="rows.parquet", to="out", limit=5, quiet=True)
    assert (first["rows_in"], first["rows_beyond_limit"]) == (5, len(traces) - 5)
    asap.run("truncate", from_="rows.parquet", to="out", quiet=True)
    assert asap.run("truncate", from_="rows.parquet", to="out", quiet=True)["nothing_to_do"]
    assert asap.run("asap", from_="rows.parquet", to="other", dry_run=True, quiet=True)["rows"] == len(traces)


def test_sql_reads_tables_and_a_corpus(traces):
    query = "SELECT id, cot_tokens(cot) AS tokens FROM corpus WHERE status IS NULL ORDER BY id"
    pyarrow.parquet.write_table(traces, "rows.parquet")
    rows = asap.sql(query, corpus="rows.parquet").to_pylist()
    assert len(rows) > 5 and rows == asap.sql(query, corpus=polars.DataFrame(traces)).to_pylist()
    stream = pyarrow.RecordBatchReader.from_stream(
        asap.sql("SELECT * FROM a JOIN b USING (x)", a=pyarrow.table({"x": [1, 2]}), b=pandas.DataFrame({"x": [2]}))
    )
    assert stream.read_all().to_pylist() == [{"x": 2}]
    assert asap.sql("SELECT count(*) AS n FROM t", t="rows.parquet").to_pylist() == [{"n": len(traces)}]
    read = asap.sql("SELECT 1")
    read.to_pylist()
    with pytest.raises(asap.Error, match="read before"):
        pyarrow.table(read)


def test_a_second_map_reads_the_cache(traces, workplace, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(workplace / "cache"))
    pyarrow.parquet.write_table(traces, "rows.parquet")
    dataset = datasets.load_dataset("parquet", data_files="rows.parquet", split="train")
    first = dataset.map(asap.Pruner("truncate", refine_max_tokens=160), batched=True, batch_size=8, num_proc=2)
    assert {"prompt", "completion", "messages", "error", "status"} <= set(first.column_names)
    monkeypatch.setattr(asap.Pruner, "__call__", None)
    again = dataset.map(asap.Pruner("truncate", refine_max_tokens=160), batched=True, batch_size=8, num_proc=2)
    assert again._fingerprint == first._fingerprint and again["status"][:] == first["status"][:]


def test_a_batch_without_an_ok_row_has_the_types_of_others(traces):
    dataset = datasets.Dataset(traces.take([len(traces) - 1, 0, 1]))
    added = dataset.map(asap.Pruner("truncate", refine_max_tokens=160), batched=True, batch_size=1)
    assert added["prompt"][0] is None and added["prompt"][1][0]["role"] == "user"
    assert added["status"][:] == ["unverified", "ok", "ok"]


def test_a_pruner_keeps_the_library_of_a_batch(traces):
    pruner = asap.Pruner("truncate", refine_max_tokens=160)
    for batch in (traces, traces.combine_chunks().to_batches()[0], traces.to_pandas(), polars.DataFrame(traces)):
        added = pruner(batch)
        assert type(added) is type(batch) and len(added["status"]) == len(traces)


def test_rows_that_are_all_rejected_are_returned(traces):
    rejected = traces.slice(len(traces) - 1)
    pruned = asap.prune(rejected, "truncate", quiet=True)
    assert pruned.rows.num_rows == 0 and pruned.rejects["status"].to_pylist() == ["unverified"]


def test_a_failed_prune_keeps_its_paid_answers(traces):
    endpoint = Endpoint(faults=0)
    settings = {**endpoint.settings(), "anchor_max_calls": 3, "refine_max_tokens": 160, "quiet": True}
    with pytest.raises(asap.Error, match="the answers to sent calls are in") as error:
        asap.prune(traces, **settings)
    kept = re.search(r"pass to='(.*)' to use them", str(error.value))[1]
    del settings["anchor_max_calls"]
    asap.prune(traces, to=kept, **settings)
    assert len(endpoint.answers) >= 3 and endpoint.repeated() == []
    shutil.rmtree(os.path.dirname(kept))


def test_a_failed_prune_without_paid_answers_names_no_folder(traces):
    settings = {"anchor_provider": "openai", "anchor_base_url": "http://127.0.0.1:1/v1", "anchor_model": "none"}
    with pytest.raises(asap.UnavailableError) as error:
        asap.prune(traces, **settings, anchor_max_retries=0, quiet=True)
    assert "cannot connect" in str(error.value) and "asap-" not in str(error.value)

    def rows():
        yield {"question": "2 + 2?"}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="with to='out/pruned', a repeated call resumes"):
        asap.prune(datasets.IterableDataset.from_generator(rows), quiet=True)


def test_categories_are_read_as_text():
    frame = polars.DataFrame({"question": ["2 + 2?"], "cot": ["2 + 2 is 4."], "answer": ["4"]})
    pruned = asap.prune(frame.with_columns(polars.col("question").cast(polars.Categorical)), "truncate", quiet=True)
    assert pruned.rows["question"].to_list() == ["2 + 2?"]


def test_a_stream_needs_no_features():
    rows = [
        {"question": f"{n} + 1?", "cot": None if n % 3 else f"{n} + 1 is {n + 1}.", "answer": str(n + 1)}
        for n in range(9)
    ]
    stream = datasets.IterableDataset.from_generator(lambda: iter(rows))
    mapped = stream.map(lambda row: {"length": len(row["question"])})
    assert stream.features is None and mapped.features is None
    for each in (stream, mapped):
        pruned = asap.prune(each, "truncate", quiet=True)
        assert (len(list(pruned.rows)), len(list(pruned.rejects))) == (3, 6)
    assert asap.sql("SELECT count(cot) AS n FROM corpus", mapped).to_pylist() == [{"n": 3}]


def test_a_stream_whose_types_change_is_an_error(monkeypatch):
    monkeypatch.setattr("asap._data._BATCH", 4)
    rows = [{"question": f"{n} + 1?", "cot": "2." if n > 5 else None, "answer": "2"} for n in range(9)]
    with pytest.raises(asap.Error, match="have other types than later rows"):
        asap.prune(datasets.IterableDataset.from_generator(lambda: iter(rows)), "truncate", quiet=True)


def test_a_table_of_a_query_can_be_a_dataset():
    dataset = datasets.Dataset.from_dict({"x": [1, 2, 3]}).select([0, 2])
    assert asap.sql("SELECT * FROM t", t=dataset).to_pylist() == [{"x": 1}, {"x": 3}]


def test_a_pruner_is_equal_to_its_copy():
    pruner = asap.Pruner(refine_max_tokens=160, match_threshold=0.5)
    other = asap.Pruner(match_threshold=0.5, refine_max_tokens=160)
    assert pickle.loads(pickle.dumps(pruner)) == pruner == other and hash(pruner) == hash(other)
    assert pickle.dumps(pruner) == pickle.dumps(other)
    assert pruner != asap.Pruner(refine_max_tokens=161, match_threshold=0.5)
    data = pickle.dumps(pruner)
    with open("asap.toml", "w") as file:
        file.write('[scorer]\nprompt = "{question}"\n')
    with pytest.raises(asap.Error, match="other settings"):
        pickle.loads(data)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: asap.prune(pyarrow.table({"a": ["x"], "b": ["y"]}), quiet=True), "a (text), b (text)"),
        (lambda: asap.prune(pyarrow.table({"a": ["x"], "b": ["y"]}), quiet=True), "the columns of the data fit no"),
        (lambda: asap.prune("x", columns=["a", "b"]), "columns takes a dict"),
        (
            lambda: asap.run("asap", from_=datasets.Dataset.from_dict({"a": []}), to="b"),
            "expected a location, found a Dataset",
        ),
        (lambda: asap.Pruner()({"question": "2 + 2?", "cot": "4.", "answer": "4"}), "pass batched=True"),
        (lambda: asap.prune(42), "found an int"),
        (lambda: asap.Pruner()("traces"), "pass batched=True"),
        (
            lambda: asap.Pruner("examples")({"question": ["2 + 2?"], "cot": ["4."], "answer": ["4"]}),
            "a Pruner needs a pipeline",
        ),
        (lambda: asap.prune([1, 2]), "expected a list of dicts, one for each row, found 1 in place 0"),
        *(
            (lambda data=data: asap.prune(data), "expected a Dataset, an IterableDataset")
            for data in (3, pandas.Series(["a"]), polars.Series(["a"]), pyarrow.array(["a"]))
        ),
        (lambda: asap.prune("nowhere", quiet=True), "nowhere"),
        (lambda: asap.prune(datasets.DatasetDict(train=datasets.Dataset.from_dict({"a": []}))), "DatasetDict of train"),
        (lambda: asap.prune("x", part="1/2"), "pass part to asap.run"),
        (lambda: asap.Pruner(limit=3), "limit is a flag of asap run"),
        (lambda: asap.prune("x", lambda row: row), "found a function"),
        (lambda: asap.prune("x", "asp"), "did you mean asap?"),
        (lambda: asap.Pruner(refine_max_tokn=3), "did you mean refine_max_tokens?"),
        (lambda: asap.run("asap", from_="a", to="b", limt=3), "did you mean limit?"),
        (lambda: asap.run("asap", from_="a", to="b", limit=0), "invalid value '0' for limit"),
        (lambda: asap.sql("SELECT * FROM corpus"), "there is no table corpus"),
        (lambda: asap.sql("SELECT cot_step('a')"), "did you mean cot_steps?"),
    ],
)
def test_an_error_is_clear(call, message):
    with pytest.raises(asap.Error) as error:
        call()
    assert message in str(error.value)
