//! Quantities that are computed from each other: the structure of a problem, independent of its story.

use crate::dice::Dice;
use crate::voice::{fill, phrases};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Quotient,
    Remainder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expr {
    Quantity(usize),
    Number(i64),
    Apply(Op, Box<Expr>, Box<Expr>),
}

#[derive(Debug, Clone)]
pub(crate) struct Quantity {
    pub name: String,
    pub unit: &'static str,
    pub value: i64,
    pub from: Option<Expr>,
}

#[derive(Debug, Clone)]
pub(crate) enum Goal {
    Value(usize),
    TimesPi(usize),
    Clock(usize, usize),
    Ranking(Vec<(String, usize)>),
}

/// A question, the quantities that lead from its numbers to the answer, and the answer.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub question: String,
    pub quantities: Vec<Quantity>,
    pub goal: Goal,
}

impl Expr {
    pub(crate) fn value(&self, values: &[i64]) -> Option<i64> {
        match self {
            Expr::Quantity(place) => values.get(*place).copied(),
            Expr::Number(number) => Some(*number),
            Expr::Apply(op, left, right) => {
                let (left, right) = (left.value(values)?, right.value(values)?);
                let value = match op {
                    Op::Add => left.checked_add(right)?,
                    Op::Subtract => left - right,
                    Op::Multiply => left.checked_mul(right)?,
                    Op::Divide => (right > 0 && left % right == 0).then(|| left / right)?,
                    Op::Quotient => left.checked_div(right)?,
                    Op::Remainder => left.checked_rem(right)?,
                };
                (value >= 0).then_some(value)
            }
        }
    }

    pub(crate) fn uses(&self, place: usize) -> bool {
        match self {
            Expr::Quantity(used) => *used == place,
            Expr::Number(_) => false,
            Expr::Apply(_, left, right) => left.uses(place) || right.uses(place),
        }
    }

    pub(crate) fn text(&self, values: &[i64], signs: &Signs) -> String {
        match self {
            Expr::Quantity(place) => values[*place].to_string(),
            Expr::Number(number) => number.to_string(),
            Expr::Apply(op, left, right) => {
                let (left_text, right_text) = (left.text(values, signs), right.text(values, signs));
                if *op == Op::Quotient {
                    return format!("⌊{left_text} {} {right_text}⌋", signs.of(Op::Divide));
                }
                let left_text = if left.binds() < op.binds() { format!("({left_text})") } else { left_text };
                let right_text = if right.binds() <= op.binds() { format!("({right_text})") } else { right_text };
                format!("{left_text} {} {right_text}", signs.of(*op))
            }
        }
    }

    fn binds(&self) -> u8 {
        match self {
            Expr::Apply(op, ..) => op.binds(),
            _ => 3,
        }
    }
}

impl Op {
    pub(crate) fn is_whole(self) -> bool {
        !matches!(self, Op::Quotient | Op::Remainder)
    }

    fn binds(self) -> u8 {
        match self {
            Op::Add | Op::Subtract => 1,
            Op::Multiply | Op::Divide | Op::Quotient => 2,
            Op::Remainder => 0,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Signs {
    multiply: &'static str,
    divide: &'static str,
    subtract: &'static str,
    is_latex: bool,
}

impl Signs {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let divide = dice.pick(&["/", "/", "÷", ":"]);
        let multiply = dice.pick(&["×", "×", "*", "\\times", "·"]);
        let subtract = dice.pick(&["-", "-", "−"]);
        let is_latex = multiply == "\\times";
        Self { multiply, divide, subtract, is_latex }
    }

    /// Fills a template. `expr` becomes a formula unless the template already makes it one.
    pub(crate) fn in_math(&self, template: &str, texts: &[(&str, &str)]) -> String {
        let is_formula = ["\\[", "\\(", "$"].iter().any(|sign| template.contains(sign));
        let expr = texts.iter().find(|(key, _)| *key == "expr").map_or("", |(_, text)| *text);
        let formula = format!("\\( {expr} \\)");
        if self.is_latex && !is_formula {
            return fill(template, &[&[("expr", formula.as_str())], texts].concat());
        }
        fill(template, texts)
    }

    fn of(&self, op: Op) -> &'static str {
        match op {
            Op::Add => "+",
            Op::Subtract => self.subtract,
            Op::Multiply => self.multiply,
            Op::Divide | Op::Quotient => self.divide,
            Op::Remainder if self.is_latex => "\\bmod",
            Op::Remainder => "mod",
        }
    }
}

impl Problem {
    pub(crate) fn values(&self) -> Vec<i64> {
        self.quantities.iter().map(|quantity| quantity.value).collect()
    }

    pub(crate) fn answer(&self, values: &[i64]) -> String {
        match &self.goal {
            Goal::Value(place) => values[*place].to_string(),
            Goal::TimesPi(place) => format!("{}π", values[*place]),
            Goal::Clock(hour, minute) => format!("{:02}:{:02}", values[*hour], values[*minute]),
            Goal::Ranking(names) => {
                let mut ranked: Vec<_> = names.iter().map(|(name, place)| (values[*place], name.as_str())).collect();
                ranked.sort_unstable();
                ranked.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

pub(crate) struct Draft<'a> {
    pub dice: &'a mut Dice,
    quantities: Vec<Quantity>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(dice: &'a mut Dice) -> Self {
        Self { dice, quantities: Vec::new() }
    }

    pub(crate) fn given(&mut self, name: impl Into<String>, unit: &'static str, value: i64) -> usize {
        self.quantities.push(Quantity { name: name.into(), unit, value, from: None });
        self.quantities.len() - 1
    }

    /// Adds a number computed from earlier ones. Returns its index, or `None` if it is not whole and non-negative. Some
    /// products of larger numbers are computed in parts.
    pub(crate) fn derived(&mut self, name: impl Into<String>, unit: &'static str, from: Expr) -> Option<usize> {
        let name = name.into();
        let value = from.value(&self.values())?;
        let from = match &from {
            Expr::Apply(Op::Multiply, left, right) if self.dice.chance(50) => {
                self.in_parts(&name, unit, left, right).unwrap_or(from)
            }
            _ => from,
        };
        self.quantities.push(Quantity { name, unit, value, from: Some(from) });
        Some(self.quantities.len() - 1)
    }

    fn in_parts(&mut self, name: &str, unit: &'static str, left: &Expr, right: &Expr) -> Option<Expr> {
        let is_given = |expr: &Expr| matches!(expr, Expr::Quantity(place) if self.quantities[*place].from.is_none());
        // The split factor no longer occurs, so it must not be a derived one.
        let (left, right) = if is_given(left) { (right, left) } else { (left, right) };
        let values = self.values();
        let (factor, ones) = (right.value(&values)?, right.value(&values)? % 10);
        if factor < 11 || ones == 0 || left.value(&values)? < 6 {
            return None;
        }
        let parts = [(phrases::TENS_PART, factor - ones), (phrases::ONES_PART, ones)].map(|(template, part)| {
            let from = left.clone() * Expr::Number(part);
            let value = from.value(&values).unwrap_or_default();
            let name = fill(template, &[("name", name)]);
            self.quantities.push(Quantity { name, unit, value, from: Some(from) });
            Expr::Quantity(self.quantities.len() - 1)
        });
        let [tens, ones] = parts;
        Some(tens + ones)
    }

    fn values(&self) -> Vec<i64> {
        self.quantities.iter().map(|quantity| quantity.value).collect()
    }

    pub(crate) fn value(&self, place: usize) -> i64 {
        self.quantities[place].value
    }

    pub(crate) fn ask(self, question: String, goal: Goal) -> Problem {
        Problem { question, quantities: self.quantities, goal }
    }
}

pub(crate) fn at(place: usize) -> Expr {
    Expr::Quantity(place)
}

pub(crate) fn number(value: i64) -> Expr {
    Expr::Number(value)
}

impl Expr {
    pub(crate) fn apply(op: Op, left: Expr, right: Expr) -> Expr {
        Expr::Apply(op, Box::new(left), Box::new(right))
    }

    pub(crate) fn modulo(self, right: Expr) -> Expr {
        Expr::apply(Op::Remainder, self, right)
    }

    pub(crate) fn quotient(self, right: Expr) -> Expr {
        Expr::apply(Op::Quotient, self, right)
    }
}

impl std::ops::Add for Expr {
    type Output = Expr;
    fn add(self, right: Expr) -> Expr {
        Expr::apply(Op::Add, self, right)
    }
}

impl std::ops::Sub for Expr {
    type Output = Expr;
    fn sub(self, right: Expr) -> Expr {
        Expr::apply(Op::Subtract, self, right)
    }
}

impl std::ops::Mul for Expr {
    type Output = Expr;
    fn mul(self, right: Expr) -> Expr {
        Expr::apply(Op::Multiply, self, right)
    }
}

impl std::ops::Div for Expr {
    type Output = Expr;
    fn div(self, right: Expr) -> Expr {
        Expr::apply(Op::Divide, self, right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_values_and_read_as_they_bind() {
        let signs = Signs { multiply: "×", divide: "/", subtract: "-", is_latex: false };
        let expr = (at(0) * (at(1) + number(2))).modulo(number(7));
        assert_eq!(expr.value(&[3, 4]), Some(4));
        assert_eq!(expr.text(&[3, 4], &signs), "3 × (4 + 2) mod 7");
        let expr = at(0) - (at(1) - number(1));
        assert_eq!((expr.value(&[9, 4]), expr.text(&[9, 4], &signs)), (Some(6), "9 - (4 - 1)".to_string()));
        let expr = at(0).quotient(at(1));
        assert_eq!((expr.value(&[9, 4]), expr.text(&[9, 4], &signs)), (Some(2), "⌊9 / 4⌋".to_string()));
        assert_eq!((at(0) / at(1)).value(&[7, 2]), None);
        assert_eq!((at(1) - at(0)).value(&[7, 2]), None);
    }
}
