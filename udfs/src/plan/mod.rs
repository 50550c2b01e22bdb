//! What happens to a query plan before and while it runs: models are loaded, and every asynchronous call is made by an
//! operator of its own.
//!
//! | module | holds |
//! |---|---|
//! | `preflight` | loading what a query needs, checking what it asks |
//! | `rule` | bringing calls behind fences, `unread` dropping those that nothing reads |
//! | `first_rows` | sorting before calls where only the first rows are wanted |
//! | `node`, `planner`, `planned`, `exec` | the fence in a logical and a physical plan, and the way from one to the other |
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
pub use preflight::{Asked, Preflight, asked, calling_part};
pub use rule::FenceCalls;
pub use unread::DropUnreadCalls;

/// A session with the rules and the planner that the functions of asap need. It is the last to add rules.
pub fn install(builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
        .with_analyzer_rule(Arc::new(Preflight))
        .with_analyzer_rule(Arc::new(FenceCalls))
        .with_optimizer_rule(Arc::new(DropUnreadCalls))
        .with_optimizer_rule(Arc::new(SortBeforeCalls))
        .with_query_planner(Arc::new(FenceQueryPlanner))
}
