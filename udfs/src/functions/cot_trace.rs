use std::sync::Arc;

use asap_kernels::trace::{Stage, Stages, Traced, trace};
use asap_lm::{Joined, Tokenizer};
use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, ListArray, StringArray, StructArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result;

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Output;

pub(crate) struct CotTrace;

impl RowFunction for CotTrace {
    const DECLARATION: Declaration = Declaration {
        name: "cot_trace",
        about: "The fate of each step of a chain, in order, in a list of structs of step, tokens, similarity, surprisal and dropped. step is the step's number (from 1) and tokens its own length in tokens of the scoring model. similarity is its similarity to the coarse step that it matched, and surprisal its score. dropped is the stage that dropped it: `'anchor'` for stage 1, `stage` for stage 2, NULL if it was kept. Lists that do not fit each other give NULL.",
        arguments: &[
            Argument::new("steps", Arg::TextList, "The steps of the original chain; a NULL step is an empty one."),
            Argument::new(
                "coarse_kept",
                Arg::IntList,
                "The numbers of the steps that stage 1 kept, from 1. NULL: stage 1 did not run.",
            ),
            Argument::new("similarity", Arg::FloatList, "The similarity of each of those. NULL: unknown."),
            Argument::new("surprisal", Arg::FloatList, "The score of each of those. NULL: not scored."),
            Argument::new("kept", Arg::IntList, "The places among those of the steps that stage 2 kept, from 1."),
            Argument::new("stage", Arg::Text, "The name of stage 2, such as 'surprisal' or 'random'."),
        ],
        example: "select cot_trace(['Hm.', '2 + 2 is 4.', 'Done.'], [2, 3], [1.0, 1.0], [3.2, 1.4], [1], 'surprisal')[3];\n-- {step: 3, tokens: 3, similarity: 1.0, surprisal: 1.4, dropped: surprisal}",
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

fn step_fields() -> Fields {
    Fields::from(vec![
        Field::new("step", DataType::Int64, true),
        Field::new("tokens", DataType::Int64, true),
        Field::new("similarity", DataType::Float64, true),
        Field::new("surprisal", DataType::Float32, true),
        Field::new("dropped", DataType::Utf8, true),
    ])
}

fn step_field() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(step_fields()), true))
}

impl Output for Trace<'_> {
    fn data_type() -> DataType {
        DataType::List(step_field())
    }

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
        let columns: Vec<ArrayRef> = vec![
            Arc::new(chains().flat_map(|chain| 1..=chain.traced.len() as i64).collect::<Int64Array>()),
            Arc::new(chains().flat_map(|chain| &chain.tokens).map(|tokens| *tokens as i64).collect::<Int64Array>()),
            Arc::new(steps().map(|step| step.similarity).collect::<Float64Array>()),
            Arc::new(steps().map(|step| step.surprisal.map(|nats| nats as f32)).collect::<Float32Array>()),
            Arc::new(dropped.collect::<StringArray>()),
        ];
        let items = StructArray::try_new(step_fields(), columns, None)?;
        let lengths = OffsetBuffer::from_lengths(rows.iter().map(|row| row.as_ref().map_or(0, |row| row.traced.len())));
        let valid = NullBuffer::from_iter(rows.iter().map(Option::is_some));
        Ok(Arc::new(ListArray::try_new(step_field(), lengths, Arc::new(items), Some(valid))?))
    }
}
