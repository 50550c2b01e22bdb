//! Chooses the number of rows of a slice so that it takes about a minute, by the cost of the pipeline and its models. A
//! kill loses the slices in progress.
//!
//! The number does not depend on any measurement, because all parts of a run must cut the same slices. A table keeps
//! the number that it was created with.

use asap_llm::provider::Provider;
use asap_udfs::plan::UsedModels;
use asap_udfs::scorers::Runs;
use asap_udfs::{Settings, scorers};

use crate::corpus::Corpus;

const MOST: u64 = 10_000;
/// Seconds for a slice that has the whole machine. Three slices share two cores, so each takes a minute.
const SECONDS: f64 = 20.0;
const FLOPS: [f64; 2] = [100e9, 50e12];
/// Tokens per byte of a compressed file: text compresses to a third, at four bytes per token.
const TOKENS_PER_BYTE: f64 = 0.75;
/// Average forward passes of methods that read a chain again for each step.
const PASSES: f64 = 10.0;
/// Of XLM-RoBERTa large, without its table of words.
const ENCODER_PARAMETERS: f64 = 303e6;
/// Rows of a slice for a local language model: each takes minutes.
const LOCAL_ROWS: u64 = 2;

/// The rows of a slice for a pipeline with these needs, over this corpus.
pub(crate) fn of_cost(asked: UsedModels, settings: &Settings, corpus: &Corpus) -> u64 {
    let (bytes, rows) =
        corpus.files().fold((0, 0), |(bytes, rows), (_, file)| (bytes + file.file.meta.size, rows + file.rows()));
    let tokens = TOKENS_PER_BYTE * bytes as f64 / rows.max(1) as f64;
    let scored = scored_rows(asked, settings, tokens);
    let answered = match settings.anchor_provider {
        _ if !asked.anchorer => MOST,
        Provider::Extractive => MOST,
        Provider::Openai => 2 * settings.anchor_max_concurrent_requests.0 as u64,
        Provider::Local => LOCAL_ROWS,
    };
    round(scored.min(answered))
}

/// Rows with this many tokens that the local models read in the time of a slice.
fn scored_rows(asked: UsedModels, settings: &Settings, tokens: f64) -> u64 {
    let passes = if asked.reads_by_scores || asked.reads_answers { PASSES } else { 1.0 };
    // Planning reports a model that cannot be read.
    let parameters = |()| asap_lm::parameters(&settings.scorer_folder().ok()?);
    let scorer = passes * asked.scorer.then_some(()).and_then(parameters).unwrap_or(0) as f64;
    let encoder = if asked.encoder { ENCODER_PARAMETERS } else { 0.0 };
    let work = [(scorer, scorers::settled(settings).runs != Runs::Elsewhere), (encoder, settings.encodes_on_cores())];
    let seconds: f64 = work.iter().map(|(read, on_cores)| 2.0 * tokens * read / FLOPS[usize::from(!on_cores)]).sum();
    (SECONDS / seconds).clamp(1.0, MOST as f64) as u64
}

/// Rounds down to one of 1, 2, 5, 10, 20, 50, …, so that a few more files change nothing.
fn round(rows: u64) -> u64 {
    let decades = (0..5).map(|power| 10_u64.pow(power));
    let steps = decades.flat_map(|power| [power, 2 * power, 5 * power]);
    steps.filter(|step| *step <= rows.min(MOST)).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use asap_lm::config::ModelConfig;
    use asap_lm::locate;
    use datafusion::common::config::ExtensionOptions;

    #[test]
    fn a_slice_takes_about_a_minute_whatever_reads_it() {
        let settings = Settings::default();
        let asked = UsedModels { scorer: true, ..UsedModels::default() };
        assert_eq!(round(scored_rows(UsedModels::default(), &settings, 2_000.0)), 10_000);
        let config = ModelConfig::load(&locate(&settings.scorer_model).unwrap()).unwrap();
        let rows = scored_rows(asked, &settings, 2_000.0);
        let flops = 2.0 * 2_000.0 * config.parameters() as f64 * rows as f64;
        assert!(rows == MOST || (flops / FLOPS[0] - SECONDS).abs() < 1.0, "{rows} rows");
        let again = UsedModels { reads_answers: true, ..asked };
        assert!(scored_rows(again, &settings, 2_000.0) < MOST / 5);
        let mut on_gpu = settings.clone();
        on_gpu.set("scorer.backend", "cuda").unwrap();
        let encodes = UsedModels { encoder: true, ..UsedModels::default() };
        let on_gpus = |device: &str| {
            let mut settings = on_gpu.clone();
            settings.set("compressor.device", device).unwrap();
            scored_rows(encodes, &settings, 13_000.0)
        };
        assert!((1..10).contains(&on_gpus("cpu")) && on_gpus("cuda:0") > 100 * on_gpus("cpu"));
        assert!(
            scored_rows(again, &on_gpu, 2_000.0) >= 100 * scored_rows(again, &Settings::default(), 2_000.0).min(100)
        );
    }

    #[test]
    fn rows_are_rounded_down_in_steps() {
        let rounded = [(0, 1), (1, 1), (4, 2), (9, 5), (128, 100), (499, 200), (10_001, 10_000)];
        rounded.iter().for_each(|(rows, expected)| assert_eq!(round(*rows), *expected));
    }
}
