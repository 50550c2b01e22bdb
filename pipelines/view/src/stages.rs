//! The stages that dropped steps: their names and colors.

use maud::{Markup, html};

use crate::terminal::visible;

/// The stages of this output, and of the other one, in their order.
#[derive(Debug, Default)]
pub(crate) struct Stages<'a> {
    pub own: Vec<&'a str>,
    pub other: Vec<&'a str>,
}

impl<'a> Stages<'a> {
    /// The class of a stage. A stage of both outputs has one color, and one of the other output alone has its own.
    pub(crate) fn class(&self, name: &str, is_own: bool) -> &'static str {
        if is_own || name == "anchor" || self.own.contains(&name) { class(name) } else { "o" }
    }

    /// The stages of an output, with their classes.
    pub(crate) fn of(&self, is_own: bool) -> impl Iterator<Item = (&'a str, &'static str)> {
        let names = if is_own { &self.own } else { &self.other };
        names.iter().map(move |name| (*name, self.class(name, is_own)))
    }

    /// The steps of an output by what happened to them, with colors.
    pub(crate) fn legend(&self, is_own: bool) -> Markup {
        html! {
            ul.legend {
                li.k { "kept" }
                @for (name, class) in self.of(is_own) { li class=(class) { "dropped by " (stage(name)) } }
            }
        }
    }
}

/// The class of a stage of this output: stage 1, or another one.
pub(crate) fn class(name: &str) -> &'static str {
    if name == "anchor" { "a" } else { "r" }
}

/// How pages and terminals name a stage that drops steps.
pub(crate) fn stage(name: &str) -> String {
    match name {
        "anchor" => "stage 1".to_string(),
        "surprisal" => "stage 2 (surprisal)".to_string(),
        other => visible(other).into_owned(),
    }
}
