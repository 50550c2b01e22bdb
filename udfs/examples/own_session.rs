// asap's SQL functions in a DataFusion session of your own: `cargo run -p asap-udfs --example own_session`

use asap_llm::Llm;
use asap_udfs::{Models, Settings, plan, register_all};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

fn main() -> Result<()> {
    let mut options = ConfigOptions::new();
    options.extensions.insert(Settings::default());
    let builder = SessionStateBuilder::new().with_config(SessionConfig::from(options)).with_default_features();
    // The plan rules keep calls to a model at one per distinct request.
    let mut state = plan::install(builder).build();
    register_all(&mut state, &Models::default(), &Llm::default())?;
    let context = SessionContext::new_with_state(state);
    let chain = "'Let me add.\n\n2 + 2 is 4.\n\nIs it? Yes.'";
    let sql = format!(
        "SELECT unnest(cot_steps({chain})) AS step, unnest(cot_surprisal('2 + 2?', cot_steps({chain}))) AS nats"
    );
    tokio::runtime::Runtime::new()?.block_on(async { context.sql(&sql).await?.show().await })
}
