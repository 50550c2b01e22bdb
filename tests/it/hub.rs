//! Datasets and models of the Hugging Face Hub, from a server that speaks its HTTP and misbehaves.

mod models;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use asap_test_support::hub::{Asked, Fault, Hub, Repository, SIGNATURE, TOKEN, commit};

use crate::common::{Finished, Workplace, files_below, root};

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
    let model = format!("SET asap.scorer.model = '{model}'");
    used(workplace, &[model.as_str(), "SELECT cot_surprisal('q', ['a', 'b'])[1] > 0 AS is_used"])
}

/// Asks for a thought of a few tokens in this process.
fn thinking(workplace: &Workplace, model: &str) -> Command {
    let model = format!("SET asap.anchor.model = '{model}'");
    let settings = ["SET asap.anchor.provider = 'local'", "SET asap.anchor.max_tokens = 4"];
    used(
        workplace,
        &[&settings[..], &[model.as_str(), "SELECT cot_anchor('q', 'a')['tokens_in'] > 0 AS is_used"]].concat(),
    )
}

fn used(workplace: &Workplace, statements: &[&str]) -> Command {
    let statements = statements.iter().flat_map(|statement| ["-c", statement]);
    workplace.command(["sql", "-q", "--format", "csv"].into_iter().chain(statements))
}

const USED: &str = "is_used\ntrue\n";

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
    let revision = "the model org/tiny has no revision v9: name a branch, a tag or a commit of";
    refused(online(&mut scoring(&workplace, "org/tiny@v9"), &hub), 2, &["asap.scorer.model = 'org/tiny@v9'", revision]);
    refused(
        online(&mut thinking(&workplace, "org/tiny@v9"), &hub),
        2,
        &["asap.anchor.model = 'org/tiny@v9'", revision],
    );
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
    let denied = |asked: &Asked| {
        asked.path.contains("/resolve/").then(|| Fault::Status(403, vec![("x-error-code", "GatedRepo")]))
    };
    let hub = Hub::that(vec![dataset()], denied);
    let account = "accept its terms at";
    refused(
        online(&mut questions(&workplace, "org/name"), &hub).env("HF_TOKEN", TOKEN),
        1,
        &[account, "with the account of your token, and wait for approval"],
    );
}

#[test]
fn no_log_and_no_file_of_a_run_has_the_token() {
    let workplace = Workplace::new();
    let hub = Hub::start(vec![
        Repository::new("datasets/org/gated", [("a.parquet", rows("a"))]).gated(),
        model("models/org/tiny").gated(),
    ]);
    let run = ["run", "without_anchor", "--from", "hf://datasets/org/gated", "--to", "out", "--log", "json"];
    let mut command = workplace.command(run.into_iter().chain(["--set", "asap.scorer.model=org/tiny"]));
    let command = online(&mut command, &hub).env("HF_TOKEN", TOKEN).env("RUST_LOG", "trace");
    let log = finished(command).ends(0, &["starting new connection", "slice is written"]).stderr;
    assert!(hub.asked().iter().any(|asked| asked.token.is_some()), "{log}");
    for file in files_below(&workplace.path("out")).into_iter().map(|file| format!("out/{file}")) {
        let bytes = fs::read(workplace.path(&file)).unwrap();
        let holds = |hidden: &str| bytes.windows(hidden.len()).any(|part| part == hidden.as_bytes());
        assert!(!HIDDEN.into_iter().any(holds), "{file}");
    }
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
        for mut command in [scoring(&workplace, "org/tiny"), thinking(&workplace, "org/tiny")] {
            let command = online(&mut command, &hub).env("ASAP_STORE_RETRY_TIMEOUT", "0.5");
            refused(command, 75, &[text, "run the same command again later"]);
        }
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
