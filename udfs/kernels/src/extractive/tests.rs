//! Handwritten chains: which steps are kept.

use proptest::prelude::*;

use super::{core, write};
use crate::steps::{join, steps};

fn kept(question: &str, answer: &str, steps: &[&str]) -> Vec<usize> {
    let thought = write(question, answer).unwrap();
    core(steps, &thought).into_iter().map(|step| step + 1).collect()
}

#[test]
fn a_check_and_idle_talk_are_left_out() {
    let steps = [
        "Let me read this slowly before anything else.",
        "Each crate has 12 trays of 8 rolls, so one crate holds 12 * 8 = 96 rolls.",
        "Perhaps the trays count twice? Then it would be 24 * 8 = 192.",
        "No, 192 is more than was baked, so that cannot be meant.",
        "With 3 crates that makes 3 * 96 = 288 rolls.",
        "Going back: 288 / 3 is 96, as it should be.",
        "Selling 41 leaves 288 - 41 = 247.",
        "So 247 rolls are left.",
    ];
    let question = "A baker fills 3 crates with 12 trays of 8 rolls each and sells 41 rolls. How many are left?";
    assert_eq!(kept(question, "There are 247 rolls left.", &steps), [2, 5, 7, 8]);
}

#[test]
fn of_a_repeated_step_the_first_is_kept() {
    let add = "First 17 + 28 = 45.";
    let double = "Twice 45 is 90.";
    let steps = [add, add, double, add, double, double, "The sum is 90."];
    assert_eq!(kept("What is twice the sum of 17 and 28?", "90", &steps), [1, 3, 7]);
}

#[test]
fn a_loop_is_cut_to_what_it_says_once() {
    let mut steps = vec!["The train needs 135 minutes for 180 km, so 80 km per hour."];
    steps.extend(["Wait, is it 80 km per hour?"; 300]);
    steps.push("It drives 80 km per hour.");
    assert_eq!(kept("A train needs 135 minutes for 180 km. How fast is it?", "80 km per hour", &steps), [1, 2, 302]);
}

#[test]
fn of_an_argument_in_words_the_ends_are_kept() {
    let steps: Vec<&str> =
        "Who lies here?|Ann says so.|Or not.|Hm, well.|It may be.|As it is.|Ben is lying.|It is Ben."
            .split('|')
            .collect();
    assert_eq!(kept("Who is the liar?", "Ben.", &steps), [1, 7, 8]);
}

#[test]
fn code_is_kept_in_one_piece() {
    let steps = [
        "The rows could be sorted first with sort_rows, but nothing asks for an order.",
        "A running total is enough:",
        "def total_of(rows):",
        "    total = 0\n    for row in rows:",
        "        total += row.price",
        "    return total",
        "Sorting with sort_rows would cost more and give the same.",
        "Done.",
    ];
    let answer = "```python\ndef total_of(rows):\n    total = 0\n    for row in rows:\n        total += row.price\n    return total\n```";
    assert_eq!(kept("Write a function that adds the prices.", answer, &steps), [3, 4, 5, 6]);
}

#[test]
fn a_program_comes_from_where_its_lines_do() {
    let steps = [
        "First try: `total = sum(rows)` and `mean = total / count`.",
        "That forgets the weights.",
        "Weighted: `total = dot(rows, weights)`.",
        "Does that hold for an empty list as well, which would divide by nothing?",
        "So:\n```\ntotal = dot(rows, weights)\nmean = total / count\n```",
    ];
    let answer = "```\ntotal = dot(rows, weights)\nmean = total / count\n```";
    assert_eq!(kept("Average the rows by weight.", answer, &steps), [1, 3, 5]);
}

#[test]
fn a_fence_holds_its_steps_together_only_if_it_is_closed() {
    let answer = "```\nfast_sum(table_a)\n```";
    let closed = ["I try it.", "```python\nimport lib_x", "fast_sum(table_a)", "```", "Nothing else is to be done."];
    assert_eq!(kept("Sum it.", answer, &closed), [2, 3, 4]);
    let open = ["I try.", "```\nimport lib_x", "Nothing.", "```python\nfast_sum(table_a)\n```", "Good."];
    assert_eq!(kept("Sum it.", answer, &open), [4]);
}

#[test]
fn no_language_is_special() {
    let german = [
        "Mal sehen, was hier überhaupt gefragt ist.",
        "Jede Kiste fasst 12 mal 8, also 96 Brötchen.",
        "Oder zählen die Bleche doppelt? Dann wären es 192.",
        "Drei Kisten fassen 288 Brötchen, denn 3 mal 96 ist 288.",
        "Die Antwort lautet 288.",
    ];
    assert_eq!(kept("Wie viele Brötchen fassen 3 Kisten mit 12 Blechen zu je 8?", "288 Brötchen", &german), [2, 4, 5]);
    let chinese = [
        "让我慢慢想一想。",
        "每箱有12盘，每盘8个，所以是96个。",
        "如果加倍，就是192个，这不对。",
        "3箱共有3×96=288个。",
        "答案是288。",
    ];
    assert_eq!(kept("3箱，每箱12盘，每盘8个，一共多少个？", "288", &chinese), [2, 4, 5]);
}

#[test]
fn the_last_step_stands_for_an_answer_that_no_step_says() {
    assert_eq!(kept("Why?", "Because.", &["…", "—"]), [2]);
    assert_eq!(kept("", "yes", &["no words in common"]), [1]);
    assert_eq!(core(&["a", "b"], ""), [1]);
    assert_eq!(core(&[], "reach: 3"), [0; 0]);
}

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
