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
    let said = in_words(said).unwrap_or(said.to_string());
    match said.strip_prefix("Cast error: Cannot cast string ").map(with_short_value) {
        Some(what) => redact(&format!(
            "cannot convert the text {what}: compare texts with texts in single quotes (id = '17'), and numbers with numbers"
        )),
        None => redact(&said),
    }
}

/// What cannot be converted, with the beginning of its value: a text may have pages.
fn with_short_value(what: &str) -> String {
    let Some((value, kind)) = what.strip_prefix('\'').and_then(|rest| rest.rsplit_once("' to ")) else {
        return what.to_string();
    };
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("'{}…' to {kind}", &line[..end]),
        None => format!("'{value}' to {kind}"),
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
                let said = &operand(said);
                format!("SQL: {said}{}", advice(said).map_or(String::new(), |advice| format!(". {advice}")))
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

/// What follows the message of the parser: parts of the message, and advice.
const PARSED: [(&[&str], &str); 3] = [
    (
        &["found: /", "Expected: literal string, found: ", "end of statement or ;, found: ."],
        "A path in SQL is in single quotes: FROM 'out/pruned', COPY (SELECT …) TO 'rows.parquet'",
    ),
    (&["found: ‘", "found: ’", "found: “", "found: ”"], "The quotes of SQL are straight: 'text'"),
    (&["FALSE | DISTINCT | [form] NORMALIZED FROM after IS"], "A value is compared with =: id = 'a'"),
];

/// Words that the parser did not expect, and advice.
const FOUND: [(&[&str], &str); 5] = [
    (&["GLOB", "CONTAINS", "MATCH", "MATCHES", "STARTS", "REGEXP", "RLIKE"], PATTERNS),
    (
        &["SUMMARIZE"],
        "DESCRIBE 'out/pruned' shows the columns, and SELECT count(*), min(x), avg(x), max(x) FROM 'out/pruned' sums one up",
    ),
    (
        &["WHERE", "GROUP", "HAVING", "ORDER"],
        "The parts of a query come in this order: FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT",
    ),
    (&["!"], "SQL writes NOT: WHERE NOT correct"),
    (&["HELP", "EXIT", "QUIT", "PIVOT"], "Statements here are SELECT, COPY, CREATE, DESCRIBE, EXPLAIN, SET and SHOW"),
];

/// The message of the parser about a keyword that is no operator, without the parser's own types.
fn operand(said: &str) -> String {
    let word =
        said.strip_prefix("No infix parser for token Word(Word { value: \"").and_then(|rest| rest.split_once('"'));
    let place = said.rsplit_once(" at Line: ");
    match word.zip(place) {
        Some(((word, _), (_, place))) => format!("Expected: an operator, found: {word} at Line: {place}"),
        None => said.to_string(),
    }
}

fn advice(said: &str) -> Option<&'static str> {
    let parts = PARSED.iter().find(|(parts, _)| parts.iter().any(|part| said.contains(part)));
    let found = || {
        let word = said.split_once("found: ")?.1.split(" at Line: ").next()?;
        FOUND.iter().find(|(words, _)| words.iter().any(|known| known.eq_ignore_ascii_case(word)))
    };
    parts.map(|(_, advice)| *advice).or_else(|| found().map(|(_, advice)| *advice))
}

const ITEM: &str = "a list has no fields, but its items may have: write both in brackets, such as steps[1]['tokens']";
const DOT: &str = "a dot names a field only right after a column: write brackets, such as steps[1]['tokens'] or cot_anchor(…)['thought']";
const JSON: &str =
    "SQL here does not read JSON in a text: a column with fields has them in brackets, such as source['file']";
const PATTERNS: &str = "x ~ 'parcel|ticket' looks for a regular expression, x LIKE 'a%' for a pattern, and contains(x, 'parcel') for a part";
const UNNEST: &str =
    "SQL here unnests a list only in SELECT: SELECT s['tokens'] FROM (SELECT unnest(steps) AS s FROM 'out/pruned')";
const TWO_SIDES: &str = "a comparison has two sides: x > 200 AND x < 220";
const BY_PATH: &str = "a file or a folder is a table by its path, in single quotes: FROM 'out/pruned'";
const WRITTEN: &str =
    "COPY writes a file by its ending: .parquet, .csv, .json, .jsonl or .arrow; to a folder, add STORED AS PARQUET";

/// How messages of the engine begin that name its own types, and what they mean. `{}` is the word after the beginning.
#[rustfmt::skip]
const WORDS: &[(&str, &str)] = &[
    ("Cannot infer common argument type for comparison operation List", "a list is compared by its items: cardinality(steps) > 2, array_has(labels, 'core')"),
    ("Cannot infer common argument type for comparison operation Struct", "a column with fields is compared by one of them: source['file'] = 'a.parquet'"),
    ("Cannot infer common argument type for comparison operation Boolean <", TWO_SIDES),
    ("Cannot infer common argument type for comparison operation Boolean >", TWO_SIDES),
    ("Cannot infer common argument type for comparison operation Boolean", "a truth value is a condition by itself: WHERE correct, or WHERE NOT correct"),
    ("Cannot infer common argument type for logical boolean operation", "AND and OR join conditions: write x IN (100, 101), or x = 100 OR x = 101"),
    ("Unary operator 'NOT' requires", "NOT takes a condition: NOT correct, or NOT (x > 5)"),
    ("Cannot create filter with non-boolean predicate", "WHERE takes a condition, such as pruned_tokens > 100, or question LIKE '%parcel%'"),
    ("Physical plan does not support logical expression OuterReferenceColumn", UNNEST),
    ("Physical plan does not support logical expression WindowFunction", "WHERE cannot call a function with OVER: write QUALIFY row_number() OVER (…) = 1 in its place"),
    ("LATERAL VIEWS", UNNEST),
    ("The function 'array_filter' expected a lambda", UNNEST),
    ("Unnest should be rewritten", UNNEST),
    ("Unsupported binary operator: PGOverlap", "SQL here has no &&: write AND"),
    ("Unsupported binary operator: ", "SQL here has no operator {}: SHOW FUNCTIONS lists the functions"),
    ("Binary operator 'Colon'", JSON),
    ("Operator ->", JSON),
    ("Unsupported ast node in sqltorel: RLike", "SQL here has no REGEXP and RLIKE: write x ~ 'parcel|ticket', or x !~ 'parcel|ticket'"),
    ("Unsupported ast node in sqltorel: ", "SQL here has no expression {}: SHOW FUNCTIONS lists the functions"),
    ("Unsupported ast node ", "SQL here has no {}: write subqueries, CASE and GROUP BY"),
    ("Unsupported SQL statement: VACUUM", "SQL here only reads outputs: asap table vacuum LOC removes the files that an output no longer uses"),
    ("Unsupported SQL statement: OPTIMIZE", "SQL here only reads outputs: asap table optimize LOC merges small shards of an output"),
    ("Unsupported SQL statement: USE", "SQL here has no databases: a table is a path, FROM 'out/pruned'"),
    ("Unsupported SQL statement: ", "SQL here has no statement {}: it has SELECT, COPY, CREATE, DESCRIBE, EXPLAIN, SET and SHOW TABLES"),
    ("Unsupported logical plan: ", "SQL here has no statement {}: it has SELECT, COPY, CREATE, DESCRIBE, EXPLAIN, SET and SHOW TABLES"),
    ("Uncomparable values", "a list or a column with fields has no order: name a field or an item, such as source['row'] or steps[1]['tokens']"),
    ("ANY in LIKE expression", "LIKE takes one pattern: x LIKE 'a%' OR x LIKE 'b%', or x ~ '^(a|b)'"),
    ("There isn't a common type to coerce", "LIKE compares texts: CAST(x AS TEXT) LIKE '5%'"),
    ("There is no registered file format with ext", WRITTEN),
    ("Format not explicitly set and unable to get file extension", WRITTEN),
    ("FETCH clause is not supported", "SQL here has no FETCH: write LIMIT 5 at the end"),
    ("TOP", "SQL here has no TOP: write LIMIT 5 at the end"),
    ("COUNT DISTINCT with multiple arguments", "count(DISTINCT …) takes one value: count(DISTINCT struct(a, b))"),
    ("HAVING clause references", "HAVING is about groups: write WHERE for a condition on rows, or add GROUP BY"),
    ("Aggregate functions are not allowed in the WHERE clause", "WHERE is about rows: write a condition on groups after GROUP BY, as in HAVING count(*) > 1"),
    ("Schema contains duplicate qualified field name", "two tables of the query have one name: name them, as in FROM 'out/a' AS a JOIN 'out/b' AS b"),
    ("Ambiguous reference to unqualified field ", "several tables of the query have a column {}: name the table, as in a.{}"),
    ("Cannot coerce arithmetic expression Utf8", "expected numbers, found a text: || joins texts, and CAST(x AS DOUBLE) makes a number of one"),
    ("Unavailable default cast for native type String from physical type List", "expected a text, found a list: cardinality(steps) counts its items"),
    ("table function 'read_", BY_PATH),
    ("table function 'delta_scan", BY_PATH),
    ("failed to resolve schema: ", "there is no schema {}: a table of the session has a plain name, as in CREATE TABLE t AS SELECT …, and COPY (SELECT …) TO 'rows.parquet' writes a file"),
    ("Cannot access field at argument 1: type List", ITEM),
    ("Dot access not supported", DOT),
    ("The context currently only supports a single", "expected one SQL statement, found several: leave one of them"),
];

fn in_words(message: &str) -> Option<String> {
    if message.starts_with("table 'datafusion.") {
        return Some(
            "there is no such table: a path in SQL is in single quotes, such as FROM 'out/pruned'".to_string(),
        );
    }
    let words = WORDS.iter().find_map(|(begins, words)| {
        let rest = message.strip_prefix(begins)?;
        let word = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?.0,
            None => rest.split(|sign: char| !sign.is_alphanumeric() && sign != '_').next()?,
        };
        Some(words.replace("{}", word))
    });
    words.or_else(|| outside_of_groups(message)).or_else(|| wrong_arguments(message)).or_else(|| not_coerced(message))
}

/// A column that GROUP BY does not name.
fn outside_of_groups(message: &str) -> Option<String> {
    let (clause, rest) = message.strip_prefix("Column in ")?.split_once(" must be in GROUP BY")?;
    let column = rest.split_once("column \"")?.1.split_once("\" must appear")?.0;
    let name = column.rsplit('.').next()?;
    Some(format!(
        "{name} in {clause} is neither in GROUP BY nor in an aggregate: write GROUP BY {name}, or an aggregate such as min({name})"
    ))
}

/// A call with arguments of other types, or with more or fewer.
fn wrong_arguments(message: &str) -> Option<String> {
    let (function, rest) = message.strip_prefix("Function '")?.split_once('\'')?;
    let of = |word| rest.split(word).skip(1);
    if let Some((_, found)) = rest.split_once(", but received ") {
        let mut wanted: Vec<&str> =
            of(" requires ").filter_map(|part| part.split([',', '.']).next()).map(kind).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let (wanted, found) = (wanted.join(" or "), kind(found.split(" (").next()?));
        let advice = match (wanted.as_str(), found) {
            (_, "a truth value") => ": count(*) FILTER (WHERE x) counts the rows in which x is true",
            (_, "a list") => ": cardinality(x) counts the items of a list, and unnest(x) makes a row of each",
            ("a text", _) => ": CAST(x AS TEXT) makes a text",
            (_, "a text") => ": CAST(x AS DOUBLE) makes a number",
            _ => "",
        };
        return Some(format!("{function} takes {wanted}, found {found}{advice}"));
    }
    let mut wanted: Vec<&str> = of(" expects ").filter_map(|part| part.split(' ').next()).collect();
    wanted.dedup();
    let found = rest.split_once("but received ")?.1.split([',', '.']).next()?;
    let wanted = wanted.join(" or ");
    let arguments = if wanted == "1" { "argument" } else { "arguments" };
    Some(format!("{function} takes {wanted} {arguments}, found {found}"))
}

/// A call with arguments that the engine cannot convert.
fn not_coerced(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("to satisfy a call to '")?;
    let (function, rest) = rest.split_once('\'')?;
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    let types = rest.split_once("coercion from ")?.1.split_once(" to the signature ")?.0;
    for (at, sign) in types.char_indices() {
        match sign {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(kind(&types[begin..at]));
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(kind(&types[begin..]));
    let is_list = found.contains(&"a list");
    let advice =
        if is_list { ": cardinality(x) counts the items of a list, and unnest(x) makes a row of each" } else { "" };
    Some(format!("{function} does not take {}{advice}", found.join(" and ")))
}

/// A type of the engine in words.
fn kind(name: &str) -> &str {
    match name.trim() {
        "Boolean" => "a truth value",
        "String" | "Utf8" | "Utf8View" | "LargeUtf8" => "a text",
        name if ["List", "LargeList", "FixedSizeList"].iter().any(|list| name.starts_with(list)) => "a list",
        name if name.starts_with("Struct") => "a column with fields",
        name if ["Int", "UInt", "Float", "Decimal", "Integer", "Duration"].iter().any(|n| name.starts_with(n)) => {
            "a number"
        }
        name => name,
    }
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
    if let Some(output) = table.trim_end_matches('/').strip_suffix("/rejects")
        && Path::new(output).join(".asap").exists()
    {
        return format!("there is no table '{table}': the rejects of an output are '{output}/.asap/rejects'");
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
const TABLES: [(&[&str], &str); 4] = [
    (&["describe"], "DESCRIBE is a statement of its own; with --format json, its rows are JSON"),
    (&["rejects"], "the rejects of an output are a table by their path, FROM 'out/pruned/.asap/rejects'"),
    (&["output", "pruned"], "an output is a table by its path, FROM 'out/pruned'"),
    (
        &["sample", "traces"],
        "a folder or a file is a table by its path, FROM 'data/sample', and a corpus that is named is the table corpus",
    ),
];

/// Functions of other databases, and what to write here.
const FUNCTIONS: [(&[&str], &str); 20] = [
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
    (&["tokens", "token_count", "num_tokens", "count_tokens"], "cot_tokens"),
    (&["ppl", "cot_ppl", "perplexity"], "cot_perplexity"),
    (&["if", "iff", "iif"], "CASE WHEN … THEN … ELSE … END"),
    (
        &["transform", "filter"],
        "a query over the items: SELECT s['tokens'] FROM (SELECT unnest(steps) AS s FROM 'out/pruned')",
    ),
    (&["datediff", "date_diff"], "to_date('2026-01-05') - to_date('2026-01-01')"),
    (
        &["json_extract", "json_value", "json_extract_string", "get_json_object"],
        "column['name'] if the column has fields; SQL here does not read JSON in a text",
    ),
];

/// Names a missing function, and one that was probably meant: that of the engine may have little in common with it.
fn with_near_hint(message: &str) -> String {
    let named = message.strip_prefix("Invalid function '").and_then(|rest| rest.split_once('\''));
    let Some((typed, rest)) = named else { return message.to_string() };
    if ["row_number", "rank", "dense_rank", "ntile", "lag", "lead", "first_value", "last_value"].contains(&typed) {
        return format!("{typed} is a function over rows: write OVER after it, as in row_number() OVER (ORDER BY id)");
    }
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

/// Fields of steps.
const OF_STEPS: [&str; 4] = ["dropped", "similarity", "step", "surprisal"];

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
    if OF_STEPS.contains(&name) && known.contains(&"steps") {
        let values = if name == "dropped" {
            " ('anchor', the name of a later stage such as 'surprisal', or NULL if kept)"
        } else {
            ""
        };
        return format!(
            "there is no column {name}, but each step has one{values}: SELECT s['{name}'] FROM (SELECT unnest(steps) AS s FROM \
             'out/pruned')"
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
