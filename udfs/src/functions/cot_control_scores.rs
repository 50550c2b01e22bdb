use std::sync::Arc;

use asap_kernels::controls::Control;
use asap_lm::Tokenizer;
use datafusion::common::exec_datafusion_err;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};
use crate::models::failed;

pub(crate) struct CotControlScores;

impl RowFunction for CotControlScores {
    const DECLARATION: Declaration = Declaration {
        name: "cot_control_scores",
        about: "A score for each step by its place, its length or chance: a baseline that other scores must beat. The step with the lowest score is removed first. `prefix` removes the last step first, and so keeps the beginning. `suffix` removes the first step first, and so keeps the end. `middle` removes the step nearest the middle of the chain first. `longest` removes the step with the most tokens first. `random` removes a random step first, as `cot_random` does. `block` keeps a random contiguous block. The scores of `random` depend on `seed` and the steps. The scores of `block` also depend on the lengths of the steps in tokens. The other controls ignore `seed`. An unknown control fails the query.",
        arguments: &[
            Argument::new("steps", Arg::TextList, "The steps of a chain of thought. A NULL step is an empty step."),
            Argument::new("control", Arg::Text, "`block`, `longest`, `middle`, `prefix`, `random` or `suffix`."),
            Argument::new("seed", Arg::Int, "A whole number. Another seed gives other random scores."),
        ],
        example: "select cot_control_scores(['Hm.', '2 + 2 is 4.', 'Done.'], 'suffix', 7);\n-- [0.0, 1.0, 2.0]",
    };
    type Needs = Arc<Tokenizer>;
    type Output<'a> = Vec<f64>;

    fn row<'a>(tokenizer: &mut Arc<Tokenizer>, row: Args<'a>) -> Cell<Vec<f64>> {
        let (steps, name, seed) = (row.texts(0)?, row.text(1)?, row.int(2)?);
        let Some((_, control)) = Control::ALL.into_iter().find(|(known, _)| *known == name) else {
            let known = Control::ALL.map(|(known, _)| known).join(", ");
            return Err(
                exec_datafusion_err!("control of cot_control_scores must be one of {known}, found {name}").into()
            );
        };
        let lengths = steps.iter().map(|step| tokenizer.count(step)).collect::<asap_lm::Result<Vec<_>>>();
        Ok(control.scores(&steps, &lengths.map_err(failed)?, seed))
    }
}
