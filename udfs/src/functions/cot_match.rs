use std::sync::Arc;

use asap_kernels::matching::{Match, walk};
use asap_kernels::steps::{steps, strip};
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array};
use datafusion::common::Result;

use super::by_row::RowFunction;
use super::needs::{Compared, Threshold};
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::{Output, lists, structs};

pub(crate) struct CotMatch;

impl RowFunction for CotMatch {
    const DECLARATION: Declaration = Declaration {
        name: "cot_match",
        about: "For each step of a coarse chain, the number (from 1) of the matching step of the original chain and the Gestalt similarity of the two steps, by Algorithm 1 of the ASAP paper. The search for each coarse step starts after the previous match, and takes the first original step whose similarity is at least `tau`. White space around steps is ignored. The whole result is NULL if any coarse step matches nothing, or if the coarse chain has no step.",
        arguments: &[
            Argument::new("cot", Arg::Text, "The original chain of thought."),
            Argument::new(
                "coarse",
                Arg::Text,
                "The coarse chain, which should consist of steps of the original chain.",
            ),
            Argument::optional(
                "tau",
                Arg::Ratio,
                "The minimum similarity of a match, from 0 to 1. Another value gives NULL. The default is the setting `asap.match.threshold`.",
            ),
        ],
        example: "select cot_match(E'Hm.\\n\\n2 + 2 is 4.\\n\\nDone.', E'2 + 2 = 4.\\n\\nDone.');\n-- [{step: 2, similarity: 0.8571428571428571}, {step: 3, similarity: 1.0}]",
    };
    type Needs = (Compared<false>, Threshold);
    type Output<'a> = Vec<Match>;

    fn row<'a>((compared, default): &mut Self::Needs, row: Args<'a>) -> Cell<Vec<Match>> {
        let [original, coarse] =
            [row.text(0)?, row.text(1)?].map(|chain| steps(chain).into_iter().map(strip).collect::<Vec<_>>());
        let threshold = if row.is_given(2) { row.ratio(2)? } else { default.0 };
        if coarse.is_empty() {
            return Err(NoValue::Null);
        }
        let walk = walk(&mut compared.gestalt, &original, &coarse, threshold);
        if walk.failed.is_none() { Ok(walk.matches) } else { Err(NoValue::Null) }
    }
}

impl Output for Vec<Match> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let found = || rows.iter().flatten().flatten();
        let steps: Int64Array = found().map(|found| found.step as i64 + 1).collect::<Vec<_>>().into();
        let similarities: Float64Array = found().map(|found| found.similarity).collect::<Vec<_>>().into();
        let items = structs(vec![("step", Arc::new(steps)), ("similarity", Arc::new(similarities))], None)?;
        lists(items, &rows.iter().map(|row| row.as_ref().map(Vec::len)).collect::<Vec<_>>())
    }
}
