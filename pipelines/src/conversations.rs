//! How `pruned` treats conversations with several exchanges or tools: rows of a corpus that have `turns`.
//!
//! A method that chooses steps by what the scoring model reads, or without it, prunes their thoughts together: the steps are
//! those of all thoughts. Any other method leaves them the status `multi_turn`.

use asap_udfs::reading::TURNS;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ident, lit, when};

use crate::system_prompts::{OF_PROMPTS, READ_PROMPT, SYSTEM, reads_turns};

/// The status of each row, without that of the conversations that the pipeline prunes.
pub(crate) const CLEARED: &str = "__cleared";
pub(crate) const MULTI_TURN: &str = "multi_turn";
/// The pipelines that prune conversations.
pub const PRUNED_BY: &str = "without_anchor, spirit, verified, self_information_steps and the controls";
/// The turns with the kept steps, in SQL. The engine computes equal expressions once.
const PRUNED_TURNS: &str = "cot_pruned_turns(turns, kept, __pruned)";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversations {
    /// The query has no turns.
    Unknown,
    Refused,
    Pruned,
}

impl Conversations {
    /// What becomes of them in a query that computes these columns. If it computes what the turns also have, or asks the scoring
    /// model without them, they are refused.
    pub(crate) fn of(query: &LogicalPlan, computed: &[&str]) -> Result<Self> {
        if !query.schema().has_column_with_unqualified_name(TURNS) {
            return Ok(Self::Unknown);
        }
        let read = [TURNS, "question", "cot", "answer", SYSTEM, "status", "error"];
        let mut are_read = !computed.iter().any(|name| read.contains(name));
        query.apply(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::ScalarFunction(call) = expr {
                        let is_of_prompts = OF_PROMPTS.split(' ').any(|name| name == call.func.name());
                        are_read &= !is_of_prompts || call.args.first().is_some_and(reads_turns);
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(if are_read { Self::Pruned } else { Self::Refused })
    }

    pub(crate) fn refused(self) -> Self {
        if self == Self::Pruned { Self::Refused } else { self }
    }

    /// What the scoring model reads before a chain, in SQL.
    pub(crate) fn read(self) -> &'static str {
        match self {
            Self::Pruned => READ_PROMPT,
            Self::Unknown | Self::Refused => "cot_prompt(question, system)",
        }
    }

    pub(crate) fn working_columns(self) -> Vec<String> {
        match self {
            Self::Pruned => vec![format!(
                "CASE WHEN turns IS NULL THEN status ELSE nullif(status, '{MULTI_TURN}') END AS {CLEARED}"
            )],
            Self::Unknown | Self::Refused => vec![],
        }
    }

    /// The columns `turns` and `messages`, in SQL. `messages` are those of other rows.
    pub(crate) fn columns(self, messages: &str) -> Vec<String> {
        match self {
            Self::Unknown => vec![format!("cot_messages({messages}, NULL) AS messages")],
            Self::Refused => vec![format!("cot_messages({messages}, NULL) AS messages"), "turns AS turns".to_string()],
            Self::Pruned => vec![
                format!("cot_messages({messages}, {PRUNED_TURNS}) AS messages"),
                format!("{PRUNED_TURNS} AS turns"),
            ],
        }
    }

    /// A value that conversations do not have, in SQL.
    pub(crate) fn unless_one(self, value: &str) -> String {
        match self {
            Self::Pruned => format!("CASE WHEN turns IS NULL THEN {value} END"),
            Self::Unknown | Self::Refused => value.to_string(),
        }
    }

    /// The status and the error that a row of the corpus has, in SQL.
    pub(crate) fn fate(self) -> [String; 2] {
        let why = "; this pipeline reads one exchange, and does not prune conversations as without_anchor does";
        match self {
            Self::Unknown => ["status".to_string(), "error".to_string()],
            Self::Refused => [
                "status".to_string(),
                format!(
                    "CASE WHEN turns IS NOT NULL AND status = '{MULTI_TURN}' THEN concat(error, '{why}') ELSE error END"
                ),
            ],
            Self::Pruned => [CLEARED.to_string(), format!("CASE WHEN {CLEARED} IS NOT NULL THEN error END")],
        }
    }

    /// The fault of a conversation that the chat template of the scoring model loses, as a condition, a status and an error.
    pub(crate) fn template_fault(self) -> Option<(&'static str, &'static str, &'static str)> {
        let is_lost = "turns IS NOT NULL AND starts_with(__no_score, 'the chat template of ')";
        (self == Self::Pruned).then_some((is_lost, "'template'", "__no_score"))
    }

    /// The fault of a conversation whose thoughts do not have the kept steps.
    pub(crate) fn fault(self) -> Option<(&'static str, &'static str, &'static str)> {
        let why = "'the thoughts do not have the steps that kept refers to'";
        let is_lost = "turns IS NOT NULL AND cot_pruned_turns(turns, kept, __pruned) IS NULL";
        (self == Self::Pruned).then_some((is_lost, "'not_pruned'", why))
    }
}

/// Whether a row of a corpus is a conversation that can be pruned. `column` names a column of the corpus.
pub(crate) fn is_conversation(column: impl Fn(&str) -> Expr) -> Expr {
    column("status").eq(lit(MULTI_TURN)).and(column(TURNS).is_not_null())
}

/// The statuses with which the rows of a corpus begin in a pipeline.
pub(crate) fn first_statuses(corpus: LogicalPlan, pipeline: &LogicalPlan) -> Result<LogicalPlan> {
    let status = match are_pruned(pipeline)? {
        true => when(is_conversation(|name| ident(name)).is_not_true(), ident("status")).end()?,
        false => ident("status"),
    };
    LogicalPlanBuilder::from(corpus).project([status])?.build()
}

/// Whether a pipeline prunes conversations.
pub(crate) fn are_pruned(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(node.schema().has_column_with_unqualified_name(CLEARED)))
}
