//! The prompt of `asap sql` on a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use serde_json::json;

use crate::common::Workplace;
use crate::runs::place::wait_until;

struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    process: Child,
    /// The bytes of the screen that were examined.
    seen: usize,
}

impl Terminal {
    fn start(workplace: &Workplace, arguments: &[&str]) -> Self {
        Self::with(workplace, arguments, 200)
    }

    fn with(workplace: &Workplace, arguments: &[&str], columns: u16) -> Self {
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = workplace.command(arguments);
        command.env("XDG_STATE_HOME", workplace.path("state")).env("TERM", "xterm");
        let process = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let mut shown = File::from(pty.master.try_clone().unwrap());
        let screen = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read fails when the process has ended.
            while let Ok(read @ 1..) = shown.read(&mut bytes) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { keyboard: File::from(pty.master), screen, process, seen: 0 }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows a text after the last awaited one.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            let plain = self.plain();
            if let Some(place) = plain.get(self.seen..).and_then(|rest| rest.find(text)) {
                self.seen += place + text.len();
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no '{text}' in:\n{plain}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns what was written to the screen, without escape sequences.
    fn plain(&self) -> String {
        let escapes = regex::Regex::new("\x1b\\[[0-9;?]*[a-zA-Z]").unwrap();
        escapes.replace_all(&self.screen.lock().unwrap(), "").into_owned()
    }

    /// Types a line and waits for what it shows.
    #[track_caller]
    fn line(&mut self, typed: &str, shown: &[&str]) {
        self.press(&format!("{typed}\r"));
        shown.iter().for_each(|text| self.wait_for(text));
        self.wait_for("> ");
    }
}

#[test]
fn the_prompt_helps_and_remembers() {
    let workplace = Workplace::new();
    let rows = "SELECT 'two?' AS question, '2 and 2' AS cot, 'four' AS answer";
    workplace.copy(rows, "in/a.parquet");
    let line = r#"{"question":"two?","cot":"2 and 3","answer":"five"}"#;
    workplace.write("a.jsonl", line);
    let mut terminal = Terminal::start(&workplace, &["sql", "--from", "in", "--maxrows", "5"]);
    terminal.wait_for("> ");
    terminal.line("SELECT 40 + 2 AS n;", &["| 42 |"]);
    terminal.line("\\d", &["corpus"]);
    terminal.line("\\d corpus", &["source_cot", "Utf8"]);
    terminal.line("\\h", &["cot_surprisal", "surprisal"]);
    terminal.line("\\h cot_select", &["cot_select(steps, kept)", "kept:", "select cot_select"]);
    terminal.line("\\h nothing", &["there is no function nothing"]);
    terminal.line("\\x", &["column by column"]);
    terminal.line("SELECT question, cot FROM corpus;", &["-[ row 1 ]-", "question | two?", "cot      | 2 and 2"]);
    terminal.line("SELECT cot FROM cot_corpus('a.jsonl');", &["cot | 2 and 3"]);
    let several = "SELECT 1 AS one; SELECT value FROM range(7);";
    terminal
        .line(several, &["-[ row 1 ]-", "one | 1", "-[ row 5 ]-", "value | 4", "7 row(s) fetched. (First 5 displayed"]);
    terminal.line("\\x", &["rows are a table"]);
    terminal.line("SELECT no_such FROM corpus;", &["error: ", "no_such"]);
    terminal.line("\\nothing", &["there is no command \\nothing"]);
    // After an error, the next line starts a new statement.
    terminal.line("SELCT 1;", &["error: SQL: ", "SELCT"]);
    terminal.line("SELECT 41 + 2 AS n;", &["| 43 |"]);
    // An incomplete statement shows a continuation prompt, until it ends or is dropped.
    terminal.press("SELECT ';' ||\r");
    terminal.wait_for("a semicolon ends the statement");
    terminal.press("'\r");
    terminal.wait_for("a semicolon ends the statement");
    terminal.line("|' AS n;", &["| ;", "| |"]);
    terminal.press("SELECT 1 +\r");
    terminal.wait_for("a semicolon ends the statement");
    terminal.press("\x03");
    terminal.wait_for("> ");
    terminal.line("SELECT 43 + 1 AS n;", &["| 44 |"]);
    // An incomplete statement does not swallow commands.
    terminal.press("SELECT 1\r");
    terminal.line("\\?", &["functions of asap"]);
    // Names of columns, functions and tables complete.
    terminal.press("SELECT source_que\t");
    terminal.wait_for("source_question");
    terminal.press(" FROM corp\t;\r");
    terminal.wait_for("two?");
    terminal.wait_for("> ");
    terminal.press("\\q\r");
    assert!(terminal.process.wait().unwrap().success());
    let history = std::fs::read_to_string(workplace.path("state/asap/history")).unwrap();
    assert!(history.contains("SELECT 40 + 2 AS n;") && history.contains("source_question"), "{history}");
    assert!(!workplace.path(".history").exists());
    // The next session has the history.
    let mut terminal = Terminal::start(&workplace, &["sql"]);
    terminal.wait_for("> ");
    terminal.press("\x1b[A\x1b[A");
    terminal.wait_for("source_question");
    terminal.press("\x15exit\r");
    assert!(terminal.process.wait().unwrap().success());
}

/// On a single core, which the query fully uses.
#[test]
fn a_long_query_shows_how_far_it_is_and_can_be_interrupted() {
    let workplace = Workplace::new();
    compute_on_one_core();
    let sql = "SELECT max(cot_similarity(repeat(md5(CAST(value AS VARCHAR)), 150), repeat(md5(CAST(value + 1 AS VARCHAR)), 150))) FROM range(80000)";
    let mut terminal = Terminal::with(&workplace, &["sql", "-c", sql], 36);
    terminal.wait_for("reading");
    terminal.wait_for(" rows");
    let pid = nix::unistd::Pid::from_raw(terminal.process.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    terminal.wait_for("a second signal ends the process immediately");
    terminal.wait_for("reading");
    // Messages appear above the bar, which fits the terminal.
    let screen = terminal.plain();
    let lines: Vec<&str> = screen.split(['\r', '\n']).collect();
    assert!(lines.iter().any(|line| line.starts_with("interrupted: ")), "{lines:?}");
    let bars: Vec<&&str> = lines.iter().filter(|line| line.contains("rows")).collect();
    assert!(!bars.is_empty() && bars.iter().all(|line| line.chars().count() <= 36), "{bars:?}");
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(terminal.process.wait().unwrap().code(), Some(130));
}

/// Restricts this thread, and the processes that it starts from now on, to one core.
fn compute_on_one_core() {
    #[cfg(target_os = "linux")]
    {
        use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
        let this_thread = nix::unistd::Pid::from_raw(0);
        let all = sched_getaffinity(this_thread).unwrap();
        let mut one = CpuSet::new();
        one.set((0..CpuSet::count()).find(|core| all.is_set(*core).unwrap()).unwrap()).unwrap();
        sched_setaffinity(this_thread, &one).unwrap();
    }
}

#[test]
fn opening_what_takes_long_is_reported() {
    let workplace = Workplace::new();
    // The server accepts every call and answers none.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let location = format!("http://{}/slow.jsonl", server.local_addr().unwrap());
    let mut terminal = Terminal::start(&workplace, &["inspect", &location]);
    terminal.wait_for("opening");
    terminal.wait_for("slow.jsonl");
    terminal.process.kill().unwrap();
    terminal.process.wait().unwrap();
}

#[test]
fn steps_for_a_trainer_are_not_written_to_a_terminal() {
    let workplace = Workplace::new();
    let mut terminal = Terminal::start(&workplace, &["feed", "--data", "data/sample", "--model", "small"]);
    terminal.wait_for("error: asap feed writes Arrow batches, but stdout is a terminal");
    assert_eq!(terminal.process.wait().unwrap().code(), Some(2));
}

/// Runs a command on a terminal with this many columns, and returns the lines that it shows.
fn shown_on(columns: u16, workplace: &Workplace, arguments: &[&str]) -> Vec<String> {
    let mut terminal = Terminal::with(workplace, arguments, columns);
    assert!(terminal.process.wait().unwrap().success());
    // The last bytes may still be on their way.
    std::thread::sleep(Duration::from_millis(200));
    terminal.plain().lines().map(str::to_string).collect()
}

#[test]
fn tables_fit_the_terminal_and_are_never_cut_elsewhere() {
    let workplace = Workplace::new();
    let sql = "SELECT 7 AS n, repeat(E'one step\n\n', 30) || 'end' AS cot, repeat('wide ', 40) AS question";
    let query = ["sql", "-c", sql];
    let is_within = |lines: &[String], width| lines.iter().all(|line| line.trim_end().chars().count() <= width);
    let cut = shown_on(70, &workplace, &query);
    let row = &cut[3];
    assert!(row.starts_with("| 7 | one step") && row.matches('…').count() == 2 && is_within(&cut[..5], 70), "{cut:?}");
    assert!(cut[5].contains("Use --wide to show all"), "{cut:?}");
    // With little room, rows are shown column by column.
    let cut = shown_on(25, &workplace, &query);
    assert!(
        cut[1] == "n        | 7" && cut[2].starts_with("cot      | one step") && is_within(&cut[..4], 25),
        "{cut:?}"
    );
    let is_whole = |text: &str| text.contains(&"wide ".repeat(40)) && !text.contains('…');
    assert!(is_whole(&shown_on(70, &workplace, &["sql", "-c", sql, "--wide"]).concat()));
    assert!(is_whole(workplace.run(query).ok()));
    workplace.run(["run", "truncate", "--from", "data/trace.jsonl", "--to", "out"]).ok();
    let history = shown_on(90, &workplace, &["table", "history", "out"]);
    assert!(is_within(&history, 90) && history.concat().contains('…'), "{history:?}");
    assert!(!workplace.run(["table", "history", "out"]).ok().contains('…'));
}

/// A text may ask a terminal to set its title or its clipboard, to clear its screen, or to write backwards.
const SPEAKS: &str = "\u{1b}]0;evil\u{7} \u{1b}[2J \u{9b}31m \u{202e}live \u{2066}so";
const SILENT: &str = "␛]0;evil␇ ␛[2J ⟨U+009B⟩31m ⟨U+202E⟩live ⟨U+2066⟩so";

#[test]
fn text_of_a_corpus_does_not_speak_to_the_terminal() {
    let workplace = Workplace::new();
    let row = json!({"question": SPEAKS, "cot": format!("One {SPEAKS}.\n\nTwo."), "answer": SPEAKS, SPEAKS: "x"});
    workplace.write("in/a.jsonl", format!("{row}\n").repeat(2));
    workplace.write(&format!("names/{SPEAKS}.jsonl"), "{\"n\": 1}\n");
    let one = "SELECT question FROM corpus";
    let thrown = format!("SELECT CAST('{SPEAKS}' AS INT)");
    let column = format!("SELECT \"{SPEAKS}\" FROM corpus");
    for arguments in [
        &["sql", "--from", "in", "-c", one][..],
        &["sql", "--from", "in", "--wide", "-c", "SELECT * FROM corpus"],
        &["sql", "--from", "in", "--format", "csv", "-c", one],
        &["sql", "--from", "in", "--format", "json", "-c", one],
        &["sql", "-c", &thrown],
        &["sql", "--from", "in", "-c", &column],
        &["inspect", "in"],
        &["inspect", "names"],
        &["table", "status", SPEAKS],
        &["run", "truncate", "--from", "in", "--to", "out", SPEAKS],
        &["run", "truncate", "--from", SPEAKS, "--to", "out"],
    ] {
        let mut terminal = Terminal::start(&workplace, arguments);
        wait_until("the end of the command", || terminal.process.try_wait().unwrap().is_some());
        wait_until("its text", || terminal.plain().contains("live"));
        let screen = terminal.screen.lock().unwrap().clone();
        let speaks = ["\u{1b}]0", "\u{7}", "\u{1b}[2J", "\u{9b}", "\u{202e}", "\u{2066}"];
        let spoken: Vec<&str> = speaks.into_iter().filter(|part| screen.contains(part)).collect();
        assert!(spoken.is_empty(), "{arguments:?} writes {spoken:?}: {screen:?}");
        // A message may quote a name with escapes.
        assert!(
            ["⟨U+202E⟩live", "\\u{202e}live"].iter().any(|shown| screen.contains(shown)),
            "{arguments:?}: {screen:?}"
        );
    }
    let mut terminal = Terminal::start(&workplace, &["sql", "--from", "in", "--format", "csv", "-c", one]);
    terminal.wait_for(SILENT);
    // Elsewhere, bytes stay as they are, on each stream alone.
    let found = workplace.run(["sql", "-q", "--from", "in", "--format", "csv", "-c", one]);
    assert!(found.ok().contains(SPEAKS), "{found:?}");
    workplace.run(["sql", "-c", &thrown]).ends(1, &[SPEAKS]);
}
