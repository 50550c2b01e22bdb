//! The surprisal of each step of a chain, without a query engine.
//!
//! `cargo run -p asap-lm --example score_chain`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;

use asap_lm::memo::Memory;
use asap_lm::{
    Computed, Dtype, LoadedModel, QuestionAndSteps, Reading, SMALL, Scored, Scorer, Tokenizer, Wanted, locate,
};

fn main() -> Result<(), Box<dyn Error>> {
    // The model that ships with asap. A folder in Hugging Face's layout, or org/name in the Hub's cache, works too.
    let folder = locate(SMALL)?;
    let memory = Arc::<Memory>::default();
    let tokenizer = Arc::new(Tokenizer::load(&folder)?);
    let model = Arc::new(LoadedModel::load(&folder, Computed::Cpu(Dtype::F32), &tokenizer, &memory)?);
    let scorer = Scorer::new(&folder, None, tokenizer, model, &memory)?;

    let steps = vec!["Let me add.", "2 + 2 is 4.", "Is it? Yes."];
    let chain = Reading::Chain(QuestionAndSteps { question: "What is 2 + 2?".into(), steps: steps.clone() });
    let prepared = scorer.prepare(&[chain], Wanted::FirstTokens)?;
    let scored = tokio::runtime::Runtime::new()?.block_on(scorer.score(prepared))?;
    match scored.first() {
        Some(Scored::Steps(scores)) => {
            for (step, score) in steps.iter().zip(&scores.first) {
                println!("{:.2} nats  {step}", score.as_ref().map_or(f32::NAN, |score| score.surprisal));
            }
            Ok(())
        }
        other => Err(format!("the chain has no scores: {other:?}").into()),
    }
}
