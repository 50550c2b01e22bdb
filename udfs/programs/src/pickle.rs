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
    fn pickles_of_one_text_are_read_and_others_refused() {
        for line in include_str!("../tests/it/pickles.jsonl").lines() {
            // Each character stands for a byte.
            let (pickle, expected, why): (String, Option<String>, String) = serde_json::from_str(line).unwrap();
            let pickle: Vec<u8> = pickle.chars().map(|byte| u8::try_from(byte).unwrap()).collect();
            assert_eq!(text(&pickle).ok(), expected, "{why}");
        }
    }
}
