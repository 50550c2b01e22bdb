//! Generated chains.

use proptest::prelude::*;

use super::{core, write};
use crate::steps::{join, steps};

proptest! {
    #[test]
    fn any_chain_gives_ascending_steps_of_it(
        steps in prop::collection::vec("[ -~]{1,30}|\\PC{1,12}|( {2}|```|```x\n)[a-z0-9_ ]{0,9}", 0..40),
        question in "\\PC{0,40}", answer in "\\PC{0,40}",
    ) {
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let thought = write(&question, &answer).unwrap_or_default();
        let kept = core(&steps, &thought);
        prop_assert_eq!(kept.is_empty(), steps.is_empty());
        prop_assert!(kept.is_sorted_by(|a, b| a < b) && kept.iter().all(|step| *step < steps.len()));
        prop_assert_eq!(kept, core(&steps, &thought));
    }

    #[test]
    fn a_third_of_a_chain_without_repeats_is_kept(
        steps in prop::collection::hash_set("[a-z0-9]{1,9}", 1..40), answer in "[a-z0-9 ]{1,40}",
    ) {
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let kept: usize = core(&steps, &answer).into_iter().map(|step| steps[step].len()).sum();
        prop_assert!(kept >= steps.iter().map(|step| step.len()).sum::<usize>() / 3);
    }

    #[test]
    fn a_pruned_chain_cuts_into_the_steps_that_were_kept(
        cot in "([ -~]{0,9}|\\PC{0,4}|[0-9]{1,3} = [0-9]{1,3}|[ \t\r\n]{1,4}|\n\n|\r\n\r\n| {4}x_1){0,30}",
        thought in "[ -~]{0,9}",
    ) {
        let original = steps(&cot);
        prop_assume!(!original.is_empty());
        let kept: Vec<&str> = core(&original, &thought).into_iter().map(|step| original[step]).collect();
        let pruned = join(kept.iter().copied());
        prop_assert_eq!(steps(&pruned), &kept[..]);
        prop_assert!(!kept.is_empty());
    }
}
