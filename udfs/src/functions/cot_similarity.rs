use super::by_row::RowFunction;
use super::needs::Compared;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(super) const TWO_TEXTS: &[Argument] = &[
    Argument::new("a", Arg::Text, "The text to compare."),
    Argument::new("b", Arg::Text, "The text to compare `a` with. Swapping `a` and `b` may change the result."),
];

pub(crate) struct CotSimilarity;

impl RowFunction for CotSimilarity {
    const DECLARATION: Declaration = Declaration {
        name: "cot_similarity",
        about: "The Gestalt (Ratcliff/Obershelp) similarity of two texts, from 0 to 1. The similarity is twice the number of matching characters, divided by the number of characters of both texts. Characters are Unicode scalars. Ties are resolved as in Python's difflib. Every character counts, however often it occurs (`autojunk=False`).",
        arguments: TWO_TEXTS,
        example: "select cot_similarity('2 + 2 is 4', '2 + 2 = 4');\n-- 0.8421052631578947",
    };
    type Needs = Compared<false>;
    type Output<'a> = f64;

    fn row<'a>(compared: &mut Compared<false>, row: Args<'a>) -> Cell<f64> {
        Ok(compared.ratio(row.text(0)?, row.text(1)?))
    }
}
