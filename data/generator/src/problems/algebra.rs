//! Two equations with two unknowns; the question asks for an expression of both.

use crate::quantities::{Draft, Goal, Problem, at};
use crate::voice::fill;

const LETTERS: [&str; 4] = ["xy", "ab", "mn", "st"];

const SYSTEM: [&str; 4] = [
    "Let \\( {x} \\) and \\( {y} \\) satisfy \\( {a}{x} + {b}{y} = {c} \\) and \\( {x} - {y} = {d} \\).",
    "Two numbers {x} > {y} differ by {d}, and {a} times {x} together with {b} times {y} makes {c}.",
    "Solve the system\n\\[ {a}{x} + {b}{y} = {c}, \\qquad {x} - {y} = {d}. \\]",
    "A ticket of the dear kind costs {d} coins more than a cheap one. {a} dear and {b} cheap tickets cost {c} coins. Call the prices {x} and {y}.",
];

const ASK: [&str; 3] = [
    "What is \\( {x}^2 + {k}{y} \\)?",
    "Find the value of \\( {x}^2 + {k} \\cdot {y} \\).",
    "How large is {x}² + {k}{y}?",
];

pub(super) fn draw(mut draft: Draft) -> Option<Problem> {
    let letters = draft.dice.pick(&LETTERS);
    let (x, y) = letters.split_at(1);
    let range = [(2, 9), (2, 9), (12, 39), (3, 25), (11, 28)];
    let [a, b, x_value, d, k] = range.map(|(first, last)| draft.dice.between(first, last));
    let y_value = x_value - d;
    if y_value < 2 || a == b {
        return None;
    }
    let c = a * x_value + b * y_value;
    let coefficient = "the coefficient of {x}";
    let math = |text: String| format!("\\( {text} \\)");
    let c_at = draft.given("the right side of the first equation", "", c);
    let d_at = draft.given(math(format!("{x} - {y}")), "", d);
    let a_at = draft.given(fill(coefficient, &[("x", x)]), "", a);
    let b_at = draft.given(fill(coefficient, &[("x", y)]), "", b);
    let k_at = draft.given("the factor in the question", "", k);
    let scaled = draft.derived(math(format!("{b}({x} - {y})")), "", at(b_at) * at(d_at))?;
    let many = draft.derived(math(format!("{}{x}", a + b)), "", at(c_at) + at(scaled))?;
    let both = draft.derived("the sum of the coefficients", "", at(a_at) + at(b_at))?;
    let x_at = draft.derived(math(x.to_string()), "", at(many) / at(both))?;
    let y_at = draft.derived(math(y.to_string()), "", at(x_at) - at(d_at))?;
    let square = draft.derived(math(format!("{x}^2")), "", at(x_at) * at(x_at))?;
    let multiple = draft.derived(math(format!("{k}{y}")), "", at(k_at) * at(y_at))?;
    let goal_name = math(format!("{x}^2 + {k}{y}"));
    let goal = draft.derived(goal_name, "", at(square) + at(multiple))?;
    let clauses = [&SYSTEM[..], &ASK].map(|texts| draft.dice.pick(texts));
    let numbers = [a, b, c, d, k].map(|number| number.to_string());
    let mut texts = vec![("x", x), ("y", y)];
    texts.extend(["a", "b", "c", "d", "k"].into_iter().zip(numbers.iter().map(String::as_str)));
    Some(draft.ask(fill(&clauses.join(" "), &texts), Goal::Value(goal)))
}

#[cfg(test)]
mod tests {
    use crate::problems::Family;
    use crate::testing::check_answers;

    #[test]
    fn trying_all_pairs_finds_the_answer() {
        check_answers(Family::Algebra, |[c, d, a, b, k]| {
            let pairs = (0..100).flat_map(|x| (0..100).map(move |y| (x, y)));
            let solved: Vec<_> = pairs.filter(|(x, y)| a * x + b * y == c && x - y == d).collect();
            let [(x, y)] = solved[..] else { panic!("{} solutions", solved.len()) };
            (x * x + k * y).to_string()
        });
    }
}
