//! Chooses one of several generations of a row: the first that its model finished and that a flag marks as correct.

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::functions::core::expr_fn::{coalesce, get_field};
use datafusion::functions::string::expr_fn::concat;
use datafusion::functions_nested::expr_fn::{array_element, range};
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{Expr, cast, lit, not, when};

use crate::corpus::rules::{COMPLETE, EITHER};
use crate::corpus::shape::expressions::{any_that, column, first_filled, first_that, is_blank, length, text};
use crate::corpus::shape::path::{item_fields, items_of};
use crate::corpus::shape::{Generations, flags};

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

/// The place of the first text that is filled, correct and not cut off.
fn place(schema: &Schema, generations: &Generations) -> Result<Expr> {
    let list = &generations.list;
    let (texts, in_items) = generations.item.as_ref().map_or((&[][..], &[][..]), |(texts, flags)| (texts, flags));
    let field_of = |item, field: Option<&String>| field.iter().fold(item, |item, name| get_field(item, name.as_str()));
    let flag = |list: &String, field: Option<&String>, at: &Expr| {
        let item = items_of(schema, list)?;
        let kind = match field {
            Some(field) => item_fields(schema, list)?.find(field)?.1.data_type(),
            None => item,
        };
        let value = |item: Expr| flags::value(field_of(item, field), kind);
        let is_one = value(array_element(column(list), at.clone()))?.eq(lit(1.0));
        // On a scale beyond 1, 1 does not mean correct.
        let is_more = |item: Expr| value(item).map_or(lit(false), |value| value.gt(lit(1.0)));
        let is_scale = || any_that(column(list), item, is_more);
        Some(if *kind == DataType::Boolean { is_one } else { is_one.and(not(is_scale())) })
    };
    let is_taken = |at: Expr| {
        let first_of = |flags: Vec<Expr>| coalesce(flags.into_iter().chain([lit(false)]).collect());
        let (either, others): (Vec<&String>, Vec<_>) =
            generations.flags.iter().partition(|name| EITHER.iter().any(|either| either.eq_ignore_ascii_case(name)));
        let either: Vec<Expr> = either.into_iter().filter_map(|name| flag(name, None, &at)).collect();
        let is_either = either.clone().into_iter().reduce(Expr::or);
        let others = others.into_iter().filter_map(|name| flag(name, None, &at));
        let by_lists = first_of(is_either.into_iter().chain(either).chain(others).collect());
        let is_correct =
            by_lists.or(first_of(in_items.iter().filter_map(|name| flag(list, Some(name), &at)).collect()));
        let is_ended = match items_of(schema, COMPLETE) {
            Some(kind) if *kind == DataType::Boolean || kind.is_numeric() => {
                coalesce(vec![cast(array_element(column(COMPLETE), at.clone()), DataType::Boolean), lit(true)])
            }
            _ => lit(true),
        };
        let item = array_element(column(list), at);
        let is_filled = |field| not(is_blank(&text(field_of(item.clone(), field))));
        let is_filled = disjunction(texts.iter().map(|name| is_filled(Some(name)))).unwrap_or_else(|| is_filled(None));
        is_correct.and(is_ended).and(is_filled)
    };
    let last = cast(length(column(list)), DataType::Int64);
    first_that(range(lit(1_i64), last + lit(1_i64), lit(1_i64)), DataType::Int64, is_taken)
}
