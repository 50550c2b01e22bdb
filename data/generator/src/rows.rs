//! Rows of the sample: a problem and one or more answers to it.

use clap::ValueEnum;

use crate::dice::Dice;
use crate::functions::Function;
use crate::problems::{Family, Program, computed};
use crate::real;
use crate::sums::Sums;
use crate::trace::{self, Label, Step};
use crate::voice::phrases;
use crate::work::{Say, Work};

/// How the steps of a chain begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Openers {
    /// Draw first words evenly, independent of the step's label.
    Even,
    /// Draw first words with the frequencies of real traces, and continue checking after the answer.
    Real,
}

impl Openers {
    fn write(self, work: &dyn Work, say: Say) -> Vec<Step> {
        match self {
            Openers::Even => trace::write(work, say),
            Openers::Real => real::write(work, say),
        }
    }
}

/// A problem and its traces.
#[derive(Debug, Clone)]
pub struct SampleRow {
    /// The row's name in its dataset.
    pub id: String,
    pub family: Family,
    pub question: String,
    /// The right answer: a value, or a program.
    pub answer: String,
    /// The derivation of the answer, as a person would write it.
    pub solution: String,
    /// At least one is verified.
    pub generations: Vec<Generation>,
}

#[derive(Debug, Clone)]
pub struct Generation {
    /// The chain's steps, as `cot_steps` cuts them.
    pub steps: Vec<Step>,
    pub response: String,
    /// Whether the response contains the right answer.
    pub is_verified: bool,
}

impl Generation {
    pub fn chain(&self) -> String {
        let texts: Vec<_> = self.steps.iter().map(|step| step.text.as_str()).collect();
        texts.join("\n\n")
    }

    pub fn text(&self) -> String {
        format!("<think>\n{}\n</think>\n\n{}", self.chain(), self.response)
    }
}

impl SampleRow {
    /// Returns the generation that a reader of the corpus takes: the first verified one.
    pub fn chosen(&self) -> &Generation {
        self.generations.iter().find(|generation| generation.is_verified).unwrap_or(&self.generations[0])
    }

    pub fn cot(&self) -> String {
        self.chosen().chain()
    }

    pub fn labels(&self) -> Vec<Label> {
        self.chosen().steps.iter().map(|step| step.label).collect()
    }

    /// Returns the function of each step of that chain. Empty with even openers.
    pub fn functions(&self) -> Vec<Function> {
        self.chosen().steps.iter().filter_map(|step| step.function).collect()
    }
}

/// Generates `count` rows. Each depends only on the seed, its index and the openers. The first half are programming
/// problems.
pub fn rows(count: usize, seed: u64, openers: Openers) -> Vec<SampleRow> {
    let programs = count / 2;
    let row = |row| match row {
        row if row < programs => program_row(row, seed, openers),
        row => computed_row(row - programs, seed, openers),
    };
    (0..count).map(row).collect()
}

/// Returns one of the random streams of a row: part 0 for its problem, the others for up to three generations.
fn dice(seed: u64, row: usize, is_program: bool, part: u64) -> Dice {
    Dice::new(seed, row as u64 * 8 + 4 * u64::from(is_program) + part)
}

fn program_row(row: usize, seed: u64, openers: Openers) -> SampleRow {
    let program = Program::draw(&mut dice(seed, row, true, 0));
    let mut say = Say::new(dice(seed, row, true, 1));
    let answer = format!("```python\n{}\n```", program.solution());
    let response = format!("{}\n\n{answer}", say.dice.pick(&phrases::RESPONSE_CODE));
    let steps = openers.write(&program, say);
    SampleRow {
        id: format!("{}/{}", 1000 + row / 6, char::from(b'A' + (row % 6) as u8)),
        family: Family::Program,
        question: program.question,
        solution: answer.clone(),
        answer,
        generations: vec![Generation { steps, response, is_verified: true }],
    }
}

fn computed_row(row: usize, seed: u64, openers: Openers) -> SampleRow {
    let family = Family::COMPUTED[row % Family::COMPUTED.len()];
    let mut dice_of_row = dice(seed, row, false, 0);
    let problem = computed(family, &mut dice_of_row);
    // Some generations are wrong, so that a reader must look at the flags.
    let plans: [&[bool]; 6] = [&[true], &[true], &[true, true], &[true, false], &[false, true], &[false, true, true]];
    let plan = plans[dice_of_row.weighted(&[5, 5, 3, 2, 3, 2])];
    let id = uuid::Builder::from_random_bytes(dice_of_row.bytes()).into_uuid().to_string();
    let sums = Sums::new(&problem, &mut dice_of_row);
    let generations = plan.iter().enumerate().map(|(part, is_right)| {
        let mut say = Say::new(dice(seed, row, false, 1 + part as u64));
        let mistaken = if *is_right { None } else { sums.mistaken(&mut say) };
        let is_verified = mistaken.is_none();
        let problem = mistaken.as_ref().unwrap_or(&problem);
        let sums = Sums::new(problem, &mut say.dice);
        let lines = 2 + say.dice.below(3);
        let response = sums.response(lines, &mut say);
        Generation { steps: openers.write(&sums, say), response, is_verified }
    });
    let generations = generations.collect();
    let solution = sums.response(problem.quantities.len(), &mut Say::new(dice_of_row));
    let answer = problem.answer(&problem.values());
    SampleRow { id, family, question: problem.question, answer, solution, generations }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_does_not_depend_on_how_many_there_are() {
        let (few, many) = (rows(8, 3, Openers::Even), rows(20, 3, Openers::Even));
        assert_eq!(few[3].cot(), many[3].cot());
        assert_eq!(few[4].id, many[10].id);
        assert_ne!(rows(8, 4, Openers::Even)[3].cot(), few[3].cot());
    }

    #[test]
    fn openers_change_the_chains_and_nothing_else() {
        let openers = [Openers::Even, Openers::Real].map(|openers| rows(60, 5, openers));
        for (even, real) in openers[0].iter().zip(&openers[1]) {
            assert_eq!((&even.id, &even.question, &even.answer), (&real.id, &real.question, &real.answer));
            assert_eq!((even.functions().len(), real.functions().len()), (0, real.labels().len()));
            assert_ne!(even.cot(), real.cot());
        }
    }

    #[test]
    fn every_row_is_verified_and_ends_its_core_with_the_answer() {
        let of = |openers| rows(300, 5, openers);
        for row in [Openers::Even, Openers::Real].into_iter().flat_map(of) {
            let chosen = row.chosen();
            assert!(chosen.is_verified);
            let core: Vec<_> = chosen.steps.iter().filter(|step| step.label == Label::Core).collect();
            match row.family {
                Family::Program => {
                    let code: String = core.iter().map(|step| format!("{}\n", step.text)).collect();
                    let lines = row.answer.lines().filter(|line| !line.starts_with("```"));
                    lines.for_each(|line| assert!(code.contains(line), "{line} is not in\n{code}"));
                    assert!(chosen.response.contains(&row.answer));
                }
                _ => {
                    assert!(core[core.len() - 1].text.contains(&row.answer));
                    assert!(chosen.response.contains(&format!("\\boxed{{{}}}", row.answer)));
                }
            }
        }
    }

    #[test]
    fn some_first_generations_are_not_verified_and_say_so() {
        let rows = rows(240, 5, Openers::Even);
        let unverified: Vec<_> = rows.iter().filter(|row| !row.generations[0].is_verified).collect();
        assert!(unverified.len() > 15, "{}", unverified.len());
        for row in unverified {
            assert!(!row.generations[0].response.contains(&format!("\\boxed{{{}}}", row.answer)));
        }
    }
}
