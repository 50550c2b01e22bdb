use std::sync::Arc;

use asap_kernels::trace::{Stage, Stages, Traced, trace};
use asap_lm::{Joined, Tokenizer};
use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, StringArray};
use datafusion::common::Result;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::{Output, lists, structs};

pub(crate) struct CotTrace;

impl RowFunction for CotTrace {
    const DECLARATION: Declaration = Declaration {
        name: "cot_trace",
        about: "What pruning did to each step of a chain, as a list of structs with the fields `step`, `tokens`, `similarity`, `surprisal` and `dropped`. `step` is the number of the step (from 1). `tokens` is the length of the step alone, in tokens of the scoring model. `similarity` is the similarity of the step to the matching step of the coarse chain (`cot_match`). `surprisal` is the score of the step. `dropped` names the stage that dropped the step: `'anchor'` if the step is not in `coarse_kept`, else `stage` if the step is not in `kept`, or NULL if the step is kept. Lists whose lengths do not match give NULL.",
        arguments: &[
            Argument::new("steps", Arg::TextList, "The steps of the original chain. A NULL step is an empty step."),
            Argument::new(
                "coarse_kept",
                Arg::IntList,
                "The numbers of the steps that stage 1 kept, from 1. NULL: stage 1 did not run.",
            ),
            Argument::new("similarity", Arg::FloatList, "The similarity of each step in `coarse_kept`. NULL: unknown."),
            Argument::new(
                "surprisal",
                Arg::FloatList,
                "The score of each step in `coarse_kept`, or in `steps` if stage 1 did not run. NULL: not scored.",
            ),
            Argument::new(
                "kept",
                Arg::IntList,
                "The steps that stage 2 kept, as places (from 1) in `coarse_kept`, or in `steps` if stage 1 did not run.",
            ),
            Argument::new("stage", Arg::Text, "The name of stage 2, such as 'surprisal' or 'random'."),
        ],
        example: "select cot_trace(['Hm.', '2 + 2 is 4.', 'Done.'], [2, 3], [1.0, 1.0], [3.25, 1.5], [1], 'surprisal')[3];\n-- {step: 3, tokens: 3, similarity: 1.0, surprisal: 1.5, dropped: surprisal}",
    };
    type Needs = Arc<Tokenizer>;
    type Output<'a> = Trace<'a>;

    fn row<'a>(tokenizer: &mut Arc<Tokenizer>, row: Args<'a>) -> Cell<Trace<'a>> {
        let (steps, stage) = (row.texts(0)?, row.text(5)?);
        let coarse = if row.is_null(1) { None } else { Some(row.indices(1, steps.len())?) };
        let kept = row.indices(4, coarse.as_ref().map_or(steps.len(), Vec::len))?;
        let (similarity, surprisal) = (row.floats(2).ok(), row.floats(3).ok());
        let stages = Stages {
            coarse: coarse.as_deref(),
            similarity: similarity.as_deref(),
            surprisal: surprisal.as_deref(),
            kept: &kept,
        };
        let traced = trace(steps.len(), stages).ok_or(NoValue::Null)?;
        let joined = Joined::new(tokenizer, &steps)?;
        let tokens = (0..steps.len()).map(|step| joined.tokens_alone(step)).collect::<asap_lm::Result<_>>()?;
        Ok(Trace { traced, tokens, stage })
    }
}

pub(crate) struct Trace<'a> {
    traced: Vec<Traced>,
    tokens: Vec<usize>,
    stage: &'a str,
}

impl Output for Trace<'_> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let chains = || rows.iter().flatten();
        let steps = || chains().flat_map(|chain| &chain.traced);
        let dropped = chains().flat_map(|chain| {
            chain.traced.iter().map(|step| match step.dropped {
                Some(Stage::Anchor) => Some("anchor"),
                Some(Stage::Budget) => Some(chain.stage),
                None => None,
            })
        });
        let numbers = chains().flat_map(|chain| 1..=chain.traced.len() as i64).collect::<Int64Array>();
        let tokens = chains().flat_map(|chain| &chain.tokens).map(|tokens| *tokens as i64).collect::<Int64Array>();
        let surprisal = steps().map(|step| step.surprisal.map(|nats| nats as f32)).collect::<Float32Array>();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("step", Arc::new(numbers)),
            ("tokens", Arc::new(tokens)),
            ("similarity", Arc::new(steps().map(|step| step.similarity).collect::<Float64Array>())),
            ("surprisal", Arc::new(surprisal)),
            ("dropped", Arc::new(dropped.collect::<StringArray>())),
        ];
        let lengths: Vec<_> = rows.iter().map(|row| row.as_ref().map(|chain| chain.traced.len())).collect();
        lists(structs(columns, None)?, &lengths)
    }
}
