//! Gestalt similarity: of two texts, and of the steps of two chains.

use asap_kernels::matching::{Match, walk};
use asap_kernels::steps::strip;

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::{Argument, argument};
use crate::needs::Compared;
use crate::output::struct_output;
use crate::settings::Settings;

const TWO_TEXTS: &[Argument] = &[
    argument!(a: Text, "The text to compare."),
    argument!(b: Text, "The text to compare `a` with. Swapping `a` and `b` may change the result."),
];

pub(super) const COT_SIMILARITY: RowFunction<Compared<false>, f64> = RowFunction {
    name: "cot_similarity",
    about: "The Gestalt (Ratcliff/Obershelp) similarity of two texts, from 0 to 1. The similarity is twice the number of matching characters, divided by the number of characters of both texts. Characters are Unicode scalars. Ties are resolved as in Python's difflib. Every character counts, however often it occurs (`autojunk=False`). As published in the ASAP paper.",
    arguments: TWO_TEXTS,
    example: "select cot_similarity('2 + 2 is 4', '2 + 2 = 4');\n-- 0.8421052631578947",
    row: |compared, row| Ok(compared.ratio(row.text(0)?, row.text(1)?)),
};

pub(super) const COT_SIMILARITY_DIFFLIB: RowFunction<Compared<true>, f64> = RowFunction {
    name: "cot_similarity_difflib",
    about: "The similarity of two texts, from 0 to 1, as `cot_similarity` but with the default of Python's difflib (`autojunk=True`). If `b` has at least 200 characters, a character that makes up more than 1 % of `b` cannot start a match. For long texts, this value is usually lower than `cot_similarity`. Differs from the ASAP paper: its published code computes this value, and its text names the similarity of `cot_similarity`.",
    arguments: TWO_TEXTS,
    example: "select cot_similarity_difflib('2 + 2 is 4', '2 + 2 = 4');\n-- 0.8421052631578947",
    row: |compared, row| Ok(compared.ratio(row.text(0)?, row.text(1)?)),
};

pub(super) const COT_MATCH: RowFunction<(Compared<false>, Settings), Vec<Match>> = RowFunction {
    name: "cot_match",
    about: "For each step of a coarse chain, the number (from 1) of the matching step of the original chain and the Gestalt similarity of the two steps, by Algorithm 1 of the ASAP paper. The search for each coarse step starts after the previous match, and takes the first original step whose similarity is at least `tau`. White space around steps is ignored. The whole result is NULL if any coarse step matches nothing, or if the coarse chain has no step. As published in the ASAP paper (Algorithm 1).",
    arguments: &[
        argument!(cot: Text, "The original chain of thought."),
        argument!(coarse: Text, "The coarse chain, which should consist of steps of the original chain."),
        argument!(tau?: Ratio, "The minimum similarity of a match, from 0 to 1. Another value gives NULL. The default is the setting `asap.match.threshold`."),
    ],
    example: "select cot_match(E'Hm.\\n\\n2 + 2 is 4.\\n\\nDone.', E'2 + 2 = 4.\\n\\nDone.');\n-- [{step: 2, similarity: 0.8571428571428571}, {step: 3, similarity: 1.0}]",
    row: |(compared, settings), row| {
        let separator = settings.chain_steps;
        let [original, coarse] =
            [row.text(0)?, row.text(1)?].map(|chain| separator.steps(chain).into_iter().map(strip).collect::<Vec<_>>());
        let threshold = if row.is_given(2) { row.ratio(2)? } else { settings.match_threshold.0 };
        if coarse.is_empty() {
            return Err(NoValue::Null);
        }
        let walk = walk(&mut compared.gestalt, &original, &coarse, threshold);
        if walk.failed.is_none() { Ok(walk.matches) } else { Err(NoValue::Null) }
    },
};

struct_output!(found: Match => "step": Some(found.step as i64 + 1), "similarity": Some(found.similarity));
