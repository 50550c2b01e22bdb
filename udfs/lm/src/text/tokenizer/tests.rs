use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{all, chains, golden_tokenizer, nasty_steps, tokenizer};

fn with_added_tokens() -> Vec<Tokenizer> {
    let added = |content: &str, flag: &str| {
        let mut token = json!({"id": 3000, "content": content, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": false});
        token[flag] = json!(true);
        token
    };
    let flags = ["special", "lstrip", "rstrip", "single_word", "normalized"];
    let mut all = vec![];
    for (model, content) in [("qwen2", "ab"), ("llama", "<|im"), ("qwen2", "é")] {
        for flag in flags {
            let mut json = golden_tokenizer(model);
            json["added_tokens"].as_array_mut().unwrap().push(added(content, flag));
            all.push(tokenizer(&json));
        }
    }
    all
}

/// Asserts that a text has the same tokens as from the tokenizers crate.
fn check(tokenizer: &Tokenizer, text: &str) {
    for special in [false, true] {
        let expected = tokenizer.inner.encode(text, special).unwrap();
        let found = tokenizer.encode(text, special).unwrap();
        assert_eq!(found.ids, expected.get_ids(), "{text:?}");
        let offsets: Vec<_> = found.offsets.iter().map(|(from, to)| (*from as usize, *to as usize)).collect();
        assert_eq!(offsets, expected.get_offsets(), "{text:?}");
    }
    assert_eq!(tokenizer.count(text).unwrap(), tokenizer.inner.encode(text, false).unwrap().len());
}

#[test]
fn goldens_have_the_tokens_of_the_crate() {
    for model in ["qwen2", "llama", "qwen3", "mistral", "yarn", "linear"] {
        let tokenizer = tokenizer(&golden_tokenizer(model));
        assert_eq!(tokenizer.byte_level.is_some(), ["qwen2", "llama"].contains(&model));
        for chain in chains(model) {
            check(&tokenizer, &format!("{}{}", chain.question, chain.steps.join("\n\n")));
        }
    }
}

#[test]
fn long_pieces_have_the_tokens_of_the_crate() {
    for model in ["qwen2", "llama"] {
        let tokenizer = tokenizer(&golden_tokenizer(model));
        for part in ["a", "thethe", "é", "7", " ", "\n", "=", "<|im_start|>", "\u{1f642}"] {
            check(&tokenizer, &part.repeat(10_000 / part.len()));
        }
    }
}

#[test]
fn scalars_among_others_have_the_tokens_of_the_crate() {
    let tokenizer = tokenizer(&golden_tokenizer("llama"));
    // Without most ideographs, Hangul and private-use characters, which behave alike, and the scripts among them.
    let ranges = ['\0'..='\u{33ff}', '\u{f900}'..='\u{ffff}', '\u{1d000}'..='\u{1ffff}', char::MAX..=char::MAX];
    let scalars: Vec<char> = ranges.into_iter().flatten().collect();
    for scalars in scalars.chunks(512) {
        check(&tokenizer, &scalars.iter().map(|scalar| format!("{scalar} {scalar}x'{scalar}1")).collect::<String>());
    }
}

fn nasty_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-zA-Z]{1,12}",
        3 => "[ \t\r\n]{1,5}",
        3 => "'(s|S|ſ|t|T|re|rE|VE|m|M|ll|lL|D|K|\u{212a}|x)[a-z]?",
        2 => "[0-9]{1,7}|[\u{660}-\u{669}²½Ⅷ]{1,4}",
        2 => "[!-/:-@\\[-`{-~]{1,4}",
        2 => "[\u{a0}\u{2028}\u{3000}\u{85}\u{b}\u{1c}\u{feff}\u{200b}]{1,3}",
        2 => "[à-ÿа-я所以か가]{1,4}",
        1 => "\\PC{1,3}",
        1 => any::<char>().prop_map(String::from),
        1 => prop::sample::select(vec!["<|im_start|>", "<|im_end|>", "<|im", "_end|>", "<|eot_id|>", "é", "e\u{301}"])
            .prop_map(str::to_string),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn nasty_texts_have_the_tokens_of_the_crate(text in nasty_text()) {
        thread_local!(static ALL: Vec<Tokenizer> =
            ["qwen2", "llama"].map(|model| tokenizer(&golden_tokenizer(model))).into_iter()
                .chain(with_added_tokens()).collect());
        ALL.with(|all| all.iter().for_each(|tokenizer| check(tokenizer, &text)));
    }
}

proptest! {
    #[test]
    fn a_chain_after_a_prompt_has_the_tokens_that_it_has_in_one_text(
        prompt in nasty_text(), steps in nasty_steps(), text in nasty_text(), special: bool,
    ) {
        thread_local!(static ALL: Vec<Tokenizer> =
            all().into_iter().map(|(tokenizer, _)| tokenizer).chain(with_added_tokens()).collect());
        ALL.with(|all| for tokenizer in all {
            for chain in [steps.join("\n\n"), [text.as_str(), &text].join("\n\n").repeat(4)] {
                let expected = tokenizer.encode(&format!("{prompt}{chain}"), special).unwrap();
                assert_eq!(tokenizer.encode_with_prompt(&prompt, &chain, special).unwrap(), expected);
            }
        });
    }
}

#[test]
fn an_id_that_no_vocabulary_reaches_is_one_error_that_names_its_field() {
    let folder = tempfile::tempdir().unwrap();
    let read = |json: &Value| {
        std::fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
        Tokenizer::load(folder.path()).map_err(|error| error.to_string())
    };
    for id in [json!(u32::MAX), json!(10_000_000_000_u64), json!(-1), json!(1_u64 << 24), json!(1e30)] {
        let mut vocabulary = golden_tokenizer("qwen2");
        vocabulary["model"]["vocab"]["zq"] = id.clone();
        let mut added = golden_tokenizer("llama");
        added["added_tokens"][0]["id"] = id.clone();
        let mut around = golden_tokenizer("llama");
        around["post_processor"] = json!({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [id], "tokens": ["<s>"]}}});
        let mut pair = golden_tokenizer("llama");
        pair["post_processor"] = json!({"type": "BertProcessing", "sep": ["</s>", id], "cls": ["<s>", 1]});
        for (json, field) in [
            (vocabulary, "model.vocab gives \"zq\""),
            (added, "added_tokens gives "),
            (around, "post_processor gives \"<s>\""),
            (pair, "post_processor gives \"</s>\""),
        ] {
            let error = read(&json).unwrap_err();
            let words = ["tokenizer.json: ", field, &format!(" the id {id}: expected a whole number below 16777216")];
            assert!(words.iter().all(|words| error.contains(words)), "{error}");
        }
    }
    let mut largest = golden_tokenizer("qwen2");
    largest["model"]["vocab"]["zq"] = json!((1 << 24) - 1);
    assert_eq!(read(&largest).unwrap().largest_id(), Some((1 << 24) - 1));
    // An id that only texts get counts too.
    let mut around = golden_tokenizer("llama");
    around["post_processor"] = json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [77_777], "tokens": ["<s>"]}}});
    assert_eq!(read(&around).unwrap().largest_id(), Some(77_777));
}
