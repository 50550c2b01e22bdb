//! Number notation: separators of thousands, repeated digits, powers of ten.

/// Returns the length of the separator of thousands at the start of a text, if exactly three digits follow it.
pub(crate) fn separator(text: &str, reads_commas: bool) -> Option<usize> {
    const MARKS: [&str; 9] = ["{,}", ",\\!", "\\!,", "{,\\!}", "\\,", "\\;", "{\\,}", "\\ ", "~"];
    let mark = MARKS.iter().find(|mark| text.starts_with(**mark)).map(|mark| mark.len());
    let mut length = mark.or_else(|| (reads_commas && text.starts_with(',')).then_some(1))?;
    if mark.is_some() {
        length += text[length..].len() - text[length..].trim_start().len();
    }
    let three = text[length..].bytes().take_while(u8::is_ascii_digit).count() == 3;
    three.then_some(length)
}

/// Whether a text is a date, such as `2020-01-02` or `1/2/2020`, and not a difference or fraction.
pub(crate) fn is_date(text: &str) -> bool {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '$');
    let is_number = |span: &str| span.bytes().all(|byte| byte.is_ascii_digit());
    let is_of = |sign: char| text.split(sign).all(is_number) && text.split(sign).count() == 3;
    is_of('/') || is_of('-') && text.split('-').map(str::len).eq([4, 2, 2])
}

/// Returns the power of ten at the start of a text, and its length. Computers write `1.5e-05`, `1e+06` and `2E3`. In
/// `2e-1` and `3e+10`, `e` is Euler's number: a number without a point (`pointed`) has an exponent only after `E`, or if
/// the exponent has a sign and a leading zero.
pub(crate) fn exponent(text: &str, pointed: bool) -> Option<(i64, usize)> {
    let mark = text.chars().next().filter(|mark| "eE".contains(*mark))?;
    let sign = usize::from(text[1..].starts_with(['+', '-']));
    let digits = text[1 + sign..].bytes().take_while(u8::is_ascii_digit).count();
    let is_sure = mark == 'E' || pointed || (sign == 1 && digits >= 2 && text[2..].starts_with('0'));
    if !is_sure || !(1..=5).contains(&digits) {
        return None;
    }
    let length = 1 + sign + digits;
    Some((text[1..length].trim_start_matches('+').parse().ok()?, length))
}

/// Returns the recurring digits at the start of a text, such as `\overline{3}`, and the length of their notation.
pub(crate) fn recurring_digits(text: &str) -> Option<(&str, usize)> {
    let rest = ["\\overline", "\\bar", "\\dot"].iter().find_map(|command| text.strip_prefix(command))?;
    let inner = rest.trim_start();
    let (digits, length) = match inner.strip_prefix('{') {
        Some(braced) => {
            let end = braced.find('}')?;
            (braced[..end].trim(), end + 2)
        }
        None => (inner.get(..1)?, 1),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (digits, text.len() - inner.len() + length))
}
