//! Where a feed is.

use std::fmt;
use std::str::FromStr;

use datafusion::common::{DataFusionError, config_datafusion_err};

/// A place between two rows of a feed. Behind it the same data, seed and settings give the same rows.
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

    fn from_str(text: &str) -> Result<Self, DataFusionError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        let position = Position { version: 12, epoch: 0, window: 3, row: 8191 };
        assert_eq!(position.to_string(), "12:0:3:8191");
        assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
        for wrong in ["", "1:2:3", "1:2:3:4:5", "1:2:3:x", "1:2:3:-4"] {
            assert!(wrong.parse::<Position>().unwrap_err().to_string().contains("version:epoch:window:row"), "{wrong}");
        }
    }
}
