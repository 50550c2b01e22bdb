//! Arithmetic of a day: batches, losses, takings, wages, shares.

use super::names;
use crate::quantities::{Draft, Goal, Problem, at};
use crate::voice::fill;

const SCENES: [(&str, &str, &str); 10] = [
    ("bakery", "rolls", "tray"),
    ("orchard", "apples", "crate"),
    ("print shop", "posters", "carton"),
    ("nursery", "seedlings", "box"),
    ("pottery", "cups", "shelf"),
    ("dairy", "cheeses", "rack"),
    ("toy workshop", "kites", "bag"),
    ("chandlery", "candles", "case"),
    ("café", "éclairs", "plate"),
    ("flower shop", "bouquets", "bucket"),
];

const FIRST: [&str; 3] = [
    "In the morning a {place} fills {c1} {box}-loads with {p1} {item} each, in the afternoon {c2} more with {p2} each.",
    "{owner} runs a {place}. Before noon {c1} {box}-loads of {p1} {item} are ready, after noon {c2} of {p2}.",
    "A {place} works in two shifts: {c1} {box}-loads of {p1} {item}, then {c2} {box}-loads of {p2}.",
];

const LOSS: [&str; 3] = [
    "{l} of the {item} are damaged and given away.",
    "Of all {item}, {l} turn out to be faulty.",
    "{l} {item} go to the neighbours for free.",
];

const SALE: [&str; 2] = ["Everything else is sold for {r} coins apiece.", "Each of the others sells at {r} coins."];

const WAGES: [&str; 2] = ["{h} hours of work cost {w} coins an hour.", "The helpers work {h} hours at {w} coins."];

const ASK: [[&str; 2]; 3] = [
    ["How many coins come in?", "What are the takings in coins?"],
    ["What profit is left?", "How much is earned once wages are paid?"],
    [
        "The profit is shared by {s} owners; how much does each get?",
        "If {s} partners split the profit equally, what is one share?",
    ],
];

/// Two ways to name the derived quantities.
const NAMES: [&str; 2] = [
    "the morning batch | the afternoon batch | the day's output | the stock for sale | the takings | \
     the wage bill | the profit | one share",
    "the first lot | the second lot | everything made | what can be sold | the money coming in | the pay | \
     what is earned | the part of each partner",
];

pub(super) fn draw(mut draft: Draft) -> Option<Problem> {
    let (place, item, container) = SCENES[draft.dice.below(SCENES.len())];
    let owner = names(draft.dice, 1)[0];
    let said: Vec<_> = NAMES[draft.dice.below(NAMES.len())].split(" | ").collect();
    let asked = draft.dice.weighted(&[2, 4, 4]);
    let range = [(6, 28), (11, 48), (5, 24), (12, 36), (7, 90), (2, 9), (4, 16), (9, 21), (2, 6)];
    let [c1, p1, c2, p2, l, r, h, w, s] = range.map(|(first, last)| draft.dice.between(first, last));
    let g = |name: &str| fill(name, &[("box", container)]);
    let (c1_name, c2_name) = (g("the early {box} count"), g("the later {box} count"));
    let (p1_name, p2_name) = (g("the load of an early {box}"), g("the load of a later {box}"));

    let (c1_at, p1_at) = (draft.given(c1_name, "", c1), draft.given(p1_name, item, p1));
    let (c2_at, p2_at) = (draft.given(c2_name, "", c2), draft.given(p2_name, item, p2));
    let l_at = draft.given("the loss", item, l);
    let r_at = draft.given("the price", "coins", r);
    let first = draft.derived(said[0], item, at(c1_at) * at(p1_at))?;
    let second = draft.derived(said[1], item, at(c2_at) * at(p2_at))?;
    let all = draft.derived(said[2], item, at(first) + at(second))?;
    let sold = draft.derived(said[3], item, at(all) - at(l_at))?;
    let mut goal = draft.derived(said[4], "coins", at(sold) * at(r_at))?;
    let mut clauses = vec![draft.dice.pick(&FIRST), draft.dice.pick(&LOSS), draft.dice.pick(&SALE)];
    if asked >= 1 {
        let h_at = draft.given("the hours", "hours", h);
        let w_at = draft.given("the hourly pay", "coins", w);
        let wages = draft.derived(said[5], "coins", at(h_at) * at(w_at))?;
        goal = draft.derived(said[6], "coins", at(goal) - at(wages))?;
        clauses.push(draft.dice.pick(&WAGES));
    }
    if asked == 2 {
        let s_at = draft.given("the number of owners", "", s);
        goal = draft.derived(said[7], "coins", at(goal) / at(s_at))?;
    }
    clauses.push(draft.dice.pick(&ASK[asked]));
    let numbers = [c1, p1, c2, p2, l, r, h, w, s].map(|number| number.to_string());
    let keys = ["c1", "p1", "c2", "p2", "l", "r", "h", "w", "s"];
    let mut texts = vec![("place", place), ("item", item), ("box", container), ("owner", owner)];
    texts.extend(keys.into_iter().zip(numbers.iter().map(String::as_str)));
    Some(draft.ask(fill(&clauses.join(" "), &texts), Goal::Value(goal)))
}

#[cfg(test)]
mod tests {
    use crate::dice::Dice;
    use crate::problems::{Family, computed};
    use crate::testing::numbers;

    #[test]
    fn the_answer_follows_from_the_numbers_of_the_question() {
        for row in 0..200 {
            let problem = computed(Family::Market, &mut Dice::new(7, row));
            let given = |place: usize| problem.quantities.iter().filter(|q| q.from.is_none()).nth(place).unwrap().value;
            let text = numbers(&problem.question);
            for q in problem.quantities.iter().filter(|q| q.from.is_none()) {
                assert!(text.contains(&q.value), "{} is not in: {}", q.name, problem.question);
            }
            let mut expected = (given(0) * given(1) + given(2) * given(3) - given(4)) * given(5);
            if text.len() >= 8 {
                expected -= given(6) * given(7);
            }
            if text.len() == 9 {
                expected /= given(8);
            }
            assert_eq!(problem.answer(&problem.values()), expected.to_string(), "{}", problem.question);
        }
    }
}
