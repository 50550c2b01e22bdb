//! Unicode characters as LaTeX.

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
            power if raised(power).is_some() => {
                plain.push_str("^{");
                plain.extend(raised(power));
                take_while(&mut rest, raised, &mut plain);
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
    const POWERS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digit = POWERS.iter().position(|power| *power == character)?;
    char::from_digit(u32::try_from(digit).ok()?, 10)
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
        None if (0xff01..=0xff5e).contains(&code) => char::from_u32(code - 0xfee0).unwrap_or(character),
        None => character,
    }
}

/// Characters, each with its LaTeX.
const CHARACTERS: &str = include_str!("characters.txt");

fn latex(character: char) -> Option<&'static str> {
    CHARACTERS.lines().find_map(|line| line.strip_prefix(character)?.strip_prefix(' '))
}
