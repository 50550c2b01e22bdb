//! What happens to a query plan before and while it runs: models are loaded, and every asynchronous call is made by an
//! operator of its own.
//!
//! | module | holds |
//! |---|---|
//! | `preflight` | loading what a query needs, checking what it asks |
//! | `call` | [`AsyncCall`], which a function is, and [`AsyncFunction`], as which it is registered |
//! | `rule` | bringing calls behind fences, `unread` dropping those that nothing reads |
//! | `first_rows` | sorting before calls where only the first rows are wanted |
//! | `node`, `planner`, `exec` | the fence in a logical and a physical plan, and the way from one to the other |
//! | `window` | rows in flight |
//! | `meter` | what EXPLAIN ANALYZE shows of calls |
//! | `codec` | fences as bytes |

mod call;
mod codec;
mod exec;
mod first_rows;
mod meter;
mod node;
mod planner;
mod preflight;
mod rule;
mod unread;
mod window;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

use crate::llm::Llm;
use crate::lm::Models;
pub use call::{AsyncCall, AsyncFunction, CallArgs};
pub use codec::{FenceLogicalCodec, FencePhysicalCodec};
pub use exec::FenceExec;
pub use first_rows::SortBeforeCalls;
pub use meter::Meter;
pub use node::Fence;
pub use planner::{FencePlanner, FenceQueryPlanner};
pub use preflight::{Preflight, asking_part};
pub use rule::FenceCalls;
pub use unread::DropUnreadCalls;

/// A session with the rules and the planner that the functions of asap need; they share `models` and `llm` with the
/// functions. It is the last to add rules.
pub fn install(builder: SessionStateBuilder, models: &Models, llm: &Llm) -> SessionStateBuilder {
    builder
        .with_analyzer_rule(Arc::new(Preflight::new(models.clone(), llm.clone())))
        .with_analyzer_rule(Arc::new(FenceCalls))
        .with_optimizer_rule(Arc::new(DropUnreadCalls))
        .with_optimizer_rule(Arc::new(SortBeforeCalls))
        .with_query_planner(Arc::new(FenceQueryPlanner))
}
