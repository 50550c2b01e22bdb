//! Advice on expressions that do not say what they seem to.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

/// Advice on an expression that does not say what it seems to: a division of two whole numbers of columns, whose result is
/// 0 for every share, a comparison with NULL, which is never true, item 0 of a list, which is NULL, and a stage by another name.
///
/// # Errors
/// As the types of the expression.
pub fn surprise(expr: &Expr, schema: &dyn ExprSchema) -> Result<Option<String>> {
    let is_whole =
        |side: &Expr| !side.column_refs().is_empty() && side.get_type(schema).is_ok_and(|kind| kind.is_integer());
    let is_null = |side: &Expr| matches!(side, Expr::Literal(value, _) if value.is_null());
    let mut advice = None;
    expr.apply(|part| match part {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right }) if is_whole(left) && is_whole(right) => {
            let division = format!("{} / {}", shown(left), shown(right));
            advice = Some(format!(
                "{division} divides whole numbers, and leaves out the fraction: 1.0 * {division} keeps it"
            ));
            Ok(TreeNodeRecursion::Stop)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::NotEq), right }) if is_null(right) => {
            let not = if *op == Operator::NotEq { "NOT " } else { "" };
            advice = Some(format!("no comparison with NULL is true: write {} IS {not}NULL", shown(left)));
            Ok(TreeNodeRecursion::Stop)
        }
        part if let Some(found) = other_stage(part).or_else(|| of_steps(part)).or_else(|| of_lists(part, schema)) => {
            advice = Some(found);
            Ok(TreeNodeRecursion::Stop)
        }
        Expr::ScalarFunction(call) if call.name() == "array_element" && call.args.get(1).is_some_and(is_zero) => {
            let list = call.args.first().map_or(String::new(), shown);
            advice = Some(format!("SQL counts from 1, and {list}[0] is NULL: {list}[1] is the first item"));
            Ok(TreeNodeRecursion::Stop)
        }
        Expr::SimilarTo(_) => {
            advice = Some(
                "SIMILAR TO takes a regular expression here, and % is no wildcard: write x ~ 'parcel|ticket'"
                    .to_string(),
            );
            Ok(TreeNodeRecursion::Stop)
        }
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(advice)
}

fn is_zero(index: &Expr) -> bool {
    matches!(index, Expr::Literal(ScalarValue::Int64(Some(0)), _))
}

/// An expression as SQL.
fn shown(expr: &Expr) -> String {
    let arguments = |of: &[Expr]| of.iter().map(shown).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Column(column) => column.name.clone(),
        Expr::Literal(value, _) => match value.try_as_str().flatten() {
            Some(text) if text.contains('\n') => {
                format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n"))
            }
            Some(text) => format!("'{}'", text.replace('\'', "''")),
            None => value.to_string(),
        },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => format!("{} {op} {}", shown(left), shown(right)),
        Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
            ("get_field", [inner, fields @ ..]) => {
                fields.iter().fold(shown(inner), |inner, field| format!("{inner}[{}]", shown(field)))
            }
            ("array_element", [list, index]) => format!("{}[{}]", shown(list), shown(index)),
            ("make_array", items) => format!("[{}]", arguments(items)),
            (name, of) => format!("{name}({})", arguments(of)),
        },
        other => other.human_display().to_string(),
    }
}

/// Advice on literal steps that give NULL: a step 0, and lists of different lengths.
fn of_steps(part: &Expr) -> Option<String> {
    let items = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) if call.name() == "make_array" => Some(call.args.clone()),
        _ => None,
    };
    let Expr::ScalarFunction(call) = part else { return None };
    let lists: Vec<_> = call.args.iter().map(items).collect();
    match (call.name(), lists.as_slice()) {
        ("cot_select", [_, Some(kept)]) if kept.iter().any(is_zero) => {
            Some("cot_select counts steps from 1, and gives NULL for a step 0".to_string())
        }
        (name, [Some(steps), Some(scores), ..])
            if (name.starts_with("cot_refine") || name == "cot_fit") && steps.len() != scores.len() =>
        {
            let (steps, scores) = (steps.len(), scores.len());
            Some(format!("{name} gives NULL for {steps} steps with {scores} scores: pass a score for each step"))
        }
        _ => None,
    }
}

/// Advice on the greatest or least of lists, which compares their first items.
fn of_lists(part: &Expr, schema: &dyn ExprSchema) -> Option<String> {
    let Expr::AggregateFunction(call) = part else { return None };
    let name = call.func.name();
    let list = call.params.args.first().filter(|_| ["max", "min"].contains(&name))?;
    let is_list = match list.get_type(schema).ok()? {
        // Structs have no order, which is an error of its own.
        DataType::List(item) | DataType::LargeList(item) => !item.data_type().is_nested(),
        _ => false,
    };
    let list = shown(list);
    is_list.then(|| {
        format!("{name} compares lists by their first items: {name}(array_{name}({list})) is that of all items")
    })
}

/// The error on a missing column that some SELECT of a query names. None if no SELECT does.
pub fn alias_of_select(name: &str, sql: &str) -> Option<String> {
    let words: Vec<&str> = sql.split([' ', '\n', '\t', ',', ')', ';']).filter(|word| !word.is_empty()).collect();
    let is_given = words.windows(2).any(|pair| pair[0].eq_ignore_ascii_case("as") && pair[1] == name);
    is_given.then(|| {
        format!(
            "there is no column {name} here: AS {name} names it for the queries around that SELECT. Compute it before, as in \
             WITH scored AS (SELECT *, … AS {name} FROM corpus) SELECT … FROM scored"
        )
    })
}

/// Advice on a comparison of `dropped` with what pages and papers call a stage or a kept step: it is never that.
fn other_stage(part: &Expr) -> Option<String> {
    let text = |expr: &Expr| match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_string),
        _ => None,
    };
    let (side, values) = match part {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq | Operator::NotEq, right }) => {
            (left.as_ref(), vec![right.as_ref()])
        }
        Expr::InList(list) => (list.expr.as_ref(), list.list.iter().collect()),
        _ => return None,
    };
    let is_dropped = match side {
        Expr::ScalarFunction(call) if call.name() == "get_field" => {
            call.args.last().and_then(text).is_some_and(|field| field == "dropped")
        }
        _ => false,
    };
    let found = values.into_iter().filter(|_| is_dropped).filter_map(text).find(|value| is_no_stage(value))?;
    Some(format!(
        "dropped is never '{found}': stage 1 is 'anchor', stage 2 is 'surprisal' or the name that the pipeline gives it, and a \
         kept step has NULL"
    ))
}

fn is_no_stage(text: &str) -> bool {
    let lower = text.to_lowercase();
    let number = lower.trim_start_matches("stage").trim_matches([' ', '_', '-']);
    ["1", "2", "one", "two", "kept", "none", "null"].contains(&number)
}
