//! Compares what a program returns with what its tests expect, by the rule of its bench.

use std::io::{self, Read};

use serde::Deserialize;

use crate::agree::{Arriving, Rule, agrees, same_bytes};
use crate::child::{Found, MALFORMED, whole};
use crate::lines;
use crate::problem::{Problem, Tests};
use crate::value::Value;

/// Bytes of a right result for each byte of the expected one: an int that equals a float has up to 256 digits.
const TIMES_EXPECTED: usize = 18;
const LEAST: usize = 1 << 10;
/// The most bytes of a result that is not compared.
pub(crate) const LONGEST: usize = 1 << 28;
/// The most bytes of all results of a program that only asserts can judge.
const LONGEST_OPEN: usize = 1 << 22;
/// The most bytes of a result that is shown if it is wrong.
const SHOWN: u64 = 1 << 16;
const SHORT: usize = 200;
const ITEMS: usize = 6;
/// The text of a NaN, which does not equal itself.
const NAN: &str = "f7ff8000000000000";
/// The absolute tolerance of evalplus for floats.
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

    /// The most bytes of each result. `printed` is what a program may print.
    pub(crate) fn most(&self, printed: u64) -> Vec<u64> {
        let most = |expected: &Option<&str>| match (&self.problem.tests, expected) {
            (Tests::Stdin { .. }, _) => 2 * printed,
            (_, Some(expected)) => (TIMES_EXPECTED * expected.len() + LEAST) as u64,
            // Only the bench's own program has results that are not compared at all.
            (Tests::Calls { .. }, None) => LONGEST as u64,
            (_, None) => LONGEST_OPEN as u64,
        };
        self.expected.iter().map(most).collect()
    }

    /// Judges the next result while it is read. Returns what is wrong with it.
    pub(crate) fn wrong(&mut self, found: &mut Found<'_>) -> io::Result<Option<String>> {
        let size = found.limit();
        let Some(expected) = self.expected.get(self.place).copied().flatten() else {
            let text = whole(found)?;
            let is_check = matches!(self.problem.tests, Tests::Check { .. });
            let all: usize = self.open.iter().chain(&text).map(String::len).sum();
            return Ok(match text {
                Some(_) if is_check && all > LONGEST_OPEN => Some(self.detail(&format!("{all} bytes of results"))),
                Some(text) => {
                    self.open.push(text);
                    self.place += 1;
                    None
                }
                None => Some(self.detail(MALFORMED)),
            });
        };
        let is_short = matches!(self.problem.tests, Tests::Stdin { .. }) || size <= SHOWN;
        let text = if is_short { Some(whole(found)?) } else { None };
        let is_right = match &text {
            Some(Some(text)) => self.is_right(text, expected),
            Some(None) => return Ok(Some(self.detail(MALFORMED))),
            None => self.agrees_while_read(found, expected)?,
        };
        if is_right {
            self.place += 1;
            return Ok(None);
        }
        let text = text.flatten();
        let value = text.as_deref().map(|text| Value::of(text).map(|value| value.show(ITEMS)));
        Ok(Some(match (&self.problem.tests, value) {
            (Tests::Stdin { .. }, _) => self.detail(&Value::Text(line(&text.unwrap_or_default()).into()).show(ITEMS)),
            (Tests::Check { .. }, None | Some(Some(_))) => self.lines[self.place].clone(),
            (_, Some(value)) => self.detail(&value.unwrap_or_else(|| "malformed text".to_string())),
            (_, None) => self.detail(&format!("a result of {size} bytes")),
        }))
    }

    /// Most results are right, so they are first compared byte by byte.
    fn agrees_while_read(&mut self, found: &mut Found<'_>, expected: &str) -> io::Result<bool> {
        let rule = self.rule(expected);
        let same = same_bytes(found, expected.as_bytes())?;
        if same == expected.len() && found.limit() == 0 && !expected.contains(NAN) {
            return Ok(true);
        }
        let mut arriving = Arriving { source: expected.as_bytes()[..same].chain(found), error: None };
        let is_right = agrees(&mut arriving, expected, rule);
        arriving.error.map_or(Ok(is_right), Err)
    }

    /// What was expected, and what was found instead.
    pub(crate) fn detail(&self, found: &str) -> String {
        let (place, count) = (self.place + 1, self.expected.len());
        let expected = self.expected.get(self.place).copied().flatten().unwrap_or_default();
        let shown = || Value::of(expected).map_or(expected.to_string(), |value| value.show(ITEMS));
        line(&match &self.problem.tests {
            Tests::Check { .. } => format!("found {found}: {}", self.lines.get(self.place).map_or("", String::as_str)),
            Tests::Stdin { .. } => {
                format!("test {place}: expected {}, found {found}", Value::Text(line(expected).into()).show(ITEMS))
            }
            Tests::Calls { .. } => format!("call {place} of {count}: expected {}, found {found}", shown()),
            Tests::Method { .. } => format!("test {place}: expected {}, found {found}", shown()),
        })
    }

    fn is_right(&mut self, found: &str, expected: &str) -> bool {
        match &self.problem.tests {
            Tests::Stdin { .. } => return lines::same(found, expected),
            Tests::Calls { .. } if self.problem.entry_point.as_deref() == Some("find_zero") => {
                let value = Value::of(found).and_then(|zero| polynomial(self.inputs[self.place], zero.number()?));
                return value.is_some_and(|value| value.abs() <= self.tolerance);
            }
            _ => {}
        }
        let rule = self.rule(expected);
        // Most results are right.
        (found == expected && !found.contains(NAN)) || agrees(&mut { found }, expected, rule)
    }

    fn rule(&mut self, expected: &str) -> Rule {
        let is_calls = matches!(self.problem.tests, Tests::Calls { .. });
        // As evalplus: from the first float on, all of the problem's values are compared with a tolerance.
        if is_calls && self.tolerance == 0.0 && is_floats(expected) {
            self.tolerance = OF_FLOATS;
        }
        match &self.problem.tests {
            Tests::Method { .. } => Rule::TupleIsList,
            Tests::Calls { .. } if self.tolerance != 0.0 => Rule::Close(self.tolerance),
            _ => Rule::Equal,
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

/// The value of the polynomial whose coefficients are the only argument of a call.
fn polynomial(call: &str, at: f64) -> Option<f64> {
    let (coefficients,): (Vec<f64>,) = serde_json::from_str(call).ok()?;
    Some(coefficients.iter().enumerate().map(|(power, coefficient)| coefficient * at.powf(power as f64)).sum())
}

/// A short text without line ends.
pub(crate) fn line(text: &str) -> String {
    text.split_whitespace().take(SHORT).collect::<Vec<_>>().join(" ").chars().take(SHORT).collect()
}
