//! Powers by squaring and linear sequences, modulo a number.

use crate::quantities::{Draft, Expr, Goal, Problem, at};
use crate::voice::fill;

const POWER: [&str; 3] = [
    "What is the remainder of \\( {b}^{{e}} \\) on division by {m}?",
    "Find \\( {b}^{{e}} \\) modulo {m}.",
    "A counter with {m} positions (0 to {m} − 1) is turned {b}^{e} steps from 0. Where does it stop?",
];

const SEQUENCE: [&str; 3] = [
    "A sequence starts with \\( {u}_1 = {s} \\), and \\( {u}_{n+1} \\) is the remainder of \\( {k} {u}_n + {c} \\) on division by {m}. What is \\( {u}_{l} + {u}_{n} \\)?",
    "A machine shows {s}. Each push replaces the number shown by {k} times itself plus {c}, reduced modulo {m}. What is the sum of the last two numbers shown after {pushes} pushes?",
    "Put \\( {u}_1 = {s} \\) and let each following term be {k} times the one before plus {c}, taken mod {m}. Find the sum of terms {l} and {n}.",
];

pub(super) fn draw(draft: Draft) -> Option<Problem> {
    let problem = if draft.dice.chance(50) { power(draft)? } else { sequence(draft)? };
    let mut values: Vec<_> = problem.quantities.iter().filter(|q| q.from.is_some()).map(|q| q.value).collect();
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    (values.len() == count && !values.contains(&0) && !values.contains(&1)).then_some(problem)
}

fn power(mut draft: Draft) -> Option<Problem> {
    let (base, m) = (draft.dice.between(3, 29), draft.dice.between(31, 240));
    let squarings = draft.dice.between(3, 5) as usize;
    let math = |exponent: i64| format!("\\( {base}^{{{exponent}}} \\)");
    let base_at = draft.given("the base", "", base);
    let m_at = draft.given("the modulus", "", m);
    let mut powers = vec![(1, base_at)];
    for _ in 0..squarings {
        let (exponent, place) = powers[powers.len() - 1];
        powers.push((2 * exponent, draft.derived(math(2 * exponent), "", (at(place) * at(place)).modulo(at(m_at)))?));
    }
    let (mut exponent, mut place) = powers[squarings];
    // Two to four of the smaller powers are multiplied in, always the second largest, so that every squaring is used.
    let mut used = vec![squarings - 1];
    used.extend((0..squarings - 1).rev().filter(|_| draft.dice.chance(60)));
    for power in used {
        exponent += powers[power].0;
        let product = (at(place) * at(powers[power].1)).modulo(at(m_at));
        place = draft.derived(math(exponent), "", product)?;
    }
    let template = draft.dice.pick(&POWER);
    let [b, e, m] = [base, exponent, m].map(|number| number.to_string());
    Some(draft.ask(fill(template, &[("b", &b), ("e", &e), ("m", &m)]), Goal::Value(place)))
}

fn sequence(mut draft: Draft) -> Option<Problem> {
    let range = [(3, 40), (2, 9), (3, 30), (50, 260)];
    let [s, k, c, m] = range.map(|(first, last)| draft.dice.between(first, last));
    let terms = draft.dice.between(6, 9);
    let u = ["u", "a", "x"][draft.dice.below(3)];
    let math = |term: i64| format!("\\( {u}_{term} \\)");
    let mut last = draft.given(math(1), "", s);
    let k_at = draft.given("the factor", "", k);
    let c_at = draft.given("the constant", "", c);
    let m_at = draft.given("the modulus", "", m);
    let mut before = last;
    for term in 2..=terms {
        before = last;
        let next: Expr = at(k_at) * at(last) + at(c_at);
        last = draft.derived(math(term), "", next.modulo(at(m_at)))?;
    }
    let goal_name = format!("\\( {u}_{} + {u}_{terms} \\)", terms - 1);
    let goal = draft.derived(goal_name, "", at(before) + at(last))?;
    let template = draft.dice.pick(&SEQUENCE);
    let [s, k, c, m] = [s, k, c, m].map(|number| number.to_string());
    let [l, n, pushes] = [terms - 1, terms, terms - 1].map(|number| number.to_string());
    let texts =
        [("u", u), ("s", &*s), ("k", &*k), ("c", &*c), ("m", &*m), ("l", &*l), ("n", &*n), ("pushes", &*pushes)];
    Some(draft.ask(fill(template, &texts), Goal::Value(goal)))
}

#[cfg(test)]
mod tests {
    use crate::dice::Dice;
    use crate::problems::{Family, computed};
    use crate::testing::numbers;

    #[test]
    fn multiplying_one_at_a_time_gives_the_answer() {
        for row in 0..200 {
            let problem = computed(Family::Powers, &mut Dice::new(7, row));
            let given: Vec<_> = problem.quantities.iter().filter(|q| q.from.is_none()).map(|q| q.value).collect();
            let text = numbers(&problem.question);
            let expected = match given[..] {
                [base, m] => {
                    let place = text.iter().position(|number| *number == base).unwrap();
                    let exponent = text[place + 1];
                    (0..exponent).fold(1, |power, _| power * base % m)
                }
                [s, k, c, m] => {
                    let pushes = problem.quantities.iter().filter(|q| q.from.is_some()).count() - 1;
                    let (mut before, mut last) = (s, s);
                    for _ in 0..pushes {
                        (before, last) = (last, (k * last + c) % m);
                    }
                    assert!(text.iter().any(|number| [pushes as i64, pushes as i64 + 1].contains(number)));
                    before + last
                }
                _ => panic!("two or four numbers are given"),
            };
            assert_eq!(problem.answer(&problem.values()), expected.to_string(), "{}", problem.question);
        }
    }
}
