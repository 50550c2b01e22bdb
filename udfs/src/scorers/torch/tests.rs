use std::time::{Duration, Instant};

use asap_lm::compressor::{Keeps, Placed};
use parking_lot::Mutex;

use super::encoder::Encoders;
use super::lines::each_line;
use super::*;

/// Much longer than a busy machine needs, and much shorter than the child is silent.
const SOON: Duration = Duration::from_secs(60);
const FAKE: &str = include_str!("fake.py");

fn launch(script: &str, dtype: String) -> Launch {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/qwen2");
    let (script, python, device) = (script.to_string(), "python3".to_string(), "cpu".to_string());
    Launch { script, python, folder, device, dtype, backend: BACKEND }
}

fn fake(folder: &Path, wrong: &str) -> Torch {
    let launch = launch(FAKE, format!("{}:{wrong}", folder.display()));
    let child = launch.start().unwrap();
    Torch::of(launch, child, &Arc::new(Proof::of_scorer(vec![3, 4, 5, 6])), None).unwrap()
}

/// Encoders that run the stub, one for each text of what they do wrong.
fn fake_encoders(folders: &[(&Path, &str)]) -> Encoders {
    let proof = [3, 4, 5].map(|id| Placed { id, position: id as usize });
    let encoder = |(folder, wrong): &(&Path, &str)| {
        let torch = fake(folder, wrong);
        Mutex::new(Torch { proof: Arc::new(Proof::of_encoder(&proof)), ..torch })
    };
    Encoders(folders.iter().map(encoder).collect())
}

#[test]
fn encoders_share_the_chunks_of_a_call_whatever_befalls_a_child() {
    let chunk = |ids: &[u32]| (1..).zip(ids).map(|(position, id)| Placed { id: *id, position }).collect::<Vec<_>>();
    let chunks = [chunk(&[100, 200, 300]), chunk(&[400, 7]), chunk(&[8])];
    let expected = [vec![0.101, 0.202, 0.303], vec![0.401, 0.009], vec![0.009]];
    for wrong in [["", ""], ["k-", "g-"], ["N", "e-"], ["b-", "s-"], ["-", "mm"]] {
        let folders = wrong.map(|_| tempfile::tempdir().unwrap());
        let given = [(folders[0].path(), wrong[0]), (folders[1].path(), wrong[1])];
        let found = fake_encoders(&given).keep(&chunks).unwrap();
        let apart = found.iter().flatten().zip(expected.iter().flatten()).map(|(a, b): (&f32, &f32)| (a - b).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-6, "{wrong:?}: {found:?}");
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2, 1]);
    }
    let folder = tempfile::tempdir().unwrap();
    let error = fake_encoders(&[(folder.path(), "k!")]).keep(&chunks).unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("died 3 times"), "{error}");
    assert_eq!(fake_encoders(&[(folder.path(), "")]).keep(&[]).unwrap(), Vec::<Vec<f32>>::new());
}

const IDS: [u32; 5] = [7, 8, 9, 10, 11];

fn score(torch: &mut Torch) -> Result<Vec<f32>> {
    // In another order than their rows.
    let targets = [2, 0, 3].map(|row| Target { row, id: IDS[row as usize + 1] });
    let scores = torch.score(Packed { ids: &IDS, lengths: &[3, 2] }, &targets, &|| true)?;
    assert!(scores.iter().all(|score| score.entropy == 0.5));
    Ok(scores.iter().map(|score| score.surprisal).collect())
}

/// Scores of two chains, one of which has an id of its own.
fn score_with(torch: &mut Torch, id: u32) -> Result<Vec<f32>> {
    let ids = [7, 8, 9, 10, id];
    let targets = [0, 1, 3].map(|row| Target { row, id: ids[row as usize + 1] });
    let scores = torch.score(Packed { ids: &ids, lengths: &[3, 2] }, &targets, &|| true)?;
    Ok(scores.iter().map(|score| score.surprisal).collect())
}

fn score_one(torch: &mut Torch) -> Result<Vec<f32>> {
    let targets = [Target { row: 0, id: 8 }, Target { row: 1, id: 9 }];
    let scores = torch.score(Packed { ids: &IDS[..3], lengths: &[3] }, &targets, &|| true)?;
    Ok(scores.iter().map(|score| score.surprisal).collect())
}

#[test]
fn a_child_that_dies_or_writes_nonsense_costs_no_score() {
    let folder = tempfile::tempdir().unwrap();
    // Each fault once, then a batch that is whole: killed, ended, foreign bytes, another id, too few and negative scores.
    let wrong = "k-e-g-b-i-s-n-".repeat(5);
    let mut torch = fake(folder.path(), &wrong);
    for _ in 0..wrong.len() / 2 {
        assert_eq!(score(&mut torch).unwrap(), [0.01, 0.008, 0.011]);
    }
    // Memory that ran out makes later batches smaller.
    assert_eq!((torch.tokens_per_batch(), torch.deaths), (50, 0));
}

#[test]
fn rows_on_which_a_child_dies_twice_are_rejected_and_three_deaths_in_a_row_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    // A child that is asked to prove itself is well, but for the last one.
    let mut torch = fake(folder.path(), "m--kk--kke!");
    let why = |torch: &mut Torch| score_one(torch).unwrap_err();
    assert!(matches!(why(&mut torch), LmError::Rejected(why) if why == "cpu: no room"));
    score_one(&mut torch).unwrap();
    let LmError::Rejected(twice) = why(&mut torch) else { panic!("expected a rejection") };
    assert!(twice.contains("signal: 9") && twice.contains("for the second time on these rows"), "{twice}");
    score_one(&mut torch).unwrap();
    let last = why(&mut torch);
    assert!(last.is_unavailable(), "{last:?}");
    let last = last.to_string();
    assert!(last.contains("out of luck") && last.contains("died 3 times without a finished batch"), "{last}");
}

#[test]
fn a_child_that_breaks_midway_rejects_no_row() {
    for fault in "NILZnmgisbke".chars() {
        let folder = tempfile::tempdir().unwrap();
        let mut torch = fake(folder.path(), &format!("-{fault}!"));
        score(&mut torch).unwrap();
        let error = score(&mut torch).unwrap_err();
        assert!(error.is_unavailable(), "{fault}: {error:?}");
        let folder = tempfile::tempdir().unwrap();
        let mut torch = fake(folder.path(), &format!("-{fault}!"));
        score_one(&mut torch).unwrap();
        assert!(score_one(&mut torch).unwrap_err().is_unavailable(), "{fault}");
    }
}

#[test]
fn a_child_that_breaks_in_passing_costs_no_score() {
    // Once, and until it is started again.
    for wrong in ["N", "NN", "NNN", "I", "LL", "Z", "ZZ", "mm", "mmm-", "mmN", "n"] {
        let folder = tempfile::tempdir().unwrap();
        let mut torch = fake(folder.path(), wrong);
        assert_eq!(score(&mut torch).unwrap(), [0.01, 0.008, 0.011], "{wrong}");
        assert_eq!(torch.deaths, 0, "{wrong}");
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(score_one(&mut fake(folder.path(), wrong)).unwrap(), [0.008, 0.009], "{wrong}");
    }
}

#[test]
fn a_row_that_cannot_be_scored_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut torch = fake(folder.path(), "");
    for fatal in [1990, 1991, 1992] {
        let found = score_with(&mut torch, fatal).unwrap();
        assert!(found[..2] == [0.008, 0.009] && found[2].is_nan(), "{fatal}: {found:?}");
        assert_eq!(score_with(&mut torch, 11).unwrap(), [0.008, 0.009, 0.011]);
    }
}

#[test]
fn a_silent_child_holds_no_caller_that_leaves() {
    // Silent before it reads a request that fills its pipe, and in the middle of a reply.
    for (wrong, tokens) in [("h", 50_000), ("H", 5)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut torch, begun) = (fake(folder.path(), wrong), Instant::now());
        let (ids, targets) = (vec![7; tokens], [Target { row: 0, id: 7 }, Target { row: 1, id: 8 }]);
        let left = torch.score(Packed { ids: &ids, lengths: &[tokens] }, &targets, &|| begun.elapsed() < SOON / 60);
        assert!(matches!(left, Err(LmError::Abandoned)), "{wrong}: {left:?}");
        assert!(begun.elapsed() < SOON, "{wrong}");
        assert_eq!(score(&mut torch).unwrap(), [0.01, 0.008, 0.011], "{wrong}");
    }
    let begun = Instant::now();
    for script in ["import time; time.sleep(600)", "import time; print('{', end='', flush=True); time.sleep(600)"] {
        let mut child = launch(script, String::new()).start().unwrap();
        assert!(matches!(child.ready(&|| false), Err(Fault::Abandoned | Fault::Silent)), "{script}");
    }
    assert!(begun.elapsed() < SOON);
}

#[test]
fn lines_of_stderr_are_kept_in_part() {
    let text = format!("{}\r 50%|##\r\n\x1b[2Jout of luck\n\n", "x".repeat(10_000_000));
    let mut lines = Vec::new();
    each_line(text.as_bytes(), |line| lines.push(line));
    assert_eq!((lines.len(), lines[0].len()), (3, 400));
    assert_eq!(lines[1..], [" 50%|##", "[2Jout of luck"]);
}

#[test]
fn a_reply_that_no_caller_waits_for_is_read_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut torch = fake(folder.path(), "");
    let child = torch.child.as_mut().unwrap();
    child.left = Some((1, 1));
    let line = json!({ "id": 1, "ask": "score", "lengths": [5], "rows": 1 });
    child.send(&line, IDS.into_iter().chain([0, 1999]), &|| true).unwrap();
    torch.requests = 1;
    assert_eq!(score(&mut torch).unwrap(), [0.01, 0.008, 0.011]);
}

#[test]
fn a_python_that_lacks_something_is_one_error() {
    let error = has_card("/nowhere/python").unwrap_err().to_string();
    assert!(error.contains("asap.scorer.python = '/nowhere/python' does not start"), "{error}");
    let error = has_card("false").unwrap_err().to_string();
    assert!(
        error.contains("and reports so on stdout; found: nothing printed; install torch and transformers"),
        "{error}"
    );
}
