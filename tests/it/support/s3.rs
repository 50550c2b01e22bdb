//! An S3 server over a folder, whose subfolders are the buckets.
//!
//! In addition to s3s-fs, it has what the run tests need: a folder is not an object, a listing includes ETags, a read
//! with `If-Match` fails if the object was replaced, and of two concurrent conditional creates of one name, one fails.
//! It answers only the requests that asap makes for small objects.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use async_trait::async_trait;
use s3s::auth::SimpleAuth;
use s3s::dto::*;
use s3s::service::S3ServiceBuilder;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use tokio::sync::Mutex;

use super::objects::listen_http;

/// The key that the server requires, and its secret.
pub(crate) const KEY: (&str, &str) = ("test-key", "test-secret-0123456789");

/// Serves a folder on a separate thread until the process ends.
pub(crate) fn serve(folder: &Path) -> SocketAddr {
    let files = FileSystem::new(folder).unwrap();
    let buckets = Buckets { folder: folder.to_path_buf(), files, creating: Mutex::default() };
    let mut service = S3ServiceBuilder::new(buckets);
    service.set_auth(SimpleAuth::from_single(KEY.0, KEY.1));
    listen_http(service.build())
}

/// Sets the variables of a command for the server, or for a proxy in front of it.
pub(crate) fn point(command: &mut Command, endpoint: SocketAddr) {
    command.env("AWS_ACCESS_KEY_ID", KEY.0).env("AWS_SECRET_ACCESS_KEY", KEY.1).env("AWS_REGION", "us-east-1");
    command.env("AWS_ENDPOINT_URL", format!("http://{endpoint}")).env("AWS_ALLOW_HTTP", "true");
}

struct Buckets {
    folder: PathBuf,
    files: FileSystem,
    /// Held during a conditional create.
    creating: Mutex<()>,
}

impl Buckets {
    fn check_is_object(&self, bucket: &str, key: &str) -> S3Result<()> {
        match self.folder.join(bucket).join(key).is_dir() {
            true => Err(s3_error!(NoSuchKey)),
            false => Ok(()),
        }
    }

    async fn e_tag(&self, bucket: &str, key: &str) -> S3Result<Option<ETag>> {
        let input = HeadObjectInput { bucket: bucket.to_string(), key: key.to_string(), ..Default::default() };
        Ok(self.files.head_object(request(input)).await?.output.e_tag)
    }
}

fn request<T>(input: T) -> S3Request<T> {
    S3Request {
        input,
        method: Default::default(),
        uri: Default::default(),
        headers: Default::default(),
        extensions: Default::default(),
        credentials: None,
        region: None,
        service: None,
        trailing_headers: None,
    }
}

#[async_trait]
impl S3 for Buckets {
    async fn list_objects_v2(&self, req: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        let bucket = req.input.bucket.clone();
        let mut listed = self.files.list_objects_v2(req).await?;
        for object in listed.output.contents.iter_mut().flatten() {
            // An object that was deleted in the meantime has no ETag.
            object.e_tag = self.e_tag(&bucket, object.key.as_deref().unwrap_or_default()).await.ok().flatten();
        }
        Ok(listed)
    }

    async fn get_object(&self, req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        self.check_is_object(&req.input.bucket, &req.input.key)?;
        if let Some(ETagCondition::ETag(expected)) = &req.input.if_match {
            let found = self.e_tag(&req.input.bucket, &req.input.key).await?;
            if !found.is_some_and(|found| found.strong_cmp(expected)) {
                return Err(s3_error!(PreconditionFailed, "the object has another ETag"));
            }
        }
        self.files.get_object(req).await
    }

    async fn put_object(&self, req: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let _creating = match &req.input.if_none_match {
            Some(_) => Some(self.creating.lock().await),
            None => None,
        };
        self.files.put_object(req).await
    }

    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        self.check_is_object(&req.input.bucket, &req.input.key)?;
        self.files.head_object(req).await
    }

    async fn delete_objects(&self, req: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
        self.files.delete_objects(req).await
    }
}
