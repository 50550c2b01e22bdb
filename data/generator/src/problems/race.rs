//! Ordering riddles about the finishing times of a race.

use super::names;
use crate::quantities::{Draft, Goal, Problem, at};
use crate::voice::fill;

const EVENTS: [&str; 6] =
    ["a sack race", "a swimming lesson", "a cooking contest", "an obstacle run", "a quiz", "a ski slalom"];

const BEGIN: [&str; 3] = [
    "{count} friends took part in {event}. {first} needed {t} seconds.",
    "After {event} with {count} people the notes got mixed up. For sure, {first} took {t} seconds.",
    "In {event}, {first}'s time was {t} seconds; {count} took part.",
];

const SLOWER: [&str; 3] = [
    "{who} was {k} seconds slower than {other}.",
    "{who} came in {k} seconds after {other}.",
    "{who} needed {k} seconds more than {other}.",
];

const FASTER: [&str; 3] = [
    "{who} was {k} seconds faster than {other}.",
    "{who} came in {k} seconds before {other}.",
    "{who} needed {k} seconds fewer than {other}.",
];

const ASK: [&str; 2] = ["List all names from the fastest to the slowest.", "What is the order of finish?"];

pub(super) fn draw(mut draft: Draft) -> Option<Problem> {
    let count = draft.dice.between(7, 10) as usize;
    let people = names(draft.dice, count);
    let event = EVENTS[draft.dice.below(EVENTS.len())];
    let begin = draft.dice.pick(&BEGIN);
    let ask = draft.dice.pick(&ASK);
    let time_name = ["{who}'s time", "the time of {who}"][draft.dice.below(2)];
    let gap_name = "the gap between {who} and {other}";
    let t = draft.dice.between(80, 190);
    let [count_text, t_text] = [count.to_string(), t.to_string()];
    let texts = [("count", &*count_text), ("event", event), ("first", people[0]), ("t", &*t_text)];
    let mut clauses = vec![fill(begin, &texts)];
    let mut times = vec![draft.given(fill(time_name, &[("who", people[0])]), "seconds", t)];
    let mut clues = Vec::new();
    for (place, who) in people.iter().enumerate().skip(1) {
        // Mostly the previous person, so the riddle is a chain with one or two branches.
        let other = if draft.dice.chance(70) { place - 1 } else { draft.dice.below(place) };
        let (slower, k) = (draft.dice.chance(50), draft.dice.between(3, 48));
        let k_text = k.to_string();
        let texts = [("who", *who), ("other", people[other]), ("k", &*k_text)];
        let pool = if slower { &SLOWER } else { &FASTER };
        clues.push(fill(draft.dice.pick(pool), &texts));
        let gap = draft.given(fill(gap_name, &texts), "seconds", k);
        let from = if slower { at(times[other]) + at(gap) } else { at(times[other]) - at(gap) };
        times.push(draft.derived(fill(time_name, &texts), "seconds", from)?);
    }
    draft.dice.shuffle(&mut clues);
    clauses.extend(clues);
    clauses.push(ask.to_string());
    let mut values: Vec<_> = times.iter().map(|time| draft.value(*time)).collect();
    values.sort_unstable();
    if values[0] < 20 || values.windows(2).any(|pair| pair[0] == pair[1]) {
        return None;
    }
    let ranking = people.iter().map(|name| name.to_string()).zip(times).collect();
    Some(draft.ask(clauses.join(" "), Goal::Ranking(ranking)))
}

#[cfg(test)]
mod tests {
    use crate::dice::Dice;
    use crate::problems::{Family, computed};

    #[test]
    fn the_order_of_the_answer_agrees_with_every_clue() {
        for row in 0..200 {
            let problem = computed(Family::Race, &mut Dice::new(7, row));
            let answer = problem.answer(&problem.values());
            let order: Vec<_> = answer.split(", ").collect();
            let place = |name: &str| order.iter().position(|other| *other == name).unwrap();
            let mut clues = 0;
            for sentence in problem.question.split(". ") {
                let sentence = sentence.trim_end_matches('.');
                for (words, later_first) in [
                    (["seconds slower than", "seconds after", "seconds more than"], true),
                    (["seconds faster than", "seconds before", "seconds fewer than"], false),
                ] {
                    for word in words.iter().filter(|word| sentence.contains(**word)) {
                        let who = sentence.split(' ').next().unwrap();
                        let other = sentence.split(word).nth(1).unwrap().trim();
                        assert_eq!(place(who) > place(other), later_first, "{sentence}: {answer}");
                        clues += 1;
                    }
                }
            }
            assert_eq!(clues, order.len() - 1, "{}", problem.question);
        }
    }
}
