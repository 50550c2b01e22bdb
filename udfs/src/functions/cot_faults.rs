//! Faults of traces that a row shows alone.

use asap_kernels::health;

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::argument;
use crate::output::struct_output;

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

/// A script and its share of words.
pub(super) struct Script((&'static str, f64));

struct_output!(script: Script => "script": Some(script.0.0), "share": Some(script.0.1));
