use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, ListArray, StringArray, StructArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg, Lists};
use crate::kernels::trace::{Stage, Stages, Traced, trace};
use crate::lm::{Joined, Models};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "What became of each step of a chain, in order: its number (from 1), its length alone in tokens of the scoring model, its similarity to the coarse step that it matched, its score, and the stage that dropped it (`'anchor'` for stage 1, `stage` for stage 2, NULL if it was kept). Lists that do not fit each other give NULL.",
    syntax_example = "cot_trace(steps, coarse_kept, similarity, surprisal, kept, stage)",
    sql_example = "select cot_trace(['Hm.', '2 + 2 is 4.', 'Done.'], [2, 3], [1.0, 1.0], [3.2, 1.4], [1], 'surprisal')[3];\n-- {step: 3, tokens: 3, similarity: 1.0, surprisal: 1.4, dropped: surprisal}",
    argument(name = "steps", description = "The steps of the original chain."),
    argument(name = "coarse_kept", description = "Which of them stage 1 kept, from 1. NULL: it did not run."),
    argument(name = "similarity", description = "The similarity of each of those. NULL: not known."),
    argument(name = "surprisal", description = "The score of each of those. NULL: not scored."),
    argument(name = "kept", description = "Which of those stage 2 kept, from 1."),
    argument(name = "stage", description = "What stage 2 is called, such as 'surprisal' or 'random'.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotTrace {
    signature: Signature,
    models: Models,
}

impl CotTrace {
    pub fn new(models: Models) -> Self {
        Self { signature: Signature::user_defined(Volatility::Stable), models }
    }
}

impl ScalarUDFImpl for CotTrace {
    fn name(&self) -> &str {
        "cot_trace"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let expected = [
            ("steps", Arg::TextList),
            ("coarse_kept", Arg::IntList),
            ("similarity", Arg::FloatList),
            ("surprisal", Arg::FloatList),
            ("kept", Arg::IntList),
            ("stage", Arg::Text),
        ];
        args::coerce(self.name(), &expected, 6, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(step_field()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let [steps, coarse, similarity, surprisal, kept] = [0, 1, 2, 3, 4].map(|place| Lists::new(&arrays[place]));
        let stages = args::texts(&arrays[5]);
        let tokenizer = self.models.tokenizer(&args.config_options)?;
        let mut rows = Rows::default();
        for row in 0..args.number_rows {
            let found = (|| {
                let (steps, kept, stage) = (steps.texts(row)?, kept.ints(row)?, args::text_at(stages, row)?);
                let coarse = match coarse.ints(row) {
                    Some(numbers) => Some(args::zero_based(&numbers, steps.len())?),
                    None => None,
                };
                let kept = args::zero_based(&kept, coarse.as_ref().map_or(steps.len(), Vec::len))?;
                let (similarity, surprisal) = (similarity.floats(row), surprisal.floats(row));
                let stages = Stages {
                    coarse: coarse.as_deref(),
                    similarity: similarity.as_deref(),
                    surprisal: surprisal.as_deref(),
                    kept: &kept,
                };
                Some((trace(steps.len(), stages)?, steps, stage))
            })();
            match found {
                Some((traced, steps, stage)) => {
                    let joined = Joined::new(&tokenizer, &steps)?;
                    let tokens = (0..steps.len()).map(|step| joined.tokens_alone(step));
                    let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
                    rows.add(&traced, &tokens, stage);
                }
                None => rows.add_null(),
            }
        }
        Ok(ColumnarValue::Array(rows.finish()?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
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

/// The columns of all rows' steps.
#[derive(Default)]
struct Rows<'a> {
    steps: Vec<i64>,
    tokens: Vec<i64>,
    similarity: Vec<Option<f64>>,
    surprisal: Vec<Option<f32>>,
    dropped: Vec<Option<&'a str>>,
    lengths: Vec<usize>,
    valid: Vec<bool>,
}

impl<'a> Rows<'a> {
    fn add(&mut self, traced: &[Traced], tokens: &[usize], stage: &'a str) {
        for (place, (step, tokens)) in traced.iter().zip(tokens).enumerate() {
            self.steps.push(place as i64 + 1);
            self.tokens.push(*tokens as i64);
            self.similarity.push(step.similarity);
            self.surprisal.push(step.surprisal.map(|nats| nats as f32));
            self.dropped.push(step.dropped.map(|by| match by {
                Stage::Anchor => "anchor",
                Stage::Budget => stage,
            }));
        }
        self.lengths.push(traced.len());
        self.valid.push(true);
    }

    fn add_null(&mut self) {
        self.lengths.push(0);
        self.valid.push(false);
    }

    fn finish(self) -> Result<ArrayRef> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(self.steps)),
            Arc::new(Int64Array::from(self.tokens)),
            Arc::new(Float64Array::from(self.similarity)),
            Arc::new(Float32Array::from(self.surprisal)),
            Arc::new(StringArray::from(self.dropped)),
        ];
        let items = StructArray::try_new(step_fields(), columns, None)?;
        let (lengths, valid) = (OffsetBuffer::from_lengths(self.lengths), NullBuffer::from(self.valid));
        Ok(Arc::new(ListArray::try_new(step_field(), lengths, Arc::new(items), Some(valid))?))
    }
}
