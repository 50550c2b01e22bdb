//! Records the sampling parameters that rows of an output did not get from their requests, but from the endpoint.

use asap_llm::chat::Defaults;
use serde_json::{Value, json};

use super::Output;
use crate::delta;

/// The field of a commit that names these parameters.
const FIELD: &str = "endpoint_defaults";

/// The application of the transaction for a parameter, before the table generation and the parameter.
const APPLICATION: &str = "asap/endpoint-default";

/// Adds the parameters to the description of a commit.
pub(crate) fn record(info: &mut Value, defaults: Defaults) {
    let names: Vec<_> = defaults.names().collect();
    if !names.is_empty() {
        info[FIELD] = json!(names);
    }
}

/// Returns the transactions of a commit for its parameters. They stay when the log of the table is cleaned.
pub(crate) fn transactions(info: &Value, generation: u64) -> Vec<String> {
    let names = info[FIELD].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| delta::transaction(&application(generation, name), 1)).collect()
}

fn application(generation: u64, name: &str) -> String {
    format!("{APPLICATION}/{generation}/{name}")
}

impl Output {
    /// Returns the parameters of all commits of this table generation.
    pub fn endpoint_defaults(&self) -> Vec<&'static str> {
        let Some(log) = self.table() else { return vec![] };
        let is_there = |name: &&str| log.state.transactions.contains_key(&application(self.ledger.generation, name));
        Defaults([true; 2]).names().filter(is_there).collect()
    }
}
