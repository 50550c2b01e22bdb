use super::*;

const FAKE: &str = include_str!("fake.py");

fn fake(folder: &Path, wrong: &str) -> Torch {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/qwen2");
    let launch = Launch {
        script: FAKE.to_string(),
        python: "python3".to_string(),
        folder: model.clone(),
        device: "cpu".to_string(),
        dtype: format!("{}:{wrong}", folder.display()),
    };
    let tokenizer = Arc::new(Tokenizer::load(&model).unwrap());
    let stating = Arc::new(Stating::load(&model, &tokenizer).unwrap());
    let child = launch.start().unwrap();
    Torch::of(launch, child, &stating).unwrap()
}

const IDS: [u32; 5] = [7, 8, 9, 10, 11];

fn score(torch: &mut Torch) -> Result<Vec<f32>> {
    // In another order than their rows.
    let targets = [2, 0, 3].map(|row| Target { row, id: IDS[row as usize + 1] });
    let scores = torch.score(Packed { ids: &IDS, lengths: &[3, 2] }, &targets, &|| true)?;
    assert!(scores.iter().all(|score| score.entropy == 0.5));
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
    let mut torch = fake(folder.path(), "m-kk-kke!");
    let why = |torch: &mut Torch| score(torch).unwrap_err();
    assert!(matches!(why(&mut torch), LmError::Rejected(why) if why == "cpu: no room"));
    score(&mut torch).unwrap();
    let LmError::Rejected(twice) = why(&mut torch) else { panic!("expected a rejection") };
    assert!(twice.contains("signal: 9") && twice.contains("for the second time on these rows"), "{twice}");
    score(&mut torch).unwrap();
    assert!(matches!(why(&mut torch), LmError::Rejected(_)));
    let last = why(&mut torch);
    assert!(last.is_unavailable(), "{last:?}");
    let last = last.to_string();
    assert!(last.contains("out of luck") && last.contains("died 3 times without a finished batch"), "{last}");
}

#[test]
fn a_reply_that_no_caller_waits_for_is_read_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut torch = fake(folder.path(), "");
    let child = torch.child.as_mut().unwrap();
    child.left = Some(1);
    let line = json!({ "id": 1, "ask": "score", "lengths": [5], "rows": 1 });
    child.send(&line, IDS.into_iter().chain([0, 1999])).unwrap();
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
