//! Matching: similarities and walks in CPU time. The peer is cydifflib: `python3 benches/peers/matching.py`.

#![allow(missing_docs, reason = "criterion_group writes public items")]

mod common;

use asap_udfs::kernels::gestalt::Gestalt;
use common::CpuTime;
use criterion::{Criterion, criterion_group, criterion_main};

fn similarity(criterion: &mut Criterion<CpuTime>) {
    let (a, b) = ("so we add them ".repeat(40), "then we add these ".repeat(40));
    let mut gestalt = Gestalt::new(false);
    criterion.bench_function("similarity", |bencher| {
        bencher.iter(|| {
            gestalt.set_b(&b);
            gestalt.ratio(&a)
        });
    });
}

criterion_group! { name = benches; config = Criterion::default().with_measurement(CpuTime); targets = similarity }
criterion_main!(benches);
