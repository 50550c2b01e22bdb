//! Faults of traces that a row shows alone.

use asap_kernels::health;

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::argument;
use crate::output::struct_output;
use crate::reading::calls::{Call, is_json};
use crate::reading::turns::Turn;

pub(super) const COT_REPETITION: RowFunction<(), f64> = RowFunction {
    name: "cot_repetition",
    about: "The share of a text that is in loops, from 0 to 1. A loop is a sequence of 16 tokens that occurs at least 16 times, or a sequence of any length that directly follows itself at least twice, in at least 48 tokens. A token is here a run of letters, a run of digits, one character of Chinese, Japanese or Korean, or one other character, so the result depends on no model. White space and case do not count.",
    arguments: &[argument!(text: Text, "A chain, or any other text.")],
    example: "select cot_repetition(repeat('Wait, let me check this. ', 20));\n-- 1.0",
    row: |_, row| Ok(health::repetition(row.text(0)?)),
};

pub(super) const COT_SCRIPTS: RowFunction<(), Vec<Script>> = RowFunction {
    name: "cot_scripts",
    about: "The scripts of a text, each with its share of the words, the largest first. Each character of Chinese, Japanese or Korean is a word. Single letters such as `x` and LaTeX commands do not count as words. Hiragana and Katakana count as Han, because Japanese uses all three. If another script has more words than Latin, Latin is left out, because texts in all scripts write formulas, names and code in Latin. So a text with more than one script mixes languages.",
    arguments: &[argument!(text: Text, "A chain, or any other text.")],
    example: "select cot_scripts('So let us 考虑');\n-- [{script: Latin, share: 0.6}, {script: Han, share: 0.4}]",
    row: |_, row| Ok(health::scripts(row.text(0)?).into_iter().map(Script).collect()),
};

pub(super) const COT_HOLLOW: RowFunction<(), bool> = RowFunction {
    name: "cot_hollow",
    about: "Whether a pruned chain is hollow: it has no digit and no formula, although the original chain has one. A formula has one of the signs `=`, `$`, `<`, `>`, `\\(` and `\\[`.",
    arguments: &[
        argument!(original: Text, "The chain before pruning: `original_cot` of an output."),
        argument!(cot: Text, "The pruned chain."),
    ],
    example: "select cot_hollow('2 + 2 = 4. So that is it.', 'So that is it.');\n-- true",
    row: |_, row| Ok(health::is_hollow(row.text(0)?, row.text(1)?)),
};

pub(super) const COT_CUT_OFF: RowFunction<(), bool> = RowFunction {
    name: "cot_cut_off",
    about: "Whether a generation ended before its model finished it, by its finish reason: true for `length`, `max_tokens` and others, false for `stop`, `end_turn` and others, NULL for a value that asap does not know. Case does not count. [Layouts](layouts.md#finish-reasons) lists the values.",
    arguments: &[argument!(finish_reason: Text, "Why the generation ended, as the server reported it.")],
    example: "select cot_cut_off('MAX_TOKENS');\n-- true",
    row: |_, row| health::is_cut_off(row.text(0)?).ok_or(NoValue::Null),
};

pub(super) const COT_CALL_FAULTS: RowFunction<(), CallFaults> = RowFunction {
    name: "cot_call_faults",
    about: "The faults of calls of tools in a conversation, in four lists: calls `without_result` before the last turn, results `without_call`, calls whose arguments are `not_json`, and calls with the `same_id` as a call that has no result yet. A result answers the call with its id. Without ids, it answers the first open call of its tool, else the first open call, also one in `<tool_call>` tags.",
    arguments: &[argument!(turns: Turns, "The column `turns` of a corpus.")],
    example: "select cardinality(cot_call_faults([{'role': 'assistant', 'calls': [{'name': 'add', 'arguments': '{8, 5}'}]}])['not_json']);\n-- 1",
    row: |_, row| Ok(CallFaults::of(&row.conversation(0)?)),
};

/// The faults of calls in a conversation.
#[derive(Default)]
pub(super) struct CallFaults {
    without_result: Vec<String>,
    without_call: Vec<String>,
    not_json: Vec<String>,
    same_id: Vec<String>,
}

impl CallFaults {
    fn of(turns: &[Turn]) -> Self {
        let mut faults = Self::default();
        let (mut open, mut written): (Vec<(usize, &Call)>, usize) = (Vec::new(), 0);
        for (number, turn) in turns.iter().enumerate() {
            written += turn.text.as_deref().unwrap_or_default().matches("<tool_call>").count();
            for call in &turn.calls {
                if !call.arguments.as_deref().is_none_or(is_json) {
                    faults.not_json.push(shown(number, call.name.as_deref()));
                }
                if call.id.is_some() && open.iter().any(|(_, other)| other.id == call.id) {
                    faults.same_id.push(shown(number, call.name.as_deref()));
                }
                open.push((number, call));
            }
            if turn.role != "tool" {
                continue;
            }
            let find = |is_it: &dyn Fn(&Call) -> bool| open.iter().position(|(_, call)| is_it(call));
            let may_be = |call: &Call| turn.call_id.is_none() || call.id.is_none();
            let answered = find(&|call| turn.call_id.is_some() && call.id == turn.call_id)
                .or_else(|| find(&|call| may_be(call) && turn.name.is_some() && call.name == turn.name))
                .or_else(|| find(&may_be));
            match answered {
                Some(at) => drop(open.remove(at)),
                None if written > 0 => written -= 1,
                None => faults.without_call.push(shown(number, turn.name.as_deref())),
            }
        }
        // Nothing follows the last turn.
        let unanswered = open.into_iter().filter(|(number, _)| number + 1 < turns.len());
        faults.without_result = unanswered.map(|(number, call)| shown(number, call.name.as_deref())).collect();
        faults
    }
}

fn shown(number: usize, name: Option<&str>) -> String {
    format!("turn {}: {}", number + 1, name.unwrap_or("no name"))
}

fn listed(texts: &[String]) -> Option<Vec<&str>> {
    Some(texts.iter().map(String::as_str).collect())
}

struct_output!(faults: CallFaults =>
    "without_result": listed(&faults.without_result),
    "without_call": listed(&faults.without_call),
    "not_json": listed(&faults.not_json),
    "same_id": listed(&faults.same_id),
);

/// A script and its share of words.
pub(super) struct Script((&'static str, f64));

struct_output!(script: Script => "script": Some(script.0.0), "share": Some(script.0.1));
