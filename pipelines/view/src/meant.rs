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
    let of_text = || [share(text), with_quotes(text), without(text)].into_iter().flatten();
    meant.or_else(rewritten).into_iter().chain(of_text()).find(|meant| is_condition(meant, schema))
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
        "" | "kept" | "ratio" | "share" => Some(format!("pruned_tokens {operator} {share} * original_tokens")),
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
    let is_one = !value.contains(['\'', '"']) && !lower.contains(" and ") && !lower.contains(" or ");
    is_one.then(|| format!("{column} {} {}", operator.trim().to_uppercase(), quoted(value)))
}

/// A search for what words are not in.
fn without(text: &str) -> Option<String> {
    let words = text.strip_prefix("NOT ")?.trim().to_lowercase();
    Some(format!("NOT contains(lower(question), {})", quoted(&words)))
}

/// The condition with quotes around the names of no column that it compares with, with the numbers and items of lists, and
/// with both halves of `a < b < c`. None if that changes nothing.
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
    let _ = visit_expressions_mut(&mut meant, |part| {
        let (text, any) = match part {
            SqlExpr::BinaryOp { op, right, .. } if is_comparison(op) => (right, ""),
            SqlExpr::Like { pattern, .. } | SqlExpr::ILike { pattern, .. } => (pattern, "%"),
            _ => return ControlFlow::<()>::Continue(()),
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

fn is_comparison(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}
