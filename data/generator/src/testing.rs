//! Helpers for tests.

use crate::Family;
use crate::dice::Dice;
use crate::problems::computed;

pub(crate) fn numbers(text: &str) -> Vec<i64> {
    let runs = text.split(|scalar: char| !scalar.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.map(|run| run.parse().unwrap()).collect()
}

/// Compares the answers of 200 problems with answers found in another way from the given numbers.
pub(crate) fn check_answers<const N: usize>(family: Family, answer: impl Fn([i64; N]) -> String) {
    for row in 0..200 {
        let problem = computed(family, &mut Dice::new(7, row));
        let given = problem.quantities.iter().filter(|q| q.from.is_none()).map(|q| q.value);
        let given = given.collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(problem.answer(&problem.values()), answer(given), "{}", problem.question);
    }
}
