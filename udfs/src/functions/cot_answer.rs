//! Final answers: finding them, comparing them, and the steps and generations that state them.

use std::borrow::Cow;
use std::sync::Arc;

use asap_kernels::tags::think;
use asap_lm::Tokenizer;

use super::arguments::{STATED_ANSWER, STEPS};
use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::{Argument, argument};
use crate::output::{Text, Texts};
use crate::settings::{Settings, SkippedAnswer};

const RESPONSE: Argument =
    argument!(response: Text, "The text that a model wrote, with or without its chain of thought.");

pub(super) const COT_ANSWER: RowFunction<(), Text> = RowFunction {
    name: "cot_answer",
    about: "The final answer that a response states after its chain of thought. The final answer is the content of the last `\\boxed`. Neighboring boxes with \"and\", \"or\" or a comma between them form a list, unless they all have the same value. Without a box, it is the text after the last \"answer is\", \"answer:\" or \"correct option is\", or the line after a heading such as \"Final answer\" (also in several other languages), or else the text after the last `####`. If \"should be\" or the like replaces \"is\", only a value counts. Words before the value (`exactly 4`) and words after it that neither change nor doubt it (`4 because 2 + 2 = 4`, `D, not B`) are left out. Without all of these, it is the response itself, if that is one line with nothing but a value, or one that ends in an equation. The result is NULL if the response has none of these, if a heading is followed by several values, if the text denies or corrects the answer, or if the chain is cut off (an opening tag without its closing tag). Only the last 65,536 bytes of the response are searched.",
    arguments: &[RESPONSE],
    example: "select cot_answer('<think>Maybe \\boxed{5}?</think>It is \\boxed{4}.');\n-- 4",
    row: |_, row| asap_verify::answer(row.text(0)?).ok_or(NoValue::Null),
};

pub(super) const COT_VERIFY: RowFunction<(), bool> = RowFunction {
    name: "cot_verify",
    about: "Whether the answer that `response` states (`cot_answer`) equals the expected answer `gold`. asap compares rational numbers exactly, other numbers to 120 digits, and expressions by their values at points that both expressions determine. Lists and sets may be in any order, and tuples must be in the same order. Intervals (also `[2,5[`) and sets such as `\\{x \\mid 2 \\le x < 5\\}` are compared as the inequalities that they stand for, matrices entry by entry, and equations up to a factor. `x = 5` equals `5`. If `gold` has no `=`, an equation in a box or after \"answer is\" states its value if the equation holds (`2 + 3 = 5`) or names what is asked for (`m + n = 5`, `P(X = 2) = 0.5`), but not if it is to be solved (`2x = 5`). The response may add a condition that holds for all values, such as `n \\ge 1`, and, if `gold` has no unit, one word of another script after its number. A unit, a currency sign, or the `%` of a number of at least 10 may be omitted. The letter of a choice equals the letter with its text (`B` and `B. 12`), and several letters may be in any order (`ABD` and `D, A, B`). Arguments of functions may have other names (`f(x) = x^2` and `f(t) = t^2`), and so may the constant `C` at the end of a sum. If `gold` is a list or a set, boxes with only commas, \"and\" or white space between them are a list. Four kinds of answers are equal only if their texts are identical: answers with two readings, answers whose letters look multiplied but are not (`P(2)`, `\\frac{dy}{dx}`), answers that `cot_verify` cannot parse, and answers that cost too much to compare. So `cot_verify` may reject a right answer. It rejects rounded answers. A response without an answer gives false.",
    arguments: &[
        argument!(gold: Text, "The expected answer, or a solution that states it in a form that `cot_answer` finds, such as `\\boxed{4}`."),
        RESPONSE,
    ],
    example: "select cot_verify('0.5', '<think>Half of it.</think>It is \\boxed{\\frac{1}{2}}.');\n-- true",
    row: |_, row| Ok(asap_verify::verify(row.text(0)?, row.text(1)?)),
};

pub(super) const COT_TOKENSKIP_ANSWER: RowFunction<Settings, Text> = RowFunction {
    name: "cot_tokenskip_answer",
    about: "The answer that the pipeline `tokenskip` trains on. By default, it is the answer itself, as in the ASAP paper. With `asap.tokenskip.answer = sentence`, it is the sentence of TokenSkip's own program, which states the final answer (`cot_answer`), or the whole answer if `cot_answer` finds none. Then an answer with a code block and without a final answer stays as it is.",
    arguments: &[argument!(answer: Text, "The answer after the chain.")],
    example: "select cot_tokenskip_answer('2 + 2 = 4, so it is \\boxed{4}.');\n-- 2 + 2 = 4, so it is \\boxed{4}.",
    row: |settings, row| {
        let answer = row.text(0)?;
        let stated = asap_verify::answer(answer);
        let is_kept =
            settings.tokenskip_answer == SkippedAnswer::Original || stated.is_none() && answer.contains("```");
        Ok(if is_kept {
            Cow::Borrowed(answer)
        } else {
            Cow::Owned(format!("The final answer is: $\\boxed{{{}}}$", stated.as_deref().unwrap_or(answer)))
        })
    },
};

pub(super) const COT_UNSTATED: RowFunction<(), Texts> = RowFunction {
    name: "cot_unstated",
    about: "The steps without the sentences that state the answer. A sentence states the answer if one of four parts of it equals the answer by the rules of `cot_verify`: the content of a `\\boxed`, the text after \"answer is\" or \"answer:\", a formula, or the text after the last `=` or `is`. To see whether the other sentences lead to the answer, apply `cot_survives` to the result. Every step keeps its number: a step without remaining sentences becomes an empty text. A sentence ends with its line, or at `.`, `?` or `!` before a space.",
    arguments: &[STEPS, STATED_ANSWER],
    example: "select cot_unstated(['Let me add. 2 + 2 = 4.', 'Sure?', 'It is 4.'], 'It is \\boxed{4}.');\n-- [Let me add., Sure?, ]",
    row: |_, row| Ok(asap_verify::unstated(row.text(1)?, &row.texts(0)?).into_iter().map(Some).collect()),
};

pub(super) const COT_SHORTEST_CORRECT: RowFunction<Arc<Tokenizer>, i64> = RowFunction {
    name: "cot_shortest_correct",
    about: "The number (from 1) of the generation with the fewest tokens among the generations that have a chain of thought and state the expected answer, by the rules of `cot_verify`. If several are equally short, the result is the first. If no generation states the answer, the result is NULL. Sky-T1-Flash and Munkhbat et al. (2025) train on it. As published.",
    arguments: &[
        argument!(generations: TextList, "Several generations for a question, each with the chain in think tags and then the answer."),
        argument!(gold: Text, "The expected answer, or a solution that states it as a response does."),
    ],
    example: "select cot_shortest_correct(['<think>So 2 + 2 is 4.</think>\\boxed{4}', '<think>4</think>\\boxed{4}', '<think></think>\\boxed{5}'], '4');\n-- 2",
    row: |tokenizer, row| {
        let (generations, gold) = (row.texts(0)?, row.text(1)?);
        let mut shortest: Option<(usize, usize)> = None;
        for (place, generation) in generations.into_iter().enumerate() {
            let has_chain = think(generation).is_some_and(|chain| !chain.is_empty());
            if has_chain && asap_verify::verify(gold, generation) {
                let tokens = tokenizer.count(generation)?;
                shortest = shortest.into_iter().chain([(tokens, place)]).min();
            }
        }
        shortest.map(|(_, place)| place as i64 + 1).ok_or(NoValue::Null)
    },
};
