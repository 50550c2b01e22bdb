"""Each function gives what SQL gives."""

import asap
import pandas
import polars
import pyarrow
import pytest
from asap import _asap

TEXTS = ["Hm. 🧮\r\n\r\n2 + 2 is 4.\n\nDone 👩‍👩‍👧.", "", None, "one\n \ntwo\n\n\n\n  three ", "思 \\boxed{4} ü"]
GENERATIONS = ["<think>a 🙂\r\n\r\nb</think>\r\nIt is \\boxed{4}.", "no tags", None, "", "<think></think>x"]
STEPS = [["Hm. 🧮", "2 + 2 is 4.", "Done."], [], None, ["a\r\nb", None], ["one"]]
SCORES = [[0.1, 3.2, 1.4], [], None, [None, 2.0], [1.0]]
KEPT = [[2, 3], [], None, [1], [1]]
QUESTIONS = ["2 + 2?", "", None, "a 🧮?", "思?"]
# The arguments of each function, by their names in SQL.
CALLS = {
    "steps": [TEXTS],
    "think": [GENERATIONS],
    "response": [GENERATIONS],
    "answer": [GENERATIONS],
    "verify": [["4", "4", None, "", "x"], GENERATIONS],
    "similarity": [TEXTS, list(reversed(TEXTS))],
    "match": [TEXTS, TEXTS, 0.5],
    "tokens": [TEXTS],
    "surprisal": [QUESTIONS, STEPS],
    "perplexity": [QUESTIONS, STEPS],
    "entropy": [QUESTIONS, STEPS],
    "refine": [STEPS, SCORES, 8],
    "trace": [STEPS, None, None, SCORES, KEPT, "surprisal"],
    "example": [QUESTIONS, TEXTS, "4"],
}


def by_sql(name, arguments):
    columns = {f"c{place}": of for place, of in enumerate(arguments) if isinstance(of, list)}
    words = {None: "NULL", "4": "'4'", "surprisal": "'surprisal'"}
    written = [f"c{place}" if isinstance(of, list) else words.get(of, str(of)) for place, of in enumerate(arguments)]
    rows = pyarrow.table({"row": list(range(5)), **columns})
    query = f"SELECT cot_{name}({', '.join(written)}) AS found FROM rows ORDER BY row"
    return pyarrow.table(asap.sql(query, rows=rows))["found"].to_pylist()


@pytest.mark.parametrize("name", CALLS)
def test_a_function_gives_what_sql_gives(name):
    expected = by_sql(name, CALLS[name])
    assert len(expected) == 5 and any(row is not None for row in expected)
    function = getattr(asap, name)
    assert function(*CALLS[name]) == expected
    columns = [pyarrow.array(of) if isinstance(of, list) else of for of in CALLS[name]]
    assert function(*columns).to_pylist() == expected
    # Chunks that differ from column to column.
    cut = [
        pyarrow.chunked_array([of[:place], of[place:]]) if isinstance(of, pyarrow.Array) else of
        for place, of in enumerate(columns, 1)
    ]
    assert function(*cut).to_pylist() == expected


def test_every_sql_function_is_here_with_its_arguments():
    rows = asap.sql(
        "SELECT DISTINCT routine_name AS name FROM information_schema.routines WHERE function_type = 'SCALAR'"
    ).to_pylist()
    names = {row["name"] for row in rows if row["name"].startswith("cot_") or row["name"] == "ai_complete"}
    assert len(names) > 40
    for name in names:
        function = getattr(asap, name.removeprefix("cot_"))
        assert function.__doc__ and callable(function)
        assert getattr(asap.functions, name.removeprefix("cot_")).__doc__
    assert set(CALLS) <= {name.removeprefix("cot_") for name in names}


def test_a_result_is_of_the_library_of_its_argument():
    expected = asap.steps(TEXTS)
    assert asap.steps(polars.Series(TEXTS)).to_list() == expected
    found = asap.steps(pandas.Series(TEXTS))
    # pandas 2 has no Arrow interface for a Series, which is read as a list.
    assert isinstance(found, pandas.Series if int(pandas.__version__.split(".")[0]) > 2 else list)
    assert [None if row is None else list(row) for row in found] == expected
    assert isinstance(asap.steps(pyarrow.chunked_array([TEXTS])), pyarrow.ChunkedArray)
    assert asap.steps(pyarrow.table({"cot": TEXTS})).to_pylist() == expected
    table = pyarrow.table({"texts": TEXTS})
    own = _asap.call("cot_steps", [table["texts"]], [])
    assert (len(own), own.to_pylist(), pyarrow.chunked_array(own).to_pylist()) == (5, expected, expected)


def test_results_are_in_the_order_of_many_rows():
    texts = [f"step {row}\n\nend" for row in range(50_000)]
    assert asap.steps(pyarrow.array(texts)).to_pylist() == [[f"step {row}", "end"] for row in range(50_000)]


def test_values_and_nothing():
    assert asap.verify("0.5", "It is \\boxed{\\frac{1}{2}}.") is True
    assert asap.think("no tags") is None
    assert asap.steps([]) == [] and asap.steps(pyarrow.array([], pyarrow.string())).to_pylist() == []
    assert asap.match("a", "a", tau=0.9) == [{"step": 1, "similarity": 1.0}]
    assert asap.turns([[{"role": "user", "content": "2 + 2?"}]], "user") == [["2 + 2?"]]


def test_settings_are_keywords():
    steps, scores = ("Hm.", "2 + 2 is 4.", "Done."), (0.1, 3.2, 1.4)
    assert asap.refine(steps, scores, refine_max_tokens=12) == asap.refine(steps, scores, 12) == [2, 3]


def test_steps_of_an_output_are_values():
    steps = ({"step": 1, "tokens": 3, "dropped": None}, {"step": 2, "tokens": 2, "dropped": "truncate"})
    assert asap.kept(steps) == [1] and asap.kept([steps, None]) == [[1], None]


def test_large_numbers_are_kept():
    assert asap.sql("SELECT arrow_cast('18446744073709551615', 'UInt64') AS n").to_pylist() == [{"n": 2**64 - 1}]


def endless():
    steps = []
    steps.append(steps)
    return steps


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: asap.turns(endless(), "user"), "check whether a list contains itself"),
        (lambda: asap.steps("a", refine_max_token=3), "no setting refine_max_token (did you mean refine_max_tokens?)"),
        (lambda: asap.steps("a", refine_max_tokens="few"), "refine_max_tokens takes a whole number"),
        (lambda: asap.steps(3), "cot of asap.steps takes a text, or a list of them as a column, found an int"),
        (
            lambda: asap.refine(["a", "b"], [0.1, 0.2], 5),
            "steps of asap.refine takes a tuple of texts, or a list of them as a column, found a list of str. "
            "A list is a column with a value for each row: write the steps of one row as a tuple",
        ),
        (lambda: asap.refine(("a", "b"), 0.1, 5), "scores of asap.refine takes a tuple of numbers"),
        (lambda: asap.refine([(1, 2)], (0.1, 0.2), 5), "found a list of tuple of int"),
        (lambda: asap.steps(True), "found a bool"),
        (lambda: asap.match("a", "a", tau=3), "argument tau of asap.match must be a number from 0 to 1, found 3"),
        (lambda: asap.similarity(["a"], ["a", "b"]), "the same number of rows, found 1 and 2"),
        (lambda: asap.steps([object()]), "found a value of type object"),
        (lambda: asap.steps(["a", 1]), "values of one type, found str and int"),
    ],
)
def test_an_error_is_clear(call, message):
    with pytest.raises(asap.Error) as error:
        call()
    assert message in str(error.value)
