//! Compares what a program returns with what its tests expect, by the rule of its bench.

use serde::Deserialize;

use crate::lines;
use crate::problem::{Problem, Tests};
use crate::value::Value;

/// Bytes of a right result for each byte of the expected one: an int that equals a float has up to 256 digits.
const TIMES_EXPECTED: usize = 18;
const LEAST: usize = 1 << 10;
/// The most bytes of a result that is not compared.
pub(crate) const LONGEST: usize = 1 << 28;
const SHORT: usize = 200;
const ITEMS: usize = 6;
/// The text of a NaN, which does not equal itself.
const NAN: &str = "f7ff8000000000000";
/// The relative tolerance of numpy.allclose, and the absolute one of evalplus for floats.
const RELATIVE: f64 = 1e-7;
const OF_FLOATS: f64 = 1e-6;

/// Tests, taken apart by a process that runs no generated program.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Parts {
    /// What a program gets: calls, or their arguments.
    pub(crate) calls: Vec<String>,
    /// What each call has to return. None if only its assert can tell.
    pub(crate) expected: Vec<Option<String>>,
    /// The line of each call's assert.
    pub(crate) lines: Vec<String>,
    /// Why the tests cannot be taken apart.
    pub(crate) unreadable: Option<String>,
}

#[derive(Deserialize)]
struct Tolerance {
    atol: f64,
}

pub(crate) struct Judge<'a> {
    problem: &'a Problem,
    /// What the program gets.
    pub(crate) inputs: Vec<&'a str>,
    expected: Vec<Option<&'a str>>,
    lines: &'a [String],
    tolerance: f64,
    /// The number of results that were right.
    place: usize,
    /// The results that are not compared.
    pub(crate) open: Vec<String>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(problem: &'a Problem, parts: &'a Parts) -> Self {
        let calls = || parts.calls.iter().map(String::as_str).collect::<Vec<_>>();
        let parted = || parts.expected.iter().map(Option::as_deref).collect();
        let mut tolerance = 0.0;
        let (inputs, expected) = match &problem.tests {
            Tests::Check { .. } => (calls(), parted()),
            Tests::Calls { row, expected } => {
                tolerance = serde_json::from_str(row).map_or(0.0, |row: Tolerance| row.atol);
                let expected = expected.as_ref().map(|expected| expected.split('\n').map(Some).collect());
                (calls(), expected.unwrap_or_else(|| vec![None; parts.calls.len()]))
            }
            Tests::Method { tests } => (tests.iter().map(|test| test.input.as_str()).collect(), parted()),
            Tests::Stdin { tests } => {
                tests.iter().map(|test| (test.input.as_str(), Some(test.output.as_str()))).unzip()
            }
        };
        Self { problem, inputs, expected, lines: &parts.lines, tolerance, place: 0, open: Vec::new() }
    }

    /// The most bytes of each result. `written` is what a program may print.
    pub(crate) fn most(&self, written: u64) -> Vec<u64> {
        let most = |expected: &Option<&str>| match (&self.problem.tests, expected) {
            (Tests::Stdin { .. }, _) => 2 * written,
            (_, expected) => expected.map_or(LONGEST, |expected| TIMES_EXPECTED * expected.len() + LEAST) as u64,
        };
        self.expected.iter().map(most).collect()
    }

    /// Judges the next result. Returns what is wrong with it.
    pub(crate) fn wrong(&mut self, found: String) -> Option<String> {
        let Some(expected) = self.expected.get(self.place).copied().flatten() else {
            self.open.push(found);
            self.place += 1;
            return None;
        };
        if self.is_right(&found, expected) {
            self.place += 1;
            return None;
        }
        let is_assert = matches!(self.problem.tests, Tests::Check { .. });
        Some(match (Value::of(&found), &self.problem.tests) {
            (_, Tests::Stdin { .. }) => self.detail(&Value::Text(&line(&found)).show(ITEMS)),
            (Some(_), _) if is_assert => self.lines[self.place].clone(),
            (found, _) => self.detail(&found.map_or("malformed text".to_string(), |found| found.show(ITEMS))),
        })
    }

    /// What was expected, and what was found instead.
    pub(crate) fn detail(&self, found: &str) -> String {
        let (place, count) = (self.place + 1, self.expected.len());
        let expected = self.expected.get(self.place).copied().flatten().unwrap_or_default();
        let shown = || Value::of(expected).map_or(expected.to_string(), |value| value.show(ITEMS));
        line(&match &self.problem.tests {
            Tests::Check { .. } => format!("found {found}: {}", self.lines.get(self.place).map_or("", String::as_str)),
            Tests::Stdin { .. } => {
                format!("test {place}: expected {}, found {found}", Value::Text(&line(expected)).show(ITEMS))
            }
            Tests::Calls { .. } => format!("call {place} of {count}: expected {}, found {found}", shown()),
            Tests::Method { .. } => format!("test {place}: expected {}, found {found}", shown()),
        })
    }

    fn is_right(&mut self, found: &str, expected: &str) -> bool {
        let is_zero = self.problem.entry_point.as_deref() == Some("find_zero");
        match &self.problem.tests {
            Tests::Stdin { .. } => return lines::same(found, expected),
            Tests::Calls { .. } if is_zero => {
                let value = Value::of(found).and_then(|zero| polynomial(self.inputs[self.place], zero.number()?));
                return value.is_some_and(|value| value.abs() <= self.tolerance);
            }
            // As evalplus: from the first float on, all of the problem's values are compared with a tolerance.
            Tests::Calls { .. } if self.tolerance == 0.0 && is_floats(expected) => self.tolerance = OF_FLOATS,
            _ => {}
        }
        // Most results are right.
        if found == expected && !found.contains(NAN) {
            return true;
        }
        let Some((own, other)) = Value::of(found).zip(Value::of(expected)) else { return false };
        match (&self.problem.tests, own) {
            // Tuples count as lists.
            (Tests::Method { .. }, Value::Items(b't', items, tag)) => Value::Items(b'l', items, tag) == other,
            (Tests::Calls { .. }, own) if self.tolerance != 0.0 && found.as_bytes()[0] == expected.as_bytes()[0] => {
                own == other || is_close(&own, &other, self.tolerance)
            }
            (_, own) => own == other,
        }
    }
}

/// Whether a text is a float, or a list or tuple of floats.
fn is_floats(text: &str) -> bool {
    let items = match text.strip_prefix(['l', 't']).and_then(|list| list.split_once(':')) {
        Some((_, items)) => items,
        None => text,
    };
    // The tag and its digits.
    !items.is_empty() && items.as_bytes().chunks(1 + 16).all(|item| item.starts_with(b"f"))
}

/// As numpy.allclose, for numbers and lists of them.
fn is_close(found: &Value<'_>, expected: &Value<'_>, tolerance: f64) -> bool {
    if let Some((own, other)) = found.sequence().zip(expected.sequence()) {
        return own.len() == other.len() && own.iter().zip(other).all(|(own, other)| is_close(own, other, tolerance));
    }
    let Some((own, other)) = found.number().zip(expected.number()) else { return false };
    let most = tolerance + RELATIVE * other.abs();
    found == expected || ((own - other).abs() <= most && most < f64::INFINITY)
}

/// The value of the polynomial whose coefficients are the only argument of a call.
fn polynomial(call: &str, at: f64) -> Option<f64> {
    let (coefficients,): (Vec<f64>,) = serde_json::from_str(call).ok()?;
    Some(coefficients.iter().enumerate().map(|(power, coefficient)| coefficient * at.powf(power as f64)).sum())
}

/// A short text without line ends.
pub(crate) fn line(text: &str) -> String {
    text.split_whitespace().take(SHORT).collect::<Vec<_>>().join(" ").chars().take(SHORT).collect()
}
