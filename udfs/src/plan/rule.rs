//! Moves every call of a plan into a fence.
//!
//! ```text
//!   Sort g(f(x))                  Projection x
//!     Scan x                        Sort __call_2
//!                                     Fence g(__call_1) AS __call_2
//!                                       Fence f(x) AS __call_1
//!                                         Scan x
//! ```
//!
//! Each level of nesting gets a fence below the node of the calls; equal calls of a node become one.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, Filter, LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::optimizer::AnalyzerRule;

use super::node::{Fence, FencedCall};
use crate::function::{called, first_call, misplaced};

const COLUMN: &str = "__call_";
/// The name of a column for a subquery in an argument, followed by a number.
const ARGUMENT: &str = "__argument_";

/// The rule. It must run after the engine's rules, so that arguments have their types.
#[derive(Debug)]
pub struct FenceCalls;

impl AnalyzerRule for FenceCalls {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::unused_in(&plan)?;
        Ok(plan.transform_up_with_subqueries(|node| fence(node, &mut names))?.data)
    }

    fn name(&self) -> &str {
        "fence_calls"
    }
}

/// Generates names that no other fence of the plan has; plans of views already contain fences.
struct Names {
    next: usize,
}

impl Names {
    fn unused_in(plan: &LogicalPlan) -> Result<Self> {
        let mut next = 1;
        plan.apply_with_subqueries(|node| {
            for call in Fence::of_plan(node).iter().flat_map(|fence| &fence.calls) {
                let number = call.column.strip_prefix(COLUMN).and_then(|number| number.parse::<usize>().ok());
                next = next.max(number.map_or(1, |number| number + 1));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self { next })
    }

    fn give(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next - 1)
    }
}

fn fence(node: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let mut found = None;
    node.apply_expressions(|expr| {
        found = first_call(expr);
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    let Some(function) = found else { return Ok(Transformed::no(node)) };
    // The number of columns that the node passes from its input, before its own columns. None: a node such as a
    // projection has no further columns than its expressions.
    let passed = match &node {
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_) => {
            Some(node.inputs()[0].schema().fields().len())
        }
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(Distinct::On(_)) => None,
        LogicalPlan::Join(_) => return Err(misplaced(&function, "JOIN … ON")),
        LogicalPlan::Values(_) => return Err(misplaced(&function, "VALUES")),
        other => return Err(misplaced(&function, &other.display().to_string())),
    };

    let keeper = NamePreserver::new_for_projection();
    let is_projection = matches!(node, LogicalPlan::Projection(_));
    let mut calls = Calls { names, known: HashMap::new(), levels: Vec::new() };
    let mut expressions = Vec::new();
    for expr in node.expressions() {
        let name = keeper.save(&expr);
        let hoisted = calls.hoist(expr)?;
        expressions.push(if is_projection { name.restore(hoisted) } else { hoisted });
    }
    let (before, input) = (Arc::clone(node.schema()), node.inputs()[0].clone());
    let input = calls.beneath(input)?;
    let added = input.schema().fields().len() - node.inputs()[0].schema().fields().len();
    let fenced = rebuild(node, expressions, input)?;
    if is_projection {
        return Ok(Transformed::yes(fenced));
    }
    Ok(Transformed::yes(restore(fenced, &before, passed.map(|passed| (passed, added)))?))
}

fn rebuild(node: LogicalPlan, expressions: Vec<Expr>, input: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Distinct(Distinct::On(on)) = node else {
        return node.with_new_exprs(expressions, vec![input])?.recompute_schema();
    };
    // The engine rebuilds all nodes but this one.
    let mut expressions = expressions.into_iter();
    let on_expr = expressions.by_ref().take(on.on_expr.len()).collect();
    let select_expr = expressions.by_ref().take(on.select_expr.len()).collect();
    let sorted =
        |sort: Vec<SortExpr>| sort.into_iter().zip(expressions).map(|(sort, expr)| sort.with_expr(expr)).collect();
    let sort_expr = on.sort_expr.map(sorted);
    Ok(LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(on_expr, select_expr, sort_expr, Arc::new(input))?)))
}

/// Restores the columns and names that a node had `before`. `shift` is (number of columns, columns added after them).
fn restore(node: LogicalPlan, before: &DFSchema, shift: Option<(usize, usize)>) -> Result<LogicalPlan> {
    let columns = before.iter().enumerate().map(|(place, (qualifier, field))| {
        let place = match shift {
            Some((passed, added)) if place >= passed => place + added,
            _ => place,
        };
        let column = Column::from(node.schema().qualified_field(place));
        if column.relation.as_ref() == qualifier && column.name == *field.name() {
            Expr::Column(column)
        } else {
            Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(node).project(columns)?.build()
}

struct Calls<'a> {
    names: &'a mut Names,
    known: HashMap<Expr, (String, usize)>,
    levels: Vec<Level>,
}

#[derive(Default)]
struct Level {
    subqueries: Vec<Expr>,
    calls: Vec<FencedCall>,
}

impl Calls<'_> {
    fn hoist(&mut self, expr: Expr) -> Result<Expr> {
        refuse_lambdas(&expr)?;
        let hoisted = expr.transform_up(|expr| {
            if called(&expr).is_none() {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(Expr::Column(Column::from_name(self.column_of(expr)?))))
        })?;
        Ok(hoisted.data)
    }

    /// Returns the column with the results of a call whose arguments contain no call.
    fn column_of(&mut self, call: Expr) -> Result<String> {
        if let Some((column, _)) = self.known.get(&call) {
            return Ok(column.clone());
        }
        let Expr::ScalarFunction(function) = call.clone() else {
            return plan_err!("expected a scalar function as a call, found {call}");
        };
        if call.contains_outer() {
            return plan_err!(
                "{} cannot be called in a subquery with a column of the outer query: {call}. \
                 Call it in the outer query, and use its column in the subquery",
                function.name()
            );
        }
        let beneath =
            |column: &Column| self.known.values().find(|(known, _)| *known == column.name).map(|(_, l)| l + 1);
        let level = call.column_refs().into_iter().filter_map(beneath).max().unwrap_or(0);
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Level::default);
        }
        let mut args = Vec::with_capacity(function.args.len());
        for argument in function.args {
            args.push(if has_subquery(&argument)? {
                let name = self.names.give(ARGUMENT);
                self.levels[level].subqueries.push(argument.alias(&name));
                Expr::Column(Column::from_name(name))
            } else {
                argument
            });
        }
        let column = self.names.give(COLUMN);
        self.known.insert(call, (column.clone(), level));
        self.levels[level].calls.push(FencedCall { function: function.func, args, column: column.clone() });
        Ok(column)
    }

    fn beneath(self, input: LogicalPlan) -> Result<LogicalPlan> {
        self.levels.into_iter().try_fold(input, |input, level| {
            let input = if level.subqueries.is_empty() {
                input
            } else {
                let columns = input.schema().columns().into_iter().map(Expr::Column).chain(level.subqueries);
                let columns: Vec<Expr> = columns.collect();
                LogicalPlanBuilder::from(input).project(columns)?.build()?
            };
            place(input, level.calls)
        })
    }
}

/// Puts a fence over `input`. A correlated filter stays above the fence: to decorrelate a subquery, DataFusion pulls such
/// filters up into a join, but not through an extension node.
fn place(input: LogicalPlan, calls: Vec<FencedCall>) -> Result<LogicalPlan> {
    match input {
        LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
            let input = place(Arc::unwrap_or_clone(filter.input), calls)?;
            Ok(LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(input))?))
        }
        input => Ok(Fence::try_new(input, calls)?.into_plan()),
    }
}

fn refuse_lambdas(expr: &Expr) -> Result<()> {
    expr.apply(|expr| match expr {
        Expr::Lambda(lambda) => match first_call(&lambda.body) {
            Some(function) => Err(misplaced(&function, "a lambda")),
            None => Ok(TreeNodeRecursion::Jump),
        },
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(())
}

fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)))
    })
}
