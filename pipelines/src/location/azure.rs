//! Azure Blob Storage.

use std::sync::Arc;

use datafusion::common::{Result, config_err};
use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};
use object_store::{ClientConfigKey, ObjectStore};
use url::{Position, Url};

use super::machine::{Machine, PATIENCE, quick};
use super::pages::Pages;
use super::retry::patient;
use super::variables::variables;

const ADVICE: &str = "no credentials: set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, \
                      AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or AZURE_USE_AZURE_CLI=true after az login, or \
                      AZURE_SKIP_SIGNATURE=true for a public container";

pub(super) fn store(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = MicrosoftAzureBuilder::new().with_url(url.as_str()).with_retry(patient());
    let mut settings = variables("AZURE_", std::env::vars_os())?;
    // The identity endpoint of Azure container apps: the only Azure variable without the prefix.
    if let Some(endpoint) = std::env::var_os("IDENTITY_ENDPOINT").and_then(|endpoint| endpoint.into_string().ok()) {
        settings.entry("AZURE_IDENTITY_ENDPOINT".to_string()).or_insert(endpoint);
    }
    for (name, value) in settings {
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let is_set = |key: &Key| builder.get_config_value(key).is_some_and(|value| value != "false");
    if url.username().is_empty() && !is_set(&Key::AccountName) && !is_set(&Key::UseEmulator) {
        let container = url.host_str().unwrap_or_default();
        return config_err!(
            "{}://{container} does not name its storage account: set AZURE_STORAGE_ACCOUNT_NAME, or write \
             abfss://{container}@ACCOUNT.dfs.core.windows.net/…",
            url.scheme()
        );
    }
    let ways = [
        Key::AccessKey,
        Key::SasKey,
        Key::Token,
        Key::ClientSecret,
        Key::FederatedTokenFile,
        Key::UseAzureCli,
        Key::MsiEndpoint,
        Key::FabricSessionToken,
        Key::UseEmulator,
    ];
    if ways.iter().any(is_set) {
        return Ok(Arc::new(Pages::of(builder.build()?)));
    }
    let asking = builder.clone().with_retry(quick()).with_config(Key::Client(ClientConfigKey::Timeout), PATIENCE);
    let service = Arc::clone(asking.build()?.credentials());
    let place = url[..Position::BeforePath].to_string();
    let builder = builder.with_credentials(Arc::new(Machine { service, place, advice: ADVICE }));
    Ok(Arc::new(Pages::of(builder.build()?)))
}
