//! A backend of one's own: it implements the public contract, is registered, and scores chains in SQL.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use asap_llm::Llm;
use asap_lm::backend::{Backend, IsWanted, Packed, Target, TokenScore};
use asap_lm::{LmError, LoadedModel};
use asap_udfs::scorers::{Fit, Kind, Opening, Runs, Settled, register};
use asap_udfs::{Models, Settings, plan, register_all, scorers};
use datafusion::common::config::{ConfigOptions, ExtensionOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

/// Finds every token equally likely.
struct Uniform;

const NATS: f32 = 2.5;

impl Backend for Uniform {
    fn name(&self) -> &'static str {
        "uniform"
    }

    fn score(&mut self, _: Packed, targets: &[Target], _: &IsWanted) -> asap_lm::Result<Vec<TokenScore>> {
        Ok(vec![TokenScore { surprisal: NATS, entropy: NATS, rank: 1 }; targets.len()])
    }
}

impl Kind for Uniform {
    fn name(&self) -> &'static str {
        "uniform"
    }

    fn settled(&self, _: &Settings) -> Settled {
        Settled { devices: None, dtype: None, computes_in: Some("f32"), runs: Runs::Here }
    }

    fn fits(&self, _: &Path, settings: &Settings) -> Fit {
        match settings.scorer_dtype {
            None => Ok(self.settled(settings)),
            Some(_) => Err(["it has one type", "and no other"].map(|why| LmError::Backend(why.to_string())).into()),
        }
    }

    fn open(&self, _: &Settled, opening: &Opening) -> asap_lm::Result<LoadedModel> {
        LoadedModel::with_backends(vec![Box::new(Uniform)], opening.folder, opening.tokenizer, opening.memory)
    }
}

fn session(changes: &[(&str, &str)]) -> SessionContext {
    let mut settings = Settings::default();
    changes.iter().for_each(|(key, value)| settings.set(key, value).unwrap());
    let mut options = ConfigOptions::new();
    options.extensions.insert(settings);
    let builder = SessionStateBuilder::new().with_config(SessionConfig::from(options)).with_default_features();
    let mut state = plan::install(builder).build();
    register_all(&mut state, &Models::default(), &Llm::default()).unwrap();
    SessionContext::new_with_state(state)
}

#[tokio::test]
async fn a_registered_backend_is_named_settled_and_scores() {
    let sql = "SELECT cot_surprisal('2 + 2?', ['2 + 2 is 4.', 'Done.'])[1] = 2.5";
    let mut settings = Settings::default();
    assert!(settings.set("scorer.backend", "uniform").unwrap_err().to_string().contains("found 'uniform'"));
    register(&Uniform);
    settings.set("scorer.backend", "uniform").unwrap();
    scorers::settle(&mut settings, None);
    assert_eq!(scorers::Place::of_scorer(&settings).to_string(), "uniform, f32 on cpu");
    assert_eq!(scorers::identity(&settings), [(scorers::BACKEND, "uniform".to_string())]);

    let batches = session(&[("scorer.backend", "uniform")]).sql(sql).await.unwrap().collect().await.unwrap();
    assert_eq!(batches[0].column(0).as_ref(), &datafusion::arrow::array::BooleanArray::from(vec![true]));
    // All reasons why it does not fit are said. `auto` finds the CPU before it.
    let refused = session(&[("scorer.backend", "uniform"), ("scorer.dtype", "bf16")]);
    let error = refused.sql(sql).await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("it has one type; and no other"), "{error}");
    let batches = session(&[]).sql(sql).await.unwrap().collect().await.unwrap();
    assert_eq!(batches[0].column(0).as_ref(), &datafusion::arrow::array::BooleanArray::from(vec![false]));
}
