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
    Reduce(Reduction),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Largest,
    Smallest,
    Count,
    SumModulo(i64),
    Range,
}

impl ListOperation {
    pub(crate) fn draw(dice: &mut Dice) -> ListOperation {
        match dice.below(16) {
            0 => ListOperation::Divisible(dice.between(2, 5)),
            1 => ListOperation::NotDivisible(dice.between(2, 6)),
            2 => ListOperation::Above(dice.between(4, 25)),
            3 => ListOperation::Below(dice.between(40, 90)),
            4 => ListOperation::AddEach(dice.between(2, 30)),
            5 => ListOperation::TimesEach(dice.between(2, 9)),
            6 => ListOperation::ModuloEach(dice.between(11, 60)),
            7 => ListOperation::SquareEach,
            8 => ListOperation::Ascending,
            9 => ListOperation::Descending,
            10 => ListOperation::Reverse,
            11 => ListOperation::First(dice.between(3, 6)),
            12 => ListOperation::Skip(dice.between(1, 3)),
            13 => ListOperation::EverySecond,
            14 => ListOperation::RunningTotals,
            _ => ListOperation::Gaps,
        }
    }

    pub(crate) fn draw_last(dice: &mut Dice) -> ListOperation {
        ListOperation::Reduce(match dice.below(6) {
            0 => Reduction::Sum,
            1 => Reduction::Largest,
            2 => Reduction::Smallest,
            3 => Reduction::Count,
            4 => Reduction::SumModulo(dice.between(7, 97)),
            _ => Reduction::Range,
        })
    }

    pub(crate) fn apply(&self, list: &[i64]) -> Vec<i64> {
        let each = |change: &dyn Fn(i64) -> i64| list.iter().map(|x| change(*x)).collect();
        let keep = |test: &dyn Fn(i64) -> bool| list.iter().copied().filter(|x| test(*x)).collect();
        match *self {
            ListOperation::Divisible(k) => keep(&|x| x % k == 0),
            ListOperation::NotDivisible(k) => keep(&|x| x % k != 0),
            ListOperation::Above(k) => keep(&|x| x > k),
            ListOperation::Below(k) => keep(&|x| x < k),
            ListOperation::AddEach(k) => each(&|x| x + k),
            ListOperation::TimesEach(k) => each(&|x| x * k),
            ListOperation::ModuloEach(k) => each(&|x| x.rem_euclid(k)),
            ListOperation::SquareEach => each(&|x| x * x),
            ListOperation::Ascending => sorted(list),
            ListOperation::Descending => sorted(list).into_iter().rev().collect(),
            ListOperation::Reverse => list.iter().rev().copied().collect(),
            ListOperation::First(n) => list.iter().take(n as usize).copied().collect(),
            ListOperation::Skip(n) => list.iter().skip(n as usize).copied().collect(),
            ListOperation::EverySecond => list.iter().step_by(2).copied().collect(),
            ListOperation::RunningTotals => list
                .iter()
                .scan(0, |total, x| {
                    *total += x;
                    Some(*total)
                })
                .collect(),
            ListOperation::Gaps => list.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect(),
            ListOperation::Reduce(reduction) => vec![reduction.apply(list)],
        }
    }

    pub(crate) fn what(&self) -> String {
        let (words, k) = match *self {
            ListOperation::Divisible(k) => ("keep only the numbers divisible by {k}", k),
            ListOperation::NotDivisible(k) => ("remove the multiples of {k}", k),
            ListOperation::Above(k) => ("keep the numbers above {k}", k),
            ListOperation::Below(k) => ("keep the numbers below {k}", k),
            ListOperation::AddEach(k) => ("add {k} to every number", k),
            ListOperation::TimesEach(k) => ("multiply every number by {k}", k),
            ListOperation::ModuloEach(k) => ("reduce every number modulo {k}", k),
            ListOperation::SquareEach => ("square every number", 0),
            ListOperation::Ascending => ("sort the list upwards", 0),
            ListOperation::Descending => ("sort the list downwards", 0),
            ListOperation::Reverse => ("reverse the list", 0),
            ListOperation::First(k) => ("take the first {k} numbers", k),
            ListOperation::Skip(k) => ("skip the first {k} of the list", k),
            ListOperation::EverySecond => ("take every second number, from the first", 0),
            ListOperation::RunningTotals => ("form the running totals", 0),
            ListOperation::Gaps => ("form the gaps between neighbours", 0),
            ListOperation::Reduce(reduction) => reduction.what(),
        };
        fill(words, &[("k", &k.to_string())])
    }

    pub(crate) fn code(&self, out: &str, list: &str, x: &str, style: usize) -> String {
        let (templates, k) = match *self {
            ListOperation::Divisible(k) => {
                (["[{x} for {x} in {list} if {x} % {k} == 0]", "list(filter(lambda {x}: {x} % {k} == 0, {list}))"], k)
            }
            ListOperation::NotDivisible(k) => {
                (["[{x} for {x} in {list} if {x} % {k} != 0]", "list(filter(lambda {x}: {x} % {k}, {list}))"], k)
            }
            ListOperation::Above(k) => {
                (["[{x} for {x} in {list} if {x} > {k}]", "list(filter(lambda {x}: {x} > {k}, {list}))"], k)
            }
            ListOperation::Below(k) => {
                (["[{x} for {x} in {list} if {x} < {k}]", "list(filter(lambda {x}: {x} < {k}, {list}))"], k)
            }
            ListOperation::AddEach(k) => {
                (["[{x} + {k} for {x} in {list}]", "list(map(lambda {x}: {x} + {k}, {list}))"], k)
            }
            ListOperation::TimesEach(k) => {
                (["[{k} * {x} for {x} in {list}]", "list(map(lambda {x}: {x} * {k}, {list}))"], k)
            }
            ListOperation::ModuloEach(k) => {
                (["[{x} % {k} for {x} in {list}]", "list(map(lambda {x}: {x} % {k}, {list}))"], k)
            }
            ListOperation::SquareEach => (["[{x} * {x} for {x} in {list}]", "[{x} ** 2 for {x} in {list}]"], 0),
            ListOperation::Ascending => (["sorted({list})", "sorted({list}, key=lambda {x}: {x})"], 0),
            ListOperation::Descending => (["sorted({list}, reverse=True)", "sorted({list}, key=lambda {x}: -{x})"], 0),
            ListOperation::Reverse => (["{list}[::-1]", "list(reversed({list}))"], 0),
            ListOperation::First(k) => (["{list}[:{k}]", "[{x} for i, {x} in enumerate({list}) if i < {k}]"], k),
            ListOperation::Skip(k) => (["{list}[{k}:]", "[{x} for i, {x} in enumerate({list}) if i >= {k}]"], k),
            ListOperation::EverySecond => (["{list}[::2]", "[{x} for i, {x} in enumerate({list}) if i % 2 == 0]"], 0),
            ListOperation::RunningTotals => (
                [
                    "[sum({list}[:i + 1]) for i in range(len({list}))]",
                    "[sum({list}[:i]) for i, _ in enumerate({list}, 1)]",
                ],
                0,
            ),
            ListOperation::Gaps => (
                [
                    "[abs({x} - y) for {x}, y in zip({list}, {list}[1:])]",
                    "[abs({list}[i + 1] - {list}[i]) for i in range(len({list}) - 1)]",
                ],
                0,
            ),
            ListOperation::Reduce(reduction) => reduction.code(),
        };
        let line = fill(templates[style], &[("x", x), ("k", &k.to_string()), ("list", list)]);
        format!("{out} = {line}")
    }
}

impl Reduction {
    fn apply(self, list: &[i64]) -> i64 {
        let (smallest, largest) = (list.iter().min().copied(), list.iter().max().copied());
        match self {
            Reduction::Sum => list.iter().sum(),
            Reduction::Largest => largest.unwrap_or_default(),
            Reduction::Smallest => smallest.unwrap_or_default(),
            Reduction::Count => list.len() as i64,
            Reduction::SumModulo(k) => list.iter().sum::<i64>().rem_euclid(k),
            Reduction::Range => largest.unwrap_or_default() - smallest.unwrap_or_default(),
        }
    }

    fn what(self) -> (&'static str, i64) {
        match self {
            Reduction::Sum => ("add up what is left", 0),
            Reduction::Largest => ("find the largest number (0 if there is none)", 0),
            Reduction::Smallest => ("find the smallest number (0 if there is none)", 0),
            Reduction::Count => ("count what is left", 0),
            Reduction::SumModulo(k) => ("add up the rest modulo {k}", k),
            Reduction::Range => ("subtract the smallest from the largest (0 for an empty list)", 0),
        }
    }

    fn code(self) -> ([&'static str; 2], i64) {
        match self {
            Reduction::Sum => (["sum({list})", "sum({x} for {x} in {list})"], 0),
            Reduction::Largest => (["max({list}, default=0)", "max({list}) if {list} else 0"], 0),
            Reduction::Smallest => (["min({list}, default=0)", "min({list}) if {list} else 0"], 0),
            Reduction::Count => (["len({list})", "sum(1 for _ in {list})"], 0),
            Reduction::SumModulo(k) => (["sum({list}) % {k}", "sum({x} for {x} in {list}) % {k}"], k),
            Reduction::Range => {
                (["max({list}, default=0) - min({list}, default=0)", "max({list}) - min({list}) if {list} else 0"], 0)
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
            (ListOperation::Reduce(Reduction::Sum), vec![62], "b = sum(a)"),
            (ListOperation::Reduce(Reduction::Largest), vec![30], "b = max(a, default=0)"),
            (ListOperation::Reduce(Reduction::Smallest), vec![4], "b = min(a, default=0)"),
            (ListOperation::Reduce(Reduction::Count), vec![5], "b = len(a)"),
            (ListOperation::Reduce(Reduction::SumModulo(7)), vec![6], "b = sum(a) % 7"),
            (ListOperation::Reduce(Reduction::Range), vec![26], "b = max(a, default=0) - min(a, default=0)"),
        ];
        for (stage, result, code) in results {
            assert_eq!((stage.apply(&list), stage.code("b", "a", "x", 0)), (result, code.to_string()));
        }
    }
}
