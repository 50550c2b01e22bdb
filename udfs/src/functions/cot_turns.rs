//! Conversations: the turns of a role, and the messages of a training example.

use asap_kernels::tags;

use super::by_row::RowFunction;
use crate::declaration::argument;
use crate::messages::Speaker;
use crate::output::{Texts, Turn};

pub(super) const COT_TURNS: RowFunction<(), Texts> = RowFunction {
    name: "cot_turns",
    about: "The texts of one role in a conversation, turn by turn. The roles `human`, `gpt`, `model`, `ai`, `bot` and `developer` are other names for `user`, `assistant` and `system`; case does not count. A conversation is a list of structs with the fields `role` and `content` (or `parts`), or `from` and `value`. A conversation may also be one struct in which each of these two fields is a list of texts. A content may be a list of parts: the parts of text are joined, after those of thoughts in think tags, and other parts are left out.",
    arguments: &[
        argument!(messages: Conversation, "The conversation."),
        argument!(role: Text, "The role: `user`, `assistant`, `system`, or any other."),
    ],
    example: "select cot_turns([{'role': 'user', 'content': '2 + 2?'}, {'role': 'assistant', 'content': '4'}], 'user');\n-- [2 + 2?]",
    row: |_, row| {
        let role = row.text(1)?;
        let is_role = |speaker: &str| match Speaker::of(role) {
            Speaker::Other => speaker.eq_ignore_ascii_case(role),
            known => Speaker::of(speaker) == known,
        };
        let own = row.turns(0)?.into_iter().filter(|(speaker, _)| speaker.is_some_and(is_role));
        Ok(own.map(|(_, text)| text.map(Into::into)).collect())
    },
};

pub(super) const COT_PROMPT: RowFunction<(), Vec<Turn>> = RowFunction {
    name: "cot_prompt",
    about: "The prompt of a training example, in a list of structs with role and content. The list holds the system prompt and then the question as the user's message. A NULL or blank system prompt is left out.",
    arguments: &[argument!(question: Text, "The question."), argument!(system?: Text, "The system prompt.")],
    example: "select cot_prompt('2 + 2?', 'Be brief.');\n-- [{role: system, content: Be brief.}, {role: user, content: 2 + 2?}]",
    row: |_, row| {
        let turn = |role, content: &str| Turn { role, content: content.to_string() };
        let question = turn("user", row.text(0)?);
        let system = row.text(1).ok().filter(|system| !system.trim().is_empty());
        Ok(system.map(|system| turn("system", system)).into_iter().chain([question]).collect())
    },
};

pub(super) const COT_COMPLETION: RowFunction<(), Vec<Turn>> = RowFunction {
    name: "cot_completion",
    about: "The completion of a training example, in a list of structs with role and content. The list holds one message of the assistant: the chain between think tags and, after a blank line, the answer. A NULL answer is left out. A NULL chain gives NULL.",
    arguments: &[
        argument!(cot: Text, "The chain of thought."),
        argument!(answer: Text, "The text that follows the chain."),
    ],
    example: "select cot_completion('2 and 2 is 4', '4');\n-- [{role: assistant, content: <think>\\n2 and 2 is 4\\n</think>\\n\\n4}]",
    row: |_, row| {
        let answer = row.text(1).unwrap_or_default();
        Ok(vec![Turn { role: "assistant", content: tags::wrap(row.text(0)?, answer) }])
    },
};
