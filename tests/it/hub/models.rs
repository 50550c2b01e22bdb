//! Downloads of models into the cache of the Hub.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use asap_test_support::hub::{Fault, Hub, commit, etag};

use super::{USED, WEIGHTS, finished, first, model, online, refused, scoring, thinking};
use crate::common::{Workplace, root};

fn cache(workplace: &Workplace) -> PathBuf {
    workplace.path(".cache/huggingface/hub/models--org--tiny")
}

/// The files of the snapshot of the main branch, with the targets of their links.
fn snapshot(workplace: &Workplace) -> BTreeMap<String, String> {
    let folder = cache(workplace).join("snapshots").join(commit("main"));
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap());
    let target = |path: PathBuf| fs::read_link(path).unwrap().to_string_lossy().into_owned();
    entries.map(|entry| (entry.file_name().into_string().unwrap(), target(entry.path()))).collect()
}

fn tiny(file: &str) -> Vec<u8> {
    fs::read(root().join("tests/goldens/qwen2").join(file)).unwrap()
}

#[test]
fn a_model_is_downloaded_in_the_parts_that_are_needed_into_the_cache_that_others_share() {
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![model("models/org/tiny")]));
    let feed = ["feed", "--data", "data/sample", "--model", "org/tiny", "--count"];
    finished(online(&mut workplace.command(feed), &hub)).ok();
    assert!(hub.loads(WEIGHTS).is_empty(), "a feed needs no weights");
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), USED);
    assert_eq!(hub.loads(WEIGHTS).len(), 1);
    assert!(hub.asked().iter().all(|asked| !asked.path.contains("state.bin") && !asked.path.contains("notes.md")));

    let links: Vec<String> =
        ["config.json", "generation_config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json"]
            .iter()
            .map(|file| format!("../../blobs/{}", etag(file, &tiny(file))))
            .collect();
    assert_eq!(snapshot(&workplace).into_values().collect::<Vec<_>>(), links);
    assert_eq!(fs::read_to_string(cache(&workplace).join("refs/main")).unwrap(), commit("main"));
    let left: Vec<_> = cache(&workplace).join("blobs").read_dir().unwrap().map(|blob| blob.unwrap().path()).collect();
    assert!(left.len() == 5 && left.iter().all(|blob| blob.extension().is_none()), "{left:?}");

    // A cached model is read without the Hub, as is its commit.
    let asked = hub.asked().len();
    assert_eq!(finished(&mut scoring(&workplace, &format!("org/tiny@{}", commit("main")))).ok(), USED);
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), USED);
    assert_eq!(hub.asked().len(), asked);
}

#[test]
fn a_model_that_writes_thoughts_is_downloaded_too() {
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![model("models/org/tiny")]));
    assert_eq!(finished(online(&mut thinking(&workplace, "org/tiny"), &hub)).ok(), USED);
    assert_eq!(hub.loads(WEIGHTS).len(), 1);
    assert_eq!(finished(&mut thinking(&workplace, "org/tiny")).ok(), USED);
}

#[test]
fn weights_in_parts_are_downloaded_and_safetensors_before_others() {
    let list = br#"{"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors"}}"#;
    let mut repository = model("models/org/tiny");
    let files = &mut repository.branches[0].1;
    let weights = files.remove(WEIGHTS).unwrap();
    files.insert("pytorch_model.bin".to_string(), vec![0; 50]);
    files.insert("model-1.safetensors".to_string(), weights);
    files.insert("model.safetensors.index.json".to_string(), list.to_vec());
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![repository.clone()]));
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), USED);
    assert!(hub.loads("pytorch_model.bin").is_empty() && hub.loads("model-1.safetensors").len() == 1);

    repository.branches[0].1.retain(|file, _| !file.starts_with("model"));
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![repository.clone()]));
    finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ends(2, &["model.safetensors"]);
    assert_eq!(hub.loads("pytorch_model.bin").len(), 1);
    repository.branches[0].1.remove("pytorch_model.bin");
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![repository]));
    let without = "the model org/tiny has no weights that asap reads: expected model.safetensors or pytorch_model.bin";
    refused(online(&mut scoring(&workplace, "org/tiny"), &hub), 2, &[without]);
}

#[test]
fn a_download_continues_where_it_ended() {
    let workplace = Workplace::new();
    let hub = Hub::that(vec![model("models/org/tiny")], first(1, |asked| asked.is_storage, Fault::Cut(500_000)));
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), USED);
    let loads: Vec<_> = hub.loads(WEIGHTS).into_iter().map(|asked| asked.range).collect();
    assert!(loads.len() == 2 && loads[0].is_none() && loads[1].as_deref() == Some("bytes=500000-784999"), "{loads:?}");

    // The same of another process, which finds half of the file.
    let workplace = Workplace::new();
    let hub = Hub::that(vec![model("models/org/tiny")], |asked| match asked.range {
        _ if !asked.is_storage => None,
        None => Some(Fault::Cut(500_000)),
        Some(_) => Some(Fault::Status(503, vec![])),
    });
    let mut command = scoring(&workplace, "org/tiny");
    finished(online(&mut command, &hub).env("ASAP_STORE_RETRY_TIMEOUT", "0.3")).ends(75, &["answers 503"]);
    let blob = cache(&workplace).join("blobs").join(etag(WEIGHTS, &tiny(WEIGHTS)));
    let incomplete = blob.with_extension("incomplete");
    assert_eq!(incomplete.metadata().unwrap().len(), 500_000);
    let hub = Hub::start(vec![model("models/org/tiny")]);
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), USED);
    assert_eq!(hub.loads(WEIGHTS)[0].range.as_deref(), Some("bytes=500000-784999"));
    assert!(!incomplete.exists());
}

#[test]
fn bytes_without_the_hash_of_the_listing_are_not_kept() {
    for (file, is_storage) in [(WEIGHTS, true), ("tokenizer.json", false)] {
        let workplace = Workplace::new();
        let hub = Hub::that(vec![model("models/org/tiny")], move |asked| {
            let is_one = asked.path.contains(file) && asked.is_storage == is_storage;
            is_one.then_some(Fault::Garbled)
        });
        let text = format!("{file} of the model org/tiny does not have the hash");
        refused(online(&mut scoring(&workplace, "org/tiny"), &hub), 2, &[&text]);
        assert!(!cache(&workplace).join("blobs").join(etag(file, &tiny(file))).exists());
    }
    // What a damaged disk left is fetched again.
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![model("models/org/tiny")]));
    let blobs = cache(&workplace).join("blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(etag(WEIGHTS, &tiny(WEIGHTS))).with_extension("incomplete"), vec![7; 1000]).unwrap();
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), USED);
    let ranges: Vec<_> = hub.loads(WEIGHTS).into_iter().map(|asked| asked.range.is_some()).collect();
    assert_eq!(ranges, [true, false]);
}

#[test]
fn processes_at_once_download_a_model_once() {
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![model("models/org/tiny")]));
    std::thread::scope(|scope| {
        let one = || finished(online(&mut scoring(&workplace, "org/tiny"), &hub));
        let started = [(); 3].map(|()| scope.spawn(one));
        started.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap().ok(), USED));
    });
    assert_eq!(hub.loads(WEIGHTS).len(), 1);
}

#[test]
fn nothing_is_downloaded_offline() {
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![model("models/org/tiny")]));
    let by_variable = "HF_HUB_OFFLINE is set: unset it, or run hf download org/tiny";
    refused(online(&mut scoring(&workplace, "org/tiny"), &hub).env("HF_HUB_OFFLINE", "1"), 2, &[by_variable]);
    let by_setting = "asap.hub is 'offline': set it to 'online', or run hf download org/tiny";
    for mut command in [scoring(&workplace, "org/tiny"), thinking(&workplace, "org/tiny")] {
        refused(online(&mut command, &hub).env("ASAP_HUB", "offline"), 2, &[by_setting]);
    }
    let feed = ["feed", "--data", "data/sample", "--model", "org/tiny", "--count"];
    refused(online(&mut workplace.command(feed), &hub).env("ASAP_HUB", "offline"), 2, &[by_setting]);
    let set = [
        "sql",
        "-c",
        "SET asap.hub = 'offline'",
        "-c",
        "SET asap.scorer.model = 'org/tiny'",
        "-c",
        "SELECT cot_tokens('a')",
    ];
    refused(online(&mut workplace.command(set), &hub), 2, &[by_setting]);
    assert!(hub.asked().is_empty());
}

#[test]
fn a_full_disk_and_a_read_only_cache_are_named() {
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![model("models/org/tiny")]));
    let script = "mount -t tmpfs -o size=400k tmpfs small || exit 8; exec \"$0\" \"$@\"";
    fs::create_dir(workplace.path("small")).unwrap();
    for wanted in [scoring(&workplace, "org/tiny"), thinking(&workplace, "org/tiny")] {
        let mut mounted = Command::new("unshare");
        mounted
            .args(["--map-root-user", "--mount", "sh", "-c", script])
            .arg(wanted.get_program())
            .args(wanted.get_args());
        mounted
            .envs(wanted.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(workplace.path(""));
        let full = online(&mut mounted, &hub).env("HF_HUB_CACHE", workplace.path("small"));
        refused(
            full,
            75,
            &["cannot write", "/small/models--org--tiny/", "No space left on device", "Free space there"],
        );
    }

    let locked = workplace.path("locked");
    fs::create_dir(&locked).unwrap();
    fs::write(locked.join("hub"), "").unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
    let mut command = scoring(&workplace, "org/tiny");
    let command = online(&mut command, &hub).env("HF_HOME", &locked);
    refused(command, 1, &["cannot write", "locked/hub"]);
}
