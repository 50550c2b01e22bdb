use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg};
use crate::messages::{conversation_type, single_messages};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The prompt of a training example: the question as the user's message, in a list of structs with role and content.",
    syntax_example = "cot_prompt(question)",
    sql_example = "select cot_prompt('2 + 2?');\n-- [{role: user, content: 2 + 2?}]",
    argument(name = "question", description = "The question.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotPrompt {
    signature: Signature,
}

impl Default for CotPrompt {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CotPrompt {
    fn name(&self) -> &str {
        "cot_prompt"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("question", Arg::Text)], 1, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(conversation_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let contents: Vec<_> = args::texts(&arrays[0]).iter().map(|text| text.map(str::to_string)).collect();
        Ok(ColumnarValue::Array(single_messages("user", &contents)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
