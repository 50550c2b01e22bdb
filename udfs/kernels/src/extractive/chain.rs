//! A chain as units, and which unit brings which word.

use std::collections::HashSet;
use std::ops::Range;

use super::lexicon::{Lexicon, hash_statement, hash_word_in};
use super::sums::{Sum, Value, sums};
use super::thought::{self, Says};
use super::words::{Form, Tokens, is_indented, tokens};
use crate::code_fences::{Blocks, Turn};

/// A word keeps its full weight until so many units hold it that its rarity falls under 1 / this.
const RARE_ENOUGH: f64 = 2.5;
/// How much is needed of what the question gives: the chain need not find it again.
const NEED_OF_KNOWN: f64 = 0.02;
/// What weights are multiplied by that say little in this row: of common words where values or names must be reached,
/// of values where only names must be.
const ASIDE: f64 = 0.15;

/// A chain as sets of words, unit by unit.
pub struct Chain {
    /// The steps of each unit: steps that are kept or dropped together.
    pub units: Vec<Range<usize>>,
    /// The distinct words of all units, one unit after the other.
    words: Vec<u32>,
    /// Where each unit's words end.
    ends: Vec<usize>,
    /// For each unit, the operands of its sums; None if it has none.
    pub operands: Vec<Option<HashSet<u32>>>,
    /// For each word, the unit that brings it: the first that holds a value otherwise than as an operand, or any other
    /// word at all.
    pub brought: Vec<u32>,
    /// For each word, how strongly it ties units together, from 0 to 1: its weight, less if many units hold it.
    pub ties: Vec<f64>,
    /// For each word, how much the thought needs it.
    pub needed: Vec<f64>,
    /// For each word, how much it, or the name that it sets, must be reached.
    pub reach: Vec<f64>,
    /// For each word, whether the question gives it.
    pub is_known: Vec<bool>,
}

impl Chain {
    /// Reads a chain with the thought that it is pruned by.
    pub fn read(steps: &[&str], thought: &str) -> Self {
        let mut lexicon = Lexicon::default();
        let told: Vec<(u32, Says)> = thought::lines(thought)
            .flat_map(|(part, line)| tokens(line).map(move |token| (line, token, part)))
            .map(|(line, token, part)| (lexicon.intern(line, &token), part))
            .collect();
        let known = told.iter().filter(|(_, part)| *part == Says::Known).map(|(word, _)| *word).collect();
        let mut reader = Reader::new(lexicon, known);
        let units = units(steps);
        for unit in &units {
            reader.read(&steps[unit.clone()]);
        }
        reader.finish(units, &told)
    }

    /// The distinct words of a unit, in order.
    pub fn words(&self, unit: usize) -> impl Iterator<Item = usize> + '_ {
        let start = unit.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.words[start..self.ends[unit]].iter().map(|word| *word as usize)
    }
}

/// An indented step continues the one before it, and what stands between a code fence and the one that closes it is
/// one piece.
fn units(steps: &[&str]) -> Vec<Range<usize>> {
    let mut continues: Vec<bool> = steps.iter().map(|step| is_indented(step)).collect();
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

const NOWHERE: u32 = u32::MAX;

/// What is known of a word while a chain is read.
#[derive(Debug, Clone)]
struct WordPlaces {
    /// The unit that brings it.
    brought: u32,
    /// The first and the latest unit that hold it.
    first: u32,
    latest: u32,
    /// How many distinct units hold it.
    holders: u32,
    /// The word that stands for it now: its latest setting if it is a name that code sets.
    current: u32,
}

/// A statement of code that sets a name, from it to the end of its line or of the code.
struct Setting {
    name: u32,
    end: usize,
    /// Of the statement and of what each of its words is where it stands: the same statement sets a name otherwise
    /// where the names that it uses were set otherwise.
    hash: u64,
}

impl Setting {
    fn read(name: u32, step: &str, start: usize) -> Self {
        let end = step[start..].find(['\n', '`']).map_or(step.len(), |length| start + length);
        Self { name, end, hash: hash_statement(&step[start..end]) }
    }
}

/// Reads units one by one.
struct Reader {
    lexicon: Lexicon,
    known: HashSet<u32>,
    met: Vec<WordPlaces>,
    words: Vec<u32>,
    ends: Vec<usize>,
    operands: Vec<Option<HashSet<u32>>>,
    /// The hashes of the units' words.
    distinct: HashSet<u64>,
    /// The number that would count the next part of the chain.
    next_count: f64,
}

impl Reader {
    fn new(lexicon: Lexicon, known: HashSet<u32>) -> Self {
        let (met, words, ends, operands) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let distinct = HashSet::new();
        let mut reader = Self { lexicon, known, met, words, ends, operands, distinct, next_count: 1.0 };
        reader.meet_new();
        reader
    }

    fn meet_new(&mut self) {
        for word in self.met.len()..self.lexicon.count() {
            let (brought, first, latest) = (NOWHERE, NOWHERE, NOWHERE);
            self.met.push(WordPlaces { brought, first, latest, holders: 0, current: word as u32 });
        }
    }

    fn read(&mut self, steps: &[&str]) {
        let unit = self.ends.len() as u32;
        let mut operands: Option<HashSet<u32>> = None;
        let mut blocks = Blocks::default();
        for step in steps {
            let values = self.read_step(unit, step, &mut blocks);
            let is_established = |word: u32| self.met[word as usize].brought != NOWHERE || self.known.contains(&word);
            let sums: Vec<Sum> = sums(step, &values, is_established).collect();
            let results: Vec<u32> = sums.iter().map(|sum| sum.result).collect();
            if !sums.is_empty() {
                operands.get_or_insert_default().extend(sums.iter().flat_map(|sum| sum.operands));
            }
            let is_operand = |word: u32| operands.as_ref().is_some_and(|operands| operands.contains(&word));
            let others = values.iter().map(|value| value.word).filter(|word| !is_operand(*word));
            for word in results.into_iter().chain(others) {
                let brought = &mut self.met[word as usize].brought;
                *brought = (*brought).min(unit);
            }
        }
        self.operands.push(operands);
        let words = &self.words[self.ends.last().copied().unwrap_or_default()..];
        // A unit that only repeats another does not make its words less rare.
        if self.distinct.insert(words.iter().copied().fold(words.len() as u64, hash_word_in)) {
            for word in words {
                self.met[*word as usize].holders += 1;
            }
        }
        self.ends.push(self.words.len());
    }

    /// Notes the words of a step and returns its values.
    fn read_step(&mut self, unit: u32, step: &str, blocks: &mut Blocks) -> Vec<Value> {
        let mut values = Vec::new();
        let mut setting: Option<Setting> = None;
        let mut found = Tokens::new(step, *blocks);
        for token in found.by_ref() {
            if let Some(ended) = setting.take_if(|setting| setting.end <= token.span.start) {
                self.set(unit, ended);
            }
            let amount = (token.form == Form::Value).then(|| amount(&step[token.span.clone()]));
            if token.may_count && amount == Some(self.next_count) {
                self.next_count += 1.0;
                continue;
            }
            let name = self.lexicon.intern(step, &token);
            self.meet_new();
            if token.is_set && setting.is_none() {
                setting = Some(Setting::read(name, step, token.span.start));
                continue;
            }
            let word = self.met[name as usize].current;
            self.hold(unit, word);
            if let Some(setting) = &mut setting {
                setting.hash = hash_word_in(setting.hash, word);
            }
            if let Some(amount) = amount {
                values.push(Value { word, amount, span: token.span });
            }
        }
        if let Some(ended) = setting {
            self.set(unit, ended);
        }
        *blocks = found.blocks();
        values
    }

    /// A name is what it was before until the statement that sets it ends.
    fn set(&mut self, unit: u32, ended: Setting) {
        let set = self.lexicon.set(ended.name, ended.hash);
        self.meet_new();
        self.met[ended.name as usize].current = set;
        self.hold(unit, set);
    }

    fn hold(&mut self, unit: u32, word: u32) {
        let met = &mut self.met[word as usize];
        if met.latest == unit {
            return;
        }
        met.first = met.first.min(unit);
        met.latest = unit;
        self.words.push(word);
    }

    fn finish(self, units: Vec<Range<usize>>, told: &[(u32, Says)]) -> Chain {
        let Self { lexicon, met, words, ends, operands, distinct, .. } = self;
        let mut said: Vec<Option<Says>> = vec![None; met.len()];
        let mut reach = vec![0.0; met.len()];
        for (word, part) in told {
            let first = *said[*word as usize].get_or_insert(*part);
            if *part == Says::Reach {
                reach[*word as usize] = need_of(Some(first));
            }
        }
        let (mut reaches_values, mut reaches_names) = (false, false);
        for word in (0..met.len() as u32).filter(|word| met[*word as usize].holders > 0) {
            reach[word as usize] = reach[lexicon.name(word) as usize];
            if reach[word as usize] > 0.0 {
                reaches_values |= lexicon.is_value(word);
                reaches_names |= !lexicon.is_value(word) && !lexicon.is_common(word);
            }
        }
        let needed = said.iter().copied().map(need_of).collect();
        let is_known = said.iter().map(|said| *said == Some(Says::Known)).collect();
        let all = (distinct.len() + 1) as f64;
        let tie = |(word, met): (u32, &WordPlaces)| {
            let rarity = (all / f64::from(met.holders.max(1))).ln() / all.ln();
            let is_aside = if lexicon.is_value(word) {
                reaches_names && !reaches_values
            } else {
                lexicon.is_common(word) && (reaches_names || reaches_values)
            };
            let part = if is_aside { ASIDE } else { 1.0 };
            part * lexicon.weight(word) * (RARE_ENOUGH * rarity).min(1.0)
        };
        let mut ties: Vec<f64> = (0u32..).zip(&met).map(tie).collect();
        // Before code sets a name there is nothing that it stands for.
        for word in (0..met.len() as u32).filter(|word| lexicon.name(*word) != *word) {
            ties[lexicon.name(word) as usize] = 0.0;
        }
        let brought = met.iter().map(|met| if met.brought == NOWHERE { met.first } else { met.brought }).collect();
        Chain { units, words, ends, operands, brought, ties, needed, reach, is_known }
    }
}

fn need_of(said: Option<Says>) -> f64 {
    match said {
        None => 0.0,
        Some(Says::Known) => NEED_OF_KNOWN,
        Some(Says::Through | Says::Reach) => 1.0,
    }
}

/// What a value is worth; digits with separators always parse.
fn amount(value: &str) -> f64 {
    value.replace(',', "").parse().unwrap_or_default()
}
