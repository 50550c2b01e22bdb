//! Printed values of a paper, next to those of a run.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::bench::Bench;
use crate::failure::Failure;

/// The name of the values that ship with asap.
const PAPER: &str = "paper";

/// A file of printed values, all of one model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    source: String,
    model: String,
    tables: Vec<Table>,
}

/// A printed table, or its part about one benchmark at one budget.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    table: Option<String>,
    page: Option<u32>,
    bench: String,
    budget: Option<u32>,
    values: Vec<Value>,
}

/// What is printed of a method: the accuracy in percent, the mean tokens and the seconds of a problem.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    method: String,
    accuracy: Option<f64>,
    tokens: Option<f64>,
    seconds: Option<f64>,
}

/// Printed values next to those of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Published {
    pub source: String,
    pub model: String,
    /// First the cells of the run, in their order, and then values that are only printed.
    pub rows: Vec<PrintedRow>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PrintedRow {
    pub method: String,
    pub bench: String,
    pub budget: i64,
    pub run: Figures,
    pub printed: Figures,
    /// Run minus printed for the accuracy, as a share. Run by printed, minus 1, for tokens and seconds.
    pub difference: Figures,
    /// Where the values are printed.
    pub table: Option<String>,
    pub page: Option<u32>,
}

/// The accuracy as a share, the mean tokens of a response, and the seconds of a problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub accuracy: Option<f64>,
    pub tokens: Option<f64>,
    pub seconds: Option<f64>,
}

impl Figures {
    fn minus(self, printed: Self) -> Self {
        let ratio = |run: Option<f64>, printed: Option<f64>| Some(run? / printed? - 1.0);
        let accuracy = self.accuracy.zip(printed.accuracy).map(|(run, printed)| run - printed);
        let [tokens, seconds] = [ratio(self.tokens, printed.tokens), ratio(self.seconds, printed.seconds)];
        Self { accuracy, tokens, seconds }
    }

    pub(super) fn is_missing(&self) -> bool {
        *self == Self::default()
    }
}

impl File {
    /// Reads the values that ship with asap under this name, or a file of the same format.
    ///
    /// # Errors
    /// If the file cannot be read, is not of this format, or names a benchmark that asap does not know, or a value twice.
    pub(crate) fn read(name: &str) -> Result<Self, Failure> {
        let text = match name {
            PAPER => include_str!("published.toml").to_string(),
            file => std::fs::read_to_string(file).map_err(|error| {
                Failure::Usage(format!("--published: expected {PAPER} or a file; cannot read {file}: {error}"))
            })?,
        };
        let found: Self =
            toml::from_str(&text).map_err(|error| Failure::Usage(format!("--published {name}: {error}")))?;
        let mut held = std::collections::BTreeSet::new();
        for table in &found.tables {
            let bench = &table.bench;
            if Bench::from_str(bench, false).is_err() {
                return Err(Failure::Usage(format!("--published {name}: there is no benchmark {bench}")));
            }
            if let Some(value) = table.values.iter().find(|value| !held.insert((bench, table.budget(), &value.method)))
            {
                let Value { method, .. } = value;
                return Err(Failure::Usage(format!("--published {name}: has {method} on {bench} twice: keep one")));
            }
        }
        Ok(found)
    }

    /// Puts the values into the rows of a run.
    pub(crate) fn printed_rows(self, mut rows: Vec<PrintedRow>) -> Published {
        for table in self.tables {
            let budget = table.budget();
            for Value { method, accuracy, tokens, seconds } in table.values {
                let printed = Figures { accuracy: accuracy.map(|percent| percent / 100.0), tokens, seconds };
                let is_same =
                    |row: &PrintedRow| row.method == method && row.bench == table.bench && row.budget == budget;
                let place = rows.iter().position(is_same).unwrap_or_else(|| {
                    rows.push(PrintedRow::new(&method, &table.bench, budget, Figures::default()));
                    rows.len() - 1
                });
                let row = &mut rows[place];
                (row.printed, row.difference) = (printed, row.run.minus(printed));
                (row.table, row.page) = (table.table.clone(), table.page);
            }
        }
        Published { source: self.source, model: self.model, rows }
    }
}

impl Table {
    /// The stated budget, or the default of the benchmark.
    fn budget(&self) -> i64 {
        let default = Bench::from_str(&self.bench, false).map_or(0, Bench::budget);
        i64::from(self.budget.unwrap_or(default))
    }
}

impl PrintedRow {
    pub(crate) fn new(method: &str, bench: &str, budget: i64, run: Figures) -> Self {
        let (method, bench, none) = (method.to_string(), bench.to_string(), Figures::default());
        Self { method, bench, budget, run, printed: none, difference: none, table: None, page: None }
    }
}
