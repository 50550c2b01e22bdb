//! What a user sees of the commands over an output of `asap run`.

use std::path::Path;

use crate::lake::place::{File, Place, had_nothing_to_do};
use crate::server::{Reply, Server};
use crate::support::table::{REJECTS, log};
use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::json;

const OLD: File = ("a.parquet", 1..=7, "step");
const NEW: File = ("a.parquet", 1..=7, "walk");
const B: File = ("b.parquet", 11..=17, "step");

/// An output with rejects and filtered rows, of which one file was replaced.
fn filled() -> Place {
    let place = Place::local();
    place.put_all(&[OLD, B]);
    place.run(&[]).ok();
    place.put(NEW);
    place.run(&["--on-change", "reprocess"]).ok();
    place.holds(&[NEW, B]);
    place
}

/// The files below a folder that lie in folders of attempts.
fn written(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if path.is_dir() && !name.starts_with("_delta_log") && !name.starts_with(".asap") {
                open.push(path);
            } else if path.is_file() {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

/// The live files of a table, by its log.
fn live(folder: &Path) -> Vec<String> {
    let mut live = std::collections::BTreeSet::new();
    for (_, actions) in log(folder) {
        for action in actions {
            if let Some(path) = action["remove"]["path"].as_str() {
                live.remove(path);
            }
            if let Some(path) = action["add"]["path"].as_str() {
                live.insert(path.to_string());
            }
        }
    }
    live.into_iter().collect()
}

fn without_times(text: &str) -> String {
    let mut text = text.to_string();
    for (pattern, with) in [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[time]             "),
        (r"  files of .*\n", ""),
        (r"\b[0-9a-f]{32}\b", "[hash]"),
        (r"\b[0-9a-f]{12}\b", "[attempt]   "),
        (r"[0-9,]+ bytes", "[n] bytes"),
        (r"\d,\d{3}\n", "[bytes]\n"),
    ] {
        text = regex::Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

#[test]
fn an_output_says_what_it_holds_and_how_it_came() {
    let place = filled();
    let status = place.execute(&["status", "out"]);
    insta::assert_snapshot!("status", without_times(status.ok()));
    let history = place.execute(&["history", "out"]);
    insta::assert_snapshot!("history", without_times(history.ok()));
    let last = place.execute(&["history", "out", "--limit", "1", "--format", "json"]).json();
    assert_eq!(last.as_array().unwrap().len(), 1);
    let none = place.execute(&["status", "in/.."]);
    assert!(none.code == 1 && none.stderr.contains("asap"), "{}", none.stderr);
    place.put(("c.parquet", 21..=27, "step"));
    place.run(&["--limit", "16", "--slice-rows", "2"]).ok();
    let part = place.execute(&["status", "out", "--format", "json"]).json();
    assert_eq!(part["files_in_part"], json!([{"file": "c.parquet", "done": 2, "rows": 7}]));
    assert_eq!((&part["finished"], &part["rows_beyond_limit"]), (&json!(true), &json!(5)));
    assert!(place.execute(&["status", "out"]).ok().contains("5 rows of the input are beyond it"));
    place.run(&[]).ok();
    let whole = place.execute(&["status", "out", "--format", "json"]).json();
    assert_eq!((&whole["finished"], &whole["rows_beyond_limit"]), (&json!(true), &json!(0)));
}

#[test]
fn faults_are_named() {
    let place = filled();
    let sound = place.execute(&["verify", "out", "--format", "json"]).json();
    let counts = ["rows", "rejects", "filtered", "doubled", "strange"].map(|name| sound[name].as_u64().unwrap());
    assert_eq!((counts, &sound["faults"]), ([10, 2, 2, 0, 0], &json!([])));

    // A copy of a shard under another name.
    let out = place.path("out");
    let shards = live(&out);
    let first = &shards[0];
    let copy = format!("{first}.copy.parquet");
    std::fs::copy(out.join(first), out.join(&copy)).unwrap();
    let versions = log(&out);
    let mut actions = versions.iter().flat_map(|(_, actions)| actions);
    let mut add = actions.rfind(|action| action["add"]["path"].as_str() == Some(first)).unwrap().clone();
    add["add"]["path"] = json!(copy);
    let next = versions.last().unwrap().0 + 1;
    std::fs::write(out.join(format!("_delta_log/{next:020}.json")), add.to_string()).unwrap();
    let doubled = place.execute(&["verify", "out"]);
    assert!(doubled.code == 1 && doubled.stderr.contains("is there twice"), "{}", doubled.stderr);

    std::fs::remove_file(out.join(&shards[1])).unwrap();
    let missing = place.execute(&["verify", "out"]);
    let fault = format!("shard {} is missing", shards[1]);
    assert!(missing.code == 1 && missing.stderr.contains(&fault), "{}", missing.stderr);
}

#[test]
fn what_a_killed_run_and_a_replaced_file_left_is_removed() {
    let place = Place::local();
    let pipeline =
        "SELECT source, id, ai_complete(question) AS said, cot, status, error FROM corpus WHERE id NOT LIKE '%7'";
    std::fs::write(place.path("mine.sql"), pipeline).unwrap();
    let server = Server::start(|call| match call.prompt().ends_with("question 30") {
        true => Reply::Hang,
        false => Reply::text("said"),
    });
    let base_url = format!("asap.anchor.base_url={}", server.base_url());
    let sets = ["--set", "asap.anchor.provider=openai", "--set", "asap.anchor.model=m", "--set", &base_url];
    place.put_all(&[OLD, B]);
    place.run(&sets).ok();
    place.put(NEW);
    place.run(&[&sets[..], &["--on-change", "reprocess"]].concat()).ok();
    place.put(("c.parquet", 21..=31, "step"));
    let before = written(&place.path("out"));
    let mut run = place.start(&[&sets[..], &["--slice-rows", "2", "--commit-every", "1h"]].concat());
    let is_shard = |name: &String| name.ends_with(".parquet") && !before.contains(name);
    run.wait_until("a shard that no commit names", || written(&place.path("out")).iter().any(is_shard));
    run.kill();
    let left = place.path("out/asap-0123456789ab");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("part-0.parquet#1"), "cut").unwrap();
    std::fs::write(left.join("probe"), "").unwrap();
    std::fs::write(place.path("out/notes.txt"), "not asap's").unwrap();
    let out = place.path("out");
    let probes = ["_delta_log/.asap-probe-1", ".asap/cache/.asap-probe-2"].map(|probe| out.join(probe));
    std::fs::create_dir_all(out.join(".asap/cache")).unwrap();
    probes.iter().for_each(|probe| std::fs::write(probe, "").unwrap());

    let refused = place.execute(&["vacuum", "out", "--retain", "0s"]);
    assert!(refused.code == 2 && refused.stderr.contains("--now"), "{}", refused.stderr);
    let young = place.execute(&["vacuum", "out", "--format", "json"]).json();
    assert_eq!(young["objects"], 0);
    let before = written(&out);
    let would = place.execute(&["vacuum", "out", "--retain", "0s", "--dry-run", "--format", "json"]).json();
    assert_eq!((written(&out), would["dry_run"].as_bool()), (before, Some(true)));
    let done = place.execute(&["vacuum", "out", "--retain", "0s", "--now", "--format", "json"]).json();
    assert!(done["objects"].as_u64() >= Some(3) && done["bytes"].as_u64() > Some(0), "{done}");

    let kept: Vec<_> = written(&out).into_iter().filter(|name| name != "notes.txt").collect();
    assert_eq!(kept, live(&out));
    assert!(out.join("notes.txt").exists() && !probes.iter().any(|probe| probe.exists()));
    let rejects = out.join(REJECTS);
    assert_eq!(written(&rejects), live(&rejects));
    place.holds(&[NEW, B]);
    place.execute(&["verify", "out"]).ok();
}

#[test]
fn shards_are_merged_and_a_changed_file_is_still_replaced() {
    let place = Place::local();
    place.put_all(&[OLD, B]);
    place.run(&["--slice-rows", "2"]).ok();
    let before = live(&place.path("out")).len();
    let done = place.execute(&["optimize", "out", "--format", "json"]).json();
    let shards = live(&place.path("out"));
    assert!(before > 1 && shards.len() == 1, "{before} and {shards:?}");
    assert_eq!((done["shards_before"].as_u64(), done["shards_after"].as_u64()), (Some(before as u64), Some(1)));
    place.holds(&[OLD, B]);
    place.execute(&["verify", "out"]).ok();
    had_nothing_to_do(&place.run(&[]));
    place.put(NEW);
    place.run(&["--on-change", "reprocess"]).ok();
    place.holds(&[NEW, B]);
    place.execute(&["verify", "out"]).ok();
    // Shards that no attempt's folder holds are the table's own as well.
    place.execute(&["vacuum", "out", "--retain", "0s", "--now"]).ok();
    assert_eq!(written(&place.path("out")), live(&place.path("out")));
}

#[test]
fn an_output_is_exported_as_plain_parquet() {
    let place = filled();
    let done = place.execute(&["export", "out", "--to", "plain", "--format", "json"]).json();
    assert_eq!((done["rows"].as_u64(), done["files"].as_u64()), (Some(10), Some(1)));
    let file = std::fs::File::open(place.path("plain/train-00000-of-00001.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 10);
    let info = std::fs::read(place.path("plain/dataset_info.json")).unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    let text = json!({"dtype": "string", "_type": "Value"});
    let source = json!({"file": text, "row": {"dtype": "int64", "_type": "Value"}});
    assert_eq!((&info["features"]["id"], &info["features"]["source"], &info["num_rows"]), (&text, &source, &json!(10)));
    let card = std::fs::read_to_string(place.path("plain/README.md")).unwrap();
    assert!(
        card.starts_with("---\npretty_name: ") && !card.contains("configs:") && card.contains("| rows | 10 |"),
        "{card}"
    );
    let again = place.execute(&["export", "out", "--to", "plain"]);
    assert!(again.code == 1 && again.stderr.contains("not empty"), "{}", again.stderr);
}
