//! Datasets and models of the Hugging Face Hub, from a server that speaks its HTTP and misbehaves.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use asap_test_support::hub::{Asked, Fault, Hub, Repository, SIGNATURE, TOKEN, commit, etag};

use crate::common::{Finished, Workplace, root};

const WEIGHTS: &str = "model.safetensors";
/// The hidden secrets: nothing that is printed has them.
const HIDDEN: [&str; 2] = [TOKEN, SIGNATURE];

fn rows(question: &str) -> Vec<u8> {
    let workplace = Workplace::new();
    workplace.copy(&format!("SELECT '{question}' AS question, 'c' AS cot, 'a' AS answer"), "rows.parquet");
    fs::read(workplace.path("rows.parquet")).unwrap()
}

fn dataset() -> Repository {
    let files =
        [("README.md", b"# Traces".to_vec()), ("data/a.parquet", rows("a")), ("data/more/b.parquet", rows("b"))];
    Repository::new("datasets/org/name", files).branch("v2", [("data/c.parquet", rows("c"))])
}

fn model(name: &'static str) -> Repository {
    let file = |file: &'static str| (file, fs::read(root().join("tests/goldens/qwen2").join(file)).unwrap());
    let files = ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", WEIGHTS].map(file);
    Repository::new(name, files.into_iter().chain([("training/state.bin", vec![1; 100]), ("notes.md", vec![2; 10])]))
}

/// Lets a command use the Hub.
fn online<'a>(command: &'a mut Command, hub: &Hub) -> &'a mut Command {
    command.env_remove("HF_HUB_OFFLINE").env("HF_ENDPOINT", &hub.endpoint).env("ASAP_STORE_RETRY_TIMEOUT", "30")
}

fn finished(command: &mut Command) -> Finished {
    let finished = Finished::of(command);
    for hidden in HIDDEN {
        assert!(!finished.stderr.contains(hidden) && !finished.stdout.contains(hidden), "{finished:?}");
    }
    finished
}

const QUESTIONS: &str = "SELECT string_agg(question, '' ORDER BY question) AS all FROM corpus";

fn questions(workplace: &Workplace, place: &str) -> Command {
    workplace.command(["sql", "-q", "--format", "csv", "--from", &format!("hf://datasets/{place}"), "-c", QUESTIONS])
}

/// Scores a step, for which all of a model is needed.
fn scoring(workplace: &Workplace, model: &str) -> Command {
    let score = "SELECT cot_surprisal('q', ['a', 'b'])[1] > 0 AS is_scored";
    workplace.command([
        "sql",
        "-q",
        "--format",
        "csv",
        "-c",
        &format!("SET asap.scorer.model = '{model}'"),
        "-c",
        score,
    ])
}

const SCORED: &str = "is_scored\ntrue\n";

/// Checks that a command is refused in one line with these texts.
#[track_caller]
fn refused(command: &mut Command, code: i32, texts: &[&str]) {
    let finished = finished(command).ends(code, texts);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
}

#[test]
fn a_dataset_is_read_at_any_revision_and_no_token_leaves_the_hub() {
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![dataset()]));
    let (main, v2) = (commit("main"), commit("v2"));
    for (place, all) in [
        ("org/name", "ab"),
        ("org/name@main/data", "ab"),
        ("org/name/data/more/", "b"),
        ("org/name/data/more/b.parquet", "b"),
        ("org/name/**/a.parquet", "a"),
        ("org/name@v2", "c"),
        (&format!("org/name@{}/data/", &main[..7]), "ab"),
        (&format!("org/name@{v2}"), "c"),
    ] {
        let mut command = questions(&workplace, place);
        let read = finished(online(&mut command, &hub).env("HF_TOKEN", TOKEN).env("RUST_LOG", "trace"));
        assert_eq!(read.ok(), format!("all\n{all}\n"), "{place}");
    }
    let asked = hub.asked();
    assert!(asked.iter().all(|asked| asked.token.is_some() != asked.is_storage), "{asked:?}");
    // A pinned revision is not looked up.
    assert!(!asked.iter().any(|asked| asked.path.contains(&format!("/revision/{v2}"))));

    let mut tokenless = questions(&workplace, "org/name");
    let home = workplace.path("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("token"), format!("{TOKEN}\n")).unwrap();
    finished(online(&mut tokenless, &hub).env("HF_HOME", &home)).ok();
    assert!(hub.asked()[asked.len()..].iter().all(|asked| asked.token.is_some() != asked.is_storage));

    refused(
        online(&mut questions(&workplace, "org/name/none/"), &hub),
        1,
        &["no Parquet files", "hf://datasets/org/name/none/"],
    );
    refused(online(&mut questions(&workplace, "org/name@/data"), &hub), 2, &["write hf://datasets/org/name@revision"]);
    workplace.write("a.parquet", rows("a"));
    let to = ["run", "truncate", "--from", "a.parquet", "--to", "hf://datasets/org/name/out"];
    refused(&mut workplace.command(to), 2, &["cannot write to hf://datasets/org/name@main/out"]);
    refused(&mut questions(&workplace, "org/name"), 2, &["HF_HUB_OFFLINE is set", "unset it"]);
}

#[test]
fn a_dataset_without_parquet_and_json_is_read_from_its_parquet_branch() {
    let workplace = Workplace::new();
    let csv = |name| Repository::new(name, [("train.csv", b"question,cot,answer\nq,c,a\n".to_vec())]);
    let converted = csv("datasets/org/csv").branch(
        "refs/convert/parquet",
        [("default/train/0000.parquet", rows("a")), ("other/partial-test/0.parquet", rows("b"))],
    );
    let hub = Hub::start(vec![converted, csv("datasets/org/only")]);
    let from = ["sql", "--format", "csv", "--from", "hf://datasets/org/csv", "-c", QUESTIONS];
    let note = "are read from hf://datasets/org/csv@refs/convert/parquet/, which has only the first part of the rows";
    let read = finished(online(&mut workplace.command(from), &hub)).ends(0, &[note]);
    assert!(read.stdout.contains("ab"), "{read:?}");
    assert_eq!(finished(online(&mut questions(&workplace, "org/csv@~parquet/default"), &hub)).ok(), "all\na\n");
    refused(
        online(&mut questions(&workplace, "org/only"), &hub),
        1,
        &["train.csv is CSV, not Parquet; convert it first"],
    );
}

#[test]
fn each_refusal_is_a_sentence_with_the_way_on() {
    let workplace = Workplace::new();
    let gated = Repository::new("datasets/org/gated", [("a.parquet", rows("a"))]).gated();
    let hub = Hub::start(vec![dataset(), gated, model("models/org/tiny").gated()]);
    let endpoint = hub.endpoint.as_str();
    let page = format!("accept its terms at {endpoint}/datasets/org/gated");
    refused(online(&mut questions(&workplace, "org/gated"), &hub), 1, &[&page, "set HF_TOKEN", "/settings/tokens"]);
    assert_eq!(finished(online(&mut questions(&workplace, "org/gated"), &hub).env("HF_TOKEN", TOKEN)).ok(), "all\na\n");
    let page = format!("the model org/tiny is gated: accept its terms at {endpoint}/org/tiny");
    refused(online(&mut scoring(&workplace, "org/tiny"), &hub), 2, &[&page]);
    let absent = "does not show the dataset org/absent";
    refused(online(&mut questions(&workplace, "org/absent"), &hub), 1, &[absent, "set HF_TOKEN if it is private"]);
    refused(
        online(&mut questions(&workplace, "org/absent"), &hub).env("HF_TOKEN", TOKEN),
        1,
        &[absent, "check the name"],
    );
    let revision = "the dataset org/name has no revision v9: name a branch, a tag or a commit of";
    refused(online(&mut questions(&workplace, "org/name@v9"), &hub), 1, &[revision]);
    let other = "hf_ein_anderes_token";
    let unknown = finished(online(&mut questions(&workplace, "org/name"), &hub).env("HF_TOKEN", other));
    assert!(!unknown.stderr.contains(other), "{unknown:?}");
    unknown.ends(1, &["does not know the token in HF_TOKEN"]);
    refused(online(&mut questions(&workplace, "org/name"), &hub).env("HF_TOKEN", "two words"), 2, &["set it again"]);
    let with_password = "http://user:geheim@127.0.0.1:9";
    refused(
        online(&mut questions(&workplace, "org/name"), &hub).env("HF_ENDPOINT", with_password),
        2,
        &["HF_ENDPOINT"],
    );
    let absent = "there is no folder org/absent, and";
    refused(online(&mut scoring(&workplace, "org/absent"), &hub), 2, &[absent, "does not show the model org/absent"]);
}

/// A fault of the first requests that a test accepts.
fn first(times: usize, is_one: fn(&Asked) -> bool, fault: Fault) -> impl Fn(&Asked) -> Option<Fault> + Send + Sync {
    let left = std::sync::atomic::AtomicUsize::new(times);
    move |asked| {
        let is_less = |left: usize| left.checked_sub(1);
        let ordering = std::sync::atomic::Ordering::SeqCst;
        (is_one(asked) && left.fetch_update(ordering, ordering, is_less).is_ok()).then(|| fault.clone())
    }
}

#[test]
fn limits_errors_and_broken_connections_are_waited_out() {
    let workplace = Workplace::new();
    let limit = || Fault::Status(429, vec![("retry-after", "0.05")]);
    let of_window = || Fault::Status(429, vec![("ratelimit", "\"resolvers\";r=0;t=0")]);
    let any: fn(&Asked) -> bool = |_| true;
    let is_storage: fn(&Asked) -> bool = |asked| asked.is_storage;
    for (times, is_one, fault) in [
        (3, any, limit()),
        (2, any, of_window()),
        (2, any, Fault::Status(503, vec![])),
        (3, any, Fault::Cut(1)),
        (3, is_storage, Fault::Cut(100)),
        // The address at the storage has expired.
        (2, is_storage, Fault::Status(403, vec![])),
    ] {
        let hub = Hub::that(vec![dataset()], first(times, is_one, fault.clone()));
        assert_eq!(finished(online(&mut questions(&workplace, "org/name"), &hub)).ok(), "all\nab\n", "{fault:?}");
        assert!(hub.asked().len() < 60, "{fault:?}: {} requests", hub.asked().len());
    }
    for (fault, text) in [
        (
            Fault::Status(429, vec![("retry-after", "600")]),
            "limits requests and asks to wait 600 s; with HF_TOKEN it allows more",
        ),
        (Fault::Status(503, vec![]), "answers 503"),
        (Fault::Cut(0), "does not answer (the connection broke"),
    ] {
        let hub = Hub::that(vec![dataset(), model("models/org/tiny")], move |_| Some(fault.clone()));
        let mut command = questions(&workplace, "org/name");
        let command = online(&mut command, &hub).env("ASAP_STORE_RETRY_TIMEOUT", "0.5");
        refused(command, 75, &[text, "run the same command again later"]);
        assert!(hub.asked().len() < 12, "{text}: {} requests", hub.asked().len());
        let mut command = scoring(&workplace, "org/tiny");
        refused(
            online(&mut command, &hub).env("ASAP_STORE_RETRY_TIMEOUT", "0.5"),
            75,
            &[text, "run the same command again later"],
        );
    }
    let mut command = questions(&workplace, "org/name");
    let nobody = command.env_remove("HF_HUB_OFFLINE").env("HF_ENDPOINT", "http://127.0.0.1:9");
    refused(nobody.env("ASAP_STORE_RETRY_TIMEOUT", "0.5"), 75, &["http://127.0.0.1:9 does not answer (cannot connect"]);
}

#[test]
fn a_file_that_changes_between_list_and_get_is_found_out() {
    let workplace = Workplace::new();
    let replaced = |asked: &Asked| asked.path.contains("/resolve/").then_some(Fault::Replaced);
    let hub = Hub::that(vec![dataset()], replaced);
    refused(
        online(&mut questions(&workplace, "org/name"), &hub),
        1,
        &["data/a.parquet: it was replaced after it was listed"],
    );
}

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
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), SCORED);
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
    assert_eq!(finished(&mut scoring(&workplace, &format!("org/tiny@{}", commit("main")))).ok(), SCORED);
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), SCORED);
    assert_eq!(hub.asked().len(), asked);
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
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), SCORED);
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
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), SCORED);
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
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), SCORED);
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
    assert_eq!(finished(online(&mut scoring(&workplace, "org/tiny"), &hub)).ok(), SCORED);
    let ranges: Vec<_> = hub.loads(WEIGHTS).into_iter().map(|asked| asked.range.is_some()).collect();
    assert_eq!(ranges, [true, false]);
}

#[test]
fn processes_at_once_download_a_model_once() {
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![model("models/org/tiny")]));
    std::thread::scope(|scope| {
        let one = || finished(online(&mut scoring(&workplace, "org/tiny"), &hub));
        let started = [(); 3].map(|()| scope.spawn(one));
        started.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap().ok(), SCORED));
    });
    assert_eq!(hub.loads(WEIGHTS).len(), 1);
}

#[test]
fn nothing_is_downloaded_offline() {
    let (workplace, hub) = (Workplace::new(), Hub::start(vec![model("models/org/tiny")]));
    let by_variable = "HF_HUB_OFFLINE is set: unset it, or run hf download org/tiny";
    refused(online(&mut scoring(&workplace, "org/tiny"), &hub).env("HF_HUB_OFFLINE", "1"), 2, &[by_variable]);
    let by_setting = "asap.hub is 'offline': set it to 'online', or run hf download org/tiny";
    refused(online(&mut scoring(&workplace, "org/tiny"), &hub).env("ASAP_HUB", "offline"), 2, &[by_setting]);
    let feed = ["feed", "--data", "data/sample", "--model", "org/tiny", "--count"];
    refused(online(&mut workplace.command(feed), &hub).env("ASAP_HUB", "offline"), 1, &[by_setting]);
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
    let score = scoring(&workplace, "org/tiny");
    let mut mounted = Command::new("unshare");
    mounted.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(score.get_program()).args(score.get_args());
    mounted.envs(score.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(workplace.path(""));
    let full = online(&mut mounted, &hub).env("HF_HUB_CACHE", workplace.path("small"));
    refused(full, 75, &["cannot write", "/small/models--org--tiny/", "No space left on device", "Free space there"]);

    let locked = workplace.path("locked");
    fs::create_dir(&locked).unwrap();
    fs::write(locked.join("hub"), "").unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
    let mut command = scoring(&workplace, "org/tiny");
    let command = online(&mut command, &hub).env("HF_HOME", &locked);
    refused(command, 1, &["cannot write", "locked/hub"]);
}

#[test]
fn an_export_becomes_a_dataset_in_one_commit_and_replaces_no_other() {
    let workplace = Workplace::new();
    workplace.traces(5, 4, "in");
    workplace.prune("truncate", "out", &["--ratio", "0.5"]).ok();
    // The command of Hugging Face, which writes down its words and keeps the files.
    let script = "#!/bin/sh\ncp -r \"$3\" uploaded; printf '%s\\n' \"$@\" > words; exit ${HF_FAILS:-0}\n";
    workplace.write("bin/hf", script);
    fs::set_permissions(workplace.path("bin/hf"), fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:{}", workplace.path("bin").display(), std::env::var("PATH").unwrap());
    let card = |text: &str| {
        let files = [("README.md", text.as_bytes().to_vec()), ("a.parquet", rows("a"))];
        Hub::start(vec![Repository::new("datasets/org/held", files)])
    };
    let hub = card("# Of somebody");
    let export = |hub: &Hub, to: &str, more: &[&str]| {
        let mut command = workplace.command(["export", "out", "--to", to].iter().chain(more));
        finished(online(&mut command, hub).env("PATH", &path))
    };
    let planned = export(&hub, "hf://datasets/org/new", &["--dry-run"]);
    assert!(planned.ok().contains("would upload hf://datasets/org/new: 4 rows") && !workplace.path("words").exists());
    for text in ["a new private dataset", "README.md", "train-00000-of-00001.parquet"] {
        assert!(planned.ok().contains(text), "{planned:?}");
    }
    export(&hub, "hf://datasets/org/new", &[]).ok();
    let words = |expected: &str| {
        let words = fs::read_to_string(workplace.path("words")).unwrap();
        let words: Vec<&str> =
            words.lines().enumerate().filter(|(place, _)| *place != 2).map(|(_, word)| word).collect();
        assert!(words.join(" ").contains(expected), "{words:?}");
    };
    words("upload org/new . --repo-type dataset --private --commit-message Write 4 rows of table version");
    assert!(workplace.path("uploaded/train-00000-of-00001.parquet").exists());

    let others = "has files that asap did not write (README.md, a.parquet): choose another name";
    export(&hub, "hf://datasets/org/held", &[]).ends(1, &[others, "--replace"]);
    export(&hub, "hf://datasets/org/held", &["--replace"]).ok();
    words("--delete *.parquet");
    let own = card("# Pruned\n\nWritten by asap 0.1.0 from version 3 of a table.\n");
    export(&own, "hf://datasets/org/held", &[]).ok();

    let failed = |path: &str, texts: &[&str]| {
        let mut command = workplace.command(["export", "out", "--to", "hf://datasets/org/new"]);
        let command = online(&mut command, &hub).env("PATH", path).env("HF_FAILS", "3");
        finished(command.env("TMPDIR", workplace.path(""))).ends(1, texts);
    };
    failed(&path, &["hf failed (exit status: 3); the export is in", "upload it with hf upload org/new"]);
    failed("/nowhere", &["there is no command hf, which uploads: run pip install huggingface_hub"]);
    export(&hub, "hf://datasets/org/new@main/data", &[])
        .ends(2, &["expected hf://datasets/org/name without a revision"]);
    export(&hub, "elsewhere", &["--dry-run"]).ends(2, &["--replace and --dry-run are for a dataset of the Hub"]);
}
