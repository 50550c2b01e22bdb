//! The position of a feed, and the options that decide its rows.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use asap_kernels::front_end::{Flag, either};
use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_err};
use sha2::{Digest, Sha256};

use super::{Encoder, FeedConfig, Rows};

/// A place between two rows of a feed. The same data, seed and settings give the same rows after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The table version at the start of the feed. For plain files, a fingerprint of the files.
    pub version: u64,
    /// Counted from 0.
    pub epoch: u64,
    /// Number of windows of the epoch before it.
    pub window: u64,
    /// Number of rows of the window before it, in the order of the epoch.
    pub row: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, epoch, window, row } = self;
        write!(f, "{version}:{epoch}:{window}:{row}")
    }
}

impl FromStr for Position {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        let numbers: Option<Vec<u64>> = text.split(':').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some([version, epoch, window, row]) => {
                Ok(Self { version: *version, epoch: *epoch, window: *window, row: *row })
            }
            _ => Err(config_datafusion_err!(
                "a position is four numbers, version:epoch:window:row, such as 12:0:3:512, found '{text}'"
            )),
        }
    }
}

/// Everything that decides which rows follow a position, by the option names of `asap feed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deciding(BTreeMap<String, String>);

impl Deciding {
    pub fn of(rows: &Rows, config: &FeedConfig, encoder: &Encoder) -> Self {
        // The spelling is part of positions that users hold.
        let columns = config.columns.as_ref().map_or("recognised".to_string(), |columns| hash(&format!("{columns:?}")));
        let values = [
            ("columns", columns),
            ("data", rows.table.as_deref().map_or("files".to_string(), hash)),
            ("follow", config.follow.to_string()),
            ("long", encoder.long.to_string()),
            ("loss", encoder.loss.to_string()),
            ("max-length", encoder.max_length.to_string()),
            ("model", hash(&encoder.fingerprint)),
            ("seed", config.seed.to_string()),
        ];
        Self(values.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }
}

/// Eight hexadecimal digits: unlike the text, they cannot contain the separators of a position.
fn hash(text: &str) -> String {
    Sha256::digest(text).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Deciding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&values.join(","))
    }
}

/// A position together with the options that decided its rows, as users save it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub position: Position,
    pub deciding: Deciding,
}

impl Mark {
    /// Checks that a feed returns the same rows after this position as the feed that wrote it. An error names the option
    /// that differs.
    pub fn check(&self, now: &Deciding) -> Result<()> {
        let Self { position, deciding: Deciding(written) } = self;
        for (name, now) in &now.0 {
            let written = written.get(name);
            if written == Some(now) {
                continue;
            }
            let flag = format!("--{name}");
            let (flag, anew) = (Flag(&flag), either("start without --resume", "start without load_state_dict"));
            let Some(written) = written else {
                return config_err!(
                    "position {position} does not record {flag}, as those of earlier versions of asap: {anew}"
                );
            };
            return match name.as_str() {
                "data" => config_err!("position {position} was written for other data: {anew}"),
                "columns" => {
                    config_err!("position {position} was written with other {flag}: pass the old {flag}, or {anew}")
                }
                "model" => config_err!(
                    "position {position} was written for a {flag} with another tokenizer or chat template: pass the old \
                     {flag}, or {anew}"
                ),
                _ => config_err!(
                    "position {position} was written with {name} {written}, but this feed has {name} {now}, so the rows \
                     would differ: pass the old {flag}, or {anew}"
                ),
            };
        }
        Ok(())
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.position, self.deciding)
    }
}

impl FromStr for Mark {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            config_datafusion_err!(
                "'{text}' is not a position: pass what asap feed printed (version:epoch:window:row:options), such as \
                 12:0:3:512:seed=42"
            )
        };
        let (colon, _) = text.match_indices(':').nth(3).ok_or_else(wrong)?;
        let position = text[..colon].parse().map_err(|_| wrong())?;
        let value = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
        let values: Option<BTreeMap<String, String>> = text[colon + 1..].split(',').map(value).collect();
        Ok(Self { position, deciding: Deciding(values.ok_or_else(wrong)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        let position = Position { version: 12, epoch: 0, window: 3, row: 8191 };
        assert_eq!(position.to_string(), "12:0:3:8191");
        assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
        let mark = Mark { position, deciding: Deciding([("seed".to_string(), "42".to_string())].into()) };
        assert_eq!(mark.to_string(), "12:0:3:8191:seed=42");
        assert_eq!(mark.to_string().parse::<Mark>().unwrap(), mark);
        for wrong in ["", "1:2:3", "1:2:3:4:5", "1:2:3:x", "1:2:3:-4"] {
            assert!(wrong.parse::<Position>().unwrap_err().to_string().contains("version:epoch:window:row"), "{wrong}");
        }
        for wrong in ["", "1:2:3:4", "1:2:3:4:", "1:2:3:4:seed", "1:2:3:x:seed=4"] {
            assert!(wrong.parse::<Mark>().unwrap_err().to_string().contains("version:epoch:window:row"), "{wrong}");
        }
    }
}
