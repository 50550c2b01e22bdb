//! The words around a stated value: "exactly 84", "84, which is the total", "D, not B".

use std::sync::LazyLock;

use crate::equal;
use crate::find::alone::{self, is_value};
use crate::find::asked;
use crate::find::choices;
use crate::read::units;
use crate::read::words::{self, List, MARKS};

/// What may be between "answer" and its value.
const VERBS: &str = include_str!("../read/words/verbs.txt");
/// Words that may end a value without a comma.
const LINKS: &str = include_str!("../read/words/links.txt");
/// Words that begin a reason or another form of the value. Numbers may follow.
const EXPLAINING: &str =
    "because|since|as|which|of which|that is|i.e.|i.e|namely|meaning|being|a|an|obtained|computed|calculated";
/// Words after which the same value follows in another form.
const RESTATING: &str = "or|that is|i.e.|i.e|namely|in other words|which is|which equals|=";
/// What has an amount: "a total of 84".
const AMOUNTS: &str = "total sum profit cost price distance area volume length width height radius perimeter speed rate \
    time duration amount value score number integer age average mean median count remainder maximum \
    minimum prime";
/// Words of `doubts.txt` that are harmless after a value.
const HARMLESS: &str =
    "check previous given first one some was said test such question example option choice only claim";
/// Words that change or doubt any value before them.
const DOUBTING: &str = include_str!("../read/words/after_value.txt");
const CORRECTIONS: &str = include_str!("../read/words/corrections.txt");

/// Returns the length of a verb phrase after "answer", without adverbs: "should therefore be", "to this question is".
pub(crate) fn verb(text: &str) -> Option<usize> {
    const RELATING: [&str; 6] = ["to", "that", "we", "you", "for", "of"];
    let near = &text[..text.floor_char_boundary(60)];
    let first = near.split(' ').next().unwrap_or_default();
    if let Some(end) = near.find(" is ").filter(|_| RELATING.contains(&first)) {
        let is_plain = near[..end].bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b' ');
        return (is_plain && !words::says(&near[..end], "part\nnot\nif\nthink\nthought\nsaid\nwrong"))
            .then_some(end + " is ".len());
    }
    let (mut end, mut phrase, mut found) = (0, String::new(), None);
    for part in text.split_inclusive(' ').take(8) {
        let word = part.trim_end_matches([' ', ',']);
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            break;
        }
        end += part.len();
        if is_adverb(word) || phrase.is_empty() && word == "here" {
            continue;
        }
        phrase = format!("{phrase} {word}");
        match VERBS.lines().any(|verb| verb == phrase.trim_start()) {
            true => found = Some(end),
            false if !VERBS.lines().any(|verb| verb.starts_with(phrase.trim_start())) => break,
            false => {}
        }
    }
    found
}

fn is_adverb(word: &str) -> bool {
    include_str!("../read/words/adverbs.txt").lines().any(|adverb| adverb == word)
}

/// Removes what may introduce a value: adverbs, "I think it is", "equal to", "a total of".
pub(crate) fn without_lead(text: &str) -> &str {
    static LEADS: List = List::new(|| include_str!("../read/words/adverbs.txt").lines().collect());
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "*:：、，】「=".contains(c));
        let lead = LEADS.iter().find_map(|lead| {
            let start = rest.get(..lead.len()).filter(|start| start.eq_ignore_ascii_case(lead))?;
            let after = &rest[start.len()..];
            (!after.starts_with(|c: char| c.is_alphanumeric() || c == '.')).then_some(after)
        });
        match lead.or_else(|| after_amount(rest)).or_else(|| after_saying(rest)) {
            Some(after) => rest = after.trim_start_matches(','),
            None => return rest,
        }
    }
}

/// Returns what follows "a total of" or "the number".
fn after_amount(text: &str) -> Option<&str> {
    let mut words = text.splitn(3, ' ');
    let (article, noun, after) = (words.next()?, words.next()?, words.next()?);
    let is_amount = AMOUNTS.split_whitespace().any(|amount| amount == noun);
    let (is_of, after) = after.strip_prefix("of ").map_or((false, after), |after| (true, after));
    let is_number = after.starts_with(|c: char| {
        c.is_ascii_digit() || "$\\-−".contains(c) || units::is_currency(c) || c.is_ascii_lowercase()
    });
    // "The sum of 3 and 4" is another number.
    let is_article =
        ["a", "an"].contains(&article.to_lowercase().as_str()) || !is_of && article.eq_ignore_ascii_case("the");
    let is_list = [" and ", ", "].iter().any(|joint| {
        after.split_once(joint).is_some_and(|(_, next)| next.starts_with(|c: char| c.is_ascii_digit() || c == '$'))
    });
    (is_amount && is_number && is_article && !is_list).then_some(after)
}

/// Returns what follows "I would say it is".
fn after_saying(text: &str) -> Option<&str> {
    const SPEAKERS: [&str; 9] = ["i", "we", "i'd", "i’d", "it", "that", "this", "it's", "it’s"];
    const SAYING: &str = "would will should must have to be is go going am with for choose chose pick say think believe select \
        answer has get got find conclude that it it's";
    let mut words = text.split_inclusive(' ');
    let first = words.next()?;
    let has = |list: &str, word: &str| list.split_whitespace().any(|of| of == word.trim_end().to_lowercase());
    let length =
        first.len() + words.take_while(|word| word.ends_with(' ') && has(SAYING, word)).map(str::len).sum::<usize>();
    let speaks = SPEAKERS.contains(&first.trim_end().to_lowercase().as_str());
    (speaks && (length > first.len() || first.contains(['\'', '’']))).then(|| &text[length..])
}

/// Returns the value that a sentence begins with, if it is one and what follows changes nothing: "84, altogether". Other
/// sentences are whole.
pub(crate) fn value(sentence: &str) -> &str {
    let sentence = sentence.trim_end_matches(['✓', '✔', '✅', '☑', '\u{fe0f}', ' ']);
    if sentence.len() > alone::LONGEST {
        return sentence;
    }
    if let Some((denied, stated)) = sentence.strip_prefix("not ").and_then(|rest| rest.split_once(" but "))
        && is_contrast(stated, denied)
    {
        return stated;
    }
    let clauses = clauses(sentence);
    let is_remark = |clause: &Clause| clause.is_remark() && holds(clause.head);
    if clauses.is_empty() || !clauses.iter().any(is_remark) && holds(sentence) {
        return sentence;
    }
    let mut end = sentence.len();
    loop {
        let left = clauses.iter().map(|clause| clause.until(sentence, end));
        let harmless: Vec<Clause> =
            left.take_while(|clause| clause.head.len() < end).filter(Clause::is_harmless).collect();
        if let Some(found) = harmless.iter().find(|clause| holds(clause.head)) {
            return found.head;
        }
        // "84, altogether, because 7 * 12 = 84"
        match harmless.last() {
            Some(last) => end = last.head.trim_end_matches([' ', ',', ';', ':']).len(),
            None => return sentence,
        }
    }
}

/// Returns the places where a value may end, each with what follows.
fn clauses(sentence: &str) -> Vec<Clause<'_>> {
    const SIGNS: [&str; 10] = [", ", "; ", ": ", " (", " – ", " — ", " -- ", " - ", "—", ":"];
    let links = |rest: &str| LINKS.lines().any(|link| begins(rest, link).is_some());
    let borders = sentence.char_indices().filter_map(|(place, character)| {
        if !" ,;:—".contains(character) {
            return None;
        }
        let rest = &sentence[place..];
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).map(|sign| (sign.trim(), &rest[sign.len()..]));
        let linked = rest.strip_prefix(' ').filter(|rest| links(rest));
        let (sign, tail) = sign.or(linked.map(|tail| ("", tail)))?;
        Some(Clause { head: &sentence[..place], sign, tail: tail.trim() })
    });
    borders.take(12).collect()
}

/// Whether a text with or without the marks of a formula is a value.
pub(crate) fn holds(text: &str) -> bool {
    let inner = |(opening, closing): &(&str, &str)| text.trim().strip_prefix(opening)?.strip_suffix(closing);
    is_value(MARKS.iter().find_map(inner).unwrap_or(text)) || asked::value(text).is_some()
}

/// Returns what follows the words that a text begins with.
fn begins<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let after = text.strip_prefix(words)?;
    (!after.starts_with(char::is_alphanumeric)).then(|| after.trim_start_matches([',', ' ']))
}

/// What follows a value, and the sign between them.
struct Clause<'a> {
    head: &'a str,
    sign: &'a str,
    tail: &'a str,
}

impl<'a> Clause<'a> {
    /// Returns the part of the clause before a place of its sentence.
    fn until(&self, sentence: &'a str, end: usize) -> Self {
        let left = sentence.len() - end;
        let tail = self.tail.get(..self.tail.len().saturating_sub(left)).unwrap_or_default();
        Self { tail: tail.trim(), ..*self }
    }

    /// Returns the words that follow, without brackets. None if more follows the brackets.
    fn words(&self) -> Option<&str> {
        let inner = match self.sign {
            "(" => self.tail.strip_suffix(')').filter(|inner| !inner.contains(')'))?,
            _ => self.tail,
        };
        Some(inner.trim_end_matches(['.', '!']).trim())
    }

    /// Whether the whole may look like a value but is not one: `84 (jars)`, `B – 12`, `2.5, or 5/2`, `84, in cm`.
    fn is_remark(&self) -> bool {
        let Some(words) = self.words() else { return false };
        let is_bracketed = self.sign == "(" && words.len() > 1 && (units::is_phrase(words) || alone::is_prose(words));
        let is_text = ["–", "—"].contains(&self.sign) && choices::lone(self.head).is_some();
        is_bracketed || is_text || words.starts_with("in ") || words.starts_with("i.e") || self.restates() == Some(true)
    }

    /// Whether another form of the value follows, and is equal. None if no value follows.
    fn restates(&self) -> Option<bool> {
        let words = self.words()?;
        let other =
            RESTATING.split('|').find_map(|same| begins(words, same)).or(Some(words).filter(|_| self.sign == "("))?;
        let is_value =
            choices::lone(self.head).is_none() && (counts(other) && holds(other) || spelled(other).is_some());
        is_value.then(|| is_same(self.head, other, !words.starts_with("or")))
    }

    /// Whether what follows neither changes nor doubts the value.
    fn is_harmless(&self) -> bool {
        let Some(words) = self.words() else { return false };
        if let Some(denied) = denied(words) {
            let is_unit = counts(self.head) && !counts(denied) && units::is_phrase(denied);
            return is_unit && !self.head.ends_with(denied) || is_contrast(self.head, denied);
        }
        if let Some(is_equal) = self.restates() {
            return is_equal;
        }
        let says = |phrases: &str| words::says(words, phrases);
        if says(DOUBTING) || says(CORRECTIONS) {
            return false;
        }
        let explains = EXPLAINING.split('|').find(|opening| begins(words, opening).is_some());
        if let Some(letter) = choices::lone(self.head) {
            let is_phrase = self.sign != "," && !self.sign.is_empty() || words.contains(' ');
            return is_phrase && choices::is_settled(words, letter) && !says("or\nnot\nno\nwhen\nand");
        }
        if matches!(self.sign, "(" | ":") && (is_other_amount(self.head, words) || multiplies_to(self.head, words)) {
            return !doubts(words);
        }
        match explains {
            Some("because" | "since") => true,
            Some("as") => !doubts(words),
            Some(_) => !says("or\nnot\nno\nnever\nfails\nwhen\ngives\nmakes\nbecomes\nmust\nbut\nso"),
            // A word alone may be another item of a list.
            None => {
                let may_count = [":", "–", "—", "--"].contains(&self.sign);
                let is_plain = may_count
                    || !words.contains(|c: char| c.is_ascii_digit() || "$\\".contains(c))
                    || is_for_all(words);
                counts(self.head)
                    && words.starts_with(char::is_alphabetic)
                    && is_plain
                    && !doubts(words)
                    && !changes(words)
            }
        }
    }
}

/// "for all $x$"
fn is_for_all(words: &str) -> bool {
    let begins = ["for all ", "for every ", "for any "].iter().any(|all| words.starts_with(all));
    begins && words.len() < 32 && !words.contains(|c: char| matches!(c, '2'..='9') || "=<".contains(c))
}

fn doubts(words: &str) -> bool {
    static DOUBTS: LazyLock<String> = LazyLock::new(|| {
        let is_doubt = |doubt: &&str| !HARMLESS.split_whitespace().any(|word| word == *doubt);
        include_str!("../read/words/doubts.txt").lines().filter(is_doubt).collect::<Vec<_>>().join("\n")
    });
    let plain = ["when rounded", "for the", "for this", "for all", "for every", "for any", "for you"]
        .iter()
        .fold(words.to_lowercase(), |words, harmless| words.replace(harmless, ""));
    words::says(&plain, &DOUBTS)
}

/// Whether a word makes another number of the value before it.
fn changes(tail: &str) -> bool {
    let tail = tail.split("to the nearest").next().unwrap_or(tail);
    let mut words = tail.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    // "and we are done", "rounded to the nearest integer"
    let is_comment = ["and we", "and th", "and it ", "and so"].iter().any(|and| tail.starts_with(and));
    words.next_if(|word| is_comment && *word == "and");
    let is_each = words.peek().is_some_and(|word| *word == "each") && !tail.contains("each ");
    let changing = |word: &str| include_str!("../read/words/changing_value.txt").lines().any(|of| of == word);
    is_each || words.any(|word| changing(word) || units::multiplies(word) || spelled(word).is_some())
}

fn counts(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
}

/// "84 jars (7 boxes of 12)": another number of other things.
fn is_other_amount(head: &str, tail: &str) -> bool {
    let (Some((_, thing)), Some((number, things))) = (head.rsplit_once(' '), tail.split_once(' ')) else {
        return false;
    };
    let name = things.split(' ').next().unwrap_or_default();
    let are_words =
        [thing, name].iter().all(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic()));
    number.bytes().all(|byte| byte.is_ascii_digit()) && are_words && name.ends_with('s') && name != thing
}

/// Whether the numbers of a remark have the value as their product or sum: "84 (7 rows of 12)".
fn multiplies_to(head: &str, tail: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let (value, parts) = (numbers(head), numbers(tail));
    let product = parts.iter().try_fold(1_u64, |product, part| product.checked_mul(*part));
    let sum = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part));
    value.len() == 1
        && parts.len() > 1
        && tail.starts_with(char::is_alphanumeric)
        && [product, sum].contains(&value.first().copied())
}

/// Returns the value that a text denies: 85 of "and certainly not 85".
fn denied(text: &str) -> Option<&str> {
    let text = ["and ", "but "].iter().find_map(|and| text.strip_prefix(and)).unwrap_or(text);
    let text = ["certainly ", "definitely ", "clearly ", "surely "]
        .iter()
        .find_map(|sure| text.strip_prefix(sure))
        .unwrap_or(text);
    ["not", "rather than", "instead of"].iter().find_map(|not| begins(text, not))
}

/// Whether a value is denied that is another one than `head`, and like it: "84, not 85", "D, not B", "Rome, not Paris".
fn is_contrast(head: &str, denied: &str) -> bool {
    let kind = |text: &str| {
        let is_name = text.starts_with(|c: char| c.is_ascii_uppercase());
        (choices::lone(text).is_some(), text.contains(|c: char| c.is_ascii_digit()), is_name)
    };
    let (one, other) = (kind(head), kind(denied));
    let are_alike = one.0 == other.0 && one.1 == other.1 && (one.0 || one.1 || one.2 && other.2);
    let is_tuple = denied.trim_matches('$').starts_with('(');
    let is_one = !words::says(denied, "and\nbut") && (is_tuple || !denied.contains(", "));
    are_alike && is_one && denied.split(" or ").all(|denied| holds(denied) && !equal(head, denied))
}

/// Whether another form of a value is equal to it. With `by_unit`, amounts of different things count as equal.
fn is_same(head: &str, other: &str, by_unit: bool) -> bool {
    let named = |text: &str| {
        text.split_whitespace()
            .last()
            .map(str::to_string)
            .filter(|word| (word.len() > 2 || units::is_known(word)) && word.bytes().all(|b| b.is_ascii_alphabetic()))
    };
    let are_of_units = || by_unit && matches!((named(head), named(other)), (Some(one), Some(other)) if one != other);
    let other = spelled(other).map_or(other.to_string(), |number| number.to_string());
    equal(head, asked::value(&other).unwrap_or(&other)) || are_of_units()
}

/// Returns the number below 1,000 that is written in words.
fn spelled(text: &str) -> Option<u32> {
    const SMALL: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
        sixteen seventeen eighteen nineteen";
    const TENS: &str = "twenty thirty forty fifty sixty seventy eighty ninety";
    let mut number = None;
    for word in text.split([' ', '-']).filter(|word| *word != "and") {
        let of = |words: &str| {
            words.split_whitespace().position(|of| of == word).and_then(|place| u32::try_from(place).ok())
        };
        number = Some(match (of(SMALL), of(TENS), number) {
            (Some(small), ..) => number.unwrap_or(0) + small,
            (_, Some(tens), _) => number.unwrap_or(0) + 10 * (tens + 2),
            (.., Some(of)) => of.checked_mul(u32::try_from(units::multiplier(word)?).ok()?)?,
            _ => return None,
        });
    }
    number
}
