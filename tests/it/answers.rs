//! `asap table vacuum --answers` from the user's view.

use std::path::Path;

use crate::common::{Workplace, files_below, now};
use asap_llm::chat::Answer;
use asap_llm::store::AnswerStore;
use asap_pipelines::answers::AnswerFolder;
use url::Url;

/// Caches answers to the requests 0, 1, …, each in its own segment.
fn fill(folder: &Path, answers: u8) {
    let url = Url::from_directory_path(folder).unwrap();
    now(async {
        let store = AnswerFolder::open(&url).await.unwrap();
        for number in 0..answers {
            store
                .keep(
                    [number; 32],
                    Ok(Answer { text: "yes".repeat(300), tokens_in: 9, tokens_out: 300, ..Answer::default() }),
                    false,
                )
                .await
                .unwrap();
        }
    });
}

fn cut(folder: &Path, name: &str) {
    let bytes = std::fs::read(folder.join(name)).unwrap();
    std::fs::write(folder.join(name), &bytes[..bytes.len() - 1]).unwrap();
}

#[test]
fn answers_of_an_output_are_compacted() {
    let workplace = Workplace::new();
    let folder = workplace.path("out/.asap/cache");
    fill(&folder, 3);
    let names = || files_below(&folder).into_iter().filter(|name| name.ends_with(".parquet")).collect::<Vec<_>>();
    let segments = names();
    cut(&folder, &segments[1]);
    let vacuum = |more: &[&str]| workplace.run([&["table", "vacuum", "out", "--answers"], more].concat());

    let would = vacuum(&["--dry-run", "--retain", "0s"]);
    assert!(would.ok().contains("removed   2 too old") && would.stdout.contains("nothing was changed"), "{would:?}");
    assert_eq!(names(), segments);
    let done = vacuum(&[]);
    assert!(done.ok().contains("segments  3 -> 1\n") && done.stdout.contains("answers   2 kept\n"), "{done:?}");
    assert_eq!(workplace.csv(&["SELECT count(*) AS n FROM 'out/.asap/cache'"]), "n\n2\n");
    vacuum(&["--retain", "0s"]).ends(2, &["--retain of less than a day deletes answers", "--now"]);
    assert_eq!(vacuum(&["--retain", "1d", "--format", "json"]).json()["answers"], 2);
    let done = vacuum(&["--retain", "0s", "--now", "--format", "json"]).json();
    assert_eq!((done["answers_too_old"].as_u64(), done["segments_after"].as_u64()), (Some(2), Some(0)));
    let nowhere = workplace.run(["table", "vacuum", "nowhere", "--answers"]);
    nowhere.ends(1, &["nowhere is neither the output of a run"]);
}
