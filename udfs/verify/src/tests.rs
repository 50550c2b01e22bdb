//! Answers as models write them: right, wrong, and hostile ones.

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde::Deserialize;

use super::{Verdict, answer, equal, verdict, verify};

mod fuzz;

#[derive(Deserialize)]
struct Golden {
    kind: String,
    gold: String,
    response: String,
    intended: bool,
}

fn goldens(name: &str) -> Vec<Golden> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the right answers that are refused. Panics if a wrong answer is accepted.
fn refused(name: &str) -> Vec<String> {
    let mut refused = Vec::new();
    for golden in goldens(name) {
        let found = verify(&golden.gold, &golden.response);
        let response: String = golden.response.chars().take(200).collect();
        assert!(golden.intended || !found, "wrongly accepted for {} ({}): {response}", golden.gold, golden.kind);
        if golden.intended && !found {
            refused.push(response);
        }
    }
    refused
}

#[test]
fn of_400_answers_none_is_accepted_wrongly_and_three_are_not_found() {
    assert_eq!(goldens("answers.jsonl").len(), 400);
    let refused = refused("answers.jsonl");
    // The text does not mark these as answers.
    assert!(refused.iter().all(|response| response.starts_with("So we get")), "{refused:?}");
    assert_eq!(refused.len(), 3);
}

#[test]
fn of_answers_that_were_held_out_none_is_accepted_wrongly() {
    assert!(goldens("answers_held_out.jsonl").len() > 500);
    // A fraction of units.
    assert_eq!(refused("answers_held_out.jsonl"), [r"Thus \(\boxed{20 \frac{\text{km}}{\text{h}}}\)."]);
}

#[test]
fn doubtful_answers_are_judged_as_intended() {
    assert!(goldens("answers_doubtful.jsonl").len() > 500);
    assert_eq!(refused("answers_doubtful.jsonl"), Vec::<String>::new());
}

#[test]
fn every_expected_answer_equals_itself() {
    for name in ["answers.jsonl", "answers_held_out.jsonl"] {
        for golden in goldens(name) {
            assert!(verify(&golden.gold, &format!("\\boxed{{{}}}", golden.gold)), "{}", golden.gold);
        }
    }
}

#[derive(Deserialize)]
struct Case {
    gold: Option<String>,
    response: String,
    #[serde(default)]
    equal: bool,
    /// Whether the refusal is because of two readings.
    #[serde(default)]
    ambiguous: bool,
    answer: Option<String>,
}

#[test]
fn answers_are_found_and_judged_as_intended() {
    let is_right = |line: &&str| {
        let case: Case = serde_json::from_str(line).unwrap();
        let Some(gold) = case.gold else { return answer(&case.response).as_deref() == case.answer.as_deref() };
        let found = verdict(&gold, &case.response);
        (found == Verdict::Equal) == case.equal && (!case.ambiguous || found == Verdict::Ambiguous)
    };
    // `unequal.jsonl` and `equal.jsonl` are neighbors of each other: words around a value, equations and conditions in boxes,
    // other notations of numbers, functions that agree at many points.
    let cases = [
        include_str!("../tests/cases.jsonl"),
        include_str!("../tests/unequal.jsonl"),
        include_str!("../tests/equal.jsonl"),
    ];
    let wrong: Vec<&str> = cases.into_iter().flat_map(str::lines).filter(|line| !is_right(line)).collect();
    assert!(wrong.is_empty(), "judged otherwise:\n{}", wrong.join("\n"));
}

/// Too expensive answers are equal only to themselves. The test runs on a thread's small stack.
#[test]
fn what_is_made_to_cost_much_is_refused() {
    let nested = |open: &str, close: &str, times: usize| open.repeat(times) + "7" + &close.repeat(times);
    // Each answer is a list of texts, each with its times. `{n}` counts.
    let written = |line: &str| {
        let parts: Vec<(String, usize)> = serde_json::from_str(line).unwrap();
        let counted =
            |text: &str, times| (2..times + 2).map(|n| text.replace("{n}", &format!("{n}"))).collect::<String>();
        parts.iter().map(|(text, times)| counted(text, *times)).collect::<String>()
    };
    let all = move || {
        for answer in include_str!("../tests/hostile.jsonl").lines().map(written) {
            assert!(!equal("5", &answer) && !equal(&answer, "5"), "{}", &answer[..20]);
            assert!(equal(&answer, &answer), "{}", &answer[..20]);
        }
        for open in ["\\boxed{", "answer is $1$,", "\\boxed{1},", "####", "answer:"] {
            assert!(!verify("5", &open.repeat(100_000)), "{open}");
        }
        assert!(equal("7", &nested("(", ")", 5_000)));
        assert!(equal("7", &nested("\\frac{", "}{1}", 300)));
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(all).unwrap().join().unwrap();
}

/// Pieces without spaces.
const PIECES: &str = r"1 2 7 12 0.5 1,234 3. x y n e i a_1 + - / ^ ^2 ^{ _ _{ } { ( ) [ ] \{ \} \left( \right] | \left| \right|
    \frac \frac{1}{2} \frac12 \sqrt \sqrt[3]{ \pi \text{ \text{and} \text{(B)} , ; = < \infty % \% \$ ^\circ !
    \binom{ \mathbb{R} \pmod{ \begin{pmatrix} \end{pmatrix} & \\ \overline{3} . \overline \bar : 0. \boxed{ é −
    ٥ ² \ $ k\in\mathbb{Z} E5 word \emptyset";

fn piece() -> impl Strategy<Value = &'static str> {
    let spaced =
        r"\cdot |\sin |\ln |\log_2 |\text{ cm}| or |\le |\ne |\in |\cup |\pm | |\lfloor |\rfloor |\approx |\equiv "
            .split('|');
    proptest::sample::select(PIECES.split_whitespace().chain(spaced).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn anything_equals_itself_and_both_ways(
        a in prop::collection::vec(piece(), 0..12), b in prop::collection::vec(piece(), 0..12),
    ) {
        let (a, b) = (a.concat(), b.concat());
        prop_assert_eq!(equal(a.trim(), a.trim()), !a.trim().is_empty());
        // The expected side decides how commas between digits and percent signs are read.
        if ![&a, &b].iter().any(|text| text.contains([',', '%'])) {
            prop_assert_eq!(equal(&a, &b), equal(&b, &a), "{} | {}", a, b);
        }
        let response = format!("\\boxed{{{a}}}");
        if answer(&response).is_some_and(|found| found == a.trim()) {
            prop_assert!(verify(&a, &response), "{}", response);
        }
    }

    #[test]
    fn another_digit_is_another_answer(which in 0_usize..400, place in 0_usize..60, digit in 0_u8..10) {
        let gold = &EXPECTED[which % EXPECTED.len()];
        let digits: Vec<usize> = gold.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit()).map(|(at, _)| at).collect();
        let at = digits[place % digits.len()];
        let other = format!("{}{digit}{}", &gold[..at], &gold[at + 1..]);
        prop_assert_eq!(equal(gold, &other), *gold == other, "{} | {}", gold, other);
    }
}

static EXPECTED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let simple = |golden: &Golden| {
        golden.gold.contains(|c: char| c.is_ascii_digit())
            && ["integer", "decimal", "fraction", "surd", "pi", "interval", "complex"].contains(&golden.kind.as_str())
            && golden.gold.len() < 40
    };
    goldens("answers.jsonl").into_iter().filter(simple).map(|golden| golden.gold).collect()
});
