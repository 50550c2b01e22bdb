//! Areas and volumes around a circle, as multiples of π.

use super::names;
use crate::quantities::{Draft, Goal, Problem, at};
use crate::voice::{Words, fill};

const THINGS: [&str; 6] = ["pond", "fountain", "flower bed", "bandstand", "sandpit", "sundial"];

const SHAPE: [Words; 3] = [
    [
        "A round {thing} of radius {r} dm has a path of width {w} dm around it.",
        "Around a circular {thing} with radius {r} dm runs a path {w} dm wide.",
    ],
    [
        "{name} lays a ring {w} dm wide around a {thing} whose radius is {r} dm.",
        "A {thing}, {r} dm in radius, gets from {name} a surrounding ring of {w} dm.",
    ],
    [
        "In a park, a {thing} (radius {r} dm) is framed by a circular strip, {w} dm broad.",
        "The strip that frames a round {thing} in the park measures {w} dm across; the {thing} has radius {r} dm.",
    ],
];

const FILL: [Words; 2] = [
    ["The strip is covered with gravel {h} dm deep.", "Gravel covers it to a depth of {h} dm."],
    ["Gravel is filled in up to {h} dm.", "A gravel layer of {h} dm is needed on it."],
];

const ASK: [Words; 2] = [
    [
        "There are {n} of these and {e} π dm³ of gravel are in stock. How much more is needed? Answer as a multiple of π in dm³.",
        "How many dm³ (a multiple of π) must be bought for {n} such places if {e} π dm³ are at hand?",
    ],
    [
        "For {n} such places, with {e}π dm³ in store, how much gravel has to be ordered (in dm³, with π)?",
        "{n} of them are built. {e}π dm³ are left from last year. Which multiple of π, in dm³, is missing?",
    ],
];

const NAMES: [[Words; 7]; 2] = [
    [
        ["the outer radius", "the radius up to the rim"],
        ["the square of the outer radius", "the rim radius squared"],
        ["the square of the inner radius", "the small radius squared"],
        ["the ring over π", "the strip area without π"],
        ["the gravel of one ring over π", "the filling of one place without π"],
        ["all gravel over π", "the filling of all places without π"],
        ["the missing gravel over π", "the order without π"],
    ],
    [
        ["the big radius", "the larger distance"],
        ["the big square", "the larger distance squared"],
        ["the small square", "the lesser distance squared"],
        ["the area between, in units of π", "the π-count of the border"],
        ["one volume, in units of π", "the π-count of one border filling"],
        ["the volume of all, in units of π", "the π-count of every filling"],
        ["the rest to order, in units of π", "the π-count of the purchase"],
    ],
];

/// Draws a problem; `None` if the stock is larger than the need.
pub fn draw(mut draft: Draft) -> Option<Problem> {
    let voice = draft.voice;
    let thing = THINGS[draft.dice.below(THINGS.len())];
    let name = names(draft.dice, 1)[0];
    let said = NAMES[draft.dice.below(NAMES.len())].map(|words| voice.of(words));
    let range = [(7, 31), (3, 14), (2, 9), (2, 14), (15, 260)];
    let [r, w, h, n, e] = range.map(|(first, last)| draft.dice.between(first, last));
    let r_at = draft.given(voice.of(["the inner radius", "the small radius"]), "dm", r);
    let w_at = draft.given(voice.of(["the width", "the breadth"]), "dm", w);
    let h_at = draft.given(voice.of(["the depth", "the layer height"]), "dm", h);
    let n_at = draft.given(voice.of(["the number of places", "the repetition count"]), "", n);
    let e_at = draft.given(voice.of(["the stock", "the reserve"]), "", e);
    let outer = draft.derived(said[0], "dm", at(r_at) + at(w_at))?;
    let outer_square = draft.derived(said[1], "", at(outer) * at(outer))?;
    let inner_square = draft.derived(said[2], "", at(r_at) * at(r_at))?;
    let ring = draft.derived(said[3], "", at(outer_square) - at(inner_square))?;
    let volume = draft.derived(said[4], "", at(ring) * at(h_at))?;
    let all = draft.derived(said[5], "", at(volume) * at(n_at))?;
    let missing = draft.derived(said[6], "", at(all) - at(e_at))?;
    let clauses = [&SHAPE[..], &FILL, &ASK].map(|texts| voice.pick(draft.dice, texts));
    let numbers = [r, w, h, n, e].map(|number| number.to_string());
    let mut texts = vec![("thing", thing), ("name", name)];
    texts.extend(["r", "w", "h", "n", "e"].into_iter().zip(numbers.iter().map(String::as_str)));
    Some(draft.ask(fill(&clauses.join(" "), &texts), Goal::TimesPi(missing)))
}

#[cfg(test)]
mod tests {
    use crate::dice::Dice;
    use crate::problems::{Family, computed};
    use crate::voice::Voice;

    #[test]
    fn thin_rings_added_up_give_the_answer() {
        for row in 0..200 {
            let problem = computed(Family::Garden, &mut Dice::new(7, row), Voice::Plain);
            let given: Vec<_> = problem.quantities.iter().filter(|q| q.from.is_none()).map(|q| q.value).collect();
            let [r, w, h, n, e] = given[..] else { panic!("five numbers are given") };
            // A ring from radius i to i + 1 has the area (2i + 1)π.
            let ring: i64 = (r..r + w).map(|i| 2 * i + 1).sum();
            assert_eq!(problem.answer(&problem.values()), format!("{}π", ring * h * n - e));
        }
    }
}
