//! Results of Python as tagged text, and Python's equality of them.
//!
//! | text | value |
//! |---|---|
//! | `N`, `T`, `F` | None, True, False |
//! | `i-ff;` | an int, in hexadecimal |
//! | `f3ff0000000000000`, `?` | the bits of a float; a NaN |
//! | `s5:tests`, `u6:\ud800` | a text after its length in bytes; one with half of a surrogate pair, escaped |
//! | `l2:NT`, `t`, `e`, `z` | a list after its length, a tuple, a set, a frozenset |
//! | `d1:s1:aN` | a dict: keys and values |
//! | `n3:NN-`, `b` | the nodes of a linked list, of a binary tree; `-` is a missing node |

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The deepest nesting that is read, which bounds the stack.
const DEEPEST: usize = 210;
const SHORT: usize = 80;

#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    None,
    Bool(bool),
    /// Its hexadecimal digits.
    Int(&'a str),
    Float(f64),
    Text(&'a str),
    Escaped(&'a str),
    Missing,
    /// Its tag and its items.
    Items(u8, Vec<Value<'a>>),
}

impl<'a> Value<'a> {
    /// Returns the value of a whole text, or None if the text is malformed.
    pub(crate) fn of(mut text: &'a str) -> Option<Self> {
        let value = read(&mut text, 0)?;
        text.is_empty().then_some(value)
    }

    /// The digits of a number that is an integer, of any type.
    fn integer(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Bool(value) => Some(if *value { "1" } else { "0" }.into()),
            Self::Int(digits) => Some((*digits).into()),
            Self::Float(value) if value.fract() == 0.0 => Some(digits(*value).into()),
            _ => None,
        }
    }

    /// The nearest float of a number.
    pub(crate) fn number(&self) -> Option<f64> {
        let digits = match self {
            Self::Float(value) => return Some(*value),
            Self::Bool(value) => return Some(f64::from(u8::from(*value))),
            Self::Int(digits) => digits,
            _ => return None,
        };
        let size = digits.trim_start_matches('-');
        let value =
            size.chars().filter_map(|digit| digit.to_digit(16)).fold(0.0, |sum, digit| sum * 16.0 + f64::from(digit));
        Some(if size.len() < digits.len() { -value } else { value })
    }

    /// The items of a list or a tuple.
    pub(crate) fn sequence(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::Items(b'l' | b't', items) => Some(items),
            _ => None,
        }
    }

    /// Whether Python's `type` is the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Items(tag, _), Self::Items(other, _)) => tag == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Python's `==`. No value is the same object as another one, so a NaN equals nothing.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) | (Self::Missing, Self::Missing) => true,
            (Self::Text(text), Self::Text(other)) | (Self::Escaped(text), Self::Escaped(other)) => text == other,
            (Self::Items(b'd', items), Self::Items(b'd', others)) => {
                entries(items).zip(entries(others)).is_some_and(|(own, other)| {
                    own.len() == other.len()
                        && own.iter().zip(&other).all(|(own, other)| own.0 == other.0 && own.1.equals(other.1))
                })
            }
            (Self::Items(b'e' | b'z', items), Self::Items(b'e' | b'z', others)) => {
                keys(items).is_some_and(|own| Some(own) == keys(others))
            }
            (Self::Items(tag, items), Self::Items(other, others)) => {
                tag == other
                    && items.len() == others.len()
                    && items.iter().zip(others).all(|(own, other)| own.equals(other))
            }
            _ => match (self.integer(), other.integer()) {
                (None, None) => matches!((self, other), (Self::Float(own), Self::Float(other)) if own == other),
                (own, other) => own == other,
            },
        }
    }

    /// The same text for equal keys of a dict. None for a NaN, which equals nothing.
    fn key(&self) -> Option<String> {
        Some(match self {
            Self::Float(value) if value.is_nan() => return None,
            Self::Items(b'e' | b'z', items) => format!("{{{}}}", keys(items)?.join(",")),
            Self::Items(tag, items) => {
                let keys: Option<Vec<_>> = items.iter().map(Self::key).collect();
                format!("{tag}({})", keys?.join(","))
            }
            other => other.integer().map_or_else(|| format!("{other:?}"), |digits| format!("i{digits}")),
        })
    }

    /// The value as Python writes it, cut off if it is long.
    pub(crate) fn short(&self) -> String {
        let mut text = String::new();
        self.show(&mut text, SHORT);
        match text.char_indices().nth(SHORT) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }

    /// The value as an expression of Python.
    pub(crate) fn source(&self) -> String {
        let mut text = String::new();
        self.show(&mut text, usize::MAX);
        text
    }

    /// Ends once the text is longer than `most`.
    fn show(&self, text: &mut String, most: usize) {
        match self {
            Self::None | Self::Missing => text.push_str("None"),
            Self::Bool(value) => text.push_str(if *value { "True" } else { "False" }),
            Self::Int(digits) => match (i128::from_str_radix(digits, 16), digits.strip_prefix('-')) {
                (Ok(value), _) => *text += &value.to_string(),
                (_, Some(digits)) => *text += &format!("-0x{digits}"),
                _ => *text += &format!("0x{digits}"),
            },
            Self::Float(value) if value.is_finite() => *text += &format!("{value:?}"),
            Self::Float(value) => *text += &format!("float('{value}')"),
            Self::Text(value) => quote(value.chars().take(most), text),
            Self::Escaped(value) => *text += &format!("'{}'", value.replace('\'', "\\'")),
            Self::Items(tag, items) => {
                let (open, close) = match tag {
                    b'l' => ("[", "]"),
                    b't' if items.len() == 1 => ("(", ",)"),
                    b't' => ("(", ")"),
                    b'd' => ("{", "}"),
                    b'e' => ("set([", "])"),
                    b'z' => ("frozenset([", "])"),
                    b'n' => ("list_node([", "])"),
                    _ => ("tree_node([", "])"),
                };
                text.push_str(open);
                for (place, item) in items.iter().enumerate() {
                    if text.len() > most {
                        return;
                    }
                    let is_value = *tag == b'd' && place % 2 == 1;
                    text.push_str(if place == 0 {
                        ""
                    } else if is_value {
                        ": "
                    } else {
                        ", "
                    });
                    item.show(text, most);
                }
                text.push_str(close);
            }
        }
    }
}

fn read<'a>(text: &mut &'a str, depth: usize) -> Option<Value<'a>> {
    let (tag, rest) = text.split_at_checked(1)?;
    *text = rest;
    Some(match tag.as_bytes()[0] {
        b'N' => Value::None,
        b'T' => Value::Bool(true),
        b'F' => Value::Bool(false),
        b'-' => Value::Missing,
        b'?' => Value::Float(f64::NAN),
        b'i' => {
            let digits = until(text, ';')?;
            let size = digits.strip_prefix('-').unwrap_or(digits);
            let is_number = !size.is_empty() && size.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            is_number.then_some(Value::Int(digits))?
        }
        b'f' => Value::Float(f64::from_bits(u64::from_str_radix(cut(text, 16)?, 16).ok()?)),
        tag @ (b's' | b'u') => {
            let size = until(text, ':')?.parse().ok()?;
            let content = cut(text, size)?;
            if tag == b's' { Value::Text(content) } else { Value::Escaped(content) }
        }
        tag @ (b'l' | b't' | b'e' | b'z' | b'd' | b'n' | b'b') if depth < DEEPEST => {
            let count: usize = until(text, ':')?.parse().ok()?;
            let count = if tag == b'd' { count.checked_mul(2)? } else { count };
            Value::Items(tag, (0..count).map(|_| read(text, depth + 1)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
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

fn keys(items: &[Value<'_>]) -> Option<Vec<String>> {
    let mut keys = items.iter().map(Value::key).collect::<Option<Vec<_>>>()?;
    keys.sort_unstable();
    Some(keys)
}

fn entries<'v, 'a>(items: &'v [Value<'a>]) -> Option<BTreeMap<String, &'v Value<'a>>> {
    items.chunks_exact(2).map(|entry| Some((entry[0].key()?, &entry[1]))).collect()
}

fn quote(content: impl Iterator<Item = char>, text: &mut String) {
    text.push('\'');
    for scalar in content {
        match scalar {
            '\'' | '\\' => text.extend(['\\', scalar]),
            '\n' => text.push_str("\\n"),
            scalar if scalar.is_control() => *text += &format!("\\x{:02x}", u32::from(scalar)),
            scalar => text.push(scalar),
        }
    }
    text.push('\'');
}

#[cfg(test)]
mod tests {
    use super::Value;

    fn equal(own: &str, other: &str) -> bool {
        let (own, other) = (Value::of(own).unwrap(), Value::of(other).unwrap());
        let equal = own.equals(&other);
        assert_eq!(equal, other.equals(&own), "{own:?} {other:?}");
        equal
    }

    #[test]
    fn values_are_equal_as_in_python() {
        let large = format!("i{:x}{};", 1_u64 << 53, "0".repeat(100));
        let float = format!("f{:016x}", (2_f64.powi(453)).to_bits());
        for (own, other) in [
            ("T", "i1;"),
            ("F", "f0000000000000000"),
            ("i0;", "f8000000000000000"),
            ("i3;", "f4008000000000000"),
            ("f7ff0000000000000", "f7ff0000000000000"),
            (&large, &float),
            ("l2:Ti0;", "l2:i1;F"),
            ("e2:i1;s1:a", "z2:s1:aT"),
            ("d2:i1;Ns1:bi2;", "d2:s1:bf4000000000000000TN"),
            ("e1:t1:i1;", "e1:t1:T"),
        ] {
            assert!(equal(own, other), "{own} {other}");
        }
        for (own, other) in [
            ("?", "?"),
            ("N", "F"),
            ("i1;", "s1:1"),
            ("l1:i1;", "t1:i1;"),
            ("l0:", "e0:"),
            ("l0:", "N"),
            ("s6:\\ud800", "u6:\\ud800"),
            (&large.replacen("0;", "1;", 1), &float),
            ("d1:i1;N", "d1:i2;N"),
            ("d1:?N", "d1:?N"),
            ("e2:i1;i1;", "e1:i1;"),
            ("n2:i1;-", "l1:i1;"),
            ("f3fb999999999999a", "f3fb999999999999b"),
        ] {
            assert!(!equal(own, other), "{own} {other}");
        }
    }

    #[test]
    fn malformed_texts_are_refused() {
        let deep = "l1:".repeat(100_000) + "N";
        for text in [
            "",
            "X",
            "i;",
            "i-;",
            "iA;",
            "i1",
            "f3ff",
            "s2:a",
            "s1:é",
            "l2:N",
            "l1:NN",
            "l99999999999999999999:",
            "é",
            &deep,
        ] {
            assert!(Value::of(text).is_none(), "{text:.20}");
        }
    }

    #[test]
    fn values_are_shown_as_python_writes_them() {
        let show = |text: &str| Value::of(text).unwrap().short();
        assert_eq!(show("t1:d1:s2:a'l2:NT"), "({'a\\'': [None, True]},)");
        assert_eq!(show("l3:i-ff;f3fe0000000000000?"), "[-255, 0.5, float('NaN')]");
        assert_eq!(show(&format!("l9:{}", "i123456789abcdef;".repeat(9))).chars().count(), 81);
    }
}
