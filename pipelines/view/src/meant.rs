//! What a text means that is no condition, but nearly one.

use asap_udfs::typo;
use datafusion::common::DFSchema;

use super::expression::{OTHER_TOKENS, has, is, is_like_sql, is_open, parsed};
use super::rewrite::{Columns, is_condition, of_words, rewritten};
use crate::output::quoted;

/// Words of a search; what follows the others is searched as it is.
const WORDS: usize = 16;
/// Operators of other languages, and heads of the list of chains, with what SQL and the columns call them.
const WRITTEN: [(&str, &str); 11] = [
    ("=<", "<="),
    ("=>", ">="),
    ("≤", "<="),
    ("≥", ">="),
    ("≠", "<>"),
    (" && ", " AND "),
    ("tokens before", "original_tokens"),
    ("tokens after", "pruned_tokens"),
    ("other output", OTHER_TOKENS),
    ("other.pruned_tokens", OTHER_TOKENS),
    ("other_pruned_tokens", OTHER_TOKENS),
];

/// The text with the quotes that SQL has, if it has only others.
pub(crate) fn straight(text: &str) -> String {
    match text.contains(['\'', '"']) {
        true => text.to_string(),
        false => text.replace(['‘', '’', '‚'], "'").replace(['“', '”', '„'], "\""),
    }
}

/// The condition that a text means, if it is one.
pub(crate) fn condition(typed: &str, schema: &DFSchema) -> Option<String> {
    let written = written(typed);
    let text = part_of_query(&written).unwrap_or(&written);
    let rewritten = || parsed(text).ok().and_then(|parsed| rewritten(parsed, schema));
    let of_words = || parsed(text).ok().filter(|_| text.contains('(')).and_then(|parsed| of_words(&parsed, schema));
    let of_text = || [by_parts(text, schema), without(text), pattern(text), of_words()].into_iter().flatten();
    let as_it_is = (text != typed).then(|| text.to_string()).filter(|text| is_condition(text, schema));
    as_it_is.or_else(rewritten).into_iter().chain(of_text()).find(|meant| is_condition(meant, schema))
}

/// The text with what SQL writes otherwise, outside of quotes.
fn written(text: &str) -> String {
    let plain = |part: &str| WRITTEN.iter().fold(part.to_string(), |part, (from, to)| part.replace(from, to));
    let parts = text.split('\'').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { plain(part) } else { part.to_string() }).collect::<Vec<_>>().join("'")
}

/// The search that a text means: with a quote that is closed, alternatives joined by `OR`, and words without the signs that
/// other searches have around them.
pub(crate) fn search(text: &str) -> Option<String> {
    if is_like_sql(text) {
        return None;
    }
    if is_open(text) {
        return Some(format!("{}\"", text.trim_end()));
    }
    let joined = text.replace(" or ", " OR ");
    let meant = if text.contains(['"', '\'']) { joined } else { joined.replace("||", "|").replace('|', " OR ") };
    let is_sign = |sign: char| match sign {
        ',' | ';' | '*' => true,
        '(' | ')' => !meant.contains(" OR "),
        _ => false,
    };
    let bare = |word: &str| match meant.contains('"') || word.contains('(') && !word.starts_with('(') {
        true => word.to_string(),
        false => word.trim_matches(is_sign).to_string(),
    };
    let of = |bare: &dyn Fn(&str) -> String, text: &str| {
        text.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let meant = of(&bare, &meant);
    (!meant.is_empty() && meant != of(&str::to_string, text)).then_some(meant)
}

/// What a search of words looks for: the alternatives between `OR`, each with the words and quoted texts that a row has
/// all of. `AND` between them says the same.
pub(crate) fn alternatives(text: &str) -> Vec<Vec<String>> {
    let (mut found, mut all, mut rest) = (Vec::new(), Vec::new(), text.trim());
    for left in (0..WORDS).rev() {
        let (word, after) = if left == 0 { (rest, "") } else { first_word(rest) };
        match word {
            "OR" => found.push(std::mem::take(&mut all)),
            "" | "AND" => {}
            word => all.push(word.to_lowercase()),
        }
        rest = after.trim_start();
    }
    found.push(all);
    found.retain(|all| !all.is_empty());
    // No operator without words around it.
    if found.is_empty() { vec![vec![text.trim().to_lowercase()]] } else { found }
}

/// The first word of a text, or its first text in quotes, and what follows.
fn first_word(text: &str) -> (&str, &str) {
    let quotes = [('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’'), ('„', '“')];
    let quoted = quotes.iter().find_map(|(open, close)| text.strip_prefix(*open)?.split_once(*close));
    let is_whole = |(quoted, rest): &(&str, &str)| {
        !quoted.trim().is_empty() && (rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    quoted.filter(is_whole).or_else(|| text.split_once(char::is_whitespace)).unwrap_or((text, ""))
}

/// The condition, with what each part between AND and OR means in the place of a part that is no condition.
fn by_parts(text: &str, schema: &DFSchema) -> Option<String> {
    let (mut meant, mut column, mut is_equal) = (String::new(), None, false);
    for (joint, part) in parts(text) {
        let others = || {
            let continued = column.map(|column| format!("{column} {part}"));
            let same = column.filter(|_| is_equal && joint == " OR ");
            let same = same.map(|column| format!("{column} = {}", quoted(part.trim_matches(['\'', '"']))));
            let of_words = (is_like_sql(text) && !is_like_sql(part)).then(|| words(part));
            let rewritten = parsed(part).ok().and_then(|parsed| rewritten(parsed, schema));
            let of_signs = [listed(part), null(part), percents(part), with_quotes(part), labelled(part, schema)];
            let first = [operator(part), continued, share(part)].into_iter();
            first.chain(of_signs).chain([same, rewritten, of_words]).flatten()
        };
        let own = std::iter::once(part.to_string()).chain(others()).find(|part| is_condition(part, schema))?;
        let name = part.split([' ', '<', '>', '=', '!', '~']).next().filter(|name| is_column(name, schema));
        (column, is_equal) = (name.or(column), is_equal && name.is_none() || part.contains('='));
        meant.push_str(&format!("{joint}{own}"));
    }
    Some(meant)
}

/// A list without its parentheses: `source['row'] in 1, 2`.
fn listed(text: &str) -> Option<String> {
    let at = text.to_ascii_lowercase().find(" in ")?;
    let (column, items) = (&text[..at], text[at + " in ".len()..].trim_matches(['[', ']', '(', ')']));
    let item = |item: &str| match item.parse::<f64>() {
        Ok(_) => item.to_string(),
        Err(_) => quoted(item.trim_matches(['\'', '"'])),
    };
    let items: Vec<_> = items.split(',').map(|text| item(text.trim())).collect();
    Some(format!("{column} IN ({})", items.join(", ")))
}

/// `IS NULL` with a typo.
fn null(text: &str) -> Option<String> {
    let (before, last) = text.trim_end().rsplit_once(' ')?;
    let is_after = [" is", " is not"].iter().any(|end| before.to_ascii_lowercase().ends_with(end));
    let near = is_after.then(|| typo::nearest(&last.to_ascii_uppercase(), ["NULL"]))?;
    near.map(|null| format!("{before} {null}"))
}

/// Percents as numbers: `pruned_tokens > original_tokens * 30%`, `pruned_tokens > 30% of original_tokens`.
fn percents(text: &str) -> Option<String> {
    let (spaced, mut is_changed) = (text.replace(" %", "%").replace("% of ", "% * "), false);
    let number = |word: &str| match word.strip_suffix('%').and_then(|number| number.parse::<f64>().ok()) {
        Some(number) => {
            is_changed = true;
            (number / 100.0).to_string()
        }
        None => word.to_string(),
    };
    let meant = spaced.split_whitespace().map(number).collect::<Vec<_>>().join(" ");
    is_changed.then_some(meant)
}

/// A comparison as other searches write it: `question:pottery`, `pruned_tokens:>100`.
fn labelled(text: &str, schema: &DFSchema) -> Option<String> {
    let (column, value) = text.split_once(':')?;
    let value = value.trim().trim_matches(['\'', '"']);
    match value.starts_with(['<', '>', '=']) || Columns(schema).is_number(column) {
        true if value.starts_with(['<', '>', '=']) => Some(format!("{column} {value}")),
        true => Some(format!("{column} = {value}")),
        false => Some(is(column, value)),
    }
}

fn is_column(name: &str, schema: &DFSchema) -> bool {
    schema.has_column_with_unqualified_name(name)
}

/// The parts of a text between AND and OR outside of quotes, each with the operator before it.
fn parts(text: &str) -> Vec<(&'static str, &str)> {
    let lower = text.to_ascii_lowercase();
    let (mut from, mut joint, mut found, mut quote) = (0, "", Vec::new(), None);
    for (at, sign) in text.char_indices() {
        match quote {
            Some(open) if open == sign => quote = None,
            None if ['\'', '"'].contains(&sign) => quote = Some(sign),
            None if at >= from => {
                let is_range = lower[from..at].contains(" between ") && !lower[from..at].contains(" and ");
                let joints = [(" and ", " AND "), (" or ", " OR ")];
                let next = joints.into_iter().find(|(word, _)| lower[at..].starts_with(word));
                if let Some((word, next)) = next.filter(|(word, _)| *word != " and " || !is_range) {
                    found.push((joint, text[from..at].trim()));
                    (from, joint) = (at + word.len(), next);
                }
            }
            _ => {}
        }
    }
    found.push((joint, text[from..].trim()));
    found
}

/// A comparison with an operator of another engine: `question REGEXP 'a|b'`, `question contains parcel`.
fn operator(text: &str) -> Option<String> {
    let (column, rest) = text.split_once(' ')?;
    let (first, after) = rest.trim_start().split_once(' ')?;
    let is_not = first.eq_ignore_ascii_case("not");
    let (name, value) = if is_not { after.trim_start().split_once(' ')? } else { (first, after) };
    let value = value.trim().trim_matches(['\'', '"']);
    let not = if is_not { "NOT " } else { "" };
    match name.to_ascii_lowercase().as_str() {
        "regexp" | "rlike" | "match" | "matches" if is_not => Some(format!("{column} !~ {}", quoted(value))),
        "regexp" | "rlike" | "match" | "matches" => Some(format!("{column} ~ {}", quoted(value))),
        "glob" => Some(format!("{column} {not}LIKE {}", quoted(&value.replace('*', "%").replace('?', "_")))),
        "contains" | "has" | "includes" => {
            Some(format!("{not}contains(lower({column}), {})", quoted(&value.to_lowercase())))
        }
        _ => None,
    }
}

/// A regular expression between slashes.
fn pattern(text: &str) -> Option<String> {
    let pattern = quoted(text.strip_prefix('/')?.strip_suffix('/').filter(|pattern| !pattern.is_empty())?);
    Some(format!("question ~ {pattern} OR original_cot ~ {pattern}"))
}

/// The condition of a query.
fn part_of_query(text: &str) -> Option<&str> {
    let upper = text.to_ascii_uppercase();
    let begin = if upper.starts_with("SELECT ") { upper.find(" WHERE ")? + " WHERE ".len() } else { 0 };
    let ends = [" LIMIT ", " ORDER BY ", " GROUP BY "].into_iter().filter_map(|clause| upper[begin..].find(clause));
    let end = ends.min().map_or(text.len(), |end| begin + end);
    (begin > 0 || end < text.len()).then(|| text[begin..end].trim())
}

/// A condition on the share of tokens that is kept: `< 20 %`, `ratio > 0.5`.
fn share(text: &str) -> Option<String> {
    let (name, rest) = text.split_at(text.find(['<', '>', '='])?);
    let (operator, number) = rest.split_at(rest.find(|sign| !['<', '>', '='].contains(&sign))?);
    let percent = number.trim().strip_suffix('%');
    let number: f64 = percent.unwrap_or(number).trim().parse().ok()?;
    let share = if percent.is_some() || number > 1.0 { number / 100.0 } else { number };
    match name.trim() {
        "" if percent.is_none() => Some(format!("pruned_tokens {operator} {number}")),
        "pruned_tokens" | "tokens" if percent.is_none() => None,
        "" | "kept" | "ratio" | "share" | "pruned_tokens" | "tokens" => {
            Some(format!("pruned_tokens {operator} {share} * original_tokens"))
        }
        _ => None,
    }
}

/// A comparison with a text that has no quotes: `id = 12/A`, `question like %x%`, `like %x%`.
fn with_quotes(text: &str) -> Option<String> {
    let padded = format!(" {text}");
    let lower = padded.to_ascii_lowercase();
    let (operator, at) =
        [" ilike ", " like ", " ~ ", "="].into_iter().find_map(|each| Some((each, lower.find(each)?)))?;
    let (column, value) = (padded[..at].trim(), padded[at + operator.len()..].trim());
    let column = if column.is_empty() { "question" } else { column };
    let meant = || match operator {
        "=" => is(column, value.trim_start_matches('=').trim()),
        operator => format!("{column} {} {}", operator.trim().to_uppercase(), quoted(value)),
    };
    (!value.contains(['\'', '"'])).then(meant)
}

/// The condition that a question has the words of a search.
pub(crate) fn words(text: &str) -> String {
    let searched = search(text);
    let all = |words: &Vec<String>| words.iter().map(|word| has(word)).collect::<Vec<_>>().join(" AND ");
    alternatives(searched.as_deref().unwrap_or(text)).iter().map(all).collect::<Vec<_>>().join(" OR ")
}

/// A search for what words are not in: `NOT parcel`, `ticket -parcel`.
fn without(text: &str) -> Option<String> {
    if let Some(words) = text.strip_prefix("NOT ") {
        return Some(format!("NOT {}", has(words.trim())));
    }
    let excluded = |word: &str| word.strip_prefix('-').is_some_and(|word| word.starts_with(char::is_alphabetic));
    let is_plain = |word: &str| word.chars().all(|sign| sign.is_alphanumeric() || sign == '-');
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_meant = words.iter().all(|word| is_plain(word)) && words.iter().any(|word| excluded(word));
    let each = words.iter().map(|word| if excluded(word) { format!("NOT {}", has(&word[1..])) } else { has(word) });
    is_meant.then(|| each.collect::<Vec<_>>().join(" AND "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_from_operators_and_quoted_texts() {
        let of = |text| alternatives(text).iter().map(|all| all.join("|")).collect::<Vec<_>>().join(" or ");
        assert_eq!(of(" Prime AND \"two  Steps\" 'it is' it's"), "prime|two  steps|it is|it's");
        assert_eq!(of("a b OR \"c"), "a|b or \"c");
        assert_eq!((of("OR"), of("and")), ("or".to_string(), "and".to_string()));
        let many = "w ".repeat(WORDS) + "x y";
        assert!(of(&many).ends_with("w|w x y"), "{}", of(&many));
    }

    #[test]
    fn searches_of_other_engines_have_their_words() {
        let meant = [
            ("pott*", "pott"),
            ("pottery, cups", "pottery cups"),
            ("pottery|tractor", "pottery OR tractor"),
            ("one or two", "one OR two"),
            ("(pottery cups)", "pottery cups"),
            ("\"three or more", "\"three or more\""),
        ];
        for (text, expected) in meant {
            assert_eq!(search(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["two  steps", "it's 5\" wide", "f(x)", "a OR b", "\"a, b\"", "(a OR b)"] {
            assert_eq!(search(text), None, "{text}");
        }
        assert_eq!(
            words("pottery OR cups"),
            "contains(lower(question), 'pottery') OR contains(lower(question), 'cups')"
        );
    }
}
