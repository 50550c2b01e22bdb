//! Compares what a program returns with what its tests expect, by the rule of its bench.

use serde::Deserialize;

use crate::lines;
use crate::problem::{Problem, Tests};
use crate::value::Value;

/// Bytes of a right result for each byte of the expected one: an int that equals a float has up to 256 digits.
const TIMES_EXPECTED: u64 = 18;
const LEAST: u64 = 1 << 10;
const SHORT: usize = 200;
/// The relative tolerance of numpy.allclose.
const RELATIVE: f64 = 1e-7;
const OF_FLOATS: f64 = 1e-6;

/// Tests, taken apart by a process that runs no generated program.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Parts {
    /// What a program gets: calls or their arguments.
    pub(crate) calls: Vec<String>,
    /// What each call has to return. None if only the assert itself can tell.
    expected: Vec<Option<String>>,
    /// The line of each call's assert.
    lines: Vec<String>,
}

enum Rule {
    Asserts,
    /// The absolute tolerance. From the first float on, all values of a problem are compared with one.
    Calls(f64),
    /// The problem that any zero of a polynomial solves, with the largest value that counts as zero.
    Zero(f64),
    Method,
    Lines,
}

pub(crate) struct Judge<'a> {
    rule: Rule,
    /// What the program gets.
    pub(crate) inputs: Vec<&'a str>,
    expected: Vec<Option<&'a str>>,
    lines: &'a [String],
    /// The number of results that were right.
    place: usize,
    /// Results that only asserts can judge, as expressions of Python.
    pub(crate) open: Vec<String>,
}

#[derive(Deserialize)]
struct Row {
    atol: f64,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(problem: &'a Problem, parts: &'a Parts) -> Result<Self, String> {
        let calls = || parts.calls.iter().map(String::as_str).collect();
        let parted = || parts.expected.iter().map(Option::as_deref).collect();
        let (rule, inputs, expected): (_, Vec<_>, Vec<_>) = match &problem.tests {
            Tests::Check { .. } => (Rule::Asserts, calls(), parted()),
            Tests::Calls { row, expected } => {
                let Row { atol } = serde_json::from_str(row).map_err(|error| error.to_string())?;
                let is_zero = problem.entry_point.as_deref() == Some("find_zero");
                let rule = if is_zero { Rule::Zero(atol) } else { Rule::Calls(atol) };
                (rule, calls(), unframed(expected.as_deref().unwrap_or_default()))
            }
            Tests::Method { tests } => (Rule::Method, tests.iter().map(|test| test.input.as_str()).collect(), parted()),
            Tests::Stdin { tests } => {
                let both = tests.iter().map(|test| (test.input.as_str(), Some(test.output.as_str())));
                let (inputs, expected) = both.unzip();
                (Rule::Lines, inputs, expected)
            }
        };
        match inputs.len() {
            0 => Err("the problem has no tests".to_string()),
            _ => Ok(Self { rule, inputs, expected, lines: &parts.lines, place: 0, open: Vec::new() }),
        }
    }

    /// The most bytes of each result. `written` is what a program may print.
    pub(crate) fn most(&self, written: u64) -> Vec<u64> {
        let most = |expected: &Option<&str>| match (&self.rule, expected) {
            (Rule::Lines, _) | (_, None) => 2 * written + LEAST,
            (_, Some(expected)) => TIMES_EXPECTED * expected.len() as u64 + LEAST,
        };
        self.expected.iter().map(most).collect()
    }

    /// Judges the next result. Returns what is wrong with it.
    pub(crate) fn wrong(&mut self, found: &str) -> Option<String> {
        let Some(expected) = self.expected.get(self.place).copied().flatten() else {
            let Some(value) = Value::of(found) else { return Some(self.detail("malformed text")) };
            self.open.push(value.source());
            self.place += 1;
            return None;
        };
        if self.is_right(found, expected) {
            self.place += 1;
            return None;
        }
        Some(match Value::of(found) {
            Some(found) if matches!(self.rule, Rule::Asserts) => {
                self.lines.get(self.place).cloned().unwrap_or_else(|| found.short())
            }
            Some(found) => self.detail(&found.short()),
            None => self.detail("malformed text"),
        })
    }

    /// What was expected and what was found instead.
    pub(crate) fn detail(&self, found: &str) -> String {
        let (place, count) = (self.place + 1, self.expected.len());
        let expected = self.expected.get(self.place).copied().flatten().unwrap_or_default();
        let text = match self.rule {
            Rule::Asserts => format!("found {found}: {}", self.lines.get(self.place).map_or("", String::as_str)),
            Rule::Lines => format!("test {place}: expected {}, found {found}", Value::Text(expected).short()),
            _ => {
                let what = if matches!(self.rule, Rule::Method) { "test" } else { "call" };
                let expected = Value::of(expected).map(|value| value.short()).unwrap_or_default();
                format!("{what} {place} of {count}: expected {expected}, found {found}")
            }
        };
        line(&text)
    }

    fn is_right(&mut self, found: &str, expected: &str) -> bool {
        if let Rule::Calls(tolerance) = &mut self.rule
            && *tolerance == 0.0
            && is_floats(expected)
        {
            *tolerance = OF_FLOATS;
        }
        // Most results are large or right. A NaN is not equal to itself.
        if matches!(self.rule, Rule::Asserts | Rule::Calls(_) | Rule::Method)
            && found == expected
            && !found.contains('?')
        {
            return true;
        }
        let Some(found) = Value::of(found) else { return false };
        if let Rule::Lines = self.rule {
            return matches!(found, Value::Text(found) if lines::same(found, expected));
        }
        let Some(expected) = Value::of(expected) else { return false };
        match (&self.rule, found) {
            (Rule::Zero(most), found) => {
                let value = found.number().and_then(|zero| polynomial(self.inputs[self.place], zero));
                value.is_some_and(|value| value.abs() <= *most)
            }
            (Rule::Method, Value::Items(b't', items)) => Value::Items(b'l', items).equals(&expected),
            (Rule::Calls(tolerance), found) => {
                found.equals(&expected)
                    || (*tolerance != 0.0 && found.is_like(&expected) && is_close(&found, &expected, *tolerance))
            }
            (_, found) => found.equals(&expected),
        }
    }
}

/// A float, or a list or tuple of floats.
fn is_floats(text: &str) -> bool {
    let starts = |text: &str| text.starts_with(['f', '?']);
    if starts(text) {
        return true;
    }
    // Only what begins with a float is read.
    let is_sequence = text.starts_with(['l', 't']) && text.split_once(':').is_some_and(|(_, items)| starts(items));
    let is_float = |value: &Value<'_>| matches!(value, Value::Float(_));
    is_sequence && Value::of(text).is_some_and(|value| value.sequence().is_some_and(|items| items.iter().all(is_float)))
}

/// As numpy.allclose, for numbers and lists of them.
fn is_close(found: &Value<'_>, expected: &Value<'_>, tolerance: f64) -> bool {
    if let Some(expected) = expected.sequence() {
        let is_close = |found: &[Value<'_>]| {
            found.iter().zip(expected).all(|(found, expected)| is_close(found, expected, tolerance))
        };
        return found.sequence().is_some_and(|found| found.len() == expected.len() && is_close(found));
    }
    let Some((own, other)) = found.number().zip(expected.number()) else { return false };
    let most = tolerance + RELATIVE * other.abs();
    found.equals(expected) || ((own - other).abs() <= most && most < f64::INFINITY)
}

/// The value of the polynomial whose coefficients are the only argument of a call.
fn polynomial(call: &str, at: f64) -> Option<f64> {
    let (coefficients,): (Vec<f64>,) = serde_json::from_str(call).ok()?;
    Some(coefficients.iter().enumerate().map(|(power, coefficient)| coefficient * at.powf(power as f64)).sum())
}

/// A short text without line ends.
pub(crate) fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHORT).collect()
}

/// Puts a result after those before it, for [`Tests::Calls`].
pub(crate) fn framed(all: &mut String, result: &str) {
    *all += &format!("{} {result}", result.len());
}

fn unframed(mut all: &str) -> Vec<Option<&str>> {
    let mut results = Vec::new();
    while let Some((size, rest)) = all.split_once(' ') {
        let Some((result, rest)) = size.parse().ok().and_then(|size| rest.split_at_checked(size)) else { break };
        results.push(Some(result));
        all = rest;
    }
    results
}
