use asap_kernels::functions::Function;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotFunctions;

impl RowFunction for CotFunctions {
    const DECLARATION: Declaration = Declaration {
        name: "cot_functions",
        about: "The function of each step, in the classes of PIR: `progress`, or one of the functional steps `verification`, `other_method` and `error_correction`. PIR is a method of Xiao et al. (2025). Rules look for English phrases in the first 100 characters of a step, in this order: another method (\"Alternatively\"), a check (\"Let me verify\"), a correction (\"Wait\", \"a mistake\"). A step without such a phrase is `progress`. Unlike the authors of PIR, this function asks no language model.",
        arguments: &[Argument::new(
            "steps",
            Arg::TextList,
            "The steps of a chain of thought. A NULL step is an empty step.",
        )],
        example: "select cot_functions(['2 + 2 is 4.', 'Let me verify: 4 - 2 is 2.', 'Wait, no.']);\n-- [progress, verification, error_correction]",
    };
    type Needs = ();
    type Output<'a> = Vec<Option<&'a str>>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Vec<Option<&'a str>>> {
        Ok(row.texts(0)?.into_iter().map(|step| Some(Function::of(step).name())).collect())
    }
}
