//! Results of Python as tagged text, and Python's equality of them.
//!
//! | text | value |
//! |---|---|
//! | `N`, `T`, `F` | None, True, False |
//! | `i-ff;` | an int, in hexadecimal |
//! | `f3ff0000000000000` | the bits of a float |
//! | `s5:tests`, `u6:\ud800` | a text after its length in bytes; one with line ends or half of a pair of surrogates, escaped |
//! | `l2:NT`, `t`, `e`, `z` | a list after its length, a tuple, a set, a frozenset |
//! | `d1:s1:aN` | a dict: keys and values |
//! | `n3:NN-`, `b` | the nodes of a linked list, of a binary tree; `-` is a missing node |

use std::borrow::Cow;
use std::cmp::Ordering;

/// The deepest nesting that is read, which bounds the stack.
const DEEPEST: usize = 210;

/// Values that are equal in Python are equal here: entries and elements are sorted, and a number that is an integer of
/// any type is an `Int`.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(crate) enum Value<'a> {
    None,
    Missing,
    /// Hexadecimal digits.
    Int(Cow<'a, str>, Tag),
    /// The bits of any other float.
    Float(u64, Tag),
    Text(&'a str),
    Escaped(&'a str),
    Items(u8, Vec<Value<'a>>, Tag),
}

/// How the text wrote a value. It decides nothing, except that a NaN equals nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag(u8);

const NAN: u8 = b'?';

impl PartialEq for Tag {
    fn eq(&self, _: &Self) -> bool {
        self.0 != NAN
    }
}

impl PartialOrd for Tag {
    fn partial_cmp(&self, _: &Self) -> Option<Ordering> {
        Some(Ordering::Equal)
    }
}

impl<'a> Value<'a> {
    /// Returns the value of a whole text, or None if the text is malformed.
    pub(crate) fn of(mut text: &'a str) -> Option<Self> {
        let value = read(&mut text, 0)?;
        text.is_empty().then_some(value)
    }

    /// The nearest float of a number.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Float(bits, _) => Some(f64::from_bits(*bits)),
            Self::Int(digits, _) => {
                let size = digits.chars().filter_map(|digit| digit.to_digit(16));
                let value = size.fold(0.0, |value, digit| value * 16.0 + f64::from(digit));
                Some(if digits.starts_with('-') { -value } else { value })
            }
            _ => None,
        }
    }

    /// The items of a list or a tuple.
    pub(crate) fn sequence(&self) -> Option<&[Self]> {
        if let Self::Items(b'l' | b't', items, _) = self { Some(items) } else { None }
    }

    /// The value as an expression of Python, with at most `most` items of each list.
    pub(crate) fn show(&self, most: usize) -> String {
        match self {
            Self::None | Self::Missing => "None".to_string(),
            Self::Int(digits, Tag(b'T' | b'F')) => if digits == "1" { "True" } else { "False" }.to_string(),
            Self::Int(_, Tag(b'f')) => format!("{:?}", self.number().unwrap_or_default()),
            Self::Int(digits, _) => match i128::from_str_radix(digits, 16) {
                Ok(value) => value.to_string(),
                Err(_) => format!("int('{digits}', 16)"),
            },
            Self::Float(bits, _) => match f64::from_bits(*bits) {
                value if value.is_finite() => format!("{value:?}"),
                value => format!("float('{value}')"),
            },
            Self::Text(text) => serde_json::Value::from(*text).to_string(),
            Self::Escaped(text) => format!("\"{}\"", text.replace('"', "\\\"")),
            Self::Items(_, items, Tag(tag)) => {
                let mut shown: Vec<_> = items.iter().take(most).map(|item| item.show(most)).collect();
                shown.extend((items.len() > most).then(|| "…".to_string()));
                let (open, between, close) = match tag {
                    b'l' => ("[", ", ", "]"),
                    b't' if items.len() == 1 => ("(", "", ",)"),
                    b't' => ("(", ", ", ")"),
                    b':' => ("", ": ", ""),
                    b'd' => ("{", ", ", "}"),
                    b'e' => ("set([", ", ", "])"),
                    b'z' => ("frozenset([", ", ", "])"),
                    _ => ("nodes(", ", ", ")"),
                };
                format!("{open}{}{close}", shown.join(between))
            }
        }
    }
}

fn read<'a>(text: &mut &'a str, depth: usize) -> Option<Value<'a>> {
    let tag = cut(text, 1)?.as_bytes()[0];
    Some(match tag {
        b'N' => Value::None,
        b'-' => Value::Missing,
        b'T' => Value::Int("1".into(), Tag(tag)),
        b'F' => Value::Int("0".into(), Tag(tag)),
        b'i' => {
            let digits = until(text, ';')?;
            let size = digits.strip_prefix('-').unwrap_or(digits);
            let is_number = !size.is_empty() && size.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            is_number.then(|| Value::Int(digits.into(), Tag(tag)))?
        }
        b'f' => match f64::from_bits(u64::from_str_radix(cut(text, 16)?, 16).ok()?) {
            value if value.fract() == 0.0 => Value::Int(digits(value).into(), Tag(tag)),
            value => Value::Float(value.to_bits(), Tag(if value.is_nan() { NAN } else { tag })),
        },
        b's' | b'u' => {
            let size = until(text, ':')?.parse().ok()?;
            let content = cut(text, size)?;
            if tag == b's' { Value::Text(content) } else { is_escaped(content).then_some(Value::Escaped(content))? }
        }
        b'l' | b't' | b'e' | b'z' | b'd' | b'n' | b'b' if depth < DEEPEST => {
            let count: usize = until(text, ':')?.parse().ok()?;
            let mut item = || match tag {
                b'd' => Some(Value::Items(b':', vec![read(text, depth + 1)?, read(text, depth + 1)?], Tag(b':'))),
                _ => read(text, depth + 1),
            };
            let mut items = (0..count).map(|_| item()).collect::<Option<Vec<_>>>()?;
            if matches!(tag, b'd' | b'e' | b'z') {
                items.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
            }
            Value::Items(if tag == b'z' { b'e' } else { tag }, items, Tag(tag))
        }
        _ => return None,
    })
}

/// Whether each quote and the end stay outside of an escape. A forged text could end the literal that `show` makes of it.
fn is_escaped(text: &str) -> bool {
    let single = text.replace("\\\\", "");
    !single.contains("\\\"") && !single.ends_with('\\')
}

/// Cuts off what stands before a mark, and the mark.
fn until<'a>(text: &mut &'a str, mark: char) -> Option<&'a str> {
    let (before, rest) = text.split_once(mark)?;
    *text = rest;
    Some(before)
}

fn cut<'a>(text: &mut &'a str, size: usize) -> Option<&'a str> {
    let (before, rest) = text.split_at_checked(size)?;
    *text = rest;
    Some(before)
}

/// The hexadecimal digits of a float that is an integer: exact, as Python compares it with an int.
fn digits(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let bits = value.abs().to_bits();
    // A float is its significand, an integer, times a power of two.
    let (significand, power) = ((bits & ((1 << 52) - 1)) | (1 << 52), (bits >> 52) as i64 - 1075);
    match usize::try_from(power) {
        Ok(power) => format!("{sign}{:x}{}", u128::from(significand) << (power % 4), "0".repeat(power / 4)),
        Err(_) => format!("{sign}{:x}", value.abs() as u64),
    }
}
