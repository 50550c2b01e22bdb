//! What a text means that SQL reads, but that is no condition over the columns.

use std::ops::ControlFlow;

use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::DFSchema;
use datafusion::logical_expr::ExprSchemable;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Subscript,
    UnaryOperator, Value, visit_expressions, visit_expressions_mut,
};

use super::expression::{OTHER_TOKENS, ROW, expression, has, is, is_like_sql, is_long, is_open, parsed};
use crate::output::quoted;

/// Names on pages, with what they are of a row.
const NAMES: [(&str, &str); 5] = [
    ("chain", ROW),
    ("difference", "abs(pruned_tokens - other_tokens)"),
    ("score", "steps[1]['surprisal']"),
    ("stage", "steps[1]['dropped']"),
    ("tokens", "pruned_tokens"),
];
/// Columns whose fields are meant first.
const FIRST: [&str; 3] = ["steps", "turns", "source"];
/// The field of a record that has its text.
const TEXTS: [&str; 2] = ["text", "content"];

/// The columns that a text may name.
pub(crate) struct Columns<'a>(pub &'a DFSchema);

impl Columns<'_> {
    fn field(&self, name: &str) -> Option<&Field> {
        let named = |name: &str| self.0.field_with_unqualified_name(name).ok();
        named(&name.to_lowercase()).or_else(|| named(name)).map(|field| field.as_ref())
    }

    pub(crate) fn is_number(&self, name: &str) -> bool {
        self.field(name).is_some_and(|field| field.data_type().is_numeric())
    }

    fn is_column(&self, side: &SqlExpr) -> bool {
        matches!(side, SqlExpr::Identifier(name) if self.field(&name.value).is_some())
    }

    /// The type of a column, of a field or of an item.
    fn kind(&self, side: &SqlExpr) -> Option<DataType> {
        match side {
            SqlExpr::Identifier(name) => self.field(&name.value).map(|field| field.data_type().clone()),
            SqlExpr::CompoundFieldAccess { root, access_chain } => {
                access_chain.iter().try_fold(self.kind(root)?, |kind, access| {
                    let AccessExpr::Subscript(Subscript::Index { index }) = access else { return None };
                    match (kind, literal(index)) {
                        (DataType::List(item) | DataType::LargeList(item), _) => Some(item.data_type().clone()),
                        (DataType::Struct(fields), Some(name)) => {
                            fields.find(name).map(|(_, field)| field.data_type().clone())
                        }
                        _ => None,
                    }
                })
            }
            _ => None,
        }
    }

    /// What a name means that no column has: one of pages, or a field of a record or of the first item of a list.
    fn meaning(&self, name: &str) -> Option<String> {
        if self.field(name).is_some() {
            return None;
        }
        let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, meant)| (*meant).to_string());
        named.or_else(|| {
            let mut columns: Vec<_> = self.0.fields().iter().collect();
            columns.sort_by_key(|column| FIRST.iter().position(|first| first == column.name()).unwrap_or(FIRST.len()));
            columns.into_iter().find_map(|column| match column.data_type() {
                DataType::Struct(fields) => fields.find(name).map(|_| format!("{}['{name}']", column.name())),
                kind => records(kind)?.find(name).map(|_| format!("{}[1]['{name}']", column.name())),
            })
        })
    }

    /// Writes a name that no column has as what it means, and a list of records as the text of its first.
    fn name(&self, part: &mut SqlExpr) {
        let is_pattern = matches!(part, SqlExpr::Like { .. } | SqlExpr::ILike { .. });
        let Some(subject) = subject(part) else { return };
        let meant = match subject {
            SqlExpr::Identifier(name) if name.value == "dropped" => None,
            SqlExpr::Identifier(name) => self.meaning(&name.value),
            _ => None,
        };
        if let Some(Ok(meant)) = meant.map(|meant| parsed(&meant)) {
            *subject = meant;
        }
        let text = self.kind(subject).filter(|_| is_pattern).and_then(|kind| text_of(records(&kind)?));
        if let Some(Ok(meant)) = text.map(|text| parsed(&format!("{subject}[1]['{text}']"))) {
            *subject = meant;
        }
    }

    /// Puts quotes around the names of no column that something is compared with, or that a function gets.
    fn quote(&self, part: &mut SqlExpr) {
        let is_name = |side: &SqlExpr| matches!(side, SqlExpr::Identifier(_)) && !self.is_column(side);
        let quoted = |side: &mut SqlExpr, any: &str| {
            if let SqlExpr::Identifier(name) = side {
                let any = if name.value.contains('%') { "" } else { any };
                *side = SqlExpr::value(Value::SingleQuotedString(format!("{any}{}{any}", name.value)));
            }
        };
        match part {
            SqlExpr::BinaryOp { op, right, .. } if is_comparison(op) && is_name(right) => quoted(right, ""),
            SqlExpr::Like { pattern, .. } | SqlExpr::ILike { pattern, .. } if is_name(pattern) => quoted(pattern, "%"),
            SqlExpr::Function(Function { args: FunctionArguments::List(list), .. }) => {
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(side)) = argument
                        && is_name(side)
                    {
                        quoted(side, "");
                    }
                }
            }
            _ => {}
        }
    }

    /// What a comparison of a list, of a text or of a comparison means.
    fn compared(&self, part: &SqlExpr) -> Option<String> {
        let SqlExpr::BinaryOp { left, op, right } = part else { return None };
        if !is_comparison(op) {
            return None;
        }
        let kind = self.kind(left);
        match (left.as_ref(), literal(right), number(right)) {
            (SqlExpr::BinaryOp { op: first, right: middle, .. }, ..)
                if is_comparison(first) && self.is_column(middle) =>
            {
                Some(format!("{left} AND {middle} {op} {right}"))
            }
            (list, Some(_), _) if is_list(kind.as_ref()) => match records(kind.as_ref()?) {
                Some(fields) => Some(format!("{list}[1]['{}'] {op} {right}", text_of(fields)?)),
                None => Some(format!("array_has({list}, {right})")),
            },
            (list, None, _) if is_list(kind.as_ref()) => Some(format!("cardinality({list}) {op} {right}")),
            (SqlExpr::Identifier(column), Some(_), None) | (SqlExpr::Identifier(column), None, Some(_))
                if kind.as_ref().is_some_and(DataType::is_string) =>
            {
                let value = literal(right).or(number(right))?;
                let is_whole = !is_long(&column.value) && *op == BinaryOperator::Eq;
                match op {
                    BinaryOperator::Eq if is_whole && literal(right).is_some() => None,
                    BinaryOperator::Eq => Some(is(&column.value, value)),
                    BinaryOperator::NotEq if is_long(&column.value) => {
                        Some(format!("NOT {}", is(&column.value, value)))
                    }
                    op if number(right).is_some() => Some(format!("{column} {op} {}", quoted(value))),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The condition with the meaning of names that no column has, with quotes around those that something is compared with, with
/// the numbers and items of lists, with both halves of `a < b < c`, and with lists in place of `x = 1 OR 2`. None if that
/// changes nothing.
pub(crate) fn rewritten(mut meant: SqlExpr, schema: &DFSchema) -> Option<String> {
    let (typed, columns) = (meant.clone(), Columns(schema));
    let _ = visit_expressions_mut(&mut meant, |part| -> ControlFlow<()> {
        if let Some(Ok(meant)) = shorter(part, &|side| columns.is_column(side)).map(|meant| parsed(&meant)) {
            *part = meant;
            return ControlFlow::Continue(());
        }
        columns.name(part);
        columns.quote(part);
        if let Some(Ok(meant)) = columns.compared(part).map(|meant| parsed(&meant)) {
            *part = meant;
        }
        ControlFlow::Continue(())
    });
    (meant != typed).then(|| meant.to_string())
}

/// The condition that questions have words which are joined by operators.
pub(crate) fn of_words(part: &SqlExpr, schema: &DFSchema) -> Option<String> {
    match part {
        SqlExpr::Identifier(name) if Columns(schema).field(&name.value).is_none() => Some(has(&name.value)),
        SqlExpr::Nested(inner) => Some(format!("({})", of_words(inner, schema)?)),
        SqlExpr::UnaryOp { op: UnaryOperator::Not, expr } => Some(format!("NOT {}", of_words(expr, schema)?)),
        SqlExpr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
            Some(format!("{} {op} {}", of_words(left, schema)?, of_words(right, schema)?))
        }
        _ => None,
    }
}

/// Why a comparison of a column with a value of another kind would fail on the rows.
pub(crate) fn mismatch(parsed: &SqlExpr, schema: &DFSchema) -> Option<String> {
    let columns = Columns(schema);
    let found = visit_expressions(parsed, |part| {
        let SqlExpr::BinaryOp { left, op, right } = part else { return ControlFlow::Continue(()) };
        let kind = columns.kind(left).filter(|_| is_comparison(op));
        let is_name = *op == BinaryOperator::Eq
            && matches!(right.as_ref(), SqlExpr::Identifier(name) if columns.meaning(&name.value).is_none())
            && !columns.is_column(right);
        let is_text = is_name || literal(right).is_some_and(|text| text.trim().parse::<f64>().is_err());
        match kind {
            Some(kind) if kind.is_string() && number(right).is_some() => {
                ControlFlow::Break(format!("{left} is a text, and {right} a number"))
            }
            Some(kind) if kind.is_numeric() && is_text => {
                ControlFlow::Break(format!("{left} is a number: compare it with one, such as {left} > 100"))
            }
            _ => ControlFlow::Continue(()),
        }
    });
    found.break_value()
}

/// Whether a text is a condition over the columns.
pub(crate) fn is_condition(text: &str, schema: &DFSchema) -> bool {
    let Some(parsed) = parsed(text).ok().filter(|parsed| mismatch(parsed, schema).is_none()) else { return false };
    let planned = expression(parsed, schema).and_then(|planned| planned.get_type(schema));
    planned.is_ok_and(|kind| kind == DataType::Boolean)
}

/// A condition that finds more than one that found nothing, and why.
pub(crate) fn looser(text: &str, schema: &DFSchema) -> Option<(&'static str, String)> {
    let (mut meant, mut why) = (parsed(text).ok()?, None);
    let _ = visit_expressions_mut(&mut meant, |part| -> ControlFlow<()> {
        let is_any_case = matches!(part, SqlExpr::ILike { .. });
        let changed = match part {
            SqlExpr::Like { negated: false, expr, pattern, .. }
            | SqlExpr::ILike { negated: false, expr, pattern, .. } => {
                literal(pattern).and_then(|text| match text.contains(['%', '_']) {
                    false => Some((
                        "Without %, LIKE compares the whole text.",
                        format!("{expr} ILIKE {}", quoted(&format!("%{text}%"))),
                    )),
                    true if is_any_case => None,
                    true => Some(("LIKE minds case.", format!("{expr} ILIKE {pattern}"))),
                })
            }
            SqlExpr::BinaryOp { left, op: BinaryOperator::PGRegexMatch, right } => {
                Some(("~ minds case.", format!("{left} ~* {right}")))
            }
            SqlExpr::BinaryOp { left, op: BinaryOperator::Eq, right } => match (left.as_ref(), literal(right)) {
                (SqlExpr::Identifier(column), Some(text)) if is_long(&column.value) => {
                    Some(("= compares the whole text.", is(&column.value, text)))
                }
                _ => None,
            },
            _ => None,
        };
        if let Some((said, changed)) = changed
            && let Ok(changed) = parsed(&changed)
        {
            (*part, why) = (changed, Some(said));
        }
        ControlFlow::Continue(())
    });
    let meant = meant.to_string();
    why.filter(|_| is_condition(&meant, schema)).map(|why| (why, meant))
}

/// How to write a field of steps, which SQL writes otherwise.
pub(crate) fn advice_on_fields(parsed: &SqlExpr, schema: &DFSchema) -> Option<String> {
    let columns = Columns(schema);
    let of_items = |list: &dyn std::fmt::Display, field: &str| {
        ControlFlow::Break(format!(
            "{list} is a list: {list}[1]['{field}'] is that of its first item. For all items, unnest({list}) in asap sql"
        ))
    };
    let found = visit_expressions(parsed, |part| match part {
        SqlExpr::CompoundIdentifier(names) => match names.as_slice() {
            [list, field] if is_list(columns.field(&list.value).map(Field::data_type)) => of_items(list, &field.value),
            _ => ControlFlow::Continue(()),
        },
        SqlExpr::CompoundFieldAccess { access_chain, .. } => match access_chain.last() {
            Some(AccessExpr::Dot(field)) => {
                ControlFlow::Break(format!("a field is in brackets and quotes: ['{field}']"))
            }
            _ => ControlFlow::Continue(()),
        },
        SqlExpr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if ["array_has", "list_has", "list_contains", "array_contains"].contains(&name.to_string().as_str()) =>
        {
            let text = list.args.first().and_then(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(side)) => {
                    columns.kind(side).and_then(|kind| text_of(records(&kind)?)).map(|text| (side, text))
                }
                _ => None,
            });
            text.map_or(ControlFlow::Continue(()), |(side, text)| of_items(side, &text))
        }
        _ => ControlFlow::Continue(()),
    });
    found.break_value()
}

/// Why no condition has this text, if a sentence says more than SQL does.
pub(crate) fn advice(text: &str, schema: &DFSchema) -> Option<String> {
    let upper = text.to_ascii_uppercase();
    let is_of_other = ["other_tokens", "other.", "other_pruned_tokens"].iter().any(|name| text.contains(name));
    if is_open(text) {
        Some("a quote is not closed".to_string())
    } else if ["ORDER BY ", "SORT:", "SORT BY ", "LIMIT ", "GROUP BY "].iter().any(|word| upper.starts_with(word)) {
        Some("a filter chooses rows, and neither sorts nor counts them: click the head of a column to sort".to_string())
    } else if is_of_other && is_like_sql(text) && Columns(schema).field(OTHER_TOKENS).is_none() {
        Some(format!("{OTHER_TOKENS} is a column only with --against"))
    } else {
        None
    }
}

/// What a condition compares.
fn subject(part: &mut SqlExpr) -> Option<&mut SqlExpr> {
    match part {
        SqlExpr::BinaryOp { left: side, op, .. } if is_comparison(op) => Some(side),
        SqlExpr::Like { expr: side, .. }
        | SqlExpr::ILike { expr: side, .. }
        | SqlExpr::InList { expr: side, .. }
        | SqlExpr::Between { expr: side, .. }
        | SqlExpr::IsNull(side)
        | SqlExpr::IsNotNull(side) => Some(side),
        _ => None,
    }
}

fn literal(side: &SqlExpr) -> Option<&str> {
    match side {
        SqlExpr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn number(side: &SqlExpr) -> Option<&str> {
    match side {
        SqlExpr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(number),
            _ => None,
        },
        _ => None,
    }
}

fn is_list(kind: Option<&DataType>) -> bool {
    matches!(kind, Some(DataType::List(_) | DataType::LargeList(_)))
}

/// The fields of the records of a list.
fn records(kind: &DataType) -> Option<&Fields> {
    match kind {
        DataType::List(item) | DataType::LargeList(item) => match item.data_type() {
            DataType::Struct(fields) => Some(fields),
            _ => None,
        },
        _ => None,
    }
}

/// The field of a record that has its text, else its first text.
fn text_of(fields: &Fields) -> Option<String> {
    let known = TEXTS.iter().find_map(|name| fields.find(name)).map(|(_, field)| field);
    known.or(fields.iter().find(|field| field.data_type().is_string())).map(|field| field.name().clone())
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
    use BinaryOperator::{
        Eq, Gt, GtEq, Lt, LtEq, NotEq, PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch, PGRegexNotMatch,
    };
    let is_pattern = matches!(operator, PGRegexMatch | PGRegexIMatch | PGRegexNotMatch | PGRegexNotIMatch);
    is_pattern || matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}
