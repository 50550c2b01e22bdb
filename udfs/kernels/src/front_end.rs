//! The front end of this process, the command or Python: messages spell flags and settings as its users write them.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_PYTHON: AtomicBool = AtomicBool::new(false);

/// Makes all messages from now on spell flags and settings as Python does, or as the command does, which is the default.
pub fn set_python(is_python: bool) {
    IS_PYTHON.store(is_python, Ordering::Relaxed);
}

/// Chooses the words of the front end.
pub fn either<T>(command: T, python: T) -> T {
    if IS_PYTHON.load(Ordering::Relaxed) { python } else { command }
}

/// A flag of a command, perhaps with a value: `--limit 20`, in Python `limit=20`.
#[derive(Debug, Clone, Copy)]
pub struct Flag<'a>(pub &'a str);

/// A setting by its key: `asap.refine.max_tokens`, in Python `refine_max_tokens`.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a>(pub &'a str);

/// The advice to start the same work again. `{:#}` begins a sentence.
#[derive(Debug, Clone, Copy)]
pub struct Again;

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match f.alternate() {
            false => either("run the same command again", "repeat the call"),
            true => either("Run the same command again", "Repeat the call"),
        })
    }
}

impl fmt::Display for Flag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if either(true, false) {
            return f.write_str(self.0);
        }
        let (flag, value) = self.0.split_once(' ').map_or((self.0, None), |(flag, value)| (flag, Some(value)));
        let name = flag.trim_start_matches('-').replace('-', "_");
        match (name.as_str(), value) {
            // A keyword of Python.
            ("from", None) => f.write_str("from_"),
            ("new_generation", None) => f.write_str("new_generation=True"),
            (_, None) => f.write_str(&name),
            (_, Some(value)) if value.parse::<f64>().is_ok() => write!(f, "{name}={value}"),
            (_, Some(value)) => write!(f, "{name}='{value}'"),
        }
    }
}

impl fmt::Display for Setting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.strip_prefix("asap.").filter(|_| either(false, true)) {
            Some(key) => f.write_str(&key.replace('.', "_")),
            None => f.write_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No other test of this crate shows a flag or a setting.
    #[test]
    fn arguments_are_spelled_as_the_front_end_does() {
        let flags =
            ["--from", "--new-generation", "--on-schema-change", "--on-change fail", "--limit 20", "--max-rejects 2%"];
        let spelled = || flags.map(|flag| Flag(flag).to_string());
        let settings = || ["asap.refine.max_tokens", "asap.on_error", "sql"].map(|key| Setting(key).to_string());
        assert_eq!((spelled(), settings()[0].as_str()), (flags.map(str::to_string), "asap.refine.max_tokens"));
        set_python(true);
        let in_python =
            ["from_", "new_generation=True", "on_schema_change", "on_change='fail'", "limit=20", "max_rejects='2%'"];
        assert_eq!(spelled(), in_python);
        assert_eq!(settings(), ["refine_max_tokens", "on_error", "sql"]);
        assert_eq!(format!("{Again:#}: {Again}"), "Repeat the call: repeat the call");
        set_python(false);
    }
}
