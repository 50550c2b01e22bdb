//! Programming problems: a function that turns a list into a number in several stages.

use super::stages::ListOperation;
use crate::dice::Dice;
use crate::trace::capital;
use crate::voice::{fill, phrases};
use crate::work::{Say, Work};

const THINGS: &str = "parcel weights | daily temperatures | scores of a game | house numbers | delays in minutes | \
    page counts | ticket prices | sensor readings";

const TASK: [&str; 3] = [
    "You are given a list `{list}` of {things}. Write a Python function `{name}({list})` that works in these stages:\n{stages}\nReturn the number.\n\nExample: `{name}({example})` returns `{result}`.",
    "A list of {things} is processed as described below. Implement `{name}({list})` in Python, returning the final number.\n\n{stages}\n\n**Example**\n\nInput: `{list} = {example}`\nOutput: `{result}`",
    "Implement `{name}` for a list `{list}` of {things} (Python 3). The steps, in this order:\n{stages}\n\n```\n>>> {name}({example})\n{result}\n```",
];

const IDENTIFIERS: [&str; 26] = [
    "kept", "rest", "vals", "b", "c", "out", "nums", "cur", "picked", "tmp", "res", "part", "xs", "ys", "step1",
    "step2", "chosen", "data", "w", "items", "left", "acc", "good", "mid", "p", "q",
];

/// A function as stages, with the names in its code and an example.
pub(crate) struct Program {
    pub question: String,
    name: &'static str,
    list: &'static str,
    element: &'static str,
    stages: Vec<ListOperation>,
    identifiers: Vec<&'static str>,
    styles: Vec<usize>,
    results: Vec<Vec<i64>>,
    blank_after: Option<usize>,
    fenced: bool,
}

impl Program {
    /// Draws a function. Stages are drawn until the example keeps enough elements.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let (stages, results) = loop {
            if let Some(drawn) = stages(dice) {
                break drawn;
            }
        };
        let mut identifiers = IDENTIFIERS;
        dice.shuffle(&mut identifiers);
        let styles = (0..stages.len()).map(|_| dice.below(2)).collect();
        let mut program = Self {
            question: String::new(),
            name: dice.pick(&["solve", "f", "compute", "process", "run"]),
            list: dice.pick(&["a", "arr", "values", "lst"]),
            element: dice.pick(&["x", "v", "n", "t"]),
            blank_after: dice.chance(40).then(|| dice.below(stages.len() - 1)),
            fenced: dice.chance(70),
            identifiers: identifiers.to_vec(),
            stages,
            styles,
            results,
        };
        program.question = program.describe(dice);
        program
    }

    fn describe(&self, dice: &mut Dice) -> String {
        let numbered = |(place, stage): (usize, &ListOperation)| format!("{}. {}", place + 1, sentence(&stage.what()));
        let stages = self.stages.iter().enumerate().map(numbered).collect::<Vec<_>>().join("\n");
        let texts = [
            ("list", self.list),
            ("name", self.name),
            ("things", dice.pick(&THINGS.split(" | ").collect::<Vec<_>>())),
            ("stages", &stages),
            ("example", &shown(&self.results[0], false)),
            ("result", &shown(&self.results[self.stages.len()], true)),
        ];
        fill(dice.pick(&TASK), &texts)
    }

    /// Returns the function as code without fences, for the right stages or those of a detour.
    fn code(&self, stages: &[ListOperation], identifiers: &[&'static str]) -> Vec<String> {
        let mut lines = vec![format!("def {}({}):", self.name, self.list)];
        for place in 0..stages.len() {
            lines.push(format!("    {}", self.line(stages, identifiers, place)));
        }
        lines.push(format!("    return {}", identifiers[stages.len() - 1]));
        lines
    }

    pub(crate) fn solution(&self) -> String {
        self.code(&self.stages, &self.identifiers).join("\n")
    }

    fn line(&self, stages: &[ListOperation], identifiers: &[&'static str], place: usize) -> String {
        let list = if place == 0 { self.list } else { identifiers[place - 1] };
        stages[place].code(identifiers[place], list, self.element, self.styles[place])
    }

    /// Describes one stage: with its line inside the sentence or below it, or only with its result.
    fn stage(
        &self,
        stages: &[ListOperation],
        identifiers: &[&'static str],
        place: usize,
        result: &[i64],
        say: &mut Say,
    ) -> String {
        let is_last = place + 1 == self.stages.len();
        let (what, result) = (stages[place].what(), format!("`{}`", shown(result, is_last)));
        let line = self.line(stages, identifiers, place);
        let quoted = format!("`{line}`");
        let texts = [("what", &*what), ("result", &*result), ("code", &*quoted)];
        match say.dice.weighted(&[12, 5, 3]) {
            0 => fill(say.dice.pick(&phrases::INLINE_CODE), &texts),
            1 => format!("{}:\n{}", fill(say.dice.pick(&phrases::BLOCK_CODE), &texts), block(&[line], say)),
            _ => {
                let by_hand = fill(say.dice.pick(&phrases::BY_HAND), &texts);
                format!("{by_hand} — {}", fill(say.dice.pick(&phrases::INLINE_CODE), &texts))
            }
        }
    }

    fn whole(&self, mut lines: Vec<String>, say: &mut Say) -> String {
        if let Some(place) = self.blank_after {
            lines.insert(place + 2, String::new());
        }
        let sentence = say.dice.pick(&phrases::PROGRAM);
        let code = if self.fenced { format!("```python\n{}\n```", lines.join("\n")) } else { lines.join("\n") };
        format!("{sentence}:\n{code}")
    }

    fn quoted_result(&self, list: &[i64]) -> String {
        format!("`{}`", shown(list, true))
    }
}

impl Work for Program {
    fn derivations(&self) -> usize {
        self.stages.len()
    }

    fn derive(&self, place: usize, say: &mut Say) -> String {
        self.stage(&self.stages, &self.identifiers, place, &self.results[place + 1], say)
    }

    fn detour(&self, place: usize, length: usize, say: &mut Say) -> Vec<String> {
        let right = self.stages[place];
        let is_last = place + 1 == self.stages.len();
        let drawn: Vec<_> = (0..20)
            .map(|_| if is_last { ListOperation::draw_last(&mut say.dice) } else { ListOperation::draw(&mut say.dice) })
            .collect();
        let list = &self.results[place];
        let is_wrong = |stage: &&ListOperation| {
            let result = stage.apply(list);
            **stage != right && (result.len() > 2 || is_last) && !self.results.contains(&result)
        };
        let Some(wrong) = drawn.iter().find(is_wrong) else { return Vec::new() };
        let mut stages = self.stages.clone();
        stages[place] = *wrong;
        let mut identifiers = self.identifiers[..stages.len()].to_vec();
        let (mut texts, mut result) = (Vec::new(), list.clone());
        for next in place..stages.len() {
            identifiers[next] = self.identifiers[stages.len() + next];
            result = stages[next].apply(&result);
            if self.results.contains(&result) || (result.len() < 3 && next + 1 < stages.len()) {
                break;
            }
            if texts.len() < length {
                texts.push(self.stage(&stages, &identifiers, next, &result, say));
            }
        }
        let result = stages.iter().fold(self.results[0].clone(), |list, stage| stage.apply(&list));
        let is_other = result != self.results[stages.len()];
        match say.dice.below(8) {
            0 | 1 if is_other => texts.push(self.whole(self.code(&stages, &identifiers), say)),
            2 | 3 if is_other => {
                let template = say.dice.pick(&phrases::CONCLUDE);
                texts.push(fill(template, &[("answer", &self.quoted_result(&result))]));
            }
            _ => {}
        }
        texts
    }

    fn recheck(&self, done: usize, say: &mut Say) -> String {
        if done > self.stages.len() && say.dice.chance(50) {
            return self.whole(self.code(&self.stages, &self.identifiers), say);
        }
        let done = done.min(self.stages.len());
        let place = say.dice.below(done).max(say.dice.below(done));
        self.check(place, say)
    }

    fn plan(&self, place: usize, say: &mut Say) -> String {
        let name = format!("`{}`", self.identifiers[place]);
        fill(say.dice.pick(&phrases::PLAN), &[("name", &name)])
    }

    fn restate(&self, done: usize, say: &mut Say) -> String {
        if say.dice.chance(50) {
            let what = self.stages[say.dice.below(self.stages.len())].what();
            return fill(say.dice.pick(&phrases::TASK), &[("what", &what)]);
        }
        let (name, value) = self.known(done, &mut say.dice);
        let texts = [("name", &*format!("`{name}`")), ("value", &*format!("`{value}`")), ("unit", "")];
        fill(say.dice.pick(&phrases::RESTATE), &texts)
    }

    fn known(&self, done: usize, dice: &mut Dice) -> (String, String) {
        let place = dice.below(done.min(self.stages.len()) + 1);
        let name = if place == 0 { self.list } else { self.identifiers[place - 1] };
        (name.to_string(), shown(&self.results[place], place == self.stages.len()))
    }

    fn topic(&self, place: usize) -> String {
        self.identifiers[place.min(self.stages.len() - 1)].to_string()
    }

    fn conclude(&self, say: &mut Say) -> Vec<String> {
        let mut texts = Vec::new();
        if say.dice.chance(25) {
            texts.push(self.confirm(say));
        }
        texts.push(self.whole(self.code(&self.stages, &self.identifiers), say));
        texts
    }

    fn confirm(&self, say: &mut Say) -> String {
        let answer = self.quoted_result(&self.results[self.stages.len()]);
        fill(say.dice.pick(&phrases::CONCLUDE), &[("answer", &answer)])
    }
}

/// Draws stages and their results for an example. None if they leave too few elements.
fn stages(dice: &mut Dice) -> Option<(Vec<ListOperation>, Vec<Vec<i64>>)> {
    let count = dice.between(4, 6) as usize;
    let mut stages: Vec<_> = (0..count).map(|_| ListOperation::draw(dice)).collect();
    stages.push(ListOperation::draw_last(dice));
    let length = dice.between(5, 7) as usize;
    let mut results: Vec<Vec<i64>> = vec![(0..length).map(|_| dice.between(1, 99)).collect()];
    for stage in &stages {
        let next = stage.apply(&results[results.len() - 1]);
        let is_last = results.len() == stages.len();
        let is_idle = results.contains(&next);
        if is_idle || (next.len() < 3 && !is_last) || next.iter().any(|x| *x > 9_999) {
            return None;
        }
        results.push(next);
    }
    Some((stages, results))
}

fn block(lines: &[String], say: &mut Say) -> String {
    if say.dice.chance(60) {
        return format!("```python\n{}\n```", lines.join("\n"));
    }
    lines.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn shown(list: &[i64], as_number: bool) -> String {
    let numbers: Vec<_> = list.iter().map(i64::to_string).collect();
    if as_number { numbers.join(", ") } else { format!("[{}]", numbers.join(", ")) }
}

fn sentence(text: &str) -> String {
    capital(text) + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;

    #[test]
    fn the_stages_take_the_example_to_the_result_that_the_question_names() {
        for row in 0..200 {
            let program = Program::draw(&mut Dice::new(7, row));
            let result = program.stages.iter().fold(program.results[0].clone(), |list, stage| stage.apply(&list));
            assert_eq!(numbers(&program.question).last(), result.last(), "{}", program.question);
            let code = program.solution();
            let names: Vec<_> =
                code.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.trim()).collect();
            assert_eq!(names.len(), program.stages.len());
            // Each line sets a new name from the previous one, and the last is returned.
            let uses: Vec<_> = code.lines().skip(1).collect();
            for (name, line) in [program.list].iter().chain(&names).zip(uses) {
                let used = line.rsplit(" = ").next().unwrap_or(line);
                assert!(used.split(|c: char| !c.is_alphanumeric()).any(|word| word == *name), "{line}");
            }
        }
    }
}
