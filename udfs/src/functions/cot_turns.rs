use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, ListBuilder, StringBuilder, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "What one role says in a conversation, turn by turn. The roles `human` and `gpt` are `user` and `assistant` by other names. A conversation is a list of structs with `role` and `content` (or `from` and `value`), or a struct of such lists.",
    syntax_example = "cot_turns(messages, role)",
    sql_example = "select cot_turns([{'role': 'user', 'content': '2 + 2?'}, {'role': 'assistant', 'content': '4'}], 'user');\n-- [2 + 2?]",
    argument(name = "messages", description = "The conversation."),
    argument(name = "role", description = "Whose turns: `user`, `assistant`, `system`, or any other role.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotTurns {
    signature: Signature,
}

impl Default for CotTurns {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CotTurns {
    fn name(&self) -> &str {
        "cot_turns"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [messages, role] = given else {
            return plan_err!("cot_turns(messages, role) was given {} arguments", given.len());
        };
        if !is_conversation(messages) {
            return plan_err!(
                "argument messages of cot_turns must be a list of structs with role and content (or from and value), \
                 or a struct of such lists, found {messages}"
            );
        }
        let role = args::coerce(self.name(), &[("role", Arg::Text)], 1, std::slice::from_ref(role))?;
        Ok(vec![messages.clone(), role[0].clone()])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let roles = args::texts(&arrays[1]);
        let speakers = field(&arrays[0], SPEAKER)?;
        let said = field(&arrays[0], TEXT)?;
        let mut turns = ListBuilder::new(StringBuilder::new());
        for row in 0..args.number_rows {
            let Some(role) = args::text_at(roles, row).filter(|_| speakers.is_valid(row) && said.is_valid(row)) else {
                turns.append_null();
                continue;
            };
            let (speakers, said) = (speakers.value(row), said.value(row));
            for (speaker, text) in speakers.as_string_view().iter().zip(said.as_string_view()) {
                if speaker.is_some_and(|speaker| is_same_role(speaker, role)) {
                    turns.values().append_option(text);
                }
            }
            turns.append(true);
        }
        Ok(ColumnarValue::Array(Arc::new(turns.finish())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}

/// What the field that names the speaker is called, and the one that holds what was said.
const SPEAKER: [&str; 2] = ["role", "from"];
const TEXT: [&str; 2] = ["content", "value"];

fn is_same_role(a: &str, b: &str) -> bool {
    let plain = |role| match role {
        "human" => "user",
        "gpt" => "assistant",
        other => other,
    };
    plain(a) == plain(b)
}

fn is_conversation(found: &DataType) -> bool {
    match found {
        DataType::Struct(fields) => {
            [SPEAKER, TEXT].iter().all(|names| names.iter().any(|name| fields.find(name).is_some()))
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_null() || is_conversation(item.data_type())
        }
        other => other.is_null(),
    }
}

/// One field of every turn: a list of texts for each conversation, whatever form the conversations have.
fn field(conversations: &ArrayRef, names: [&str; 2]) -> Result<ListArray> {
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    let texts = DataType::List(Arc::clone(&item));
    if let Some(fields) = conversations.as_struct_opt() {
        let (_, offsets, values, nulls) = cast(named(fields, names)?, &texts)?.as_list::<i32>().clone().into_parts();
        let nulls = NullBuffer::union(fields.nulls(), nulls.as_ref());
        return Ok(ListArray::try_new(item, offsets, values, nulls)?);
    }
    match conversations.data_type() {
        DataType::List(turn) | DataType::LargeList(turn) | DataType::FixedSizeList(turn, _)
            if !turn.data_type().is_null() =>
        {
            let list = cast(conversations, &DataType::List(Arc::clone(turn)))?;
            let (_, offsets, turns, nulls) = list.as_list::<i32>().clone().into_parts();
            let values = cast(named(turns.as_struct(), names)?, &DataType::Utf8View)?;
            Ok(ListArray::try_new(item, offsets, values, nulls)?)
        }
        _ => Ok(cast(conversations, &texts)?.as_list::<i32>().clone()),
    }
}

fn named<'a>(fields: &'a StructArray, names: [&str; 2]) -> Result<&'a ArrayRef> {
    match names.iter().find_map(|name| fields.column_by_name(name)) {
        Some(column) => Ok(column),
        None => plan_err!("a turn has neither a field {} nor {}", names[0], names[1]),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{StringViewArray, new_null_array};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::Fields;
    use datafusion::arrow::util::pretty::pretty_format_columns;
    use datafusion::config::ConfigOptions;

    use super::*;

    /// Two conversations (and a NULL one) as a list of structs.
    fn conversations(names: [&str; 2], text: &DataType) -> ArrayRef {
        let speakers: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("system"), Some("user"), Some("gpt"), Some("human"), None]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("s"), Some("q"), Some("a"), None, Some("x")]));
        let turns = StructArray::new(
            Fields::from(vec![Field::new(names[1], text.clone(), true), Field::new(names[0], text.clone(), true)]),
            vec![cast(&texts, text).unwrap(), cast(&speakers, text).unwrap()],
            None,
        );
        let item = Arc::new(Field::new("element", turns.data_type().clone(), true));
        let offsets = OffsetBuffer::new(vec![0, 3, 5, 5].into());
        let nulls = NullBuffer::from(vec![true, true, false]);
        Arc::new(ListArray::new(item, offsets, Arc::new(turns), Some(nulls)))
    }

    /// The same as a struct of lists.
    fn as_struct(conversations: &ArrayRef, names: [&str; 2]) -> ArrayRef {
        let list = conversations.as_list::<i32>();
        let columns = names.map(|name| {
            let values = Arc::clone(list.values().as_struct().column_by_name(name).unwrap());
            let item = Arc::new(Field::new("element", values.data_type().clone(), true));
            let lists = ListArray::new(item, list.offsets().clone(), values, None);
            (Arc::new(Field::new(name, lists.data_type().clone(), true)), Arc::new(lists) as ArrayRef)
        });
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        Arc::new(StructArray::new(Fields::from(fields), arrays, list.nulls().cloned()))
    }

    fn turns(conversations: &ArrayRef, role: &str) -> String {
        let rows = conversations.len();
        let function = CotTurns::default();
        let types = function.coerce_types(&[conversations.data_type().clone(), DataType::Utf8]).unwrap();
        assert_eq!(&types[0], conversations.data_type());
        let role: ArrayRef = Arc::new(StringViewArray::from(vec![role; rows]));
        let args = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(Arc::clone(conversations)), ColumnarValue::Array(role)],
            arg_fields: vec![],
            number_rows: rows,
            return_field: Arc::new(Field::new("", function.return_type(&types).unwrap(), true)),
            config_options: Arc::new(ConfigOptions::new()),
        };
        let ColumnarValue::Array(found) = function.invoke_with_args(args).unwrap() else { panic!("a scalar") };
        let shown = pretty_format_columns("", &[found]).unwrap().to_string();
        shown.lines().filter(|line| line.starts_with("| ")).map(|line| line.trim_matches(['|', ' '])).collect()
    }

    #[test]
    fn conversations_of_every_form_read_alike() {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        for names in [["role", "content"], ["from", "value"]] {
            for text in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, dictionary.clone()] {
                let list = conversations(names, &text);
                let item = Arc::new(Field::new_list_field(item_type(&list), true));
                let large = cast(&list, &DataType::LargeList(item)).unwrap();
                for form in [as_struct(&list, names), list, large] {
                    assert_eq!(turns(&form, "user"), "[q][]", "{}", form.data_type());
                    assert_eq!(turns(&form, "human"), "[q][]");
                    assert_eq!(turns(&form, "assistant"), "[a][]");
                    assert_eq!(turns(&form, "tool"), "[][]");
                    assert_eq!(turns(&form.slice(1, 2), "user"), "[]");
                }
            }
        }
    }

    fn item_type(list: &ArrayRef) -> DataType {
        list.as_list::<i32>().value_type()
    }

    #[test]
    fn what_has_no_type_or_no_rows_says_nothing() {
        assert_eq!(turns(&new_null_array(&DataType::Null, 2), "user"), "");
        let item = Arc::new(Field::new_list_field(DataType::Null, true));
        let empty =
            ListArray::new(Arc::clone(&item), OffsetBuffer::new_zeroed(1), new_null_array(&DataType::Null, 0), None);
        assert_eq!(turns(&(Arc::new(empty) as ArrayRef), "user"), "[]");
        assert_eq!(turns(&conversations(["from", "value"], &DataType::Utf8).slice(0, 0), "user"), "");
    }

    #[test]
    fn what_is_no_conversation_is_refused() {
        let error = CotTurns::default().coerce_types(&[DataType::Utf8, DataType::Utf8]).unwrap_err().to_string();
        assert!(error.contains("list of structs with role and content") && error.contains("Utf8"), "{error}");
    }
}
