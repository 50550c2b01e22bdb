//! The request for a run.

use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use asap_kernels::front_end::Flag;
use asap_udfs::Settings;
use datafusion::common::{DataFusionError, Result, config_err};

use crate::corpus::ColumnMapping;
use crate::shards::SHARD_BYTES;

#[derive(Debug, Clone)]
pub struct Request {
    pub name: String,
    /// The pipeline: one SELECT over `corpus`.
    pub sql: String,
    pub from: Vec<String>,
    pub to: String,
    /// The columns with question, cot and answer, where they cannot be recognized.
    pub columns: Option<ColumnMapping>,
    /// The maximum number of input rows of the output. It includes the rows of earlier runs, and deleted rows that are
    /// still in the files of a table.
    pub limit: Option<u64>,
    /// The number of random rows of the input to process, and the seed that chooses them.
    pub sample: Option<(u64, u64)>,
    pub settings: Settings,
    /// The maximum number of rows of a slice. None: the number that the table was created with, which depends on the
    /// cost of the pipeline.
    pub slice_rows: Option<u64>,
    /// How long finished slices may wait for a commit.
    pub commit_every: Duration,
    pub on_change: OnChange,
    pub on_schema_change: OnSchemaChange,
    /// Whether to rebuild the output in a new table generation.
    pub new_generation: bool,
    /// The rejected rows to retry: those with these statuses, or all if the list is empty.
    pub retry_rejects: Option<Vec<String>>,
    /// The maximum number or percentage of rejects.
    pub max_rejects: Option<MaxRejects>,
    pub part: Option<Part>,
    /// How long an interrupted run may take to end.
    pub grace: Duration,
    /// The columns that divide a new output into folders.
    pub partition_by: Vec<String>,
    pub shard_bytes: NonZeroU64,
    /// The original columns in the output, next to those of the pipeline. Rejects have all.
    pub originals: Originals,
    /// Whether the run marks a complete output as complete.
    pub says_finished: bool,
}

impl Request {
    /// A run of a pipeline with defaults for everything else.
    pub fn new(name: &str, sql: &str, from: &[&str], to: &str, settings: Settings) -> Self {
        Self {
            name: name.to_string(),
            sql: sql.to_string(),
            from: from.iter().map(|from| from.to_string()).collect(),
            to: to.to_string(),
            columns: None,
            limit: None,
            sample: None,
            settings,
            slice_rows: None,
            commit_every: Duration::from_secs(60),
            on_change: OnChange::Fail,
            on_schema_change: OnSchemaChange::Add,
            new_generation: false,
            retry_rejects: None,
            max_rejects: None,
            part: None,
            grace: Duration::from_secs(25),
            partition_by: vec![],
            shard_bytes: SHARD_BYTES,
            originals: Originals::Needed,
            says_finished: true,
        }
    }
}

/// How to treat a file that has changed since it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnChange {
    /// The file fails; its old rows stay.
    Fail,
    /// One commit replaces its old rows with its new ones.
    Reprocess,
    /// Its old rows stay.
    Ignore,
}

/// How to treat a file with a column that the output does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSchemaChange {
    /// The output gets the column, which is NULL in all other rows.
    Add,
    /// The file fails.
    Fail,
}

impl FromStr for OnChange {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "fail" => Ok(Self::Fail),
            "reprocess" => Ok(Self::Reprocess),
            "ignore" => Ok(Self::Ignore),
            _ => config_err!("expected fail, reprocess or ignore"),
        }
    }
}

impl FromStr for OnSchemaChange {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "add" => Ok(Self::Add),
            "fail" => Ok(Self::Fail),
            _ => config_err!("expected add or fail"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Originals {
    /// Those whose content is not fully in other columns.
    Needed,
    All,
    None,
    Named(Vec<String>),
}

impl FromStr for Originals {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "needed" => Self::Needed,
            "all" => Self::All,
            "none" => Self::None,
            names => {
                let mut names: Vec<String> = names.split(',').map(|name| name.trim().to_string()).collect();
                names.sort();
                names.dedup();
                if names.iter().any(String::is_empty) {
                    return config_err!(
                        "{} takes needed, all, none, or column names such as id,source, found '{text}'",
                        Flag("--originals")
                    );
                }
                Self::Named(names)
            }
        })
    }
}

impl std::fmt::Display for Originals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Needed => "needed",
            Self::All => "all",
            Self::None => "none",
            Self::Named(names) => return f.write_str(&names.join(",")),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MaxRejects {
    Rows(u64),
    Percent(f64),
}

const FEW_ROWS: u64 = 100;

impl MaxRejects {
    /// The argument that gives this limit.
    pub(crate) fn flag(self) -> String {
        Flag(&format!("--max-rejects {self}")).to_string()
    }

    pub(crate) fn is_exceeded(self, rejected: u64, rows: u64, is_last: bool) -> bool {
        match self {
            Self::Rows(most) => rejected > most,
            Self::Percent(most) => (is_last || rows >= FEW_ROWS) && rejected as f64 * 100.0 > most * rows as f64,
        }
    }
}

impl FromStr for MaxRejects {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        let percent = text.strip_suffix('%').map(|number| number.trim().parse::<f64>());
        match (percent, text.parse::<u64>()) {
            (Some(Ok(percent)), _) if (0.0..=100.0).contains(&percent) => Ok(Self::Percent(percent)),
            (None, Ok(rows)) => Ok(Self::Rows(rows)),
            _ => {
                let flag = Flag("--max-rejects");
                config_err!("{flag} takes a number of rows, or a percentage such as 2%, found '{text}'")
            }
        }
    }
}

impl std::fmt::Display for MaxRejects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// One of several parts of a run, which share its slices. Numbers start at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub number: u64,
    pub of: u64,
}

impl FromStr for Part {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parsed {
            Some((number, of)) if 1 <= number && number <= of => Ok(Self { number, of }),
            _ => {
                let flag = Flag("--part");
                config_err!("{flag} takes K/N, part K of N with K from 1 to N, such as 3/8; found '{text}'")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_shares_are_read() {
        assert_eq!("3/8".parse::<Part>().unwrap(), Part { number: 3, of: 8 });
        assert!(["0/8", "9/8", "3", "a/b"].iter().all(|text| text.parse::<Part>().is_err()));
        assert_eq!("b, a,b".parse::<Originals>().unwrap(), Originals::Named(vec!["a".to_string(), "b".to_string()]));
        assert!("a,,b".parse::<Originals>().is_err());
        assert_eq!("2.5%".parse::<MaxRejects>().unwrap(), MaxRejects::Percent(2.5));
        assert_eq!("7".parse::<MaxRejects>().unwrap(), MaxRejects::Rows(7));
        assert!(["-1", "101%", "x"].iter().all(|text| text.parse::<MaxRejects>().is_err()));
        assert!(MaxRejects::Rows(7).is_exceeded(8, 9, false));
        assert!(!MaxRejects::Percent(10.0).is_exceeded(8, 9, false));
        assert!(MaxRejects::Percent(10.0).is_exceeded(8, 9, true));
    }
}
