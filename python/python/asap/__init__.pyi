from os import PathLike
from typing import Any, NamedTuple

from asap import functions as functions, ray as ray
from asap._asap import Column as Column, Error as Error, Reader as Reader
from asap._messages import Note as Note
from asap.functions import (
    ai_complete as ai_complete,
    anchor as anchor,
    answer as answer,
    attribution as attribution,
    budget as budget,
    coarse as coarse,
    completion as completion,
    control_scores as control_scores,
    cut_off as cut_off,
    drop_functional as drop_functional,
    entropy as entropy,
    example as example,
    first_token as first_token,
    fit as fit,
    hollow as hollow,
    llmlingua2 as llmlingua2,
    match as match,
    mean_step_entropy as mean_step_entropy,
    perplexity as perplexity,
    prompt as prompt,
    random as random,
    refine as refine,
    refine_exactly as refine_exactly,
    refine_or_fit as refine_or_fit,
    repetition as repetition,
    response as response,
    scripts as scripts,
    select as select,
    selective_context as selective_context,
    self_information as self_information,
    shortest_correct as shortest_correct,
    shortest_surviving as shortest_surviving,
    similarity as similarity,
    similarity_difflib as similarity_difflib,
    step_entropy as step_entropy,
    steps as steps,
    surprisal as surprisal,
    survives as survives,
    think as think,
    token_entropies as token_entropies,
    tokens as tokens,
    tokenskip_answer as tokenskip_answer,
    too_long as too_long,
    trace as trace,
    truncate as truncate,
    turns as turns,
    unstated as unstated,
    verify as verify,
)

__version__: str

def pipelines() -> dict[str, str]:
    ...

def settings() -> dict[str, str]:
    ...

def sql(query: str, corpus: Any=None, *, columns: dict[str, str] | None=None, settings: dict[str, Any] | None=None, **tables: Any) -> Reader:
    ...

def run(pipeline: str | PathLike, *, from_: str | PathLike | list, to: str | PathLike, columns: dict[str, str] | None=None, quiet: bool=False, **options: Any) -> dict[str, Any]:
    ...

class Pruned(NamedTuple('Pruned', [('rows', Any), ('rejects', Any), ('summary', dict[str, Any])])):
    rows: Any
    rejects: Any
    summary: dict[str, Any]

class Report:

    def __init__(self, data: Any, against: str | PathLike | None=None, exam: str | PathLike | None=None) -> None:
        ...

    def to(self, file: str | PathLike) -> None:
        ...

def report(data: Any, *, against: str | PathLike | None=None, exam: str | PathLike | None=None) -> Report:
    ...

def prune(data: Any, pipeline: str | PathLike='asap', columns: dict[str, str] | None=None, *, to: str | PathLike | None=None, **options: Any) -> Pruned:
    ...

class Pruner:
    fingerprint: str

    def __init__(self, pipeline: str | PathLike='asap', columns: dict[str, str] | None=None, **settings: Any) -> None:
        ...

    def __call__(self, batch: Any) -> Any:
        ...
