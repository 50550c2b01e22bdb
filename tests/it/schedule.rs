//! `asap schedule` from the user's view: runs, reports, signals, restarts, refusals.

mod plan;
mod times;

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::common::{Finished, Workplace};
use asap_test_support::{Reply, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const QUICK: &str = "cron = '* * * * * *'\npipeline = 'pipelines/sql/truncate.sql'\nfrom = 'in'\n\
                     set = { 'scorer.model' = 'tests/goldens/qwen2' }\n";

fn workplace(jobs: &str) -> Workplace {
    let workplace = Workplace::new();
    workplace.copy("SELECT 'q' AS question, E'one step\\n\\ntwo steps' AS cot, 'a' AS answer", "in/rows.parquet");
    workplace.write("jobs.toml", jobs);
    workplace
}

pub(crate) struct Scheduler {
    child: Child,
    reports: Receiver<String>,
    talk: Receiver<String>,
}

impl Scheduler {
    pub(crate) fn start(workplace: &Workplace) -> Self {
        let mut command = workplace.command(["schedule", "jobs.toml"]);
        command.env("XDG_STATE_HOME", workplace.path("state")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let reports = lines(child.stdout.take().unwrap());
        let talk = lines(child.stderr.take().unwrap());
        Self { child, reports, talk }
    }

    pub(crate) fn report(&self) -> Value {
        serde_json::from_str(&self.reports.recv().unwrap()).unwrap()
    }

    /// Reads its output up to a line with `part`.
    #[track_caller]
    fn says(&self, part: &str) {
        let mut said = Vec::new();
        while !said.last().is_some_and(|line: &String| line.contains(part)) {
            said.push(self.talk.recv().unwrap_or_else(|_| panic!("{part} in {said:#?}")));
        }
    }

    /// Waits until one of its jobs calls the server.
    fn asks(&mut self, server: &Server) {
        while server.count() == 0 {
            assert!(self.child.try_wait().unwrap().is_none(), "{:#?}", self.talk.iter().collect::<Vec<_>>());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    fn children(&self) -> Vec<Pid> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let children = threads.flat_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")));
        let numbers = |children: String| children.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>();
        children.flat_map(numbers).map(Pid::from_raw).collect()
    }

    /// Ends it with SIGTERM after its last report.
    pub(crate) fn stop(self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.end(), Vec::<Value>::new());
    }

    /// Waits for its successful end. Returns the remaining reports.
    fn end(mut self) -> Vec<Value> {
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{:#?}", self.talk.iter().collect::<Vec<_>>());
        self.reports.iter().map(|line| serde_json::from_str(&line).unwrap()).collect()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || BufReader::new(stream).lines().try_for_each(|line| sender.send(line.unwrap())));
    receiver
}

/// Suspends all threads of a process.
fn stop(process: Pid) {
    kill(process, Signal::SIGSTOP).unwrap();
    let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    while !std::fs::read_dir(format!("/proc/{process}/task")).unwrap().all(is_stopped) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A language model that holds each request until it gets a signal, and a job that is due every second and calls it.
fn slow() -> (Server, Sender<()>, String) {
    let (go_on, resumed) = channel();
    let resumed = Mutex::new(resumed);
    let server = Server::start(move |_| {
        let _ = resumed.lock().unwrap().recv();
        Reply::text("two steps")
    });
    let job = format!(
        "cron = '* * * * * *'\npipeline = 'pipelines/sql/without_surprisal.sql'\nfrom = 'in'\nto = 'slow'\n\
         [jobs.slow.set.run]\ngrace_seconds = 1\n[jobs.slow.set.anchor]\nprovider = 'openai'\nbase_url = '{}'\nmodel = 'm'\n\
         [jobs.slow.set.scorer]\nmodel = 'tests/goldens/qwen2'\n",
        server.base_url()
    );
    (server, go_on, format!("[jobs.slow]\n{job}"))
}

fn state_file(workplace: &Workplace) -> PathBuf {
    let files = std::fs::read_dir(workplace.path("state/asap/schedule")).unwrap();
    let mut files = files.map(|file| file.unwrap().path()).filter(|path| path.extension().unwrap() == "json");
    let file = files.next().unwrap();
    assert_eq!(files.next(), None);
    file
}

#[test]
fn jobs_run_at_their_times_and_tell_what_became_of_each() {
    let workplace = workplace(&format!(
        "[jobs.a]\nto = 'a'\n{QUICK}[jobs.b]\nto = 'b'\n{QUICK}[jobs.broken]\nto = 'c'\n{}",
        QUICK.replace("'in'", "'nowhere'")
    ));
    let scheduler = Scheduler::start(&workplace);
    let mut reports: Vec<Value> = Vec::new();
    let of = |reports: &[Value], job: &str| reports.iter().filter(|report| report["job"] == job).count();
    while ["a", "b", "broken"].iter().any(|job| of(&reports, job) < 2) {
        reports.push(scheduler.report());
    }
    scheduler.says("broken: error: ");
    scheduler.says("broken: ended with code ");
    scheduler.signal(Signal::SIGINT);
    scheduler.end();
    for job in ["a", "b"] {
        let reports: Vec<_> = reports.iter().filter(|report| report["job"] == job).collect();
        assert!(reports.iter().all(|report| report["code"] == 0), "{reports:?}");
        assert_eq!((&reports[0]["summary"]["to"], &reports[0]["summary"]["rows_out"]), (&job.into(), &1.into()));
        assert_eq!(reports[1]["summary"]["nothing_to_do"], true);
        assert!(reports[0]["started"].as_str() < reports[0]["ended"].as_str());
        assert!(reports[0]["ended"].as_str() <= reports[1]["started"].as_str());
    }
    let broken = reports.iter().find(|report| report["job"] == "broken").unwrap();
    assert!(broken["code"].as_i64().unwrap() > 0 && broken["summary"].is_null(), "{broken}");
}

#[test]
fn a_job_never_runs_next_to_itself_and_catches_up_once() {
    let (server, go_on, slow) = slow();
    let workplace = workplace(&format!("[jobs.quick]\nto = 'quick'\n{QUICK}{slow}"));
    let mut scheduler = Scheduler::start(&workplace);
    scheduler.asks(&server);
    // While `slow` waits for the server, it is due at least as often as `quick`.
    let quick = |report: &Value| assert_eq!(report["job"], "quick");
    (0..2).for_each(|_| quick(&scheduler.report()));
    assert_eq!(server.count(), 1);
    drop(go_on);
    let mut slow: Vec<Value> = Vec::new();
    while slow.len() < 3 {
        slow.extend(Some(scheduler.report()).filter(|report| report["job"] == "slow"));
    }
    scheduler.signal(Signal::SIGTERM);
    scheduler.end();
    assert!(slow.iter().all(|report| report["code"] == 0), "{slow:?}");
    assert!(slow.is_sorted_by(|earlier, later| earlier["ended"].as_str() <= later["started"].as_str()), "{slow:?}");
    assert_eq!((server.most_at_once(), &slow[1]["summary"]["nothing_to_do"]), (1, &true.into()));
}

#[test]
fn a_signal_is_passed_on_and_waited_for_and_a_second_one_kills() {
    for second in [false, true] {
        let (server, _go_on, slow) = slow();
        let workplace = workplace(&slow);
        let mut scheduler = Scheduler::start(&workplace);
        scheduler.asks(&server);
        let [child] = scheduler.children()[..] else { panic!("{:?}", scheduler.children()) };
        if second {
            // A suspended process does not react to SIGTERM.
            stop(child);
        }
        scheduler.signal(Signal::SIGTERM);
        scheduler.says("a second signal kills");
        if second {
            assert_eq!(scheduler.children(), [child]);
            scheduler.signal(Signal::SIGINT);
        }
        let reports = scheduler.end();
        let ([report], code) = (&reports[..], if second { 137 } else { 75 }) else { panic!("{reports:?}") };
        assert_eq!((&report["job"], &report["code"]), (&"slow".into(), &code.into()));
    }
}

#[test]
fn a_second_scheduler_of_a_file_is_refused_while_the_first_lives() {
    let workplace = workplace(&format!("[jobs.a]\nto = 'a'\n{}", QUICK.replace("* * * * * *", "0 0 1 1 *")));
    let first = Scheduler::start(&workplace);
    first.says("a: next at");
    let mut second = workplace.command(["schedule", "./jobs.toml"]);
    let refused = Finished::of(second.env("XDG_STATE_HOME", workplace.path("state")));
    assert_eq!(refused.ends(4, &["another asap schedule runs the jobs of ./jobs.toml"]).stdout, "");

    // Its lock ends with the process.
    drop(first);
    let third = Scheduler::start(&workplace);
    third.says("a: next at");
    third.stop();
}

#[test]
fn what_was_missed_while_no_scheduler_ran_is_made_up_once() {
    let workplace = workplace(&format!("[jobs.yearly]\nto = 'a'\n{}", QUICK.replace("* * * * * *", "0 0 1 1 *")));
    let idle = || {
        let scheduler = Scheduler::start(&workplace);
        scheduler.says("yearly: next at");
        scheduler.stop();
    };
    // A new job does not catch up on missed times, and is remembered from then on.
    idle();
    let state = state_file(&workplace);
    assert!(std::fs::read_to_string(&state).unwrap().contains("yearly"));
    std::fs::write(&state, r#"{"yearly":"2020-06-01T00:00:00Z"}"#).unwrap();

    let scheduler = Scheduler::start(&workplace);
    scheduler.says("yearly: starts, due at 2021-01-01T00:00:00+00:00");
    assert_eq!(scheduler.report()["code"], 0);
    scheduler.says("yearly: done; next at");
    scheduler.stop();
    idle();

    std::fs::write(&state, "yesterday").unwrap();
    workplace.shell("XDG_STATE_HOME=$PWD/state asap schedule jobs.toml").ends(1, &["each job last started"]);
}

#[test]
fn it_ends_when_no_one_reads_its_reports() {
    let workplace = workplace(&format!("[jobs.a]\nto = 'a'\n{QUICK}"));
    let read = workplace.shell("XDG_STATE_HOME=$PWD/state asap schedule jobs.toml | head -n 1");
    assert_eq!(read.json()["job"], "a");
}

fn transcript(workplace: &Workplace, commands: &[&str]) -> String {
    let shown = workplace.transcript(commands);
    let date = regex::Regex::new(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T").unwrap().replace_all(&shown, "20YY-MM-DDT");
    regex::Regex::new(r"\+0[12]:00").unwrap().replace_all(&date, "+0X:00").into_owned()
}

#[test]
fn a_check_tells_the_next_times() {
    let jobs = "[jobs.night]\ncron = '0 2 * * *'\ntimezone = 'Asia/Kolkata'\npipeline = 'mine.sql'\nfrom = 's3://a/'\n\
                to = 's3://b/'\nlimit = 5\ndry-run = false\nset.'refine.max_tokens' = 5\n\
                [jobs.weekly]\ncron = '30 4 * * MON'\npipeline = 'mine.sql'\nfrom = 'a'\nto = 'b'\n";
    let commands = ["asap schedule jobs.toml --check", "asap schedule jobs.toml --check --format json"];
    let workplace = workplace(jobs);
    workplace.write("mine.sql", "SELECT * FROM corpus WHERE level > 3");
    insta::assert_snapshot!(transcript(&workplace, &commands));
    // The dates, which the snapshot masks, follow one another.
    let shown = workplace.run(["schedule", "jobs.toml", "--check", "--format", "json"]).json();
    assert!(shown[0]["next_utc"].as_array().unwrap().is_sorted_by(|a, b| a.as_str() < b.as_str()), "{shown}");
}

#[test]
fn the_example_of_the_help_is_a_jobs_file() {
    let workplace = Workplace::new();
    let help = workplace.run(["schedule", "--help"]);
    let example = help.ok().lines().skip_while(|line| *line != "  [jobs.night]").take_while(|line| !line.is_empty());
    workplace.write("jobs.toml", example.collect::<Vec<_>>().join("\n"));
    let check = workplace.run(["schedule", "jobs.toml", "--check", "--format", "json"]).json();
    assert_eq!((&check[0]["job"], &check[0]["timezone"]), (&"night".into(), &"Europe/Berlin".into()));
}

#[test]
fn each_fault_is_named_by_job_and_key() {
    let jobs = "title = 'mine'\n\
                [jobs.a]\ncron = '0 25 * * *'\ntimezone = 'Europe/Belrin'\npipeline = 'p.sql'\nform = 'in'\nlimit = 0\n\
                slice-rows = 5\ngrace = '1s'\n\
                dry-run = 'yes'\nto = { folder = ['x'] }\ncolumns = [['x']]\npassword = 'sk-0123456789'\n\
                [jobs.b]\npipeline = 'p.sql'\nto = ['out', 'out']\nformat = 'table'\n\
                [jobs.c]\ncron = 5\ntimezone = 1\npipeline = 'p.sql'\n\
                [jobs.d]\ncron = '0 0 30 2 *'\npipeline = 'q.sql'\nfrom = 'in'\nto = 'out'\n\
                [jobs.d.set]\n'anchor.api_key' = 'sk-0123456789'\n'refine.max_tokens' = 'many'\n\
                [jobs.d.set.scorer]\nmodle = 'x'\n";
    let workplace = workplace(jobs);
    workplace.write("p.sql", "");
    workplace.write("empty.toml", "");
    workplace.write("list.toml", "jobs = [1]\n");
    workplace.write("text.toml", "jobs\n");
    workplace.write("value.toml", "jobs.a = 1\n");
    let commands =
        ["jobs", "empty", "list", "text", "value", "no"].map(|name| format!("asap schedule {name}.toml --check"));
    let commands = commands.each_ref().map(String::as_str);
    let shown = transcript(&workplace, &commands);
    assert!(!shown.contains("sk-0123456789"));
    insta::assert_snapshot!(shown);
    // Without --check, the same message appears before anything runs.
    assert_eq!(workplace.shell("asap schedule jobs.toml").code, 2);
}
