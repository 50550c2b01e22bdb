//! What asap knows about each provider. To add one, add a variant: the compiler then reports each `match` that needs it.

use std::fmt;

/// What answers prompts: the value of `asap.anchor.provider`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Provider {
    /// Rules, without a language model.
    #[default]
    Extractive,
    /// An endpoint over HTTP at `asap.anchor.base_url`, with the API of OpenAI.
    Openai,
    /// The model `asap.anchor.model` in this process.
    Local,
}

impl Provider {
    /// The values of `asap.anchor.provider`, for messages.
    pub const EXPECTED: &'static str = "'extractive', 'openai' (any endpoint with its API, such as vLLM) or 'local'";
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Extractive, "extractive"), (Self::Openai, "openai"), (Self::Local, "local")];

    /// Returns the provider with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(_, found)| *found == name).map(|(provider, _)| provider)
    }

    pub fn is_language_model(self) -> bool {
        self != Self::Extractive
    }

    pub fn is_endpoint(self) -> bool {
        self == Self::Openai
    }

    /// Returns the provider in readable words, with the value of `asap.anchor.model`.
    pub fn describe(self, model: &str) -> String {
        match self {
            Self::Extractive => format!("rules ({self})"),
            Self::Openai => format!("{model} (an endpoint)"),
            Self::Local => format!("{model} (local)"),
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Self::NAMES.iter().filter(|(provider, _)| provider == self).try_for_each(|(_, name)| f.write_str(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_is_found_and_expected_by_its_name() {
        for (provider, name) in Provider::NAMES {
            assert_eq!((Provider::named(name), provider.to_string().as_str()), (Some(provider), name));
            assert!(Provider::EXPECTED.contains(&format!("'{provider}'")), "{provider}");
        }
    }
}
