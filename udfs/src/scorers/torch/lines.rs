//! The lines that a program writes, of which it may write any number of any length.

use std::io::{BufRead, BufReader, ErrorKind, Read};

/// The most bytes of a line that are kept.
const COMPLAINT: usize = 400;

/// Reads lines that are not empty until the pipe ends. Of a line, only the beginning is kept: a program may write
/// gigabytes without a line end. Progress bars end their lines with a carriage return.
pub(super) fn each_line(pipe: impl Read, mut take: impl FnMut(String)) {
    let (mut pipe, mut line) = (BufReader::new(pipe), Vec::new());
    loop {
        let found = match pipe.fill_buf() {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => &[],
        };
        let (is_end, end) = (found.is_empty(), found.iter().position(|byte| matches!(byte, b'\n' | b'\r')));
        let own = &found[..end.unwrap_or(found.len())];
        line.extend_from_slice(&own[..own.len().min(COMPLAINT.saturating_sub(line.len()))]);
        let read = own.len() + usize::from(end.is_some());
        pipe.consume(read);
        if is_end || end.is_some() {
            let text: String = String::from_utf8_lossy(&line).chars().filter(|c| !c.is_control()).collect();
            line.clear();
            if !text.trim().is_empty() {
                take(text);
            }
        }
        if is_end {
            return;
        }
    }
}
