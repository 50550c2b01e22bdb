//! Chains and their steps: splitting, joining, and what each step does.

use asap_kernels::functions::{Function, without_lowest_functional};
use asap_kernels::steps::{Separator, select};

use super::arguments::STEPS;
use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::argument;
use crate::output::{Numbers, Text, Texts};
use crate::settings::Settings;

pub(super) const COT_STEPS: RowFunction<Settings, Texts> = RowFunction {
    name: "cot_steps",
    about: "The steps of a chain of thought, split at blank lines. The separator is `(\\r?\\n){2,}`, so a line that contains spaces does not separate steps. A step loses the blank lines around it and the white space at its end, but keeps the indentation of its first line. Empty steps are dropped. With the separator `line`, a step ends at each line break outside of code fences, displayed formulas, tables and lists, and keeps the line breaks at its end: the steps together are the chain. As published in the ASAP paper, with the separator `blank-line`.",
    arguments: &[
        argument!(cot: Text, "A chain of thought."),
        argument!(separator?: Separator, "What separates steps: `blank-line` or `line`. In a column, another text gives NULL. The default is the setting `asap.chain.steps`."),
    ],
    example: "select cot_steps(E'2 + 2?\\n\\nIt is 4.');\n-- [2 + 2?, It is 4.]",
    row: |settings, row| {
        let separator = match row.is_given(1) {
            true => Separator::named(row.text(1)?).ok_or(NoValue::Null)?,
            false => settings.chain_steps,
        };
        Ok(separator.steps(row.text(0)?).into_iter().map(|step| Some(step.into())).collect())
    },
};

pub(super) const COT_SELECT: RowFunction<(), Text> = RowFunction {
    name: "cot_select",
    about: "The chosen steps, in the order of `kept`, joined by a blank line. A step that ends with a line break, as those of `cot_steps(cot, 'line')` do, is followed by the next step directly. An empty list `kept` gives an empty text. A number in `kept` that no step has gives NULL.",
    arguments: &[STEPS, argument!(kept: IntList, "The numbers of the steps to join, from 1.")],
    example: "select cot_select(['Hm.', '2 + 2 is 4.', 'Done.'], [2, 3]);\n-- 2 + 2 is 4.\\n\\nDone.",
    row: |_, row| {
        let all = row.texts(0)?;
        Ok(select(&all, row.indices(1, all.len())?).into())
    },
};

pub(super) const COT_FUNCTIONS: RowFunction<(), Texts> = RowFunction {
    name: "cot_functions",
    about: "The function of each step, in the classes of PIR: `progress`, or one of the functional steps `verification`, `other_method` and `error_correction`. PIR is a method of Xiao et al. (2025). Rules look for English phrases in the first 100 characters of a step, in this order: another method (\"Alternatively\"), a check (\"Let me verify\"), a correction (\"Wait\", \"a mistake\"). A step without such a phrase is `progress`. Differs from its publication: rules find the functional steps, and PIR asks a language model.",
    arguments: &[STEPS],
    example: "select cot_functions(['2 + 2 is 4.', 'Let me verify: 4 - 2 is 2.', 'Wait, no.']);\n-- [progress, verification, error_correction]",
    row: |_, row| Ok(row.texts(0)?.into_iter().map(|step| Some(Function::of(step).name().into())).collect()),
};

pub(super) const COT_DROP_FUNCTIONAL: RowFunction<(), Numbers> = RowFunction {
    name: "cot_drop_functional",
    about: "The numbers (from 1, ascending) of the steps that remain after the functional steps with the lowest scores are dropped. A functional step has any function except `progress` (see `cot_functions`). asap drops `share` of the functional steps, rounded down. With the scores of `cot_attribution` and a `share` of 0.2 to 0.3, this is the rule of PIR (Xiao et al. 2025). Steps of the function `progress` always stay, so the result may exceed a budget. If scores are equal, asap drops the earlier step first. A NULL score counts as 0. Lists of different lengths, or an unknown function, give NULL. As published.",
    arguments: &[
        argument!(functions: TextList, "The function of each step, as `cot_functions` returns it."),
        argument!(scores: FloatList, "A number for each step."),
        argument!(share: Ratio, "The share of the functional steps to drop, from 0 to 1."),
    ],
    example: "select cot_drop_functional(['progress', 'verification', 'verification'], [0.1, 0.3, 0.2], 0.5);\n-- [1, 2]",
    row: |_, row| {
        let (names, scores, share) = (row.texts(0)?, row.floats(1)?, row.ratio(2)?);
        let function = |name: &str| Function::ALL.into_iter().find(|function| function.name() == name);
        let functions = names.into_iter().map(function).collect::<Option<Vec<_>>>();
        let functions = functions.filter(|functions| functions.len() == scores.len()).ok_or(NoValue::Null)?;
        Ok(Numbers(without_lowest_functional(&functions, &scores, share)))
    },
};
