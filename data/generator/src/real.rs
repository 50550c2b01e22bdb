//! Chains whose first words have the frequencies of real traces, and that continue after the answer until every
//! derivation is checked.
//!
//! ```text
//!   detour? idle? core check?   for each derivation
//!   detour? idle? core          the conclusion
//!   detour? idle? check         for each derivation that was not checked immediately, in the same order
//!   detour? idle? check         the conclusion again: the end
//! ```
//!
//! No part is repeated, so the next step never depends on the number of earlier ones. If a coin toss decided the length
//! of a chain, a model that always takes the likeliest token would never end it.

use crate::cues::first_word;
use crate::functions::{FORMULA, Function, is_named};
use crate::trace::{Label, Step, capital, paragraph};
use crate::voice::openers::opener;
use crate::voice::phrases;
use crate::work::{Say, Work};

/// Percentages of positions: with a detour, with an idle step, and of derivations that are checked immediately.
const DETOUR: usize = 25;
const IDLE: usize = 45;
const EARLY: usize = 20;
/// Percentage of detours whose last step gives them up. For the others, a following idle step does.
const SAID: usize = 42;
const ASIDE: usize = 35;

pub(crate) fn write(work: &dyn Work, say: Say) -> Vec<Step> {
    // The question counts as the set-up of a chain.
    let mut writer = Writer { work, say, steps: Vec::new(), function: Function::SetUp, done: 0 };
    writer.write();
    writer.steps
}

struct Writer<'a> {
    work: &'a dyn Work,
    say: Say,
    steps: Vec<Step>,
    function: Function,
    done: usize,
}

impl Writer<'_> {
    fn write(&mut self) {
        let count = self.work.derivations();
        let mut unchecked = Vec::new();
        for place in 0..count {
            self.around(place);
            let text = self.work.derive(place, &mut self.say);
            self.step(Label::Core, place, vec![text], None);
            self.done += 1;
            // The last one is not checked here, so that the checks after the answer always have something to check.
            if place + 1 < count && self.say.dice.chance(EARLY) {
                self.check(place);
            } else {
                unchecked.push(place);
            }
        }
        self.around(count);
        self.conclude(Label::Core);
        for place in unchecked {
            self.around(place);
            self.check(place);
        }
        self.around(count);
        self.conclude(Label::Check);
    }

    fn check(&mut self, place: usize) {
        let text = self.work.check(place, &mut self.say);
        self.step(Label::Check, place, vec![text], None);
    }

    fn conclude(&mut self, label: Label) {
        // A conclusion may state the answer.
        self.done = self.work.derivations() + 1;
        let texts = self.work.conclude(&mut self.say);
        let end = self.pick(&phrases::APPROVE);
        self.step(label, self.work.derivations(), texts, Some(end));
    }

    fn around(&mut self, place: usize) {
        let is_detour = self.say.dice.chance(DETOUR);
        let must_turn_back = is_detour && self.detour(place.min(self.work.derivations() - 1));
        if self.say.dice.chance(IDLE) || must_turn_back {
            let drop = must_turn_back.then(|| self.pick(&phrases::DROP));
            self.step(Label::Filler, place, Vec::new(), drop);
        }
    }

    /// Writes a dead end. Returns true if it still has to be given up.
    fn detour(&mut self, place: usize) -> bool {
        let length = 1 + self.say.dice.weighted(&[4, 4, 3, 1]);
        let texts = self.work.detour(place, length, &mut self.say);
        let (last, is_said) = (texts.len(), self.say.dice.chance(SAID));
        for (number, text) in texts.into_iter().enumerate() {
            let drop = (is_said && number + 1 == last).then(|| self.pick(&phrases::DROP));
            self.step(Label::DeadEnd, place, vec![text], drop);
        }
        last > 0 && !is_said
    }

    /// Writes a step about a derivation: a lead by its function, the derived content, and an end.
    fn step(&mut self, label: Label, place: usize, content: Vec<String>, end: Option<String>) {
        let may_answer = self.done > self.work.derivations();
        self.function = self.function.next(label == Label::Core, may_answer, &mut self.say.dice);
        let lead = self.lead(place, !content.is_empty());
        let mut sentences: Vec<_> = lead.into_iter().chain(content).collect();
        // Only a musing or a doubt precedes an end. Otherwise the words around it would reveal the label.
        let asides = [&phrases::MUSE[..], &phrases::DOUBT, &phrases::APPROVE];
        let asides = asides[self.say.dice.below(if end.is_some() { 2 } else { 3 })];
        let aside = self.pick(asides);
        if (self.say.dice.chance(ASIDE) || end.is_some()) && !sentences.contains(&aside) {
            sentences.push(aside);
        }
        sentences.extend(end);
        sentences[0] = self.opened(&sentences[0], place);
        let text = paragraph(sentences.iter().map(|sentence| capital(sentence)));
        for (part, text) in text.split("\n\n").enumerate() {
            // Code may contain a blank line. The steps after it continue the computation.
            let function = if part == 0 { self.function } else { Function::Computation };
            self.steps.push(Step { label, function: Some(function), text: text.to_string() });
        }
    }

    /// Returns the first sentence by the step's function. `None` if the derived content comes first.
    fn lead(&mut self, place: usize, has_content: bool) -> Option<String> {
        let is_first = self.steps.is_empty();
        let drawn = self.say.dice.below(100);
        let text = match self.function {
            Function::Computation if has_content => return None,
            Function::Answer if has_content && place == self.work.derivations() => return None,
            Function::Consolidation if has_content && drawn < 40 => return None,
            Function::Answer => self.work.confirm(&mut self.say),
            Function::Plan if place < self.work.derivations() => self.work.plan(place, &mut self.say),
            Function::Uncertainty | Function::SelfChecking if drawn < 60 => {
                self.say.dice.pick(&phrases::DOUBT).to_string()
            }
            Function::Uncertainty | Function::SelfChecking => self.say.dice.pick(&phrases::MUSE).to_string(),
            Function::Consolidation if drawn < 70 => self.say.dice.pick(&phrases::APPROVE).to_string(),
            Function::SetUp if is_first => self.say.dice.pick(&phrases::OPENINGS).to_string(),
            _ => self.work.restate(self.done, &mut self.say),
        };
        Some(text)
    }

    fn opened(&mut self, sentence: &str, place: usize) -> String {
        let word = self.function.first_word(&mut self.say.dice);
        let (name, value) = self.work.known(self.done, &mut self.say.dice);
        let topic = self.work.topic(place);
        let is_word =
            topic.starts_with(char::is_alphanumeric) && !first_word(&topic).is_some_and(|word| is_named(&word));
        let is_number = self.say.dice.chance(35);
        let own = first_word(sentence);
        match word {
            Some(word) if own.as_deref() == Some(word) => sentence.to_string(),
            Some(FORMULA) => format!("\\[ \\text{{{name}}} = {value} \\] {}", capital(sentence)),
            Some(word) => format!("{} {sentence}", opener(word).unwrap_or(word)),
            None if sentence.starts_with(|scalar: char| scalar.is_ascii_digit()) => sentence.to_string(),
            None if !is_number && is_word => format!("{topic}: {sentence}"),
            None => format!("{value} — {sentence}"),
        }
    }

    fn pick(&mut self, among: &[&str]) -> String {
        self.say.dice.pick(among).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;

    struct Named;

    impl Work for Named {
        fn derivations(&self) -> usize {
            3
        }

        fn derive(&self, place: usize, _: &mut Say) -> String {
            format!("made {place}")
        }

        fn detour(&self, place: usize, length: usize, _: &mut Say) -> Vec<String> {
            vec![format!("lost {place}"); length]
        }

        fn recheck(&self, _: usize, _: &mut Say) -> String {
            String::new()
        }

        fn check(&self, place: usize, _: &mut Say) -> String {
            format!("checked {place}")
        }

        fn plan(&self, place: usize, _: &mut Say) -> String {
            format!("planned {place}")
        }

        fn restate(&self, done: usize, _: &mut Say) -> String {
            format!("known before {done}")
        }

        fn known(&self, _: usize, _: &mut Dice) -> (String, String) {
            ("zero".to_string(), "0".to_string())
        }

        fn topic(&self, place: usize) -> String {
            format!("number {place}")
        }

        fn conclude(&self, _: &mut Say) -> Vec<String> {
            vec!["concluded".to_string()]
        }

        fn confirm(&self, _: &mut Say) -> String {
            "confirmed".to_string()
        }
    }

    fn chains() -> impl Iterator<Item = Vec<Step>> {
        (0..300).map(|row| write(&Named, Say::new(Dice::new(9, row))))
    }

    fn said(steps: &[Step], words: &str) -> Vec<usize> {
        (0..steps.len()).filter(|place| steps[*place].text.to_lowercase().contains(words)).collect()
    }

    #[test]
    fn all_is_made_once_and_checked_once_and_then_the_chain_ends() {
        for steps in chains() {
            let made: Vec<_> = (0..3).flat_map(|place| said(&steps, &format!("made {place}"))).collect();
            let core = (0..steps.len()).filter(|place| steps[*place].label == Label::Core);
            let concluded = said(&steps, "concluded");
            assert_eq!([&made[..], &concluded[..1]].concat(), core.collect::<Vec<_>>());
            assert_eq!((made.len(), concluded.len(), concluded[1]), (3, 2, steps.len() - 1));
            let checked: Vec<_> = (0..3).map(|place| said(&steps, &format!("checked {place}"))).collect();
            assert!(checked.iter().all(|places| places.len() == 1), "{checked:?}");
            assert!(
                checked.iter().zip(&made).all(|(checked, made)| checked[0] == made + 1 || checked[0] > concluded[0])
            );
            assert!(checked[2][0] > concluded[0]);
            assert!(said(&steps, "confirmed").iter().all(|place| *place > concluded[0]));
        }
    }

    #[test]
    fn nothing_that_adds_no_progress_comes_twice_in_a_row() {
        for steps in chains() {
            let is_idle = |step: &Step| step.label == Label::Filler;
            assert!(!steps.windows(2).any(|pair| is_idle(&pair[0]) && is_idle(&pair[1])));
            let detours = steps.split(|step| step.label != Label::DeadEnd);
            assert!(detours.map(<[Step]>::len).max() <= Some(4));
        }
    }

    #[test]
    fn a_wrong_way_is_given_up_before_the_next_derivation() {
        let drops: Vec<_> = phrases::DROP.iter().map(|text| text.to_lowercase()).collect();
        for steps in chains() {
            for (place, step) in steps.iter().enumerate().filter(|(_, step)| step.label == Label::DeadEnd) {
                let next = &steps[place + 1];
                let stated = if next.label == Label::Filler {
                    format!("{} {}", step.text, next.text)
                } else {
                    step.text.clone()
                };
                let is_over = next.label != Label::DeadEnd;
                assert!(!is_over || drops.iter().any(|drop| stated.to_lowercase().contains(drop)), "{stated}");
            }
        }
    }
}
