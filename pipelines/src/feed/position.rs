//! Where a feed is, and what decided the rows before and after that place.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_err};
use sha2::{Digest, Sha256};

use super::{Encoder, FeedConfig, Rows};

/// A place between two rows of a feed. After it the same data, seed and settings give the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The version of the table with which the feed began; of other files a number that is another one when they are others.
    pub version: u64,
    /// The epoch, from 0.
    pub epoch: u64,
    /// How many windows of the epoch lie before it.
    pub window: u64,
    /// How many rows of the window, in the order of the epoch.
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

/// Everything that decides which rows come after a position, by the names of the options of `asap feed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deciding(BTreeMap<String, String>);

impl Deciding {
    /// What decides the rows of this feed.
    pub fn of(rows: &Rows, config: &FeedConfig, encoder: &Encoder) -> Self {
        let columns = config.columns.as_ref().map_or("recognised".to_string(), |columns| hash(&format!("{columns:?}")));
        let (rank, world) = config.part;
        let values = [
            ("columns", columns),
            ("data", rows.table.as_deref().map_or("files".to_string(), hash)),
            ("follow", config.follow.to_string()),
            ("long", format!("{:?}", encoder.long).to_lowercase()),
            ("max-length", encoder.max_length.to_string()),
            ("model", hash(&encoder.fingerprint)),
            ("rank", rank.to_string()),
            ("seed", config.seed.to_string()),
            ("world", world.to_string()),
        ];
        Self(values.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }
}

/// Eight digits that differ where texts do: they hold no sign that a position is written with.
fn hash(text: &str) -> String {
    Sha256::digest(text).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Deciding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&values.join(","))
    }
}

/// A position as it is written for others: with what decided its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The place.
    pub position: Position,
    /// What decided its rows.
    pub deciding: Deciding,
}

impl Mark {
    /// Makes sure that a feed gives the rows after this position that the feed gave that wrote it.
    ///
    /// # Errors
    /// If something differs that decides the rows: it is named.
    pub fn check(&self, now: &Deciding) -> Result<()> {
        let Self { position, deciding: Deciding(written) } = self;
        for (name, now) in &now.0 {
            let written = written.get(name).map_or("nothing", String::as_str);
            if written == now {
                continue;
            }
            return match name.as_str() {
                "data" => config_err!("position {position} was written for other data: begin without --resume"),
                "columns" => config_err!(
                    "position {position} was written with other --columns: give the same, or begin without --resume"
                ),
                "model" => config_err!(
                    "position {position} was written for a --model with another tokenizer or chat template: name that one, \
                     or begin without --resume"
                ),
                _ => config_err!(
                    "position {position} was written with {name} {written}, and this feed has {name} {now}, so that other \
                     rows would come: give --{name} as it was, or begin without --resume"
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
                "a position is version:epoch:window:row and the options that decided its rows, such as \
                 12:0:3:512:seed=42,…, as asap feed writes it, found '{text}'"
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
