"""Messages name the arguments of Python, and notes are warnings."""

import os
import re
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import asap
import pyarrow
import pyarrow.parquet
import pytest
from asap import _messages
from endpoint import Endpoint

TEXTS = pyarrow.table({"Frage": ["2 + 2?"], "Weg": ["2 + 2 is 4."]})
GOOD = pyarrow.table({"question": ["2 + 2?"] * 3, "cot": ["2 + 2 is 4."] * 3, "answer": ["4"] * 3})


CALLS = {
    "prune": lambda **given: asap.prune(given.pop("data"), "truncate", **given),
    "run": lambda data, **given: asap.run("truncate", from_=file_of(data), to="out", **given),
    "sql": lambda data, **given: asap.sql("SELECT * FROM corpus", data, **given),
    "Pruner": lambda data, **given: asap.Pruner("truncate", **given)(data),
}


def file_of(data):
    pyarrow.parquet.write_table(data, "mine.parquet")
    return "mine.parquet"


def run(data=GOOD, pipeline="truncate", **options):
    return asap.run(pipeline, from_=file_of(data), to="out", quiet=True, **options)


def changed():
    run()
    run(GOOD.slice(1))


def served():
    run(MANY, "asap", **Endpoint(faults=0).settings(), anchor_max_calls=2)


def set_in_a_file():
    Path("asap.toml").write_text("on_error = 'stop'")
    run()


def down():
    settings = {"anchor_provider": "openai", "anchor_base_url": "http://127.0.0.1:1/v1", "anchor_model": "none"}
    run(pipeline="asap", **settings, anchor_max_retries=0)


CHAIN = "The sum of {0} and 1 is asked.\n\nHm, {0} and 1.\n\n{0} + 1 is {1}.\n\nSo it is {1}."
MANY = [{"question": f"{n} + 1?", "cot": CHAIN.format(n, n + 1), "answer": str(n + 1)} for n in range(8)]
MANY = pyarrow.Table.from_pylist(MANY)
EMPTY = GOOD.set_column(1, "cot", pyarrow.array([None] * 3, pyarrow.string()))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: run(refine_max_tokens="few"), asap.ArgumentError, "^refine_max_tokens takes .*, found 'few'$"),
        (set_in_a_file, asap.ArgumentError, r"^on_error takes 'reject' or 'fail', found 'stop' \(from asap\.toml\)$"),
        (lambda: run(part="x"), asap.ArgumentError, "^invalid value 'x' for part: part takes K/N"),
        (lambda: run(limit=2, sample=2), asap.ArgumentError, "(limit|sample) cannot be used with (limit|sample)$"),
        (lambda: run(seed=2), asap.ArgumentError, "were not provided: sample$"),
        (lambda: run(originals="nope"), asap.ArgumentError, "^originals names nope"),
        (lambda: run(EMPTY, max_rejects=1), asap.RejectsError, "more than max_rejects=1 allows"),
        (lambda: run(EMPTY), asap.RejectsError, "^none of 3 rows reached the output"),
        (
            changed,
            asap.InputError,
            "use on_change='reprocess' to replace these rows, or on_change='ignore' to keep them",
        ),
        (lambda: run(TEXTS), asap.InputError, "columns={'question': '\\?', 'cot': '\\?', 'answer': '\\?'}"),
        (served, asap.BudgetError, "anchor_max_calls allows 2 requests.* raise that setting and repeat the call$"),
        (lambda: asap.sql("SELECT * FROM corpus"), asap.InputError, "pass its location or its rows as corpus=…$"),
        (lambda: asap.sql("SET asap.nothing = 1"), asap.ArgumentError, "no setting nothing; asap.settings\\(\\) lists"),
        (lambda: asap.sql("SELEC 1"), asap.InputError, "^SQL: "),
        (
            lambda: run(pipeline="asap", anchor_provider="openai"),
            asap.ArgumentError,
            "^anchor_provider = 'openai' needs an endpoint",
        ),
        (down, asap.UnavailableError, "or set anchor_base_url to its address$"),
    ],
)
def test_an_error_names_arguments_and_has_a_class(workplace, call, kind, words):
    with pytest.raises(asap.Error) as error:
        call()
    assert type(error.value) is kind and re.search(words, str(error.value)), repr(error.value)
    assert not re.search(r"--|same command|asap\.(anchor|refine|on_error)", str(error.value)), str(error.value)


def test_a_run_that_another_one_replaces_is_a_failure_of_the_table():
    endpoint, failed = Endpoint(faults=0, pause=0.5), []
    options = {"from_": file_of(MANY), "to": "out", "quiet": True, "slice_rows": 1, "commit_every": 0}
    slow = {**endpoint.settings(), "anchor_max_concurrent_requests": 1}
    first = threading.Thread(target=lambda: failed.append(failure(lambda: asap.run("asap", **options, **slow))))
    first.start()
    while not os.path.exists("out/_delta_log/00000000000000000001.json"):
        assert first.is_alive()
        time.sleep(0.01)
    asap.run("truncate", **options, new_generation=True)
    first.join()
    assert isinstance(failed[0], asap.TableError) and "Repeat the call if you still want its rows" in str(failed[0])


def failure(call):
    with pytest.raises(asap.Error) as error:
        call()
    return error.value


@pytest.mark.parametrize("job", CALLS)
def test_errors_speak_python(job):
    with pytest.raises(asap.Error) as error:
        CALLS[job](data=TEXTS)
    assert "columns={'question': '?', 'cot': '?', 'answer': '?'}" in str(error.value)
    assert not re.search(r"--|rows\.parquet|/tmp/asap-", str(error.value))
    assert ("of the data fit" in str(error.value)) == (job != "run")
    for columns in ({"question": "Frage", "cot": "?"}, {"question": "Frage"}, {"question": "Frage", "cot": "nope"}):
        with pytest.raises(asap.Error) as error:
            CALLS[job](data=TEXTS, columns=columns)
        assert not re.search(r"--|rows\.parquet|/tmp/asap-", str(error.value)), str(error.value)
    with pytest.raises(asap.Error, match=r"^columns has the key 'questoin' \(did you mean question\?\)"):
        CALLS[job](data=TEXTS, columns={"questoin": "Frage"})


@pytest.mark.parametrize("job", CALLS)
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("max_token", "max_tokens"),
        ("max_tokns", "max_tokens"),
        ("ration", "ratio"),
        ("tokens", "max_tokens"),
        ("refine_maxtokens", "refine_max_tokens"),
        ("threshold", "match_threshold"),
        ("modle", "anchor_model"),
        ("asap.refine.ratio", "refine_ratio"),
        ("scorer_devise", "scorer_device"),
        ("Max_Tokens", "max_tokens"),
        ("provider", "anchor_provider"),
        ("max_cost", "anchor_max_cost"),
        ("on_eror", "on_error"),
    ],
)
def test_a_misspelled_setting_gets_a_suggestion(job, name, meant):
    given = {"settings": {name: 1}} if job == "sql" else {name: 1}
    with pytest.raises(asap.Error) as error:
        CALLS[job](data=GOOD, **given)
    assert str(error.value).startswith(f"there is no setting {name} (did you mean {meant}"), str(error.value)


@pytest.mark.parametrize(("name", "meant"), [("colums", "columns"), ("qiet", "quiet"), ("maxrejects", "max_rejects")])
def test_a_misspelled_argument_gets_a_suggestion(name, meant):
    with pytest.raises(asap.Error, match=rf"\(did you mean {meant}\?\)"):
        asap.run("asap", from_="a", to="b", **{name: 1})


def test_the_budget_has_short_names(workplace):
    chain = "\n\n".join(f"Step {number} of a chain is here." for number in range(20))
    rows = [{"question": "2 + 2?", "cot": chain, "answer": "4"}]
    tokens = lambda found: found.rows[0]["pruned_tokens"]
    full = asap.prune(rows, "truncate", quiet=True).rows[0]["original_tokens"]
    assert tokens(asap.prune(rows, "truncate", max_tokens=40, quiet=True)) <= 40 < full
    assert tokens(asap.prune(rows, "truncate", ratio=0.5, quiet=True)) <= full / 2
    assert tokens(asap.prune(rows, "truncate", ratio=None, max_tokens=None, quiet=True)) == full
    assert asap.Pruner("truncate", max_tokens=40) == asap.Pruner("truncate", refine_max_tokens=40)
    steps, scores = ("Hm.", "2 + 2 is 4.", "Done."), (0.1, 3.2, 1.4)
    assert asap.fit(steps, scores, 99) == asap.refine(steps, scores, max_tokens=99) == [1, 2, 3]
    assert asap.sql("SHOW asap.refine.max_tokens", settings={"max_tokens": 7}).to_pylist()[0]["value"] == "7"
    asap.run("truncate", from_=file_of(pyarrow.Table.from_pylist(rows)), to="out", max_tokens=40, quiet=True)
    assert asap.sql("SELECT max(pruned_tokens) <= 40 AS fits FROM 'out'").to_pylist() == [{"fits": True}]
    with pytest.raises(
        asap.Error, match="refine_max_tokens and max_tokens are one setting|max_tokens and refine_max_tokens are one"
    ):
        asap.prune(rows, max_tokens=3, refine_max_tokens=4)
    with pytest.raises(asap.Error, match=r"keywords of asap.sql are tables: pass settings=\{'max_tokens': 3\}"):
        asap.sql("SELECT 1", max_tokens=3)


NOTED = pyarrow.table({"Question": ["2 + 2?"], "cot": ["2 + 2 is 4."], "answer": ["4"]})
TWICE = """
import asap, pyarrow
rows = pyarrow.table({"Question": ["2 + 2?"], "cot": ["2 + 2 is 4."], "answer": ["4"]})
for _ in range(3):
    asap.prune(rows)
"""


def test_notes_are_warnings_once_in_a_process():
    shown = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True).stderr
    assert shown.count("made with default models") == 1 and "<string>:5: Note:" in shown, shown
    assert not re.search(r"--|rows\.parquet|/tmp/asap-|asap\.scorer", shown), shown
    for flags, more in (["-Wignore"], ""), ([], "import warnings; warnings.simplefilter('ignore', asap.Note)\n"):
        code = TWICE.replace("rows =", f"{more}rows =")
        assert subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True).stderr == ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asap.prune(NOTED, quiet=True)
        assert not [each for each in caught if each.category is asap.Note]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _messages._shown.clear()
        with pytest.raises(asap.Note):
            asap.prune(NOTED)


def test_an_output_that_another_run_filled_is_an_error_without_slices(workplace):
    asap.run("truncate", from_=file_of(GOOD), to="out", quiet=True)
    with pytest.raises(asap.Error) as error:
        asap.run("truncate", from_="mine.parquet", to="out", max_tokens=3, quiet=True)
    assert "refine_max_tokens" in str(error.value) and "new_generation=True" in str(error.value)
    assert not re.search(r"--|asap\.refine|slice", str(error.value)), str(error.value)


NOTEBOOK = """
import sys, time, types

class Display:
    shown = []

    def __call__(self, data, **options):
        self.shown.append(data["text/plain"])
        return types.SimpleNamespace(update=self)

sys.modules |= {"ipykernel": types.ModuleType("ipykernel"), "IPython.display": types.SimpleNamespace(display=Display())}
sys.modules["IPython"] = types.SimpleNamespace(display=sys.modules["IPython.display"])
import asap
from asap import _messages, _progress

_progress._DRAWN = 0
progress = _progress.Progress()
for rows in range(3):
    progress(f"{rows} rows")
progress.close()
_messages.note("The data are odd.")
print(Display.shown)
"""


def test_a_notebook_has_one_display_and_notes_without_places():
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True)
    shown = "['pruning: 0 rows', 'pruning: 1 rows', 'pruning: 2 rows', '']\n"
    assert (done.stdout, done.stderr) == (shown, "note: The data are odd.\n")
