use super::*;
use crate::testing::labelled;
use crate::{Openers, rows};

#[test]
fn a_cue_is_counted_once_a_step_and_told_by_its_label() {
    let step = |label: &str, text: &str| Labelled { text: text.into(), label: label.into(), function: None };
    let steps =
        [step("core", "So, the sum is 3. So 3."), step("core", "so (the sum is 4)"), step("check", "Is the sum 4?")];
    let found = cues(&steps, 2);
    let get =
        |words: &str| found.iter().find(|cue| cue.words == words).map(|cue| (&*cue.label, cue.steps, cue.precision));
    assert_eq!(get("^ so"), Some(("core", 2, 1.0)));
    assert_eq!(get("the sum"), Some(("core", 3, 2.0 / 3.0)));
    assert_eq!(get("so the sum"), Some(("core", 2, 1.0)));
    assert_eq!(get("4").map(|(_, steps, precision)| (steps, precision)), Some((2, 0.5)));
    assert_eq!(get("is 3"), None);
}

#[test]
fn no_first_word_of_real_openers_tells_a_label_and_hardly_another_word() {
    // Real openers predict need, so a rare n-gram may exceed the bound that even openers keep.
    let found = cues(&labelled(&rows(1000, 1, Openers::Real)), LEAST_SUPPORT);
    assert!(found[0].precision <= 0.8, "{:?}", found[0]);
    let told = found.iter().find(|cue| cue.words.starts_with("^ ") && cue.precision > MOST_PRECISION);
    assert_eq!(told, None);
}
