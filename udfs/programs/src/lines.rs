//! Compares printed lines as LiveCodeBench does.

use asap_kernels::steps::strip;

/// Line by line without outer white space, as texts or as lists of decimals.
pub(crate) fn same(found: &str, expected: &str) -> bool {
    let (mut found, mut expected) = (strip(found).split('\n'), strip(expected).split('\n'));
    loop {
        match (found.next(), expected.next()) {
            (None, None) => return true,
            (Some(found), Some(expected)) if same_line(strip(found), strip(expected)) => {}
            _ => return false,
        }
    }
}

fn same_line(found: &str, expected: &str) -> bool {
    if found == expected {
        return true;
    }
    // In step, since a line may be all that a program may print.
    let (mut found, mut expected) = (words(found).map(decimal), words(expected).map(decimal));
    loop {
        match (found.next(), expected.next()) {
            (None, None) => return true,
            (Some(Some(found)), Some(Some(expected))) if found == expected => {}
            _ => return false,
        }
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|scalar: char| strip(scalar.encode_utf8(&mut [0; 4])).is_empty()).filter(|word| !word.is_empty())
}

/// Reads a number as Python's `Decimal` does: its sign, its digits without zeros at both ends, and the power of ten.
fn decimal(word: &str) -> Option<(bool, String, i64)> {
    let word = word.replace('_', "").to_ascii_lowercase();
    let size = word.strip_prefix(['-', '+']).unwrap_or(&word);
    let is_negative = word.starts_with('-');
    if ["inf", "infinity"].contains(&size) {
        return Some((is_negative, size[..3].to_string(), 0));
    }
    let (number, power) = size.split_once('e').unwrap_or((size, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let power = power.parse::<i64>().ok()?.checked_sub(fraction.len() as i64)?;
    let digits = digits.trim_start_matches('0');
    let short = digits.trim_end_matches('0');
    let power = power.checked_add((digits.len() - short.len()) as i64)?;
    // All zeros are equal.
    Some(if short.is_empty() { (false, String::new(), 0) } else { (is_negative, short.to_string(), power) })
}
