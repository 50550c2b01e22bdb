//! How a text is read as SQL, and what it means if it is no condition, but nearly one.

use std::ops::ControlFlow;

use asap_llm::Llm;
use asap_udfs::{Models, register_all};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as SqlExpr, ExprWithAlias, Value, visit_expressions_mut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::output::quoted;

/// Reads a text as one expression.
pub(crate) fn parsed(text: &str) -> Result<SqlExpr> {
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text)?;
    // The word may stand before a condition.
    let _ = parser.parse_keyword(Keyword::WHERE);
    let parsed = parser.parse_expr()?;
    match parser.peek_token().token {
        Token::EOF => Ok(parsed),
        other => plan_err!(
            "expected one expression over the columns, as after WHERE, such as pruned_tokens > 100; found '{other}' after it"
        ),
    }
}

/// Plans an expression in a session without files, tables and models: no name in it can reach one.
pub(crate) fn expression(parsed: SqlExpr, schema: &DFSchema) -> Result<Expr> {
    let mut state = SessionStateBuilder::new().with_default_features().build();
    register_all(&mut state, &Models::default(), &Llm::default())?;
    state.create_logical_expr_from_sql_expr(ExprWithAlias { expr: parsed, alias: None }, schema)
}

/// Whether a text is a condition over the columns.
fn is_condition(text: &str, schema: &DFSchema) -> bool {
    let planned = parsed(text).and_then(|parsed| expression(parsed, schema)?.get_type(schema));
    planned.is_ok_and(|kind| kind == DataType::Boolean)
}

/// Whether a text looks like SQL rather than like words.
pub(crate) fn is_like_sql(text: &str) -> bool {
    let is_word = |word: &str| {
        ["LIKE", "ILIKE", "SELECT", "BETWEEN"].iter().any(|known| known.eq_ignore_ascii_case(word))
            || ["WHERE", "LIMIT", "ORDER", "NOT", "IS", "IN"].contains(&word)
    };
    text.contains(['<', '>', '=']) || text.split_whitespace().any(is_word)
}

/// The text with the quotes that SQL has, if it has only others.
pub(crate) fn straight(text: &str) -> String {
    match text.contains(['\'', '"']) {
        true => text.to_string(),
        false => text.replace(['‘', '’', '‚'], "'").replace(['“', '”', '„'], "\""),
    }
}

/// The condition that a text means, if it is one.
pub(crate) fn condition(text: &str, schema: &DFSchema) -> Option<String> {
    let part = part_of_query(text);
    let text = part.unwrap_or(text);
    let meant = part.map(str::to_string).filter(|part| is_condition(part, schema));
    let rewritten = || parsed(text).ok().and_then(|parsed| rewritten(parsed, schema));
    let of_text = || [by_parts(text, schema), without(text), pattern(text)].into_iter().flatten();
    meant.or_else(rewritten).into_iter().chain(of_text()).find(|meant| is_condition(meant, schema))
}

/// The search that a text means whose alternatives are joined by another word than `OR`.
pub(crate) fn alternatives(text: &str) -> Option<String> {
    let meant = text.replace(" or ", " OR ").replace(" | ", " OR ");
    (meant != text && !is_like_sql(text)).then_some(meant)
}

/// The condition with each part between AND and OR that is none replaced by what it means.
fn by_parts(text: &str, schema: &DFSchema) -> Option<String> {
    let (mut meant, mut column, mut is_equal) = (String::new(), None, false);
    for (joint, part) in parts(text) {
        let others = || {
            let continued = column.map(|column| format!("{column} {part}"));
            let same = column.filter(|_| is_equal && joint == " OR ");
            let same = same.map(|column| format!("{column} = {}", quoted(part.trim_matches(['\'', '"']))));
            let of_words = (is_like_sql(text) && !is_like_sql(part)).then(|| words(part));
            [operator(part), continued, share(part), with_quotes(part), same, of_words].into_iter().flatten()
        };
        let own = std::iter::once(part.to_string()).chain(others()).find(|part| is_condition(part, schema))?;
        let name = part.split([' ', '<', '>', '=', '!', '~']).next().filter(|name| is_column(name, schema));
        (column, is_equal) = (name.or(column), is_equal && name.is_none() || part.contains('='));
        meant.push_str(&format!("{joint}{own}"));
    }
    Some(meant)
}

fn is_column(name: &str, schema: &DFSchema) -> bool {
    schema.has_column_with_unqualified_name(name)
}

/// The parts of a text between AND and OR outside of quotes, each with the operator before it.
fn parts(text: &str) -> Vec<(&'static str, &str)> {
    let lower = text.to_ascii_lowercase();
    let (mut from, mut joint, mut found, mut quote) = (0, "", Vec::new(), None);
    for (at, sign) in text.char_indices() {
        match quote {
            Some(open) if open == sign => quote = None,
            None if ['\'', '"'].contains(&sign) => quote = Some(sign),
            None if at >= from => {
                let is_range = lower[from..at].contains(" between ") && !lower[from..at].contains(" and ");
                let joints = [(" and ", " AND "), (" or ", " OR ")];
                let next = joints.into_iter().find(|(word, _)| lower[at..].starts_with(word));
                if let Some((word, next)) = next.filter(|(word, _)| *word != " and " || !is_range) {
                    found.push((joint, text[from..at].trim()));
                    (from, joint) = (at + word.len(), next);
                }
            }
            _ => {}
        }
    }
    found.push((joint, text[from..].trim()));
    found
}

/// A comparison with an operator of another engine: `question REGEXP 'a|b'`, `question contains parcel`.
fn operator(text: &str) -> Option<String> {
    let (column, rest) = text.split_once(' ')?;
    let (first, after) = rest.trim_start().split_once(' ')?;
    let is_not = first.eq_ignore_ascii_case("not");
    let (name, value) = if is_not { after.trim_start().split_once(' ')? } else { (first, after) };
    let value = value.trim().trim_matches(['\'', '"']);
    let not = if is_not { "NOT " } else { "" };
    match name.to_ascii_lowercase().as_str() {
        "regexp" | "rlike" | "match" | "matches" if is_not => Some(format!("{column} !~ {}", quoted(value))),
        "regexp" | "rlike" | "match" | "matches" => Some(format!("{column} ~ {}", quoted(value))),
        "glob" => Some(format!("{column} {not}LIKE {}", quoted(&value.replace('*', "%").replace('?', "_")))),
        "contains" | "has" | "includes" => {
            Some(format!("{not}contains(lower({column}), {})", quoted(&value.to_lowercase())))
        }
        _ => None,
    }
}

/// A regular expression between slashes.
fn pattern(text: &str) -> Option<String> {
    let pattern = quoted(text.strip_prefix('/')?.strip_suffix('/').filter(|pattern| !pattern.is_empty())?);
    Some(format!("question ~ {pattern} OR original_cot ~ {pattern}"))
}

/// The condition of a query.
fn part_of_query(text: &str) -> Option<&str> {
    let upper = text.to_ascii_uppercase();
    let begin = if upper.starts_with("SELECT ") { upper.find(" WHERE ")? + " WHERE ".len() } else { 0 };
    let ends = [" LIMIT ", " ORDER BY ", " GROUP BY "].into_iter().filter_map(|clause| upper[begin..].find(clause));
    let end = ends.min().map_or(text.len(), |end| begin + end);
    (begin > 0 || end < text.len()).then(|| text[begin..end].trim())
}

/// A condition on the share of tokens that is kept: `< 20 %`, `ratio > 0.5`.
fn share(text: &str) -> Option<String> {
    let (name, rest) = text.split_at(text.find(['<', '>', '='])?);
    let (operator, number) = rest.split_at(rest.find(|sign| !['<', '>', '='].contains(&sign))?);
    let percent = number.trim().strip_suffix('%');
    let number: f64 = percent.unwrap_or(number).trim().parse().ok()?;
    let share = if percent.is_some() || number > 1.0 { number / 100.0 } else { number };
    match name.trim() {
        "" if percent.is_none() => Some(format!("pruned_tokens {operator} {number}")),
        "pruned_tokens" | "tokens" if percent.is_none() => None,
        "" | "kept" | "ratio" | "share" | "pruned_tokens" | "tokens" => {
            Some(format!("pruned_tokens {operator} {share} * original_tokens"))
        }
        _ => None,
    }
}

/// A comparison with a text that has no quotes: `id = 12/A`, `question like %x%`, `like %x%`.
fn with_quotes(text: &str) -> Option<String> {
    let padded = format!(" {text}");
    let lower = padded.to_ascii_lowercase();
    let (operator, at) = [" ilike ", " like ", "="].into_iter().find_map(|each| Some((each, lower.find(each)?)))?;
    let (column, value) = (padded[..at].trim(), padded[at + operator.len()..].trim());
    let column = if column.is_empty() { "question" } else { column };
    (!value.contains(['\'', '"'])).then(|| format!("{column} {} {}", operator.trim().to_uppercase(), quoted(value)))
}

/// The condition that a question has each of some words.
pub(crate) fn words(text: &str) -> String {
    text.split_whitespace().map(has).collect::<Vec<_>>().join(" AND ")
}

fn has(word: &str) -> String {
    format!("contains(lower(question), {})", quoted(&word.to_lowercase()))
}

/// A search for what words are not in: `NOT parcel`, `ticket -parcel`.
fn without(text: &str) -> Option<String> {
    if let Some(words) = text.strip_prefix("NOT ") {
        return Some(format!("NOT {}", has(words.trim())));
    }
    let excluded = |word: &str| word.strip_prefix('-').is_some_and(|word| word.starts_with(char::is_alphabetic));
    let is_plain = |word: &str| word.chars().all(|sign| sign.is_alphanumeric() || sign == '-');
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_meant = words.iter().all(|word| is_plain(word)) && words.iter().any(|word| excluded(word));
    let each = words.iter().map(|word| if excluded(word) { format!("NOT {}", has(&word[1..])) } else { has(word) });
    is_meant.then(|| each.collect::<Vec<_>>().join(" AND "))
}

/// The condition with quotes around the names of no column that it compares with, with the numbers and items of lists, with
/// both halves of `a < b < c`, and with lists in place of `x = 1 OR 2`. None if that changes nothing.
fn rewritten(mut meant: SqlExpr, schema: &DFSchema) -> Option<String> {
    let typed = meant.clone();
    let column = |name: &str| {
        let lower = name.to_lowercase();
        schema.field_with_unqualified_name(&lower).or(schema.field_with_unqualified_name(name)).ok()
    };
    let is_column = |side: &SqlExpr| matches!(side, SqlExpr::Identifier(name) if column(&name.value).is_some());
    let is_list = |side: &SqlExpr| match side {
        SqlExpr::Identifier(name) => column(&name.value)
            .is_some_and(|field| matches!(field.data_type(), DataType::List(_) | DataType::LargeList(_))),
        _ => false,
    };
    let _ = visit_expressions_mut(&mut meant, |part| -> ControlFlow<()> {
        if let Some(Ok(meant)) = shorter(part, &is_column).map(|meant| parsed(&meant)) {
            *part = meant;
            return ControlFlow::Continue(());
        }
        let (text, any) = match part {
            SqlExpr::BinaryOp { op, right, .. } if is_comparison(op) => (right, ""),
            SqlExpr::Like { pattern, .. } | SqlExpr::ILike { pattern, .. } => (pattern, "%"),
            _ => return ControlFlow::Continue(()),
        };
        if let SqlExpr::Identifier(name) = text.as_ref()
            && column(&name.value).is_none()
        {
            let any = if name.value.contains('%') { "" } else { any };
            **text = SqlExpr::value(Value::SingleQuotedString(format!("{any}{}{any}", name.value)));
        }
        let SqlExpr::BinaryOp { left, op, right } = part else { return ControlFlow::Continue(()) };
        let is_text =
            matches!(right.as_ref(), SqlExpr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
        let meant = match left.as_ref() {
            list if is_list(list) && is_text => Some(format!("array_has({list}, {right})")),
            list if is_list(list) => Some(format!("cardinality({list}) {op} {right}")),
            SqlExpr::BinaryOp { op: first, right: middle, .. } if is_comparison(first) && is_column(middle) => {
                Some(format!("{left} AND {middle} {op} {right}"))
            }
            _ => None,
        };
        if let Some(Ok(meant)) = meant.map(|meant| parsed(&meant)) {
            *part = meant;
        }
        ControlFlow::Continue(())
    });
    (meant != typed).then(|| meant.to_string())
}

/// What `x = 1 OR 2` means, and the name of a stage in `dropped`, which is a field of steps.
fn shorter(part: &SqlExpr, is_column: &dyn Fn(&SqlExpr) -> bool) -> Option<String> {
    let SqlExpr::BinaryOp { left, op, right } = part else { return None };
    match (left.as_ref(), op) {
        (SqlExpr::Identifier(name), BinaryOperator::Eq) if name.value == "dropped" && !is_column(left) => {
            let is_first = ["anchor", "stage 1", "stage1"].iter().any(|stage| right.to_string().contains(stage));
            let meant = ["pruned_tokens < coarse_tokens", "coarse_tokens < original_tokens"][usize::from(is_first)];
            Some(meant.to_string())
        }
        (_, BinaryOperator::Or) => {
            let value = match right.as_ref() {
                SqlExpr::Value(value) => value.to_string(),
                SqlExpr::Identifier(name) if !is_column(right) => quoted(&name.value),
                _ => return None,
            };
            match left.as_ref() {
                SqlExpr::BinaryOp { left: column, op: BinaryOperator::Eq, right: first } if is_column(column) => {
                    Some(format!("{column} IN ({first}, {value})"))
                }
                SqlExpr::BinaryOp { op: BinaryOperator::Or, right: last, .. } => match last.as_ref() {
                    SqlExpr::BinaryOp { left: column, op: BinaryOperator::Eq, .. } if is_column(column) => {
                        Some(format!("{left} OR {column} = {value}"))
                    }
                    _ => None,
                },
                SqlExpr::InList { negated: false, .. } => {
                    left.to_string().strip_suffix(')').map(|list| format!("{list}, {value})"))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_comparison(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}
