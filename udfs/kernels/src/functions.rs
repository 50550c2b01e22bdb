//! What a step does in its chain, by the words it opens with.

/// The function of a step, in the classes of PIR (Xiao et al. 2025). All but the first are functional steps: they
/// support the solution without advancing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    Progress,
    Verification,
    OtherMethod,
    ErrorCorrection,
}

/// The part of a step that is read, in characters.
const OPENING: usize = 100;
const FILLERS: &str = "okay|ok|alright|so|but|and|now|then|well|hmm|ah|oh|also|yes";
const OTHER_METHODS: &str = "alternatively|another way|another approach|another method|another idea|another thought|a different way|\
    a different approach|a different method|other approach|other method|try something else";
const CHECKS: &str = "double-check|double check|verify|let me check|let's check|to check|to confirm|confirms|let me confirm|\
    make sure|just to be sure|sanity check|plug it back|plugging back|plug back|does that make sense|\
    does this make sense";
const CORRECTIONS: &str = "a mistake|an error|that's not right|that's not correct|that's wrong|that is wrong|is incorrect|\
    doesn't add up|let me reconsider|let me rethink";
/// Words that begin a correction.
const TURNS: &str = "wait|no|actually|hold on|oops|never mind";

impl Function {
    pub const ALL: [Self; 4] = [Self::Progress, Self::Verification, Self::OtherMethod, Self::ErrorCorrection];

    pub fn name(self) -> &'static str {
        match self {
            Self::Progress => "progress",
            Self::Verification => "verification",
            Self::OtherMethod => "other_method",
            Self::ErrorCorrection => "error_correction",
        }
    }

    /// Judges a step by its first words: another method, else a check, else a correction, else progress.
    pub fn of(step: &str) -> Self {
        let opening: String = step.chars().take(OPENING).flat_map(char::to_lowercase).collect();
        let opening = opening.replace('’', "'");
        let has = |phrases: &str| phrases.split('|').any(|phrase| opening.contains(phrase));
        let begins = |word: &str| {
            let after = without_fillers(&opening).strip_prefix(word);
            after.is_some_and(|after| !after.starts_with(char::is_alphanumeric))
        };
        if has(OTHER_METHODS) {
            Self::OtherMethod
        } else if has(CHECKS) || begins("check") || begins("checking") {
            Self::Verification
        } else if has(CORRECTIONS) || TURNS.split('|').any(begins) {
            Self::ErrorCorrection
        } else {
            Self::Progress
        }
    }
}

fn without_fillers(opening: &str) -> &str {
    let mut rest = opening;
    loop {
        rest = rest.trim_start_matches(|letter: char| !letter.is_alphanumeric());
        let word = &rest[..rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len())];
        if !FILLERS.split('|').any(|filler| filler == word) {
            return rest;
        }
        rest = &rest[word.len()..];
    }
}

/// Returns the steps that stay when a share of the functional steps, rounded down, is dropped: those with the lowest
/// scores, the earlier one first on equal scores.
pub fn without_lowest_functional(functions: &[Function], scores: &[Option<f64>], share: f64) -> Vec<usize> {
    let is_functional = |step: &usize| functions[*step] != Function::Progress;
    let functional = (0..functions.len()).filter(is_functional).count();
    let dropped = super::budget::by_score(scores).into_iter().filter(is_functional);
    let dropped: Vec<usize> = dropped.take((share * functional as f64) as usize).collect();
    (0..functions.len()).filter(|step| !dropped.contains(step)).collect()
}
