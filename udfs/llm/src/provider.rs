//! What asap knows about each provider. To add one, add an entry to `providers!`. An endpoint with an API of its own also
//! needs a file with its [`Api`], as `openai.rs`.

use std::fmt;

use crate::api::Api;
use crate::openai;

/// What answers the prompts of a provider.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Rules, without a language model.
    Rules,
    /// An endpoint over HTTP at `asap.anchor.base_url`.
    Endpoint(&'static Api),
    /// A model in the folder `asap.anchor.model`.
    Folder,
}

macro_rules! providers {
    ($($(#[$default:meta])? $variant:ident = $name:literal, $kind:expr;)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum Provider { $($(#[$default])? $variant,)+ }

        impl Provider {
            const ALL: &'static [Self] = &[$(Self::$variant,)+];

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            pub fn kind(self) -> Kind {
                match self { $(Self::$variant => $kind,)+ }
            }
        }
    };
}

providers! {
    #[default]
    Extractive = "extractive", Kind::Rules;
    Openai = "openai", Kind::Endpoint(&openai::API);
    Local = "local", Kind::Folder;
}

impl Provider {
    /// The values of `asap.anchor.provider`, for messages.
    pub const EXPECTED: &'static str = "'extractive', 'openai' or 'local'";

    /// Returns the provider with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|provider| provider.name() == name)
    }

    pub fn is_language_model(self) -> bool {
        !matches!(self.kind(), Kind::Rules)
    }

    pub fn is_endpoint(self) -> bool {
        matches!(self.kind(), Kind::Endpoint(_))
    }

    /// Returns the provider in readable words, with the value of `asap.anchor.model`.
    pub fn describe(self, model: &str) -> String {
        match self.kind() {
            Kind::Rules => format!("rules ({self})"),
            Kind::Endpoint(_) => format!("{model} (an endpoint)"),
            Kind::Folder => format!("{model} (local)"),
        }
    }

    /// Returns the providers with a language model, for messages.
    pub(crate) fn language_models() -> String {
        let models = Self::ALL.iter().filter(|provider| provider.is_language_model());
        models.map(|provider| format!("'{provider}'")).collect::<Vec<_>>().join(" or ")
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_is_found_and_expected_by_its_name() {
        for provider in Provider::ALL {
            assert_eq!(Provider::named(provider.name()), Some(*provider));
            assert!(Provider::EXPECTED.contains(&format!("'{provider}'")), "{provider}");
        }
        assert_eq!(Provider::language_models(), "'openai' or 'local'");
    }
}
