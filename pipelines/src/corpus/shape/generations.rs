//! Chooses one of several generations of a row: the first that its model finished and that a flag marks as correct.

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::functions::core::expr_fn::{coalesce, get_field};
use datafusion::functions::string::expr_fn::concat;
use datafusion::functions_nested::expr_fn::{array_element, array_max, range};
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{Expr, cast, lit, when};

use crate::corpus::shape::Generations;
use crate::corpus::shape::expressions::{column, first_filled, first_that, length, text};
use crate::corpus::shape::path::{item_fields, items_of};
use crate::corpus::shape::rules::{COMPLETE, EITHER};

/// The chosen generation, and the fault of a row without one.
pub(crate) fn first_correct(schema: &Schema, generations: &Generations) -> Result<(Expr, Expr)> {
    let place = place(schema, generations)?;
    let item = array_element(column(&generations.list), place.clone());
    let generation = match &generations.item {
        Some((texts, _)) => {
            first_filled(texts.iter().map(|name| text(get_field(item.clone(), name.as_str()))).collect())?
        }
        None => item,
    };
    let none = concat(vec![
        lit("none of the "),
        text(length(column(&generations.list))),
        lit(format!(
            " texts of column {} is verified as correct ({})",
            generations.list,
            generations.described_flags()
        )),
    ]);
    Ok((text(generation), when(place.is_null(), none).end()?))
}

fn place(schema: &Schema, generations: &Generations) -> Result<Expr> {
    let is_taken = |at: Expr| {
        let flags = generations.flags.iter().filter_map(|name| {
            let kind = items_of(schema, name)?;
            let flag = is_true(array_element(column(name), at.clone()), kind)?;
            // On a scale beyond 1, 1 does not mean correct.
            Some(if kind.is_numeric() { flag.and(array_max(column(name)).lt_eq(lit(1))) } else { flag })
        });
        let in_items = generations.item.iter().flat_map(|(_, flags)| flags).filter_map(|flag| {
            let (_, kind) = item_fields(schema, &generations.list)?.find(flag)?;
            let item = array_element(column(&generations.list), at.clone());
            is_true(get_field(item, flag.as_str()), kind.data_type())
        });
        let first_of = |flags: Vec<Expr>| coalesce(flags.into_iter().chain([lit(false)]).collect());
        let is_either = |name: &String| EITHER.iter().any(|either| either.eq_ignore_ascii_case(name));
        let by_lists = match generations.flags.iter().any(is_either) {
            true => disjunction(flags.map(|flag| coalesce(vec![flag, lit(false)]))).unwrap_or_else(|| lit(false)),
            false => first_of(flags.collect()),
        };
        let is_correct = by_lists.or(first_of(in_items.collect()));
        let is_ended = match items_of(schema, COMPLETE) {
            Some(kind) if *kind == DataType::Boolean || kind.is_numeric() => {
                coalesce(vec![cast(array_element(column(COMPLETE), at.clone()), DataType::Boolean), lit(true)])
            }
            _ => lit(true),
        };
        is_correct.and(is_ended)
    };
    let last = cast(length(column(&generations.list)), DataType::Int64);
    first_that(range(lit(1_i64), last + lit(1_i64), lit(1_i64)), DataType::Int64, is_taken)
}

/// Whether a flag is true; NULL if it is NULL. None if all flags are.
fn is_true(flag: Expr, kind: &DataType) -> Option<Expr> {
    match kind {
        DataType::Boolean => Some(flag),
        DataType::Null => None,
        _ => Some(cast(flag, DataType::Float64).eq(lit(1.0))),
    }
}
