//! Answers as models write them: right, wrong, and hostile ones.

use std::path::Path;

use proptest::prelude::*;
use serde::Deserialize;

use super::{answer, same, verify};

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

#[test]
fn answers_are_found_where_they_are_stated() {
    let found = |response| answer(response).map(std::borrow::Cow::into_owned);
    for (response, expected) in [
        (r"\boxed{1} or rather \boxed{2}", "2"),
        (r"\boxed{1}, \boxed{2} and $\boxed{3}$", "1, 2, 3"),
        (r"\boxed{\{1, \frac{1}{2}\}}", r"\{1, \frac{1}{2}\}"),
        (r"\boxed{7} as asked in \boxed{}", "7"),
        (r"\boxed 7$", "7"),
        (r"<think>\boxed{1}</think>The answer is 2.", "2"),
        (r"\boxed{3} and the answer is 2", "3"),
        ("The answer is: **2**", "2"),
        ("**Answer:**\n\n$$2$$\nas above", "$$2$$"),
        ("The answer is **$2$** million.", "$2$ million"),
        ("The answer is $2$, and that is it", "$2$, and that is it"),
        (r"The answer is $\$2$.", r"$\$2$"),
        (r"It is \boxed{2}, not \boxed{3}.", "2"),
        (r"- \boxed{2}", "2"),
        (r"$\boxed{2}\%$", r"{2}\%"),
        ("The answer is $2$ or $3$, since", "$2$ or $3$"),
        ("The answer is 2.5. It is not 3.", "2.5"),
        ("1 + 1\n#### 2\n", "2"),
        ("the answer is 1\n#### 2", "1"),
    ] {
        assert_eq!(found(response).as_deref(), Some(expected), "{response}");
    }
    for response in [
        r"The answer is 2, or \boxed{3",
        r"x = -\boxed{2}",
        r"$x - \boxed{2}$",
        r"10^{\boxed{2}}",
        r"$\boxed{2}^2$",
        r"\frac{\boxed{1}}{\boxed{2}}",
        r"Sure. <thinking> \boxed{2}",
        r"[THINK]\boxed{2}",
        r"<THINK>\boxed{2}",
        r"<think>a</think> <think>\boxed{2}",
        "",
        "2",
        r"\boxed{}",
        r"\boxed{2",
        r"<think>\boxed{2}",
        "the answer is",
        "####",
    ] {
        assert_eq!(found(response), None, "{response}");
    }
}

#[test]
fn what_is_said_of_an_answer_is_none() {
    let found = |response| answer(response).map(std::borrow::Cow::into_owned);
    for (response, expected) in [
        ("The answer is indeed 6.", Some("6")),
        (r"The answer is definitely \(8000\).", Some(r"\(8000\)")),
        ("So the answer is therefore, **12**.", Some("12")),
        ("The answer is 6. Checking again, the answer is correct.", Some("6")),
        ("The answer is 6, so the final answer is indeed correct!", Some("6, so the final answer is indeed correct!")),
        ("I think that the answer is correct", None),
        ("The answer is 6. No, that answer is wrong.", None),
        ("The answer is 6. No, that answer is clearly incorrect", None),
        ("the answer is indeed", None),
        // These are answers.
        ("The answer is even.", Some("even")),
        ("The answer is nowhere", Some("nowhere")),
        ("The answer is correctness", Some("correctness")),
        ("The answer is false", Some("false")),
    ] {
        assert_eq!(found(response).as_deref(), expected, "{response}");
    }
}

#[test]
fn units_of_physics_ordinals_and_times_of_day() {
    for (gold, right) in [
        ("700", vec![r"700 \text{ nm}", r"700\,\mathrm{nm}", r"700 \text{ nanometers}"]),
        ("13.6", vec![r"13.6 \text{ eV}", "13.6 eV", r"13.6\ \mathrm{eV}"]),
        ("5", vec![r"5 \text{ keV}", r"5 \text{ MeV}", r"5\,\text{Å}", r"5 \text{ \AA}", "5 Å", r"5\,\AA", "5 atm"]),
        ("300", vec![r"300 \text{ V}", r"300 \text{ kcal}", r"300 \text{ atm}"]),
        (r"300 \text{ K}", vec![r"300\,\mathrm{K}", r"300 \text{ kelvin}", "300 kelvin"]),
        (r"12^{\text{th}}", vec![r"12\text{th}", r"12^\text{th}", r"12^{\mathrm{th}}", "12th", "12^{th}"]),
        (r"21\text{st}", vec![r"21^{\text{st}}"]),
        ("3:30 PM", vec![r"3:30 \text{ p.m.}", "3:30 pm", "3:30 p.m.", r"3:30\,\text{PM}", "03:30 PM"]),
    ] {
        for answer in right {
            assert!(same(gold, answer), "{gold} | {answer}");
            assert!(same(answer, gold), "{answer} | {gold}");
        }
    }
    for (gold, wrong) in [
        ("700", vec![r"700nm", r"7 \text{ nm}", r"700^{\text{nm}}", "700n"]),
        (r"2 \text{ eV}", vec![r"2 \text{ keV}", r"2 \text{ meV}", r"2 \text{ V}", r"2 \text{ K}"]),
        (r"2 \text{ MeV}", vec![r"2 \text{ meV}"]),
        ("2", vec!["2nm", "2 nm", "2eV", "2atm", r"2\text{K}", r"\$2\text{K}", r"2 \text{ K}"]),
        ("2", vec![r"\frac{1}{2}^{\text{nd}}"]),
        ("12", vec![r"12^{\text{th}}", "12th", r"\frac{1}{12}\text{th}"]),
        (
            r"12^{\text{th}}",
            vec!["12", r"12^{\text{nd}}", r"11^{\text{th}}", r"\frac{1}{12}\text{th}", r"12.0^{\text{th}}"],
        ),
        (r"\frac{1}{5}", vec![r"5^{\text{th}}", r"1/5^{\text{th}}"]),
        ("3:30 PM", vec!["3:30 AM", "3:30", r"3:31 \text{ p.m.}", "15:30", r"3:30 \text{ a.m.}"]),
        ("3:30", vec!["3:30 p.m.", r"1:10"]),
    ] {
        for answer in wrong {
            assert!(!same(gold, answer), "{gold} | {answer}");
        }
    }
}

#[test]
fn functions_are_right_to_sixty_digits() {
    for (function, digits) in [
        (r"\pi", "3141592653589793238462643383279502884197169399375105820974944"),
        ("e", "2718281828459045235360287471352662497757247093699959574966967"),
        (r"\sqrt{2}", "1414213562373095048801688724209698078569671875376948073176679"),
        (r"\ln 2", "693147180559945309417232121458176568075500134360255254120680"),
        (r"\ln 10", "2302585092994045684017991454684364207601101488628772976033327"),
        (r"\sin 1", "841470984807896506652502321630298999622563060798371065672751"),
        (r"\cos 1", "540302305868139717400936607442976603732310420617922227670097"),
        (r"\tan 1", "1557407724654902230506974807458360173087250772381520038383946"),
        (r"4 \arctan 1", "3141592653589793238462643383279502884197169399375105820974944"),
        (r"6 \arcsin \frac12", "3141592653589793238462643383279502884197169399375105820974944"),
        (r"\arccos(-1)", "3141592653589793238462643383279502884197169399375105820974944"),
        (r"2^{\frac12}", "1414213562373095048801688724209698078569671875376948073176679"),
        (r"\exp(-1)", "367879441171442321595523770161460867445811131031767834507836"),
    ] {
        let scaled = format!(r"\lfloor {function} \cdot 10^{{60}} \rfloor");
        assert!(same(digits, &scaled), "{function}");
        let next = format!(r"{digits}+1");
        assert!(!same(&next, &scaled), "{function}");
    }
}

/// Too expensive answers are equal only to themselves. The test runs on a thread's small stack.
#[test]
fn what_is_made_to_cost_much_is_refused() {
    let nested = |open: &str, inner: &str, close: &str, times: usize| open.repeat(times) + inner + &close.repeat(times);
    let joined =
        |span: &dyn Fn(usize) -> String, sign: &str, count| (2..count).map(span).collect::<Vec<_>>().join(sign);
    let hostile = [
        "1".repeat(1_000_000),
        nested("(", "7", "", 5_000),
        nested("\\frac{1}{1+", "1", "}", 1_500),
        nested("\\sqrt{", "2", "}", 2_400),
        "\\frac1".repeat(3_000) + "1",
        nested("9^{", "9", "}", 3_000),
        "9^".repeat(9_000) + "9",
        nested("x^{", "x", "}", 3_000),
        "10^{9}!".to_string(),
        "((((3!)!)!)!)!".to_string(),
        joined(&|n| format!("\\sin {n}"), "+", 1_500),
        joined(&|n| format!("\\frac{{1}}{{x+{n}}}"), "+", 1_000),
        joined(&|n| format!("x_{{{n}}}"), "*", 2_000),
        "\\binom{2000}{1000}+".repeat(900) + "1",
        nested("\\{", "7", "\\}", 4_500),
        nested("\\text{", "a", "}", 3_000),
        "1,".repeat(9_000) + "1",
        "\\pm 1".repeat(3_000),
        "-".repeat(19_000) + "7",
        "1E99999".to_string(),
        "0.\\overline{3}.\\overline{x}.\\bar".to_string(),
    ];
    let all = move || {
        for answer in hostile {
            assert!(!same("5", &answer) && !same(&answer, "5"), "{}", &answer[..20]);
            assert!(same(&answer, &answer), "{}", &answer[..20]);
        }
        for open in ["\\boxed{", "answer is $1$,", "\\boxed{1},", "####", "answer:"] {
            assert!(!verify("5", &open.repeat(100_000)), "{open}");
        }
        assert!(same("7", &nested("(", "7", ")", 5_000)));
        assert!(same("7", &nested("\\frac{", "7", "}{1}", 300)));
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(all).unwrap().join().unwrap();
}

/// Pieces without spaces.
const PIECES: &str = r"1 2 7 12 0.5 1,234 3. x y n e i a_1 + - / ^ ^2 ^{ _ _{ } { ( ) [ ] \{ \} \left( \right] | \left| \right|
    \frac \frac{1}{2} \frac12 \sqrt \sqrt[3]{ \pi \text{ \text{and} \text{(B)} , ; = < \infty % \% \$ ^\circ !
    \binom{ \mathbb{R} \pmod{ \begin{pmatrix} \end{pmatrix} & \\ \overline{3} . \overline \bar : 0. \boxed{ é −
    ٥ ² \ $ k\in\mathbb{Z} E5 word \emptyset";

fn piece() -> impl Strategy<Value = &'static str> {
    let spaced = [
        "\\cdot ",
        "\\sin ",
        "\\ln ",
        "\\log_2 ",
        "\\text{ cm}",
        " or ",
        "\\le ",
        "\\ne ",
        "\\in ",
        "\\cup ",
        "\\pm ",
        " ",
        "\\lfloor ",
        "\\rfloor ",
        "\\approx ",
        "\\equiv ",
    ];
    proptest::sample::select(PIECES.split_whitespace().chain(spaced).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn anything_equals_itself_and_both_ways(
        a in prop::collection::vec(piece(), 0..12), b in prop::collection::vec(piece(), 0..12),
    ) {
        let (a, b) = (a.concat(), b.concat());
        prop_assert_eq!(same(a.trim(), a.trim()), !a.trim().is_empty());
        // The expected side decides how commas between digits and percent signs are read.
        if ![&a, &b].iter().any(|text| text.contains([',', '%'])) {
            prop_assert_eq!(same(&a, &b), same(&b, &a), "{} | {}", a, b);
        }
        let response = format!("\\boxed{{{a}}}");
        if answer(&response).is_some_and(|found| found == a.trim()) {
            prop_assert!(verify(&a, &response), "{}", response);
        }
    }

    #[test]
    fn another_digit_is_another_answer(which in 0_usize..400, place in 0_usize..60, digit in 0_u8..10) {
        let goldens = expected();
        let gold = &goldens[which % goldens.len()];
        let digits: Vec<usize> = gold.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit()).map(|(at, _)| at).collect();
        let at = digits[place % digits.len()];
        let other = format!("{}{digit}{}", &gold[..at], &gold[at + 1..]);
        prop_assert_eq!(same(gold, &other), *gold == other, "{} | {}", gold, other);
    }
}

fn expected() -> &'static [String] {
    static EXPECTED: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    EXPECTED.get_or_init(|| {
        let simple = |golden: &Golden| {
            golden.gold.contains(|c: char| c.is_ascii_digit())
                && ["integer", "decimal", "fraction", "surd", "pi", "interval", "complex"]
                    .contains(&golden.kind.as_str())
                && golden.gold.len() < 40
        };
        goldens("answers.jsonl").into_iter().filter(simple).map(|golden| golden.gold).collect()
    })
}
