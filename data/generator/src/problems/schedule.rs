//! Rates and times: two legs, stops in between, and the arrival time.

use super::names;
use crate::quantities::{Draft, Goal, Problem, at, number};
use crate::voice::fill;

const VEHICLES: [&str; 8] = ["bus", "barge", "delivery van", "tram", "cyclist", "mail coach", "ferry", "tractor"];

const START: [&str; 3] = [
    "A {thing} leaves at {h0}:{m0}.",
    "{name} takes a {thing} that starts at {h0}:{m0}.",
    "It is {h0}:{m0} when a {thing} departs.",
];

const LEGS: [&str; 3] = [
    "It covers {d1} km at {v1} km per hour and then {d2} km at {v2} km per hour.",
    "The first {d1} km go at {v1} km/h, the following {d2} km at {v2} km/h.",
    "On the flat it does {v1} km/h for {d1} km, in the hills {v2} km/h for {d2} km.",
];

const STOPS: [&str; 2] =
    ["On the way there are {n} stops of {p} minutes.", "{n} breaks of {p} minutes each come on top."];

const ASK: [&str; 2] =
    ["At what time does it arrive? Answer as HH:MM.", "When is the end of the trip reached (HH:MM)?"];

/// Two ways to name the derived quantities.
const NAMES: [&str; 2] = [
    "the pace of the first leg | the time of the first leg | the pace of the second leg | \
     the time of the second leg | the moving time | the standing time | the total time | \
     the start in minutes | the arrival in minutes | the full hours",
    "minutes for one early km | the first stretch | minutes for one later km | the second stretch | \
     time on the move | time at rest | the whole trip | the departure on a minute scale | \
     the end on a minute scale | the hour of arrival",
];

/// Draws a problem. `None` if the arrival is not on the same day.
pub(super) fn draw(mut draft: Draft) -> Option<Problem> {
    let thing = VEHICLES[draft.dice.below(VEHICLES.len())];
    let name = names(draft.dice, 1)[0];
    let said: Vec<_> = NAMES[draft.dice.below(NAMES.len())].split(" | ").collect();
    let minute_name = "the minutes past the hour";
    let whole_name = "the minutes of the whole hours";
    let speeds = [10, 12, 15, 20, 30];
    let (v1, v2) = (speeds[draft.dice.below(5)], speeds[draft.dice.below(5)]);
    if v1 == v2 {
        return None;
    }
    let range = [(11, 39), (13, 45), (2, 7), (3, 14), (5, 13), (1, 59)];
    let [d1, d2, n, p, h0, m0] = range.map(|(first, last)| draft.dice.between(first, last));
    let d1_at = draft.given("the first distance", "km", d1);
    let v1_at = draft.given("the first speed", "km/h", v1);
    let d2_at = draft.given("the second distance", "km", d2);
    let v2_at = draft.given("the second speed", "km/h", v2);
    let n_at = draft.given("the number of stops", "", n);
    let p_at = draft.given("the length of a stop", "minutes", p);
    let h_at = draft.given("the starting hour", "", h0);
    let m_at = draft.given("the starting minute", "", m0);
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
    let clauses = [&START[..], &LEGS, &STOPS, &ASK].map(|texts| draft.dice.pick(texts));
    let numbers = [d1, v1, d2, v2, n, p, h0].map(|number| number.to_string());
    let minutes = format!("{m0:02}");
    let mut texts = vec![("thing", thing), ("name", name), ("m0", minutes.as_str())];
    texts.extend(["d1", "v1", "d2", "v2", "n", "p", "h0"].into_iter().zip(numbers.iter().map(String::as_str)));
    Some(draft.ask(fill(&clauses.join(" "), &texts), Goal::Clock(hour, minute)))
}

#[cfg(test)]
mod tests {
    use crate::problems::Family;
    use crate::testing::check_answers;

    #[test]
    fn driving_minute_by_minute_arrives_when_the_answer_says() {
        check_answers(Family::Schedule, |[d1, v1, d2, v2, n, p, h0, m0]| {
            let mut clock = h0 * 60 + m0;
            // Distances are in sixtieths of a km, so that a minute at v km/h covers v of them.
            for (distance, speed) in [(d1, v1), (d2, v2)] {
                let mut left = distance * 60;
                while left > 0 {
                    left -= speed;
                    clock += 1;
                }
            }
            clock += (0..n).map(|_| p).sum::<i64>();
            format!("{:02}:{:02}", clock / 60, clock % 60)
        });
    }
}
