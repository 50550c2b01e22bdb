//! Feeds over files. Feeds over growing tables are tested with real runs.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use asap_llm::Llm;
use asap_lm::example::Long;
use asap_udfs::Settings;
use datafusion::prelude::SessionContext;

use super::*;
use crate::session::session;

const ROWS: u64 = 9_000;

fn encoder(max_length: usize, held_out: f64) -> Arc<Encoder> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/model");
    let encoder = Encoder::load(&folder, max_length, Long::Drop).unwrap();
    Arc::new(Encoder { held_out, ..encoder })
}

/// Writes a file of rows: every hundredth has no chain, every thousandth has a long one.
async fn corpus(folder: &Path) -> SessionContext {
    let context = session(Settings::default(), &Llm::default()).unwrap();
    let sql = format!(
        "COPY (SELECT 'q' || value AS question, CASE WHEN value % 100 = 99 THEN NULL WHEN value % 1000 = 0 \
         THEN repeat('long ', 99) ELSE 'c' || value END AS cot, 'a' AS answer FROM range({ROWS}) ORDER BY value) TO '{}'",
        folder.join("rows.parquet").display()
    );
    context.sql(&sql).await.unwrap().collect().await.unwrap();
    context
}

fn config(folder: &Path) -> FeedConfig {
    let location = folder.display().to_string();
    FeedConfig { location, columns: None, epochs: 2, seed: 7, follow: false, resume: None, part: (0, 1) }
}

async fn fed(context: &SessionContext, config: FeedConfig, encoder: &Arc<Encoder>, step: usize) -> Vec<Vec<Fed>> {
    shares(context, config, encoder, StepSize::Rows(step)).await
}

async fn shares(context: &SessionContext, config: FeedConfig, encoder: &Arc<Encoder>, size: StepSize) -> Vec<Vec<Fed>> {
    let rows = Rows::open(context, &config).await.unwrap();
    let mut feed = Feed::begin(rows, config, Arc::clone(encoder)).unwrap();
    let mut steps = Vec::new();
    while let Some(step) = feed.next_share(size).await.unwrap() {
        steps.push(step);
    }
    steps
}

async fn surveyed(folder: &Path, context: &SessionContext, encoder: &Arc<Encoder>) -> Survey {
    Rows::open(context, &config(folder)).await.unwrap().survey(encoder).await.unwrap()
}

fn rows(steps: &[Vec<Fed>]) -> Vec<(u64, u64)> {
    steps.iter().flatten().map(|fed| (fed.position.epoch, fed.source.1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_comes_once_an_epoch_in_an_order_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let context = corpus(folder.path()).await;
    let encoder = encoder(64, 0.0);
    let steps = fed(&context, config(folder.path()), &encoder, 48).await;
    let survey = surveyed(folder.path(), &context, &encoder).await;
    let Counts { examples, too_long, rejected, .. } = survey.counts;
    assert_eq!((examples, too_long, rejected), (ROWS - ROWS / 1000 - ROWS / 100, 9, 90));
    let expected: HashSet<u64> = (0..ROWS).filter(|row| row % 100 != 99 && row % 1000 != 0).collect();
    let all = rows(&steps);
    let epochs: Vec<Vec<u64>> =
        [0, 1].map(|epoch| all.iter().filter(|row| row.0 == epoch).map(|row| row.1).collect()).to_vec();
    for epoch in &epochs {
        assert_eq!(epoch.len(), expected.len());
        assert_eq!(epoch.iter().copied().collect::<HashSet<_>>(), expected);
    }
    assert_ne!(epochs[0], epochs[1]);
    // An epoch's last step is smaller, and no step spans two epochs.
    assert!(steps.iter().all(|step| step.iter().all(|fed| fed.position.epoch == step[0].position.epoch)));
    let smaller = steps.iter().filter(|step| step.len() < 48).count();
    assert_eq!(smaller, 2);
    assert_eq!(rows(&fed(&context, config(folder.path()), &encoder, 1000).await), all);
    let other = FeedConfig { seed: 8, ..config(folder.path()) };
    assert_ne!(rows(&fed(&context, other, &encoder, 48).await), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_position_the_same_rows_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let context = corpus(folder.path()).await;
    let encoder = encoder(64, 0.0);
    let all: Vec<Fed> = fed(&context, config(folder.path()), &encoder, 48).await.concat();
    // In the middle of windows, after a window, after an epoch, after the last row.
    let after_a_window = all.iter().position(|fed| fed.position.window == 1).unwrap() - 1;
    let after_an_epoch = all.iter().position(|fed| fed.position.epoch == 1).unwrap() - 1;
    for place in [0, 5, after_a_window, after_an_epoch, all.len() - 3, all.len() - 1] {
        let resume = Some(all[place].position.to_string().parse().unwrap());
        let rest = fed(&context, FeedConfig { resume, ..config(folder.path()) }, &encoder, 100).await.concat();
        assert_eq!(rest, all[place + 1..], "{place}");
    }
}

/// The examples that a feed has to learn, of each epoch.
fn learned(steps: &[Vec<Fed>]) -> Vec<(u64, u64)> {
    let all = steps.iter().flatten().filter(|fed| !fed.examples[0].learned.is_empty());
    all.map(|fed| (fed.position.epoch, fed.source.1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_are_a_partition_of_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let context = corpus(folder.path()).await;
    let encoder = encoder(64, 0.0);
    // An epoch of 8,901 examples ends with a step of one example for four trainers.
    for (size, world) in [(StepSize::Rows(16), 3), (StepSize::Rows(5), 4), (StepSize::Tokens(150), 3)] {
        let part = |rank, resume| FeedConfig { part: (rank, world), resume, ..config(folder.path()) };
        let mut ranks = Vec::new();
        for rank in 0..world {
            ranks.push(shares(&context, part(rank, None), &encoder, size).await);
        }
        let all = rows(&fed(&context, config(folder.path()), &encoder, 48).await);
        for step in 0..ranks[0].len() {
            let ends: BTreeSet<Position> = ranks.iter().map(|rank| rank[step].last().unwrap().position).collect();
            assert_eq!(ends.len(), 1, "{size:?}: all ranks have step {step}, and the same position after it");
        }
        assert!(ranks.iter().all(|rank| rank.len() == ranks[0].len()), "{size:?}");
        let mut found: Vec<_> = ranks.iter().flat_map(|rank| learned(rank)).collect();
        found.sort_unstable();
        let mut expected = all;
        expected.sort_unstable();
        assert_eq!(found, expected, "{size:?}");
        // After a step, all ranks resume after the position of one of them.
        for step in [0, 17, ranks[0].len() - 2] {
            let resume = Some(ranks[0][step].last().unwrap().position);
            let rest = shares(&context, part(world - 1, resume), &encoder, size).await;
            assert_eq!(rest, ranks[world as usize - 1][step + 1..], "{size:?}, step {step}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_filled_to_the_maximum_of_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let context = corpus(folder.path()).await;
    let encoder = encoder(4096, 0.0);
    let steps = shares(&context, config(folder.path()), &encoder, StepSize::Tokens(100)).await;
    let tokens = |step: &[Fed]| step.iter().map(Fed::tokens).sum::<usize>();
    assert!(steps.iter().all(|step| step.len() == 1 || tokens(step) <= 100));
    assert!(steps.iter().any(|step| tokens(step) > 100), "a long example has its own step");
    for pair in steps.windows(2).filter(|pair| pair[0][0].position.epoch == pair[1][0].position.epoch) {
        assert!(tokens(&pair[0]) + pair[1][0].tokens() > 100, "the next example would have fitted");
    }
    assert_eq!(rows(&steps), rows(&fed(&context, config(folder.path()), &encoder, 48).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_out_depends_on_the_question_alone() {
    let folder = tempfile::tempdir().unwrap();
    let context = corpus(folder.path()).await;
    let held = surveyed(folder.path(), &context, &encoder(64, 0.1)).await;
    let share = held.held_out.len() as f64 / (held.held_out.len() as f64 + held.counts.examples as f64);
    assert!((share - 0.1).abs() < 0.01, "{share}");
    let more = surveyed(folder.path(), &context, &encoder(64, 0.2)).await;
    assert!(held.held_out.iter().all(|example| more.held_out.contains(example)));

    // All chains of a question are held out, or all are learned.
    let rows = encoder(64, 0.5);
    for question in 0..20 {
        let question = format!("q{question}");
        let held = |cot: &str| {
            matches!(rows.encode(question.as_str().into(), &[cot, "a"].into()).unwrap(), FedRow::HeldOut(_))
        };
        assert!((0..8).all(|chain| held(&format!("c{chain}")) == held("c0")), "{question}");
    }
}
