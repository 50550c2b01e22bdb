//! Compares a result with the expected value while the result is read. A list of any length takes no memory, and all else
//! takes as much as the expected value.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};

use crate::value::{DEEPEST, Source, Value, count, read_both, tag};

/// The relative tolerance of numpy.allclose.
const RELATIVE: f64 = 1e-7;

/// By which rule a result is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// Python's equality.
    Equal,
    /// Equal, and a tuple counts as a list if it is the whole result.
    TupleIsList,
    /// Equal, or of the same kind with all numbers within an absolute tolerance, as by numpy.allclose.
    Close(f64),
}

/// What still holds of two values.
#[derive(Clone, Copy)]
struct Agreement {
    equal: bool,
    close: bool,
}

impl Agreement {
    const NONE: Self = Self { equal: false, close: false };

    fn and(self, other: Self) -> Self {
        Self { equal: self.equal && other.equal, close: self.close && other.close }
    }

    fn is_any(self) -> bool {
        self.equal || self.close
    }
}

/// Whether a result is the expected one. It is read only as far as it is.
pub(crate) fn agrees<'a>(found: &mut impl Source<'a>, mut expected: &str, rule: Rule) -> bool {
    let Some((own, other)) = tag(found).zip(tag(&mut expected)) else { return false };
    let own = if matches!(rule, Rule::TupleIsList) && own == b't' { b'l' } else { own };
    let tolerance = if let Rule::Close(tolerance) = rule { Some(tolerance).filter(|_| own == other) } else { None };
    compare((own, found), (other, &mut expected), tolerance, 0).is_some_and(Agreement::is_any) && found.cut(1).is_none()
}

/// Compares the rest of two values after their tags. None if one is malformed, or too large to be right.
fn compare<'a>(
    (own, found): (u8, &mut impl Source<'a>),
    (other, expected): (u8, &mut &str),
    tolerance: Option<f64>,
    depth: usize,
) -> Option<Agreement> {
    let is_list = |tag: u8| matches!(tag, b'l' | b't');
    let in_order = (is_list(own) && is_list(other)) || (own == other && matches!(own, b'n' | b'b'));
    if !in_order {
        let (found, expected) = read_both((own, found), (other, expected), depth)?;
        let close = tolerance.is_some_and(|tolerance| is_close(&found, &expected, tolerance));
        return Some(Agreement { equal: found == expected, close });
    }
    let (length, wanted) = (count(found)?, count(expected)?);
    if length != wanted || depth >= DEEPEST {
        return Some(Agreement::NONE);
    }
    let mut all = Agreement { equal: own == other, close: tolerance.is_some() && is_list(own) };
    for _ in 0..wanted {
        if !all.is_any() {
            return Some(Agreement::NONE);
        }
        let tags = (tag(found)?, tag(expected)?);
        all = all.and(compare((tags.0, &mut *found), (tags.1, &mut *expected), tolerance, depth + 1)?);
    }
    Some(all)
}

/// As numpy.allclose, for two numbers.
fn is_close(found: &Value<'_>, expected: &Value<'_>, tolerance: f64) -> bool {
    let Some((own, other)) = found.number().zip(expected.number()) else { return false };
    let most = tolerance + RELATIVE * other.abs();
    found == expected || ((own - other).abs() <= most && most < f64::INFINITY)
}

/// How many bytes of a result are those that are expected. The others stay to be read.
pub(crate) fn same_bytes(found: &mut impl BufRead, expected: &[u8]) -> io::Result<usize> {
    let mut same = 0;
    loop {
        let chunk = found.fill_buf()?;
        let rest = &expected[same..];
        let is_same = rest.starts_with(chunk);
        let equal = if is_same { chunk.len() } else { chunk.iter().zip(rest).take_while(|(a, b)| a == b).count() };
        let is_end = chunk.is_empty();
        found.consume(equal);
        same += equal;
        if is_end || !is_same {
            return Ok(same);
        }
    }
}

/// A result that is still being read.
pub(crate) struct Arriving<R> {
    pub(crate) source: R,
    /// Why it cannot be read.
    pub(crate) error: Option<io::Error>,
}

impl<R: BufRead> Arriving<R> {
    fn kept(&mut self, read: io::Result<usize>) -> Option<usize> {
        read.map_err(|error| self.error = Some(error)).ok()
    }
}

impl<'a, R: BufRead> Source<'a> for Arriving<R> {
    fn cut(&mut self, size: usize) -> Option<Cow<'a, str>> {
        let chunk = self.source.fill_buf().map_err(|error| self.error = Some(error)).ok()?;
        // Most values are short.
        let bytes = match chunk.get(..size) {
            Some(bytes) => {
                let bytes = bytes.to_vec();
                self.source.consume(size);
                bytes
            }
            None => {
                let mut bytes = Vec::new();
                let read = self.source.by_ref().take(size as u64).read_to_end(&mut bytes);
                self.kept(read).filter(|read| *read == size)?;
                bytes
            }
        };
        String::from_utf8(bytes).ok().map(Cow::Owned)
    }

    fn until(&mut self, mark: u8, most: usize) -> Option<Cow<'a, str>> {
        let mut bytes = Vec::new();
        let read = self.source.by_ref().take((most as u64).saturating_add(1)).read_until(mark, &mut bytes);
        self.kept(read)?;
        bytes.pop_if(|last| *last == mark)?;
        String::from_utf8(bytes).ok().map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::{Arriving, Rule, agrees, same_bytes};

    /// Gives one byte at a time, and counts them.
    struct Slow<'a>(&'a [u8], &'a mut usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let size = self.0.read(&mut buffer[..1])?;
            *self.1 += size;
            Ok(size)
        }
    }

    /// Whether they agree, and how many bytes of the result that took.
    fn judged(found: &str, expected: &str, rule: Rule) -> (bool, usize) {
        let mut read = 0;
        let mut arriving = Arriving { source: BufReader::new(Slow(found.as_bytes(), &mut read)), error: None };
        let by_parts = agrees(&mut arriving, expected, rule);
        assert!(arriving.error.is_none());
        assert_eq!(by_parts, agrees(&mut { found }, expected, rule), "{found} {expected}");
        (by_parts, read)
    }

    #[test]
    fn results_agree_by_the_rule() {
        let (third, near, far) = ("f3fd5555555555555", "f3fd5555555555565", "f3fe0000000000000");
        let float = |value: f64| format!("f{:016x}", value.to_bits());
        for (found, expected, rule, is_right) in [
            ("l3:NTi-ff;", "l3:NTi-ff;", Rule::Equal, true),
            ("l2:i1;i1;", "l2:Tf3ff0000000000000", Rule::Equal, true),
            ("l1:i1;", "t1:i1;", Rule::Equal, false),
            ("t1:i1;", "l1:i1;", Rule::TupleIsList, true),
            ("l1:t1:i1;", "l1:l1:i1;", Rule::TupleIsList, false),
            ("d2:s1:ai1;s1:bi2;", "d2:s1:bi2;s1:ai1;", Rule::Equal, true),
            ("d2:s1:ai1;s1:bi3;", "d2:s1:bi2;s1:ai1;", Rule::Equal, false),
            ("l1:e2:i1;i2;", "l1:z2:i2;i1;", Rule::Equal, true),
            ("n2:i1;i2;", "n2:i1;i2;", Rule::Equal, true),
            ("n2:i1;i2;", "b2:i1;i2;", Rule::Equal, false),
            ("l1:u6:\\ud800", "l1:u6:\\ud800", Rule::Equal, true),
            ("l1:i1;N", "l1:i1;", Rule::Equal, false),
            ("l1:i1", "l1:i1;", Rule::Equal, false),
            ("l99999999999999999999:N", "l1:N", Rule::Equal, false),
            ("", "N", Rule::Equal, false),
            (third, near, Rule::Close(1e-6), true),
            (third, far, Rule::Close(1e-6), false),
            (&format!("l2:{third}i2;"), &format!("l2:{near}i2;"), Rule::Close(1e-6), true),
            (&format!("l2:{third}l1:{near}"), &format!("l2:{near}t1:{third}"), Rule::Close(1e-6), true),
            (&format!("t1:{third}"), &format!("l1:{near}"), Rule::Close(1e-6), false),
            (&format!("l2:{third}N"), &format!("l2:{near}N"), Rule::Close(1e-6), false),
            (&format!("l2:{third}N"), &format!("l2:{third}N"), Rule::Close(1e-6), true),
            (&float(f64::NAN), &float(f64::NAN), Rule::Close(1e-6), false),
            (&float(f64::INFINITY), &float(f64::INFINITY), Rule::Close(1e-6), true),
        ] {
            assert_eq!(judged(found, expected, rule).0, is_right, "{found} for {expected} by {rule:?}");
        }
    }

    #[test]
    fn no_more_is_read_than_can_be_right() {
        let many = |text: &str| text.repeat(1_000_000);
        for (found, expected) in [
            (format!("l1000000:{}", many("N")), "l999999:N"),
            (format!("l1:l1000000:{}", many("N")), "l1:l2:NN"),
            (format!("e1000000:{}", many("N")), "e2:i1;i2;"),
            (format!("e2:l1000000:{}", many("N")), "e2:i1;i2;"),
            (format!("d1:s1:al1000000:{}", many("N")), "d1:s1:al2:NN"),
            (format!("s1000000:{}", many("a")), "s1:a"),
            (format!("i{};", many("1")), "i1;"),
            (format!("l2:Ni{};", many("1")), "l2:Ni1;"),
        ] {
            let (is_right, read) = judged(&found, expected, Rule::Close(1e-6));
            assert!(!is_right && read < 1_000, "{expected}: {read}");
        }
    }

    #[test]
    fn equal_bytes_are_counted_and_the_others_stay() {
        for (found, expected, same) in
            [("abc", "abc", 3), ("abc", "abd", 2), ("ab", "abc", 2), ("abc", "ab", 2), ("", "a", 0)]
        {
            let mut read = 0;
            let mut reader = BufReader::new(Slow(found.as_bytes(), &mut read));
            assert_eq!(same_bytes(&mut reader, expected.as_bytes()).unwrap(), same);
            let mut rest = String::new();
            reader.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, found[same..]);
        }
    }
}
