//! Amazon S3 and compatible servers.

use std::sync::Arc;

use datafusion::common::{Result, config_err};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};
use object_store::{ClientConfigKey, ObjectStore};
use url::{Position, Url};

use super::machine::{Machine, PATIENCE, quick};
use super::pages::Pages;
use super::retry::patient;
use super::variables::{Variables, variables};

const ADVICE: &str = "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with AWS_SESSION_TOKEN where they \
                      are temporary), or AWS_SKIP_SIGNATURE=true for a public bucket. For a profile, run \
                      eval \"$(aws configure export-credentials --format env)\"";

pub(super) fn store(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    let variables = variables("AWS_", std::env::vars_os())?;
    let builder = builder(url, &variables)?;
    let ways = [
        Key::AccessKeyId,
        Key::SecretAccessKey,
        Key::WebIdentityTokenFile,
        Key::ContainerCredentialsRelativeUri,
        Key::ContainerCredentialsFullUri,
    ];
    if ways.iter().any(|way| builder.get_config_value(way).is_some()) {
        return Ok(Arc::new(Pages::of(builder.build()?)));
    }
    let asking = builder.clone().with_retry(quick()).with_config(Key::Client(ClientConfigKey::Timeout), PATIENCE);
    let service = Arc::clone(asking.build()?.credentials());
    let place = url[..Position::BeforePath].to_string();
    let builder = builder.with_credentials(Arc::new(Machine { service, place, advice: ADVICE }));
    Ok(Arc::new(Pages::of(builder.build()?)))
}

fn builder(url: &Url, variables: &Variables) -> Result<AmazonS3Builder> {
    let mut builder = AmazonS3Builder::new().with_url(url.as_str()).with_retry(patient());
    for (name, value) in variables {
        match name.to_ascii_lowercase().parse() {
            // The URL itself names the host of the bucket.
            Ok(Key::Endpoint | Key::S3Endpoint) if url.scheme() == "https" => {}
            Ok(key) => builder = builder.with_config(key, value),
            Err(_) => {}
        }
    }
    let endpoints = [Key::S3Endpoint, Key::Endpoint].map(|key| builder.get_config_value(&key));
    if let Some(endpoint) = endpoints.into_iter().flatten().next() {
        let scheme = Url::parse(&endpoint).ok().filter(Url::has_host).map(|url| url.scheme().to_string());
        match scheme.as_deref() {
            Some("https") => {}
            Some("http") if variables.contains_key("AWS_ALLOW_HTTP") => {}
            Some("http") => builder = builder.with_allow_http(true),
            _ => {
                return config_err!("AWS_ENDPOINT_URL must be a URL such as http://localhost:9000, found {endpoint}");
            }
        }
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(url: &str, variables: &[(&str, &str)]) -> Result<AmazonS3Builder> {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        builder(&Url::parse(url).unwrap(), &variables)
    }

    #[test]
    fn an_endpoint_works_as_it_is() {
        let allows_http = |builder: &AmazonS3Builder| {
            builder.get_config_value(&Key::Client(ClientConfigKey::AllowHttp)).as_deref() == Some("true")
        };
        for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"] {
            let builder = built("s3://bucket/a", &[(name, "http://localhost:9000")]).unwrap();
            assert!(allows_http(&builder), "{name}");
            assert_eq!(builder.get_config_value(&Key::VirtualHostedStyleRequest).as_deref(), Some("false"));
        }
        assert!(!allows_http(&built("s3://bucket/a", &[("AWS_ENDPOINT_URL", "https://s3.example.com")]).unwrap()));
        let refused = [("AWS_ENDPOINT_URL", "http://localhost:9000"), ("AWS_ALLOW_HTTP", "false")];
        assert!(!allows_http(&built("s3://bucket/a", &refused).unwrap()));
        let error = built("s3://bucket/a", &[("AWS_ENDPOINT_URL", "localhost:9000")]).unwrap_err().strip_backtrace();
        assert!(error.contains("http://localhost:9000, found localhost:9000"), "{error}");
    }

    #[test]
    fn a_bucket_with_its_own_host_has_no_other_endpoint() {
        let builder = built("https://b.s3.eu-west-1.amazonaws.com/a", &[("AWS_ENDPOINT_URL", "http://localhost:9")]);
        assert_eq!(builder.unwrap().get_config_value(&Key::Endpoint), None);
    }
}
