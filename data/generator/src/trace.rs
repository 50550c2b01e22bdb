//! Writes a chain of thought about some work, with a label for each step.

use crate::functions::Function;
use crate::voice::phrases;
use crate::work::{Say, Work};

/// The purpose of a step. It depends on the derived results and their use, not on the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// Derives something that a later core step or the answer uses, or states the answer.
    Core,
    /// Derives an earlier result again, or repeats such a step word for word.
    Check,
    /// Derives something that only other dead ends use.
    DeadEnd,
    /// Derives nothing: thinks aloud, plans, or repeats the question or an earlier step.
    Filler,
}

impl Label {
    pub const ALL: [Label; 4] = [Label::Core, Label::Check, Label::DeadEnd, Label::Filler];

    /// Returns the value in the column `labels`.
    pub fn name(self) -> &'static str {
        match self {
            Label::Core => "core",
            Label::Check => "check",
            Label::DeadEnd => "dead_end",
            Label::Filler => "filler",
        }
    }
}

/// One step of a chain, as `cot_steps` cuts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub label: Label,
    /// The function of its first sentence, with real openers.
    pub function: Option<Function>,
    pub text: String,
}

pub(crate) fn write(work: &dyn Work, say: Say) -> Vec<Step> {
    let mut writer = Writer::new(work, say);
    writer.write();
    writer.steps
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Idle {
    None,
    Opening,
    Muse,
    Doubt,
    Approve,
    Drop,
    Plan,
    Restate,
    Confirm,
}

struct Writer<'a> {
    work: &'a dyn Work,
    say: Say,
    steps: Vec<Step>,
    plain: Vec<usize>,
    done: usize,
    must_turn_back: bool,
    numbering: Option<&'static str>,
    numbered: usize,
}

impl<'a> Writer<'a> {
    fn new(work: &'a dyn Work, mut say: Say) -> Self {
        let styles = [None, None, Some("{}."), Some("Step {}:"), Some("({})"), Some("{})"), Some("**Step {}.**")];
        let numbering = styles[say.dice.below(styles.len())];
        let (steps, plain) = (Vec::new(), Vec::new());
        Self { work, say, steps, plain, done: 0, must_turn_back: false, numbering, numbered: 0 }
    }

    fn write(&mut self) {
        if self.say.dice.chance(28) {
            self.filler();
        }
        let count = self.work.derivations();
        while self.done < count {
            if self.say.dice.chance(38) {
                // Most dead ends come before the right derivation, some after it.
                let is_late = self.done > 0 && self.say.dice.chance(30);
                self.detour(self.done - usize::from(is_late));
            }
            if self.say.dice.chance(50) {
                self.filler();
            }
            let together = if self.done + 1 < count && self.say.dice.chance(15) { 2 } else { 1 };
            let texts = (0..together).map(|next| self.work.derive(self.done + next, &mut self.say)).collect();
            self.derivation(Label::Core, texts, together, false);
            for chance in [52, 25] {
                if self.say.dice.chance(chance) {
                    self.check();
                }
            }
            if self.say.dice.chance(30) {
                self.filler();
            }
        }
        if self.say.dice.chance(30) {
            self.detour(count - 1);
        }
        let texts = self.work.conclude(&mut self.say);
        self.derivation(Label::Core, texts, 1, false);
        for _ in 0..self.say.dice.below(4) {
            if self.say.dice.chance(60) {
                self.check();
            } else {
                self.filler();
            }
        }
    }

    fn detour(&mut self, place: usize) {
        let length = 1 + self.say.dice.weighted(&[4, 4, 3, 1]);
        let mut texts = self.work.detour(place, length, &mut self.say);
        while !texts.is_empty() {
            let together = if texts.len() > 1 && self.say.dice.chance(20) { 2 } else { 1 };
            let rest = texts.split_off(together);
            self.derivation(Label::DeadEnd, texts, 0, rest.is_empty());
            texts = rest;
        }
    }

    fn check(&mut self) {
        if self.say.dice.chance(15) && self.repeat(Label::Core, Label::Check) {
            return;
        }
        let count = if self.say.dice.chance(18) { 2 } else { 1 };
        let mut texts: Vec<_> = (0..count).map(|_| self.work.recheck(self.done, &mut self.say)).collect();
        texts.dedup();
        self.derivation(Label::Check, texts, 0, false);
    }

    fn filler(&mut self) {
        if self.say.dice.chance(8) && self.repeat(Label::Filler, Label::Filler) {
            return;
        }
        let mut sentences = Vec::new();
        self.turn_back(&mut sentences);
        if !self.steps.is_empty() && self.say.dice.chance(6) {
            let texts = (0..2 + self.say.dice.below(2)).map(|_| self.work.restate(self.done, &mut self.say)).collect();
            sentences.push((Idle::Restate, self.list(texts)));
            return self.push(Label::Filler, sentences);
        }
        for _ in 0..1 + self.say.dice.weighted(&[5, 4, 2]) {
            let kind = if self.steps.is_empty() && sentences.is_empty() {
                Idle::Opening
            } else {
                self.idle(&[38, 12, 8, 16, 26])
            };
            self.add(kind, &mut sentences);
        }
        self.push(Label::Filler, sentences);
    }

    fn list(&mut self, texts: Vec<String>) -> String {
        let heading = self.say.dice.pick(&phrases::LIST);
        let lines: Vec<_> = texts.iter().map(|text| format!("- {}", finish(capital(text)))).collect();
        format!("{heading}\n{}", lines.join("\n"))
    }

    fn repeat(&mut self, of: Label, label: Label) -> bool {
        let earlier: Vec<_> = self.plain.iter().copied().filter(|place| self.steps[*place].label == of).collect();
        if earlier.is_empty() {
            return false;
        }
        let text = self.steps[earlier[self.say.dice.below(earlier.len())]].text.clone();
        self.steps.push(Step { label, function: None, text });
        true
    }

    /// Writes a step with a derivation, and the idle sentences that may surround a derivation of any label. The step
    /// advances the work by `forward` derivations, ends a detour, or does neither.
    fn derivation(&mut self, label: Label, texts: Vec<String>, forward: usize, is_end: bool) {
        let mut sentences = Vec::new();
        if self.steps.is_empty() {
            self.add(Idle::Opening, &mut sentences);
        } else {
            self.turn_back(&mut sentences);
            for _ in 0..self.say.dice.weighted(&[62, 25, 13]) {
                let kind = self.idle(&[40, 12, 8, 19, 21]);
                self.add(kind, &mut sentences);
            }
        }
        let is_listed = self.say.dice.chance(if texts.len() > 1 { 45 } else { 9 });
        if is_listed && !is_end && texts.iter().all(|text| !text.contains('\n')) {
            let mut lines = texts;
            if lines.len() == 1 || self.say.dice.chance(30) {
                let place = self.say.dice.below(lines.len() + 1);
                lines.insert(place, self.work.restate(self.done, &mut self.say));
            }
            sentences.push((Idle::None, self.list(lines)));
        } else {
            sentences.extend(texts.into_iter().map(|text| (Idle::None, text)));
        }
        self.done += forward;
        let is_after = self.done > self.work.derivations() && label != Label::Core;
        let tail = if label == Label::Core { 18 } else { 28 };
        if is_end && self.say.dice.chance(28) {
            self.add(Idle::Drop, &mut sentences);
        } else if is_after && self.say.dice.chance(50) {
            self.add(Idle::Confirm, &mut sentences);
        } else if self.say.dice.chance(tail) {
            let kind = self.idle(&[22, 18, 40, 5, 15]);
            self.add(kind, &mut sentences);
        }
        self.must_turn_back = is_end && !matches!(sentences.last(), Some((Idle::Drop, _)));
        self.push(label, sentences);
    }

    fn turn_back(&mut self, sentences: &mut Vec<(Idle, String)>) {
        if self.must_turn_back && self.say.dice.chance(80) {
            if self.say.dice.chance(50) {
                let kind = self.idle(&[3, 5, 1, 0, 1]);
                self.add(kind, sentences);
            }
            self.add(Idle::Drop, sentences);
        }
        self.must_turn_back = false;
    }

    fn idle(&mut self, weights: &[usize; 5]) -> Idle {
        [Idle::Muse, Idle::Doubt, Idle::Approve, Idle::Plan, Idle::Restate][self.say.dice.weighted(weights)]
    }

    /// Adds a sentence of this kind, unless the step already has it. Most kinds occur once in a step.
    fn add(&mut self, kind: Idle, sentences: &mut Vec<(Idle, String)>) {
        let Self { work, say, done, .. } = self;
        let pick = |say: &mut Say, templates: &[&str]| say.dice.pick(templates).to_string();
        let text = match kind {
            Idle::None => return,
            Idle::Opening => pick(say, &phrases::OPENINGS),
            Idle::Muse => pick(say, &phrases::MUSE),
            Idle::Doubt => pick(say, &phrases::DOUBT),
            Idle::Approve => pick(say, &phrases::APPROVE),
            Idle::Drop => pick(say, &phrases::DROP),
            Idle::Plan if *done < work.derivations() => work.plan(*done, say),
            Idle::Plan | Idle::Restate => work.restate(*done, say),
            Idle::Confirm => work.confirm(say),
        };
        let says_it = |(other_kind, other): &(Idle, String)| {
            *other == text || (*other_kind == kind && !matches!(kind, Idle::Muse | Idle::Restate))
        };
        if !sentences.iter().any(says_it) {
            sentences.push((kind, text));
        }
    }

    /// Adds the sentences as a step, or as several if code contains a blank line.
    fn push(&mut self, label: Label, sentences: Vec<(Idle, String)>) {
        let is_opening = self.steps.is_empty();
        let sentences = sentences.into_iter().enumerate().map(|(place, (kind, sentence))| {
            let chance = match (place, kind) {
                (_, Idle::Opening) => 0,
                (_, Idle::Drop | Idle::Approve) => 15,
                (0, _) => 50,
                (_, Idle::None) => 32,
                _ => 16,
            };
            if self.say.dice.chance(chance) {
                let is_link = !matches!(kind, Idle::Muse | Idle::Doubt | Idle::Drop | Idle::Approve);
                let openers = if is_link && self.say.dice.chance(60) { &phrases::LINKS } else { &phrases::ASIDES };
                let opener = self.say.dice.pick(openers);
                return capital(&format!("{opener} {sentence}"));
            }
            capital(&sentence)
        });
        let mut text = paragraph(sentences);
        if let (Some(style), true) = (self.numbering, self.say.dice.chance(40)) {
            self.numbered += 1;
            text = format!("{} {text}", style.replace("{}", &self.numbered.to_string()));
        } else if !is_opening && !text.contains('\n') {
            self.plain.push(self.steps.len());
        }
        self.steps.extend(text.split("\n\n").map(|text| Step { label, function: None, text: text.to_string() }));
    }
}

/// Joins sentences to one paragraph. After code, each is on its own line.
pub(crate) fn paragraph(sentences: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for (place, sentence) in sentences.into_iter().enumerate() {
        if place > 0 {
            text.push(if text.contains('\n') { '\n' } else { ' ' });
        }
        text.push_str(&finish(sentence));
    }
    text
}

pub(crate) fn capital(text: &str) -> String {
    let mut scalars = text.chars();
    let first = scalars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(scalars).collect()
}

fn finish(mut text: String) -> String {
    if !text.ends_with(['.', '?', '!', ':', ']', '*', '🙂', '🎉']) && !text.contains('\n') {
        text.push('.');
    }
    text
}
