//! Conversations with several exchanges or tools: their turns without the dropped steps, and their messages.

use std::borrow::Cow;

use asap_kernels::steps::{join, without_line_breaks};

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::argument;
use crate::output::{Results, struct_output};
use crate::reading::calls::Call;
use crate::reading::turns;
use crate::settings::Settings;

pub(super) const COT_PRUNED_TURNS: RowFunction<Settings, Turns> = RowFunction {
    name: "cot_pruned_turns",
    about: "The turns of a conversation with only the kept steps of their thoughts. A thought without a kept step becomes NULL. Steps that the thoughts do not have give NULL.",
    arguments: &[
        argument!(turns: Turns, "The turns, as the column `turns` of a corpus."),
        argument!(kept: IntList, "The numbers of the kept steps, from 1, ascending. The steps of all thoughts are counted together, as those of the column `cot`."),
        argument!(pruned: Text, "The kept steps, joined. A step may be shorter than in its thought."),
    ],
    example: "select cot_pruned_turns([{'role': 'assistant', 'thought': E'Hm.\\n\\nAdd.', 'text': '4', 'calls': NULL}], [2], 'Add.')[1]['thought'];\n-- Add.",
    row: |settings, row| {
        let turns = row.conversation(0)?;
        let split = |turn: &turns::Turn| settings.chain_steps.steps(turn.thought.as_deref().unwrap_or_default()).len();
        let kept = row.indices(1, turns.iter().map(split).sum())?;
        let texts = settings.chain_steps.steps(row.text(2)?);
        if texts.len() != kept.len() || !kept.is_sorted_by(|one, next| one < next) {
            return Err(NoValue::Null);
        }
        let mut kept = kept.into_iter().zip(texts).peekable();
        let mut end = 0;
        let mut pruned = Vec::with_capacity(turns.len());
        for turn in turns {
            let begin = end;
            let steps = settings.chain_steps.steps(turn.thought.as_deref().unwrap_or_default());
            end += steps.len();
            let own: Vec<(usize, &str)> = std::iter::from_fn(|| kept.next_if(|(step, _)| *step < end)).collect();
            let is_same =
                |(step, text): &(usize, &str)| without_line_breaks(steps[step - begin]) == without_line_breaks(text);
            let thought = match own.len() {
                count if count == steps.len() && own.iter().all(is_same) => turn.thought.clone(),
                0 => None,
                _ => Some(Cow::Owned(without_line_breaks(&join(own.iter().map(|(_, text)| *text))).to_string())),
            };
            let original_steps = steps.len();
            pruned.push(turn.with_thought(thought, own.len(), original_steps));
        }
        Ok(pruned)
    },
};

pub(super) struct Turns;

impl Results for Turns {
    type Row<'a> = Vec<turns::Turn<'a>>;
}

pub(super) const COT_MESSAGES: RowFunction<(), Messages> = RowFunction {
    name: "cot_messages",
    about: "The messages of a training example in the form of OpenAI, with `reasoning_content` and `tool_calls`: those of `turns`, or of `messages` if `turns` is NULL.",
    arguments: &[
        argument!(messages: Conversation, "Messages, such as `cot_prompt` returns."),
        argument!(turns: Turns, "The turns of a conversation with several exchanges or tools, as the column `turns` of a corpus."),
    ],
    example: "select cot_messages(cot_prompt('2 + 2?'), NULL)[1]['content'];\n-- 2 + 2?",
    row: |_, row| match row.conversation(1) {
        Ok(turns) => Ok(turns.into_iter().map(Message::of).collect()),
        Err(NoValue::Null) => {
            let turns = row.turns(0)?.into_iter();
            let messages = turns.map(|(role, content)| Message {
                role: role.map(Cow::Borrowed),
                content: content.map(Cow::Borrowed),
                ..Message::default()
            });
            Ok(messages.collect())
        }
        Err(failed) => Err(failed),
    },
};

pub(super) struct Messages;

impl Results for Messages {
    type Row<'a> = Vec<Message<'a>>;
}

/// A message in the form of OpenAI.
#[derive(Default)]
pub(super) struct Message<'a> {
    role: Option<Cow<'a, str>>,
    content: Option<Cow<'a, str>>,
    reasoning_content: Option<Cow<'a, str>>,
    tool_calls: Vec<Call<'a>>,
    tool_call_id: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
}

impl<'a> Message<'a> {
    fn of(turn: turns::Turn<'a>) -> Self {
        let turns::Turn { role, thought, text, calls, call_id, name, .. } = turn;
        Self {
            role: Some(Cow::Borrowed(role)),
            content: text,
            reasoning_content: thought,
            tool_calls: calls,
            tool_call_id: call_id,
            name,
        }
    }
}

struct_output!(message: Message<'_> =>
    "role": message.role.as_deref(),
    "content": message.content.as_deref(),
    "reasoning_content": message.reasoning_content.as_deref(),
    "tool_calls": (!message.tool_calls.is_empty()).then(|| message.tool_calls.iter().map(ToolCall::of).collect::<Vec<_>>()),
    "tool_call_id": message.tool_call_id.as_deref(),
    "name": message.name.as_deref(),
);

struct ToolCall<'c> {
    id: Option<&'c str>,
    kind: &'static str,
    called: Called<'c>,
}

impl<'c> ToolCall<'c> {
    fn of(call: &'c Call) -> Self {
        let called = Called { name: call.name.as_deref(), arguments: call.arguments.as_deref() };
        Self { id: call.id.as_deref(), kind: "function", called }
    }
}

struct_output!(call: ToolCall<'_> => "id": call.id, "type": Some(call.kind), "function": Some(call.called));

#[derive(Clone, Copy)]
struct Called<'c> {
    name: Option<&'c str>,
    arguments: Option<&'c str>,
}

struct_output!(call: Called<'_> => "name": call.name, "arguments": call.arguments);
