use std::borrow::Cow;

use asap_kernels::tags;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotThink;

impl RowFunction for CotThink {
    const DECLARATION: Declaration = Declaration {
        name: "cot_think",
        about: "The chain of thought of a generation: the text from the first opening tag to the first closing tag after it, without white space at both ends. Opening tags are `<think>` and `<|begin_of_thought|>` (closed by `<|end_of_thought|>`). At the start of the generation, `<Thought>`, `<thought>`, `<thinking>` and `<reasoning>` are opening tags too. Without an opening tag, the chain begins at the start of the generation. Without a closing tag, the result is NULL.",
        arguments: &[Argument::new("generation", Arg::Text, "The text that the reasoning model wrote.")],
        example: "select cot_think('<think>2 + 2 is 4</think>4');\n-- 2 + 2 is 4",
    };
    type Needs = ();
    type Output<'a> = Cow<'a, str>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Cow<'a, str>> {
        tags::think(row.text(0)?).map(Cow::Borrowed).ok_or(NoValue::Null)
    }
}
