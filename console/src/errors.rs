//! What errors of the engine say, in words for people.

use std::error::Error;
use std::path::Path;

use asap_kernels::front_end::either;
use asap_pipelines::corpus::{CORPUS, suggestion};
use asap_pipelines::location::redact;
use asap_udfs::typo;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

/// Formats an error for people: the root cause with its context, without the engine's prefixes and the secrets of URLs.
pub fn error_line(error: &DataFusionError) -> String {
    let message = message(error);
    // The engine reports a call that fits no signature as an internal error.
    let (said, _) = message.split_once("\nThis issue was likely caused by").unwrap_or((&message, ""));
    let said = said.strip_prefix("Internal error: ").unwrap_or(said).trim_end_matches('.');
    let said = in_words(said).unwrap_or(said);
    match said.strip_prefix("Cast error: Cannot cast string ") {
        Some(what) => redact(&format!(
            "cannot convert the text {what}: compare texts with texts in single quotes (id = '17'), and numbers with numbers"
        )),
        None => redact(said),
    }
}

fn message(error: &DataFusionError) -> String {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => message(inner),
        DataFusionError::Shared(inner) => message(inner),
        DataFusionError::Collection(several) if !several.is_empty() => message(&several[0]),
        DataFusionError::External(inner) => external(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => external(inner.as_ref()),
            other => other.to_string(),
        },
        DataFusionError::Plan(message) => match missing_table(message) {
            Some(CORPUS) => {
                let advice = either("name its location with --from", "pass its location or its rows as corpus=…");
                format!("there is no table corpus: {advice}")
            }
            Some(table) => no_table(table, [CORPUS]),
            None => with_near_hint(argument_error(message).unwrap_or(message)),
        },
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => no_column(field, valid_fields),
            other => other.to_string(),
        },
        DataFusionError::SQL(error, _) => match error.as_ref() {
            ParserError::ParserError(said) | ParserError::TokenizerError(said) => {
                let advice = PARSED.iter().find(|(parts, _)| parts.iter().any(|part| said.contains(part)));
                format!("SQL: {said}{}", advice.map_or(String::new(), |(_, advice)| format!(". {advice}")))
            }
            ParserError::RecursionLimitExceeded => "SQL: the statement is nested too deep".to_string(),
        },
        DataFusionError::NotImplemented(message)
        | DataFusionError::Configuration(message)
        | DataFusionError::Execution(message) => message.clone(),
        DataFusionError::ObjectStore(inner) => match inner.as_ref() {
            object_store::Error::NotSupported { source } => source.to_string(),
            object_store::Error::Generic { store: "hf", source } => source.to_string(),
            other => other.to_string(),
        },
        other => other.strip_backtrace(),
    }
}

fn external(error: &(dyn Error + Send + Sync + 'static)) -> String {
    error.downcast_ref::<DataFusionError>().map_or_else(|| error.to_string(), message)
}

const ITEM: &str = "a list has no fields, but its items may have: write both in brackets, such as steps[1]['tokens']";

const PATH: &str = "A path in SQL is in single quotes: FROM 'out/pruned', COPY (SELECT …) TO 'rows.parquet'";

/// Parts of what the parser says, and advice.
const PARSED: [(&[&str], &str); 2] = [
    (&["found: /", "Expected: literal string, found: ", "end of statement or ;, found: ."], PATH),
    (&["found: ‘", "found: ’", "found: “", "found: ”"], "The quotes of SQL are straight: 'text'"),
];

const UNNEST: &str =
    "SQL here unnests a list only in SELECT: SELECT s['tokens'] FROM (SELECT unnest(steps) AS s FROM 'out/pruned')";

/// How messages of the engine begin that name its own types, and what they mean.
const WORDS: [(&str, &str); 17] = [
    (
        "Cannot infer common argument type for comparison operation List",
        "a list is compared by its items: cardinality(steps) > 2, array_has(labels, 'core')",
    ),
    (
        "Cannot infer common argument type for comparison operation Struct",
        "a column with fields is compared by one of them: source['file'] = 'a.parquet'",
    ),
    (
        "Cannot infer common argument type for comparison operation Boolean <",
        "a comparison has two sides: x > 200 AND x < 220",
    ),
    (
        "Cannot infer common argument type for comparison operation Boolean >",
        "a comparison has two sides: x > 200 AND x < 220",
    ),
    (
        "Cannot infer common argument type for comparison operation Boolean",
        "a truth value is a condition by itself: WHERE correct, or WHERE NOT correct",
    ),
    ("Physical plan does not support logical expression OuterReferenceColumn", UNNEST),
    ("LATERAL VIEWS", UNNEST),
    ("The function 'array_filter' expected a lambda", UNNEST),
    ("Unsupported binary operator: PGOverlap", "SQL here has no &&: write AND"),
    (
        "Cannot coerce arithmetic expression Utf8",
        "expected numbers, found a text: || joins texts, and CAST(x AS DOUBLE) makes a number of one",
    ),
    ("TOP", "SQL here has no TOP: write LIMIT 5 at the end"),
    (
        "Unavailable default cast for native type String from physical type List",
        "expected a text, found a list: cardinality(steps) counts its items",
    ),
    ("table function 'read_", "a file or a folder is a table by its path, in single quotes: FROM 'out/pruned'"),
    ("Cannot access field at argument 1: type List", ITEM),
    ("Dot access not supported", ITEM),
    ("The context currently only supports a single", "expected one SQL statement, found several: leave one of them"),
    ("table 'datafusion.", "there is no such table: a path in SQL is in single quotes, such as FROM 'out/pruned'"),
];

fn in_words(message: &str) -> Option<&'static str> {
    WORDS.iter().find(|(begins, _)| message.starts_with(begins)).map(|(_, words)| *words)
}

/// The table that the planner did not find: a name, or the path of a file or folder in quotes.
pub fn missing_table(message: &str) -> Option<&str> {
    message.strip_prefix("table 'datafusion.public.")?.strip_suffix("' not found")
}

/// The error for a missing table, which hints at the nearest of the `known` ones.
pub fn no_table<'a>(table: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    if let Some(output) = table.trim_end_matches('/').strip_suffix("/.asap/rejects") {
        return format!("{output} has no rejects, or is not an output of asap run");
    }
    if Path::new(table).metadata().is_ok_and(|file| file.is_file() && file.len() > 0) {
        return format!(
            "a pipeline reads the table corpus and the sources that --from names, not '{table}': pass --from NAME={table}"
        );
    }
    if let Some((_, advice)) = TABLES.iter().find(|(names, _)| names.contains(&table)) {
        return format!("there is no table {table}: {advice}");
    }
    if table.contains(['/', '.']) {
        return format!("there is no table, file or folder '{table}' with rows in it{}", suggestion(table));
    }
    format!("there is no table {table}{}", typo::hint(table, known))
}

/// Names that are no table, and how to name what was meant.
const TABLES: [(&[&str], &str); 3] = [
    (&["rejects"], "the rejects of an output are a table by their path, FROM 'out/pruned/.asap/rejects'"),
    (&["output", "pruned"], "an output is a table by its path, FROM 'out/pruned'"),
    (
        &["sample", "traces"],
        "a folder or a file is a table by its path, FROM 'data/sample', and a corpus that is named is the table corpus",
    ),
];

/// Functions of other databases, and what to write here.
const FUNCTIONS: [(&[&str], &str); 17] = [
    (&["len"], "length(x) for a text, and cardinality(x) for a list"),
    (&["date"], "CAST(x AS DATE)"),
    (&["strftime", "date_format"], "to_char(x, '%Y-%m')"),
    (&["regexp_extract"], "regexp_match"),
    (&["regexp_matches"], "regexp_like"),
    (&["getdate"], "now"),
    (&["count_if", "countif"], "count(*) FILTER (WHERE …)"),
    (&["group_concat", "listagg"], "string_agg"),
    (&["size", "array_size", "list_size"], "cardinality"),
    (&["explode"], "unnest"),
    (&["percentile", "quantile"], "percentile_cont"),
    (&["percentile_approx", "approx_percentile"], "approx_percentile_cont"),
    (&["collect_list"], "array_agg"),
    (&["cot_score", "cot_scores"], "cot_surprisal"),
    (&["if", "iff", "iif"], "CASE WHEN … THEN … ELSE … END"),
    (&["datediff", "date_diff"], "to_date('2026-01-05') - to_date('2026-01-01')"),
    (
        &["json_extract", "json_value", "json_extract_string", "get_json_object"],
        "get_field(column, 'name') if the column has fields; SQL here does not read JSON in a text",
    ),
];

/// Names a missing function, and one that was probably meant: that of the engine may have little in common with it.
fn with_near_hint(message: &str) -> String {
    let named = message.strip_prefix("Invalid function '").and_then(|rest| rest.split_once('\''));
    let Some((typed, rest)) = named else { return message.to_string() };
    let near = rest.split('\'').nth(1).filter(|near| typo::nearest(typed, [*near]).is_some());
    let same = FUNCTIONS.iter().find(|(others, _)| others.contains(&typed)).map(|(_, same)| *same);
    match same.or(near) {
        Some(meant) if meant.contains([' ', '(']) => format!("there is no function {typed}: write {meant}"),
        meant => format!(
            "there is no function {typed}{}",
            meant.map_or(String::new(), |name| format!(" (did you mean {name}?)"))
        ),
    }
}

/// Names a missing column, and what it may be: one of rejects, a part of another, or a typo.
fn no_column(typed: &Column, columns: &[Column]) -> String {
    let name = typed.name();
    if let Some(table) = typed.relation.as_ref().map(|table| table.table())
        && columns.iter().any(|column| column.name == name)
        && !columns.iter().any(|column| column.relation.as_ref().is_some_and(|of| of.table() == table))
    {
        return format!("no table of the query is called {table}: name one, as in FROM 'out/pruned' AS {table}");
    }
    let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    if ["status", "error"].contains(&name) && ["pruned_tokens", "kept"].iter().any(|column| known.contains(column)) {
        let table = columns.iter().find_map(|column| Some(column.relation.as_ref()?.table()));
        let output = table.filter(|table| Path::new(table).join(".asap").exists()).unwrap_or("OUTPUT");
        let rejects = format!("FROM '{}/.asap/rejects'", output.trim_end_matches('/'));
        return format!(
            "there is no column {name}: an output has only rows that were not rejected. Query the rejects: {rejects}"
        );
    }
    let ends: Vec<&str> = known.iter().copied().filter(|known| known.ends_with(&format!("_{name}"))).collect();
    let hint = match typo::nearest(name, known.iter().copied()) {
        Some(near) => format!(" (did you mean {near}?)"),
        None if ["file", "row"].contains(&name) && known.contains(&"source") => {
            format!(" (did you mean source['{name}']?)")
        }
        None if name == "kept" && known.contains(&"pruned_tokens") => {
            " (did you mean 1.0 * pruned_tokens / original_tokens?)".to_string()
        }
        None if ends.is_empty() => String::new(),
        None => format!(" (did you mean {}?)", ends.join(" or ")),
    };
    let columns = if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) };
    format!("there is no column {name}{hint}{columns}")
}

/// Extracts a function's own message about its arguments from the engine's message.
fn argument_error(message: &str) -> Option<&str> {
    let (_, said) = message.split_once("user-defined coercion failed with: Error during planning: ")?;
    Some(said.split_once(" No function matches").map_or(said, |(said, _)| said))
}
