use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotTurns;

impl RowFunction for CotTurns {
    const DECLARATION: Declaration = Declaration {
        name: "cot_turns",
        about: "The texts of one role in a conversation, turn by turn. The roles `human`, `gpt` and `developer` are other names for `user`, `assistant` and `system`. A conversation is a list of structs with the fields `role` and `content`, or `from` and `value`. A conversation may also be one struct in which each of these two fields is a list of texts.",
        arguments: &[
            Argument::new("messages", Arg::Conversation, "The conversation."),
            Argument::new("role", Arg::Text, "The role: `user`, `assistant`, `system`, or any other."),
        ],
        example: "select cot_turns([{'role': 'user', 'content': '2 + 2?'}, {'role': 'assistant', 'content': '4'}], 'user');\n-- [2 + 2?]",
    };
    type Needs = ();
    type Output<'a> = Vec<Option<&'a str>>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Vec<Option<&'a str>>> {
        let role = row.text(1)?;
        let own =
            row.turns(0)?.into_iter().filter(|(speaker, _)| speaker.is_some_and(|speaker| is_same(speaker, role)));
        Ok(own.map(|(_, text)| text).collect())
    }
}

fn is_same(a: &str, b: &str) -> bool {
    let plain = |role| match role {
        "human" => "user",
        "gpt" => "assistant",
        "developer" => "system",
        other => other,
    };
    plain(a) == plain(b)
}
