//! Arithmetic of a day: batches, losses, takings, wages, shares.

use super::names;
use crate::quantities::{Draft, Goal, Problem, at};
use crate::voice::{Words, fill};

/// A place, what it makes, and what that is packed in.
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

const FIRST: [Words; 3] = [
    [
        "In the morning a {place} fills {c1} {box}-loads with {p1} {item} each, in the afternoon {c2} more with {p2} each.",
        "Early in the day, {c1} {box}-loads of {p1} {item} leave a {place}; later {c2} of {p2} follow.",
    ],
    [
        "{owner} runs a {place}. Before noon {c1} {box}-loads of {p1} {item} are ready, after noon {c2} of {p2}.",
        "At {owner}'s {place}, production is {c1} {box}-loads at {p1} {item} until midday and {c2} at {p2} afterwards.",
    ],
    [
        "A {place} works in two shifts: {c1} {box}-loads of {p1} {item}, then {c2} {box}-loads of {p2}.",
        "Two shifts of a {place} give {item}: {c1} times a {box} of {p1}, and {c2} times a {box} of {p2}.",
    ],
];

const LOSS: [Words; 3] = [
    ["{l} of the {item} are damaged and given away.", "{owner} has to throw out {l} {item}."],
    ["Of all {item}, {l} turn out to be faulty.", "{l} {item} are spoilt before the doors open."],
    ["{l} {item} go to the neighbours for free.", "The staff takes {l} {item} home."],
];

const SALE: [Words; 2] = [
    ["Everything else is sold for {r} coins apiece.", "Whatever remains brings {r} coins a piece."],
    ["Each of the others sells at {r} coins.", "A customer pays {r} coins for each of those left."],
];

const WAGES: [Words; 2] = [
    ["{h} hours of work cost {w} coins an hour.", "Staff is paid {w} coins per hour, {h} hours in all."],
    ["The helpers work {h} hours at {w} coins.", "For {h} hours, helpers receive {w} coins hourly."],
];

const ASK: [[Words; 2]; 3] = [
    [
        ["How many coins come in?", "What do the sales amount to?"],
        ["What are the takings in coins?", "How large is the revenue?"],
    ],
    [
        ["What profit is left?", "How many coins remain after paying the staff?"],
        ["How much is earned once wages are paid?", "Determine the surplus."],
    ],
    [
        [
            "The profit is shared by {s} owners; how much does each get?",
            "{s} owners divide the surplus. What is one portion?",
        ],
        ["If {s} partners split the profit equally, what is one share?", "Find the portion of each of {s} partners."],
    ],
];

const NAMES: [[Words; 8]; 2] = [
    [
        ["the morning batch", "the early production"],
        ["the afternoon batch", "the late production"],
        ["the day's output", "the total production"],
        ["the stock for sale", "the sellable rest"],
        ["the takings", "the revenue"],
        ["the wage bill", "the labour cost"],
        ["the profit", "the surplus"],
        ["one share", "the portion per owner"],
    ],
    [
        ["the first lot", "the initial amount"],
        ["the second lot", "the follow-up amount"],
        ["everything made", "the full amount"],
        ["what can be sold", "the marketable amount"],
        ["the money coming in", "the proceeds"],
        ["the pay", "the outlay for staff"],
        ["what is earned", "the net proceeds"],
        ["the part of each partner", "a partner's slice"],
    ],
];

/// Draws a problem; `None` if its numbers do not work out.
pub fn draw(mut draft: Draft) -> Option<Problem> {
    let voice = draft.voice;
    let (place, item, container) = SCENES[draft.dice.below(SCENES.len())];
    let owner = names(draft.dice, 1)[0];
    let said = NAMES[draft.dice.below(NAMES.len())].map(|words| voice.of(words));
    let asked = draft.dice.weighted(&[2, 4, 4]);
    let range = [(6, 28), (11, 48), (5, 24), (12, 36), (7, 90), (2, 9), (4, 16), (9, 21), (2, 6)];
    let [c1, p1, c2, p2, l, r, h, w, s] = range.map(|(first, last)| draft.dice.between(first, last));
    let g = |plain: &'static str, reworded: &'static str| fill(voice.of([plain, reworded]), &[("box", container)]);
    let (c1_name, c2_name) =
        (g("the early {box} count", "the first {box} figure"), g("the later {box} count", "the second {box} figure"));
    let (p1_name, p2_name) = (
        g("the load of an early {box}", "the first {box} content"),
        g("the load of a later {box}", "the second {box} content"),
    );

    let (c1_at, p1_at) = (draft.given(c1_name, "", c1), draft.given(p1_name, item, p1));
    let (c2_at, p2_at) = (draft.given(c2_name, "", c2), draft.given(p2_name, item, p2));
    let l_at = draft.given(voice.of(["the loss", "the deduction"]), item, l);
    let r_at = draft.given(voice.of(["the price", "the charge per piece"]), "coins", r);
    let first = draft.derived(said[0], item, at(c1_at) * at(p1_at))?;
    let second = draft.derived(said[1], item, at(c2_at) * at(p2_at))?;
    let all = draft.derived(said[2], item, at(first) + at(second))?;
    let sold = draft.derived(said[3], item, at(all) - at(l_at))?;
    let mut goal = draft.derived(said[4], "coins", at(sold) * at(r_at))?;
    let mut clauses = vec![voice_of(&mut draft, &FIRST), voice_of(&mut draft, &LOSS), voice_of(&mut draft, &SALE)];
    if asked >= 1 {
        let h_at = draft.given(voice.of(["the hours", "the working time"]), "hours", h);
        let w_at = draft.given(voice.of(["the hourly pay", "the rate per hour"]), "coins", w);
        let wages = draft.derived(said[5], "coins", at(h_at) * at(w_at))?;
        goal = draft.derived(said[6], "coins", at(goal) - at(wages))?;
        clauses.push(voice_of(&mut draft, &WAGES));
    }
    if asked == 2 {
        let s_at = draft.given(voice.of(["the number of owners", "the headcount of partners"]), "", s);
        goal = draft.derived(said[7], "coins", at(goal) / at(s_at))?;
    }
    clauses.push(voice_of(&mut draft, &ASK[asked]));
    let numbers = [c1, p1, c2, p2, l, r, h, w, s].map(|number| number.to_string());
    let keys = ["c1", "p1", "c2", "p2", "l", "r", "h", "w", "s"];
    let mut texts = vec![("place", place), ("item", item), ("box", container), ("owner", owner)];
    texts.extend(keys.into_iter().zip(numbers.iter().map(String::as_str)));
    Some(draft.ask(fill(&clauses.join(" "), &texts), Goal::Value(goal)))
}

/// One of several texts in the draft's voice.
fn voice_of(draft: &mut Draft, texts: &[Words]) -> &'static str {
    draft.voice.pick(draft.dice, texts)
}

#[cfg(test)]
mod tests {
    use crate::dice::Dice;
    use crate::problems::{Family, computed};
    use crate::testing::numbers;
    use crate::voice::Voice;

    #[test]
    fn the_answer_follows_from_the_numbers_of_the_question() {
        for row in 0..200 {
            let problem = computed(Family::Market, &mut Dice::new(7, row), Voice::Plain);
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
