use std::borrow::Cow;

use asap_kernels::tags;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotResponse;

impl RowFunction for CotResponse {
    const DECLARATION: Declaration = Declaration {
        name: "cot_response",
        about: "The text of a generation after its chain of thought. The text starts after the closing tag of the chain that `cot_think` finds, without white space at both ends. Tags around the whole text (`<|begin_of_solution|>`, `<Output>`, `<output>`, `<answer>` and their closing tags) are removed. A final end-of-turn token, such as `<|im_end|>`, is removed too. A missing closing tag gives NULL.",
        arguments: &[Argument::new("generation", Arg::Text, "The text that the reasoning model wrote.")],
        example: "select cot_response('<think>2 + 2 is 4</think>4');\n-- 4",
    };
    type Needs = ();
    type Output<'a> = Cow<'a, str>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Cow<'a, str>> {
        tags::response(row.text(0)?).ok_or(NoValue::Null)
    }
}
