//! Conversations rendered by a chat template: ChatML, Llama 3, Gemma, DeepSeek and Mistral.

use super::steps::strip;

/// How a template writes its turns.
enum Form {
    /// Each turn begins with a token and the name of its speaker, up to the end of this head.
    Headed { opening: &'static str, head_end: &'static str },
    /// Each turn begins with the token of its speaker. Text before the first turn is the system prompt.
    Marked { speakers: &'static [(&'static str, &'static str)] },
}

struct Template {
    form: Form,
    end: &'static str,
}

const TEMPLATES: [Template; 5] = [
    Template { form: Form::Headed { opening: "<|im_start|>", head_end: "\n" }, end: "<|im_end|>" },
    Template {
        form: Form::Headed { opening: "<|start_header_id|>", head_end: "<|end_header_id|>" },
        end: "<|eot_id|>",
    },
    Template { form: Form::Headed { opening: "<start_of_turn>", head_end: "\n" }, end: "<end_of_turn>" },
    Template {
        form: Form::Marked { speakers: &[("<｜User｜>", "user"), ("<｜Assistant｜>", "assistant")] },
        end: "<｜end▁of▁sentence｜>",
    },
    Template { form: Form::Marked { speakers: &[("[INST]", "user"), ("[/INST]", "assistant")] }, end: "</s>" },
];
/// Tokens before the first turn.
const BEGINNINGS: [&str; 4] = ["<|begin_of_text|>", "<｜begin▁of▁sentence｜>", "<bos>", "<s>"];
const SYSTEM: (&str, &str) = ("<<SYS>>", "<</SYS>>");
/// Parts of the assistant's turn that s1 writes as turns.
const PARTS: [&str; 2] = ["think", "answer"];

/// The speaker and the text of a turn. A text outside of turns has no speaker.
pub type Turn<'a> = (Option<&'a str>, &'a str);

/// Returns the turns of a rendered conversation, each text stripped. None if the text does not begin as one.
pub fn turns(text: &str) -> Option<Vec<Turn<'_>>> {
    if !text.starts_with(['<', '[']) {
        return None;
    }
    let rest = BEGINNINGS.iter().find_map(|token| text.strip_prefix(token)).unwrap_or(text);
    let template = TEMPLATES.iter().find(|template| template.begins(rest, text))?;
    let mut turns = Vec::new();
    match &template.form {
        Form::Headed { opening, head_end } => template.read_headed(rest, opening, head_end, &mut turns),
        Form::Marked { speakers } => template.read_marked(rest, speakers, &mut turns),
    }
    turns.retain(|(speaker, text)| speaker.is_some() || !text.is_empty());
    Some(turns)
}

impl Template {
    fn begins(&self, rest: &str, text: &str) -> bool {
        match &self.form {
            Form::Headed { opening, .. } => rest.trim_start().starts_with(opening),
            Form::Marked { speakers } => {
                let is_first = |(token, _): &(&str, &str)| rest.trim_start().starts_with(token);
                // DeepSeek writes the system prompt between these tokens.
                let is_opened =
                    text.starts_with(BEGINNINGS[1]) && self.end.contains('▁') && rest.contains(speakers[0].0);
                is_opened || is_first(&speakers[0])
            }
        }
    }

    fn read_headed<'a>(&self, rest: &'a str, opening: &str, head_end: &str, turns: &mut Vec<Turn<'a>>) {
        let mut pieces = rest.split(opening);
        turns.push((None, strip(pieces.next().unwrap_or_default())));
        let mut from = None;
        for piece in pieces {
            let (speaker, said) = piece.split_once(head_end).unwrap_or((piece, ""));
            let start = said.as_ptr() as usize - rest.as_ptr() as usize;
            let end = start + said.len();
            if PARTS.contains(&speaker)
                && let (Some((Some(_), text)), Some(begin)) = (turns.last_mut(), from)
            {
                let (text_end, _) = self.ended(&rest[begin..end]);
                *text = strip(text_end);
                continue;
            }
            let (said, after) = self.ended(said);
            from = Some(start);
            turns.extend([(Some(strip(speaker)), strip(said)), (None, strip(after))]);
            if turns.last().is_some_and(|(_, after)| after.is_empty()) {
                turns.pop();
            }
        }
    }

    fn read_marked<'a>(&self, rest: &'a str, speakers: &[(&str, &'a str)], turns: &mut Vec<Turn<'a>>) {
        let next = |text: &'a str| {
            let found = speakers.iter().filter_map(|(token, speaker)| Some((text.find(token)?, token.len(), *speaker)));
            found.min()
        };
        let before = next(rest).map_or(rest.len(), |(at, ..)| at);
        if !strip(&rest[..before]).is_empty() {
            turns.push((Some("system"), strip(&rest[..before])));
        }
        let mut rest = &rest[before..];
        while let Some((at, length, speaker)) = next(rest) {
            let (said, others) = rest[at + length..]
                .split_at(next(&rest[at + length..]).map_or(rest.len() - at - length, |(at, ..)| at));
            let (mut said, after) = self.ended(said);
            if let Some((system, asked)) =
                said.trim_start().strip_prefix(SYSTEM.0).and_then(|held| held.split_once(SYSTEM.1))
            {
                turns.push((Some("system"), strip(system)));
                said = asked;
            }
            turns.push((Some(speaker), strip(said)));
            if !strip(after).is_empty() {
                turns.push((None, strip(after)));
            }
            rest = others;
        }
    }

    /// The text of a turn, and what follows its end.
    fn ended<'a>(&self, said: &'a str) -> (&'a str, &'a str) {
        said.split_once(self.end).unwrap_or((said, ""))
    }
}
