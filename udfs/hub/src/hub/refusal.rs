//! What the Hub refuses, each in one sentence with the way on.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::HubError;
use crate::hub::{Failure, Hub, Place, text};

/// The Hub's message for a token that it does not know.
const BAD_TOKEN: &str = "Invalid credentials in Authorization header";

/// The failure that a response of the Hub means, by its status and its headers `X-Error-Code` and `X-Error-Message`.
pub(super) fn refusal(hub: &Hub, place: &Place, status: StatusCode, headers: &HeaderMap) -> Failure {
    let Place { repository, revision, path } = place;
    let (code, message) = (text(headers, "x-error-code").unwrap_or_default(), text(headers, "x-error-message"));
    let (endpoint, page) = (hub.shown(), hub.page(repository));
    let tokens = format!("{endpoint}/settings/tokens");
    let is_later = status == StatusCode::REQUEST_TIMEOUT || status.is_server_error();
    let error = match code {
        "GatedRepo" if hub.has_token() => HubError::Refused(format!(
            "{repository} is gated: accept its terms at {page} with the account of your token, and wait for approval \
             if its owner checks requests"
        )),
        "GatedRepo" => HubError::Refused(format!(
            "{repository} is gated: accept its terms at {page}, and set HF_TOKEN to a token of the same account \
             ({tokens})"
        )),
        "RevisionNotFound" => HubError::NoRevision(format!(
            "{repository} has no revision {revision}: name a branch, a tag or a commit of {page}/commits/main"
        )),
        "EntryNotFound" => HubError::NotFound(format!("{repository} has no file or folder {path} at {revision}")),
        _ if status == StatusCode::UNAUTHORIZED && message == Some(BAD_TOKEN) => HubError::Refused(format!(
            "{endpoint} does not know the token in HF_TOKEN: set it to one of {tokens}, or unset it for public \
             repositories"
        )),
        _ if code == "RepoNotFound" || [401, 404].contains(&status.as_u16()) => {
            HubError::NoRepository(match hub.has_token() {
                true => format!("{endpoint} does not show {repository} to the account of your token: check the name"),
                false => {
                    format!("{endpoint} does not show {repository}: check the name, or set HF_TOKEN if it is private")
                }
            })
        }
        _ if status == StatusCode::TOO_MANY_REQUESTS => return limited(hub, headers),
        _ if is_later => HubError::Unavailable(format!("{endpoint} answers {status}")),
        _ => {
            let message = message.map_or(String::new(), |message| format!(": {message}"));
            HubError::Refused(format!("{endpoint} refuses {repository} ({status}{message})"))
        }
    };
    Failure { error, after: text(headers, RETRY_AFTER.as_str()).and_then(seconds).filter(|_| is_later) }
}

fn limited(hub: &Hub, headers: &HeaderMap) -> Failure {
    // RateLimit: "resolvers";r=0;t=55
    let reset = || text(headers, "ratelimit")?.split(';').find_map(|part| seconds(part.trim().strip_prefix("t=")?));
    let after = text(headers, RETRY_AFTER.as_str()).and_then(seconds).or_else(reset);
    let pause = after.map_or(String::new(), |after| format!(" and asks to wait {} s", after.as_secs()));
    let advice = if hub.has_token() { "" } else { "; with HF_TOKEN it allows more" };
    let endpoint = hub.shown();
    Failure { error: HubError::Unavailable(format!("{endpoint} limits requests{pause}{advice}")), after }
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}
