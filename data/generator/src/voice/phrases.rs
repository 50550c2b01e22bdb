//! Templates that are shared by all labels. They begin in lower case and end without a full stop.
//!
//! `{name}`, `{value}`, `{unit}` and `{expr}` are a quantity, its value, the unit after a space, and its formula. `{a}`
//! and `{b}` are the names of the two operands. `{what}`, `{code}` and `{result}` are a stage of a program, its line
//! and its result for the example. `{answer}` is an answer.
//!
//! `phrases.txt` holds a template per line, below the name of its list in brackets. `⏎` is a line end of the template.

use std::sync::LazyLock;

macro_rules! lists {
    ($($name:ident),+ $(,)?) => {
        $(pub(crate) static $name: LazyLock<Vec<&'static str>> = LazyLock::new(|| templates(stringify!($name)));)+

        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

lists!(
    ASIDES,
    LINKS,
    OPENINGS,
    MUSE,
    DOUBT,
    APPROVE,
    DROP,
    PLAN,
    RESTATE,
    DERIVE,
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    CONCLUDE,
    INLINE_CODE,
    BLOCK_CODE,
    BY_HAND,
    PROGRAM,
    TASK,
    LIST,
    RESPONSE,
    RESPONSE_LINE,
    RESPONSE_END,
    RESPONSE_CODE,
);

pub(crate) const TENS_PART: &str = "the tens part of {name}";

pub(crate) const ONES_PART: &str = "the ones part of {name}";

const TEXT: &str = include_str!("phrases.txt");

fn heading(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.strip_suffix(']')
}

fn templates(name: &str) -> Vec<&'static str> {
    let after = TEXT.lines().skip_while(|line| heading(line) != Some(name)).skip(1);
    let lines = after.take_while(|line| heading(line).is_none());
    // Templates are lent for the whole program, so the few that are rewritten are leaked, once.
    lines.map(|line| if line.contains('⏎') { &*line.replace('⏎', "\n").leak() } else { line }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_templates() {
        assert_eq!(TEXT.lines().filter_map(heading).collect::<Vec<_>>(), NAMES);
        assert!(NAMES.iter().all(|name| templates(name).len() > 3));
        assert_eq!(RESPONSE_END[2], "**Final Answer**\n\n\\[\n\\boxed{{answer}}\n\\]");
    }

    #[test]
    fn no_template_is_repeated() {
        let mut texts: Vec<_> = TEXT.lines().collect();
        let count = texts.len();
        texts.sort_unstable();
        let before = texts.clone();
        texts.dedup();
        assert_eq!(texts.len(), count, "{:?}", before.windows(2).find(|pair| pair[0] == pair[1]));
    }
}
