use super::by_row::RowFunction;
use super::cot_similarity::TWO_TEXTS;
use super::needs::Compared;
use crate::columns::{Args, Cell};
use crate::declaration::Declaration;

pub(crate) struct CotSimilarityDifflib;

impl RowFunction for CotSimilarityDifflib {
    const DECLARATION: Declaration = Declaration {
        name: "cot_similarity_difflib",
        about: "The similarity of two texts, from 0 to 1, as `cot_similarity` but with the default of Python's difflib (`autojunk=True`). If `b` has at least 200 characters, a character that makes up more than 1 % of `b` cannot start a match. The published code of the ASAP paper computes this value. For long texts, this value is usually lower than `cot_similarity`.",
        arguments: TWO_TEXTS,
        example: "select cot_similarity_difflib('2 + 2 is 4', '2 + 2 = 4');\n-- 0.8421052631578947",
    };
    type Needs = Compared<true>;
    type Output<'a> = f64;

    fn row<'a>(compared: &mut Compared<true>, row: Args<'a>) -> Cell<f64> {
        Ok(compared.ratio(row.text(0)?, row.text(1)?))
    }
}
