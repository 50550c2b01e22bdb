//! Areas and volumes around a circle, as multiples of π.

use super::names;
use crate::quantities::{Draft, Goal, Problem, at};
use crate::voice::fill;

const THINGS: [&str; 6] = ["pond", "fountain", "flower bed", "bandstand", "sandpit", "sundial"];

const SHAPE: [&str; 3] = [
    "A round {thing} of radius {r} dm has a path of width {w} dm around it.",
    "{name} lays a ring {w} dm wide around a {thing} whose radius is {r} dm.",
    "In a park, a {thing} (radius {r} dm) is framed by a circular strip, {w} dm broad.",
];

const FILL: [&str; 2] = ["The strip is covered with gravel {h} dm deep.", "Gravel is filled in up to {h} dm."];

const ASK: [&str; 2] = [
    "There are {n} of these and {e} π dm³ of gravel are in stock. How much more is needed? Answer as a multiple of π in dm³.",
    "For {n} such places, with {e}π dm³ in store, how much gravel has to be ordered (in dm³, with π)?",
];

/// Two ways to name the derived quantities.
const NAMES: [&str; 2] = [
    "the outer radius | the square of the outer radius | the square of the inner radius | the ring over π | \
     the gravel of one ring over π | all gravel over π | the missing gravel over π",
    "the big radius | the big square | the small square | the area between, in units of π | \
     one volume, in units of π | the volume of all, in units of π | the rest to order, in units of π",
];

pub(super) fn draw(mut draft: Draft) -> Option<Problem> {
    let thing = THINGS[draft.dice.below(THINGS.len())];
    let name = names(draft.dice, 1)[0];
    let said: Vec<_> = NAMES[draft.dice.below(NAMES.len())].split(" | ").collect();
    let range = [(7, 31), (3, 14), (2, 9), (2, 14), (15, 260)];
    let [r, w, h, n, e] = range.map(|(first, last)| draft.dice.between(first, last));
    let r_at = draft.given("the inner radius", "dm", r);
    let w_at = draft.given("the width", "dm", w);
    let h_at = draft.given("the depth", "dm", h);
    let n_at = draft.given("the number of places", "", n);
    let e_at = draft.given("the stock", "", e);
    let outer = draft.derived(said[0], "dm", at(r_at) + at(w_at))?;
    let outer_square = draft.derived(said[1], "", at(outer) * at(outer))?;
    let inner_square = draft.derived(said[2], "", at(r_at) * at(r_at))?;
    let ring = draft.derived(said[3], "", at(outer_square) - at(inner_square))?;
    let volume = draft.derived(said[4], "", at(ring) * at(h_at))?;
    let all = draft.derived(said[5], "", at(volume) * at(n_at))?;
    let missing = draft.derived(said[6], "", at(all) - at(e_at))?;
    let clauses = [&SHAPE[..], &FILL, &ASK].map(|texts| draft.dice.pick(texts));
    let numbers = [r, w, h, n, e].map(|number| number.to_string());
    let mut texts = vec![("thing", thing), ("name", name)];
    texts.extend(["r", "w", "h", "n", "e"].into_iter().zip(numbers.iter().map(String::as_str)));
    Some(draft.ask(fill(&clauses.join(" "), &texts), Goal::TimesPi(missing)))
}

#[cfg(test)]
mod tests {
    use crate::problems::Family;
    use crate::testing::check_answers;

    #[test]
    fn thin_rings_added_up_give_the_answer() {
        check_answers(Family::Garden, |[r, w, h, n, e]| {
            // A ring from radius i to i + 1 has the area (2i + 1)π.
            let ring: i64 = (r..r + w).map(|i| 2 * i + 1).sum();
            format!("{}π", ring * h * n - e)
        });
    }
}
