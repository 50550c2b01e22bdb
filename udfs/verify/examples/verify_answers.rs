//! Extracts final answers and compares them with the expected ones.
//!
//! `cargo run -p asap-verify --example verify_answers`

#![allow(clippy::print_stdout, reason = "an example prints")]

fn main() {
    let responses = [
        (r"\frac{1}{2}", r"So the probability is \boxed{0.5}."),
        (r"\frac{1}{2}", "The answer is 2/4."),
        ("12", r"Hence \boxed{12^{\text{th}}}."),
        ("(1, 2)", r"We get \boxed{(1,\,2)}."),
    ];
    for (gold, response) in responses {
        let found = asap_verify::answer(response);
        let verdict = if asap_verify::verify(gold, response) { "correct" } else { "wrong" };
        println!("{verdict:<8} expected {gold}, found {}", found.as_deref().unwrap_or("no answer"));
    }
}
