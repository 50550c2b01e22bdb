//! Derivations of quantities.

use crate::dice::Dice;
use crate::quantities::{Expr, Goal, Op, Problem, Quantity, at, number};
use crate::voice::{fill, phrases};
use crate::work::{Say, Work};

pub(crate) struct Sums<'a> {
    problem: &'a Problem,
    values: Vec<i64>,
    derived: Vec<usize>,
}

impl<'a> Sums<'a> {
    /// Orders the quantities of a problem as derivations, in one of the possible orders.
    pub(crate) fn new(problem: &'a Problem, dice: &mut Dice) -> Self {
        let from = |place: usize| problem.quantities[place].from.as_ref();
        let mut left: Vec<_> = (0..problem.quantities.len()).filter(|place| from(*place).is_some()).collect();
        let mut derived = Vec::new();
        while !left.is_empty() {
            let is_ready = |place: &usize| !left.iter().any(|other| from(*place).is_some_and(|from| from.uses(*other)));
            let ready: Vec<_> = left.iter().copied().filter(is_ready).collect();
            let next = if dice.chance(75) { ready[0] } else { ready[dice.below(ready.len())] };
            left.retain(|place| *place != next);
            derived.push(next);
        }
        Self { problem, values: problem.values(), derived }
    }

    fn from(&self, place: usize) -> Expr {
        self.problem.quantities[place].from.clone().unwrap_or(Expr::Quantity(place))
    }

    fn sentence(&self, place: usize, from: &Expr, values: &[i64], say: &mut Say) -> String {
        let quantity = &self.problem.quantities[place];
        let (expr, value) = (from.text(values, &say.signs), from.value(values).unwrap_or_default().to_string());
        let unit = unit(quantity);
        let mut texts = vec![("name", &*quantity.name), ("expr", &*expr), ("value", &*value), ("unit", &*unit)];
        let by_operation = say.dice.chance(35);
        if let (Expr::Apply(op, left, right), true) = (from, by_operation)
            && let (Expr::Quantity(left), Expr::Quantity(right)) = (&**left, &**right)
        {
            let templates = match op {
                Op::Add => &phrases::ADD,
                Op::Subtract => &phrases::SUBTRACT,
                Op::Multiply => &phrases::MULTIPLY,
                Op::Divide => &phrases::DIVIDE,
                Op::Quotient | Op::Remainder => {
                    return say.signs.in_math(say.dice.pick(&phrases::DERIVE), &texts);
                }
            };
            texts.extend([("a", &*self.problem.quantities[*left].name), ("b", &*self.problem.quantities[*right].name)]);
            return say.signs.in_math(say.dice.pick(templates), &texts);
        }
        say.signs.in_math(say.dice.pick(&phrases::DERIVE), &texts)
    }

    fn mistake(&self, from: &Expr, known: &[usize], say: &mut Say) -> Expr {
        match from {
            Expr::Quantity(_) => at(known[say.dice.below(known.len())]),
            Expr::Number(value) => number(value + say.dice.between(1, 9) * if value % 10 == 0 { 10 } else { 1 }),
            Expr::Apply(op, left, right) => {
                match say.dice.weighted(if op.is_whole() { &[4, 3, 3] } else { &[0, 1, 1] }) {
                    0 => {
                        // Sums are mostly mistaken for differences, and products for quotients.
                        let others = match op {
                            Op::Add => [Op::Subtract, Op::Subtract, Op::Multiply, Op::Divide],
                            Op::Subtract => [Op::Add, Op::Add, Op::Multiply, Op::Divide],
                            Op::Multiply => [Op::Add, Op::Subtract, Op::Divide, Op::Divide],
                            _ => [Op::Add, Op::Subtract, Op::Multiply, Op::Multiply],
                        };
                        Expr::apply(others[say.dice.below(4)], (**left).clone(), (**right).clone())
                    }
                    1 => Expr::apply(*op, self.mistake(left, known, say), (**right).clone()),
                    _ => Expr::apply(*op, (**left).clone(), self.mistake(right, known, say)),
                }
            }
        }
    }

    /// Returns the problem with one mistake that leads to another answer. `None` if the search fails.
    pub(crate) fn mistaken(&self, say: &mut Say) -> Option<Problem> {
        for _ in 0..40 {
            let mut problem = self.problem.clone();
            let derivation = say.dice.below(self.derived.len());
            let wrong = self.derived[derivation];
            problem.quantities[wrong].from = Some(self.mistake(&self.from(wrong), &self.known(derivation), say));
            let is_whole = self.derived.iter().all(|place| {
                let values = problem.values();
                let value = problem.quantities[*place].from.as_ref().and_then(|from| from.value(&values));
                problem.quantities[*place].value = value.unwrap_or_default();
                value.is_some_and(|value| (2..10_000_000).contains(&value))
            });
            if is_whole && problem.answer(&problem.values()) != self.problem.answer(&self.values) {
                return Some(problem);
            }
        }
        None
    }

    /// Writes the response to the user: the last `lines` derivations and the answer.
    pub(crate) fn response(&self, lines: usize, say: &mut Say) -> String {
        let mut texts = vec![say.dice.pick(&phrases::RESPONSE).to_string()];
        for place in &self.derived[self.derived.len().saturating_sub(lines)..] {
            let quantity = &self.problem.quantities[*place];
            let unit = unit(quantity);
            let (expr, value) = (self.from(*place).text(&self.values, &say.signs), quantity.value.to_string());
            let keys = [("name", &*quantity.name), ("expr", &*expr), ("value", &*value), ("unit", &*unit)];
            texts.push(say.signs.in_math(say.dice.pick(&phrases::RESPONSE_LINE), &keys));
        }
        let answer = self.problem.answer(&self.values);
        let end = fill(say.dice.pick(&phrases::RESPONSE_END), &[("answer", &answer)]);
        format!("{}\n\n{end}", texts.join("\n"))
    }

    /// Returns the indices of the given quantities and of the first `done` derivations.
    fn known(&self, done: usize) -> Vec<usize> {
        let places = 0..self.values.len();
        places.filter(|place| !self.derived.contains(place) || self.derived[..done].contains(place)).collect()
    }

    fn draw_known(&self, done: usize, dice: &mut Dice) -> &Quantity {
        let given = self.problem.quantities.iter().filter(|quantity| quantity.from.is_none());
        let known = self.derived[..done.min(self.derived.len())].iter().map(|place| &self.problem.quantities[*place]);
        let all: Vec<_> = given.chain(known).collect();
        all[dice.below(all.len())]
    }

    fn is_new(&self, value: i64, values: &[i64]) -> bool {
        (2..10_000_000).contains(&value) && !self.values.contains(&value) && !values.contains(&value)
    }

    /// Returns the answer after deriving the `wrong` quantities with these values, if it is wrong.
    fn wrong_answer(&self, wrong: &[usize], mut values: Vec<i64>) -> Option<String> {
        let last = values[wrong[wrong.len() - 1]];
        let answer = match &self.problem.goal {
            Goal::Value(_) => last.to_string(),
            Goal::TimesPi(_) => format!("{last}π"),
            Goal::Clock(..) | Goal::Ranking(_) => {
                for place in self.derived.iter().copied().filter(|place| !wrong.contains(place)) {
                    values[place] = self.from(place).value(&values)?;
                }
                self.problem.answer(&values)
            }
        };
        (answer != self.problem.answer(&self.values)).then_some(answer)
    }
}

impl Work for Sums<'_> {
    fn derivations(&self) -> usize {
        self.derived.len()
    }

    fn derive(&self, place: usize, say: &mut Say) -> String {
        let place = self.derived[place];
        self.sentence(place, &self.from(place), &self.values, say)
    }

    fn detour(&self, place: usize, length: usize, say: &mut Say) -> Vec<String> {
        let first = self.derived[place];
        let mut values = self.values.clone();
        let mut known = self.known(place);
        let mistakes: Vec<_> = (0..20).map(|_| self.mistake(&self.from(first), &known, say)).collect();
        let found = mistakes.iter().find_map(|from| {
            let value = from.value(&self.values).filter(|value| self.is_new(*value, &values))?;
            Some((from, value))
        });
        let Some((from, value)) = found else { return Vec::new() };
        let mut texts = vec![self.sentence(first, from, &self.values, say)];
        values[first] = value;
        let mut wrong = vec![first];
        known.push(first);
        for next in self.derived[place + 1..].iter().copied() {
            let from = self.from(next);
            let builds_on = wrong.iter().any(|place| from.uses(*place));
            if texts.len() == length || !builds_on || self.derived.iter().any(|d| from.uses(*d) && !known.contains(d)) {
                continue;
            }
            let Some(value) = from.value(&values).filter(|value| self.is_new(*value, &values)) else { break };
            texts.push(self.sentence(next, &from, &values, say));
            values[next] = value;
            wrong.push(next);
            known.push(next);
        }
        let concludes = say.dice.chance(60);
        let template = say.dice.pick(&phrases::CONCLUDE);
        if let (true, Some(answer)) = (concludes, self.wrong_answer(&wrong, values)) {
            texts.push(fill(template, &[("answer", &answer)]));
        }
        texts
    }

    fn recheck(&self, done: usize, say: &mut Say) -> String {
        let done = done.min(self.derived.len());
        // Prefers recent derivations.
        let place = (0..3).map(|_| say.dice.below(done)).max().unwrap_or_default();
        self.check(place, say)
    }

    fn check(&self, place: usize, say: &mut Say) -> String {
        let place = self.derived[place];
        let from = self.from(place);
        let Expr::Apply(op, left, right) = &from else { return self.sentence(place, &from, &self.values, say) };
        let (left, right) = ((**left).clone(), (**right).clone());
        let inverse = match op {
            Op::Add => Some(Op::Subtract),
            Op::Subtract => Some(Op::Add),
            Op::Multiply => Some(Op::Divide),
            Op::Divide => Some(Op::Multiply),
            Op::Quotient | Op::Remainder => None,
        };
        // Quotients are rare among derivations, so they must be rare here.
        let inverts = say.dice.chance(if *op == Op::Multiply { 18 } else { 45 });
        match (inverse, &left) {
            (Some(inverse), Expr::Quantity(operand)) if inverts => {
                self.sentence(*operand, &Expr::apply(inverse, at(place), right), &self.values, say)
            }
            (_, Expr::Quantity(_)) if matches!(op, Op::Add | Op::Multiply) && say.dice.chance(33) => {
                self.sentence(place, &Expr::apply(*op, right, left), &self.values, say)
            }
            _ => self.sentence(place, &from, &self.values, say),
        }
    }

    fn plan(&self, place: usize, say: &mut Say) -> String {
        let name = &self.problem.quantities[self.derived[place]].name;
        fill(say.dice.pick(&phrases::PLAN), &[("name", name)])
    }

    fn restate(&self, done: usize, say: &mut Say) -> String {
        let quantity = self.draw_known(done, &mut say.dice);
        let unit = unit(quantity);
        let texts = [("name", &*quantity.name), ("value", &*quantity.value.to_string()), ("unit", &*unit)];
        fill(say.dice.pick(&phrases::RESTATE), &texts)
    }

    fn known(&self, done: usize, dice: &mut Dice) -> (String, String) {
        let quantity = self.draw_known(done, dice);
        (quantity.name.clone(), quantity.value.to_string())
    }

    fn topic(&self, place: usize) -> String {
        let name = &self.problem.quantities[self.derived[place.min(self.derived.len() - 1)]].name;
        name.strip_prefix("the ").unwrap_or(name).to_string()
    }

    fn confirm(&self, say: &mut Say) -> String {
        fill(say.dice.pick(&phrases::CONCLUDE), &[("answer", &self.problem.answer(&self.values))])
    }
}

fn unit(quantity: &Quantity) -> String {
    if quantity.unit.is_empty() { String::new() } else { format!(" {}", quantity.unit) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::{Family, computed};
    use crate::testing::numbers;

    fn over_problems(check: impl Fn(&Sums, &mut Say)) {
        for (row, family) in Family::COMPUTED.iter().cycle().take(240).enumerate() {
            let mut dice = Dice::new(11, row as u64);
            let problem = computed(*family, &mut dice);
            let sums = Sums::new(&problem, &mut dice);
            check(&sums, &mut Say::new(dice));
        }
    }

    #[test]
    fn each_derivation_uses_what_is_there_and_is_used() {
        over_problems(|sums, _| {
            let goal: Vec<usize> = match &sums.problem.goal {
                Goal::Value(place) | Goal::TimesPi(place) => vec![*place],
                Goal::Clock(hour, minute) => vec![*hour, *minute],
                Goal::Ranking(names) => names.iter().map(|(_, place)| *place).collect(),
            };
            for (done, place) in sums.derived.iter().enumerate() {
                let known = sums.known(done);
                assert!((0..sums.values.len()).all(|used| !sums.from(*place).uses(used) || known.contains(&used)));
                assert_eq!(sums.from(*place).value(&sums.values), Some(sums.values[*place]));
                let is_used = sums.derived.iter().any(|later| sums.from(*later).uses(*place));
                assert!(is_used || goal.contains(place), "{}", sums.problem.quantities[*place].name);
            }
        });
    }

    #[test]
    fn a_detour_derives_new_values_from_known_ones() {
        over_problems(|sums, say| {
            for place in 0..sums.derivations() {
                let texts = sums.detour(place, 3, say);
                for text in &texts {
                    let is_new = |number: &i64| !sums.values.contains(number);
                    let answer = sums.problem.answer(&sums.values);
                    assert!(numbers(text).iter().any(is_new) || !text.contains(&answer), "{text}");
                }
                let known = sums.known(place);
                let unknown =
                    sums.derived.iter().filter(|place| !known.contains(place)).map(|place| sums.values[*place]);
                let given: Vec<_> = known.iter().map(|place| sums.values[*place]).collect();
                let unknown: Vec<_> = unknown.filter(|value| *value > 300 && !given.contains(value)).collect();
                let found = texts.iter().flat_map(|text| numbers(text)).find(|number| unknown.contains(number));
                assert_eq!(found, None, "{texts:?}");
            }
        });
    }

    #[test]
    fn a_mistaken_problem_has_another_answer() {
        over_problems(|sums, say| {
            if let Some(mistaken) = sums.mistaken(say) {
                assert_ne!(mistaken.answer(&mistaken.values()), sums.problem.answer(&sums.values));
            }
        });
    }
}
