//! The frame of a page. Everything that it needs is in it, and a policy forbids everything else.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The content security policy: this style and this script, known by their hashes, and forms to `form`.
pub(crate) fn policy(form: &str) -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action {form}",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// A page; `keys` are its keys and what they do.
pub(crate) fn page(title: &str, form: &str, nav: Markup, body: Markup, keys: &[(&str, &str)]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(form));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (nav)
                main id="main" { (body) }
                footer {
                    label.switch { input type="checkbox" id="raw"; " Raw text" }
                    @if !keys.is_empty() {
                        p.keys {
                            @for (index, (key, what)) in keys.iter().enumerate() { @if index > 0 { " · " } kbd { (key) } " " (what) }
                        }
                    }
                    p { "Written by asap " (asap_pipelines::VERSION) ". This page loads nothing from the network." }
                }
                // Only for keys.
                @if !keys.is_empty() { script { (PreEscaped(SCRIPT)) } }
            }
        }
    };
    page.into_string()
}
