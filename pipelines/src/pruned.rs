//! `pruned((SELECT …) [, 'stage'])`: adds the columns that all methods share to a query that chooses the kept steps, or
//! that returns the compressed chain.
//!
//! ```text
//!   SELECT * FROM pruned((SELECT *, cot_truncate(…) AS kept FROM corpus), 'truncate')
//!
//!   Projection   source, …, cot, original_cot, …, prompt, completion, messages, status, error, the method's own
//!     Projection   *, __steps, __counted, __pruned, __too_long, __no_score
//!       the query
//! ```
//!
//! It is planned as ordinary projections over the query, so the rules for pipelines apply to it too. A row's system
//! prompt is part of `prompt` and `messages`, and of what the scoring model reads before the chain. For a conversation
//! with several exchanges or tools, the model reads its turns: see [`conversations`](crate::conversations).

use std::collections::HashSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, ObjectName, ObjectNamePart, Query, TableFactor, Value,
};

use asap_udfs::plan::{UsedModels, used_models};

use crate::conversations::Conversations;
use crate::corpus::CORPUS;
use crate::corpus::function::SCAN;
use crate::passed_on::passed_on;
use crate::system_prompts::{QUESTION, SYSTEM, with_system_prompts};

/// The columns of `corpus` that `pruned` reads. The query may recompute any of them.
const READ: [&str; 8] = ["source", "id", QUESTION, "cot", "answer", SYSTEM, "status", "error"];
const PROMPT: &str = "cot_prompt(question, system)";
const COMPLETION: &str = "cot_completion(__pruned, answer)";
const OF_STEPS: [&str; 4] = ["kept", "direct", "coarse", "surprisal"];
const OF_CUT_STEPS: [&str; 5] = ["kept", "direct", "coarse", "surprisal", "compressed"];
const OF_TEXT: [&str; 3] = ["compressed", "direct", "coarse"];

/// The relation function `pruned`.
///
/// Its query returns the columns of `corpus` and `kept`, the positions of the kept steps, from 1. If the method has
/// them, it also returns `direct` (from `cot_anchor`), `coarse` (from `cot_coarse`) and `surprisal` (a score for each
/// step). With `coarse`, `kept` and `surprisal` refer to the steps of `coarse['cot']`, else to those of `cot`. A method
/// that does not choose among steps returns `compressed`, the chain as text, instead of `kept`. Then `surprisal` is not
/// read, and the result has no `steps`. A method that returns both cuts kept steps: `compressed` is their text. Other computed columns are passed on. Columns that the query only passes
/// through from its table are not, because a run adds them itself.
#[derive(Debug, Default)]
pub struct Pruned;

impl Pruned {
    pub const NAME: &str = "pruned";
}

impl RelationPlanner for Pruned {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Table { name, alias, args: Some(args), .. } if is_called(&name, context) => {
                let (query, stage) = arguments(&args.args)?;
                let query = TableFactor::Derived { lateral: false, subquery: query, alias: None, sample: None };
                let query = context.plan(query)?;
                let prompt = context.context_provider().get_function_meta("cot_prompt");
                let prompt = prompt.ok_or_else(|| plan_datafusion_err!("the session has no function cot_prompt"))?;
                let query = with_system_prompts(query, &prompt)?;
                let plan = plan(query, stage, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

fn is_called(name: &ObjectName, context: &dyn RelationPlannerContext) -> bool {
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return false };
    context.normalize_ident(name.clone()) == Pruned::NAME
}

fn arguments(args: &[FunctionArg]) -> Result<(Box<Query>, Option<String>)> {
    let exprs: Option<Vec<&SqlExpr>> = args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect();
    let is_text =
        |expr: &SqlExpr| matches!(expr, SqlExpr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    match exprs.as_deref() {
        Some([SqlExpr::Subquery(query)]) => Ok((query.clone(), None)),
        Some([SqlExpr::Subquery(query), stage]) if is_text(stage) => Ok((query.clone(), Some(stage.to_string()))),
        _ => plan_err!(
            "pruned takes a query in its own parentheses and, as text, the name of the stage that drops steps: write \
             pruned((SELECT *, … AS kept FROM corpus), 'random')"
        ),
    }
}

fn check_columns(schema: &DFSchema) -> Result<()> {
    let missing = |name: &&str| !schema.has_column_with_unqualified_name(name);
    let unread: Vec<&str> = READ.into_iter().filter(missing).collect();
    if !unread.is_empty() {
        return plan_err!(
            "the query of pruned lacks {} of the corpus: begin it with SELECT *, or name what is missing",
            unread.join(", ")
        );
    }
    Ok(())
}

fn plan(query: LogicalPlan, stage: Option<String>, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    check_columns(query.schema())?;
    // A corpus is a view: the plan holds its query under this alias, and no scan of a table of that name.
    let computed: Vec<&str> = query
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .filter(|name| passed_on(&query, name, &[CORPUS, SCAN]).as_deref() != Some(*name))
        .collect();
    let conversations = Conversations::of(&query, &computed)?;
    let method = Method::of(query.schema(), &computed, stage, used_models(&query)?, conversations)?;
    let is_own = |name: &&str| !READ.contains(name) && !method.reads().contains(name);
    let own: Vec<String> = computed.into_iter().filter(is_own).map(str::to_string).collect();

    let mut columns: Vec<Expr> = query.schema().columns().into_iter().map(Expr::Column).collect();
    columns.extend(planned(&method.working_columns(), query.schema(), context)?);
    let working = LogicalPlanBuilder::from(query).project(columns)?.build()?;
    let mut columns = planned(&method.columns(), working.schema(), context)?;
    let added: HashSet<String> = columns.iter().map(|column| column.schema_name().to_string()).collect();
    let twice: Vec<&str> = own.iter().map(String::as_str).filter(|name| added.contains(*name)).collect();
    if !twice.is_empty() {
        let names = twice.join(", ");
        return plan_err!(
            "'pruned' adds the columns {names}, but its query returns columns with these names: rename those that it \
             computes (AS), and leave out those of a join, a union or DISTINCT (SELECT * EXCEPT ({names}))"
        );
    }
    for name in own {
        let column = working.schema().qualified_field_with_unqualified_name(&name)?.into();
        columns.push(Expr::Column(column).alias(name));
    }
    LogicalPlanBuilder::from(working).project(columns)?.build()
}

struct Method {
    /// The name of the stage that drops steps, as a SQL literal; None if the chain is compressed as text.
    stage: Option<String>,
    direct: bool,
    coarse: bool,
    surprisal: bool,
    /// Whether `compressed` is the chain, and not the text of its kept steps.
    compressed: bool,
    asked: UsedModels,
    conversations: Conversations,
}

impl Method {
    fn of(
        schema: &DFSchema,
        computed: &[&str],
        stage: Option<String>,
        asked: UsedModels,
        conversations: Conversations,
    ) -> Result<Self> {
        for (call, function) in [("direct", "cot_anchor"), ("coarse", "cot_coarse")] {
            if !computed.contains(&call) {
                continue;
            }
            let found = schema.field_with_unqualified_name(call)?.data_type();
            if !matches!(found, DataType::Struct(_)) {
                return plan_err!(
                    "the query of pruned computes a column {call} that is {found}: pruned takes it for what {function} \
                     returns, so rename it with AS"
                );
            }
        }
        let is_computed = |name| computed.contains(&name);
        let (direct, coarse) = (is_computed("direct"), is_computed("coarse"));
        if is_computed("compressed") && !is_computed("kept") {
            check_compressed(schema)?;
            if let Some(stage) = stage {
                return plan_err!(
                    "a compressed chain has no steps that a stage {stage} could drop: leave the name out"
                );
            }
            let conversations = conversations.refused();
            return Ok(Self { stage: None, direct, coarse, surprisal: false, compressed: true, asked, conversations });
        }
        if !schema.has_column_with_unqualified_name("kept") {
            return plan_err!(
                "the query of pruned lacks kept, the positions of the kept steps: add it, such as \
                 cot_refine(cot_steps(cot), cot_surprisal(question, cot_steps(cot))) AS kept; or, if the method does not \
                 choose steps, add compressed, the chain as text"
            );
        }
        let (surprisal, compressed) = (is_computed("surprisal"), is_computed("compressed"));
        if compressed {
            check_compressed(schema)?;
        }
        let Some(stage) = stage.or_else(|| surprisal.then(|| "'surprisal'".to_string())) else {
            return plan_err!(
                "the query of pruned computes no surprisal, so the stage that drops steps has no name: give it one, such as \
                 pruned((SELECT …), 'random')"
            );
        };
        let reads_one = direct || coarse || asked.anchorer || asked.encoder;
        let conversations = if reads_one { conversations.refused() } else { conversations };
        Ok(Self { stage: Some(stage), direct, coarse, surprisal, compressed, asked, conversations })
    }

    /// The columns of the query that `pruned` itself reads; the others are passed on.
    fn reads(&self) -> &'static [&'static str] {
        match (&self.stage, self.compressed) {
            (None, _) => &OF_TEXT,
            (Some(_), false) => &OF_STEPS,
            (Some(_), true) => &OF_CUT_STEPS,
        }
    }

    fn working_columns(&self) -> Vec<String> {
        let steps = if self.coarse { "cot_steps(coarse['cot'])" } else { "cot_steps(cot)" };
        // The engine computes equal expressions once.
        let mut columns = match self.compressed {
            true => vec!["compressed AS __pruned".to_string()],
            false => vec![format!("cot_select({steps}, kept) AS __pruned")],
        };
        if self.stage.is_some() {
            columns.extend(["cot_steps(cot) AS __steps".to_string(), format!("{steps} AS __counted")]);
        }
        columns.extend(self.conversations.working_columns());
        if self.is_scored() {
            let (prompt, answer) = (self.conversations.read(), if self.asked.reads_answers { ", answer" } else { "" });
            let nothing = match self.stage {
                Some(_) if self.surprisal => "kept IS NULL OR surprisal IS NULL",
                Some(_) => "kept IS NULL",
                None => "compressed IS NULL",
            };
            // Only failed rows are tokenized again. If one step is too long, so is its chain.
            columns.push(format!("CASE WHEN {nothing} THEN cot_too_long({prompt}, {steps}{answer}) END AS __too_long"));
            columns.push(format!("CASE WHEN {nothing} THEN cot_no_score({prompt}, {steps}) END AS __no_score"));
        }
        columns
    }

    fn is_scored(&self) -> bool {
        self.asked.scorer || self.surprisal
    }

    fn columns(&self) -> Vec<String> {
        let or_null = |has: bool, column: &'static str| if has { column } else { "NULL" };
        let mut columns = vec![
            "source AS source".to_string(),
            "id AS id".to_string(),
            "question AS question".to_string(),
            "__pruned AS cot".to_string(),
            "cot AS original_cot".to_string(),
            "answer AS answer".to_string(),
            "system AS system".to_string(),
        ];
        // Compressed text has no columns for stages that did not run.
        if self.direct || self.stage.is_some() {
            columns
                .push(format!("{} AS anchor", if self.direct { "direct['thought']" } else { "CAST(NULL AS VARCHAR)" }));
        }
        if self.direct || self.coarse {
            columns.push(format!("{} AS anchor_tokens_in", self.of_calls("tokens_in").join(" + ")));
            columns.push(format!("{} AS anchor_tokens_out", self.of_calls("tokens_out").join(" + ")));
            columns.push(format!("{} AS cached", self.of_calls("cached").join(" AND ")));
        }
        columns.push("cot_tokens(cot) AS original_tokens".to_string());
        if self.coarse || self.stage.is_some() {
            columns.push(format!("cot_tokens({}) AS coarse_tokens", if self.coarse { "coarse['cot']" } else { "cot" }));
        }
        columns.push("cot_tokens(__pruned) AS pruned_tokens".to_string());
        if let Some(stage) = &self.stage {
            columns.push(format!(
                "cot_trace(__steps, {}, {}, {}, kept, {stage}) AS steps",
                or_null(self.coarse, "coarse['kept']"),
                or_null(self.coarse, "coarse['similarity']"),
                or_null(self.surprisal, "surprisal"),
            ));
        }
        columns.extend([
            format!("{} AS prompt", self.conversations.unless_one(PROMPT)),
            format!("{} AS completion", self.conversations.unless_one(COMPLETION)),
        ]);
        columns.extend(self.conversations.columns(&format!("array_concat({PROMPT}, {COMPLETION})")));
        columns.extend(self.fate());
        columns
    }

    /// The columns `status` and `error`, in SQL. The first fault of a row wins.
    fn fate(&self) -> [String; 2] {
        let of_calls = self.of_calls("status").into_iter().map(|status| format!("nullif({status}, 'ok')"));
        let [status, error] = self.conversations.fate();
        let mut statuses: Vec<String> = [status].into_iter().chain(of_calls).collect();
        let mut errors: Vec<String> = [error].into_iter().chain(self.of_calls("error")).collect();
        let mut faults = Vec::new();
        if self.is_scored() {
            faults.push(("__too_long IS NOT NULL", "'too_long'", "__too_long"));
            faults.extend(self.conversations.template_fault());
            faults.push(("__no_score IS NOT NULL", "'no_score'", "__no_score"));
        }
        if self.surprisal {
            faults.push((
                "surprisal IS NULL",
                "'no_score'",
                "'surprisal is NULL, and the scoring model reported no fault: the query computes NULL'",
            ));
            faults.push((
                "cardinality(surprisal) <> cardinality(__counted)",
                "'not_pruned'",
                "'surprisal must have one score for each of the steps that kept refers to'",
            ));
        }
        let [none, empty] = match self.stage {
            Some(_) => [
                "'kept is NULL or names a step that the chain does not have'",
                "'kept is empty: every step was dropped (steps are cut at blank lines, and one that is longer than the budget never fits)'",
            ],
            None => ["'no word of the chain is left'"; 2],
        };
        faults.push(("__pruned IS NULL", "'not_pruned'", none));
        faults.extend(self.conversations.fault());
        // An example without a thought would teach the model not to think.
        faults.push(("__pruned = ''", "'emptied'", empty));
        let (mut status_case, mut error_case) = ("CASE".to_string(), "CASE".to_string());
        for (when, status, error) in faults {
            status_case += &format!(" WHEN {when} THEN {status}");
            error_case += &format!(" WHEN {when} THEN {error}");
        }
        statuses.push(status_case + " END");
        errors.push(error_case + " END");
        [format!("coalesce({}) AS status", statuses.join(", ")), format!("coalesce({}) AS error", errors.join(", "))]
    }

    fn of_calls(&self, field: &str) -> Vec<String> {
        let calls = [(self.direct, "direct"), (self.coarse, "coarse")];
        calls.iter().filter(|(is_made, _)| *is_made).map(|(_, call)| format!("{call}['{field}']")).collect()
    }
}

fn check_compressed(schema: &DFSchema) -> Result<()> {
    let found = schema.field_with_unqualified_name("compressed")?.data_type();
    if !found.is_string() {
        return plan_err!(
            "the query of 'pruned' must return the column 'compressed' as a string that holds the chain, but its type is {found}"
        );
    }
    Ok(())
}

fn planned(columns: &[String], schema: &DFSchema, context: &mut dyn RelationPlannerContext) -> Result<Vec<Expr>> {
    let plan = |column: &String| {
        let parsed = DFParser::parse_sql_into_expr(column)?;
        let name = parsed.alias.ok_or_else(|| plan_datafusion_err!("a column without a name: {column}"))?;
        Ok(context.sql_to_expr(parsed.expr, schema)?.alias(name.value))
    };
    columns.iter().map(plan).collect()
}
