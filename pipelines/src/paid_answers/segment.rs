//! The format of a segment: answers that were stored together, in one object that is written once.
//!
//! ```text
//! header   16 bytes                "asapans" 7 | version 1 | check 8
//! table    64 bytes for an answer  key 32 | time 8 | offset 8 | length 4 | answers 4 | check 8
//! bodies                           check 8 | the answer, `length` bytes
//! ```
//!
//! Numbers are little-endian. `time` is when the answer came, in milliseconds since 1970 (UTC). `offset` is where its
//! body begins in the segment. `answers` is how many entries the table has, said by each of them, so that any whole one
//! tells where the table ends. A check is the first 8 bytes of a SHA-256: of all that stands before it in the header or
//! in the entry; of a body, over key and answer.
//!
//! The table stands first, so that a folder is opened without reading its answers, and bodies stand in its order. A
//! segment that was cut short keeps the answers before the cut; a changed byte costs at most the answer that it belongs
//! to. What fails its check is never returned.

use std::ops::Range;

use asap_udfs::llm::store::RequestKey;
use sha2::{Digest, Sha256};

/// The most answers that are stored together: the table of a full group is read at once.
pub const GROUP_ANSWERS: usize = 64;

const MAGIC: &[u8] = b"asapans";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 64;
const CHECK_BYTES: usize = 8;

type Check = [u8; CHECK_BYTES];

/// An answer to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it is found by.
    pub key: RequestKey,
    /// When it came, in milliseconds since 1970 (UTC).
    pub time: i64,
    /// The answer.
    pub answer: Vec<u8>,
}

/// An entry of a segment's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What the answer is found by.
    pub key: RequestKey,
    /// When it came, in milliseconds since 1970 (UTC).
    pub time: i64,
    /// Where its body begins, in bytes.
    pub offset: u64,
    /// Bytes of the answer.
    pub length: u32,
}

impl Entry {
    /// The body's bytes in the segment.
    pub fn body(&self) -> Range<u64> {
        body(self.offset, self.length)
    }
}

/// The bytes of a body that begins at `offset` and holds an answer of `length` bytes.
pub fn body(offset: u64, length: u32) -> Range<u64> {
    offset..offset.saturating_add(CHECK_BYTES as u64 + u64::from(length))
}

/// What the beginning of a segment tells.
#[derive(Debug, PartialEq, Eq)]
pub enum Table {
    /// The entries whose bodies are in the segment.
    Read {
        /// In the order of the bodies.
        entries: Vec<Entry>,
        /// Whether something of header, table or bodies is missing or changed. A changed byte in a body shows only
        /// when the body is read.
        torn: bool,
    },
    /// A later version of asap wrote the segment.
    Newer,
}

/// Bytes of header and table for so many answers.
pub const fn table_bytes(answers: usize) -> usize {
    HEADER_BYTES + ENTRY_BYTES * answers
}

/// The entries of records, in their order.
pub fn entries(records: &[Record]) -> Vec<Entry> {
    let mut offset = table_bytes(records.len()) as u64;
    let entry = |record: &Record| {
        let entry = Entry { key: record.key, time: record.time, offset, length: record.answer.len() as u32 };
        offset = entry.body().end;
        entry
    };
    records.iter().map(entry).collect()
}

/// A segment of records, each of whose answers has less than 4 GiB.
pub fn encode(records: &[Record]) -> Vec<u8> {
    let entries = entries(records);
    let mut segment = Vec::with_capacity(entries.last().map_or(HEADER_BYTES, |entry| entry.body().end as usize));
    segment.extend_from_slice(MAGIC);
    segment.push(VERSION);
    seal(&mut segment, 0);
    for entry in &entries {
        let start = segment.len();
        segment.extend_from_slice(&entry.key);
        segment.extend_from_slice(&entry.time.to_le_bytes());
        segment.extend_from_slice(&entry.offset.to_le_bytes());
        segment.extend_from_slice(&entry.length.to_le_bytes());
        segment.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        seal(&mut segment, start);
    }
    for record in records {
        segment.extend_from_slice(&check(&[&record.key, &record.answer]));
        segment.extend_from_slice(&record.answer);
    }
    segment
}

/// How many bytes of a segment hold its header and table, as far as its first bytes tell.
pub fn table_end(head: &[u8]) -> u64 {
    let first = head.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES).find_map(parse);
    first.map_or(0, |(_, answers)| table_bytes(answers as usize) as u64)
}

/// Reads the table of a segment of `size` bytes from its first bytes.
pub fn table(head: &[u8], size: u64) -> Table {
    let header_is_whole = match parse_header(head) {
        Some(version) if version != VERSION => return Table::Newer,
        version => version.is_some(),
    };
    let mut entries = Vec::new();
    let mut answers = None;
    for (index, bytes) in head.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES).enumerate() {
        if answers.is_some_and(|answers| index >= answers) {
            break;
        }
        let Some((entry, of_all)) = parse(bytes) else { continue };
        answers = Some(of_all as usize);
        if entry.body().end <= size {
            entries.push(entry);
        }
    }
    let torn = !header_is_whole || answers != Some(entries.len());
    Table::Read { entries, torn }
}

/// The answer in a body, if it is the whole answer to `key`.
pub fn answer<'a>(key: &RequestKey, body: &'a [u8]) -> Option<&'a [u8]> {
    let (held, answer) = body.split_first_chunk()?;
    (*held == check(&[key, answer])).then_some(answer)
}

/// The version in a header, if the header is whole.
fn parse_header(head: &[u8]) -> Option<u8> {
    let (said, held) = head.get(..HEADER_BYTES)?.split_last_chunk()?;
    let (version, magic) = said.split_last()?;
    (magic == MAGIC && *held == check(&[said])).then_some(*version)
}

/// An entry and the number of entries that its table has, if the entry is whole.
fn parse(bytes: &[u8]) -> Option<(Entry, u32)> {
    let (said, held) = bytes.split_last_chunk()?;
    if *held != check(&[said]) {
        return None;
    }
    let (key, said) = said.split_first_chunk()?;
    let (time, said) = said.split_first_chunk()?;
    let (offset, said) = said.split_first_chunk()?;
    let (length, answers) = said.split_first_chunk()?;
    let entry = Entry {
        key: *key,
        time: i64::from_le_bytes(*time),
        offset: u64::from_le_bytes(*offset),
        length: u32::from_le_bytes(*length),
    };
    Some((entry, u32::from_le_bytes(answers.try_into().ok()?)))
}

/// Appends the check of all that stands behind `start`.
fn seal(segment: &mut Vec<u8>, start: usize) {
    let check = check(&[&segment[start..]]);
    segment.extend_from_slice(&check);
}

fn check(parts: &[&[u8]]) -> Check {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    let mut check = Check::default();
    check.copy_from_slice(&hash.finalize()[..CHECK_BYTES]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let record = (any::<RequestKey>(), 0..i64::MAX, prop::collection::vec(any::<u8>(), 0..40));
        prop::collection::vec(record.prop_map(|(key, time, answer)| Record { key, time, answer }), 1..6)
    }

    /// What a reader gets from a segment.
    fn decode(segment: &[u8]) -> (Vec<Record>, bool) {
        let head = &segment[..segment.len().min(table_end(segment) as usize)];
        let Table::Read { entries, torn } = table(head, segment.len() as u64) else { panic!("newer") };
        let read = |entry: &Entry| {
            let body = &segment[entry.body().start as usize..entry.body().end as usize];
            let answer = answer(&entry.key, body)?.to_vec();
            Some(Record { key: entry.key, time: entry.time, answer })
        };
        (entries.iter().filter_map(read).collect(), torn)
    }

    /// Where each body lies.
    fn bodies(segment: &[u8]) -> Vec<Range<usize>> {
        let Table::Read { entries, .. } = table(segment, segment.len() as u64) else { panic!("newer") };
        entries.iter().map(|entry| entry.body().start as usize..entry.body().end as usize).collect()
    }

    #[test]
    fn a_later_version_is_not_read() {
        let mut segment = encode(&[Record { key: [7; 32], time: 1, answer: b"yes".to_vec() }]);
        assert!(matches!(table(&segment, segment.len() as u64), Table::Read { torn: false, .. }));
        segment[MAGIC.len()] = VERSION + 1;
        let held = check(&[&segment[..8]]);
        segment[8..16].copy_from_slice(&held);
        assert_eq!(table(&segment, segment.len() as u64), Table::Newer);
    }

    #[test]
    fn bytes_that_are_no_segment_hold_nothing() {
        for bytes in [&[][..], &[0; 5000], &[255; 80], b"asapans"] {
            assert_eq!(decode(bytes), (vec![], true));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_segment_cut_anywhere_keeps_the_answers_before_the_cut(records in records()) {
            let segment = encode(&records);
            prop_assert_eq!(decode(&segment), (records.clone(), false));
            let bodies = bodies(&segment);
            for length in 0..segment.len() {
                let whole = bodies.iter().filter(|body| body.end <= length).count();
                prop_assert_eq!(decode(&segment[..length]), (records[..whole].to_vec(), true));
            }
        }

        #[test]
        fn a_changed_byte_costs_at_most_the_answer_that_it_belongs_to(records in records(), change in 1..=255u8) {
            let mut segment = encode(&records);
            let bodies = bodies(&segment);
            for at in 0..segment.len() {
                segment[at] ^= change;
                let mut kept = records.clone();
                let lost = match at.checked_sub(HEADER_BYTES) {
                    Some(behind) if at < bodies[0].start => Some(behind / ENTRY_BYTES),
                    _ => bodies.iter().position(|body| body.contains(&at)),
                };
                lost.map(|lost| kept.remove(lost));
                let (read, torn) = decode(&segment);
                prop_assert_eq!(read, kept);
                prop_assert_eq!(torn, at < bodies[0].start);
                segment[at] ^= change;
            }
        }
    }
}
