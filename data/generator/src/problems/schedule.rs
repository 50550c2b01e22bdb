//! Rates and times: two legs, stops on the way, when does it arrive.

use super::names;
use crate::quantities::{Draft, Goal, Problem, at, number};
use crate::voice::{Words, fill};

const VEHICLES: [&str; 8] = ["bus", "barge", "delivery van", "tram", "cyclist", "mail coach", "ferry", "tractor"];

const START: [Words; 3] = [
    ["A {thing} leaves at {h0}:{m0}.", "Departure of a {thing} is at {h0}:{m0}."],
    ["{name} takes a {thing} that starts at {h0}:{m0}.", "At {h0}:{m0}, {name} sets off by {thing}."],
    ["It is {h0}:{m0} when a {thing} departs.", "The {thing} of {name} begins its tour at {h0}:{m0}."],
];

const LEGS: [Words; 3] = [
    [
        "It covers {d1} km at {v1} km per hour and then {d2} km at {v2} km per hour.",
        "First {d1} km are done with a speed of {v1} km/h, afterwards {d2} km with {v2} km/h.",
    ],
    [
        "The first {d1} km go at {v1} km/h, the following {d2} km at {v2} km/h.",
        "With {v1} km/h it travels {d1} km; with {v2} km/h it travels another {d2} km.",
    ],
    [
        "On the flat it does {v1} km/h for {d1} km, in the hills {v2} km/h for {d2} km.",
        "{d1} km of good road allow {v1} km/h, {d2} km of bad road {v2} km/h.",
    ],
];

const STOPS: [Words; 2] = [
    ["On the way there are {n} stops of {p} minutes.", "It halts {n} times, each time for {p} minutes."],
    ["{n} breaks of {p} minutes each come on top.", "Add {n} pauses, {p} minutes apiece."],
];

const ASK: [Words; 2] = [
    ["At what time does it arrive? Answer as HH:MM.", "Give the arrival as HH:MM."],
    ["When is the end of the trip reached (HH:MM)?", "Find the clock time (HH:MM) at the destination."],
];

const NAMES: [[Words; 10]; 2] = [
    [
        ["the pace of the first leg", "the minutes per km at the beginning"],
        ["the time of the first leg", "the duration of part one"],
        ["the pace of the second leg", "the minutes per km later on"],
        ["the time of the second leg", "the duration of part two"],
        ["the moving time", "the pure travel duration"],
        ["the standing time", "the idle duration"],
        ["the total time", "the entire duration"],
        ["the start in minutes", "the departure counted from midnight"],
        ["the arrival in minutes", "the arrival counted from midnight"],
        ["the full hours", "the hour hand"],
    ],
    [
        ["minutes for one early km", "the initial rate"],
        ["the first stretch", "the opening part"],
        ["minutes for one later km", "the final rate"],
        ["the second stretch", "the closing part"],
        ["time on the move", "the wheels-turning time"],
        ["time at rest", "the waiting time"],
        ["the whole trip", "the complete tour"],
        ["the departure on a minute scale", "the clock reading at the outset"],
        ["the end on a minute scale", "the clock reading at the finish"],
        ["the hour of arrival", "the hour part"],
    ],
];

/// Draws a problem; `None` if it does not arrive on the same day.
pub fn draw(mut draft: Draft) -> Option<Problem> {
    let voice = draft.voice;
    let thing = VEHICLES[draft.dice.below(VEHICLES.len())];
    let name = names(draft.dice, 1)[0];
    let said = NAMES[draft.dice.below(NAMES.len())].map(|words| voice.of(words));
    let minute_name = voice.of(["the minutes past the hour", "the minute hand"]);
    let whole_name = voice.of(["the minutes of the whole hours", "what the hour hand accounts for"]);
    let speeds = [10, 12, 15, 20, 30];
    let (v1, v2) = (speeds[draft.dice.below(5)], speeds[draft.dice.below(5)]);
    if v1 == v2 {
        return None;
    }
    let range = [(11, 39), (13, 45), (2, 7), (3, 14), (5, 13), (1, 59)];
    let [d1, d2, n, p, h0, m0] = range.map(|(first, last)| draft.dice.between(first, last));
    let d1_at = draft.given(voice.of(["the first distance", "the opening km count"]), "km", d1);
    let v1_at = draft.given(voice.of(["the first speed", "the opening km/h"]), "km/h", v1);
    let d2_at = draft.given(voice.of(["the second distance", "the closing km count"]), "km", d2);
    let v2_at = draft.given(voice.of(["the second speed", "the closing km/h"]), "km/h", v2);
    let n_at = draft.given(voice.of(["the number of stops", "the halt count"]), "", n);
    let p_at = draft.given(voice.of(["the length of a stop", "the halt length"]), "minutes", p);
    let h_at = draft.given(voice.of(["the starting hour", "the departure hour"]), "", h0);
    let m_at = draft.given(voice.of(["the starting minute", "the departure minute"]), "", m0);
    let pace1 = draft.derived(said[0], "minutes", number(60) / at(v1_at))?;
    let leg1 = draft.derived(said[1], "minutes", at(d1_at) * at(pace1))?;
    let pace2 = draft.derived(said[2], "minutes", number(60) / at(v2_at))?;
    let leg2 = draft.derived(said[3], "minutes", at(d2_at) * at(pace2))?;
    let moving = draft.derived(said[4], "minutes", at(leg1) + at(leg2))?;
    let standing = draft.derived(said[5], "minutes", at(n_at) * at(p_at))?;
    let total = draft.derived(said[6], "minutes", at(moving) + at(standing))?;
    let start = draft.derived(said[7], "minutes", at(h_at) * number(60) + at(m_at))?;
    let end = draft.derived(said[8], "minutes", at(start) + at(total))?;
    let hour = draft.derived(said[9], "", at(end).quotient(number(60)))?;
    let whole = draft.derived(whole_name, "minutes", at(hour) * number(60))?;
    let minute = draft.derived(minute_name, "", at(end) - at(whole))?;
    if draft.value(hour) > 23 {
        return None;
    }
    let clauses = [&START[..], &LEGS, &STOPS, &ASK].map(|texts| voice.pick(draft.dice, texts));
    let numbers = [d1, v1, d2, v2, n, p, h0].map(|number| number.to_string());
    let minutes = format!("{m0:02}");
    let mut texts = vec![("thing", thing), ("name", name), ("m0", minutes.as_str())];
    texts.extend(["d1", "v1", "d2", "v2", "n", "p", "h0"].into_iter().zip(numbers.iter().map(String::as_str)));
    Some(draft.ask(fill(&clauses.join(" "), &texts), Goal::Clock(hour, minute)))
}

#[cfg(test)]
mod tests {
    use crate::dice::Dice;
    use crate::problems::{Family, computed};
    use crate::voice::Voice;

    #[test]
    fn driving_minute_by_minute_arrives_when_the_answer_says() {
        for row in 0..200 {
            let problem = computed(Family::Schedule, &mut Dice::new(7, row), Voice::Plain);
            let given: Vec<_> = problem.quantities.iter().filter(|q| q.from.is_none()).map(|q| q.value).collect();
            let [d1, v1, d2, v2, n, p, h0, m0] = given[..] else { panic!("eight numbers are given") };
            // Distance is counted in sixtieths of a km, so that a minute at v km/h covers v of them.
            let (mut clock, mut left) = (h0 * 60 + m0, d1 * 60);
            while left > 0 {
                left -= v1;
                clock += 1;
            }
            left = d2 * 60;
            while left > 0 {
                left -= v2;
                clock += 1;
            }
            clock += (0..n).map(|_| p).sum::<i64>();
            assert_eq!(problem.answer(&problem.values()), format!("{:02}:{:02}", clock / 60, clock % 60));
        }
    }
}
