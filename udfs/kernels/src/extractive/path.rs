//! The core path: the steps of a chain that lead to the terms to reach.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::terms::terms;
use super::thought::ThoughtTerms;
use crate::code_fences::{Blocks, Turn};

/// Where the path is less than 1 / `PARTS` of the chain, the ends of the chain are added.
const PARTS: usize = 3;

/// Returns the steps to keep for a direct thought, as ascending indices. Empty only if there are no steps.
///
/// Steps that belong together (code cut by blank lines) are one unit. A unit *introduces* the terms that no earlier
/// unit contains. Two kinds of units are kept: the last unit with the most terms to reach, and, going backward, each
/// unit that introduces a term that the thought or a later kept unit contains and the question does not give. Where
/// that is less than a third of the chain's bytes, units from its start and its end are added in turn, except repeats
/// of another unit. The cost is close to linear in the length of the chain.
pub fn core(steps: &[&str], thought: &str) -> Vec<usize> {
    let units = units(steps);
    let mut is_kept = path(&units, steps, &ThoughtTerms::read(thought));
    fill(&units, steps, &mut is_kept);
    units.into_iter().zip(is_kept).filter(|(_, is_kept)| *is_kept).flat_map(|(unit, _)| unit).collect()
}

/// Groups steps: an indented step continues the previous one, and a fenced code block is one unit.
fn units(steps: &[&str]) -> Vec<Range<usize>> {
    let mut continues: Vec<bool> = steps.iter().map(|step| step.starts_with("  ") || step.starts_with('\t')).collect();
    let (mut blocks, mut opened) = (Blocks::default(), 0);
    for (place, step) in steps.iter().enumerate() {
        for line in step.lines() {
            match blocks.read(line) {
                Some(Turn::Opens(_)) => opened = place,
                Some(Turn::Closes) => continues[opened + 1..=place].fill(true),
                None => {}
            }
        }
    }
    let mut units: Vec<Range<usize>> = Vec::new();
    for (place, continues) in continues.into_iter().enumerate() {
        match units.last_mut() {
            Some(unit) if continues => unit.end = place + 1,
            _ => units.push(place..place + 1),
        }
    }
    units
}

fn path(units: &[Range<usize>], steps: &[&str], thought: &ThoughtTerms<'_>) -> Vec<bool> {
    let terms_of = |unit: &Range<usize>| steps[unit.clone()].iter().flat_map(|step| terms(step)).collect();
    let held: Vec<HashSet<Cow<'_, str>>> = units.iter().map(terms_of).collect();
    let mut introduced_by: HashMap<&str, usize> = HashMap::new();
    for (unit, terms) in held.iter().enumerate() {
        for term in terms {
            introduced_by.entry(term).or_insert(unit);
        }
    }
    let reached = |unit: &usize| held[*unit].intersection(&thought.reach).count();
    let conclusion = (0..held.len()).max_by_key(reached);

    // A single digit or letter occurs everywhere and links nothing.
    let ties = |term: &&str| term.len() > 1 && !thought.given.contains(*term);
    let mut needed: HashSet<&str> = thought.wanted.iter().map(|term| &**term).filter(ties).collect();
    let mut is_kept = vec![false; held.len()];
    for (unit, terms) in held.iter().enumerate().rev() {
        let terms = || terms.iter().map(|term| &**term);
        let introduces_needed = terms().any(|term| introduced_by.get(term) == Some(&unit) && needed.contains(term));
        if introduces_needed || conclusion == Some(unit) {
            is_kept[unit] = true;
            needed.extend(terms().filter(ties));
        }
    }
    is_kept
}

/// Adds units from the start and the end of the chain, with equal bytes from each, until a third of it is kept.
fn fill(units: &[Range<usize>], steps: &[&str], is_kept: &mut [bool]) {
    let bytes: Vec<usize> = units.iter().map(|unit| steps[unit.clone()].iter().map(|step| step.len()).sum()).collect();
    let mut met = HashSet::new();
    let is_new: Vec<bool> = units.iter().map(|unit| met.insert(&steps[unit.clone()])).collect();

    let wanted = bytes.iter().sum::<usize>() / PARTS;
    let mut kept: usize = bytes.iter().zip(&*is_kept).filter(|(_, is_kept)| **is_kept).map(|(bytes, _)| bytes).sum();
    let (mut rest, mut at_start, mut at_end) = (0..units.len(), 0, 0);
    while kept < wanted {
        let (next, side) =
            if at_start <= at_end { (rest.next(), &mut at_start) } else { (rest.next_back(), &mut at_end) };
        let Some(unit) = next else { return };
        *side += bytes[unit];
        if is_new[unit] && !is_kept[unit] {
            is_kept[unit] = true;
            kept += bytes[unit];
        }
    }
}
