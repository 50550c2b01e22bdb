"""What a type checker finds about calls of asap. It only checks this file."""

from typing import Any

import asap
import asap.functions
import polars
from typing_extensions import assert_type

TEXTS: list[str] = ["Hm.\n\n2 + 2 is 4."]
STEPS: list[list[str]] = [["Hm.", "2 + 2 is 4."]]
SCORES: list[list[float]] = [[0.1, 3.2]]


def functions() -> None:
    assert_type(asap.steps("a\n\nb"), list[str | None] | None)
    assert_type(asap.steps(TEXTS, "line"), list[list[str | None] | None])
    assert_type(asap.verify("4", "4"), bool | None)
    assert_type(asap.tokens(["a", None]), list[int | None])
    assert_type(asap.refine(("a", "b"), (0.1, 3), 12), list[int | None] | None)
    assert_type(asap.refine(STEPS, SCORES, max_tokens=12, scorer_model="small"), list[list[int | None] | None])
    assert_type(asap.turns([[{"role": "user", "content": "2 + 2?"}]], "user"), list[list[str | None] | None])
    assert_type(asap.surprisal("2 + 2?", STEPS), list[list[float | None] | None])
    assert_type(asap.functions.match("a", "a", tau=0.9), list[dict[str, Any] | None] | None)
    asap.steps(polars.Series(TEXTS))
    asap.steps(3)  # pyright: ignore[reportArgumentType, reportCallIssue]
    asap.fit(["a"])  # pyright: ignore[reportCallIssue]
    asap.refine(["a", "b"], (0.1, 3))  # pyright: ignore[reportArgumentType, reportCallIssue]


def jobs() -> None:
    pruned = asap.prune([{"question": "2 + 2?"}], "truncate", max_tokens=8, to="out")
    assert_type(pruned, asap.Pruned)
    assert_type(pruned.summary["rows_in"], Any)
    assert_type(asap.run("asap", from_=["a=in"], to="out", limit=3), dict[str, Any])
    assert_type(asap.exam(["asap"], "in", "out", questions=3, scorer_model="small"), dict[str, Any])
    assert_type(asap.ray.run("asap", "in", "out", parts=4), dict[str, Any])
    assert_type(asap.sql("SELECT 1").to_pylist(), list[dict[str, Any]])
    assert_type(asap.sql("SELECT 1").to_polars(), polars.DataFrame)
    assert_type(asap.report(pruned).html, str)
    assert_type(asap.Pruner(columns={"question": "q"}).fingerprint, str)
    assert_type(asap.settings(), dict[str, str])
    asap.run("asap", to="out")  # pyright: ignore[reportCallIssue]
    try:
        asap.prune(3)
    except (asap.ArgumentError, asap.InputError, asap.RejectsError, asap.TableError, asap.UnavailableError) as error:
        assert_type(str(error), str)
