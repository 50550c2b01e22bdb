//! The steps that anchoring without a language model keeps of labelled traces.

use asap_generator::{Label, Openers, SampleRow, rows};
use asap_kernels::extractive;

const ROWS: usize = 400;
const SEED: u64 = 20;

/// For each label, the number of steps and of kept steps.
#[derive(Debug, Default)]
struct Kept {
    all: [usize; 4],
    kept: [usize; 4],
}

impl Kept {
    fn add(&mut self, labels: &[Label], kept: &[usize]) {
        let place = |step: usize| Label::ALL.iter().position(|label| *label == labels[step]).unwrap();
        for step in 0..labels.len() {
            self.all[place(step)] += 1;
        }
        for step in kept {
            self.kept[place(*step)] += 1;
        }
    }

    fn recall(&self, label: Label) -> f64 {
        let place = Label::ALL.iter().position(|other| *other == label).unwrap();
        self.kept[place] as f64 / self.all[place] as f64
    }

    fn precision_of_core(&self) -> f64 {
        self.kept[0] as f64 / self.kept.iter().sum::<usize>() as f64
    }
}

fn texts(row: &SampleRow) -> Vec<&str> {
    row.chosen().steps.iter().map(|step| step.text.as_str()).collect()
}

fn anchored(row: &SampleRow) -> Vec<usize> {
    let thought = extractive::write(&row.question, &row.chosen().response).unwrap();
    extractive::core(&texts(row), &thought)
}

#[test]
fn the_core_of_a_trace_is_kept() {
    let mut kept = Kept::default();
    for row in rows(ROWS, SEED, Openers::Even) {
        kept.add(&row.labels(), &anchored(&row));
    }
    assert!(kept.recall(Label::Core) >= 0.9, "{kept:?}");
    assert!(kept.precision_of_core() >= 0.7, "{kept:?}");
    for label in [Label::Check, Label::DeadEnd, Label::Filler] {
        assert!(kept.recall(label) <= 0.25, "{label:?} {kept:?}");
    }
}

#[test]
fn the_same_row_gives_the_same_every_time() {
    for row in rows(200, SEED, Openers::Even) {
        let steps = texts(&row);
        let once = || {
            let thought = extractive::write(&row.question, &row.chosen().response).unwrap();
            (extractive::core(&steps, &thought), thought)
        };
        // Every hash map has a different seed, so one process reveals a dependence on iteration order.
        let first = once();
        for _ in 0..20 {
            assert_eq!(once(), first, "{}", row.id);
        }
    }
}
