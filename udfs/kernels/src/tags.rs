//! The tags that reasoning models put around their chain of thought.

use std::borrow::Cow;

use super::steps::{SEPARATOR, strip};

/// The tags around the chains of published models: next to each pair a model, and where its tags are defined. They do
/// not occur in prose, so they count anywhere in a generation.
const PAIRS: [(&str, &str); 16] = [
    // DeepSeek-R1, Qwen3, GLM-4.5, Olmo 3 and most others: their chat templates.
    ("<think>", "</think>"),
    // Sky-T1 and OpenThoughts: the system prompt on the card of NovaSky-AI/Sky-T1_data_17k.
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    // gpt-oss: the harmony format of openai/harmony. Analysis may be several messages; the final one ends it.
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    // Magistral and Ministral: vllm/reasoning/mistral_reasoning_parser.py.
    ("[THINK]", "[/THINK]"),
    // Kimi-VL-Thinking: KimiDetector in sglang/srt/parser/reasoning_parser.py.
    ("◁think▷", "◁/think▷"),
    // Kimi K3: KimiK3Detector in the same file.
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    // Seed-OSS: vllm/reasoning/seedoss_reasoning_parser.py.
    ("<seed:think>", "</seed:think>"),
    // MiniMax-M3: MiniMaxM3Detector in sglang/srt/parser/reasoning_parser.py.
    ("<mm:think>", "</mm:think>"),
    // Command A Reasoning and Command 4: vllm/reasoning/cohere_command_reasoning_parser.py.
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    // Apertus: vllm/reasoning/apertus_reasoning_parser.py.
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    // Gemma 4: vllm/reasoning/gemma4_reasoning_parser.py.
    ("<|channel>thought\n", "<channel|>"),
    // Apriel-1.5 and 1.6-15b-Thinker: models/templates/*Apriel*.jinja in ggml-org/llama.cpp. The opening words are in the
    // prompt.
    ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
    // Solar Open 2: vllm/reasoning/solar_open2_reasoning_parser.py.
    ("<|think:start|>", "<|think:end|>"),
    // LongCat-Flash-Thinking: vllm/reasoning/longcat_reasoning_parser.py.
    ("<longcat_think>", "</longcat_think>"),
    // openPangu: vllm/reasoning/pangu_reasoning_parser.py.
    ("[unused16]", "[unused17]"),
    // Inkling: InklingDetector in sglang/srt/parser/reasoning_parser.py.
    ("<|content_thinking|>", "<|end_message|><|message_model|><|content_text|>"),
];
/// Tags that also occur in prose and code. They count only at the start of a generation.
const FIRST: [(&str, &str); 7] = [
    // Marco-o1: its system prompt, as in src/llamafactory/data/template.py of hiyouga/LLaMA-Factory.
    ("<Thought>", "</Thought>"),
    // EXAONE Deep: the README of LG-AI-EXAONE/EXAONE-Deep.
    ("<thought>", "</thought>"),
    // Claude's prompts and the data sets made with them, such as Reflection.
    ("<thinking>", "</thinking>"),
    // The GRPO notebooks of unslothai/notebooks, by their system prompt.
    ("<reasoning>", "</reasoning>"),
    // Granite 3.2: vllm/reasoning/granite_reasoning_parser.py.
    ("Here is my thought process:", "Here is my response:"),
    ("Here's my thought process:", "Here's my response:"),
    // HuatuoGPT-o1: the README of FreedomIntelligence/HuatuoGPT-o1.
    ("## Thinking", "## Final Response"),
];
/// Tags around the whole solution. The first `NO_WORDS` of them are not HTML words.
const SOLUTION: [(&str, &str); 9] = [
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
    ("<Output>", "</Output>"),
    // Command A Reasoning, Kimi K3 and Apriel: the files named at their pairs.
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    // Command 4: CohereCommand4Detector in sglang/srt/parser/reasoning_parser.py.
    ("<|START_TEXT|>", "<|END_TEXT|>"),
    ("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    ("[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"),
    ("<output>", "</output>"),
    // Hunyuan-A13B: vllm/reasoning/hunyuan_a13b_reasoning_parser.py.
    ("<answer>", "</answer>"),
    // ERNIE-4.5-Thinking: vllm/reasoning/ernie45_reasoning_parser.py.
    ("<response>", "</response>"),
];
const NO_WORDS: usize = 6;
const SPECIAL: [&str; 2] = [SOLUTION[0].0, SOLUTION[0].1];
/// End-of-turn tokens, which some loggers leave at the end of a generation.
const END_OF_TURN: &str = "<|im_end|> <|endoftext|> <｜end▁of▁sentence｜> <|eot_id|> <|eom_id|> <end_of_turn> </s> <|return|> <|end|> \
    <turn|> [unused10] <|end_message|> <|content_model_end_sampling|> <|END_OF_TURN_TOKEN|> <|eos|> <|user|> \
    [|endofturn|] <SPECIAL_12>";
/// What harmony writes between two messages of the analysis, and before the final message.
const NEXT_MESSAGE: &str = "<|end|><|start|>assistant";

pub fn openings() -> impl Iterator<Item = &'static str> {
    PAIRS.iter().chain(&FIRST).map(|(opening, _)| *opening)
}

/// Returns the tags that no answer may contain: the end of its chain would be ambiguous.
pub fn of_chains() -> impl Iterator<Item = &'static str> {
    PAIRS.iter().flat_map(|(opening, closing)| [*opening, *closing])
}

/// Returns opening and closing tags that no answer may contain if its generation begins with them. They are also words.
pub fn of_chains_that_begin() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIRST.into_iter()
}

/// Returns a tag of a generation without a chain that may be the opening tag of one: it begins a line, and its closing
/// tag follows or its name is that of a thought.
pub fn unread(generation: &str) -> Option<&str> {
    const BRACKETS: [(&str, &str); 4] = [("<|", "|>"), ("<", ">"), ("[", "]"), ("◁", "▷")];
    generation.lines().map(str::trim_start).find_map(|line| {
        let (left, right) = BRACKETS.iter().find(|(left, _)| line.starts_with(left))?;
        let (name, _) = line[left.len()..].split_once(right)?;
        let is_letter = |character: char| character.is_alphanumeric() || "_-:.".contains(character);
        let is_thought = ["think", "thought", "reason"].iter().any(|word| name.to_ascii_lowercase().contains(word));
        let is_tag = name.starts_with(char::is_alphabetic)
            && name.chars().all(is_letter)
            && (is_thought || generation.contains(&format!("{left}/{name}{right}")));
        let tag = &line[..left.len() + name.len() + right.len()];
        // A tag of the table that no closing tag follows is read: its chain was cut off.
        (is_tag && PAIRS.iter().all(|(opening, _)| *opening != tag)).then_some(tag)
    })
}

/// Returns the chain of thought of a generation: from the first opening tag to the first closing tag after it,
/// stripped. A missing opening tag is accepted, because chat templates put it into the prompt. None without a closing
/// tag.
pub fn think(generation: &str) -> Option<Cow<'_, str>> {
    let (from, to, _) = span(generation)?;
    let chain = strip(&generation[from..to]);
    if !chain.ends_with(NEXT_MESSAGE) {
        return Some(Cow::Borrowed(chain));
    }
    let messages = chain.split(NEXT_MESSAGE).map(|message| strip(message.strip_prefix(PAIRS[2].0).unwrap_or(message)));
    // Messages of the other channel, commentary, call tools or speak to the user.
    let is_analysis = |message: &&str| !message.is_empty() && !message.starts_with("<|channel|>");
    Some(Cow::Owned(messages.filter(is_analysis).collect::<Vec<_>>().join(SEPARATOR)))
}

/// Returns the text after the chain's closing tag, stripped and without solution tags and the end-of-turn token. None
/// without a closing tag.
pub fn response(generation: &str) -> Option<Cow<'_, str>> {
    let solution = after_chain(generation)?;
    // A solution may have text before and after it.
    if !SPECIAL.iter().any(|tag| solution.contains(tag)) {
        return Some(Cow::Borrowed(solution));
    }
    let parts = solution.split(SPECIAL[0]).flat_map(|part| part.split(SPECIAL[1])).map(strip);
    Some(Cow::Owned(parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(SEPARATOR)))
}

/// Like [`response`], but keeps solution tags that have text before or after them.
pub fn after_chain(generation: &str) -> Option<&str> {
    let (_, _, after) = span(generation)?;
    let mut rest = strip(&generation[after..]);
    while let Some(before) = END_OF_TURN.split(' ').find_map(|token| rest.strip_suffix(token)) {
        rest = strip(before);
    }
    let unwrapped = SOLUTION.iter().enumerate().find_map(|(place, (opening, closing))| {
        match (rest.strip_prefix(opening), rest.strip_suffix(closing)) {
            (Some(inner), Some(_)) => inner.strip_suffix(closing),
            // One of the two is missing where a generation was cut. A closing tag may be HTML whose opening tag has
            // attributes.
            (Some(inner), None) => (!inner.contains(closing)).then_some(inner),
            (None, Some(inner)) => (place < NO_WORDS && !inner.contains(opening)).then_some(inner),
            (None, None) => None,
        }
    });
    Some(unwrapped.map_or(rest, strip))
}

/// Returns the text after the chain of thought, or the whole generation if it has no chain. None if the chain is cut
/// off: an opening tag without a closing one.
pub fn response_or_all(generation: &str) -> Option<&str> {
    if let Some(after) = after_chain(generation) {
        return Some(after);
    }
    let start = generation.trim_start();
    let is_cut_off = first_of(generation, PAIRS.map(|(opening, _)| opening)).is_some()
        || FIRST.iter().any(|(tag, _)| start.starts_with(tag));
    (!is_cut_off).then_some(generation)
}

/// The text between closing tag and answer of most reasoning models, such as DeepSeek-R1 and Qwen3.
pub const BEFORE_ANSWER: &str = "\n\n";

pub fn wrap(cot: &str, answer: &str) -> String {
    format!("{}\n{}", PAIRS[0].0, continuation(cot, BEFORE_ANSWER, answer))
}

/// Formats a chain and its answer, with `before_answer` after the closing tag, to follow a prompt that ends in the
/// opening tag.
pub fn continuation(cot: &str, before_answer: &str, answer: &str) -> String {
    format!("{cot}\n{}{before_answer}{answer}", PAIRS[0].1)
}

/// Returns the chain's start, its end, and the end of the closing tag, in bytes.
fn span(generation: &str) -> Option<(usize, usize, usize)> {
    let start = generation.len() - generation.trim_start().len();
    let first = FIRST.iter().find(|(opening, _)| generation[start..].starts_with(opening));
    if let Some((opening, closing)) = first {
        let from = start + opening.len();
        let to = from + generation[from..].find(closing)?;
        return Some((from, to, to + closing.len()));
    }
    // The first opening tag that its own closing tag follows.
    let (mut found, mut before) = (None, generation);
    for (opening, closing) in PAIRS {
        let Some(start) = before.find(opening) else { continue };
        let from = start + opening.len();
        if let Some(to) = generation[from..].find(closing).map(|to| from + to) {
            (found, before) = (Some((from, to, to + closing.len())), &generation[..start]);
        }
    }
    if found.is_some() {
        return found;
    }
    let from = first_of(generation, PAIRS.map(|(opening, _)| opening)).map_or(0, |(_, end)| end);
    let closings = PAIRS.map(|(_, closing)| closing);
    match first_of(&generation[from..], closings) {
        Some((start, end)) => Some((from, from + start, from + end)),
        // The only opening tag is after the chain: it belongs to the response.
        None => first_of(generation, closings).map(|(start, end)| (0, start, end)),
    }
}

fn first_of(text: &str, tags: [&str; PAIRS.len()]) -> Option<(usize, usize)> {
    let (mut found, mut before) = (None, text);
    for tag in tags {
        if let Some(start) = before.find(tag) {
            (found, before) = (Some((start, start + tag.len())), &text[..start]);
        }
    }
    found
}
