//! The meaning of words in answers, in prose and in LaTeX commands.

use std::sync::LazyLock;

use crate::numbers::expression::Function;
use crate::read::token::{Bracket, Relation, Token};
use crate::read::units;

/// The marks of formulas.
pub(crate) const MARKS: [(&str, &str); 4] = [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")];

/// The lines of a file.
pub(crate) type List = LazyLock<Vec<&'static str>>;

/// The bytes of text examined before and after an answer.
pub(crate) const SEEN: usize = 400;

/// Returns the answer as words, if it has only words: `Evelyn` and `HT` are not products of their letters.
pub(crate) fn only_words(text: &str) -> Option<Token> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || "$*.{}".contains(c));
    let mut has_long = false;
    for word in text.split([' ', '-', '\'']) {
        if !word.bytes().all(|byte| byte.is_ascii_alphabetic()) || is_mathematics(word) {
            return None;
        }
        has_long |= word.len() >= 3;
    }
    let hyphened = text.split('-').all(|span| span.trim() == span && span.len() >= 3);
    let is_short = is_pair(text) || text.eq_ignore_ascii_case("no");
    let is_prose = is_short || has_long && (hyphened || !text.contains('-'));
    is_prose.then(|| in_text(text).unwrap_or_else(|| word(text)))
}

/// Whether a text is two capitals in an order, such as coin tosses. Consecutive letters such as `AB` are a segment or a
/// product.
fn is_pair(text: &str) -> bool {
    matches!(text.as_bytes(), [first @ b'A'..=b'Z', second @ b'A'..=b'Z'] if first.abs_diff(*second) != 1)
}

fn is_mathematics(word: &str) -> bool {
    Function::named(word).is_some() || ["pi", "log", "sqrt", "mod", "inf", "infty", "cup"].contains(&word)
}

/// Returns the token of a run of letters outside of text, if it is not a product: a function, a unit, or a word of a
/// phrase.
pub(crate) fn known(run: &str, in_phrase: bool, counts: bool) -> Option<Token> {
    if let Some(function) = Function::named(run) {
        return Some(Token::Function(function));
    }
    Some(match run {
        "log" => Token::Log,
        "sqrt" => Token::Root(2),
        "pi" => Token::Pi,
        "inf" | "infty" | "infinity" | "Infinity" => Token::Infinity,
        "and" => Token::And,
        "or" => Token::Or,
        "mod" => Token::Modulo,
        "percent" => Token::Percent,
        "degrees" | "degree" => Token::Degree,
        "cm" | "mm" | "km" | "kg" | "mph" => Token::Word(run.to_string()),
        _ if counts && run.len() >= 2 && units::is_known_outside(run, in_phrase) => Token::Word(run.to_string()),
        _ if in_phrase && run.len() >= 3 && run.bytes().all(|byte| byte.is_ascii_lowercase()) => {
            Token::Word(run.to_string())
        }
        _ => return None,
    })
}

/// Writes percent in words at the end of an answer as "percent", and currencies before the amount as their signs.
pub(crate) fn with_signs(text: String) -> String {
    const NAMES: &str = include_str!("words/percent.txt");
    const CURRENCIES: &str = "US\\$:\\$|USD :\\$|R\\$:₢|Rs. :₹|Rs :₹|EUR :€|GBP :£";
    let currency =
        |of: &str| of.split_once(':').and_then(|(name, sign)| Some(sign.to_string() + text.strip_prefix(name)?));
    let text = CURRENCIES.split('|').find_map(currency).unwrap_or(text);
    let end = text.trim_end_matches(|c: char| c.is_whitespace() || "}$.".contains(c)).len();
    if text[..end].ends_with(|c: char| c.is_ascii_digit()) && text.is_ascii() {
        return text;
    }
    let lower = text[..end].to_ascii_lowercase();
    let named = |name: &&str| lower.strip_suffix(*name).is_some_and(|rest| !rest.ends_with(char::is_alphabetic));
    match (text.strip_prefix("百分之"), NAMES.lines().find(named)) {
        (Some(amount), _) => format!("{amount} percent"),
        (_, Some(name)) => format!("{}percent{}", &text[..end - name.len()], &text[end..]),
        _ => text,
    }
}

/// Whether a text says one of these phrases, each a line. Those in ASCII are whole words. `^` is the beginning of the text,
/// and `$` its end.
pub(crate) fn says(text: &str, phrases: &str) -> bool {
    let lower = text.to_lowercase().replace("n't", " not").replace("n’t", " not");
    let words = lower.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let plain = format!(" ^ {} $ ", words.collect::<Vec<_>>().join(" "));
    let is_whole = |at: usize, phrase: &str| plain[..at].ends_with(' ') && plain[at + phrase.len()..].starts_with(' ');
    let says = |phrase: &str| plain.match_indices(phrase).any(|(at, _)| !phrase.is_ascii() || is_whole(at, phrase));
    !text.is_empty() && phrases.lines().any(|phrase| plain.contains(phrase) && says(phrase))
}

/// Whether the last clause of a text says one of these phrases.
pub(crate) fn ends_with_clause(text: &str, phrases: &str) -> bool {
    const LINKS: [&str; 8] = [" so ", " and ", " but ", " then ", " thus ", " hence ", " therefore ", "所以"];
    let near = &text[text.ceil_char_boundary(text.len().saturating_sub(SEEN))..];
    let clause = near.rsplit(['\n', '.', '!', '?', ',', ';', '。', '，', '；', '故']).next().unwrap_or(near);
    says(LINKS.iter().fold(clause, |clause, link| clause.rsplit(link).next().unwrap_or(clause)), phrases)
}

/// Whether the words after a choice deny it.
pub(crate) fn deny(words: &str) -> bool {
    says(words, include_str!("words/not.txt"))
}

/// Returns the half of the day at the start of a text after a time, such as `p.m.` or `PM`, and its length.
pub(crate) fn half_of_day(text: &str) -> Option<(Token, usize)> {
    let spelled = ["a.m.", "p.m.", "a.m", "p.m", "am", "pm"].iter().find(|half| {
        text.get(..half.len()).is_some_and(|start| start.eq_ignore_ascii_case(half))
            && !text[half.len()..].starts_with(|c: char| c.is_alphanumeric())
    })?;
    Some((Token::Word(spelled.replace('.', "")), spelled.len()))
}

/// Returns the content of the braces that a text begins with. With `escapes`, `\{` and `\}` are no braces.
pub(crate) fn group(text: &str, escapes: bool) -> Option<&str> {
    let (mut depth, mut is_escaped) = (0_usize, false);
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = escapes,
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(&text[1..place]),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the content of nested commands for text, with single characters as signs.
pub(crate) fn innermost(content: &str) -> String {
    let mut content = content.trim();
    for _ in 0..4 {
        let inner = ["\\textbf{", "\\text{", "\\mathrm{", "\\textit{"].iter().find_map(|opening| {
            let inner = content.strip_prefix(opening)?.strip_suffix('}')?;
            (!inner.contains(['{', '}'])).then(|| inner.trim())
        });
        content = inner.unwrap_or(content);
    }
    content.replace("\\$", "＄").replace("\\%", "%").replace("^\\circ", "°")
}

pub(crate) fn environment(name: &str) -> Option<Bracket> {
    match name {
        "matrix" | "pmatrix" | "bmatrix" | "Bmatrix" | "smallmatrix" | "array" => Some(Bracket::Matrix),
        "vmatrix" => Some(Bracket::Determinant),
        _ => None,
    }
}

pub(crate) fn in_text(content: &str) -> Option<Token> {
    if let Some(function) = Function::named(content) {
        return Some(Token::Function(function));
    }
    let lower = content.trim_end_matches('.').trim_start_matches("\\ ").to_ascii_lowercase();
    Some(match lower.as_str() {
        "such that" => Token::SuchThat,
        "and" | "且" | "и" | "und" | "et" | "かつ" => Token::And,
        "or" | "或" | "或者" | "или" | "oder" | "ou" | "または" => Token::Or,
        "infinity" => Token::Infinity,
        "percent" => Token::Percent,
        "degrees" | "degree" => Token::Degree,
        "mod" => Token::Modulo,
        "log" => Token::Log,
        _ => return choice(content),
    })
}

fn choice(content: &str) -> Option<Token> {
    let named = ["Option ", "option ", "Choice ", "choice "].iter().find_map(|name| content.strip_prefix(name));
    let inner = named.unwrap_or(content).trim().trim_end_matches(['.', ':']);
    let bracketed = inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    let letter = bracketed.unwrap_or(inner);
    if letter.len() != 1 || !letter.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    Some(match letter {
        _ if bracketed.is_some() && letter.bytes().all(|byte| byte.is_ascii_uppercase()) => {
            Token::Choice(letter.to_string())
        }
        "e" => Token::E,
        "i" => Token::I,
        _ => Token::Letter(letter.to_string()),
    })
}

pub(crate) fn word(content: &str) -> Token {
    let spaced =
        content.replace("\\AA", "Å").replace("\\ ", " ").replace("\\,", " ").replace(['~', '$', '{', '}'], " ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    Token::Word(words.join(" ").trim_end_matches(['.', ',', ':']).to_string())
}

/// Returns the token of a command, `Some(None)` for markup. None if the command is unknown.
pub(crate) fn command(name: &str) -> Option<Option<Token>> {
    static MARKUP: List = List::new(|| include_str!("words/markup.txt").lines().collect());
    if let Some(function) = Function::named(name) {
        return Some(Some(Token::Function(function)));
    }
    Some(Some(match name {
        "pi" => Token::Pi,
        "infty" => Token::Infinity,
        "pm" => Token::PlusMinus,
        "mp" => Token::MinusPlus,
        "times" | "cdot" | "ast" | "cdotp" => Token::Times,
        "div" => Token::Slash,
        "le" | "leq" | "leqslant" | "leqq" => Token::Relation(Relation::LessOrEqual),
        "ge" | "geq" | "geqslant" | "geqq" => Token::Relation(Relation::GreaterOrEqual),
        "lt" => Token::Relation(Relation::Less),
        "gt" => Token::Relation(Relation::Greater),
        "ne" | "neq" => Token::Relation(Relation::NotEqual),
        "approx" => Token::Relation(Relation::Approximately),
        "equiv" => Token::Relation(Relation::Congruent),
        "in" => Token::Relation(Relation::In),
        "cup" => Token::Union,
        "setminus" | "backslash" => Token::Without,
        "emptyset" | "varnothing" => Token::EmptySet,
        "circ" | "degree" => Token::Degree,
        "lfloor" => Token::Open(Bracket::Floor),
        "rfloor" => Token::Close(Bracket::Floor),
        "lceil" => Token::Open(Bracket::Ceiling),
        "rceil" => Token::Close(Bracket::Ceiling),
        "lvert" => Token::Open(Bracket::Bars),
        "rvert" => Token::Close(Bracket::Bars),
        "vert" => Token::Bar,
        "mid" => Token::SuchThat,
        "langle" => Token::Open(Bracket::Angle),
        "rangle" => Token::Close(Bracket::Angle),
        "lbrace" => Token::Open(Bracket::Curly),
        "rbrace" => Token::Close(Bracket::Curly),
        "lbrack" => Token::Open(Bracket::Square),
        "rbrack" => Token::Close(Bracket::Square),
        "choose" => Token::Choose,
        "over" => Token::Over,
        "mod" | "pmod" | "bmod" => Token::Modulo,
        "land" | "wedge" => Token::And,
        "lor" | "vee" => Token::Or,
        "log" => Token::Log,
        "colon" => Token::Colon,
        "AA" => Token::Word("Å".to_string()),
        "pounds" => Token::Word("£".to_string()),
        "euro" | "texteuro" => Token::Word("€".to_string()),
        "angle" | "triangle" | "measuredangle" => Token::Word(name.to_string()),
        _ if is_letter(name) => Token::Letter(format!("\\{}", name.strip_prefix("var").unwrap_or(name))),
        _ if MARKUP.contains(&name) => return Some(None),
        _ => return None,
    }))
}

/// Whether a bold letter here is a vector. A bold letter that is the whole answer is a plain letter.
pub(crate) fn is_vector(text: &str, before: &[Token]) -> bool {
    matches!(text.as_bytes(), [b'{', b'a'..=b'z', b'}', rest @ ..] if !rest.is_empty() || !before.is_empty())
}

fn is_letter(name: &str) -> bool {
    static GREEK: List = List::new(|| include_str!("words/greek.txt").lines().collect());
    GREEK.contains(&name)
}
