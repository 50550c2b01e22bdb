//! Runs `tests/it/cases/*.txt`: commands, queries and runs, each with what comes of it.
//!
//! `## NAME` begins a case in a folder with the project's data. Brackets after the name choose other places: `here` and
//! `s3` (a bucket, through a proxy) for both, `elsewhere` for a folder without the project's data. `## given NAME` begins
//! statements that cases share by `given NAME`. A line of a case is a statement of [`Scene`]; indented lines
//! below it are what [`check`] expects of it. `@NAME` is a location of the place. `CASE=PART` runs the cases whose
//! names contain this part.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asap_test_support::{Call, Reply, Server};
use serde_json::Value;

use crate::anchoring::forms::picky;
use crate::anchoring::{ask, model, write_corpus};
use crate::common::{Finished, root};
use crate::runs::crash::orphans;
use crate::runs::delta_table::Table;
use crate::runs::delta_writers::clean;
use crate::runs::place::{A, B, C, D, File, Place, Running, failed, had_nothing_to_do, wait_until};
use crate::support::proxy::{Action, Gate, RequestHead};
use crate::support::table::live_files;

/// Cases at once: most of their time is the start of processes.
const AT_ONCE: usize = 2;

macro_rules! cases {
    ($($file:ident)*) => { $(#[test] fn $file() { run_cases(stringify!($file)); })* };
}

cases! {
    anchoring bad_input commits delta_input environment eval files first_hour flags generate identity outage outputs
    refusals refused run sql stores survival system templates train
}

struct Case<'a> {
    heading: &'a str,
    statements: Vec<Statement<'a>>,
}

struct Statement<'a> {
    at: String,
    verb: &'a str,
    rest: &'a str,
    below: Vec<&'a str>,
}

fn parse<'a>(file: &str, text: &'a str) -> Vec<Case<'a>> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with("# ")) {
        if let Some(heading) = line.strip_prefix("## ") {
            cases.push(Case { heading, statements: Vec::new() });
            continue;
        }
        let statements = &mut cases.last_mut().unwrap().statements;
        if let Some(below) = line.strip_prefix("  ") {
            statements.last_mut().unwrap().below.push(below);
        } else {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            statements.push(Statement { at: format!("{file}.txt:{}", index + 1), verb, rest, below: Vec::new() });
        }
    }
    cases
}

fn run_cases(file: &str) {
    let text = std::fs::read_to_string(root().join(format!("tests/it/cases/{file}.txt"))).unwrap();
    let (cases, part) = (parse(file, &text), std::env::var("CASE").unwrap_or_default());
    let is_tried = |case: &&Case| !case.heading.starts_with("given ") && case.heading.contains(&part);
    let at_places = |case| places(case).into_iter().map(move |place| (case, place));
    let tried = Mutex::new(cases.iter().filter(is_tried).flat_map(at_places));
    let next = || tried.lock().unwrap().next();
    let failed = Mutex::new(Vec::new());
    let work = || {
        while let Some((case, place)) = next() {
            let place = match place {
                "here" => Place::local(),
                "elsewhere" => Place::elsewhere(),
                _ => Place::s3(),
            };
            let (table, vectors, server, gate, run) = (None, Vec::new(), None, Gate::new(), None);
            let mut scene =
                Scene { cases: &cases, place: &place, table, vectors, server, gate, run, at: String::new() };
            if catch_unwind(AssertUnwindSafe(|| scene.perform_all(case))).is_err() {
                failed.lock().unwrap().push(format!("{}: {}", scene.at, case.heading));
            }
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    assert_eq!(failed.into_inner().unwrap(), Vec::<String>::new(), "cases of {file}.txt that failed");
}

/// Kills a run during the commit after `commits` commits.
fn die_at_commit(place: &Place, commits: usize, more: &[&str]) {
    let seen = AtomicUsize::new(0);
    let gate = place.proxy().hold(move |head| head.commits("out") && seen.fetch_add(1, Ordering::SeqCst) >= commits);
    let mut run = place.start(more);
    wait_until("a commit", || gate.held() > 0 || run.is_over());
    place.kill(run, &gate);
}

fn places<'a>(case: &Case<'a>) -> Vec<&'a str> {
    let named = case.heading.strip_suffix(']').and_then(|heading| heading.rsplit_once(" ["));
    named.map_or(vec!["here"], |(_, places)| places.split(' ').collect())
}

struct Scene<'a> {
    cases: &'a [Case<'a>],
    place: &'a Place,
    table: Option<Table<'a>>,
    vectors: Vec<Value>,
    server: Option<Server>,
    /// Where the last fault holds requests.
    gate: Gate,
    run: Option<Running>,
    /// The file and the line of the last statement.
    at: String,
}

impl Scene<'_> {
    fn perform_all(&mut self, case: &Case) {
        case.statements.iter().for_each(|statement| self.perform(statement));
    }

    fn perform(&mut self, statement: &Statement) {
        let Statement { at, verb, rest, below } = statement;
        self.at.clone_from(at);
        let place = self.place;
        let words: Vec<&str> = rest.split_whitespace().collect();
        match *verb {
            "given" => {
                let meant = |case: &&Case| case.heading.strip_prefix("given ") == Some(*rest);
                self.perform_all(self.cases.iter().find(meant).unwrap());
            }
            // A shell command in the folder of the place, in which `asap` is the binary.
            "$" => check(&place.shell(&self.located(rest)), below),
            "sql" => check(&place.execute(&["sql", "-q", "--format", "csv", "-c", &self.located(rest)]), below),
            // A run with these flags, with a summary in JSON; `from` names its input.
            "run" => check(&place.run(&words), below),
            "from" => check(&place.run_from(&self.located(words[0]), &words[1..]), below),
            "twice-at-once" => {
                for mut run in [place.start(&words), place.start(&words)] {
                    run.finish().ends_in(&[0, 4], &[]);
                }
            }
            "dies-at-commit" => die_at_commit(place, words[0].parse().unwrap(), &words[1..]),
            "nothing-to-do" => had_nothing_to_do(&place.run(&words)),
            "verified" => check(&place.execute(&["table", "verify", &place.location("out")]), below),
            // What the output holds: files, numbers of rows, places of rows, ids, a column.
            "holds" => place.holds(&files_named(&words)),
            "whole" => place.is_whole(),
            "no-orphans" => assert_eq!(orphans(&place.path("out")), BTreeSet::new(), "objects that no log names"),
            "at-most" => {
                let rows = place.rows();
                assert!(rows.output.len() + rows.rejects.len() <= words[0].parse().unwrap(), "{rows:?}");
            }
            "sources" => assert_eq!(place.rows().sources(), words),
            "rejects" => assert_eq!(place.rows().rejected(), words),
            "ids" => assert_eq!(place.rows().ids().iter().map(u32::to_string).collect::<Vec<_>>(), words),
            "column" => {
                let (rows, (column, values)) = (place.rows(), rest.split_once(' ').unwrap());
                let found: Vec<String> = rows.output.values().map(|row| row[column].to_string()).collect();
                assert_eq!(found.join(" "), values);
            }
            // The calls to the server, and the requests to the store.
            "calls" => {
                let (expected, calls) = (range(rest), self.server.as_ref().unwrap().count());
                assert!(expected.contains(&calls), "{calls} calls");
            }
            "posts" => {
                let calls = self.server.as_ref().unwrap().calls();
                let posts = calls.iter().filter(|call| call.head.starts_with("POST")).count();
                assert_eq!(posts.to_string(), *rest);
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
    fn control(&mut self, Statement { verb, rest, below, .. }: &Statement, words: &[&str]) {
        let (place, gate) = (self.place, &self.gate);
        match *verb {
            "start" => self.run = Some(place.start(words)),
            // Waits until a request is held, or also until the end of the run.
            "held" => {
                let mut is_over = || self.run.as_mut().is_some_and(Running::is_over);
                wait_until("a held request", || gate.held() > 0 || is_over());
                assert!(gate.held() > 0 || *rest == "or-over", "the run ended");
            }
            // Waits until the store answered such a request.
            "answered" => {
                let is_meant = requests_named(rest);
                wait_until(rest, || place.proxy().count_of(&is_meant) > 0);
            }
            // The held requests go on, or their connections end.
            "open" => gate.open(),
            "break" => gate.cut(),
            "kill" => self.run.take().unwrap().kill(),
            "terminate" => self.run.as_ref().unwrap().terminate(),
            _ => check(&self.run.take().unwrap().finish(), below),
        }
    }

    fn arrange(&mut self, Statement { verb, rest, below, .. }: &Statement, words: &[&str]) {
        let place = self.place;
        match *verb {
            "write" => place.put_bytes(rest, (below.join("\n") + "\n").as_bytes()),
            // The rows of a query as a file, and those of [`Workplace::traces`] and [`write_corpus`].
            "copy" => {
                let (file, query) = rest.split_once(' ').unwrap();
                place.workplace.copy(query, &place.folder(file));
            }
            "traces" => place.workplace.traces(words[0].parse().unwrap(), words[1].parse().unwrap(), words[2]),
            "corpus" => write_corpus(&place.workplace, rest.parse().unwrap(), &place.folder("in/rows.parquet")),
            "put" => place.put_all(&files_named(words)),
            "pipeline" => place.pipeline(rest),
            // A language model at an endpoint, whose address is in the file `url`, until `stop`.
            "serve" => {
                let server = serve(below);
                ask(&place.workplace, &server);
                place.put_bytes("url", server.base_url().as_bytes());
                self.server = Some(server);
            }
            "stop" => self.server = None,
            // Faults of the store: `fault TIMES REQUEST: ACTION`. The requests that an earlier one holds are let go.
            "fault" => {
                let (times, rest) = rest.split_once(' ').unwrap();
                let (requests, action) = rest.split_once(": ").unwrap();
                let (times, gate) = (times.parse().unwrap_or(usize::MAX), Gate::new());
                place.proxy().fault(times, requests_named(requests), action_named(action, &gate));
                std::mem::replace(&mut self.gate, gate).open();
            }
            "calm" => place.proxy().calm(),
            // The first shard of a table is deleted, or cut short.
            "lose" => std::fs::remove_file(self.first_live(rest)).unwrap(),
            "cut" => std::fs::OpenOptions::new().write(true).open(self.first_live(rest)).unwrap().set_len(100).unwrap(),
            // A Delta table as the input, and its versions.
            "table" => self.table = Some(Table::new(place)),
            "append" => self.table().append(&files_named(words)),
            "merge" => {
                let (whole, parts) = words.split_last().unwrap();
                self.table().merge(parts, file(whole));
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
fn range<T: FromStr<Err: Debug>>(text: &str) -> RangeInclusive<T> {
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

/// Starts a server that replies by the first rule for a call: `WHEN: REPLY`. `WHEN` is `*`, a number or a range of
/// numbers of calls, `GET`, or a part of the prompt. A reply may begin with `after MILLISECONDS`.
fn serve(rules: &[&str]) -> Server {
    let rules: Vec<(String, String)> = rules
        .iter()
        .map(|rule| rule.split_once(": ").unwrap())
        .map(|(when, reply)| (when.into(), reply.into()))
        .collect();
    Server::start(move |call| {
        let is_for = |when: &str| match when {
            "*" => true,
            "GET" => call.head.starts_with("GET"),
            _ if when.starts_with(|first: char| first.is_ascii_digit()) => range(when).contains(&call.number),
            _ => call.prompt().contains(when),
        };
        let rule = rules.iter().find(|(when, _)| is_for(when));
        reply(call, rule.map_or("error 404 no such page", |(_, reply)| reply.as_str()))
    })
}

fn reply(call: &Call, named: &str) -> Reply {
    let (kind, text) = named.split_once(' ').unwrap_or((named, ""));
    match kind {
        "model" => model(call),
        "picky" => picky(call),
        "hang" => Reply::Hang,
        "text" => Reply::text(text),
        "json" => Reply::Json(serde_json::from_str(text).unwrap()),
        "after" => {
            let (pause, then) = text.split_once(' ').unwrap();
            Reply::After(Duration::from_millis(pause.parse().unwrap()), Box::new(reply(call, then)))
        }
        _ => {
            let (status, message) = text.split_once(' ').unwrap();
            Reply::error(status.parse().unwrap(), message)
        }
    }
}

/// Parses `commits out` and other tests of [`RequestHead`].
fn requests_named(named: &str) -> impl Fn(&RequestHead) -> bool + Send + Sync + 'static {
    let (kind, object) = named.split_once(' ').unwrap_or((named, ""));
    let (kind, object) = (kind.to_string(), object.to_string());
    move |head| match kind.as_str() {
        "all" => true,
        "commits" => head.commits(&object),
        "commits-rows" => head.commits_rows(&object),
        "creates" => head.is_create(),
        "gets" => head.gets(&object),
        "lists" => head.lists(&object),
        "probes" => head.puts(&object) && head.path.contains(".asap-probe-") && head.is_create(),
        "puts" => head.puts(&object),
        "reads" => head.method == "GET" && head.path.starts_with(&format!("/lake/{object}/")),
        "writes-shard" => head.method == "PUT" && head.path.ends_with(".parquet"),
        _ => panic!("there are no requests {kind}"),
    }
}

/// The error codes of S3 that cases name.
const CODES: [&str; 4] = ["AccessDenied", "ConditionalRequestConflict", "InternalError", "SlowDown"];

fn action_named(named: &str, gate: &Gate) -> Action {
    match *named.split(' ').collect::<Vec<_>>() {
        ["status", status, code] => {
            let code = CODES.iter().find(|known| **known == code).unwrap();
            Action::Status(status.parse().unwrap(), code)
        }
        ["cut"] => Action::Cut,
        ["cut-body"] => Action::CutBody,
        ["lose-reply"] => Action::LoseReply,
        ["reply-after-loss", status] => Action::ReplyAfterLoss(status.parse().unwrap()),
        ["hide-refusal"] => Action::HideRefusal,
        ["hold"] => Action::Hold(gate.clone()),
        ["hold-reply"] => Action::HoldReply(gate.clone()),
        ["slow", milliseconds] => Action::Slow(Duration::from_millis(milliseconds.parse().unwrap())),
        _ => panic!("there is no action {named}"),
    }
}

/// Checks what a command printed, with `\n` as a line end, and that it ended with code 0 unless another is named.
fn check(finished: &Finished, expected: &[&str]) {
    let Finished { code, stdout, stderr } = finished;
    let shown = format!("code {code}, stdout:\n{stdout}\nstderr:\n{stderr}");
    let last = || {
        serde_json::from_str::<Value>(stdout.lines().last().unwrap_or_default()).unwrap_or_else(|_| panic!("{shown}"))
    };
    let (mut codes, mut printed) = ("0", Vec::new());
    for line in expected {
        let (kind, raw) = line.split_once(' ').unwrap_or((line, ""));
        let text = raw.replace("\\n", "\n");
        let is_met = match kind {
            // All lines of stdout.
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
            // An error of one line that contains the text, and nothing else, except how long a slow machine takes to open.
            "refused" => {
                let text;
                (codes, text) = raw.split_once(' ').unwrap();
                let said: Vec<_> = stderr.lines().filter(|line| !line.starts_with("opening ")).collect();
                stdout.is_empty() && matches!(said[..], [line] if line.starts_with("error: ") && line.contains(text))
            }
            // Members of the object on the last line.
            "json" => has_members(&last(), raw),
            // Members of its object `anchor`.
            "anchor" => has_members(&last()["anchor"], raw),
            // The files that a run could not process.
            "failed" => failed(&last()) == raw.split(' ').collect::<Vec<_>>(),
            _ => panic!("there is no expectation {kind}"),
        };
        assert!(is_met, "{line}\n{shown}");
    }
    assert!(codes.split('|').any(|expected| expected.parse() == Ok(*code)), "expected code {codes}\n{shown}");
    assert!(printed.is_empty() || printed == stdout.lines().collect::<Vec<_>>(), "expected {printed:#?}\n{shown}");
}

fn has_members(found: &Value, expected: &str) -> bool {
    let expected: serde_json::Map<String, Value> = serde_json::from_str(expected).unwrap();
    expected.iter().all(|(key, value)| found[key] == *value)
}
