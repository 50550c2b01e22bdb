use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg};
use crate::kernels::tags;
use crate::messages::{conversation_type, single_messages};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The completion of a training example: the chain between think tags and the answer behind it as the assistant's message, in a list of structs with role and content. A NULL answer is left out; a NULL chain gives NULL.",
    syntax_example = "cot_completion(cot, answer)",
    sql_example = "select cot_completion('2 and 2 is 4', '4');\n-- [{role: assistant, content: <think>\\n2 and 2 is 4\\n</think>\\n4}]",
    argument(name = "cot", description = "The chain of thought."),
    argument(name = "answer", description = "What follows the chain.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotCompletion {
    signature: Signature,
}

impl Default for CotCompletion {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CotCompletion {
    fn name(&self) -> &str {
        "cot_completion"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("cot", Arg::Text), ("answer", Arg::Text)], 2, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(conversation_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let answers = args::texts(&arrays[1]);
        let contents: Vec<_> = args::texts(&arrays[0])
            .iter()
            .zip(answers)
            .map(|(cot, answer)| cot.map(|cot| tags::wrap(cot, answer.unwrap_or_default())))
            .collect();
        Ok(ColumnarValue::Array(single_messages("assistant", &contents)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
