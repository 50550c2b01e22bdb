//! The problems of the traces: six kinds whose answer is computed, one whose answer is a program.

mod algebra;
mod garden;
mod market;
mod powers;
mod program;
mod race;
mod schedule;
mod stages;

use crate::dice::Dice;
use crate::quantities::{Draft, Problem};

pub(crate) use program::Program;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A day of a small business.
    Market,
    /// Legs, stops and an arrival time.
    Schedule,
    /// Two equations with two unknowns.
    Algebra,
    /// Powers and sequences modulo a number.
    Powers,
    /// Areas with π.
    Garden,
    /// The order of arrival in a race.
    Race,
    /// A function over a list.
    Program,
}

impl Family {
    pub(crate) const COMPUTED: [Family; 6] =
        [Family::Market, Family::Schedule, Family::Algebra, Family::Powers, Family::Garden, Family::Race];
}

const NAMES: [&str; 28] = [
    "Ana", "Zoë", "José", "Renée", "Søren", "Łukasz", "Anaïs", "Björn", "Priya", "Omar", "Ines", "Tomáš", "Noor",
    "Yuki", "Carla", "Dmitri", "Élodie", "Farah", "Gus", "Hana", "Ivo", "Jutta", "Kwame", "Lin", "Mateo", "Nils",
    "Oona", "Petra",
];

fn names(dice: &mut Dice, count: usize) -> Vec<&'static str> {
    let mut names = NAMES;
    dice.shuffle(&mut names);
    names[..count].to_vec()
}

/// Draws a problem of a computed kind. Numbers are drawn until all quantities are whole and differ where required.
pub(crate) fn computed(family: Family, dice: &mut Dice) -> Problem {
    let draw = match family {
        Family::Market => market::draw,
        Family::Schedule => schedule::draw,
        Family::Algebra => algebra::draw,
        Family::Powers | Family::Program => powers::draw,
        Family::Garden => garden::draw,
        Family::Race => race::draw,
    };
    loop {
        if let Some(problem) = draw(Draft::new(dice)) {
            return problem;
        }
    }
}
