//! Unicode characters as LaTeX.

use std::borrow::Cow;

/// Converts a text to ASCII and LaTeX where possible. None if it has characters that change the text direction.
pub(crate) fn plain(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            // `3–5` is a range from 3 to 5.
            '–' | '—' if plain.ends_with(is_digit) && rest.as_str().starts_with(is_digit) => plain.push(character),
            '√' if rest.as_str().starts_with(is_digit) => {
                plain.push_str("\\sqrt{");
                take_while(&mut rest, |next| is_digit(next).then_some(next), &mut plain);
                plain.push('}');
            }
            script if raised(script).is_some() => raise(script, &mut rest, &mut plain),
            script if lowered(script).is_some() => {
                plain.push_str("_{");
                plain.extend(lowered(script));
                take_while(&mut rest, lowered, &mut plain);
                plain.push('}');
            }
            '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{00ad}' => {}
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => return None,
            '\u{2009}' | '\u{202f}' => plain.push_str("\\,"),
            // The angstrom sign.
            '\u{212b}' => plain.push('Å'),
            other if other.is_ascii() => plain.push(other),
            other if other.is_whitespace() => plain.push(' '),
            other => match latex(other) {
                // The next letter is not part of the command.
                Some(latex) if latex.ends_with(|c: char| c.is_ascii_alphabetic()) => plain.extend([latex, " "]),
                Some(latex) => plain.push_str(latex),
                None => plain.push(ascii(other)),
            },
        }
    }
    Some(plain)
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

fn raised(character: char) -> Option<char> {
    scripted("0⁰1¹2²3³4⁴5⁵6⁶7⁷8⁸9⁹+⁺-⁻=⁼(⁽)⁾nⁿiⁱxˣyʸzᶻaᵃbᵇcᶜdᵈeᵉkᵏmᵐpᵖrʳsˢtᵗhʰ", character)
}

fn lowered(character: char) -> Option<char> {
    scripted("0₀1₁2₂3₃4₄5₅6₆7₇8₈9₉+₊-₋=₌(₍)₎aₐeₑhₕiᵢjⱼkₖlₗmₘnₙoₒpₚrᵣsₛtₜuᵤvᵥxₓ", character)
}

/// Returns the character before the given one in a list of pairs.
fn scripted(pairs: &str, character: char) -> Option<char> {
    if character.is_ascii() {
        return None;
    }
    let (before, _) = pairs.split_once(character)?;
    before.chars().next_back()
}

/// Writes raised characters as a power, `³√` as a root, and `³⁄₄` as a fraction.
fn raise(first: char, rest: &mut std::str::Chars<'_>, plain: &mut String) {
    let mut power = String::from_iter(raised(first));
    take_while(rest, raised, &mut power);
    let mut after = rest.clone();
    match after.next() {
        // `x³√7` has two readings.
        Some('√') if plain.chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != ')') => {
            *rest = after;
            plain.push_str(&format!("\\sqrt[{power}]"));
        }
        Some('⁄' | '/') if after.clone().next().and_then(lowered).is_some() => {
            *rest = after;
            plain.push_str(&format!("\\frac{{{power}}}{{"));
            take_while(rest, lowered, plain);
            plain.push('}');
        }
        _ => plain.push_str(&format!("^{{{power}}}")),
    }
}

/// Writes commands again whose backslash and first letter were read as an escape: `\frac` became a form feed and `rac`,
/// `\times` a tab and `imes`.
pub(crate) fn unescaped(text: &str) -> Cow<'_, str> {
    let is_control = |byte: u8| matches!(byte, 7..=9 | 11..=13);
    if !text.bytes().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len());
    for (place, character) in text.char_indices() {
        match escaped(character, &text[place + character.len_utf8()..]) {
            Some(letter) => written.extend(['\\', letter]),
            None => written.push(character),
        }
    }
    Cow::Owned(written)
}

fn escaped(control: char, after: &str) -> Option<char> {
    const COMMANDS: [&str; 12] =
        ["imes", "ext", "extbf", "extrm", "frac", "heta", "an", "au", "binom", "ight", "ho", "angle"];
    let letter = match control {
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        _ => return None,
    };
    let name = &after[..after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len())];
    let is_sure =
        if control.is_ascii_whitespace() && control != '\u{c}' { COMMANDS.contains(&name) } else { !name.is_empty() };
    is_sure.then_some(letter)
}

fn take_while(rest: &mut std::str::Chars<'_>, means: impl Fn(char) -> Option<char>, plain: &mut String) {
    while let Some(meant) = rest.clone().next().and_then(&means) {
        rest.next();
        plain.push(meant);
    }
}

fn ascii(character: char) -> char {
    const ZEROS: [u32; 5] = [0x0660, 0x06f0, 0x0966, 0x09e6, 0xff10];
    let code = character as u32;
    let digit = ZEROS.iter().find_map(|zero| code.checked_sub(*zero).filter(|digit| *digit < 10));
    match digit {
        Some(digit) => char::from_digit(digit, 10).unwrap_or(character),
        // 𝑥 and 𝟐
        None if (0x1d400..0x1d6a4).contains(&code) => {
            let place = ((code - 0x1d400) % 52) as u8;
            char::from(if place < 26 { b'A' + place } else { b'a' + place - 26 })
        }
        None if (0x1d7ce..0x1d800).contains(&code) => char::from_digit((code - 0x1d7ce) % 10, 10).unwrap_or(character),
        None if (0xff01..=0xff5e).contains(&code) => char::from_u32(code - 0xfee0).unwrap_or(character),
        None => character,
    }
}

/// Characters, each with its LaTeX.
const CHARACTERS: &str = include_str!("characters.txt");

fn latex(character: char) -> Option<&'static str> {
    CHARACTERS.lines().find_map(|line| line.strip_prefix(character)?.strip_prefix(' '))
}
