//! The wordings of the traces.

pub(crate) mod openers;
pub(crate) mod phrases;

pub(crate) fn fill(template: &str, texts: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let known = after.split_once('}').and_then(|(key, after)| {
            let text = texts.iter().find(|(name, _)| *name == key)?.1;
            Some((text, after))
        });
        match known {
            Some((text, after)) => {
                filled.push_str(text);
                rest = after;
            }
            // A brace of the text itself, as in \boxed{…}.
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_template_is_repeated() {
        let pools: [&[&str]; 25] = [
            &phrases::ASIDES,
            &phrases::LINKS,
            &phrases::OPENINGS,
            &phrases::MUSE,
            &phrases::DOUBT,
            &phrases::APPROVE,
            &phrases::DROP,
            &phrases::PLAN,
            &phrases::RESTATE,
            &phrases::DERIVE,
            &phrases::ADD,
            &phrases::SUBTRACT,
            &phrases::MULTIPLY,
            &phrases::DIVIDE,
            &phrases::CONCLUDE,
            &phrases::INLINE_CODE,
            &phrases::BLOCK_CODE,
            &phrases::BY_HAND,
            &phrases::PROGRAM,
            &phrases::TASK,
            &phrases::LIST,
            &phrases::RESPONSE,
            &phrases::RESPONSE_LINE,
            &phrases::RESPONSE_END,
            &phrases::RESPONSE_CODE,
        ];
        let mut texts = pools.concat();
        texts.push(phrases::TENS_PART);
        let count = texts.len();
        texts.sort_unstable();
        let before = texts.clone();
        texts.dedup();
        assert_eq!(texts.len(), count, "{:?}", before.windows(2).find(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn keys_are_filled_and_other_braces_stay() {
        let texts = [("name", "the sum"), ("value", "12")];
        assert_eq!(fill("{name} is \\boxed{{value}} {x}", &texts), "the sum is \\boxed{12} {x}");
    }
}
