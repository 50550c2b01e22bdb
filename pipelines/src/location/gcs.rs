//! Google Cloud Storage.

use std::sync::Arc;

use datafusion::common::Result;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as Key};
use object_store::{ClientConfigKey, ObjectStore};
use url::{Position, Url};

use super::machine::{Machine, PATIENCE, quick};
use super::pages::Pages;
use super::retry::patient;
use super::variables::variables;

/// The user credentials of the Google Cloud tools, relative to the home folder.
const USER: &str = ".config/gcloud/application_default_credentials.json";
const ADVICE: &str = "no credentials: set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run gcloud auth \
                      application-default login, or set GOOGLE_SKIP_SIGNATURE=true for a public bucket";

pub(super) fn store(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = GoogleCloudStorageBuilder::new().with_url(url.as_str()).with_retry(patient());
    for (name, value) in variables("GOOGLE_", std::env::vars_os())? {
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let ways = [Key::ServiceAccount, Key::ServiceAccountKey, Key::ApplicationCredentials];
    let is_logged_in = std::env::home_dir().is_some_and(|home| home.join(USER).exists());
    if is_logged_in || ways.iter().any(|way| builder.get_config_value(way).is_some()) {
        return Ok(Arc::new(Pages::of(builder.build()?)));
    }
    let asking = builder.clone().with_retry(quick()).with_config(Key::Client(ClientConfigKey::Timeout), PATIENCE);
    let service = Arc::clone(asking.build()?.credentials());
    let place = url[..Position::BeforePath].to_string();
    let builder = builder.with_credentials(Arc::new(Machine { service, place, advice: ADVICE }));
    Ok(Arc::new(Pages::of(builder.build()?)))
}
