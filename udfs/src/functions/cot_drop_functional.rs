use asap_kernels::functions::{Function, without_lowest_functional};

use super::by_row::RowFunction;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Numbers;

pub(crate) struct CotDropFunctional;

impl RowFunction for CotDropFunctional {
    const DECLARATION: Declaration = Declaration {
        name: "cot_drop_functional",
        about: "The numbers (from 1, ascending) of the steps that remain after the functional steps with the lowest scores are dropped. A functional step has any function except `progress` (see `cot_functions`). asap drops `share` of the functional steps, rounded down. With the scores of `cot_attribution` and a `share` of 0.2 to 0.3, this is the rule of PIR (Xiao et al. 2025). Steps of the function `progress` always stay, so the result may exceed a budget. If scores are equal, asap drops the earlier step first. A NULL score counts as 0. Lists of different lengths, or an unknown function, give NULL.",
        arguments: &[
            Argument::new("functions", Arg::TextList, "The function of each step, as `cot_functions` returns it."),
            Argument::new("scores", Arg::FloatList, "A number for each step."),
            Argument::new("share", Arg::Ratio, "The share of the functional steps to drop, from 0 to 1."),
        ],
        example: "select cot_drop_functional(['progress', 'verification', 'verification'], [0.1, 0.3, 0.2], 0.5);\n-- [1, 2]",
    };
    type Needs = ();
    type Output<'a> = Numbers;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Numbers> {
        let (names, scores, share) = (row.texts(0)?, row.floats(1)?, row.ratio(2)?);
        let function = |name: &str| Function::ALL.into_iter().find(|function| function.name() == name);
        let functions = names.into_iter().map(function).collect::<Option<Vec<_>>>();
        match functions.filter(|functions| functions.len() == scores.len()) {
            Some(functions) => Ok(Numbers(without_lowest_functional(&functions, &scores, share))),
            None => Err(NoValue::Null),
        }
    }
}
