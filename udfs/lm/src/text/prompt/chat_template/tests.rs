//! Templates assembled from parts of published ones: each text of a conversation is printed, or reported.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::{Asked, LmError, PromptTemplate, Result};

fn load(config: &Value) -> Result<PromptTemplate> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    PromptTemplate::load(folder.path(), None)
}

fn of(template: &str) -> Result<PromptTemplate> {
    load(&json!({ "chat_template": template, "bos_token": "<s>", "eos_token": "</s>" }))
}

/// How a template writes the content of `MESSAGE`, and whether the whole content is printed if it is a text, and if it
/// is a list of parts. None if that depends on the text.
type Content = (&'static str, Option<[bool; 2]>);

const CONTENTS: [Content; 26] = [
    ("{{ MESSAGE.content }}", Some([true, false])),
    ("{{ MESSAGE['content'] }}", Some([true, false])),
    ("{{ MESSAGE['content'] | trim }}", Some([true, false])),
    ("{{ MESSAGE['content'].strip() }}", Some([true, false])),
    ("{{ MESSAGE.content.rstrip('\\n') + '' }}", Some([true, false])),
    ("{% set text = MESSAGE['content'] %}{{ '' + text }}", Some([true, false])),
    ("{% if MESSAGE.content is string %}{{ MESSAGE.content }}{% else %}{{ '' }}{% endif %}", Some([true, false])),
    (
        "{% if MESSAGE.content is string %}{{ MESSAGE.content }}{% else %}{% for part in MESSAGE.content %}\
         {{ part.text }}{% endfor %}{% endif %}",
        Some([true, true]),
    ),
    (
        "{% for line in MESSAGE['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}{% elif \
         line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}",
        Some([false, true]),
    ),
    ("{{ MESSAGE['content'][0]['text'] }}", Some([false, true])),
    ("{{ MESSAGE.content | map(attribute='text') | join('') }}", Some([false, true])),
    (
        "{% if MESSAGE.content is not string %}{{ MESSAGE.content[0].text | trim }}{% else %}\
         {{ raise_exception('Only lists of parts are supported') }}{% endif %}",
        Some([false, true]),
    ),
    // A tag ends a thought, also that of a user.
    ("{{ MESSAGE['content'].split('</think>')[-1] }}", None),
    ("{% if MESSAGE.content | length < 40 %}{{ MESSAGE.content }}{% endif %}", Some([false, false])),
    ("{% if MESSAGE.content | length > 40 %}{{ MESSAGE.content }}{% endif %}", None),
    ("{{ MESSAGE.content[:12] }}", Some([false, false])),
    ("{{ MESSAGE.content[1:] }}", Some([false, false])),
    ("{{ MESSAGE.content | upper }}", Some([false, false])),
    ("{{ MESSAGE.content | lower }}", Some([false, false])),
    ("{{ MESSAGE.content | tojson }}", Some([false, false])),
    ("{{ MESSAGE.content | replace('\\n', ' ') }}", Some([false, false])),
    ("{{ MESSAGE.content.split('\\n')[0] }}", Some([false, false])),
    ("{{ MESSAGE.content | escape }}", Some([false, false])),
    ("{{ MESSAGE.text }}", Some([false, false])),
    ("{{ MESSAGE.role }}", Some([false, false])),
    ("{{ MESSAGE.content.no_such_method() }}", Some([false, false])),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Printed,
    Dropped,
    /// It fails, with this message.
    Refused(&'static str),
    /// Prompts without one fail, with this message.
    Needed(&'static str),
    /// What is printed depends on the text.
    Open,
}

/// What comes before the turns and before the first of them, which messages are turns, and what becomes of a system
/// prompt.
type System = (&'static str, &'static str, &'static str, Kind);

const ROLES: &str = "Conversation roles must alternate user/assistant/user/assistant/...";
const SYSTEMS: [System; 14] = [
    ("", "", "messages", Kind::Printed),
    (
        "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are helpful.<|im_end|>\n{% endif %}",
        "",
        "messages",
        Kind::Printed,
    ),
    (
        "{%- for message in messages -%}{%- if message['role'] == 'system' -%}SAY(message){%- endif -%}{%- endfor -%}",
        "",
        "(messages | rejectattr('role', 'equalto', 'system') | list)",
        Kind::Printed,
    ),
    (
        "",
        "{% if loop.first and messages[0].role == 'system' %}<<SYS>>\nSAY(messages[0])\n<</SYS>>\n\n{% endif %}",
        "(messages[1:] if messages[0].role == 'system' else messages)",
        Kind::Printed,
    ),
    (
        "{%- if messages[0].role == 'system' %}{% set first %}SAY(messages[0]){% endset %}{% endif %}",
        "{% if first is defined and loop.first %}{{ first }}\n\n{% endif %}",
        "(messages[1:] if messages[0].role == 'system' else messages)",
        Kind::Printed,
    ),
    ("", "", "(messages | selectattr('role', 'ne', 'system') | list)", Kind::Dropped),
    ("", "", "(messages[1:] if messages[0].role == 'system' else messages)", Kind::Dropped),
    ("{% set system = messages[0] %}", "", "(messages[-1:])", Kind::Dropped),
    (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}",
        "",
        "messages",
        Kind::Refused("refuses a system prompt: \"System role not supported\""),
    ),
    (
        "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
         {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}\
         {% endfor %}",
        "",
        "messages",
        Kind::Refused(ROLES),
    ),
    (
        "{% if messages[0].role == 'system' %}{{ messages[0].content + none }}{% endif %}",
        "",
        "(messages[1:] if messages[0].role == 'system' else messages)",
        Kind::Refused("fails on a system prompt: invalid operation"),
    ),
    (
        "{% if messages[0].role == 'system' %}{{ messages[0].content[:9] }}{% endif %}",
        "",
        "(messages[1:] if messages[0].role == 'system' else messages)",
        Kind::Open,
    ),
    (
        "{% if messages[0].role == 'system' and messages[0].content | length > 60 %}{{ raise_exception('too long') }}\
      {% endif %}",
        "",
        "messages",
        Kind::Open,
    ),
    (
        "{% if messages[0].role != 'system' %}{{ raise_exception('A system prompt is needed') }}{% endif %}",
        "",
        "messages",
        Kind::Needed("refuses a question without a system prompt: \"A system prompt is needed\""),
    ),
];

const BEGINNINGS: [&str; 5] = [
    "",
    "{{ bos_token }}",
    "{{- bos_token -}}\n{%- if tools is not none and tools | length > 0 %}{{ tools | tojson }}{% endif %}\n",
    "{#- a comment -#}{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}",
    "{% set date = strftime_now('%d %b %Y') %}Today is {{ date }}.\n",
];

const TURNS: [[&str; 2]; 5] = [
    ["<|im_start|>{{ message.role }}\n", "<|im_end|>\n"],
    [
        "{{ '[INST] ' if message['role'] == 'user' else '' }}",
        "{{ ' [/INST]' if message['role'] == 'user' else eos_token }}",
    ],
    ["{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}", "{{- '<|eot_id|>' }}"],
    ["{{ message['role'] | capitalize }}: ", "\n"],
    ["{% generation %}", "{{ eos_token }}{% endgeneration %}"],
];

const ENDS: [&str; 6] = [
    "",
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
    "{% if add_generation_prompt %}{% if enable_thinking is defined and enable_thinking %}A:{% else %}A:<think>\n\n\
     </think>\n\n{% endif %}{% endif %}",
    "{%- if add_generation_prompt %}\n    {{- 'Assistant:</think>' }}\n{%- endif %}",
    "{% if add_generation_prompt and messages[-1].role == 'user' %}[bot]{% endif %}",
];

const ROWS: [(Option<&str>, &str); 9] = [
    (None, "How many jars are in 7 boxes of 12?"),
    (Some("Be brief."), "How many jars are in 7 boxes of 12?"),
    (None, "2?"),
    (Some("Answer in one word."), "2?"),
    (
        Some("\n You are a careful helper.\n\nShow each step, and check it twice before you answer.\n"),
        "  What is 3 < 4 & 5?\n",
    ),
    (None, "One\n\nTwo  spaces\tand a tab, \"quotes\", {{ braces }}, {% tags %}, 数学 and é. That is all of it."),
    (Some("<b>Bold</b> & 'sure'"), "What does </think> do in a template, and what does <think> do?"),
    (None, "Which text ends in a tag? </think>"),
    (Some("数学"), "é"),
];

struct Assembled {
    text: String,
    content: Content,
    system: System,
}

fn assemble(random: &mut StdRng) -> Assembled {
    // Half of the templates read contents as most do.
    let common = if random.random_bool(0.5) { 9 } else { CONTENTS.len() };
    let content = *CONTENTS[..common].choose(random).unwrap();
    let system = *SYSTEMS.choose(random).unwrap();
    let (before, first, turns, _) = system;
    let ([open, close], begin, end) =
        (TURNS.choose(random).unwrap(), BEGINNINGS.choose(random).unwrap(), ENDS.choose(random).unwrap());
    let said = |text: &str| {
        ["message", "messages[0]"].iter().fold(text.to_string(), |text, message| {
            text.replace(&format!("SAY({message})"), &content.0.replace("MESSAGE", message))
        })
    };
    let text = format!(
        "{begin}{}{{% for message in {turns} %}}{open}{}SAY(message){close}{{% endfor %}}{end}",
        said(before),
        said(first)
    );
    Assembled { text: said(&text), content, system }
}

/// Checks that each text of a row is in its prompt, or is reported. Returns whether the prompt was rendered.
fn printed_or_reported(template: &PromptTemplate, (system, question): (Option<&str>, &str), text: &str) -> bool {
    match template.render(Asked { system, question }) {
        Ok(prompt) => {
            assert!(prompt.contains(question.trim()), "{text}\nlost the question: {prompt}");
            let is_there = system.is_none_or(|system| prompt.contains(system.trim()));
            assert!(is_there || template.drops_system(), "{text}\nlost the system prompt: {prompt}");
            true
        }
        Err(LmError::Prompt(why)) => {
            let says = ["refuses", "fails on", "does not print"].iter().any(|what| why.contains(what));
            assert!(says && why.starts_with("the chat template "), "{why}");
            false
        }
        Err(error) => panic!("{text}\n{error}"),
    }
}

#[test]
fn each_text_is_printed_or_reported() {
    let mut random = StdRng::seed_from_u64(64);
    let (mut loaded, mut refused, mut rows) = (0, 0, [0; 2]);
    for _ in 0..300 {
        let Assembled { text, content: (_, printed), system: (.., kind) } = assemble(&mut random);
        let found = of(&text);
        let is_sound = printed.map(|printed| printed.contains(&true));
        match (&found, is_sound) {
            (Err(error), Some(false) | None) => {
                let error = error.to_string();
                let says = ["refuses the question", "fails on the question", "does not print the question"];
                let says =
                    says.iter().any(|what| error.contains(what)) || error.contains("cuts or changes the question");
                assert!(
                    says && error.contains("/") && error.contains("correct chat_template.jinja"),
                    "{text}\n{error}"
                );
                refused += 1;
                continue;
            }
            (Err(error), Some(true)) => panic!("{text}\n{error}"),
            (Ok(_), Some(false)) => panic!("{text}\nis not refused"),
            (Ok(_), _) => loaded += 1,
        }
        let template = found.unwrap();
        for row in ROWS {
            let is_printed = printed_or_reported(&template, row, &text);
            rows[usize::from(is_printed)] += 1;
            if printed.is_none() {
                continue;
            }
            // Nothing else is reported, and a refusal has the message of the template.
            let why = template.render(Asked { system: row.0, question: row.1 }).map_err(|error| error.to_string());
            match (kind, row.0) {
                (Kind::Printed, _) => assert!(is_printed && !template.drops_system(), "{text}\n{row:?} {why:?}"),
                (Kind::Dropped, _) => assert!(is_printed && template.drops_system(), "{text}\n{row:?} {why:?}"),
                (Kind::Refused(said), Some(_)) | (Kind::Needed(said), None) => {
                    assert!(why.as_ref().is_err_and(|why| why.contains(said)), "{text}\n{row:?} {why:?}");
                }
                (Kind::Open, Some(_)) => {}
                (Kind::Refused(_) | Kind::Open, None) | (Kind::Needed(_), Some(_)) => {
                    assert!(is_printed, "{text}\n{row:?} {why:?}");
                }
            }
        }
    }
    assert!(loaded > 150 && refused > 50 && rows[0] > 150 && rows[1] > 750, "{loaded} {refused} {rows:?}");
}

#[test]
fn what_is_lost_is_said_with_the_templates_own_message() {
    let turn = "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n";
    let each = |before: &str, turn: &str| format!("{before}{{% for message in messages %}}{turn}{{% endfor %}}");
    let refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('No\n system') }}{% endif %}";
    let of_rows = [
        (each(refuses, turn), "the chat template refuses a system prompt: \"No system\""),
        (
            each(
                "{% if messages[0].role == 'system' %}{{ messages[0].content[:4] }}{% endif %}",
                "{{ messages[-1].content }}",
            ),
            "the chat template does not print a system prompt as it is",
        ),
        (
            "{{ messages[0].content }}".to_string(),
            "the chat template does not print a question after a system prompt as it is",
        ),
    ];
    for (template, why) in of_rows {
        let template = of(&template).unwrap();
        assert!(template.render("How many?".into()).is_ok());
        let found = template.render(Asked { system: Some("Be brief."), question: "How many?" });
        assert_eq!(found.unwrap_err().to_string(), why);
    }
    let of_models = [
        (each("", "{{ message.content[:12] }}"), "cuts or changes the question"),
        (each("", "{{ message.role }}"), "does not print the question"),
        (each("{{ raise_exception('only tools') }}", turn), "refuses the question: \"only tools\""),
        (String::new(), "does not print the question"),
    ];
    for (template, what) in of_models {
        let error = of(&template).unwrap_err().to_string();
        assert!(error.contains(&format!(": the chat template {what}: expected ")), "{error}");
    }
}

#[test]
fn a_message_that_quotes_a_row_is_cut() {
    let template = of(
        "{% if messages | length > 1 %}{{ raise_exception(messages[0].content) }}{% endif %}{{ messages[0].content }}",
    );
    let found = template.unwrap().render(Asked { system: Some(&"é ".repeat(500)), question: "?" });
    let why = found.unwrap_err().to_string();
    assert!(why.chars().count() < 300 && why.ends_with(" …\""), "{why}");
}

#[test]
fn of_several_templates_the_default_or_the_only_one_is_read() {
    let named = |names: &[&str]| -> Vec<Value> {
        names
            .iter()
            .map(|name| json!({ "name": name, "template": format!("{name}: {{{{ messages[0].content }}}}") }))
            .collect()
    };
    let read = |chat_template: Value| {
        load(&json!({ "chat_template": chat_template })).and_then(|template| template.render("?".into()))
    };
    let one = [
        (json!(named(&["tool_use", "default"])), "default: ?<think>\n"),
        (json!(named(&["tool_use"])), "tool_use: ?<think>\n"),
        (json!({ "rag": "{{ messages[0].content }}!" }), "?!<think>\n"),
        (json!([]), "?\n<think>\n"),
    ];
    for (chat_template, rendered) in one {
        assert_eq!(read(chat_template.clone()).unwrap(), rendered, "{chat_template}");
    }
    let none = [
        (json!(named(&["tool_use", "rag"])), "has the templates tool_use, rag, and none is named default"),
        (json!([{ "name": "default" }]), "has no template"),
        (json!(7), "has no template"),
    ];
    for (chat_template, why) in none {
        let error = read(chat_template.clone()).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("tokenizer_config.json"), "{chat_template}: {error}");
    }
}
