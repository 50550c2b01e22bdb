//! The time that a child uses.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// The unit in which the kernel shows processor time, on all machines.
const TICK: Duration = Duration::from_millis(10);

/// Time of processors, and time asleep. Waiting for a processor takes none of it, so that it does not depend on what else
/// the machine does.
pub(crate) struct Clock {
    child: u32,
    processor: Duration,
    asleep: Duration,
    looked: Instant,
    pub(crate) threads: u64,
}

impl Clock {
    pub(crate) fn start(child: u32) -> io::Result<Self> {
        let (processor, asleep) = (Duration::ZERO, Duration::ZERO);
        let mut clock = Self { child, processor, asleep, looked: Instant::now(), threads: 0 };
        clock.look(false)?;
        Ok(clock)
    }

    pub(crate) fn time(&self) -> Duration {
        self.processor + self.asleep
    }

    /// Looks at the child, which must not have been waited for. A child that waits until asap reads does not count as
    /// asleep.
    pub(crate) fn look(&mut self, waits_for_asap: bool) -> io::Result<()> {
        let process = Stat::read(&format!("/proc/{}/stat", self.child))?;
        let (now, processor) = (Instant::now(), process.processor);
        let is_asleep = !waits_for_asap && process.is_asleep && (process.threads == 1 || self.all_asleep()?);
        if is_asleep {
            self.asleep += (now - self.looked).saturating_sub(processor.saturating_sub(self.processor));
        }
        (self.processor, self.threads) = (processor, process.threads);
        self.looked = now;
        Ok(())
    }

    /// A thread may end meanwhile.
    fn all_asleep(&self) -> io::Result<bool> {
        for thread in fs::read_dir(format!("/proc/{}/task", self.child))? {
            let stat = thread?.path().join("stat");
            if Stat::read(&stat.to_string_lossy()).is_ok_and(|stat| !stat.is_asleep) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What the kernel shows of a process or a thread.
struct Stat {
    is_asleep: bool,
    processor: Duration,
    threads: u64,
}

impl Stat {
    fn read(path: &str) -> io::Result<Self> {
        let text = fs::read(path)?;
        Self::of(&String::from_utf8_lossy(&text)).ok_or_else(|| io::Error::other(format!("cannot read {path}")))
    }

    /// The name stands in parentheses and may hold any character.
    fn of(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |place: usize| fields.get(place)?.parse::<u32>().ok();
        // Running, or waiting for a disk: such as memory that was swapped out.
        let is_asleep = !matches!(*fields.first()?, "R" | "D");
        Some(Self { is_asleep, processor: TICK * (number(11)?.checked_add(number(12)?)?), threads: number(17)?.into() })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{Clock, Stat};

    /// A child, looked at for half a second.
    fn watched(script: &str, waits_for_asap: bool) -> Duration {
        let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap();
        let (mut clock, begun) = (Clock::start(child.id()).unwrap(), Instant::now());
        while begun.elapsed() < Duration::from_millis(500) {
            thread::sleep(Duration::from_millis(20));
            clock.look(waits_for_asap).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        clock.time()
    }

    #[test]
    fn computing_and_sleeping_take_time_and_waiting_for_asap_takes_none() {
        assert!(watched("exec sleep 5", false) > Duration::from_millis(250));
        assert!(watched("exec sleep 5", true) < Duration::from_millis(100));
        assert!(watched("while :; do :; done", true) > Duration::ZERO);
    }

    #[test]
    fn a_name_cannot_forge_what_follows_it() {
        let text = "7 (a) R 1 (b) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18";
        let stat = Stat::of(text).unwrap();
        assert!(stat.is_asleep && stat.processor == Duration::from_millis(250) && stat.threads == 18);
        assert!(Stat::of("7 (a) R 1").is_none() && Stat::of("").is_none());
    }
}
