//! One run of a job in its own process. Its stderr is passed on and its summary is kept.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::jobs::Job;
use crate::output::complain;
use crate::program;

/// Runs `asap run` with a job's arguments to its end. Returns the exit code, or 128 plus the signal that ended it,
/// and the summary, if any. The child gets each of the signals.
pub(super) async fn run(job: &Job, signals: watch::Receiver<Option<Signal>>) -> std::io::Result<(i32, Option<Value>)> {
    let mut command = Command::from(program::process()?);
    command.arg("run").args(&job.arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C on a terminal goes only to the scheduler, which passes it on once.
    command.process_group(0);
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut summary = None;
    let talk = for_each_line(stderr, |line| complain(&format!("{}: {line}", job.name)));
    let data = for_each_line(stdout, |line| summary = Some(line.to_string()));
    let (status, talk, data) = tokio::join!(wait(&mut child, signals), talk, data);
    talk.and(data)?;
    Ok((code(status?), summary.and_then(|line| serde_json::from_str(&line).ok())))
}

async fn wait(child: &mut Child, mut signals: watch::Receiver<Option<Signal>>) -> std::io::Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status,
            // The sender lives as long as the scheduler, which waits for its jobs.
            Ok(()) = signals.changed() => {
                if let Some(id) = child.id() {
                    let signal = *signals.borrow_and_update();
                    kill(Pid::from_raw(id.cast_signed()), signal)?;
                }
            }
        }
    }
}

async fn for_each_line(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&str)) -> std::io::Result<()> {
    let Some(stream) = stream else { return Ok(()) };
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await? > 0 {
        take(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        line.clear();
    }
    Ok(())
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
