//! Reads a pickle of one text. LiveCodeBench publishes its private tests as such. Any other content is refused: to read
//! a pickle can run code.

/// Returns the text, or what else was found.
pub(crate) fn text(pickle: &[u8]) -> Result<String, String> {
    let mut rest = pickle;
    let mut found = None;
    loop {
        let [code, tail @ ..] = rest else { return Err("its end is missing".to_string()) };
        rest = tail;
        // The bytes of the operation's argument, or of the argument's length.
        let size = match code {
            b'.' if rest.is_empty() => return found.ok_or_else(|| "it holds nothing".to_string()),
            // MEMOIZE, PROTO and BINPUT, LONG_BINPUT, FRAME.
            0x94 => 0,
            0x80 | b'q' => 1,
            b'r' => 4,
            0x95 => 8,
            // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8.
            0x8c => 1,
            b'X' => 4,
            0x8d => 8,
            other => return Err(format!("it holds the operation {other:#04x}, and only texts are read")),
        };
        let (argument, tail) = rest.split_at_checked(size).ok_or("it is cut off")?;
        rest = tail;
        if matches!(code, 0x8c | b'X' | 0x8d) {
            let mut length = [0; 8];
            length[..size].copy_from_slice(argument);
            let length = usize::try_from(u64::from_le_bytes(length)).map_err(|_| "it is cut off")?;
            let (content, tail) = rest.split_at_checked(length).ok_or("it is cut off")?;
            rest = tail;
            let content = std::str::from_utf8(content).map_err(|_| "its text is not valid UTF-8")?;
            if found.replace(content.to_string()).is_some() {
                return Err("it holds more than one text".to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn texts_of_all_protocols_with_bytes_are_read() {
        let long = [&b"\x80\x04X\x04\x00\x00\x00abcd\x94."[..], b"\x80\x04\x8d\x04\0\0\0\0\0\0\0abcd\x94."];
        let framed = b"\x80\x04\x95\x08\0\0\0\0\0\0\0\x8c\x04abcd\x94.";
        let second = b"\x80\x02X\x04\x00\x00\x00abcdq\x00.";
        for pickle in long.into_iter().chain([&framed[..], &second[..]]) {
            assert_eq!(text(pickle).as_deref(), Ok("abcd"));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        // os.system("id"), a list, two texts, no text, cut off, more after the end.
        for pickle in [
            &b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94."[..],
            b"cos\nsystem\n(S'id'\ntR.",
            b"\x80\x04]\x94.",
            b"\x80\x04\x8c\x01a\x94\x8c\x01b\x94.",
            b"\x80\x04.",
            b"\x80\x04\x8c\x09a",
            b"\x80\x04\x8c\x01a.x",
            b"",
        ] {
            assert!(text(pickle).is_err(), "{pickle:?}");
        }
    }
}
