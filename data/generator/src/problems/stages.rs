//! The stages of a program that processes a list.

use crate::dice::Dice;
use crate::voice::fill;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListOperation {
    Divisible(i64),
    NotDivisible(i64),
    Above(i64),
    Below(i64),
    AddEach(i64),
    TimesEach(i64),
    ModuloEach(i64),
    SquareEach,
    Ascending,
    Descending,
    Reverse,
    First(i64),
    Skip(i64),
    EverySecond,
    RunningTotals,
    Gaps,
    // The last stage of a program: a list of one number.
    Sum,
    Largest,
    Smallest,
    Count,
    SumModulo(i64),
    Range,
}

impl ListOperation {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        match dice.below(16) {
            0 => Self::Divisible(dice.between(2, 5)),
            1 => Self::NotDivisible(dice.between(2, 6)),
            2 => Self::Above(dice.between(4, 25)),
            3 => Self::Below(dice.between(40, 90)),
            4 => Self::AddEach(dice.between(2, 30)),
            5 => Self::TimesEach(dice.between(2, 9)),
            6 => Self::ModuloEach(dice.between(11, 60)),
            7 => Self::SquareEach,
            8 => Self::Ascending,
            9 => Self::Descending,
            10 => Self::Reverse,
            11 => Self::First(dice.between(3, 6)),
            12 => Self::Skip(dice.between(1, 3)),
            13 => Self::EverySecond,
            14 => Self::RunningTotals,
            _ => Self::Gaps,
        }
    }

    pub(crate) fn draw_last(dice: &mut Dice) -> Self {
        match dice.below(6) {
            0 => Self::Sum,
            1 => Self::Largest,
            2 => Self::Smallest,
            3 => Self::Count,
            4 => Self::SumModulo(dice.between(7, 97)),
            _ => Self::Range,
        }
    }

    pub(crate) fn apply(&self, list: &[i64]) -> Vec<i64> {
        let each = |change: &dyn Fn(i64) -> i64| list.iter().map(|x| change(*x)).collect();
        let keep = |test: &dyn Fn(i64) -> bool| list.iter().copied().filter(|x| test(*x)).collect();
        let sum = || list.iter().sum::<i64>();
        let largest = || list.iter().max().copied().unwrap_or_default();
        let smallest = || list.iter().min().copied().unwrap_or_default();
        match *self {
            Self::Divisible(k) => keep(&|x| x % k == 0),
            Self::NotDivisible(k) => keep(&|x| x % k != 0),
            Self::Above(k) => keep(&|x| x > k),
            Self::Below(k) => keep(&|x| x < k),
            Self::AddEach(k) => each(&|x| x + k),
            Self::TimesEach(k) => each(&|x| x * k),
            Self::ModuloEach(k) => each(&|x| x.rem_euclid(k)),
            Self::SquareEach => each(&|x| x * x),
            Self::Ascending => sorted(list),
            Self::Descending => sorted(list).into_iter().rev().collect(),
            Self::Reverse => list.iter().rev().copied().collect(),
            Self::First(n) => list.iter().take(n as usize).copied().collect(),
            Self::Skip(n) => list.iter().skip(n as usize).copied().collect(),
            Self::EverySecond => list.iter().step_by(2).copied().collect(),
            Self::RunningTotals => (1..=list.len()).map(|count| list[..count].iter().sum()).collect(),
            Self::Gaps => list.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect(),
            Self::Sum => vec![sum()],
            Self::Largest => vec![largest()],
            Self::Smallest => vec![smallest()],
            Self::Count => vec![list.len() as i64],
            Self::SumModulo(k) => vec![sum().rem_euclid(k)],
            Self::Range => vec![largest() - smallest()],
        }
    }

    /// The number in its words and its code, if they have one.
    fn number(&self) -> i64 {
        match *self {
            Self::Divisible(k) | Self::NotDivisible(k) | Self::Above(k) | Self::Below(k) => k,
            Self::AddEach(k) | Self::TimesEach(k) | Self::ModuloEach(k) | Self::SumModulo(k) => k,
            Self::First(k) | Self::Skip(k) => k,
            _ => 0,
        }
    }

    pub(crate) fn what(&self) -> String {
        let words = match self {
            Self::Divisible(_) => "keep only the numbers divisible by {k}",
            Self::NotDivisible(_) => "remove the multiples of {k}",
            Self::Above(_) => "keep the numbers above {k}",
            Self::Below(_) => "keep the numbers below {k}",
            Self::AddEach(_) => "add {k} to every number",
            Self::TimesEach(_) => "multiply every number by {k}",
            Self::ModuloEach(_) => "reduce every number modulo {k}",
            Self::SquareEach => "square every number",
            Self::Ascending => "sort the list upwards",
            Self::Descending => "sort the list downwards",
            Self::Reverse => "reverse the list",
            Self::First(_) => "take the first {k} numbers",
            Self::Skip(_) => "skip the first {k} of the list",
            Self::EverySecond => "take every second number, from the first",
            Self::RunningTotals => "form the running totals",
            Self::Gaps => "form the gaps between neighbours",
            Self::Sum => "add up what is left",
            Self::Largest => "find the largest number (0 if there is none)",
            Self::Smallest => "find the smallest number (0 if there is none)",
            Self::Count => "count what is left",
            Self::SumModulo(_) => "add up the rest modulo {k}",
            Self::Range => "subtract the smallest from the largest (0 for an empty list)",
        };
        fill(words, &[("k", &self.number().to_string())])
    }

    /// Returns a line that assigns the result to `out`, in style 0 or 1.
    pub(crate) fn code(&self, out: &str, list: &str, x: &str, style: usize) -> String {
        let enclosed = |[first, second]: [&str; 2]| match self {
            Self::Divisible(_) | Self::NotDivisible(_) | Self::Above(_) | Self::Below(_) => [
                format!("[{{x}} for {{x}} in {{list}} if {first}]"),
                format!("list(filter(lambda {{x}}: {second}, {{list}}))"),
            ],
            Self::AddEach(_) | Self::TimesEach(_) | Self::ModuloEach(_) => {
                [format!("[{first} for {{x}} in {{list}}]"), format!("list(map(lambda {{x}}: {second}, {{list}}))")]
            }
            _ => [first.to_string(), second.to_string()],
        };
        let template = &enclosed(self.templates())[style];
        let line = fill(template, &[("x", x), ("k", &self.number().to_string()), ("list", list)]);
        format!("{out} = {line}")
    }

    /// The code of both styles. Of a filter, its test; of a change of each number, the changed number.
    fn templates(&self) -> [&'static str; 2] {
        match self {
            Self::Divisible(_) => ["{x} % {k} == 0", "{x} % {k} == 0"],
            Self::NotDivisible(_) => ["{x} % {k} != 0", "{x} % {k}"],
            Self::Above(_) => ["{x} > {k}", "{x} > {k}"],
            Self::Below(_) => ["{x} < {k}", "{x} < {k}"],
            Self::AddEach(_) => ["{x} + {k}", "{x} + {k}"],
            Self::TimesEach(_) => ["{k} * {x}", "{x} * {k}"],
            Self::ModuloEach(_) => ["{x} % {k}", "{x} % {k}"],
            Self::SquareEach => ["[{x} * {x} for {x} in {list}]", "[{x} ** 2 for {x} in {list}]"],
            Self::Ascending => ["sorted({list})", "sorted({list}, key=lambda {x}: {x})"],
            Self::Descending => ["sorted({list}, reverse=True)", "sorted({list}, key=lambda {x}: -{x})"],
            Self::Reverse => ["{list}[::-1]", "list(reversed({list}))"],
            Self::First(_) => ["{list}[:{k}]", "[{x} for i, {x} in enumerate({list}) if i < {k}]"],
            Self::Skip(_) => ["{list}[{k}:]", "[{x} for i, {x} in enumerate({list}) if i >= {k}]"],
            Self::EverySecond => ["{list}[::2]", "[{x} for i, {x} in enumerate({list}) if i % 2 == 0]"],
            Self::RunningTotals => [
                "[sum({list}[:i + 1]) for i in range(len({list}))]",
                "[sum({list}[:i]) for i, _ in enumerate({list}, 1)]",
            ],
            Self::Gaps => [
                "[abs({x} - y) for {x}, y in zip({list}, {list}[1:])]",
                "[abs({list}[i + 1] - {list}[i]) for i in range(len({list}) - 1)]",
            ],
            Self::Sum => ["sum({list})", "sum({x} for {x} in {list})"],
            Self::Largest => ["max({list}, default=0)", "max({list}) if {list} else 0"],
            Self::Smallest => ["min({list}, default=0)", "min({list}) if {list} else 0"],
            Self::Count => ["len({list})", "sum(1 for _ in {list})"],
            Self::SumModulo(_) => ["sum({list}) % {k}", "sum({x} for {x} in {list}) % {k}"],
            Self::Range => {
                ["max({list}, default=0) - min({list}, default=0)", "max({list}) - min({list}) if {list} else 0"]
            }
        }
    }
}

fn sorted(list: &[i64]) -> Vec<i64> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_does_what_its_line_says() {
        let list = [9, 4, 12, 7, 30];
        let results = [
            (ListOperation::Divisible(3), vec![9, 12, 30], "b = [x for x in a if x % 3 == 0]"),
            (ListOperation::NotDivisible(3), vec![4, 7], "b = [x for x in a if x % 3 != 0]"),
            (ListOperation::Above(9), vec![12, 30], "b = [x for x in a if x > 9]"),
            (ListOperation::Below(9), vec![4, 7], "b = [x for x in a if x < 9]"),
            (ListOperation::AddEach(2), vec![11, 6, 14, 9, 32], "b = [x + 2 for x in a]"),
            (ListOperation::TimesEach(2), vec![18, 8, 24, 14, 60], "b = [2 * x for x in a]"),
            (ListOperation::ModuloEach(5), vec![4, 4, 2, 2, 0], "b = [x % 5 for x in a]"),
            (ListOperation::SquareEach, vec![81, 16, 144, 49, 900], "b = [x * x for x in a]"),
            (ListOperation::Ascending, vec![4, 7, 9, 12, 30], "b = sorted(a)"),
            (ListOperation::Descending, vec![30, 12, 9, 7, 4], "b = sorted(a, reverse=True)"),
            (ListOperation::Reverse, vec![30, 7, 12, 4, 9], "b = a[::-1]"),
            (ListOperation::First(2), vec![9, 4], "b = a[:2]"),
            (ListOperation::Skip(2), vec![12, 7, 30], "b = a[2:]"),
            (ListOperation::EverySecond, vec![9, 12, 30], "b = a[::2]"),
            (ListOperation::RunningTotals, vec![9, 13, 25, 32, 62], "b = [sum(a[:i + 1]) for i in range(len(a))]"),
            (ListOperation::Gaps, vec![5, 8, 5, 23], "b = [abs(x - y) for x, y in zip(a, a[1:])]"),
            (ListOperation::Sum, vec![62], "b = sum(a)"),
            (ListOperation::Largest, vec![30], "b = max(a, default=0)"),
            (ListOperation::Smallest, vec![4], "b = min(a, default=0)"),
            (ListOperation::Count, vec![5], "b = len(a)"),
            (ListOperation::SumModulo(7), vec![6], "b = sum(a) % 7"),
            (ListOperation::Range, vec![26], "b = max(a, default=0) - min(a, default=0)"),
        ];
        for (stage, result, code) in results {
            assert_eq!((stage.apply(&list), stage.code("b", "a", "x", 0)), (result, code.to_string()));
        }
    }
}
