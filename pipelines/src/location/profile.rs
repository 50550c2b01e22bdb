//! AWS's profile files, `~/.aws/credentials` and `~/.aws/config`. Values that the environment does not set come from
//! the profile that AWS_PROFILE names, or else from the profile `default`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use datafusion::common::{Result, config_err};

use super::variables::Variables;

type Profiles = BTreeMap<String, BTreeMap<String, String>>;

/// Variables that set the credentials: with any of them, no profile is read for credentials.
const CREDENTIALS: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

pub(super) fn complete(variables: &mut Variables, home: Option<PathBuf>) -> Result<()> {
    let file = |variable: &str, name: &str| match variables.get(variable) {
        Some(path) => Some(PathBuf::from(path)),
        None => home.as_ref().map(|home| home.join(".aws").join(name)),
    };
    let files = [file("AWS_CONFIG_FILE", "config"), file("AWS_SHARED_CREDENTIALS_FILE", "credentials")];
    let mut profiles = Profiles::new();
    for path in files.iter().flatten() {
        for (name, values) in read(path)? {
            profiles.entry(name).or_default().extend(values);
        }
    }
    let named = variables.get("AWS_PROFILE").cloned();
    let name = named.as_deref().unwrap_or("default");
    let shown = files.iter().flatten().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ");
    let Some(profile) = profiles.get(name) else {
        let held = profiles.keys().map(String::as_str).collect::<Vec<_>>();
        return match named {
            None => Ok(()),
            Some(name) if held.is_empty() => config_err!("AWS_PROFILE is {name}, and there is no profile in {shown}"),
            Some(name) => {
                config_err!("AWS_PROFILE is {name}, which is not in {shown}; the profiles there: {}", held.join(", "))
            }
        };
    };
    let is_public = variables.get("AWS_SKIP_SIGNATURE").is_some_and(|skip| skip != "false");
    if !is_public && !CREDENTIALS.iter().any(|variable| variables.contains_key(*variable)) {
        refuse_what_is_not_a_key(name, profile, &shown)?;
        take(variables, profile, &["AWS_ACCESS_KEY_ID"], "aws_access_key_id");
        take(variables, profile, &["AWS_SECRET_ACCESS_KEY"], "aws_secret_access_key");
        take(variables, profile, &["AWS_SESSION_TOKEN"], "aws_session_token");
    }
    take(variables, profile, &["AWS_REGION", "AWS_DEFAULT_REGION"], "region");
    take(variables, profile, &["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"], "endpoint_url");
    Ok(())
}

/// Sets the first of `names` to a value of the profile, unless one of them is set.
fn take(variables: &mut Variables, profile: &BTreeMap<String, String>, names: &[&str], key: &str) {
    if let Some(value) = profile.get(key).filter(|_| !names.iter().any(|name| variables.contains_key(*name))) {
        variables.insert(names[0].to_string(), value.clone());
    }
}

fn refuse_what_is_not_a_key(name: &str, profile: &BTreeMap<String, String>, files: &str) -> Result<()> {
    // A role needs the keys next to it to be assumed. Over other sources of credentials, keys win.
    let has_keys = profile.contains_key("aws_access_key_id");
    let is_other = |key: &&String| match key.as_str() {
        "role_arn" => true,
        "credential_process" | "credential_source" | "login_session" => !has_keys,
        key => key.starts_with("sso_") && !has_keys,
    };
    match profile.keys().find(is_other) {
        None => Ok(()),
        Some(key) => config_err!(
            "the profile {name} in {files} gets its credentials from {key}, which asap does not support: export them as \
             variables first: eval \"$(aws configure export-credentials --profile {name} --format env)\""
        ),
    }
}

fn read(path: &Path) -> Result<Profiles> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Profiles::new()),
        Err(error) => return config_err!("cannot read {}: {error}", path.display()),
        Ok(text) => text,
    };
    let (mut profiles, mut current) = (Profiles::new(), None);
    // Lines that begin with a blank belong to multi-line values, none of which is needed.
    for line in text.lines().filter(|line| !line.starts_with([' ', '\t', '#', ';'])) {
        if let Some((section, _)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            current = match section.trim().split_once([' ', '\t']) {
                None => Some(section.trim()),
                Some(("profile", name)) => Some(name.trim().trim_matches('"')),
                Some(_) => None,
            };
            if let Some(name) = current {
                profiles.entry(name.to_string()).or_default();
            }
        } else if let (Some(name), Some((key, value))) = (current, line.split_once('=')) {
            let value = value.split(" #").next().and_then(|value| value.split(" ;").next()).unwrap_or_default().trim();
            profiles.entry(name.to_string()).or_default().insert(key.trim().to_lowercase(), value.to_string());
        }
    }
    Ok(profiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(credentials: &str, config: &str, variables: &[(&str, &str)]) -> Result<Variables> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        let mut variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        complete(&mut variables, Some(home.path().to_path_buf()))?;
        variables.remove("AWS_PROFILE");
        Ok(variables)
    }

    fn held(variables: &[(&str, &str)]) -> Variables {
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    const KEYS: &str = "# mine\n[default]\naws_access_key_id = d\naws_secret_access_key = e # of the cellar\n\n\
                        [lab]\naws_access_key_id=l\naws_secret_access_key=m\naws_session_token=n\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  endpoint_url = http://nested\n[profile lab]\n\
                          region=lab-1\nendpoint_url = http://lab:9000\n[sso-session x]\nregion = no\n";

    #[test]
    fn the_default_profile_fills_what_is_not_set() {
        let both = [("AWS_ACCESS_KEY_ID", "d"), ("AWS_SECRET_ACCESS_KEY", "e"), ("AWS_REGION", "eu-west-1")];
        assert_eq!(completed(KEYS, CONFIG, &[]).unwrap(), held(&both));
        assert_eq!(completed("", "", &[]).unwrap(), Variables::new());
        let mut none = Variables::new();
        complete(&mut none, None).unwrap();
        assert_eq!(none, Variables::new());
    }

    #[test]
    fn the_profile_that_is_named_is_taken() {
        let lab = [
            ("AWS_ACCESS_KEY_ID", "l"),
            ("AWS_SECRET_ACCESS_KEY", "m"),
            ("AWS_SESSION_TOKEN", "n"),
            ("AWS_REGION", "lab-1"),
            ("AWS_ENDPOINT_URL", "http://lab:9000"),
        ];
        assert_eq!(completed(KEYS, CONFIG, &[("AWS_PROFILE", "lab")]).unwrap(), held(&lab));
    }

    #[test]
    fn the_environment_wins() {
        // The profile's token does not belong to the environment's keys.
        let set = [
            ("AWS_ACCESS_KEY_ID", "x"),
            ("AWS_SECRET_ACCESS_KEY", "y"),
            ("AWS_DEFAULT_REGION", "z"),
            ("AWS_ENDPOINT_URL_S3", "http://s3"),
        ];
        let named = [&set[..], &[("AWS_PROFILE", "lab")]].concat();
        assert_eq!(completed(KEYS, CONFIG, &named).unwrap(), held(&set));
    }

    #[test]
    fn a_profile_that_is_missing_is_named_with_those_that_are_there() {
        let error = completed(KEYS, CONFIG, &[("AWS_PROFILE", "prod")]).unwrap_err().strip_backtrace();
        assert!(error.contains("AWS_PROFILE is prod, which is not in "), "{error}");
        assert!(error.contains("/.aws/config or ") && error.ends_with("the profiles there: default, lab"), "{error}");
    }

    #[test]
    fn credentials_that_are_no_keys_are_refused_with_what_to_do() {
        let sso = "[profile work]\nsso_session = x\nsso_account_id = 1\nregion = r\n";
        let error = completed("", sso, &[("AWS_PROFILE", "work")]).unwrap_err().strip_backtrace();
        assert!(error.contains("gets its credentials from sso_account_id"), "{error}");
        assert!(error.contains("export-credentials --profile work --format env"), "{error}");
        let role = "[default]\nrole_arn = arn\nsource_profile = lab\n";
        assert!(completed(KEYS, role, &[]).unwrap_err().strip_backtrace().contains("from role_arn"));
        // Keys that a tool wrote for the same profile are used. With keys in the environment, none are needed.
        let written = "[work]\naws_access_key_id=a\naws_secret_access_key=b\n";
        assert_eq!(completed(written, sso, &[("AWS_PROFILE", "work")]).unwrap()["AWS_ACCESS_KEY_ID"], "a");
        let keys = [("AWS_PROFILE", "work"), ("AWS_ACCESS_KEY_ID", "x")];
        assert_eq!(completed("", sso, &keys).unwrap()["AWS_REGION"], "r");
    }
}
