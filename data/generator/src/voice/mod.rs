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
    fn keys_are_filled_and_other_braces_stay() {
        let texts = [("name", "the sum"), ("value", "12")];
        assert_eq!(fill("{name} is \\boxed{{value}} {x}", &texts), "the sum is \\boxed{12} {x}");
    }
}
