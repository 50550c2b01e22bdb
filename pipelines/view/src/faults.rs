//! What can be wrong with a chain: the one list that `asap inspect --health`, `asap view` and the docs read.

/// A kind of fault.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name in tables and JSON.
    pub name: &'static str,
    /// The faulty rows, as the docs say it: "the rows …".
    pub rows: &'static str,
    /// How SQL finds them. For outputs, it is the filter that `asap view` links to.
    pub sql: &'static str,
    /// Whether `asap inspect --health` counts it.
    pub in_inspect: bool,
    /// What the faulty chains of an output are, after "1 chain" and "2 chains". None if `asap view` does not count it.
    pub in_view: Option<&'static str>,
}

const fn of_rows(name: &'static str, rows: &'static str, sql: &'static str) -> Kind {
    Kind { name, rows, sql, in_inspect: true, in_view: None }
}

pub(crate) const CUT_OFF: Kind = of_rows(
    "cut_off",
    "whose [finish reason](layouts.md#finish-reasons) says that the generation was cut off. Unknown values are listed and not counted",
    "cot_cut_off(finish_reason)",
);
pub(crate) const LOOP: Kind =
    of_rows("loop", "more than a tenth of whose chain repeats itself", "cot_repetition(cot) > 0.1");
pub(crate) const MIXED_SCRIPTS: Kind =
    of_rows("mixed_scripts", "whose chain has a word of another script", "cardinality(cot_scripts(cot)) > 1");
pub(crate) const HOLLOW: Kind = Kind {
    name: "hollow",
    rows: "of an output whose pruned chain has no digit and no formula, although the original has one",
    sql: "cot_hollow(original_cot, cot)",
    in_inspect: true,
    in_view: Some("that lost every digit and formula"),
};
pub(crate) const WRONG_ANSWER: Kind = of_rows(
    "wrong_answer",
    "whose flags mark them as wrong, or whose answer differs from a column such as `expected_answer` or `ground_truth`",
    "cot_verify(expected_answer, answer)",
);
pub(crate) const WITHOUT_RESULT: Kind = of_rows(
    "call_without_result",
    "whose conversation continues after a call of a tool without its result",
    "cardinality(cot_call_faults(turns)['without_result']) > 0",
);
pub(crate) const WITHOUT_CALL: Kind = of_rows(
    "result_without_call",
    "whose conversation has a result that answers no call",
    "cardinality(cot_call_faults(turns)['without_call']) > 0",
);
pub(crate) const NOT_JSON: Kind = of_rows(
    "arguments_not_json",
    "whose conversation has a call with arguments that are not JSON",
    "cardinality(cot_call_faults(turns)['not_json']) > 0",
);
pub(crate) const SAME_ID: Kind = of_rows(
    "call_id_twice",
    "whose conversation has a call with the id of a call that has no result yet",
    "cardinality(cot_call_faults(turns)['same_id']) > 0",
);
pub(crate) const DUPLICATE: Kind = of_rows(
    "duplicate",
    "whose question is a near duplicate of the question of an earlier row",
    "cot_duplicates('LOC')",
);
pub(crate) const CONTAMINATED: Kind = of_rows(
    "contaminated",
    "whose question contains the question of a benchmark",
    "cot_contaminated('LOC', 'FILE', …)",
);
const NO_ANSWER: Kind = Kind {
    name: "no answer",
    rows: "of an output without an answer",
    sql: "answer IS NULL OR trim(answer) = ''",
    in_inspect: false,
    in_view: Some("without an answer"),
};
/// A step occurs three times if a step equals the one two places after it once they are sorted.
const REPETITIVE: Kind = Kind {
    name: "repetitive",
    rows: "of an output in which a kept step occurs three times or more",
    sql: "array_has_any(arrays_zip(array_sort(cot_steps(cot)), array_slice(array_sort(cot_steps(cot)), 3, -1)), \
          arrays_zip(cot_steps(cot), cot_steps(cot)))",
    in_inspect: false,
    in_view: Some("in which a kept step occurs three times or more"),
};
const ONE_STEP: Kind = Kind {
    name: "one step",
    rows: "of an output with one step left of several",
    sql: "cardinality(cot_steps(cot)) = 1 AND cardinality(steps) > 1",
    in_inspect: false,
    in_view: Some("with one step left of several"),
};

/// All kinds of faults: first those that `asap inspect --health` counts.
pub const KINDS: [Kind; 14] = [
    CUT_OFF,
    LOOP,
    MIXED_SCRIPTS,
    HOLLOW,
    WRONG_ANSWER,
    WITHOUT_RESULT,
    WITHOUT_CALL,
    NOT_JSON,
    SAME_ID,
    DUPLICATE,
    CONTAMINATED,
    NO_ANSWER,
    REPETITIVE,
    ONE_STEP,
];

/// The faults that the overview of an output counts: each with what it means, and its filter.
pub(crate) fn in_view() -> impl Iterator<Item = (&'static Kind, &'static str)> {
    KINDS.iter().filter_map(|kind| Some((kind, kind.in_view?)))
}
