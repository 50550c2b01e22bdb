//! Runs `tests/it/cases/*.txt`, each case as a test of its own: commands, queries and runs, each with what comes of it.
//! `tests/README.md` explains the language. `UPDATE=1` renews the expected output in the files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "the other tests use the rest")]
mod common;
#[path = "cases/expect.rs"]
mod expect;
#[path = "cases/renew.rs"]
mod renew;
#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "runs/of_cases.rs"]
mod runs;
#[path = "cases/scene.rs"]
mod scene;
#[path = "cases/servers.rs"]
mod servers;
#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::common::root;
use crate::runs::place::Place;
use crate::scene::Scene;

struct Case {
    heading: &'static str,
    places: Vec<&'static str>,
    statements: Vec<Statement>,
}

pub(crate) struct Statement {
    pub file: &'static str,
    pub line: usize,
    pub verb: &'static str,
    pub rest: &'static str,
    /// The indented lines, with their numbers.
    pub below: Vec<(usize, &'static str)>,
}

thread_local! {
    /// The message of the panic that ended the case of this thread; None outside of cases.
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of the time of a case is the start of processes.
    arguments.test_threads.get_or_insert(2 * std::thread::available_parallelism().map_or(1, usize::from));
    let files: &'static [&'static [Case]] = read().leak();
    keep_messages();
    let explained = move || files.iter().copied().flatten().try_for_each(explained);
    let page = Trial::test("the_page_explains_the_language", explained);
    let trials = files.iter().flat_map(|cases| trials(cases)).chain([page]);
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    renew::write();
    conclusion.exit_code()
}

/// The cases of each file. They live as long as the tests.
fn read() -> Vec<&'static [Case]> {
    let folder = root().join("tests/it/cases").read_dir().unwrap();
    let mut paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "txt"));
    paths.sort();
    let cases = |path: PathBuf| -> &'static [Case] {
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        parse(name.leak(), std::fs::read_to_string(&path).unwrap().leak()).leak()
    };
    paths.into_iter().map(cases).collect()
}

/// Keeps the message of a panic in the thread of a case for its report.
fn keep_messages() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        MESSAGE.with_borrow_mut(|message| match message {
            Some(message) => *message = info.to_string(),
            None => usual(info),
        });
    }));
}

fn parse(file: &'static str, text: &'static str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with("# ")) {
        let (number, place) = (index + 1, format!("{file}.txt:{}", index + 1));
        if let Some(heading) = line.strip_prefix("## ") {
            let named = heading.strip_suffix(']').and_then(|heading| heading.rsplit_once(" ["));
            let (heading, places) = named.unwrap_or((heading, "here"));
            cases.push(Case { heading, places: places.split(' ').collect(), statements: Vec::new() });
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("{place} belongs to no case"));
        if let Some(below) = line.strip_prefix("  ") {
            let statement = case.statements.last_mut().unwrap_or_else(|| panic!("{place} belongs to no statement"));
            statement.below.push((number, below));
        } else {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            case.statements.push(Statement { file, line: number, verb, rest, below: Vec::new() });
        }
    }
    cases
}

fn trials(cases: &'static [Case]) -> impl Iterator<Item = Trial> {
    let tried = cases.iter().filter(|case| !case.heading.starts_with("given "));
    tried.flat_map(move |case| {
        case.places.iter().map(move |place| {
            let file = case.statements.first().map_or("empty", |statement| statement.file);
            let words = case.heading.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
            let mut name = format!("{file}::{}", words.collect::<Vec<_>>().join("_"));
            if case.places.len() > 1 {
                name += &format!("::{place}");
            }
            Trial::test(name, move || run(cases, case, place))
        })
    })
}

fn run(cases: &'static [Case], case: &'static Case, place: &str) -> Result<(), libtest_mimic::Failed> {
    let place = match place {
        "here" => Place::local(),
        "elsewhere" => Place::elsewhere(),
        "s3" => Place::s3(),
        _ => return Err(format!("there is no place {place}: expected here, elsewhere or s3").into()),
    };
    let mut scene = Scene::new(cases, &place);
    MESSAGE.set(Some(String::new()));
    let ended = catch_unwind(AssertUnwindSafe(|| scene.perform_all(case)));
    let message = MESSAGE.take().unwrap_or_default();
    ended.map_err(|_| scene.report(&message).into())
}

/// Fails if `tests/README.md` lacks a statement or an expectation of a case.
fn explained(case: &Case) -> Result<(), libtest_mimic::Failed> {
    let page = std::fs::read_to_string(root().join("tests/README.md")).unwrap();
    for Statement { file, line, verb, below, .. } in &case.statements {
        let kinds = below.iter().filter(|_| scene::EXPECT.contains(verb)).map(|(_, text)| expect::kind(text));
        for word in kinds.chain([*verb]) {
            if ![' ', '`'].iter().any(|end| page.contains(&format!("`{word}{end}"))) {
                return Err(
                    format!("tests/README.md does not explain {word} of tests/it/cases/{file}.txt:{line}").into()
                );
            }
        }
    }
    Ok(())
}
