use std::borrow::Cow;

use asap_kernels::tags;

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotResponse;

impl RowFunction for CotResponse {
    const DECLARATION: Declaration = Declaration {
        name: "cot_response",
        about: "What follows the chain of thought of a generation: the text behind its closing tag (`</think>`, `<|end_of_thought|>`), stripped, without the tags of a solution and the token that ends a turn. A missing closing tag gives NULL.",
        arguments: &[Argument::new("generation", Arg::Text, "What the reasoning model wrote.")],
        example: "select cot_response('<think>2 + 2 is 4</think>4');\n-- 4",
    };
    type Needs = ();
    type Output<'a> = Cow<'a, str>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Cow<'a, str>> {
        tags::response(row.text(0)?).ok_or(NoValue::Null)
    }
}
