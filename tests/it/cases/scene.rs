//! What the statements of a case do.

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use asap_test_support::Server;
use serde_json::{Value, json};

use crate::common::Finished;
use crate::expect::check;
use crate::renew::says;
use crate::runs::delta_table::{Table, clean};
use crate::runs::place::{A, B, C, File, Place, Running, had_nothing_to_do, wait_until};
use crate::servers::{action_named, requests_named, serve};
use crate::support::anchorer::{ask, write_corpus};
use crate::support::proxy::Gate;
use crate::support::table::{live_files, orphans};
use crate::{Case, Statement};

const D: File = ("d.parquet", 31..=37, "step");

/// The statements whose indented lines are what they expect of a command.
pub(crate) const EXPECT: [&str; 6] = ["$", "finish", "from", "run", "sql", "verified"];

/// The most files that the report of a failed case lists.
const LISTED: usize = 100;

/// Kills a run during the commit after `commits` commits.
fn die_at_commit(place: &Place, commits: usize, more: &[&str]) {
    let seen = AtomicUsize::new(0);
    let gate = place.proxy().hold(move |head| head.commits("out") && seen.fetch_add(1, Ordering::SeqCst) >= commits);
    let mut run = place.start(more);
    wait_until("a commit", || gate.held() > 0 || run.is_over());
    place.kill(run, &gate);
}

/// A case that is performed at a place.
pub(crate) struct Scene<'a> {
    cases: &'static [Case],
    place: &'a Place,
    table: Option<Table<'a>>,
    vectors: Vec<Value>,
    server: Option<Server>,
    /// Where the last fault holds requests.
    gate: Gate,
    run: Option<Running>,
    statement: Option<&'static Statement>,
    /// The line of the last command, and what it printed.
    ended: Option<(usize, Finished)>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(cases: &'static [Case], place: &'a Place) -> Self {
        let (table, vectors, server, gate, run) = (None, Vec::new(), None, Gate::new(), None);
        Self { cases, place, table, vectors, server, gate, run, statement: None, ended: None }
    }

    pub(crate) fn perform_all(&mut self, case: &'static Case) {
        case.statements.iter().for_each(|statement| self.perform(statement));
    }

    /// What failed: the statement, the message, what the last command printed, and the files of the folder.
    pub(crate) fn report(&self, message: &str) -> String {
        let mut report = String::new();
        if let Some(Statement { file, line, verb, rest, .. }) = self.statement {
            writeln!(report, "tests/it/cases/{file}.txt:{line}: {verb} {rest}\n{message}").unwrap();
        }
        if let Some((line, Finished { code, stdout, stderr })) = &self.ended {
            let ended =
                format!("the command of line {line} ended with code {code}, stdout:\n{stdout}\nstderr:\n{stderr}");
            writeln!(report, "\n{ended}").unwrap();
        }
        let mut files = BTreeSet::new();
        list(&self.place.path(""), "", &mut files);
        let shown = files.iter().take(LISTED).map(|file| format!("  {file}\n")).collect::<String>();
        write!(report, "\n{} files in {}:\n{shown}", files.len(), self.place.path("").display()).unwrap();
        report
    }

    /// Checks what a command did.
    fn expects(&mut self, finished: Finished, statement: &Statement) {
        check(&self.ended.insert((statement.line, finished)).1, statement);
    }

    fn perform(&mut self, statement: &'static Statement) {
        let Statement { verb, rest, .. } = statement;
        self.statement = Some(statement);
        let place = self.place;
        let words: Vec<&str> = rest.split_whitespace().collect();
        match *verb {
            "given" => {
                let meant = |case: &&Case| case.heading.strip_prefix("given ") == Some(*rest);
                let case = self.cases.iter().find(meant).unwrap_or_else(|| panic!("no case is named: given {rest}"));
                self.perform_all(case);
            }
            "$" => self.expects(place.shell(&self.located(rest)), statement),
            "sql" => {
                let sql = self.located(rest);
                self.expects(place.execute(&["sql", "-q", "--format", "csv", "-c", &sql]), statement);
            }
            "run" => self.expects(place.run(&words), statement),
            "from" => self.expects(place.run_from(&self.located(words[0]), &words[1..]), statement),
            "twice-at-once" => {
                for mut run in [place.start(&words), place.start(&words)] {
                    run.finish().ends_in(&[0, 4], &[]);
                }
            }
            "dies-at-commit" => die_at_commit(place, words[0].parse().unwrap(), &words[1..]),
            "nothing-to-do" => {
                let finished = place.run(&words);
                had_nothing_to_do(&self.ended.insert((statement.line, finished)).1);
            }
            "verified" => self.expects(place.execute(&["table", "verify", &place.location("out")]), statement),
            "holds" => place.holds(&files_named(&words)),
            "whole" => place.is_whole(),
            "no-orphans" => assert_eq!(orphans(&place.path("out")), BTreeSet::new(), "objects that no log names"),
            "at-most" => {
                let rows = place.rows();
                assert!(rows.output.len() + rows.rejects.len() <= words[0].parse().unwrap(), "{rows:?}");
            }
            "sources" => says(statement, &place.rows().sources().join(" ")),
            "rejects" => says(statement, &place.rows().rejected().join(" ")),
            "ids" => says(statement, &place.rows().ids().iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
            "column" => {
                let (rows, column) = (place.rows(), words[0]);
                let found = rows.output.values().map(|row| row[column].to_string());
                says(statement, &[column.to_string()].into_iter().chain(found).collect::<Vec<_>>().join(" "));
            }
            "calls" => {
                let (expected, calls) = (range(rest), self.server.as_ref().unwrap().count());
                assert!(expected.contains(&calls), "{calls} calls");
            }
            "posts" => {
                let calls = self.server.as_ref().unwrap().calls();
                let posts = calls.iter().filter(|call| call.head.starts_with("POST")).count();
                says(statement, &posts.to_string());
            }
            "lost" => {
                let is_meant = requests_named(rest);
                let log = place.proxy().log();
                assert!(log.iter().any(|logged| is_meant(&logged.head) && logged.status.is_none()));
            }
            "start" | "held" | "answered" | "open" | "break" | "kill" | "terminate" | "finish" => {
                self.control(statement, &words);
            }
            _ => self.arrange(statement, &words),
        }
    }

    /// Controls a run in the background and the requests that a fault holds.
    fn control(&mut self, statement: &Statement, words: &[&str]) {
        let (Statement { verb, rest, .. }, place, gate) = (statement, self.place, &self.gate);
        match *verb {
            "start" => self.run = Some(place.start(words)),
            "held" => {
                let mut is_over = || self.run.as_mut().is_some_and(Running::is_over);
                wait_until("a held request", || gate.held() > 0 || is_over());
                assert!(gate.held() > 0 || *rest == "or-over", "the run ended");
            }
            "answered" => {
                let is_meant = requests_named(rest);
                wait_until(rest, || place.proxy().count_of(&is_meant) > 0);
            }
            "open" => gate.open(),
            "break" => gate.cut(),
            "kill" => self.run.take().unwrap().kill(),
            "terminate" => self.run.as_ref().unwrap().terminate(),
            _ => {
                let finished = self.run.take().unwrap().finish();
                self.expects(finished, statement);
            }
        }
    }

    fn arrange(&mut self, Statement { verb, rest, below, .. }: &Statement, words: &[&str]) {
        let (place, below) = (self.place, below.iter().map(|(_, line)| *line).collect::<Vec<_>>());
        match *verb {
            "write" => place.put_bytes(rest, (below.join("\n") + "\n").as_bytes()),
            "copy" => {
                let (file, query) = rest.split_once(' ').unwrap();
                place.workplace.copy(query, &place.folder(file));
            }
            "traces" => place.workplace.traces(words[0].parse().unwrap(), words[1].parse().unwrap(), words[2]),
            "corpus" => write_corpus(&place.workplace, rest.parse().unwrap(), &place.folder("in/rows.parquet")),
            "put" => place.put_all(&files_named(words)),
            "pipeline" => place.pipeline(rest),
            "serve" => {
                let server = serve(&below);
                ask(&place.workplace, &server);
                place.put_bytes("url", server.base_url().as_bytes());
                self.server = Some(server);
            }
            "stop" => self.server = None,
            "fault" => {
                let (times, rest) = rest.split_once(' ').unwrap();
                let (requests, action) = rest.split_once(": ").unwrap();
                let (times, gate) = (times.parse().unwrap_or(usize::MAX), Gate::new());
                place.proxy().fault(times, requests_named(requests), action_named(action, &gate));
                std::mem::replace(&mut self.gate, gate).open();
            }
            "calm" => place.proxy().calm(),
            "lose" => std::fs::remove_file(self.first_live(rest)).unwrap(),
            "cut" => std::fs::OpenOptions::new().write(true).open(self.first_live(rest)).unwrap().set_len(100).unwrap(),
            "table" => self.table = Some(Table::new(place)),
            "append" => self.table().append(&files_named(words)),
            "merge" => {
                let (whole, parts) = words.split_last().unwrap();
                merge(place, self.table(), parts, file(whole));
            }
            "vectors" => {
                let rows = |part: &str| part.split(' ').map(|row| row.parse().unwrap()).collect::<Vec<u16>>();
                let vectors: Vec<_> = rest.split('|').map(rows).collect();
                self.vectors = self.table().vectors(&vectors.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
            "commit" => self.table().commit(&words.iter().map(|word| self.action(word)).collect::<Vec<_>>()),
            "clean" => clean(place, rest.parse().unwrap()),
            _ => panic!("there is no statement {verb}"),
        }
    }

    fn first_live(&self, table: &str) -> PathBuf {
        let table = self.place.path(table);
        table.join(live_files(&table).pop_first().unwrap())
    }

    /// Adds `+FILE` to the table or removes `-FILE` from it, with the deletion vector of a number after `#`.
    fn action(&self, word: &str) -> Value {
        let (sign, file) = word.split_at(1);
        let (file, vector) = file.split_once('#').unwrap_or((file, ""));
        let mut action = if sign == "+" { self.table().add(file) } else { self.table().remove(file) };
        if let Ok(vector) = vector.parse::<usize>() {
            action[if sign == "+" { "add" } else { "remove" }]["deletionVector"] = self.vectors[vector].clone();
        }
        action
    }

    fn located(&self, text: &str) -> String {
        let names = regex::Regex::new(r"@([a-z][\w./*-]*)").unwrap();
        names.replace_all(text, |name: &regex::Captures| self.place.location(&name[1])).into_owned()
    }

    fn table(&self) -> &Table<'_> {
        self.table.as_ref().unwrap()
    }
}

/// Parses `3`, or `1-7` with its last number.
pub(crate) fn range<T: FromStr<Err: Debug>>(text: &str) -> RangeInclusive<T> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    first.parse().unwrap()..=last.parse().unwrap()
}

/// Parses A to D, or a file such as `a.parquet:1-7:step`: its ids and the prefix of its chains.
fn file(word: &str) -> File<'_> {
    if let Some(known) = ["A", "B", "C", "D"].iter().position(|name| *name == word) {
        return [A, B, C, D][known].clone();
    }
    let [name, ids, mark] = word.split(':').collect::<Vec<_>>()[..] else { panic!("{word} is no file") };
    (name, range(ids), mark)
}

fn files_named<'a>(words: &[&'a str]) -> Vec<File<'a>> {
    words.iter().map(|word| file(word)).collect()
}

/// Collects the files below a folder. A link is no folder: the data of the project is linked.
fn list(folder: &Path, before: &str, files: &mut BTreeSet<String>) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = format!("{before}{}", entry.file_name().display());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => list(&entry.path(), &format!("{name}/"), files),
            _ => drop(files.insert(name)),
        }
    }
}

/// Replaces files by one with the same rows in a version that changes none of them.
fn merge(place: &Place, table: &Table, names: &[&str], whole: File) {
    let removed = names.iter().map(|name| table.remove(name));
    place.put(whole.clone());
    let actions: Vec<_> = removed.chain([table.add(whole.0)]).map(without_change).collect();
    table.commit(&actions);
}

fn without_change(mut action: Value) -> Value {
    for kind in ["add", "remove"] {
        if action.get(kind).is_some() {
            action[kind]["dataChange"] = json!(false);
        }
    }
    action
}
