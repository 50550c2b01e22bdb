use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg};
use crate::llm::extractive;
use crate::settings::{OnError, Provider, Settings};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The direct thought from a question to its answer, in a struct of thought, status, error, tokens_in, tokens_out and cached. The status is 'ok', or 'no_anchor' with the reason in error where the question is NULL or the answer NULL or blank. With asap.anchor.provider = 'extractive' no language model is asked: the thought has up to four lines: the sentence that asks (goal), the question's values and names (given), those that the answer adds (through), and the answer's last sentence or the names in its code (reach); tokens are 0.",
    syntax_example = "cot_anchor(question, answer)",
    sql_example = "select cot_anchor('A crate holds 12 trays of 8 rolls. How many rolls fill 3 crates?', '3 crates hold 288 rolls.')['thought'];\n-- goal: How many rolls fill 3 crates?\n-- given: 12 trays, 8 rolls, 3 crates\n-- reach: 3 crates hold 288 rolls.",
    argument(name = "question", description = "What was asked."),
    argument(name = "answer", description = "The answer that the chain of thought led to.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotAnchor {
    signature: Signature,
}

impl Default for CotAnchor {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Volatile) }
    }
}

fn fields() -> Fields {
    Fields::from(vec![
        Field::new("thought", DataType::Utf8, true),
        Field::new("status", DataType::Utf8, true),
        Field::new("error", DataType::Utf8, true),
        Field::new("tokens_in", DataType::Int64, true),
        Field::new("tokens_out", DataType::Int64, true),
        Field::new("cached", DataType::Boolean, true),
    ])
}

impl ScalarUDFImpl for CotAnchor {
    fn name(&self) -> &str {
        "cot_anchor"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("question", Arg::Text), ("answer", Arg::Text)], 2, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let settings = Settings::of(&args.config_options)?;
        let arrays = args::arrays(&args)?;
        let rows = args::texts(&arrays[0]).iter().zip(args::texts(&arrays[1]).iter());
        let anchors: Vec<std::result::Result<String, &str>> = match settings.anchor_provider {
            Provider::Extractive => rows.map(|(question, answer)| extract(question, answer)).collect(),
        };
        if let (OnError::Fail, Some(error)) =
            (settings.on_error, anchors.iter().find_map(|anchor| anchor.as_ref().err()))
        {
            return exec_err!("cot_anchor: {error} (asap.on_error is 'fail')");
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(anchors.iter().map(|anchor| anchor.as_ref().ok()).collect::<StringArray>()),
            Arc::new(
                anchors
                    .iter()
                    .map(|anchor| Some(if anchor.is_ok() { "ok" } else { "no_anchor" }))
                    .collect::<StringArray>(),
            ),
            Arc::new(anchors.iter().map(|anchor| anchor.as_ref().err()).collect::<StringArray>()),
            Arc::new(Int64Array::from(vec![0; anchors.len()])),
            Arc::new(Int64Array::from(vec![0; anchors.len()])),
            Arc::new(BooleanArray::from(vec![false; anchors.len()])),
        ];
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(fields(), columns, None)?)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}

fn extract(question: Option<&str>, answer: Option<&str>) -> std::result::Result<String, &'static str> {
    let question = question.ok_or("a direct thought needs a question, found NULL")?;
    let answer = answer.ok_or("a direct thought needs an answer, found NULL")?;
    extractive::write(question, answer).ok_or("a direct thought needs an answer, found blank text")
}
