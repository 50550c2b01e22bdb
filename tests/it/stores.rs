//! Sources of a store's settings, the check of an output store, and its errors.

use std::net::SocketAddr;
use std::process::Command;

use crate::common::{Finished, Workplace};
use crate::support::objects::serve_files;
use crate::support::proxy::{Action, Proxy, RequestHead};
use crate::support::s3::{KEY, serve};
use asap_pipelines::delta::check_output;
use futures::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, RetryConfig};

fn run(mut command: Command) -> Finished {
    Finished::of(&mut command)
}

#[track_caller]
fn failed(command: Command, code: i32, named: &[&str]) -> String {
    run(command).ends(code, named).stderr
}

const COUNT: [&str; 8] =
    ["sql", "-q", "--format", "csv", "--from", "s3://lake/corpus/", "-c", "SELECT count(*) AS n FROM corpus"];

/// This server cannot list. The client still asks no other server for the bucket's region.
#[test]
fn a_server_that_cannot_list_is_the_only_one_that_is_asked() {
    let (workplace, unable) = (Workplace::new(), serve_files(&[]));
    let create = "CREATE EXTERNAL TABLE c STORED AS PARQUET LOCATION 's3://lake/corpus/'";
    let mut listed = workplace.command(["sql", "-c", create]);
    listed.env("AWS_ACCESS_KEY_ID", KEY.0).env("AWS_SECRET_ACCESS_KEY", KEY.1);
    listed.env("AWS_ENDPOINT_URL", format!("http://{unable}")).env("HTTPS_PROXY", "http://127.0.0.1:9");
    failed(listed, 1, &[&format!("http://{unable}/lake"), "405"]);
}

#[test]
fn a_file_of_a_web_server_is_read_and_nothing_else() {
    let workplace = Workplace::new();
    workplace.copy("SELECT 'q' AS question, 'c' AS cot, 'a' AS answer", "corpus.parquet");
    let file = std::fs::read(workplace.path("corpus.parquet")).unwrap();
    let web = serve_files(&[("/data/a%20b.parquet", file)]);
    let from = |place: &str| {
        let mut count = COUNT;
        let from = format!("http://{web}/{place}");
        count[5] = &from;
        workplace.command(&count)
    };
    assert_eq!(run(from("data/a%20b.parquet")).ok(), "n\n1\n");
    failed(from("data/"), 1, &[&format!("http://{web}/data is not a file, and http and https cannot list folders")]);
    let said = failed(from("data/a.parquet?X-Amz-Signature=0a1b"), 2, &["?X-Amz-Signature=… contains a ?"]);
    assert!(!said.contains("0a1b"), "{said}");
    let to = format!("http://{web}/out");
    let out = workplace.command(&["run", "pipelines/sql/truncate.sql", "--from", "corpus.parquet", "--to", &to]);
    failed(out, 2, &["cannot write to http://"]);
    let copy = format!("COPY (SELECT 1) TO '{to}/a.parquet'");
    failed(workplace.command(&["sql", "-c", &copy]), 1, &["is read-only: you cannot write there"]);
}

fn bucket(server: SocketAddr, condition: S3ConditionalPut) -> AmazonS3 {
    let builder = AmazonS3Builder::new().with_bucket_name("lake").with_endpoint(format!("http://{server}"));
    let builder = builder.with_access_key_id(KEY.0).with_secret_access_key(KEY.1).with_allow_http(true);
    let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    builder.with_conditional_put(condition).with_retry(once).build().unwrap()
}

/// Checks a folder `out`. Returns the result and the objects left in the store.
async fn checked(store: impl ObjectStore) -> (Result<(), String>, Vec<String>) {
    let store = PrefixStore::new(store, "out");
    let said = check_output(&store, "out").await.map_err(|error| error.strip_backtrace());
    let left = store.list(None).map_ok(|left| left.location.to_string()).try_collect::<Vec<_>>().await;
    (said, left.unwrap_or_default())
}

#[tokio::test]
async fn an_output_where_creation_is_conditional_passes_the_check() {
    let workplace = Workplace::new();
    std::fs::create_dir_all(workplace.path("s3/lake")).unwrap();
    let server = serve(&workplace.path("s3"));
    assert_eq!(checked(bucket(server, S3ConditionalPut::ETagMatch)).await, (Ok(()), vec![]));

    std::fs::create_dir(workplace.path("disk")).unwrap();
    let disk = LocalFileSystem::new_with_prefix(workplace.path("disk")).unwrap().with_automatic_cleanup(true);
    assert_eq!(checked(disk).await, (Ok(()), vec![]));
    assert!(std::fs::read_dir(workplace.path("disk")).unwrap().next().is_none(), "a folder remains");
}

/// Checks that an output is refused with every text of `named`.
async fn refused(store: impl ObjectStore, named: &[&str]) {
    let said = checked(store).await.0.unwrap_err();
    assert!(named.iter().all(|text| said.contains(text)), "not all of {named:?} in: {said}");
}

#[tokio::test]
async fn a_store_that_refuses_the_condition_is_refused() {
    let workplace = Workplace::new();
    std::fs::create_dir_all(workplace.path("s3/lake")).unwrap();
    let proxy = Proxy::start(serve(&workplace.path("s3")));
    proxy.faults(RequestHead::is_create, Action::Status(501, "NotImplemented"));
    for condition in [S3ConditionalPut::ETagMatch, S3ConditionalPut::Disabled] {
        let named = "can be written, but objects cannot be created there on condition that they do not exist";
        refused(bucket(proxy.address, condition), &[named, "unset AWS_CONDITIONAL_PUT"]).await;
    }
}

#[tokio::test]
async fn a_log_on_disk_that_cannot_be_written_is_named() {
    let workplace = Workplace::new();
    let log = workplace.path("disk/out/_delta_log");
    std::fs::create_dir_all(&log).unwrap();
    let mut locked = std::fs::metadata(&log).unwrap().permissions();
    locked.set_readonly(true);
    std::fs::set_permissions(&log, locked).unwrap();
    if std::fs::write(log.join("a"), "").is_ok() {
        // Root may write to read-only folders, so this test uses a file instead.
        std::fs::remove_dir_all(&log).unwrap();
        std::fs::write(&log, "").unwrap();
    }
    let disk = LocalFileSystem::new_with_prefix(workplace.path("disk")).unwrap().with_automatic_cleanup(true);
    refused(disk, &["cannot write to the log of out", "check that the folder can be created"]).await;
}
