//! Conditions as SQL: whether a text is one, and how parts of one are written.

use std::sync::OnceLock;

use asap_llm::Llm;
use asap_udfs::{Models, register_all};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::output::quoted;

/// The column that only the pairs of two outputs have: the tokens of the other one.
pub(crate) const OTHER_TOKENS: &str = "other_tokens";

/// The number of a row in its file.
pub(crate) const ROW: &str = "source['row']";

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
    // Building a session takes longer than planning, and a search tries many conditions.
    static SESSION: OnceLock<SessionState> = OnceLock::new();
    let session = match SESSION.get() {
        Some(session) => session,
        None => {
            let mut session = SessionStateBuilder::new().with_default_features().build();
            register_all(&mut session, &Models::default(), &Llm::default())?;
            SESSION.get_or_init(|| session)
        }
    };
    session.create_logical_expr_from_sql_expr(ExprWithAlias { expr: parsed, alias: None }, schema)
}

/// Whether a text looks like SQL rather than like words.
pub(crate) fn is_like_sql(text: &str) -> bool {
    let is_word = |word: &str| {
        ["LIKE", "ILIKE", "SELECT", "BETWEEN"].iter().any(|known| known.eq_ignore_ascii_case(word))
            || ["WHERE", "LIMIT", "ORDER", "NOT", "IS", "IN"].contains(&word)
    };
    text.contains(['<', '>', '=']) || text.split_whitespace().any(is_word)
}

/// Whether a text in double quotes begins and does not end.
pub(crate) fn is_open(text: &str) -> bool {
    text.matches('"').count() % 2 == 1 && text.split_whitespace().any(|word| word.starts_with('"'))
}

/// Texts of many words: a condition asks for a part of them.
const LONG: [&str; 7] = ["question", "cot", "original_cot", "answer", "system", "error", "generation"];

pub(crate) fn is_long(column: &str) -> bool {
    LONG.contains(&column)
}

/// The condition that a column is a text, or has it if it is long.
pub(crate) fn is(column: &str, value: &str) -> String {
    match is_long(column) {
        true => format!("contains(lower({column}), {})", quoted(&value.to_lowercase())),
        false => format!("{column} = {}", quoted(value)),
    }
}

pub(crate) fn has(word: &str) -> String {
    format!("contains(lower(question), {})", quoted(&word.to_lowercase()))
}
