//! `asap cache` from the user's view.

use std::path::Path;

use crate::common::{Finished, Workplace};
use asap_pipelines::answers::AnswerFolder;
use asap_udfs::llm::chat::Answer;
use asap_udfs::llm::store::AnswerStore;
use url::Url;

/// Caches answers to the requests 0, 1, …, each in its own segment.
fn fill(folder: &Path, answers: u8) {
    let url = Url::from_directory_path(folder).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
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
fn an_output_is_listed_summed_and_compacted() {
    let workplace = Workplace::new();
    let folder = workplace.path("out/.asap/cache");
    fill(&folder, 3);

    let listed = workplace.run(["cache", "ls", "out", "--format", "json"]).json();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|row| row["segment"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 3);
    assert!(names.is_sorted());
    cut(&folder, names[1]);

    let table = workplace.run(["cache", "ls", "out/.asap/cache"]);
    let lines: Vec<_> = table.ok().lines().collect();
    let header: Vec<_> = lines[0].split_whitespace().collect();
    assert_eq!(header, ["segment", "written", "(UTC)", "answers", "bytes", "state"]);
    let states: Vec<_> = lines[1..].iter().map(|line| line.split_whitespace().last().unwrap()).collect();
    assert_eq!(states, ["whole", "damaged", "whole"]);
    let ends = |line: &&str| line.find(" whole").or_else(|| line.find(" damaged"));
    assert!(lines[1..].iter().all(|line| ends(line) == ends(&lines[1])), "{lines:?}");

    let stats = workplace.run(["cache", "stats", "out", "--format", "json"]).json();
    assert_eq!(["segments", "answers", "damaged"].map(|name| stats[name].as_u64().unwrap()), [3, 2, 1]);
    assert!(stats["oldest"].as_i64() <= stats["newest"].as_i64());

    let done = workplace.run(["cache", "gc", "out"]);
    assert!(done.ok().contains("segments  3 -> 1\n"), "{}", done.stdout);
    let stats = workplace.run(["cache", "stats", "out"]);
    assert!(stats.ok().contains("answers   2\n"), "{}", stats.stdout);
    let done = workplace.run(["cache", "gc", "out", "--older-than", "0", "--format", "json"]).json();
    assert_eq!((done["answers_too_old"].as_u64(), done["segments_after"].as_u64()), (Some(2), Some(0)));
}

#[test]
fn without_a_location_it_is_the_folder_of_the_settings() {
    let workplace = Workplace::new();
    fill(&workplace.path("mine"), 1);
    fill(&workplace.path("caches/asap"), 2);
    let answers = |cache: &str, variable: &str| {
        let mut command = workplace.command(["cache", "stats", "--format", "json"]);
        Finished::of(command.env(variable, workplace.path(cache))).json()["answers"].as_u64()
    };
    assert_eq!(answers("mine", "ASAP_CACHE_DIR"), Some(1));
    assert_eq!(answers("caches", "XDG_CACHE_HOME"), Some(2));
    assert_eq!(answers("none", "XDG_CACHE_HOME"), Some(0));
}

#[test]
fn a_location_without_answers_is_refused() {
    let workplace = Workplace::new();
    workplace.run(["cache", "gc", "nowhere"]).ends(1, &["nowhere is neither the output of a run"]);
}
