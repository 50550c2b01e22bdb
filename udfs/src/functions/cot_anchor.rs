use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, StringArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Documentation, Signature, Volatility};
use datafusion_macros::user_doc;

use super::asked;
use crate::args::{self, Arg};
use crate::cores;
use crate::llm::anchoring::{self, NO_ANCHOR, OK};
use crate::llm::{Anchor, Llm, Spent, extractive};
use crate::plan::{AsyncCall, CallArgs, Meter};
use crate::settings::{Provider, Settings};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The direct thought from a question to its answer, in a struct of thought, status, error, tokens_in, tokens_out and cached. The status is 'ok', or 'no_anchor' with the reason in error where the question is NULL or the answer NULL or blank. The language model of `asap.anchor.*` writes it, at temperature 0 and by the prompt anchor.md; a call that failed is the row's status (timeout, rate_limited, unavailable, denied, refused, bad_response, too_long or budget). cached says that the row took no call of its own: the answer was paid before, or for an equal row. With asap.anchor.provider = 'extractive' no language model is asked: the thought has up to four lines: the sentence that asks (goal), the question's values and names (given), those that the answer adds (through), and the answer's last sentence or the names in its code (reach); tokens are 0.",
    syntax_example = "cot_anchor(question, answer)",
    sql_example = "select cot_anchor('A crate holds 12 trays of 8 rolls. How many rolls fill 3 crates?', '3 crates hold 288 rolls.')['thought'];\n-- goal: How many rolls fill 3 crates?\n-- given: 12 trays, 8 rolls, 3 crates\n-- reach: 3 crates hold 288 rolls.",
    argument(name = "question", description = "What was asked."),
    argument(name = "answer", description = "The answer that the chain of thought led to.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotAnchor {
    signature: Signature,
    llm: Llm,
}

impl CotAnchor {
    pub fn new(llm: Llm) -> Self {
        Self { signature: Signature::user_defined(Volatility::Volatile), llm }
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

#[async_trait]
impl AsyncCall for CotAnchor {
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

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }

    fn window(&self, config: &ConfigOptions) -> usize {
        asked::window(config)
    }

    fn hold(&self, context: &Arc<TaskContext>) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.llm.statement(context))
    }

    async fn call(&self, args: &CallArgs, meter: &Arc<Meter>) -> Result<ArrayRef> {
        let settings = Settings::of(args.config())?;
        let anchors = match settings.anchor_provider {
            Provider::Extractive => extracted(args.arrays.clone()).await?,
            Provider::Openai | Provider::Local => {
                let anchoring = &self.llm.anchoring(settings)?.within(self.llm.statement(&args.context));
                let (questions, answers) = (args::texts(&args.arrays[0]), args::texts(&args.arrays[1]));
                asked::rows(args.rows, |row| async move {
                    let anchor = anchoring.anchor(args::text_at(questions, row), args::text_at(answers, row)).await?;
                    asked::record(meter, &anchor);
                    Ok(anchor)
                })
                .await?
            }
        };
        asked::check(self.name(), settings, &anchors)?;
        let thoughts: ArrayRef =
            Arc::new(anchors.iter().map(|anchor| anchor.thought.as_deref()).collect::<StringArray>());
        let columns = std::iter::once(thoughts).chain(asked::columns(&anchors)).collect();
        Ok(Arc::new(StructArray::try_new(fields(), columns, None)?))
    }
}

async fn extracted(arrays: Vec<ArrayRef>) -> Result<Vec<Anchor>> {
    cores::run(move || {
        let rows = args::texts(&arrays[0]).iter().zip(args::texts(&arrays[1]).iter());
        Ok(rows.map(|(question, answer)| extract(question, answer)).collect())
    })
    .await
}

fn extract(question: Option<&str>, answer: Option<&str>) -> Anchor {
    let thought = anchoring::given(question, answer).map(|(question, answer)| extractive::write(question, answer));
    let (thought, status, error) = match thought {
        Ok(thought) => (thought, OK, None),
        Err(error) => (None, NO_ANCHOR, Some(error.to_string())),
    };
    Anchor { thought, status, error, spent: Spent::default() }
}
