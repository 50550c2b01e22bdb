//! The core path: which steps of a chain lead to what must be reached.

use super::chain::Chain;

/// How much is needed of the words that stand beside a computation that is needed.
const NEED_OF_ASIDES: f64 = 0.3;
/// A unit says the answer if it holds this much of what the best one holds.
const SAYS_THE_ANSWER: f64 = 0.8;
/// The least need at which a unit is on the path.
const LEAST_NEED: f64 = 0.15;
/// The least need at which a unit is kept beside the path.
const SLIGHT_NEED: f64 = 0.001;
/// Units are kept beside the path until this part of the chain's bytes is kept.
const WANTED_PART: f64 = 1.0 / 3.0;

/// The steps on the core path to what `thought` says must be reached, as ascending indices; empty only if there is no
/// step.
///
/// Steps that belong together (code that blank lines cut) are one unit. A unit *brings* the words that no earlier unit
/// holds; a value is not brought where it is only computed with, and a name is another word each time that code sets
/// it otherwise. The unit that says the answer is needed. Backward from there, a unit is needed as far as it brings
/// what the thought or a needed later unit holds, and what it holds itself is then needed in turn. So a repetition or
/// a check brings nothing, and what a dead end brings is needed by nobody. Where the path is less than a third of the
/// chain, what is needed slightly stays too. Close to linear in the length of the chain.
pub fn core(steps: &[&str], thought: &str) -> Vec<usize> {
    let chain = Chain::read(steps, thought);
    let Some(conclusion) = conclusion(&chain) else { return Vec::new() };
    let needs = needs(&chain, conclusion);

    let bytes = |unit: usize| chain.units[unit].clone().map(|step| steps[step].len()).sum::<usize>();
    let wanted = WANTED_PART * (0..needs.len()).map(bytes).sum::<usize>() as f64;
    let mut ranked: Vec<usize> = (0..needs.len()).filter(|unit| needs[*unit] >= SLIGHT_NEED).collect();
    ranked.sort_by(|a, b| needs[*b].total_cmp(&needs[*a]).then(a.cmp(b)));
    let mut kept_bytes = 0;
    ranked.retain(|unit| {
        let is_kept = needs[*unit] >= LEAST_NEED || (kept_bytes + bytes(*unit)) as f64 <= wanted;
        kept_bytes += if is_kept { bytes(*unit) } else { 0 };
        is_kept
    });
    ranked.sort_unstable();
    ranked.into_iter().flat_map(|unit| chain.units[unit].clone()).collect()
}

/// The unit that says the answer and the least besides, the last of several; None if there is no unit.
fn conclusion(chain: &Chain) -> Option<usize> {
    let reached = |word: usize| chain.reach[word] * chain.ties[word];
    let answers: Vec<f64> = (0..chain.units.len()).map(|unit| chain.words(unit).map(reached).sum()).collect();
    let most = answers.iter().copied().fold(0.0, f64::max);
    let share = |unit: usize| match chain.words(unit).map(|word| chain.ties[word]).sum::<f64>() {
        all if all > 0.0 && answers[unit] >= SAYS_THE_ANSWER * most => answers[unit] / all,
        _ => 0.0,
    };
    (0..chain.units.len()).map(|unit| (share(unit), unit)).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, unit)| unit)
}

/// How much each unit is needed, from 0 to 1.
fn needs(chain: &Chain, conclusion: usize) -> Vec<f64> {
    let mut needed = chain.needed.clone();
    let mut needs = vec![0.0; chain.units.len()];
    for unit in (0..needs.len()).rev() {
        let brings = |word: &usize| chain.brought[*word] as usize == unit;
        // Several weak reasons to need a unit add up, as chances that each of them holds.
        let idle: f64 = chain.words(unit).filter(brings).map(|word| 1.0 - needed[word] * chain.ties[word]).product();
        needs[unit] = if unit == conclusion { 1.0 } else { 1.0 - idle };
        let part = |word: usize| match &chain.operands[unit] {
            Some(operands) if !operands.contains(&(word as u32)) => NEED_OF_ASIDES,
            _ => 1.0,
        };
        for word in chain.words(unit).filter(|word| !brings(word) && !chain.is_known[*word]) {
            needed[word] = needed[word].max(needs[unit] * chain.ties[word] * part(word));
        }
    }
    needs
}
