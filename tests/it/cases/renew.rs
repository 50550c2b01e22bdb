//! Renews the expected output in the files of cases, if the variable `UPDATE` is set.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::Value;

use crate::Statement;
use crate::common::{Finished, root};
use crate::expect::{has_members, kind, last_object};
use crate::runs::place::failed;

/// New lines for lines of a file.
type Lines = BTreeMap<usize, Vec<String>>;

static RENEWED: Mutex<BTreeMap<&str, Lines>> = Mutex::new(BTreeMap::new());

fn is_asked() -> bool {
    std::env::var_os("UPDATE").is_some()
}

fn replace(file: &'static str, line: usize, by: Vec<String>) {
    RENEWED.lock().unwrap().entry(file).or_default().insert(line, by);
}

/// The expectations of a statement, renewed by what came of its command.
pub(crate) fn expectations(finished: &Finished, statement: &Statement) -> Vec<String> {
    let mut is_printed = false;
    let mut all = Vec::new();
    for (number, line) in &statement.below {
        let renewed = match kind(line) {
            _ if !is_asked() => vec![line.to_string()],
            "|" if std::mem::replace(&mut is_printed, true) => vec![],
            "|" if finished.stdout.is_empty() => vec!["empty".to_string()],
            "|" => finished
                .stdout
                .lines()
                .map(|line| if line.is_empty() { "|".into() } else { format!("| {line}") })
                .collect(),
            _ => vec![renewed(finished, line).unwrap_or_else(|| line.to_string())],
        };
        if renewed != [*line] {
            replace(statement.file, *number, renewed.iter().map(|line| format!("  {line}")).collect());
        }
        all.extend(renewed);
    }
    all
}

/// An expectation with other values; None if it holds, or if only a person can renew it.
fn renewed(finished: &Finished, line: &str) -> Option<String> {
    let (kind, raw) = line.split_once(' ')?;
    match kind {
        "exit" if raw.split('|').all(|code| code.parse() != Ok(finished.code)) => {
            Some(format!("exit {}", finished.code))
        }
        "json" | "anchor" => {
            let found = last_object(finished);
            let found = if kind == "json" { &found } else { &found["anchor"] };
            let keys: serde_json::Map<String, Value> = serde_json::from_str(raw).unwrap();
            let members = Value::Object(keys.into_iter().map(|(key, _)| (key.clone(), found[&key].clone())).collect());
            (!has_members(found, raw)).then(|| format!("{kind} {}", spaced(&members)))
        }
        "failed" => Some(format!("failed {}", failed(&last_object(finished)).join(" "))),
        _ => None,
    }
}

/// JSON with spaces after colons and commas.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members =
                members.iter().map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), spaced(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(values) => format!("[{}]", values.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Checks what a statement says of the output, or renews it.
pub(crate) fn says(statement: &Statement, found: &str) {
    if statement.rest == found {
        return;
    }
    assert!(is_asked(), "found: {found}");
    replace(statement.file, statement.line, vec![format!("{} {found}", statement.verb).trim_end().to_string()]);
}

/// Writes the renewed lines into the files.
pub(crate) fn write() {
    for (file, lines) in RENEWED.lock().unwrap().iter() {
        let path = root().join(format!("tests/it/cases/{file}.txt"));
        let text = std::fs::read_to_string(&path).unwrap();
        let mut whole = String::new();
        for (index, line) in text.lines().enumerate() {
            match lines.get(&(index + 1)) {
                Some(renewed) => renewed.iter().for_each(|line| whole += &format!("{line}\n")),
                None => whole += &format!("{line}\n"),
            }
        }
        std::fs::write(path, whole).unwrap();
    }
}
