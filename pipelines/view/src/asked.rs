//! What the address of a page asks for.

use datafusion::common::{DFSchema, Result};
use url::form_urlencoded;

use super::filter::Condition;
use super::list::{COLUMNS, Column};
use super::place::{self, InputRow};
use super::source::Source;
use crate::output::count;

/// Parts of addresses of other servers, with what they are called here.
const PARTS: [(&str, &[&str]); 4] = [
    ("where", &["q", "query", "search", "filter", "id"]),
    ("from", &["page", "offset", "start"]),
    ("sort", &["order", "order_by", "by"]),
    ("at", &["n", "index", "chain"]),
];

/// What an address asks for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub filter: String,
    /// The name of a column, after a `-` if the largest is first.
    pub order: String,
    pub from: u64,
    pub at: Option<u64>,
    pub place: Option<InputRow>,
    pub is_whole: bool,
    /// What is wrong with the first argument that cannot be read.
    pub wrong: Option<String>,
}

impl Asked {
    /// The filter of the form over a table: SQL, the place or the id of a row, words, or the beginning of ids. The first that
    /// finds a row is meant; what else the text may mean is said.
    pub(super) async fn condition(&self, source: &Source, table: &str, schema: &DFSchema) -> Result<Option<Condition>> {
        let typed = Condition::typed(&self.filter, schema)?;
        let Some(words) = typed.as_ref().filter(|typed| typed.not_sql.is_some()) else { return Ok(typed) };
        let named = self.filter.trim();
        if let Some((row, what)) = place::named(source, table, schema, named).await? {
            let said = format!("This was read as {what}. Quotes search for the words:");
            return Ok(Some(row.or_else(said, Some(format!("\"{named}\"")))));
        }
        if !place::has_id(schema) || named.contains(char::is_whitespace) {
            return Ok(typed);
        }
        let begins = Condition::begins("id", named);
        let ids = source.passed(table, &begins).await?;
        if ids == 0 {
            return Ok(typed);
        }
        let begin =
            if ids == 1 { "1 id begins with it".to_string() } else { format!("{} ids begin with it", count(ids)) };
        // Counting the words reads the texts once more.
        Ok(Some(match source.passed(table, words).await? {
            0 => begins.or_else(format!("No text has it. {begin}."), None),
            _ => words.clone().or_else(format!("{begin}:"), Some(begins.text)),
        }))
    }

    pub(super) fn is_filtered(&self) -> bool {
        !self.filter.is_empty() && self.wrong.is_none()
    }

    /// Reads the address of a page. Only chains are sorted, and by the other output only if there is one.
    pub(super) fn of(page: &str, query: Option<&str>, has_other: bool) -> Self {
        let (mut asked, mut file, mut row) = (Self::default(), None, None);
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let number = value.parse::<u64>();
            if matches!(name.as_ref(), "from" | "at" | "row") && number.is_err() {
                asked.wrong.get_or_insert(format!("{name}={value}: expected a whole number"));
            }
            match name.as_ref() {
                "where" => asked.filter = value.into_owned(),
                "sort" => asked.order = value.into_owned(),
                "from" => asked.from = number.unwrap_or(0),
                "at" => asked.at = number.ok(),
                "file" => file = Some(value.into_owned()),
                "row" => row = number.ok(),
                "whole" => asked.is_whole = value == "1",
                other => {
                    let known = "where, sort, from, at, file with row, and whole";
                    let same = PARTS.iter().find(|(_, others)| others.contains(&other));
                    let same = same.map_or(String::new(), |(same, _)| format!(" (did you mean {same}?)"));
                    asked.wrong.get_or_insert(format!("an address has no part {other}{same}: it may have {known}"));
                }
            }
        }
        let is_known = |column: &&Column| has_other || !column.is_of_other;
        let names = COLUMNS.iter().filter(is_known).map(|column| column.name).collect::<Vec<_>>();
        let order = asked.order.strip_prefix('-').unwrap_or(&asked.order);
        let why = if order.is_empty() || names.contains(&order) && page.starts_with("chain") {
            None
        } else if page.starts_with("reject") {
            Some("rejects are in the order of the input: leave sort out".to_string())
        } else {
            let is_of_other = COLUMNS.iter().any(|column| column.name == order);
            let why = if is_of_other { " (this one needs --against)" } else { "" };
            Some(format!("expected one of {}, after - for the largest first{why}", names.join(", ")))
        };
        if let Some(why) = why {
            // The form of the page with the error has no order.
            let order = std::mem::take(&mut asked.order);
            asked.wrong.get_or_insert(format!("sort={order}: {why}"));
        }
        if asked.wrong.is_none() && file.is_some() != row.is_some() {
            let example = "chain?file=a.jsonl&row=0";
            asked.wrong =
                Some(format!("a row is named by file=NAME and row=NUMBER, such as {example}; one of them is missing"));
        }
        asked.place = file.zip(row).map(|(file, row)| InputRow { file, row });
        asked
    }

    /// The column of the order, and whether the largest is first.
    pub(super) fn sorted(&self, has_other: bool) -> (&'static Column, bool) {
        let order = if self.order.is_empty() && has_other { "-difference" } else { self.order.as_str() };
        let (name, is_largest_first) = order.strip_prefix('-').map_or((order, false), |name| (name, true));
        let known = COLUMNS.iter().find(|column| column.name == name && (has_other || !column.is_of_other));
        known.map_or((&COLUMNS[0], false), |column| (column, is_largest_first))
    }

    /// The address of a page with the same filter and order.
    pub(super) fn link(&self, page: &str, more: &[(&str, &str)]) -> String {
        let kept = [("where", self.filter.as_str()), ("sort", &self.order)];
        let is_kept = |(name, value): &(&str, &str)| !value.is_empty() && more.iter().all(|(other, _)| other != name);
        let kept = kept.into_iter().filter(is_kept);
        address(page, &kept.chain(more.iter().copied()).collect::<Vec<_>>())
    }
}

pub(super) fn address(page: &str, pairs: &[(&str, &str)]) -> String {
    format!("{page}?{}", form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}
