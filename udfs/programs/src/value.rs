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
pub(crate) const DEEPEST: usize = 210;
/// The most hexadecimal digits of a float that is an integer, with its sign.
const DIGITS_OF_FLOAT: usize = 257;
/// The most digits of a length.
const DIGITS_OF_COUNT: usize = 20;

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
    Text(Cow<'a, str>),
    Escaped(Cow<'a, str>),
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
        let value = read(&mut text, 0, &mut Bounds::none())?;
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
            Self::Text(text) => serde_json::Value::from(text.as_ref()).to_string(),
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

/// Where the text of values comes from: a text, or a result that is still being read.
pub(crate) trait Source<'a> {
    /// Cuts off the next bytes, if they are text.
    fn cut(&mut self, size: usize) -> Option<Cow<'a, str>>;

    /// Cuts off what stands before a mark, at most `most` bytes, and the mark.
    fn until(&mut self, mark: u8, most: usize) -> Option<Cow<'a, str>>;
}

impl<'a> Source<'a> for &'a str {
    fn cut(&mut self, size: usize) -> Option<Cow<'a, str>> {
        let (before, rest) = self.split_at_checked(size)?;
        *self = rest;
        Some(before.into())
    }

    fn until(&mut self, mark: u8, most: usize) -> Option<Cow<'a, str>> {
        let (before, rest) = self.split_once(char::from(mark)).filter(|(before, _)| before.len() <= most)?;
        *self = rest;
        Some(before.into())
    }
}

/// What a value can have at most that equals another one, so that reading it needs no more memory.
struct Bounds {
    values: usize,
    digits: usize,
    bytes: usize,
}

impl Bounds {
    fn none() -> Self {
        Self { values: usize::MAX, digits: usize::MAX, bytes: usize::MAX }
    }

    fn of(value: &Value<'_>) -> Self {
        match value {
            Value::Int(digits, _) => Self { values: 1, digits: digits.len().max(DIGITS_OF_FLOAT), bytes: 0 },
            Value::Text(text) | Value::Escaped(text) => Self { values: 1, digits: DIGITS_OF_FLOAT, bytes: text.len() },
            Value::Items(_, items, _) => {
                items.iter().map(Self::of).fold(Self { values: 1, digits: DIGITS_OF_FLOAT, bytes: 0 }, |all, item| {
                    Self {
                        values: all.values + item.values,
                        digits: all.digits.max(item.digits),
                        bytes: all.bytes.max(item.bytes),
                    }
                })
            }
            Value::None | Value::Missing | Value::Float(..) => Self { values: 1, digits: DIGITS_OF_FLOAT, bytes: 0 },
        }
    }
}

pub(crate) fn tag<'a>(source: &mut impl Source<'a>) -> Option<u8> {
    source.cut(1)?.bytes().next()
}

pub(crate) fn count<'a>(source: &mut impl Source<'a>) -> Option<usize> {
    source.until(b':', DIGITS_OF_COUNT)?.parse().ok()
}

fn read<'a>(source: &mut impl Source<'a>, depth: usize, bounds: &mut Bounds) -> Option<Value<'a>> {
    let tag = tag(source)?;
    read_after(tag, source, depth, bounds)
}

fn read_after<'a>(tag: u8, source: &mut impl Source<'a>, depth: usize, bounds: &mut Bounds) -> Option<Value<'a>> {
    bounds.values = bounds.values.checked_sub(1)?;
    Some(match tag {
        b'N' => Value::None,
        b'-' => Value::Missing,
        b'T' => Value::Int("1".into(), Tag(tag)),
        b'F' => Value::Int("0".into(), Tag(tag)),
        b'i' => {
            let digits = source.until(b';', bounds.digits)?;
            let size = digits.strip_prefix('-').unwrap_or(&digits);
            let is_number = !size.is_empty() && size.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            is_number.then_some(Value::Int(digits, Tag(tag)))?
        }
        b'f' => match f64::from_bits(u64::from_str_radix(&source.cut(16)?, 16).ok()?) {
            value if value.fract() == 0.0 => Value::Int(digits(value).into(), Tag(tag)),
            value => Value::Float(value.to_bits(), Tag(if value.is_nan() { NAN } else { tag })),
        },
        b's' | b'u' => {
            let size = count(source).filter(|size| *size <= bounds.bytes)?;
            let content = source.cut(size)?;
            if tag == b's' { Value::Text(content) } else { is_escaped(&content).then_some(Value::Escaped(content))? }
        }
        b'l' | b't' | b'e' | b'z' | b'd' | b'n' | b'b' if depth < DEEPEST => {
            let count = count(source)?;
            let mut item = || match tag {
                b'd' => {
                    bounds.values = bounds.values.checked_sub(1)?;
                    let pair = vec![read(source, depth + 1, bounds)?, read(source, depth + 1, bounds)?];
                    Some(Value::Items(b':', pair, Tag(b':')))
                }
                _ => read(source, depth + 1, bounds),
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

/// Reads the rest of two values, of which the second one is expected. The first one needs no more memory than that.
pub(crate) fn read_both<'a, 'b>(
    (own, found): (u8, &mut impl Source<'a>),
    (other, expected): (u8, &mut impl Source<'b>),
    depth: usize,
) -> Option<(Value<'a>, Value<'b>)> {
    let expected = read_after(other, expected, depth, &mut Bounds::none())?;
    let found = read_after(own, found, depth, &mut Bounds::of(&expected))?;
    Some((found, expected))
}

/// Whether each quote and the end stay outside of an escape. A forged text could end the literal that `show` makes of it.
fn is_escaped(text: &str) -> bool {
    let single = text.replace("\\\\", "");
    !single.contains("\\\"") && !single.ends_with('\\')
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
