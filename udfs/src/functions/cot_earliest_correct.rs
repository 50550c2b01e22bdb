use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Numbers;

pub(crate) struct CotEarliestCorrect;

impl RowFunction for CotEarliestCorrect {
    const DECLARATION: Declaration = Declaration {
        name: "cot_earliest_correct",
        about: "The numbers (from 1) of the steps up to the first step that states the answer, or of all steps if no step states it. These steps are the first-correct solution of Chen et al. (2024). A step states the answer if one of four parts of the step equals the answer by the rules of `cot_verify`: the content of a `\\boxed`, the text after \"answer is\" or \"answer:\", a formula, or the text after the last `=` or `is` of a sentence.",
        arguments: &[
            Argument::new("steps", Arg::TextList, "The steps of a chain of thought. A NULL step is an empty step."),
            Argument::new("answer", Arg::Text, "The answer, or a response that states it as `cot_answer` finds it."),
        ],
        example: "select cot_earliest_correct(['Hm.', '2 + 2 = 4.', 'Sure? Yes.'], 'It is \\boxed{4}.');\n-- [1, 2]",
    };
    type Needs = ();
    type Output<'a> = Numbers;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Numbers> {
        let (steps, answer) = (row.texts(0)?, row.text(1)?);
        let first = asap_verify::first_stating(answer, &steps);
        Ok(Numbers((0..first.map_or(steps.len(), |step| step + 1)).collect()))
    }
}
