"""What is data, what a result is, and data that cannot be read."""

import pickle
from importlib import metadata

import asap
import datasets
import numpy
import pandas
import polars
import pyarrow
import pytest
from packaging.version import Version

ROWS = [
    {"question": "2 + 2?", "cot": "Hm.\n\n2 + 2 is 4.", "answer": "4"},
    {"question": "3 · 5?", "cot": "Three fives.\n\n3 · 5 is 15.", "answer": "15", "note": {"page": 3}},
    {"question": "1?", "cot": None, "answer": "1"},
]
COLUMNS = {name: [row.get(name) for row in ROWS] for name in ("question", "cot", "answer", "note")}
GOOD = {"question": ["2 + 2?"], "cot": ["2 + 2 is 4."], "answer": ["4"]}


def test_rows_in_lists_and_dicts_are_data():
    rows, columns = (asap.prune(data, "truncate", quiet=True) for data in (ROWS, COLUMNS))
    assert type(rows.rows) is list and type(rows.rejects) is list and type(columns.rows) is dict
    assert [row["prompt"][0]["content"] for row in rows.rows] == ["2 + 2?", "3 · 5?"]
    assert columns.rows["prompt"] == [row["prompt"] for row in rows.rows]
    # A column that the first row lacks.
    assert [row["note"] for row in rows.rows] == columns.rows["note"] == [None, {"page": 3}]
    assert [row["status"] for row in rows.rejects] == columns.rejects["status"] == ["empty_chain"]
    added = asap.Pruner("truncate")(ROWS)
    assert [row["status"] for row in added] == ["ok", "ok", "empty_chain"] and added[1]["note"] == {"page": 3}
    assert asap.Pruner("truncate")(COLUMNS)["status"] == ["ok", "ok", "empty_chain"]
    for data in (ROWS, COLUMNS, tuple(ROWS), {name: numpy.array(GOOD[name]) for name in GOOD}):
        assert asap.sql("SELECT count(*) AS n FROM corpus WHERE cot <> ''", data).to_pylist()[0]["n"] in (1, 2)
        assert len(asap.sql("SELECT * FROM t", t=data).to_pylist()) in (1, 3)
    # NaN in a column of texts, as `to_dict` writes it.
    frame = pandas.DataFrame(ROWS).drop(columns="note")
    assert asap.prune(frame.to_dict("records"), "truncate", quiet=True).summary["rows_rejected"] == 1


EMPTY = [
    [],
    {},
    {name: [] for name in GOOD},
    pandas.DataFrame(),
    pandas.DataFrame(columns=["question", "cot", "answer"]),
    pandas.DataFrame(GOOD).head(0),
    polars.DataFrame(),
    polars.DataFrame(GOOD).lazy().head(0),
    pyarrow.table({"problem": pyarrow.nulls(0), "generations": pyarrow.array([], pyarrow.list_(pyarrow.string()))}),
    pyarrow.table({"Weird": pyarrow.array([], pyarrow.int64())}),
    datasets.Dataset.from_dict(GOOD).select([]),
    datasets.IterableDataset.from_generator(lambda: iter(())),
]


@pytest.mark.parametrize("data", EMPTY, ids=lambda data: type(data).__module__)
@pytest.mark.parametrize("pipeline", ["truncate", "asap", "examples"])
def test_data_without_rows_gives_no_rows(data, pipeline):
    found = asap.prune(data, pipeline)
    kind = polars.DataFrame if isinstance(data, polars.LazyFrame) else type(data)
    assert type(found.rows) is type(found.rejects) is kind and found.summary["nothing_to_do"]
    assert repr(found) == "<asap.Pruned: 0 rows, 0 rejects>"
    names = [columns_of(each) for each in found[:2]]
    filled = list(asap.prune(GOOD, pipeline, quiet=True).rows)
    # A run also copies columns of the data.
    assert kind is list or (names[0] == filled[: len(names[0])] and set(names[1]) == {*names[0], "status", "error"})


def columns_of(data):
    return list(getattr(data, "column_names", None) or getattr(data, "columns", data))


def test_a_day_without_rows(workplace):
    mapping = {"question": "Prompt", "cot": "Reasoning"}
    frame = pandas.DataFrame({"Prompt": ["2 + 2?"], "Reasoning": ["<think>\n2 + 2 is 4.\n</think>\n\n4"]})
    assert len(asap.prune(frame, "truncate", mapping, to="out", quiet=True).rows) == 1
    # The rows of the data are replaced, as those of any other day are.
    assert len(asap.prune(frame.head(0), "truncate", mapping, to="out", quiet=True).rows) == 0
    assert len(asap.prune(frame, "truncate", mapping, to="out", quiet=True).rows) == 1
    assert len(asap.prune(frame.head(0), "truncate", mapping, quiet=True).rejects) == 0
    (workplace / "mine.sql").write_text('SELECT source, question, "Extra" AS other FROM corpus')
    extra = pandas.DataFrame({**GOOD, "Extra": ["x"]})
    assert list(asap.prune(extra.head(0), "mine.sql", quiet=True).rows) == ["source", "question", "other"]
    (workplace / "empty").mkdir()
    (workplace / "none.jsonl").write_text("")
    for location in ("empty", "none.jsonl"):
        assert asap.prune(location, "truncate", quiet=True).rows.num_rows == 0
    with pytest.raises(asap.Error, match="did you mean refine_max_tokens"):
        asap.prune([], refine_max_tokn=3)


def test_a_query_is_read_batch_by_batch():
    columns = "value AS n, concat('text ', value) AS text, [{'a': value}] AS deep"
    query = f"SELECT {columns} FROM generate_series(1, 20000) ORDER BY n"
    expected = asap.sql(query).to_pylist()
    batches = list(asap.sql(query))
    assert len(batches) > 1 and all(isinstance(batch, pyarrow.RecordBatch) for batch in batches)
    assert [row for batch in batches for row in batch.to_pylist()] == expected
    table = asap.sql(query).to_arrow()
    assert table.to_pylist() == expected and table.schema.field("text").type == pyarrow.string()
    assert asap.sql(query).to_pandas()["text"].tolist() == asap.sql(query).to_polars()["text"].to_list()
    assert asap.sql(query).to_polars().to_dicts() == expected
    reader = asap.sql(query)
    first = next(iter(reader))
    assert first.num_rows + len(reader.to_pylist()) == 20_000
    nothing = "SELECT 'a' AS text WHERE false"
    assert list(asap.sql(nothing)) == [] and asap.sql(nothing).to_polars().columns == ["text"]
    assert asap.sql(nothing).to_arrow().column_names == list(asap.sql(nothing).to_pandas()) == ["text"]


@pytest.mark.parametrize(
    "read",
    [
        list,
        *(lambda of, name=name: getattr(of, name)() for name in ("to_arrow", "to_pandas", "to_polars", "to_pylist")),
    ],
)
def test_a_query_that_fails_while_it_is_read_is_an_error_of_asap(read):
    with pytest.raises(asap.Error, match="^Divide by zero"):
        read(asap.sql("SELECT 1 / (value - 9000) AS n FROM generate_series(1, 20000)"))
    reader = asap.sql("SELECT 1 AS n")
    read(reader)
    with pytest.raises(asap.Error, match="were read before"):
        read(reader)


UNREADABLE = [
    pandas.DataFrame({**GOOD, "odd": [object()]}),
    pandas.DataFrame({**GOOD, "odd": [1j]}),
    pandas.DataFrame({name: values * 2 for name, values in GOOD.items()} | {"odd": [1, "a"]}),
    pandas.DataFrame({name: values * 2 for name, values in GOOD.items()} | {"odd": [{"a": 1}, [2]]}),
    polars.DataFrame({**GOOD, "odd": [object()]}),
    polars.DataFrame({**GOOD, "odd": [2**100]}),
    polars.DataFrame({**GOOD, "odd": [1j]}).lazy(),
    [{name: values[0] for name, values in GOOD.items()} | {"odd": object()}],
    {**GOOD, "odd": [2**80]},
    {**GOOD, "odd": numpy.array([1j])},
    pyarrow.table({**GOOD, "odd": pyarrow.array([pyarrow.MonthDayNano([1, 2, 3])])}),
    pyarrow.table({**GOOD, "odd": pyarrow.array([[pyarrow.MonthDayNano([1, 2, 3])]])}),
    pyarrow.table(
        {**GOOD, "odd": pyarrow.UnionArray.from_sparse(pyarrow.array([0], pyarrow.int8()), [pyarrow.array([1])])}
    ),
    pandas.DataFrame([["a", "b", "c", "d", "e"]], columns=["question", "cot", "answer", "odd", "odd"]),
    {**GOOD, "odd": "text"},
    {**GOOD, "odd": []},
]


@pytest.mark.parametrize("data", UNREADABLE)
def test_a_column_that_cannot_be_read_is_named(data):
    for call in (lambda: asap.prune(data, "truncate", quiet=True), lambda: asap.sql("SELECT 1 FROM corpus", data)):
        with pytest.raises(asap.Error, match="odd"):
            call()
    if not isinstance(data, (dict, polars.LazyFrame)):
        with pytest.raises(asap.Error, match="odd"):
            asap.Pruner("truncate")(data)
    if isinstance(data, (pandas.DataFrame, polars.DataFrame)) and list(data.columns).count("odd") == 1:
        with pytest.raises(asap.Error, match="odd"):
            asap.tokens(data["odd"])


def test_what_is_shown_is_short():
    pruned = asap.prune(ROWS, "truncate", quiet=True)
    assert repr(pruned) == "<asap.Pruned: 2 rows, 1 rejects>"
    assert repr(asap.prune(ROWS, dry_run=True, quiet=True)) == "<asap.Pruned: an estimate for 3 rows>"
    pruner = asap.Pruner("truncate", max_tokens=64, columns={"question": "q", "cot": "c"})
    assert repr(pruner) == "<asap.Pruner of truncate: columns={'question': 'q', 'cot': 'c'}, refine_max_tokens=64>"
    assert repr(asap.Pruner()) == "<asap.Pruner of asap>"
    assert repr(pickle.loads(pickle.dumps(asap.Pruner(ratio=0.5)))) == "<asap.Pruner: refine_ratio=0.5>"


def test_the_names_of_the_package():
    assert Version(asap.__version__).public == metadata.version("asap-cot")
    assert {"prune", "run", "sql", "Pruner", "functions"} <= set(dir(asap)) and "steps" not in dir(asap)
    with pytest.raises(AttributeError, match=r"has no attribute 'step' \(did you mean steps\?\)"):
        asap.step  # noqa: B018
    assert "steps" in dir(asap.functions) and asap.functions.steps is asap.steps
    assert asap.functions(("2 + 2 is 4.",)) == asap.functions.functions(("2 + 2 is 4.",)) == ["progress"]
