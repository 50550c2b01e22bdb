//! What a case expects of a command.

use serde_json::Value;

use crate::Statement;
use crate::common::Finished;
use crate::renew;
use crate::runs::place::failed;

/// The first word of an expectation.
pub(crate) fn kind(expectation: &str) -> &str {
    expectation.split(' ').next().unwrap_or_default()
}

/// Checks what a command printed, with `\n` as a line end, and that it ended with code 0 unless another is named.
pub(crate) fn check(finished: &Finished, statement: &Statement) {
    let Finished { code, stdout, stderr } = finished;
    let (mut codes, mut printed) = ("0", Vec::new());
    let expected = renew::expectations(finished, statement);
    for line in &expected {
        let (kind, raw) = line.split_once(' ').unwrap_or((line, ""));
        let text = raw.replace("\\n", "\n");
        let is_met = match kind {
            "|" => {
                printed.push(raw);
                true
            }
            "empty" => stdout.is_empty(),
            "out" => stdout.contains(&text),
            "err" => stderr.contains(&text),
            "no" => !stdout.contains(&text) && !stderr.contains(&text),
            "exit" => {
                codes = raw;
                true
            }
            // An error of one line, and nothing else, except how long a slow machine takes to open.
            "refused" => {
                let text;
                (codes, text) = raw.split_once(' ').unwrap();
                let said: Vec<_> = stderr.lines().filter(|line| !line.starts_with("opening ")).collect();
                stdout.is_empty() && matches!(said[..], [line] if line.starts_with("error: ") && line.contains(text))
            }
            "json" => has_members(&last_object(finished), raw),
            "anchor" => has_members(&last_object(finished)["anchor"], raw),
            "failed" => failed(&last_object(finished)) == raw.split(' ').collect::<Vec<_>>(),
            _ => panic!("there is no expectation {kind}"),
        };
        assert!(is_met, "expected: {line}");
    }
    assert!(codes.split('|').any(|expected| expected.parse() == Ok(*code)), "expected: exit {codes}");
    let found: Vec<&str> = stdout.lines().collect();
    assert!(printed.is_empty() || printed == found, "expected these lines on stdout:\n{}", printed.join("\n"));
}

/// The object on the last line of stdout.
pub(crate) fn last_object(finished: &Finished) -> Value {
    let last = finished.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("expected JSON on the last line of stdout: {error}"))
}

pub(crate) fn has_members(found: &Value, expected: &str) -> bool {
    let expected: serde_json::Map<String, Value> = serde_json::from_str(expected).unwrap();
    expected.iter().all(|(key, value)| found[key] == *value)
}
