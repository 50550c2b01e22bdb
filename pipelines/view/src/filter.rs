//! Filters that a user types: conditions over the columns of an output, and nothing else. A text that is no SQL is words to
//! search for.
//!
//! A filter is parsed and planned once. The plan is what runs, and the text is only shown: a text that became part of a
//! query again could close a quote and add a query of its own.

use std::ops::ControlFlow;

use asap_pipelines::statement::{check_text, surprise};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, plan_datafusion_err, plan_err};
use datafusion::functions::string::expr_fn::{contains, lower, starts_with};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, Volatility, cast, ident, lit};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, visit_expressions};
use datafusion::sql::sqlparser::dialect::GenericDialect;

use super::expression::{OTHER_TOKENS, expression, is_like_sql, parsed};
use super::meant::{self, alternatives, straight};
use super::rewrite::{advice, advice_on_fields, looser, mismatch};
use super::text::identifier;
use crate::output::{error_line, quoted};

/// Functions whose result is not longer than their arguments; the case of some letters takes a byte more. Other functions
/// that a filter may call return a value of a fixed size, such as a number.
#[rustfmt::skip]
const NOT_LONGER: [&str; 33] = [
    "array_distinct", "array_element", "array_except", "array_intersect", "array_max", "array_min", "array_remove",
    "array_remove_all", "array_reverse", "array_slice", "array_sort", "arrays_zip", "btrim", "coalesce",
    "cot_answer", "cot_response", "cot_steps", "cot_think", "get_field", "greatest", "initcap", "least", "left", "lower", "ltrim",
    "nullif", "nvl", "reverse", "right", "rtrim", "split_part", "substr", "upper",
];

/// The columns of chains in which words are searched. Of rejects, all texts are.
const SEARCHED: [&str; 3] = ["question", "original_cot", "answer"];

/// A condition as it runs, and as it is shown.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub expr: Expr,
    /// The same in SQL.
    pub text: String,
    /// Why the text that was typed is no SQL, if its words are searched.
    pub not_sql: Option<NotSql>,
    /// What else the text may mean.
    pub other: Option<OtherMeaning>,
}

/// A second meaning of a text that was typed.
#[derive(Debug, Clone)]
pub(crate) struct OtherMeaning {
    pub said: String,
    /// What to type for it.
    pub filter: Option<String>,
}

/// Why a text is no SQL, and the condition that was probably meant.
#[derive(Debug, Clone)]
pub(crate) struct NotSql {
    pub why: String,
    pub meant: Option<String>,
    /// What to do, in a sentence.
    pub advice: Option<String>,
    /// Whether it looks like SQL.
    pub is_like_sql: bool,
}

/// Why a typed text is no condition.
enum Wrong {
    /// It is no SQL over the columns, but perhaps another text is, or a sentence says what to do.
    NotSql { why: DataFusionError, meant: Option<String>, advice: Option<String> },
    /// It is SQL that a filter may not have.
    Refused(DataFusionError),
}

impl Condition {
    /// A condition that asap wrote.
    pub(crate) fn sql(expr: Expr, text: String) -> Self {
        Self { expr, text, not_sql: None, other: None }
    }

    /// Whether a column is this text.
    pub(crate) fn is(column: &str, text: &str) -> Self {
        let expr = cast(ident(column), DataType::Utf8).eq(lit(text));
        Self::sql(expr, format!("{column} = {}", quoted(text)))
    }

    /// Whether a column begins with this text.
    pub(crate) fn begins(column: &str, text: &str) -> Self {
        let expr = starts_with(cast(ident(column), DataType::Utf8), lit(text));
        Self::sql(expr, format!("starts_with(CAST({column} AS TEXT), {})", quoted(text)))
    }

    /// This condition of a text that may mean something else too.
    pub(crate) fn or_else(self, said: String, filter: Option<String>) -> Self {
        Self { other: Some(OtherMeaning { said, filter }), ..self }
    }

    /// What to type if it finds nothing because it asks for a whole text, or for one case.
    pub(crate) fn looser(&self, schema: &DFSchema) -> Option<OtherMeaning> {
        let (said, filter) = looser(&self.text, schema).filter(|_| self.not_sql.is_none())?;
        Some(OtherMeaning { said: format!("{said} Did you mean"), filter: Some(filter) })
    }

    /// Whether it reads the column that only the pairs of two outputs have.
    pub(crate) fn is_of_pairs(&self) -> bool {
        self.expr.column_refs().iter().any(|column| column.name == OTHER_TOKENS)
    }

    /// This condition and another one.
    pub(crate) fn and(self, other: Option<&Self>) -> Self {
        match other {
            Some(other) => Self::sql(self.expr.and(other.expr.clone()), format!("{} AND ({})", self.text, other.text)),
            None => self,
        }
    }

    /// Whether the texts of a row contain these words, in any case.
    fn words(text: &str, schema: &DFSchema) -> Self {
        let is_of_chains = SEARCHED.iter().all(|name| schema.has_column_with_unqualified_name(name));
        let texts =
            schema.fields().iter().filter(|field| field.data_type().is_string()).map(|field| field.name().as_str());
        let columns: Vec<&str> = if is_of_chains { SEARCHED.to_vec() } else { texts.collect() };
        let has = |word: &String| {
            let found = |column: &&str| contains(lower(ident(*column)), lit(word));
            let sql = |column: &&str| format!("contains(lower({}), {})", identifier(column), quoted(word));
            let sql = columns.iter().map(sql).collect::<Vec<_>>().join(" OR ");
            (columns.iter().map(found).reduce(Expr::or), format!("({sql})"))
        };
        let all = |words: Vec<String>| {
            let (conditions, texts): (Vec<_>, Vec<_>) = words.iter().map(has).unzip();
            (conditions.into_iter().flatten().reduce(Expr::and), texts.join("\n  AND "))
        };
        let (conditions, texts): (Vec<_>, Vec<_>) = alternatives(text).into_iter().map(all).unzip();
        let expr = conditions.into_iter().flatten().reduce(Expr::or).unwrap_or_else(|| lit(true));
        Self::sql(expr, texts.join("\n  OR "))
    }

    /// The filter of a form: SQL, or words. None, which all rows pass, if the form is empty.
    ///
    /// # Errors
    /// As [`Self::checked`], if the text is SQL.
    pub(crate) fn typed(text: &str, schema: &DFSchema) -> Result<Option<Self>> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        match Self::planned(text, schema) {
            Ok(condition) => Ok(Some(condition)),
            Err(Wrong::NotSql { why, meant, advice }) => {
                let meant = meant.or_else(|| meant::search(text));
                let not_sql = Some(NotSql { why: error_line(&why), meant, advice, is_like_sql: is_like_sql(text) });
                Ok(Some(Self { not_sql, ..Self::words(text, schema) }))
            }
            Err(Wrong::Refused(why)) => Err(why),
        }
    }

    /// # Errors
    /// If it is not one expression, names a column that the output does not have, or needs more than the row and its size:
    /// a table, a file, a model, a clock, or memory without a bound.
    pub(crate) fn checked(text: &str, schema: &DFSchema) -> Result<Self> {
        if text.trim().is_empty() {
            return plan_err!("expected a condition such as pruned_tokens > 100, found an empty text");
        }
        Self::planned(text, schema).map_err(|wrong| match wrong {
            Wrong::NotSql { meant: None, advice: None, .. }
                if !is_like_sql(text) && !schema.has_column_with_unqualified_name(text.trim()) =>
            {
                plan_datafusion_err!("expected a condition, found words: write {}", meant::words(text))
            }
            Wrong::NotSql { why, .. } | Wrong::Refused(why) => why,
        })
    }

    fn planned(text: &str, schema: &DFSchema) -> std::result::Result<Self, Wrong> {
        let text = text.trim().trim_end_matches(';').trim();
        check_text(text, &GenericDialect {}).map_err(Wrong::Refused)?;
        let text = straight(text);
        let not_sql = |why, on_fields: Option<String>| {
            let meant = meant::condition(&text, schema);
            let advice = on_fields.or_else(|| advice(&text, schema)).filter(|_| meant.is_none());
            let said = meant.as_ref().map(|meant| format!("write {meant}")).or(advice.clone());
            Wrong::NotSql { why: explained(said, why), meant, advice }
        };
        let parsed = parsed(&text).map_err(|why| not_sql(why, None))?;
        if let Some(why) = mismatch(&parsed, schema) {
            return Err(not_sql(plan_datafusion_err!("{why}"), None));
        }
        if visit_expressions(&parsed, is_query).is_break() {
            let said = "a filter cannot contain a query: write a condition over the columns of the output";
            return Err(Wrong::Refused(plan_datafusion_err!("{said}")));
        }
        let on_fields = advice_on_fields(&parsed, schema);
        let expr = expression(parsed, schema).map_err(|why| not_sql(why, on_fields.clone()))?;
        let checked = expr.apply(|part| refuse(part, schema).map(|()| TreeNodeRecursion::Continue));
        checked.map_err(|why| Wrong::Refused(explained(on_fields, why)))?;
        if let Some(advice) = surprise(&expr, schema).map_err(Wrong::Refused)? {
            return Err(Wrong::Refused(plan_datafusion_err!("{advice}")));
        }
        match expr.get_type(schema).map_err(|why| not_sql(why, None))? {
            DataType::Boolean => Ok(Self::sql(expr, text.clone())),
            kind => {
                let why = "expected a condition such as pruned_tokens > 100, found a value of type";
                Err(not_sql(plan_datafusion_err!("{why} {kind}"), None))
            }
        }
    }
}

fn explained(advice: Option<String>, error: DataFusionError) -> DataFusionError {
    let why = error_line(&error);
    let is_of_types = ["Failed to coerce", "There isn't a common type"].iter().any(|begins| why.starts_with(begins));
    match advice {
        // The engine names each field of both types.
        Some(advice) if is_of_types => plan_datafusion_err!("{advice} (the types of this comparison differ)"),
        Some(advice) => plan_datafusion_err!("{advice} ({why})"),
        None => error,
    }
}

/// Stops at a query. The planner would look for its tables first, and report that they are missing.
fn is_query(part: &SqlExpr) -> ControlFlow<()> {
    match part {
        SqlExpr::Subquery(_) | SqlExpr::Exists { .. } | SqlExpr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

/// Refuses what needs more than the row and its size. What is not listed is refused, so that a new kind of expression is
/// no way around.
fn refuse(part: &Expr, schema: &DFSchema) -> Result<()> {
    match part {
        Expr::ScalarFunction(call) => {
            let name = call.func.name();
            // The pages cut chains as the run did, whatever the settings of the session are.
            let is_of_row = call.func.signature().volatility == Volatility::Immutable || name == "cot_steps";
            if !is_of_row {
                return plan_err!(
                    "a filter cannot call {name}: its result depends on more than the row (a model, a setting or a clock)"
                );
            }
            if name == "levenshtein" {
                return plan_err!("a filter cannot call {name}: on long chains it takes minutes");
            }
            let kind = part.get_type(schema)?;
            match is_fixed(&kind) || NOT_LONGER.contains(&name) {
                true if kind.is_list() && part.column_refs().is_empty() => plan_err!(
                    "a filter cannot make a list of constants with {name}: each row would have a copy of it; use a list of a column"
                ),
                true => Ok(()),
                false => plan_err!(
                    "a filter cannot call {name}: its result may be longer than its arguments, and need any amount of memory"
                ),
            }
        }
        Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat => {
            plan_err!("a filter cannot join texts with ||: compare each text alone")
        }
        // A list may have a length, which a NULL needs too.
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. })
            if !is_fixed(field.data_type()) && !field.data_type().is_string() =>
        {
            plan_err!("a filter cannot convert values to {}", field.data_type())
        }
        // The engine reads the digits of a decimal by recursion.
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })
            if field.data_type().is_decimal() && !is_fixed(&expr.get_type(schema)?) =>
        {
            plan_err!("a filter cannot convert texts to {}: use DOUBLE", field.data_type())
        }
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
            plan_err!("a filter cannot contain a query")
        }
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::Unnest(_) => {
            plan_err!("a filter is about one row: it cannot aggregate or unnest")
        }
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::Literal(..)
        | Expr::BinaryExpr(_)
        | Expr::Like(_)
        | Expr::SimilarTo(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_) => Ok(()),
        other => plan_err!("a filter is a condition over the columns of a row: it cannot contain {other}"),
    }
}

/// Whether all values of a type have the same small size.
fn is_fixed(kind: &DataType) -> bool {
    kind.is_primitive() || matches!(kind, DataType::Boolean | DataType::Null)
}
