//! Commands that messages show to be copied.

use super::redact;

/// A command as a shell reads it, without the secrets of locations. Its words may come from a file that somebody else
/// wrote: the name of a file or of a column must not run a command of its own.
pub fn command(words: &[&str]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let shown = redact(word);
    let is_plain = |scalar: char| scalar.is_alphanumeric() || "/._-:@+=".contains(scalar);
    // Some shells look up a word that begins with `=`.
    if !shown.is_empty() && !shown.starts_with('=') && shown.chars().all(is_plain) {
        return shown;
    }
    match shown.contains('\'') && !shown.contains(['$', '`', '\\', '!']) {
        // SQL is readable so.
        true => format!("\"{}\"", shown.replace('"', "\\\"")),
        false => format!("'{}'", shown.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_each_word_as_it_is() {
        let words = [
            "plain/a-b_c.d:1",
            "",
            "two words",
            "it's",
            "'",
            "''\"",
            "$(touch x)",
            "a'$(touch x)'",
            "`id`",
            "a\\'b",
            "a!b'c",
            "=ls",
            "~",
            "a\nb",
            "*",
            "SELECT \"a\" FROM 'b'",
            "#",
            "ü",
        ];
        for shell in ["sh", "bash"] {
            let script = command(&[&["printf", "%s\\0"], &words[..]].concat());
            let printed = Command::new(shell).args(["-c", &script]).output().unwrap();
            let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
            assert_eq!(String::from_utf8(printed.stdout).unwrap(), expected, "{script}");
        }
        assert_eq!(command(&["asap", "inspect", "s3://user:key@b/a"]), "asap inspect 's3://…@b/a'");
        assert_eq!(command(&["asap", "sql", "-c", "SELECT * FROM 'a'"]), "asap sql -c \"SELECT * FROM 'a'\"");
    }
}
