//! Number notation: separators of thousands, repeated digits, powers of ten.

/// Returns the length of the separator of thousands at the start of a text, if exactly three digits follow it.
/// `is_outer` is set outside of brackets, where plain signs can separate thousands.
pub(crate) fn separator(text: &str, is_outer: bool, reads_commas: bool) -> Option<usize> {
    const MARKS: [&str; 9] = ["{,}", ",\\!", "\\!,", "{,\\!}", "\\,", "\\;", "{\\,}", "\\ ", "~"];
    let mark = MARKS.iter().find(|mark| text.starts_with(**mark)).map(|mark| mark.len());
    let is_plain = |sign: char| is_outer && (" '_".contains(sign) || reads_commas && sign == ',');
    let mut length = mark.or_else(|| text.starts_with(is_plain).then_some(1))?;
    if mark.is_some() {
        length += text[length..].len() - text[length..].trim_start().len();
    }
    let three = text[length..].bytes().take_while(u8::is_ascii_digit).count() == 3;
    // `2 345/678` may be a mixed number.
    let is_above = || text.starts_with(' ') && text[length + 3..].trim_start().starts_with('/');
    (three && !is_above()).then_some(length)
}

/// Returns the length of the digits that a text begins with after a point, if points separate thousands: `1.234.567`.
pub(crate) fn pointed_thousands(text: &str) -> Option<usize> {
    let is_group = |text: &str| text.starts_with('.') && text[1..].bytes().take_while(u8::is_ascii_digit).count() == 3;
    let length = (0..).map(|groups| 4 * groups).find(|from| !is_group(&text[*from..]))?;
    let goes_on =
        text[length..].strip_prefix(['.', ',']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (length >= 8 && !goes_on).then_some(length)
}

/// Whether a text is a date, such as `2020-01-02` or `1/2/2020`, and not a difference or fraction.
pub(crate) fn is_date(text: &str) -> bool {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '$');
    let is_number = |span: &str| span.bytes().all(|byte| byte.is_ascii_digit());
    let is_of = |sign: char| text.split(sign).all(is_number) && text.split(sign).count() == 3;
    is_of('/') || is_of('-') && text.split('-').map(str::len).eq([4, 2, 2])
}

/// Returns the power of ten at the start of a text, and its length. Computers write `1.5e-05`, `1e+06` and `2e3`. In
/// `2e-1` and `3e+10`, `e` may be Euler's number: if it is `likely`, a number without a point (`pointed`) has an exponent
/// with a sign only after `E`, or if the exponent has a leading zero.
pub(crate) fn exponent(text: &str, pointed: bool, likely: bool) -> Option<(i64, usize)> {
    let mark = text.chars().next().filter(|mark| "eE".contains(*mark))?;
    let sign = usize::from(text[1..].starts_with(['+', '-']));
    let digits = text[1 + sign..].bytes().take_while(u8::is_ascii_digit).count();
    let length = 1 + sign + digits;
    let is_whole = !text[length..].starts_with(|c: char| c.is_alphanumeric() || ".^_!({".contains(c));
    let is_sure = mark == 'E' || pointed || (sign == 1 && digits >= 2 && text[2..].starts_with('0'));
    if !(is_sure || is_whole && (sign == 0 || !likely)) || !(1..=5).contains(&digits) {
        return None;
    }
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
