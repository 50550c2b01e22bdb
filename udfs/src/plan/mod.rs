//! Changes to a query plan before and while it runs: models are loaded, and a separate operator makes every
//! asynchronous call.
//!
//! | module | holds |
//! |---|---|
//! | `preflight` | loading and checking what a query needs |
//! | `rule` | moving calls into fences; `unread` drops those that nothing reads |
//! | `first_rows` | sorting before calls if only the first rows are needed |
//! | `node`, `planner`, `planned`, `exec` | the fence in a logical and in a physical plan, and the conversion |
//! | `window` | rows in flight |

mod exec;
mod first_rows;
mod node;
mod planned;
mod planner;
mod preflight;
mod rule;
mod unread;
mod window;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

pub use exec::FenceExec;
pub use first_rows::SortBeforeCalls;
pub use node::Fence;
pub use planner::{FencePlanner, FenceQueryPlanner};
pub use preflight::{Preflight, UsedModels, calling_part, used_models};
pub use rule::FenceCalls;
pub use unread::DropUnreadCalls;

/// Adds the rules and the planner that the functions of asap need. Call it after all other rules are added.
pub fn install(builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
        .with_analyzer_rule(Arc::new(Preflight))
        .with_analyzer_rule(Arc::new(FenceCalls))
        .with_optimizer_rule(Arc::new(DropUnreadCalls))
        .with_optimizer_rule(Arc::new(SortBeforeCalls))
        .with_query_planner(Arc::new(FenceQueryPlanner))
}
