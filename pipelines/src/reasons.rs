//! Why rows are left out, with counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A message may quote its row, so that each row has another.
const MOST: usize = 20;
const OTHERS: &str = "other reasons";

/// Counts of rows by reason. Beyond 20 reasons, the others are counted together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reasons(BTreeMap<String, u64>);

impl Reasons {
    pub fn count(&mut self, reason: &str, rows: u64) {
        let reason = if self.0.len() < MOST || self.0.contains_key(reason) { reason } else { OTHERS };
        *self.0.entry(reason.to_string()).or_default() += rows;
    }

    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(reason, rows)| self.count(reason, *rows));
    }

    /// Returns the reasons, the most frequent first.
    pub fn by_rows(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = self.0.iter().map(|(reason, rows)| (reason.as_str(), *rows)).collect();
        all.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_reasons_come_first_and_no_row_is_lost() {
        let mut reasons = Reasons::default();
        (0..50).for_each(|row| reasons.count(&format!("row {row:02}"), 1));
        let mut more = Reasons::default();
        more.count("row 49", 3);
        more.count("row 07", 2);
        reasons.add(&more);
        let found = reasons.by_rows();
        assert_eq!(found[..2], [(OTHERS, 33), ("row 07", 3)]);
        assert_eq!((found.len(), found.iter().map(|(_, rows)| rows).sum::<u64>()), (MOST + 1, 55));
    }
}
