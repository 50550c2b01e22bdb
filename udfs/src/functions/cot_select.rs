use std::borrow::Cow;

use asap_kernels::steps::join;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotSelect;

impl RowFunction for CotSelect {
    const DECLARATION: Declaration = Declaration {
        name: "cot_select",
        about: "The chosen steps, in the order of `kept`, joined by a blank line. An empty list `kept` gives an empty text. A number in `kept` that no step has gives NULL.",
        arguments: &[
            Argument::new("steps", Arg::TextList, "The steps of a chain of thought. A NULL step is an empty step."),
            Argument::new("kept", Arg::IntList, "The numbers of the steps to join, from 1."),
        ],
        example: "select cot_select(['Hm.', '2 + 2 is 4.', 'Done.'], [2, 3]);\n-- 2 + 2 is 4.\\n\\nDone.",
    };
    type Needs = ();
    type Output<'a> = Cow<'a, str>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Cow<'a, str>> {
        let steps = row.texts(0)?;
        Ok(join(row.indices(1, steps.len())?.into_iter().map(|step| steps[step])).into())
    }
}
