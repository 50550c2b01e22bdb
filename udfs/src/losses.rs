//! Why the scoring model gave chains no score, for the rows that ask afterwards.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_lm::Scored;
use parking_lot::Mutex;

use crate::scorers::DTYPE;
use crate::settings::{ScorerBackend, Settings};

/// Failed chains to remember. Rows ask right after their batch, and all but a few rows succeed.
const MOST: usize = 16_384;

/// Reasons by the text of a chain without white space, which is the same for a chain and its steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Losses(Arc<Mutex<HashMap<u64, String>>>);

impl Losses {
    /// Remembers a failure of the model. Other causes follow from the row alone, so they are found again.
    pub(crate) fn remember<'a>(&self, steps: impl Iterator<Item = &'a str>, none: &Scored, settings: &Settings) {
        if matches!(none, Scored::NoPrompt(_) | Scored::TooLong(_)) {
            return;
        }
        let mut held = self.0.lock();
        if held.len() == MOST {
            held.clear();
        }
        held.insert(key(steps), reason(none, settings.scorer_backend));
    }

    pub(crate) fn of<'a>(&self, steps: impl Iterator<Item = &'a str>) -> Option<String> {
        self.0.lock().get(&key(steps)).cloned()
    }
}

fn key<'a>(steps: impl Iterator<Item = &'a str>) -> u64 {
    let mut hash = DefaultHasher::new();
    steps.flat_map(str::split_whitespace).for_each(|word| hash.write(word.as_bytes()));
    0xff_u8.hash(&mut hash);
    hash.finish()
}

/// Says in words why a chain has no score.
pub(crate) fn reason(none: &Scored, backend: ScorerBackend) -> String {
    match none {
        Scored::TooLong(why) => format!("the chain is too long: {why}"),
        Scored::NoPrompt(why) => why.clone(),
        Scored::Rejected(why) => format!("the scoring model failed on the chain: {why}"),
        // A server's refusal of a row reaches the scores as numbers that are not finite.
        Scored::NotFinite | Scored::Steps(_) if backend.name() == "served" => {
            "the server of the scoring model cannot read the chain: it refuses it, or divides its text otherwise \
             (warnings say which)"
                .to_string()
        }
        Scored::NotFinite | Scored::Steps(_) => format!(
            "the scoring model produced NaN or infinite values for the chain; if {} is not f32, use f32",
            Setting(DTYPE)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_and_its_steps_have_one_reason_and_each_cause_another() {
        let (losses, settings) = (Losses::default(), Settings::default());
        let served = Settings { scorer_backend: ScorerBackend::of("served"), ..settings.clone() };
        let causes = [
            (Scored::NotFinite, &settings, "NaN or infinite"),
            (Scored::NotFinite, &served, "the server of the scoring model cannot read the chain"),
            (Scored::Rejected("PyTorch on cpu died".to_string()), &settings, "on the chain: PyTorch on cpu died"),
        ];
        for (none, settings, why) in causes {
            losses.remember(["Two and two.", "That is 4."].into_iter(), &none, settings);
            let found = losses.of(["Two and two.\n\n\nThat is 4.\n"].into_iter()).unwrap();
            assert!(found.contains(why), "{found}");
        }
        losses.remember(["Two and two."].into_iter(), &Scored::NoPrompt("refused".to_string()), &settings);
        assert_eq!(losses.of(["Two and two."].into_iter()), None);
    }
}
