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

/// What each page says of its origin.
pub(crate) const WRITTEN_BY: &str = "Written by asap ";

/// The keys, what they do, and the parts of a page without which they do nothing.
const KEYS: [(&str, &str, &[&str]); 5] = [
    ("j k", "next, previous", &["rel=\"next\"", "rel=\"prev\"", "<article id=", "<table class=\"list\""]),
    ("n p", "next, previous dropped step", &["class=\"fate\""]),
    ("d", "dropped steps", &["<li class=\"run"]),
    ("s", "numbers and SQL", &["<pre class=\"sql\""]),
    ("/", "search", &["name=\"where\""]),
];

/// The form of a search for chains or rejects.
pub(crate) fn search(page: &str, label: &str, filter: &str, order: &str) -> Markup {
    let example = if page == "rejects" { "status = 'no_tags'" } else { "pruned_tokens > 100" };
    html! {
        form action=(page) method="get" {
            label.wide { (label) input name="where" value=(filter) placeholder={ "words, or " (example) } autocomplete="off" spellcheck="false"; }
            @if !order.is_empty() { input type="hidden" name="sort" value=(order); }
            button { "Search" }
        }
    }
}

/// A page. `has_keys` says whether it has a script, for keys.
pub(crate) fn page(title: Markup, form: &str, nav: Markup, body: Markup, has_keys: bool) -> String {
    let works = |(_, _, parts): &&(&str, &str, &[&str])| has_keys && parts.iter().any(|part| body.0.contains(part));
    let keys: Vec<_> = KEYS.iter().filter(works).collect();
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
                header { (nav) label.switch { input type="checkbox" id="raw"; " Raw text" } }
                main id="main" { (body) }
                footer {
                    @if !keys.is_empty() {
                        p.keys {
                            @for (index, (key, what, _)) in keys.iter().enumerate() { @if index > 0 { " · " } kbd { (key) } " " (what) }
                        }
                    }
                    p { (WRITTEN_BY) (asap_pipelines::VERSION) ". This page loads nothing from the network." }
                }
                // Only for keys.
                @if !keys.is_empty() { script { (PreEscaped(SCRIPT)) } }
            }
        }
    };
    page.into_string()
}
