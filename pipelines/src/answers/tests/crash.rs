//! Kills a writer at different moments: every answer whose `keep` returned must be found.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use url::Url;

use crate::answers::AnswerFolder;
use crate::answers::tests::{assert_holds, folder, get, keep};

/// The first number that a writer writes, and its folder.
const WRITER: &str = "ASAP_TEST_WRITER";
const KEPT: &str = "kept ";

/// Not a test: the process that the next test kills.
#[tokio::test(flavor = "multi_thread")]
async fn writer() {
    let Ok(task) = std::env::var(WRITER) else { return };
    let (first, url) = task.split_once(' ').unwrap();
    let (next, url) = (AtomicU64::new(first.parse().unwrap()), Url::parse(url).unwrap());
    let store = AnswerFolder::open(&url).await.unwrap();
    let write = async || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            keep(&store, [number]).await;
            std::io::stdout().write_all(format!("\n{KEPT}{number}\n").as_bytes()).unwrap();
        }
    };
    join_all((0..100).map(|_| write())).await;
}

#[tokio::test]
async fn a_killed_writer_loses_nothing_that_it_kept() {
    let (_folder, url) = folder();
    let mut kept = Vec::new();
    for (round, until) in [1, 40, 64, 65, 130, 300].into_iter().enumerate() {
        let first = 1_000_000 * (round as u64 + 1);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["answers::tests::crash::writer", "--exact", "--nocapture"])
            .env(WRITER, format!("{first} {url}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut seen = 0;
        let mut said = String::new();
        while seen < until {
            let start = said.len();
            assert_ne!(lines.read_line(&mut said).unwrap(), 0, "the writer ended by itself: {said}");
            seen += usize::from(said[start..].starts_with(KEPT));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        lines.read_to_string(&mut said).unwrap();
        let numbers = said.lines().filter_map(|line| line.strip_prefix(KEPT)?.parse::<u64>().ok());
        let before = kept.len();
        kept.extend(numbers);
        assert!(kept.len() >= before + until);
        let store = AnswerFolder::open(&url).await.unwrap();
        assert_holds(&get(&store, kept.iter().copied()).await);
    }
}
