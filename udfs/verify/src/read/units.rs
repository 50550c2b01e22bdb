//! Units after numbers.

use std::collections::HashMap;
use std::sync::LazyLock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub name: String,
    /// Whether the unit may be left out: it is a known unit or a plural of things.
    pub optional: bool,
    /// Whether it is a word of another script, which may be left out if the expected answer has no unit.
    pub is_foreign: bool,
}

/// Words of other scripts that change a number or doubt it: `5 万`, `5 или`. These are parts of words.
const CHANGING: &str = include_str!("words/changing.txt");
/// Units with such parts.
const NOT_CHANGING: &str = include_str!("words/not_changing.txt");
/// Powers of ten and dozens: those in English with their values, and those of other scripts as beginnings of words.
const MULTIPLIERS: &str = include_str!("words/multipliers.txt");
static MULTIPLES: LazyLock<HashMap<&str, Option<i64>>> = LazyLock::new(|| {
    let value = |of: &'static str| of.split_once(' ').map_or((of, None), |(name, value)| (name, value.parse().ok()));
    MULTIPLIERS.lines().map(value).collect()
});
/// The same as whole words.
const CHANGING_WHOLE: &str = include_str!("words/changing_whole.txt");

/// Whether a character is a currency sign (Unicode category Sc).
pub(crate) fn is_currency(c: char) -> bool {
    matches!(c, '¢'..='¥' | '֏' | '؋' | '߾' | '߿' | '৲' | '৳' | '৻' | '૱' | '௹' | '฿' | '៛' | '₠'..='\u{20cf}'
        | '\u{a838}' | '\u{fdfc}' | '\u{11fdd}'..='\u{11fe0}' | '\u{1e2ff}' | '\u{1ecb0}')
}

/// Whether a character is of a script other than Latin and Greek.
pub(crate) fn is_foreign(c: char) -> bool {
    c >= '\u{400}' && !matches!(c, '\u{1e00}'..='\u{2bff}' | '\u{ff00}'..='\u{ff65}') && !is_currency(c)
}

/// Returns the word of another script that a text begins with, and its length with brackets: `个` or `(个)`.
pub(crate) fn foreign_word(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix('(').unwrap_or(text);
    let word = inner.split(|c| !is_foreign(c)).next().filter(|word| !word.is_empty())?;
    let brackets = 2 * (text.len() - inner.len());
    (brackets == 0 || inner[word.len()..].starts_with(')')).then_some((word, word.len() + brackets))
}

/// Whether a character may be part of an amount.
pub(crate) fn is_amount(c: char) -> bool {
    c.is_ascii_digit() || c.is_whitespace() || "+-*/=.,:()%<>|!~°＄".contains(c) || is_currency(c)
}

fn foreign(word: &str) -> Option<Unit> {
    if word.is_empty() || !word.chars().all(is_foreign) {
        return None;
    }
    let parts = NOT_CHANGING.lines().fold(word.to_string(), |parts, unit| parts.replace(unit, ""));
    let changes = CHANGING.lines().chain(MULTIPLIERS.lines()).any(|part| parts.contains(part))
        || CHANGING_WHOLE.lines().any(|whole| word.to_lowercase() == whole);
    Some(Unit { name: word.to_string(), optional: false, is_foreign: !changes })
}

/// The names of each unit, its own first. Those of one or two letters are case-sensitive: MW is not mW.
const UNITS: &str = include_str!("words/units.txt");
/// Words after a number that may change it.
const OTHERS: &str = include_str!("words/no_units.txt");

const PLURALS: &str = "people men women children teeth geese mice fish sheep deer dice";
const NO_THINGS: &str = "halves thirds pairs couples scores tens gross folds percents odds sqrt factorials";
const ORDINALS: &str = include_str!("words/ordinals.txt");

const MAX_WORDS: usize = 6;
const SQUARED: [&str; 3] = ["square", "sq", "squared"];

/// Units that may also be products of letters. Outside of text they are units only after a blank; `nm` never is.
const PRODUCTS: [&str; 7] = ["eV", "keV", "MeV", "GeV", "atm", "kcal", "cal"];
const NANOMETER: &str = "nm";
/// Kelvin or thousands, so it may not be left out.
const THOUSANDS: &str = "K";

pub(crate) fn is_known(word: &str) -> bool {
    known(word).is_some()
}

/// Whether these letters are a unit outside of text. `spaced` is set after a blank.
pub(crate) fn is_known_outside(word: &str, spaced: bool) -> bool {
    is_known(word) && word != NANOMETER && (spaced || !PRODUCTS.contains(&word))
}

/// Whether words outside of text include a unit, counted things or a multiplier, and are not a sequence of names.
pub(crate) fn is_phrase(words: &str) -> bool {
    words.split_whitespace().any(|word| is_known_outside(word, true) || is_counted(word) || multiplier(word).is_some())
}

/// Returns what an English word after a number multiplies it by.
pub(crate) fn multiplier(word: &str) -> Option<i64> {
    let lower = word.to_ascii_lowercase();
    MULTIPLES.get(lower.strip_suffix('s').unwrap_or(&lower)).copied().flatten()
}

/// Whether a word after a number multiplies it, in any language.
pub(crate) fn multiplies(word: &str) -> bool {
    let begins = |of: &str| word.starts_with(of);
    let is_foreign = word.starts_with(is_foreign) && !NOT_CHANGING.lines().any(begins);
    !word.is_empty() && (MULTIPLES.contains_key(word.to_lowercase().as_str()) || multiplier(word).is_some())
        || is_foreign && MULTIPLIERS.lines().any(begins)
}

/// Returns the unit that words after a number name. None if they may change the number.
pub(crate) fn canonical(words: &str) -> Option<Unit> {
    let plain = words.replace('.', "").replace(" per ", "/").replace("^ ", "^").replace(['{', '}'], "");
    let is_unit = |c: char| c.is_alphanumeric() || c.is_whitespace() || "/^-".contains(c) || is_currency(c);
    if let Some(sign) = plain.chars().next().filter(|sign| is_currency(*sign) && plain.len() == sign.len_utf8()) {
        let name = known(&plain).map_or(sign.to_string(), str::to_string);
        return Some(Unit { name, optional: true, is_foreign: false });
    }
    if let Some(unit) = foreign(&plain) {
        return Some(unit);
    }
    if plain.split_whitespace().count() > MAX_WORDS || !plain.chars().all(is_unit) {
        return None;
    }
    let (mut parts, mut power, mut optional, mut is_part) = (Vec::new(), "", false, false);
    for word in plain.split_whitespace() {
        let lower = word.to_lowercase();
        match lower.as_str() {
            lower if OTHERS.split_whitespace().any(|other| other == lower) => return None,
            lower if multiplies(lower) => return None,
            lower if SQUARED.contains(&lower) => power = "^2",
            "cubic" | "cu" => power = "^3",
            "degree" | "degrees" => {}
            lower if lower.chars().any(|c| c.is_ascii_digit()) && !lower.contains('^') => return None,
            _ => {
                let sides = word.split('/').map(|side| {
                    let (base, raised) = side.split_at(side.find('^').unwrap_or(side.len()));
                    optional |= (known(base).is_some() && base != THOUSANDS) || is_counted(base);
                    is_part |= known(base).is_none() && (base.len() <= 2 || is_share(base));
                    short(base) + raised
                });
                let sides = sides.collect::<Vec<_>>().join("/");
                optional |= known(word).is_some() && word != THOUSANDS;
                parts.push(known(word).map_or(sides, str::to_string) + power);
                power = "";
            }
        }
    }
    let name = parts.join(" ");
    // In `cm square` the power has no unit after it.
    (!name.is_empty() && power.is_empty()).then_some(Unit { name, optional: optional && !is_part, is_foreign: false })
}

fn known(word: &str) -> Option<&'static str> {
    static OWN: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let names = UNITS.lines().flat_map(|names| names.split(' ').map(move |name| (name, names)));
        names.map(|(name, names)| (name, names.split(' ').next().unwrap_or(name))).collect()
    });
    let of = |word: &str| OWN.get(word).copied();
    let long = || {
        let lower = word.to_lowercase();
        (word.len() >= 3).then(|| of(&lower).or_else(|| of(singular(&lower)))).flatten()
    };
    of(word).or_else(long)
}

/// Whether a word is the plural of things, judging by its ending.
fn is_counted(word: &str) -> bool {
    let lower = word.to_lowercase();
    let lists = |words: &str| words.split_whitespace().any(|other| other == lower);
    let is_plural = lower.len() >= 4
        && singular(&lower) != lower
        && !lower.ends_with("us")
        && !lower.ends_with("is")
        && lower.bytes().all(|byte| byte.is_ascii_alphabetic());
    lists(PLURALS) || (is_plural && !is_share(word) && !lists(OTHERS))
}

fn is_share(word: &str) -> bool {
    let lower = word.to_lowercase();
    ORDINALS.lines().any(|end| singular(&lower).ends_with(end))
        || NO_THINGS.split_whitespace().any(|other| other == lower)
}

fn short(word: &str) -> String {
    match known(word) {
        Some(name) => name.to_string(),
        // Up to three letters may be an abbreviation, which is case-sensitive.
        None if word.len() <= 3 => word.to_string(),
        None => singular(&word.to_lowercase()).to_string(),
    }
}

fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(singular) if singular.len() >= 3 && !singular.ends_with('s') => singular,
        _ => word,
    }
}
