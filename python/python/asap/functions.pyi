"""The functions of asap, each of which is also an attribute of `asap`."""

# The tests write this file with UPDATE=1.
# The types of values are among those of lists.
# pyright: reportOverlappingOverload=false

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, overload

class _Stream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _Array(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...

class _Listed(Protocol):
    """An array of NumPy, or a Series of pandas 2."""

    def tolist(self) -> Any: ...

_Arrow: TypeAlias = _Stream | _Array | _Listed
_Turn: TypeAlias = dict[str, Any] | dict[str, str] | dict[str, str | None]

__all__ = [
    "ai_complete", "anchor", "answer", "attribution", "budget", "call_faults", "closest_correct", "coarse",
    "completion", "control_scores", "cut_off", "drop_functional", "entropy", "example", "first_token", "fit",
    "hollow", "kept", "llmlingua2", "match", "mean_step_entropy", "messages", "no_score", "perplexity", "prompt",
    "pruned_turns", "random", "rank_surprisal", "refine", "refine_exactly", "refine_or_fit", "repetition",
    "response", "scripts", "select", "selective_context", "self_information", "shortest_correct",
    "shortest_surviving", "similarity", "similarity_difflib", "step_entropy", "step_rank_surprisal", "steps",
    "surprisal", "survives", "think", "token_entropies", "tokens", "tokenskip_answer", "too_long", "trace",
    "truncate", "turns", "unstated", "verify"
]
_Text: TypeAlias = str | None
_TextList: TypeAlias = _Text | list[str] | list[str | None]
_TextArrow: TypeAlias = _TextList | _Arrow
_Int: TypeAlias = int | None
_IntList: TypeAlias = _Int | Sequence[int | None]
_IntArrow: TypeAlias = _IntList | _Arrow
_Number: TypeAlias = float | None
_NumberList: TypeAlias = _Number | Sequence[float | None]
_NumberArrow: TypeAlias = _NumberList | _Arrow
_Texts: TypeAlias = tuple[str | None, ...] | None
_TextsList: TypeAlias = _Texts | Sequence[list[str] | list[str | None] | tuple[str | None, ...] | None]
_TextsArrow: TypeAlias = _TextsList | _Arrow
_Ints: TypeAlias = tuple[int | None, ...] | None
_IntsList: TypeAlias = _Ints | Sequence[Sequence[int | None] | None]
_IntsArrow: TypeAlias = _IntsList | _Arrow
_Numbers: TypeAlias = tuple[float | None, ...] | None
_NumbersList: TypeAlias = _Numbers | Sequence[Sequence[float | None] | None]
_NumbersArrow: TypeAlias = _NumbersList | _Arrow
_Trace: TypeAlias = tuple[_Turn, ...] | None
_TraceList: TypeAlias = _Trace | Sequence[Sequence[_Turn] | None]
_TraceArrow: TypeAlias = _TraceList | _Arrow
_Conversation: TypeAlias = tuple[_Turn, ...] | _Turn | None
_ConversationList: TypeAlias = _Conversation | Sequence[Sequence[_Turn] | _Turn | None]
_ConversationArrow: TypeAlias = _ConversationList | _Arrow
_Question: TypeAlias = _Text | _Conversation
_QuestionList: TypeAlias = _Question | _TextList | _ConversationList
_QuestionArrow: TypeAlias = _QuestionList | _Arrow

@overload
def ai_complete(prompt: _Text, **settings: Any) -> str | None:
    r"""The answer to a prompt by the language model of `asap.anchor.*`, at temperature 0. The model gets only the
    prompt, without changes. Equal prompts of a session share one call. An answer that was paid for earlier comes
    from the answer cache (`asap.cache.dir`). CASE and COALESCE call the model for every row that reaches them, even
    if the row takes another branch. To pay for some rows only, use WHERE, or pass a NULL prompt for the other rows.
    A NULL prompt and a failed call give NULL. EXPLAIN ANALYZE counts failed calls. With `asap.on_error = 'fail'`, a
    failed call fails the query. With asap.anchor.provider = 'extractive', asap rejects the query.

    Args:
        prompt: The prompt to send.
        settings: Settings by name, such as scorer_model.

    In SQL:
        select ai_complete('Name the topic in one word: ' || question) from corpus;
    """
@overload
def ai_complete(prompt: _TextList, **settings: Any) -> list[str | None]: ...
@overload
def ai_complete(prompt: _TextArrow, **settings: Any) -> Any: ...

@overload
def anchor(question: _Text, answer: _Text, **settings: Any) -> dict[str, Any] | None:
    r"""The direct thought from a question to its answer, in a struct of thought, status, error, tokens_in, tokens_out
    and cached. The language model of `asap.anchor.*` writes the thought at temperature 0 with the prompt anchor.md.
    status is 'ok', or 'no_anchor' if the question is NULL or the answer is NULL or blank. A failed call gives
    timeout, rate_limited, unavailable, denied, refused, bad_response, too_long or budget. If status is not 'ok',
    error holds the reason. cached is true if the answer was paid for earlier or for an equal row. With
    asap.anchor.provider = 'extractive', asap calls no language model. The thought then has up to four parts: goal
    (the sentence that asks), given (values and names of the question), through (further ones of the answer) and
    reach (the program in the answer's fenced blocks, or else its last sentence). As published in the ASAP paper,
    with a language model. The prompt is in other words, and by default, rules replace the model.

    Args:
        question: The question.
        answer: The answer that the chain of thought led to.
        settings: Settings by name, such as scorer_model.

    >>> asap.anchor('A crate holds 12 trays of 8 rolls. How many rolls fill 3 crates?', '3 crates hold 288 rolls.')['thought']
    'goal: How many rolls fill 3 crates?\ngiven: 12, 8, 3\nreach: 3 crates hold 288 rolls.'
    """
@overload
def anchor(question: _TextList, answer: _TextList, **settings: Any) -> list[dict[str, Any] | None]: ...
@overload
def anchor(question: _TextArrow, answer: _TextArrow, **settings: Any) -> Any: ...

@overload
def answer(response: _Text, **settings: Any) -> str | None:
    r"""The final answer that a response states after its chain of thought. The final answer is the content of the last
    `\boxed`. Neighboring boxes with "and", "or" or a comma between them form a list, unless they all have the same
    value. Without a box, it is the text after the last "answer is", "answer:" or "correct option is", or the line
    after a heading such as "Final answer" (also in several other languages), or else the text after the last
    `####`. If "should be" or the like replaces "is", only a value counts. Words before the value (`exactly 4`) and
    words after it that neither change nor doubt it (`4 because 2 + 2 = 4`, `D, not B`) are left out. Without all of
    these, it is the response itself, if that is one line with nothing but a value, or one that ends in an equation.
    The result is NULL if the response has none of these, if a heading is followed by several values, if the text
    denies or corrects the answer, or if the chain is cut off (an opening tag without its closing tag). Only the
    last 65,536 bytes of the response are searched.

    Args:
        response: The text that a model wrote, with or without its chain of thought.
        settings: Settings by name, such as scorer_model.

    >>> asap.answer('<think>Maybe \\boxed{5}?</think>It is \\boxed{4}.')
    '4'
    """
@overload
def answer(response: _TextList, **settings: Any) -> list[str | None]: ...
@overload
def answer(response: _TextArrow, **settings: Any) -> Any: ...

@overload
def attribution(question: _Question, steps: _Texts, answer: _Text, **settings: Any) -> list[float | None] | None:
    r"""For each step, how much the mean −ln P of the answer's tokens rises if this step is left out, in nats per token;
    above 0 if the step helps. This is the score of PIR (Xiao et al. 2025), which drops only functional steps by it:
    see `cot_drop_functional`. The scoring model (`asap.scorer.model`) reads the question, the steps, `</think>` and
    the answer, and for each step about half of the chain's tokens again. An empty answer gives NULL. As published.

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought, joined by a blank line.
        answer: The answer, as it stands after `</think>`. An empty answer gives NULL.
        settings: Settings by name, such as scorer_model.

    >>> asap.attribution('2 + 2?', ('2 + 2 is 4.', 'Done.'), '4')  # doctest: +SKIP
    """
@overload
def attribution(
    question: _QuestionList, steps: _TextsList, answer: _TextList, **settings: Any
) -> list[list[float | None] | None]: ...
@overload
def attribution(question: _QuestionArrow, steps: _TextsArrow, answer: _TextArrow, **settings: Any) -> Any: ...

@overload
def budget(tokens: _Int = None, **settings: Any) -> int | None:
    r"""The largest number of tokens that a pruned chain may have: `asap.refine.max_tokens`, or `tokens` times
    `asap.refine.ratio`, rounded down. If both settings are set, the result is the smaller number; if neither is
    set, it is 4096, L_max of the ASAP paper. Without `tokens`, the ratio has no effect.

    Args:
        tokens: The length of the original chain in tokens.
        settings: Settings by name, such as scorer_model.

    In SQL:
        select cot_budget(cot_tokens('Hm. 2 + 2 is 4.'));
        -- 4096
    """
@overload
def budget(tokens: _IntList = None, **settings: Any) -> list[int | None]: ...
@overload
def budget(tokens: _IntArrow = None, **settings: Any) -> Any: ...

@overload
def call_faults(turns: _Trace, **settings: Any) -> dict[str, Any] | None:
    r"""The faults of calls of tools in a conversation, in four lists: calls `without_result` before the last turn,
    results `without_call`, calls whose arguments are `not_json`, and calls with the `same_id` as a call that has no
    result yet. A result answers the call with its id. Without ids, it answers the first open call of its tool, else
    the first open call, also one in `<tool_call>` tags.

    Args:
        turns: The column `turns` of a corpus.
        settings: Settings by name, such as scorer_model.

    In SQL:
        select cardinality(cot_call_faults([{'role': 'assistant', 'calls': [{'name': 'add', 'arguments': '{8, 5}'}]}])['not_json']);
        -- 1
    """
@overload
def call_faults(turns: _TraceList, **settings: Any) -> list[dict[str, Any] | None]: ...
@overload
def call_faults(turns: _TraceArrow, **settings: Any) -> Any: ...

@overload
def closest_correct(question: _Question, generations: _Texts, gold: _Text, **settings: Any) -> int | None:
    r"""The number (from 1) of the generation with the lowest ratio of `cot_rank_surprisal` among the generations that
    have a chain of thought and state the expected answer, by the rules of `cot_verify`. The student is the scoring
    model (`asap.scorer.model`). If several have the same ratio, the result is the first. A generation longer than
    the model's window is left out. If no generation states the answer, the result is NULL.

    Args:
        question: The question: a text, or a conversation with its system prompt, such as `cot_prompt` returns.
        generations: Several generations for the question, each with the chain in think tags and then the answer.
        gold: The expected answer, or a solution that states it as a response does.
        settings: Settings by name, such as scorer_model.

    >>> asap.closest_correct('2 + 2?', ('<think>So 2 + 2 is 4.</think>\\boxed{4}', '<think>Hm.</think>\\boxed{5}'), '4')
    1
    """
@overload
def closest_correct(
    question: _QuestionList, generations: _TextsList, gold: _TextList, **settings: Any
) -> list[int | None]: ...
@overload
def closest_correct(question: _QuestionArrow, generations: _TextsArrow, gold: _TextArrow, **settings: Any) -> Any: ...

@overload
def coarse(cot: _Text, thought: _Text, **settings: Any) -> dict[str, Any] | None:
    r"""A chain of thought after coarse pruning, guided by its direct thought and validated by Algorithm 1 of the ASAP
    paper, in a struct of cot, kept, similarity, attempts, status, error, tokens_in, tokens_out and cached. The
    language model of `asap.anchor.*` prunes at temperature 1 with the prompt coarse.md. asap requests samples until
    Algorithm 1 accepts one, at most asap.anchor.max_attempts. attempts is the number of requested samples. cot
    holds the remaining steps, joined by a blank line. For each remaining step, kept holds the number (from 1) of
    the matching step of the original chain, and similarity holds the Gestalt similarity of the two steps. status is
    'ok', 'no_anchor' for a NULL thought, 'empty_chain' for a chain that is NULL or has no step, or 'no_match' if
    Algorithm 1 rejects every sample. A failed call gives the same statuses as in `cot_anchor`. If status is not
    'ok', cot, kept and similarity are NULL, and error holds the reason. With asap.anchor.provider = 'extractive',
    rules replace the language model. They keep the step that states the answer and, going backward, each step that
    is the first to contain a value, name or line of code of the thought or of a later kept step. If these are less
    than a third of the chain, they add steps from its start and its end. The rules are a stub and do not understand
    the text. Differs from the ASAP paper by default: after asap.anchor.max_attempts samples, the row is a reject.
    With 0, asap asks until a sample is valid. The prompt is in other words, and by default, rules replace the
    model.

    Args:
        cot: The chain of thought.
        thought: The direct thought, as cot_anchor returns it.
        settings: Settings by name, such as scorer_model.

    >>> asap.coarse('Let me see.\n\n12 * 8 = 96.\n\nOr is it 12 + 8 = 20?\n\n3 * 96 = 288, so 288 rolls.', 'reach: 288 rolls')['kept']
    [2, 4]
    """
@overload
def coarse(cot: _TextList, thought: _TextList, **settings: Any) -> list[dict[str, Any] | None]: ...
@overload
def coarse(cot: _TextArrow, thought: _TextArrow, **settings: Any) -> Any: ...

@overload
def completion(cot: _Text, answer: _Text, **settings: Any) -> list[dict[str, Any] | None] | None:
    r"""The completion of a training example, in a list of structs with role and content. The list holds one message of
    the assistant: the chain between think tags and, after a blank line, the answer. A NULL answer is left out. A
    NULL chain gives NULL.

    Args:
        cot: The chain of thought.
        answer: The text that follows the chain.
        settings: Settings by name, such as scorer_model.

    >>> asap.completion('2 and 2 is 4', '4')
    [{'role': 'assistant', 'content': '<think>\n2 and 2 is 4\n</think>\n\n4'}]
    """
@overload
def completion(cot: _TextList, answer: _TextList, **settings: Any) -> list[list[dict[str, Any] | None] | None]: ...
@overload
def completion(cot: _TextArrow, answer: _TextArrow, **settings: Any) -> Any: ...

@overload
def control_scores(steps: _Texts, control: _Text, seed: _Int, **settings: Any) -> list[float | None] | None:
    r"""A score for each step by its place, its length or chance: a baseline that other scores must beat. The step with
    the lowest score is removed first. `prefix` keeps the beginning, `suffix` the end, and `block` a random
    contiguous block. `longest` removes the step with the most tokens first, and `random` a random step, as
    `cot_random` does. The scores of `random` and `block` depend on `seed`, and those of `block` also on the lengths
    of the steps in tokens. An unknown control fails the query.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        control: `block`, `longest`, `prefix`, `random` or `suffix`.
        seed: A whole number. Another seed gives other random scores.
        settings: Settings by name, such as scorer_model.

    >>> asap.control_scores(('Hm.', '2 + 2 is 4.', 'Done.'), 'suffix', 7)
    [0.0, 1.0, 2.0]
    """
@overload
def control_scores(
    steps: _TextsList, control: _TextList, seed: _IntList, **settings: Any
) -> list[list[float | None] | None]: ...
@overload
def control_scores(steps: _TextsArrow, control: _TextArrow, seed: _IntArrow, **settings: Any) -> Any: ...

@overload
def cut_off(finish_reason: _Text, **settings: Any) -> bool | None:
    r"""Whether a generation ended before its model finished it, by its finish reason: true for `length`, `max_tokens`
    and others, false for `stop`, `end_turn` and others, NULL for a value that asap does not know. Case does not
    count. [Layouts](layouts.md#finish-reasons) lists the values.

    Args:
        finish_reason: Why the generation ended, as the server reported it.
        settings: Settings by name, such as scorer_model.

    >>> asap.cut_off('MAX_TOKENS')
    True
    """
@overload
def cut_off(finish_reason: _TextList, **settings: Any) -> list[bool | None]: ...
@overload
def cut_off(finish_reason: _TextArrow, **settings: Any) -> Any: ...

@overload
def drop_functional(functions: _Texts, scores: _Numbers, share: _Number, **settings: Any) -> list[int | None] | None:
    r"""The numbers (from 1, ascending) of the steps that remain after the functional steps with the lowest scores are
    dropped. A functional step has any function except `progress` (see `cot_functions`). asap drops `share` of the
    functional steps, rounded down. With the scores of `cot_attribution` and a `share` of 0.2 to 0.3, this is the
    rule of PIR (Xiao et al. 2025). Steps of the function `progress` always stay, so the result may exceed a budget.
    If scores are equal, asap drops the earlier step first. A NULL score counts as 0. Lists of different lengths, or
    an unknown function, give NULL. As published.

    Args:
        functions: The function of each step, as `cot_functions` returns it.
        scores: A number for each step.
        share: The share of the functional steps to drop, from 0 to 1.
        settings: Settings by name, such as scorer_model.

    >>> asap.drop_functional(('progress', 'verification', 'verification'), (0.1, 0.3, 0.2), 0.5)
    [1, 2]
    """
@overload
def drop_functional(
    functions: _TextsList, scores: _NumbersList, share: _NumberList, **settings: Any
) -> list[list[int | None] | None]: ...
@overload
def drop_functional(functions: _TextsArrow, scores: _NumbersArrow, share: _NumberArrow, **settings: Any) -> Any: ...

@overload
def entropy(question: _Question, steps: _Texts, **settings: Any) -> list[float | None] | None:
    r"""The entropy, in nats, of the distribution that the scoring model (`asap.scorer.model`) predicts for the first
    token of each step. One forward pass computes this entropy and `cot_surprisal`. As published in the ASAP paper
    (figure 2).

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as
            an empty step. A step without a token, or without one before it, has no score.
        settings: Settings by name, such as scorer_model.

    >>> asap.entropy('2 + 2?', ('2 + 2 is 4.', 'Done.'))  # doctest: +SKIP
    """
@overload
def entropy(question: _QuestionList, steps: _TextsList, **settings: Any) -> list[list[float | None] | None]: ...
@overload
def entropy(question: _QuestionArrow, steps: _TextsArrow, **settings: Any) -> Any: ...

@overload
def example(
    question: _Question, cot: _Text, answer: _Text, max_length: _Int = None, kept: _Ints = None, **settings: Any
) -> dict[str, Any] | None:
    r"""The tokens to train on, for the tokenizer and chat template of asap.scorer.model, in a struct of input_ids,
    attention_mask and labels. The prompt is the system prompt, if the question has one, and the question as the
    user's turn. The labels are -100 on the prompt, and equal input_ids on the response. The response is the chain
    in think tags, the text that the template writes after the closing tag (a blank line if it defines none), the
    answer, and the token that ends the turn. If the template writes the opening think tag, this tag belongs to the
    prompt. With `kept`, only the kept steps of the chain are learned, and the labels of its other steps are -100: a
    token belongs to the last step of which it covers a character, and a token that covers only a blank line to the
    step after it. The tags, the answer and the end are learned. Numbers in `kept` that do not ascend, or that no
    step has, fail the query. A NULL answer is left out. A NULL chain or `kept` gives NULL, and so does an example
    of more than max_length tokens, or a row that the chat template does not print: `cot_no_score` gives the reason.
    A conversation with several exchanges or tools may have several examples, and gives NULL: use `asap feed`.

    Args:
        question: The question: a text, or a conversation with its system prompt, such as `cot_prompt` returns.
        cot: The chain of thought.
        answer: The text that follows the chain.
        max_length: The maximum number of tokens of an example. NULL, or without this argument: there is no limit.
        kept: The numbers of the steps of the chain to learn, from 1 and ascending, such as `cot_kept` returns for
            an output. The steps are those of `cot_steps`. Without this argument, the whole chain is learned.
        settings: Settings by name, such as scorer_model.

    In SQL:
        select cot_example('2 + 2?', '2 and 2 is 4', '4')['labels'][1];
        -- -100
    """
@overload
def example(
    question: _QuestionList,
    cot: _TextList,
    answer: _TextList,
    max_length: _IntList = None,
    kept: _IntsList = None,
    **settings: Any,
) -> list[dict[str, Any] | None]: ...
@overload
def example(
    question: _QuestionArrow,
    cot: _TextArrow,
    answer: _TextArrow,
    max_length: _IntArrow = None,
    kept: _IntsArrow = None,
    **settings: Any,
) -> Any: ...

@overload
def first_token(question: _Question, steps: _Texts, **settings: Any) -> list[str | None] | None:
    r"""The text of the first token of each step, with its leading space if it has one. The tokenizer of the scoring
    model (`asap.scorer.model`) decodes the token. It is the token whose surprisal and entropy are `cot_surprisal`
    and `cot_entropy`. The token covers the first character of the step, and may also cover text before the step.
    The model does not read the chain. As published in the ASAP paper (figure 2).

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as
            an empty step. A step without a token, or without one before it, has no score.
        settings: Settings by name, such as scorer_model.

    >>> asap.first_token('2 + 2?', ('2 + 2 is 4.', 'Done.'))  # doctest: +SKIP
    """
@overload
def first_token(question: _QuestionList, steps: _TextsList, **settings: Any) -> list[list[str | None] | None]: ...
@overload
def first_token(question: _QuestionArrow, steps: _TextsArrow, **settings: Any) -> Any: ...

@overload
def fit(steps: _Texts, scores: _Numbers, max_tokens: _Int = None, **settings: Any) -> list[int | None] | None:
    r"""The numbers (from 1, ascending) of the steps that remain after removing every step of more than `max_tokens`
    tokens, and then the steps with the lowest scores, one by one, until the remaining steps have at most
    `max_tokens` tokens. Lists of different lengths give NULL.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        scores: A number for each step. The step with the lowest number is removed first.
        max_tokens: The maximum number of tokens of the remaining steps. The default is the setting
            `asap.refine.max_tokens`, or 4096 if it is not set.
        settings: Settings by name, such as scorer_model.

    >>> asap.fit(('Hm.', 'So 2 + 2 + 2 is 6.', 'Done.'), (0.1, 3.2, 1.4), 7)
    [1, 3]
    """
@overload
def fit(
    steps: _TextsList, scores: _NumbersList, max_tokens: _IntList = None, **settings: Any
) -> list[list[int | None] | None]: ...
@overload
def fit(steps: _TextsArrow, scores: _NumbersArrow, max_tokens: _IntArrow = None, **settings: Any) -> Any: ...

@overload
def functions(steps: _Texts, **settings: Any) -> list[str | None] | None:
    r"""The function of each step, in the classes of PIR: `progress`, or one of the functional steps `verification`,
    `other_method` and `error_correction`. PIR is a method of Xiao et al. (2025). Rules look for English phrases in
    the first 100 characters of a step, in this order: another method ("Alternatively"), a check ("Let me verify"),
    a correction ("Wait", "a mistake"). A step without such a phrase is `progress`. Differs from its publication:
    rules find the functional steps, and PIR asks a language model.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        settings: Settings by name, such as scorer_model.

    >>> asap.functions(('2 + 2 is 4.', 'Let me verify: 4 - 2 is 2.', 'Wait, no.'))
    ['progress', 'verification', 'error_correction']
    """
@overload
def functions(steps: _TextsList, **settings: Any) -> list[list[str | None] | None]: ...
@overload
def functions(steps: _TextsArrow, **settings: Any) -> Any: ...

@overload
def hollow(original: _Text, cot: _Text, **settings: Any) -> bool | None:
    r"""Whether a pruned chain is hollow: it has no digit and no formula, although the original chain has one. A formula
    has one of the signs `=`, `$`, `<`, `>`, `\(` and `\[`.

    Args:
        original: The chain before pruning: `original_cot` of an output.
        cot: The pruned chain.
        settings: Settings by name, such as scorer_model.

    >>> asap.hollow('2 + 2 = 4. So that is it.', 'So that is it.')
    True
    """
@overload
def hollow(original: _TextList, cot: _TextList, **settings: Any) -> list[bool | None]: ...
@overload
def hollow(original: _TextArrow, cot: _TextArrow, **settings: Any) -> Any: ...

@overload
def kept(steps: _Trace, **settings: Any) -> list[int | None] | None:
    r"""The numbers (from 1, ascending) of the steps that pruning kept: those whose `dropped` is NULL.

    Args:
        steps: What pruning did to each step: the column `steps` of an output, or the result of `cot_trace`.
        settings: Settings by name, such as scorer_model.

    In SQL:
        select cot_kept(cot_trace(['Hm.', '2 + 2 is 4.', 'Done.'], NULL, NULL, NULL, [2, 3], 'random'));
        -- [2, 3]
    """
@overload
def kept(steps: _TraceList, **settings: Any) -> list[list[int | None] | None]: ...
@overload
def kept(steps: _TraceArrow, **settings: Any) -> Any: ...

@overload
def llmlingua2(text: _Text, rate: _Number, **settings: Any) -> str | None:
    r"""Keeps the words of a text that the encoder `asap.compressor.model` scores highest, about the share `rate` of the
    text's tokens. The method is LLMLingua-2 (Pan et al. 2024). The result has the format of the Python package
    llmlingua: each run of white space, line ends included, becomes a single space. `asap.compressor.force_tokens`,
    `asap.compressor.reserve_digits` and `asap.compressor.drop_consecutive` override the encoder. A rate of 1
    returns the text unchanged. As published, with one exception: `rate` counts tokens of `asap.scorer.model`, and
    the package counts tokens of GPT-3.5.

    Args:
        text: The text to compress, such as a chain of thought.
        rate: The share of the text to keep, above 0 and at most 1. Any other value gives NULL.
        settings: Settings by name, such as scorer_model.

    >>> asap.llmlingua2('Hm, so 2 + 2 is 4, I think.', 0.5)  # doctest: +SKIP
    """
@overload
def llmlingua2(text: _TextList, rate: _NumberList, **settings: Any) -> list[str | None]: ...
@overload
def llmlingua2(text: _TextArrow, rate: _NumberArrow, **settings: Any) -> Any: ...

@overload
def match(cot: _Text, coarse: _Text, tau: _Number = None, **settings: Any) -> list[dict[str, Any] | None] | None:
    r"""For each step of a coarse chain, the number (from 1) of the matching step of the original chain and the Gestalt
    similarity of the two steps, by Algorithm 1 of the ASAP paper. The search for each coarse step starts after the
    previous match, and takes the first original step whose similarity is at least `tau`. White space around steps
    is ignored. The whole result is NULL if any coarse step matches nothing, or if the coarse chain has no step. As
    published in the ASAP paper (Algorithm 1).

    Args:
        cot: The original chain of thought.
        coarse: The coarse chain, which should consist of steps of the original chain.
        tau: The minimum similarity of a match, from 0 to 1. Another value gives NULL. The default is the setting
            `asap.match.threshold`.
        settings: Settings by name, such as scorer_model.

    >>> asap.match('Hm.\n\n2 + 2 is 4.\n\nDone.', '2 + 2 = 4.\n\nDone.')
    [{'step': 2, 'similarity': 0.8571428571428571}, {'step': 3, 'similarity': 1.0}]
    """
@overload
def match(
    cot: _TextList, coarse: _TextList, tau: _NumberList = None, **settings: Any
) -> list[list[dict[str, Any] | None] | None]: ...
@overload
def match(cot: _TextArrow, coarse: _TextArrow, tau: _NumberArrow = None, **settings: Any) -> Any: ...

@overload
def mean_step_entropy(question: _Question, steps: _Texts, **settings: Any) -> list[float | None] | None:
    r"""The mean entropy of the tokens of each step, in nats: `cot_step_entropy` divided by the number of the step's
    tokens. The blank line before a step does not count. The second version of the paper of Li et al. (2025) prunes
    by this mean, and the first by the sum. A step gets NULL if one of its tokens has no token before it. One
    forward pass computes this entropy and `cot_perplexity`. As published (second version).

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as
            an empty step. A step without a token, or without one before it, has no score.
        settings: Settings by name, such as scorer_model.

    >>> asap.mean_step_entropy('2 + 2?', ('2 + 2 is 4.', 'Done.'))  # doctest: +SKIP
    """
@overload
def mean_step_entropy(
    question: _QuestionList, steps: _TextsList, **settings: Any
) -> list[list[float | None] | None]: ...
@overload
def mean_step_entropy(question: _QuestionArrow, steps: _TextsArrow, **settings: Any) -> Any: ...

@overload
def messages(messages: _Conversation, turns: _Trace, **settings: Any) -> list[dict[str, Any] | None] | None:
    r"""The messages of a training example in the form of OpenAI, with `reasoning_content` and `tool_calls`: those of
    `turns`, or of `messages` if `turns` is NULL.

    Args:
        messages: Messages, such as `cot_prompt` returns.
        turns: The turns of a conversation with several exchanges or tools, as the column `turns` of a corpus.
        settings: Settings by name, such as scorer_model.

    In SQL:
        select cot_messages(cot_prompt('2 + 2?'), NULL)[1]['content'];
        -- 2 + 2?
    """
@overload
def messages(
    messages: _ConversationList, turns: _TraceList, **settings: Any
) -> list[list[dict[str, Any] | None] | None]: ...
@overload
def messages(messages: _ConversationArrow, turns: _TraceArrow, **settings: Any) -> Any: ...

@overload
def no_score(question: _Question, steps: _Texts = None, **settings: Any) -> str | None:
    r"""The reason, in words, why a row has no score by the scoring model (`asap.scorer.model`), or no example, although
    it is not too long; NULL if there is no such reason. The reason is the error of the chat template with its own
    message, or that the template does not print the question or the system prompt as it is. With `steps`, it is
    also how the model failed on these steps earlier in this session: NaN or infinite values, a Python process that
    died twice, or a server that cannot read the row. A template that prints no system prompt at all is not a
    reason.

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of the chain that has no score. Without this argument, only the prompt is tried.
        settings: Settings by name, such as scorer_model.

    >>> print(asap.no_score('2 + 2?', ('2 + 2 is 4.',)))
    None
    """
@overload
def no_score(question: _QuestionList, steps: _TextsList = None, **settings: Any) -> list[str | None]: ...
@overload
def no_score(question: _QuestionArrow, steps: _TextsArrow = None, **settings: Any) -> Any: ...

@overload
def perplexity(question: _Question, steps: _Texts, **settings: Any) -> list[float | None] | None:
    r"""The perplexity of each step by the scoring model (`asap.scorer.model`). The perplexity is exp of the mean −ln P
    over the step's own tokens, from the first token of the step to the last token that begins before the end of the
    step. A step gets NULL if one of these tokens has no score. One forward pass computes this perplexity,
    `cot_surprisal` and `cot_entropy`.

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as
            an empty step. A step without a token, or without one before it, has no score.
        settings: Settings by name, such as scorer_model.

    >>> asap.perplexity('2 + 2?', ('2 + 2 is 4.', 'Done.'))  # doctest: +SKIP
    """
@overload
def perplexity(question: _QuestionList, steps: _TextsList, **settings: Any) -> list[list[float | None] | None]: ...
@overload
def perplexity(question: _QuestionArrow, steps: _TextsArrow, **settings: Any) -> Any: ...

@overload
def prompt(question: _Text, system: _Text = None, **settings: Any) -> list[dict[str, Any] | None] | None:
    r"""The prompt of a training example, in a list of structs with role and content. The list holds the system prompt
    and then the question as the user's message. A NULL or blank system prompt is left out.

    Args:
        question: The question.
        system: The system prompt.
        settings: Settings by name, such as scorer_model.

    >>> asap.prompt('2 + 2?', 'Be brief.')
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': '2 + 2?'}]
    """
@overload
def prompt(
    question: _TextList, system: _TextList = None, **settings: Any
) -> list[list[dict[str, Any] | None] | None]: ...
@overload
def prompt(question: _TextArrow, system: _TextArrow = None, **settings: Any) -> Any: ...

@overload
def pruned_turns(turns: _Trace, kept: _Ints, pruned: _Text, **settings: Any) -> list[dict[str, Any] | None] | None:
    r"""The turns of a conversation with only the kept steps of their thoughts. A thought without a kept step becomes
    NULL. Steps that the thoughts do not have give NULL.

    Args:
        turns: The turns, as the column `turns` of a corpus.
        kept: The numbers of the kept steps, from 1, ascending. The steps of all thoughts are counted together, as
            those of the column `cot`.
        pruned: The kept steps, joined. A step may be shorter than in its thought.
        settings: Settings by name, such as scorer_model.

    In SQL:
        select cot_pruned_turns([{'role': 'assistant', 'thought': E'Hm.\n\nAdd.', 'text': '4', 'calls': NULL}], [2], 'Add.')[1]['thought'];
        -- Add.
    """
@overload
def pruned_turns(
    turns: _TraceList, kept: _IntsList, pruned: _TextList, **settings: Any
) -> list[list[dict[str, Any] | None] | None]: ...
@overload
def pruned_turns(turns: _TraceArrow, kept: _IntsArrow, pruned: _TextArrow, **settings: Any) -> Any: ...

@overload
def random(steps: _Texts, ratio: _Number, seed: _Int, **settings: Any) -> list[int | None] | None:
    r"""The numbers (from 1, ascending) of a random subset of steps with at most `ratio` of the tokens. asap removes
    steps in a random order until the remaining steps, joined by a blank line, have at most `ratio` of the tokens of
    all steps joined, rounded down. The order depends only on `seed` and the steps, so a smaller ratio gives a
    subset of the result of a larger ratio. For exactly `budget` tokens, pass `CAST(budget AS DOUBLE) / tokens` as
    the ratio.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        ratio: The share of the tokens that may remain, from 0 to 1. Another value gives NULL.
        seed: A whole number. Another seed gives another subset.
        settings: Settings by name, such as scorer_model.

    >>> asap.random(('Hm.', '2 + 2 is 4.', 'Done.'), 0.7, 7)
    [2]
    """
@overload
def random(steps: _TextsList, ratio: _NumberList, seed: _IntList, **settings: Any) -> list[list[int | None] | None]: ...
@overload
def random(steps: _TextsArrow, ratio: _NumberArrow, seed: _IntArrow, **settings: Any) -> Any: ...

@overload
def rank_surprisal(question: _Question, cot: _Text, answer: _Text, **settings: Any) -> dict[str, Any] | None:
    r"""How near a chain and its answer are to what a student would write: the sum of the ranks of their tokens, divided
    by the sum of their surprisals (RSR, arXiv 2601.14249). The student is the scoring model (`asap.scorer.model`).
    Of several trajectories for a question, the one with the lowest ratio is predicted to teach this student best.
    The result is a struct of `ratio`, `ranks` (Σ min(rank, 100)), `surprisals` (Σ −ln P, in nats) and `tokens`. The
    rank of a token is 1 + the number of tokens that the model finds more probable. The sums are over the tokens
    that the student would learn: those of `cot_example` whose labels are not -100. The prompt is that of the
    model's chat template, whatever `asap.scorer.prompt` is. An example longer than the model's window gives NULL.
    As published.

    Args:
        question: The question: a text, or a conversation with its system prompt, such as `cot_prompt` returns.
        cot: The chain of thought.
        answer: The text that follows the chain.
        settings: Settings by name, such as scorer_model.

    >>> asap.rank_surprisal('2 + 2?', '2 and 2 is 4.', '4')['ratio']  # doctest: +SKIP
    """
@overload
def rank_surprisal(
    question: _QuestionList, cot: _TextList, answer: _TextList, **settings: Any
) -> list[dict[str, Any] | None]: ...
@overload
def rank_surprisal(question: _QuestionArrow, cot: _TextArrow, answer: _TextArrow, **settings: Any) -> Any: ...

@overload
def refine(
    steps: _Texts, scores: _Numbers, max_tokens: _Int = None, turns: _Trace = None, **settings: Any
) -> list[int | None] | None:
    r"""The numbers (from 1, ascending) of the steps that remain after Algorithm 2 of the ASAP paper. The algorithm
    removes the step with the lowest score, one by one, until the remaining steps, joined by a blank line, have at
    most `max_tokens` tokens of the scoring model. If scores are equal, the algorithm removes the earlier step
    first. A NULL or NaN score counts as 0. A chain that fits keeps all steps. If no step fits, the result is empty.
    Lists of different lengths give NULL. As published in the ASAP paper (Algorithm 2).

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        scores: A number for each step. The step with the lowest number is removed first.
        max_tokens: The maximum number of tokens of the remaining steps. The default is the setting
            `asap.refine.max_tokens`, or 4096 if it is not set.
        turns: The turns of a conversation whose thoughts have the steps. With the setting `asap.refine.scope =
            'turn'`, the steps of each thought are pruned alone, to a share of `max_tokens` like that of their
            tokens.
        settings: Settings by name, such as scorer_model.

    >>> asap.refine(('Hm.', '2 + 2 is 4.', 'Done.'), (0.1, 3.2, 1.4), 12)
    [2, 3]
    """
@overload
def refine(
    steps: _TextsList, scores: _NumbersList, max_tokens: _IntList = None, turns: _TraceList = None, **settings: Any
) -> list[list[int | None] | None]: ...
@overload
def refine(
    steps: _TextsArrow, scores: _NumbersArrow, max_tokens: _IntArrow = None, turns: _TraceArrow = None, **settings: Any
) -> Any: ...

@overload
def refine_exactly(steps: _Texts, scores: _Numbers, max_tokens: _Int = None, **settings: Any) -> dict[str, Any] | None:
    r"""The steps that `cot_refine` keeps, plus as many tokens as fit in `max_tokens` from the step that `cot_refine`
    removes last. Use it to compare methods at the same length. The result is a struct of `steps` (all steps, with
    the cut step shortened), `kept` (the numbers, from 1, of the remaining steps, the cut step included) and `cut`
    (the number of the cut step, or NULL). The cut step keeps its first tokens. It keeps its last tokens if all
    other remaining steps come after it, or if no other step remains and it is the last of several steps. The result
    may have one or two tokens less than `max_tokens`. Lists of different lengths give NULL.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        scores: A number for each step. The step with the lowest number is removed first.
        max_tokens: The maximum number of tokens of the remaining steps. The default is the setting
            `asap.refine.max_tokens`, or 4096 if it is not set.
        settings: Settings by name, such as scorer_model.

    >>> asap.refine_exactly(('Hm.', '2 + 2 is 4.', 'Done.'), (2, 1, 0), 6)['kept']
    [1, 2]
    """
@overload
def refine_exactly(
    steps: _TextsList, scores: _NumbersList, max_tokens: _IntList = None, **settings: Any
) -> list[dict[str, Any] | None]: ...
@overload
def refine_exactly(steps: _TextsArrow, scores: _NumbersArrow, max_tokens: _IntArrow = None, **settings: Any) -> Any: ...

@overload
def refine_or_fit(
    steps: _Texts, scores: _Numbers, max_tokens: _Int = None, turns: _Trace = None, **settings: Any
) -> dict[str, Any] | None:
    r"""The steps that `cot_refine` (Algorithm 2 of the ASAP paper) keeps, or those that `cot_fit` keeps if Algorithm 2
    removes every step of a chain. Algorithm 2 removes every step if the step with the highest score alone is longer
    than `max_tokens`. The result is a struct of `kept`, the numbers (from 1, ascending) of the remaining steps, and
    `by`, which is 'algorithm_2' or 'cot_fit'. Lists of different lengths give NULL. As published in the ASAP paper
    (Algorithm 2), with one exception: if Algorithm 2 removes every step, `cot_fit` decides.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        scores: A number for each step. The step with the lowest number is removed first.
        max_tokens: The maximum number of tokens of the remaining steps. The default is the setting
            `asap.refine.max_tokens`, or 4096 if it is not set.
        turns: The turns of a conversation whose thoughts have the steps. With the setting `asap.refine.scope =
            'turn'`, the steps of each thought are pruned alone, to a share of `max_tokens` like that of their
            tokens.
        settings: Settings by name, such as scorer_model.

    >>> asap.refine_or_fit(('Hm.', 'So 2 + 2 + 2 is 6.', 'Done.'), (0.1, 3.2, 1.4), 7)
    {'kept': [1, 3], 'by': 'cot_fit'}
    """
@overload
def refine_or_fit(
    steps: _TextsList, scores: _NumbersList, max_tokens: _IntList = None, turns: _TraceList = None, **settings: Any
) -> list[dict[str, Any] | None]: ...
@overload
def refine_or_fit(
    steps: _TextsArrow, scores: _NumbersArrow, max_tokens: _IntArrow = None, turns: _TraceArrow = None, **settings: Any
) -> Any: ...

@overload
def repetition(text: _Text, **settings: Any) -> float | None:
    r"""The share of a text that is in loops, from 0 to 1. A loop is a sequence of 16 tokens that occurs at least 16
    times, or a sequence of any length that directly follows itself at least twice, in at least 48 tokens. A token
    is here a run of letters, a run of digits, one character of Chinese, Japanese or Korean, or one other character,
    so the result depends on no model. White space and case do not count.

    Args:
        text: A chain, or any other text.
        settings: Settings by name, such as scorer_model.

    In SQL:
        select cot_repetition(repeat('Wait, let me check this. ', 20));
        -- 1.0
    """
@overload
def repetition(text: _TextList, **settings: Any) -> list[float | None]: ...
@overload
def repetition(text: _TextArrow, **settings: Any) -> Any: ...

@overload
def response(generation: _Text, **settings: Any) -> str | None:
    r"""The text of a generation after its chain of thought. The text starts after the closing tag of the chain that
    `cot_think` finds, without white space at both ends. Tags around the whole text (`<|begin_of_solution|>`,
    `<Output>`, `<output>`, `<answer>`, `<response>` and their closing tags) are removed. A final end-of-turn token,
    such as `<|im_end|>`, is removed too. A missing closing tag gives NULL.

    Args:
        generation: The text that the reasoning model wrote.
        settings: Settings by name, such as scorer_model.

    >>> asap.response('<think>2 + 2 is 4</think>4')
    '4'
    """
@overload
def response(generation: _TextList, **settings: Any) -> list[str | None]: ...
@overload
def response(generation: _TextArrow, **settings: Any) -> Any: ...

@overload
def scripts(text: _Text, **settings: Any) -> list[dict[str, Any] | None] | None:
    r"""The scripts of a text, each with its share of the words, the largest first. Each character of Chinese, Japanese
    or Korean is a word. Single letters such as `x` and LaTeX commands do not count as words. Hiragana and Katakana
    count as Han, because Japanese uses all three. If another script has more words than Latin, Latin is left out,
    because texts in all scripts write formulas, names and code in Latin. So a text with more than one script mixes
    languages.

    Args:
        text: A chain, or any other text.
        settings: Settings by name, such as scorer_model.

    >>> asap.scripts('So let us 考虑')
    [{'script': 'Latin', 'share': 0.6}, {'script': 'Han', 'share': 0.4}]
    """
@overload
def scripts(text: _TextList, **settings: Any) -> list[list[dict[str, Any] | None] | None]: ...
@overload
def scripts(text: _TextArrow, **settings: Any) -> Any: ...

@overload
def select(steps: _Texts, kept: _Ints, **settings: Any) -> str | None:
    r"""The chosen steps, in the order of `kept`, joined by a blank line. A step that ends with a line break, as those
    of `cot_steps(cot, 'line')` do, is followed by the next step directly. An empty list `kept` gives an empty text.
    A number in `kept` that no step has gives NULL.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        kept: The numbers of the steps to join, from 1.
        settings: Settings by name, such as scorer_model.

    >>> asap.select(('Hm.', '2 + 2 is 4.', 'Done.'), (2, 3))
    '2 + 2 is 4.\n\nDone.'
    """
@overload
def select(steps: _TextsList, kept: _IntsList, **settings: Any) -> list[str | None]: ...
@overload
def select(steps: _TextsArrow, kept: _IntsArrow, **settings: Any) -> Any: ...

@overload
def selective_context(text: _Text, ratio: _Number, level: _Text = None, **settings: Any) -> str | None:
    r"""The units of a text with the most self-information, in their order. This is Selective Context (Li et al. 2023).
    The scoring model (`asap.scorer.model`) reads each sentence separately, after the token that begins a text (the
    tokenizer's BOS, else `<|endoftext|>`). The self-information of a token is −ln P, and that of a unit is the mean
    over its tokens. A token that covers several words counts for each with an equal share. Units below the
    percentile `100 · (1 − ratio)` of all units of the text are dropped, with the white space before them. Sentences
    and words are those of Unicode (UAX #29), so a punctuation mark is a word. A ratio of 1 returns the text
    unchanged. A sentence longer than the model's window gives NULL. Differs from its publication: units are words
    by the rules of Unicode. Papers that compare with it do not say which units they drop, and the default units of
    its program are noun chunks.

    Args:
        text: The text to compress, such as a chain of thought.
        ratio: The share of the units to keep, above 0 and at most 1. Another value gives NULL.
        level: The units: `word` (the default), `token` (of the scoring model) or `sentence`. Another value fails
            the query.
        settings: Settings by name, such as scorer_model.

    >>> asap.selective_context('Hm, so 2 + 2 is 4, I think.', 0.5)  # doctest: +SKIP
    """
@overload
def selective_context(
    text: _TextList, ratio: _NumberList, level: _TextList = None, **settings: Any
) -> list[str | None]: ...
@overload
def selective_context(text: _TextArrow, ratio: _NumberArrow, level: _TextArrow = None, **settings: Any) -> Any: ...

@overload
def self_information(steps: _Texts, **settings: Any) -> list[float | None] | None:
    r"""The self-information of each step, in nats per token: the mean −ln P of its tokens by the scoring model
    (`asap.scorer.model`). Selective Context (Li et al. 2023) prunes by this score. The model reads each step
    separately, after the token that begins a text (the tokenizer's BOS, else `<|endoftext|>`). So neither the
    question nor other steps influence the score. A step without a token gets NULL. A step longer than the model's
    window makes the row NULL. Differs from its publication: a unit is a step, which the model reads in place of a
    sentence.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        settings: Settings by name, such as scorer_model.

    >>> asap.self_information(('2 + 2 is 4.', 'Done.'))  # doctest: +SKIP
    """
@overload
def self_information(steps: _TextsList, **settings: Any) -> list[list[float | None] | None]: ...
@overload
def self_information(steps: _TextsArrow, **settings: Any) -> Any: ...

@overload
def shortest_correct(generations: _Texts, gold: _Text, **settings: Any) -> int | None:
    r"""The number (from 1) of the generation with the fewest tokens among the generations that have a chain of thought
    and state the expected answer, by the rules of `cot_verify`. If several are equally short, the result is the
    first. If no generation states the answer, the result is NULL. Sky-T1-Flash and Munkhbat et al. (2025) train on
    it. As published.

    Args:
        generations: Several generations for a question, each with the chain in think tags and then the answer.
        gold: The expected answer, or a solution that states it as a response does.
        settings: Settings by name, such as scorer_model.

    >>> asap.shortest_correct(('<think>So 2 + 2 is 4.</think>\\boxed{4}', '<think>4</think>\\boxed{4}', '<think></think>\\boxed{5}'), '4')
    2
    """
@overload
def shortest_correct(generations: _TextsList, gold: _TextList, **settings: Any) -> list[int | None]: ...
@overload
def shortest_correct(generations: _TextsArrow, gold: _TextArrow, **settings: Any) -> Any: ...

@overload
def shortest_surviving(
    question: _Question, steps: _Texts, scores: _Numbers, answer: _Text, shares: _Numbers = None, **settings: Any
) -> dict[str, Any] | None:
    r"""Of several prunings of a chain, the shortest pruning in which the answer survives (see `cot_survives`), or the
    whole chain if there is no such pruning. For each number in `shares`, asap removes the steps with the lowest
    scores, as in `cot_refine`, until at most this share of the chain's tokens remains. The result is a struct of
    `share` (1 for the whole chain), `kept` (the numbers of the kept steps, from 1), and the fields
    `log_probability`, `stated` and `survives` of `cot_survives`. If the answer does not survive in the whole chain
    either, `survives` is false. If the answer is a program, `stated` and `survives` are NULL, and asap takes the
    shortest pruning whose log-probability is at least that of the whole chain. Lists of different lengths, and an
    empty answer, give NULL.

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. A NULL step is an empty step.
        scores: A number for each step. The step with the lowest number is removed first.
        answer: The answer, or a response that states it as `cot_answer` finds it.
        shares: The shares of the chain's tokens that the prunings keep: numbers above 0 and at most 1. Other
            numbers fail the query. The default is `[0.25, 0.35, 0.5, 0.7, 1.0]`.
        settings: Settings by name, such as scorer_model.

    >>> asap.shortest_surviving('2 + 2?', ('Hm.', '2 + 2 is 4.', 'Done.'), (0.1, 3.2, 1.4), '4')['share']  # doctest: +SKIP
    """
@overload
def shortest_surviving(
    question: _QuestionList,
    steps: _TextsList,
    scores: _NumbersList,
    answer: _TextList,
    shares: _NumbersList = None,
    **settings: Any,
) -> list[dict[str, Any] | None]: ...
@overload
def shortest_surviving(
    question: _QuestionArrow,
    steps: _TextsArrow,
    scores: _NumbersArrow,
    answer: _TextArrow,
    shares: _NumbersArrow = None,
    **settings: Any,
) -> Any: ...

@overload
def similarity(a: _Text, b: _Text, **settings: Any) -> float | None:
    r"""The Gestalt (Ratcliff/Obershelp) similarity of two texts, from 0 to 1. The similarity is twice the number of
    matching characters, divided by the number of characters of both texts. Characters are Unicode scalars. Ties are
    resolved as in Python's difflib. Every character counts, however often it occurs (`autojunk=False`). As
    published in the ASAP paper.

    Args:
        a: The text to compare.
        b: The text to compare `a` with. Swapping `a` and `b` may change the result.
        settings: Settings by name, such as scorer_model.

    >>> asap.similarity('2 + 2 is 4', '2 + 2 = 4')
    0.8421052631578947
    """
@overload
def similarity(a: _TextList, b: _TextList, **settings: Any) -> list[float | None]: ...
@overload
def similarity(a: _TextArrow, b: _TextArrow, **settings: Any) -> Any: ...

@overload
def similarity_difflib(a: _Text, b: _Text, **settings: Any) -> float | None:
    r"""The similarity of two texts, from 0 to 1, as `cot_similarity` but with the default of Python's difflib
    (`autojunk=True`). If `b` has at least 200 characters, a character that makes up more than 1 % of `b` cannot
    start a match. For long texts, this value is usually lower than `cot_similarity`. Differs from the ASAP paper:
    its published code computes this value, and its text names the similarity of `cot_similarity`.

    Args:
        a: The text to compare.
        b: The text to compare `a` with. Swapping `a` and `b` may change the result.
        settings: Settings by name, such as scorer_model.

    >>> asap.similarity_difflib('2 + 2 is 4', '2 + 2 = 4')
    0.8421052631578947
    """
@overload
def similarity_difflib(a: _TextList, b: _TextList, **settings: Any) -> list[float | None]: ...
@overload
def similarity_difflib(a: _TextArrow, b: _TextArrow, **settings: Any) -> Any: ...

@overload
def step_entropy(question: _Question, steps: _Texts, **settings: Any) -> list[float | None] | None:
    r"""The total entropy of the tokens of each step, in nats, by the scoring model (`asap.scorer.model`). In the first
    version of their paper, Li et al. (2025) prune the steps with the lowest totals first. The second version
    divides the totals by the number of tokens (`cot_mean_step_entropy`). A step gets NULL if one of its tokens has
    no token before it. One forward pass computes this entropy and `cot_perplexity`. As published (first version).

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as
            an empty step. A step without a token, or without one before it, has no score.
        settings: Settings by name, such as scorer_model.

    >>> asap.step_entropy('2 + 2?', ('2 + 2 is 4.', 'Done.'))  # doctest: +SKIP
    """
@overload
def step_entropy(question: _QuestionList, steps: _TextsList, **settings: Any) -> list[list[float | None] | None]: ...
@overload
def step_entropy(question: _QuestionArrow, steps: _TextsArrow, **settings: Any) -> Any: ...

@overload
def step_rank_surprisal(
    question: _Question, cot: _Text, answer: _Text, **settings: Any
) -> list[dict[str, Any] | None] | None:
    r"""The sums of `cot_rank_surprisal` for each step of the chain, as a list of structs of `ranks`, `surprisals` and
    `tokens`: to weigh parts of a trajectory. A step has the tokens that `cot_example` learns for it, with the blank
    line before it. The tags, the answer and the end belong to no step. Both functions together read the chain once.
    An example longer than the model's window gives NULL.

    Args:
        question: The question: a text, or a conversation with its system prompt, such as `cot_prompt` returns.
        cot: The chain of thought.
        answer: The text that follows the chain.
        settings: Settings by name, such as scorer_model.

    In SQL:
        select cot_step_rank_surprisal('2 + 2?', E'2 and 2 is 4.\n\nDone.', '4')[1]['ranks'];
    """
@overload
def step_rank_surprisal(
    question: _QuestionList, cot: _TextList, answer: _TextList, **settings: Any
) -> list[list[dict[str, Any] | None] | None]: ...
@overload
def step_rank_surprisal(question: _QuestionArrow, cot: _TextArrow, answer: _TextArrow, **settings: Any) -> Any: ...

@overload
def steps(cot: _Text, separator: _Text = None, **settings: Any) -> list[str | None] | None:
    r"""The steps of a chain of thought, split at blank lines. The separator is `(\r?\n){2,}`, so a line that contains
    spaces does not separate steps. A step loses the blank lines around it and the white space at its end, but keeps
    the indentation of its first line. Empty steps are dropped. With the separator `line`, a step ends at each line
    break outside of code fences, displayed formulas, tables and lists, and keeps the line breaks at its end: the
    steps together are the chain. As published in the ASAP paper, with the separator `blank-line`.

    Args:
        cot: A chain of thought.
        separator: What separates steps: `blank-line` or `line`. In a column, another text gives NULL. The default
            is the setting `asap.chain.steps`.
        settings: Settings by name, such as scorer_model.

    >>> asap.steps('2 + 2?\n\nIt is 4.')
    ['2 + 2?', 'It is 4.']
    """
@overload
def steps(cot: _TextList, separator: _TextList = None, **settings: Any) -> list[list[str | None] | None]: ...
@overload
def steps(cot: _TextArrow, separator: _TextArrow = None, **settings: Any) -> Any: ...

@overload
def surprisal(question: _Question, steps: _Texts, **settings: Any) -> list[float | None] | None:
    r"""The first-token surprisal of each step, in nats: −ln P(first token | question, earlier steps) by the scoring
    model (`asap.scorer.model`). One forward pass scores all steps. The first token is the token that covers the
    first character of the step. A step gets NULL if no token precedes it, or if it has no token. Differs from the
    ASAP paper: the model also reads the system prompt, the question and the think tag, so that the first step has a
    score.

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as
            an empty step. A step without a token, or without one before it, has no score.
        settings: Settings by name, such as scorer_model.

    >>> asap.surprisal('2 + 2?', ('2 + 2 is 4.', 'Done.'))  # doctest: +SKIP
    """
@overload
def surprisal(question: _QuestionList, steps: _TextsList, **settings: Any) -> list[list[float | None] | None]: ...
@overload
def surprisal(question: _QuestionArrow, steps: _TextsArrow, **settings: Any) -> Any: ...

@overload
def survives(question: _Question, steps: _Texts, kept: _Ints, answer: _Text, **settings: Any) -> dict[str, Any] | None:
    r"""Whether the answer survives pruning: whether the scoring model (`asap.scorer.model`) still states it after
    reading only some steps of a chain. The model reads the question, the kept steps, `</think>` and `The final
    answer is \boxed{`. The result is a struct of `log_probability` (the mean ln P of the answer's tokens), `stated`
    (what the model writes up to the closing brace, by greedy decoding, at most 64 tokens) and `survives` (whether
    `stated` equals the answer by the rules of `cot_verify`). The answer is the text that `cot_answer` finds in the
    argument `answer`, or else the whole argument if it is one line. Any other argument is a program, and so is one
    with a fenced block of code and no `\boxed`. For a program, the model reads only `</think>` after the steps,
    `log_probability` covers the whole argument, and `stated` and `survives` are NULL. Kept steps are joined by a
    blank line. Empty steps are left out. An empty answer, and a number in `kept` that no step has, give NULL.

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. A NULL step is an empty step.
        kept: The numbers of the steps that the model reads, from 1.
        answer: The answer, or a response that states it as `cot_answer` finds it.
        settings: Settings by name, such as scorer_model.

    >>> asap.survives('2 + 2?', ('Hm.', '2 + 2 is 4.', 'Done.'), (2,), '4')['survives']  # doctest: +SKIP
    """
@overload
def survives(
    question: _QuestionList, steps: _TextsList, kept: _IntsList, answer: _TextList, **settings: Any
) -> list[dict[str, Any] | None]: ...
@overload
def survives(
    question: _QuestionArrow, steps: _TextsArrow, kept: _IntsArrow, answer: _TextArrow, **settings: Any
) -> Any: ...

@overload
def think(generation: _Text, **settings: Any) -> str | None:
    r"""The chain of thought of a generation: the text from the first opening tag to the first closing tag after it,
    without white space at both ends. The tags are those of published models, such as `<think>`,
    `<|begin_of_thought|>`, `[THINK]` and `◁think▷`, and the channels `analysis` and `final` of gpt-oss. At the
    start of the generation, `<Thought>`, `<thought>`, `<thinking>` and `<reasoning>` are opening tags too. Without
    an opening tag, the chain begins at the start of the generation. Without a closing tag, the result is NULL.

    Args:
        generation: The text that the reasoning model wrote.
        settings: Settings by name, such as scorer_model.

    >>> asap.think('<think>2 + 2 is 4</think>4')
    '2 + 2 is 4'
    """
@overload
def think(generation: _TextList, **settings: Any) -> list[str | None]: ...
@overload
def think(generation: _TextArrow, **settings: Any) -> Any: ...

@overload
def token_entropies(question: _Question, steps: _Texts, **settings: Any) -> list[list[float | None] | None] | None:
    r"""For each step, the entropy of each of its tokens, in nats: of the distribution that the scoring model
    (`asap.scorer.model`) predicts for this token. The first entropy of a step is `cot_entropy`, and their sum is
    `cot_step_entropy`. The blank line before a step does not count. One forward pass computes these entropies and
    `cot_surprisal`. As published in the ASAP paper (figure 2).

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as
            an empty step. A step without a token, or without one before it, has no score.
        settings: Settings by name, such as scorer_model.

    >>> asap.token_entropies('2 + 2?', ('2 + 2 is 4.', 'Done.'))  # doctest: +SKIP
    """
@overload
def token_entropies(
    question: _QuestionList, steps: _TextsList, **settings: Any
) -> list[list[list[float | None] | None] | None]: ...
@overload
def token_entropies(question: _QuestionArrow, steps: _TextsArrow, **settings: Any) -> Any: ...

@overload
def tokens(text: _Text, **settings: Any) -> int | None:
    r"""The length of a text in tokens of the scoring model (`asap.scorer.model`), without special tokens.

    Args:
        text: Any text.
        settings: Settings by name, such as scorer_model.

    >>> asap.tokens('2 + 2 is 4')
    7
    """
@overload
def tokens(text: _TextList, **settings: Any) -> list[int | None]: ...
@overload
def tokens(text: _TextArrow, **settings: Any) -> Any: ...

@overload
def tokenskip_answer(answer: _Text, **settings: Any) -> str | None:
    r"""The answer that the pipeline `tokenskip` trains on. By default, it is the answer itself, as in the ASAP paper.
    With `asap.tokenskip.answer = sentence`, it is the sentence of TokenSkip's own program, which states the final
    answer (`cot_answer`), or the whole answer if `cot_answer` finds none. Then an answer with a code block and
    without a final answer stays as it is.

    Args:
        answer: The answer after the chain.
        settings: Settings by name, such as scorer_model.

    >>> asap.tokenskip_answer('2 + 2 = 4, so it is \\boxed{4}.')
    '2 + 2 = 4, so it is \\boxed{4}.'
    """
@overload
def tokenskip_answer(answer: _TextList, **settings: Any) -> list[str | None]: ...
@overload
def tokenskip_answer(answer: _TextArrow, **settings: Any) -> Any: ...

@overload
def too_long(question: _Question, steps: _Texts, answer: _Text = None, **settings: Any) -> str | None:
    r"""The reason, in words, why the scoring model (`asap.scorer.model`) cannot read a chain, or a chain and its
    answer; NULL if the text fits. The reason names the length of the text in tokens, the prompt included, and the
    model's window.

    Args:
        question: The question that the chain answers: a text, or a conversation with its system prompt, such as
            `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer
            than the model's window give NULL.
        steps: The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as
            an empty step. A step without a token, or without one before it, has no score.
        answer: The answer, for functions that read the answer after `</think>`. Without this argument, only the
            chain must fit.
        settings: Settings by name, such as scorer_model.

    >>> print(asap.too_long('2 + 2?', ('2 + 2 is 4.',)))
    None
    """
@overload
def too_long(
    question: _QuestionList, steps: _TextsList, answer: _TextList = None, **settings: Any
) -> list[str | None]: ...
@overload
def too_long(question: _QuestionArrow, steps: _TextsArrow, answer: _TextArrow = None, **settings: Any) -> Any: ...

@overload
def trace(
    steps: _Texts,
    coarse_kept: _Ints,
    similarity: _Numbers,
    surprisal: _Numbers,
    kept: _Ints,
    stage: _Text,
    **settings: Any,
) -> list[dict[str, Any] | None] | None:
    r"""What pruning did to each step of a chain, as a list of structs with the fields `step`, `tokens`, `similarity`,
    `surprisal` and `dropped`. `step` is the number of the step (from 1), `tokens` its length alone, in tokens of
    the scoring model, `similarity` its similarity to the matching step of the coarse chain (`cot_match`), and
    `surprisal` its score. `dropped` names the stage that dropped it: `'anchor'` if it is not in `coarse_kept`, else
    `stage` if it is not in `kept`, or NULL if it is kept. Lists whose lengths do not match give NULL.

    Args:
        steps: The steps of the original chain. A NULL step is an empty step.
        coarse_kept: The numbers of the steps that stage 1 kept, from 1. NULL: stage 1 did not run.
        similarity: The similarity of each step in `coarse_kept`. NULL: unknown.
        surprisal: The score of each step in `coarse_kept`, or in `steps` if stage 1 did not run. NULL: not scored.
        kept: The steps that stage 2 kept, as places (from 1) in `coarse_kept`, or in `steps` if stage 1 did not
            run.
        stage: The name of stage 2, such as 'surprisal' or 'random'.
        settings: Settings by name, such as scorer_model.

    >>> asap.trace(('Hm.', '2 + 2 is 4.', 'Done.'), (2, 3), (1.0, 1.0), (3.25, 1.5), (1,), 'surprisal')[2]
    {'step': 3, 'tokens': 3, 'similarity': 1.0, 'surprisal': 1.5, 'dropped': 'surprisal'}
    """
@overload
def trace(
    steps: _TextsList,
    coarse_kept: _IntsList,
    similarity: _NumbersList,
    surprisal: _NumbersList,
    kept: _IntsList,
    stage: _TextList,
    **settings: Any,
) -> list[list[dict[str, Any] | None] | None]: ...
@overload
def trace(
    steps: _TextsArrow,
    coarse_kept: _IntsArrow,
    similarity: _NumbersArrow,
    surprisal: _NumbersArrow,
    kept: _IntsArrow,
    stage: _TextArrow,
    **settings: Any,
) -> Any: ...

@overload
def truncate(steps: _Texts, ratio: _Number, **settings: Any) -> list[int | None] | None:
    r"""The numbers (from 1) of the steps of the longest prefix of a chain that has at most the share `ratio` of its
    tokens. The steps are joined by a blank line, and the limit is rounded down. For exactly `budget` tokens, pass
    `CAST(budget AS DOUBLE) / tokens` as the ratio.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        ratio: The share of the tokens that may remain, from 0 to 1. Another value gives NULL.
        settings: Settings by name, such as scorer_model.

    >>> asap.truncate(('Hm.', '2 + 2 is 4.', 'Done.'), 0.5)
    [1]
    """
@overload
def truncate(steps: _TextsList, ratio: _NumberList, **settings: Any) -> list[list[int | None] | None]: ...
@overload
def truncate(steps: _TextsArrow, ratio: _NumberArrow, **settings: Any) -> Any: ...

@overload
def turns(messages: _Conversation, role: _Text, **settings: Any) -> list[str | None] | None:
    r"""The texts of one role in a conversation, turn by turn. The roles `human`, `gpt`, `model`, `ai`, `bot` and
    `developer` are other names for `user`, `assistant` and `system`; case does not count. A conversation is a list
    of structs with the fields `role` and `content` (or `parts`), or `from` and `value`. A conversation may also be
    one struct in which each of these two fields is a list of texts. A content may be a list of parts: the parts of
    text are joined, after those of thoughts in think tags, and other parts are left out.

    Args:
        messages: The conversation.
        role: The role: `user`, `assistant`, `system`, or any other.
        settings: Settings by name, such as scorer_model.

    >>> asap.turns(({'role': 'user', 'content': '2 + 2?'}, {'role': 'assistant', 'content': '4'}), 'user')
    ['2 + 2?']
    """
@overload
def turns(messages: _ConversationList, role: _TextList, **settings: Any) -> list[list[str | None] | None]: ...
@overload
def turns(messages: _ConversationArrow, role: _TextArrow, **settings: Any) -> Any: ...

@overload
def unstated(steps: _Texts, answer: _Text, **settings: Any) -> list[str | None] | None:
    r"""The steps without the sentences that state the answer. A sentence states the answer if one of four parts of it
    equals the answer by the rules of `cot_verify`: the content of a `\boxed`, the text after "answer is" or
    "answer:", a formula, or the text after the last `=` or `is`. To see whether the other sentences lead to the
    answer, apply `cot_survives` to the result. Every step keeps its number: a step without remaining sentences
    becomes an empty text. A sentence ends with its line, or at `.`, `?` or `!` before a space.

    Args:
        steps: The steps of a chain of thought. A NULL step is an empty step.
        answer: The answer, or a response that states it as `cot_answer` finds it.
        settings: Settings by name, such as scorer_model.

    >>> asap.unstated(('Let me add. 2 + 2 = 4.', 'Sure?', 'It is 4.'), 'It is \\boxed{4}.')
    ['Let me add.', 'Sure?', '']
    """
@overload
def unstated(steps: _TextsList, answer: _TextList, **settings: Any) -> list[list[str | None] | None]: ...
@overload
def unstated(steps: _TextsArrow, answer: _TextArrow, **settings: Any) -> Any: ...

@overload
def verify(gold: _Text, response: _Text, **settings: Any) -> bool | None:
    r"""Whether the answer that `response` states (`cot_answer`) equals the expected answer `gold`. asap compares
    rational numbers exactly, other numbers to 120 digits, and expressions by their values at points that both
    expressions determine. Lists and sets may be in any order, and tuples must be in the same order. Intervals (also
    `[2,5[`) and sets such as `\{x \mid 2 \le x < 5\}` are compared as the inequalities that they stand for,
    matrices entry by entry, and equations up to a factor. `x = 5` equals `5`. If `gold` has no `=`, an equation in
    a box or after "answer is" states its value if the equation holds (`2 + 3 = 5`) or names what is asked for (`m +
    n = 5`, `P(X = 2) = 0.5`), but not if it is to be solved (`2x = 5`). The response may add a condition that holds
    for all values, such as `n \ge 1`, and, if `gold` has no unit, one word of another script after its number. A
    unit, a currency sign, or the `%` of a number of at least 10 may be omitted. The letter of a choice equals the
    letter with its text (`B` and `B. 12`), and several letters may be in any order (`ABD` and `D, A, B`). Arguments
    of functions may have other names (`f(x) = x^2` and `f(t) = t^2`), and so may the constant `C` at the end of a
    sum. If `gold` is a list or a set, boxes with only commas, "and" or white space between them are a list. Four
    kinds of answers are equal only if their texts are identical: answers with two readings, answers whose letters
    look multiplied but are not (`P(2)`, `\frac{dy}{dx}`), answers that `cot_verify` cannot parse, and answers that
    cost too much to compare. So `cot_verify` may reject a right answer. It rejects rounded answers. A response
    without an answer gives false.

    Args:
        gold: The expected answer, or a solution that states it in a form that `cot_answer` finds, such as
            `\boxed{4}`.
        response: The text that a model wrote, with or without its chain of thought.
        settings: Settings by name, such as scorer_model.

    >>> asap.verify('0.5', '<think>Half of it.</think>It is \\boxed{\\frac{1}{2}}.')
    True
    """
@overload
def verify(gold: _TextList, response: _TextList, **settings: Any) -> list[bool | None]: ...
@overload
def verify(gold: _TextArrow, response: _TextArrow, **settings: Any) -> Any: ...
