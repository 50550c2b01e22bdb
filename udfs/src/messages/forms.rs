//! The forms in which messages hold thoughts, calls of tools and the results of calls.

/// Where a form has a name that shows what a message, or a part of one, holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A field of a message, with a call or a list of calls.
    Field,
    /// The role of a message. Case does not count.
    Role,
    /// The type of a message.
    Item,
    /// The channel of a message.
    Channel,
    /// The type of a part of a message.
    Part,
    /// The key of a part of a message, or of what a call or a result is wrapped in.
    Key,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Thought,
    Call,
    Outcome,
}

use Holds::{Call, Outcome, Thought};
use Place::{Channel, Field, Item, Key, Part, Role};

/// Every name, below the form that has it. A message may have names of several forms.
const FORMS: &[(Place, &str, Holds)] = &[
    // OpenAI chat completions, Mistral, vLLM: platform.openai.com/docs/api-reference/chat
    (Field, "tool_calls", Call),
    (Field, "function_call", Call),
    (Key, "function", Call),
    (Role, "tool", Outcome),
    (Role, "function", Outcome),
    // OpenAI Responses: platform.openai.com/docs/api-reference/responses
    (Item, "reasoning", Thought),
    (Item, "function_call", Call),
    (Item, "custom_tool_call", Call),
    (Item, "function_call_output", Outcome),
    (Item, "custom_tool_call_output", Outcome),
    // Anthropic, and sessions of Claude Code: docs.anthropic.com/en/api/messages
    (Part, "tool_use", Call),
    (Part, "server_tool_use", Call),
    (Part, "tool_result", Outcome),
    // Bedrock Converse: docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
    (Key, "toolUse", Call),
    (Key, "toolResult", Outcome),
    // Gemini: ai.google.dev/api/caching#Part
    (Key, "functionCall", Call),
    (Key, "functionResponse", Outcome),
    (Key, "function_call", Call),
    (Key, "function_response", Outcome),
    // ShareGPT with tools: data/README.md of hiyouga/LLaMA-Factory
    (Role, "function_call", Call),
    (Role, "observation", Outcome),
    // Agents in ms-swift: docs/source_en/Instruction/Agent-support.md of modelscope/ms-swift
    (Role, "tool_call", Call),
    (Role, "tool_response", Outcome),
    // smolagents: src/smolagents/models.py of huggingface/smolagents
    (Role, "tool-call", Call),
    (Role, "tool-response", Outcome),
    // Harmony: docs/format.md of openai/harmony. A message with a recipient is a call, too
    (Channel, "analysis", Thought),
    // Llama 3.1: its prompt format in meta-llama/llama-models
    (Role, "ipython", Outcome),
    // Sessions of Pi, which the Hub shows: huggingface.co/docs/hub/agent-traces
    (Role, "toolResult", Outcome),
    (Part, "toolCall", Call),
    // Vercel AI SDK: ai-sdk.dev/docs/reference/ai-sdk-core/model-message
    (Part, "tool-call", Call),
    (Part, "tool-result", Outcome),
];

// The fields of a call, of a result, and of a message that is either. The first that is filled counts.
pub(crate) const IDS: &[&str] = &["tool_call_id", "call_id", "tool_use_id", "toolUseId", "toolCallId", "id"];
pub(crate) const NAMES: &[&str] = &["name", "tool_name", "toolName", "function_name"];
pub(crate) const ARGUMENTS: &[&str] = &["arguments", "args", "input", "parameters"];
pub(crate) const OUTCOMES: &[&str] = &["output", "content", "response", "result"];
/// What a message of Harmony is.
pub(crate) const CHANNEL: &[&str] = &["channel"];
/// The tool that a message of Harmony calls.
pub(crate) const RECIPIENT: &[&str] = &["recipient"];
/// More names of objects that stay as written.
const WRITTEN: &[&str] = &["input_schema", "inputSchema", "response"];

/// What a name shows at a place.
pub(crate) fn holds(place: Place, name: &str) -> Option<Holds> {
    let is_it = |known: &str| if place == Role { known.eq_ignore_ascii_case(name.trim()) } else { known == name };
    FORMS.iter().find(|(at, known, _)| *at == place && is_it(known)).map(|(.., holds)| *holds)
}

/// The names at a place.
pub(crate) fn names(place: Place) -> impl Iterator<Item = &'static str> {
    FORMS.iter().filter(move |(at, ..)| *at == place).map(|(_, name, _)| *name)
}

/// Whether the object with the key `name`, in an object with these keys, stays as written: it has the arguments of a call, a
/// result, or the schema of a tool.
pub fn is_written<'a>(mut keys: impl Iterator<Item = &'a String>, name: &str) -> bool {
    [ARGUMENTS, WRITTEN].iter().any(|names| names.contains(&name)) && keys.any(|key| NAMES.contains(&key.as_str()))
}
