//! Tables of evaluations as Markdown, LaTeX and CSV.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;

use super::bench::Bench;
use super::grid::{Grid, Rank, Text};
use super::published::{PrintedRow, Published};
use super::table::{Cell, Tables, at, title};
use crate::output::count;
use crate::statistics::{Estimate, SIGNIFICANT};

/// Returns a value to compare, where more is better, and its text.
type Show = fn(&Cell) -> Option<(f64, Text)>;

const ACCURACY: (&str, Show) = ("accuracy ↑", accuracy);
const TOKENS: (&str, Show) = ("tokens ↓", tokens);
const SECONDS: (&str, Show) = ("seconds ↓", seconds);
const OF_BENCHES: &[(&str, Show)] = &[ACCURACY, TOKENS, SECONDS];
const OF_BUDGETS: &[(&str, Show)] = &[ACCURACY, TOKENS];
const MISSING: &str = "–";
const SIGNIFICANT_MARK: &str = "†";

/// What a table shows.
struct Layout<'a> {
    title: String,
    methods: Vec<&'a str>,
    /// Groups of columns: a head, a benchmark and a budget each.
    keys: Vec<(String, &'a str, i64)>,
    /// The columns of each group.
    columns: &'static [(&'static str, Show)],
}

impl Tables {
    fn at(&self, method: &str, bench: &str, budget: i64) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.method == method && cell.bench == bench && cell.budget == budget)
    }

    /// The budgets of a benchmark in ascending order.
    pub(super) fn budgets(&self, bench: &str) -> BTreeSet<i64> {
        self.cells.iter().filter(|cell| cell.bench == bench).map(|cell| cell.budget).collect()
    }

    /// Methods by benchmarks, apart for mathematics and code, each benchmark at its main budget. Then a table of methods by
    /// budgets for each benchmark with several. A table leaves out methods that it would not add a value of.
    fn layouts(&self) -> Vec<Layout<'_>> {
        let is_code = |bench: &str| Bench::from_str(bench, false).is_ok_and(Bench::runs_programs);
        let mut kinds: Vec<bool> = self.benches.iter().map(|bench| is_code(bench)).collect();
        kinds.dedup();
        kinds.truncate(2);
        let mut layouts = Vec::new();
        for code in kinds {
            let benches = self.benches.iter().filter(|bench| is_code(bench) == code);
            let keys = benches.filter_map(|bench| {
                let budget = self.main_budget(bench)?;
                Some((at(bench, budget), bench.as_str(), budget))
            });
            let keys: Vec<_> = keys.collect();
            let is_shown =
                |cell: &Cell| keys.iter().any(|(_, bench, budget)| cell.bench == *bench && cell.budget == *budget);
            let methods = self.methods_with(is_shown);
            let title = format!("Methods by benchmarks: {}", if code { "code" } else { "mathematics" });
            layouts.push(Layout { title, methods, keys, columns: OF_BENCHES });
        }
        for bench in &self.benches {
            let keys: Vec<_> =
                self.budgets(bench).into_iter().map(|budget| (shown(budget), bench.as_str(), budget)).collect();
            if keys.len() > 1 {
                let (title, main) = (format!("{}: methods by budgets", title(bench)), self.main_budget(bench));
                let methods = self.methods_with(|cell| cell.bench == *bench && main != Some(cell.budget));
                layouts.push(Layout { title, methods, keys, columns: OF_BUDGETS });
            }
        }
        layouts
    }

    /// The methods with such a cell.
    fn methods_with(&self, is_wanted: impl Fn(&Cell) -> bool) -> Vec<&str> {
        let has_one = |method: &&String| self.cells.iter().any(|cell| cell.method == **method && is_wanted(cell));
        self.methods.iter().filter(has_one).map(String::as_str).collect()
    }

    /// The cells of the tables that have no value.
    pub(super) fn lacking(&self) -> Vec<String> {
        let mut lacking = Vec::new();
        for Layout { methods, keys, .. } in self.layouts() {
            for method in methods {
                let of_method = keys.iter().filter(|(_, bench, budget)| self.at(method, bench, *budget).is_none());
                lacking.extend(of_method.map(|(_, bench, budget)| format!("{method} on {}", at(bench, *budget))));
            }
        }
        lacking
    }

    fn grids(&self) -> Vec<Grid> {
        let own = self.layouts();
        let own = own.iter().map(|layout| self.grid(layout));
        own.chain(self.published.iter().flat_map(Published::grids)).collect()
    }

    fn grid(&self, of: &Layout<'_>) -> Grid {
        let Layout { title, methods, keys, columns } = of;
        let of_key = |(_, bench, budget): &(String, &str, i64)| {
            let cells: Vec<_> = methods.iter().map(|method| self.at(method, bench, *budget)).collect();
            columns.iter().map(|(_, show)| texts(&cells, *show)).collect::<Vec<_>>()
        };
        let found: Vec<Vec<Text>> = keys.iter().flat_map(of_key).collect();
        let of_method = |index: usize| found.iter().map(|column| column[index].clone()).collect();
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        Grid {
            title: title.clone(),
            groups: keys.iter().map(|(head, _, _)| (head.clone(), names.clone())).collect(),
            rows: methods.iter().enumerate().map(|(index, method)| ((*method).to_string(), of_method(index))).collect(),
        }
    }

    /// What the tables do not say in cells, one sentence a line.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![
            "Accuracy in percent. Tokens: the mean of a response. Seconds: wall clock by problems; measured only for \
             evaluations of one budget."
                .to_string(),
        ];
        remarks.extend(self.no_accuracy.iter().map(|why| format!("Accuracy is {MISSING}: {why}.")));
        if self.cells.iter().any(|cell| cell.seeds > 1) {
            remarks.push(
                "Figures are means over seeds; ± is the standard deviation of the accuracy over seeds.".to_string(),
            );
        }
        let concurrency: BTreeSet<u32> = self.cells.iter().filter_map(|cell| cell.concurrency).collect();
        if !concurrency.is_empty() {
            let concurrency: Vec<String> = concurrency.iter().map(u32::to_string).collect();
            remarks.push(format!("Requests in flight: at most {}.", concurrency.join(" or ")));
        }
        if let Some(base) = &self.base {
            remarks.push(format!(
                "In parentheses or below a value, its change to {base}, with a 95 % interval in brackets if there is one: points of \
                 accuracy, percent of tokens and seconds. {SIGNIFICANT_MARK}: p < 0.05 by McNemar's exact test, or the \
                 bootstrap with several responses, with Holm's correction for the tables of methods by benchmarks."
            ));
        }
        let failed = self.cells.iter().filter(|cell| cell.failed > 0);
        remarks.extend(failed.map(|cell| {
            let Cell { method, bench, failed, budget, .. } = cell;
            format!("{method} lacks {failed} responses on {}.", at(bench, *budget))
        }));
        remarks.extend(self.left_out.iter().cloned());
        if !self.missing.is_empty() {
            remarks.push(format!("Missing: {}.", self.missing.join("; ")));
        }
        remarks.extend(self.published.iter().flat_map(Published::remarks));
        remarks
    }

    pub(super) fn markdown(&self, intervals: bool) -> String {
        let blocks = self.grids().into_iter().map(|grid| grid.markdown(intervals));
        blocks.chain([self.remarks().join("\n")]).collect::<Vec<_>>().join("\n\n")
    }

    /// One `table*` a table, at most as wide as the page, for the packages booktabs and graphicx.
    pub(super) fn latex(&self, intervals: bool) -> String {
        let remarks = self.remarks().into_iter().map(|remark| format!("% {remark}"));
        let blocks = self.grids().iter().map(|grid| grid.latex(intervals)).collect::<Vec<_>>();
        let packages = "% \\usepackage{booktabs,graphicx}".to_string();
        std::iter::once(packages).chain(blocks).chain(remarks).collect::<Vec<_>>().join("\n\n")
    }

    /// One line for each method, benchmark and budget. Shares are from 0 to 1.
    pub(super) fn csv(&self) -> String {
        let quoted = |text: &str| match text.contains([',', '"', '\n']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_string(),
        };
        let mut lines = vec![
            "method,bench,budget,problems,failed,accuracy,accuracy_low,accuracy_high,seeds,deviation,tokens,seconds_per_problem,concurrency,\
             accuracy_change,accuracy_change_low,accuracy_change_high,tokens_change,tokens_change_low,tokens_change_high,\
             seconds_change,p_value,p_holm"
                .to_string(),
        ];
        let mut printed_rows = self.published.iter().flat_map(|published| &published.rows);
        for cell in &self.cells {
            let estimate = |found: Option<Estimate>| {
                found.map_or([None; 3], |found| [Some(found.value), Some(found.low), Some(found.high)])
            };
            let change = cell.change.as_ref();
            let tested = change.filter(|change| change.accuracy.is_some());
            let numbers = [
                estimate(cell.accuracy).to_vec(),
                vec![
                    Some(cell.seeds as f64),
                    cell.deviation,
                    Some(cell.tokens),
                    cell.seconds_per_problem,
                    cell.concurrency.map(f64::from),
                ],
                estimate(change.and_then(|change| change.accuracy)).to_vec(),
                estimate(change.map(|change| change.tokens)).to_vec(),
                vec![change.and_then(|change| change.seconds), tested.map(|change| change.p_value)],
                vec![tested.and_then(|change| change.p_holm)],
            ];
            let numbers =
                numbers.concat().into_iter().chain(printed_rows.next().map(PrintedRow::numbers).into_iter().flatten());
            let numbers = numbers.map(|number| number.map_or(String::new(), |n| n.to_string()));
            let names = [quoted(&cell.method), quoted(&cell.bench), cell.budget.to_string()];
            let counts = [cell.problems.to_string(), cell.failed.to_string()];
            lines.push(names.into_iter().chain(counts).chain(numbers).collect::<Vec<_>>().join(","));
        }
        if self.published.is_some() {
            let own = ",".repeat(lines[0].matches(',').count() - 2);
            lines[0] += ",printed_accuracy,printed_tokens,printed_seconds,\
                         accuracy_difference,tokens_difference,seconds_difference";
            // Values that are only printed.
            lines.extend(printed_rows.map(|row| {
                let numbers = row.numbers().map(|number| number.map_or(String::new(), |n| n.to_string()));
                format!("{},{},{}{own},{}", quoted(&row.method), quoted(&row.bench), row.budget, numbers.join(","))
            }));
        }
        lines.join("\n")
    }
}

impl PrintedRow {
    fn numbers(&self) -> [Option<f64>; 6] {
        let [a, b] = [self.printed, self.difference];
        [a.accuracy, a.tokens, a.seconds, b.accuracy, b.tokens, b.seconds]
    }

    fn texts(&self) -> Vec<Text> {
        let text = |value: Option<f64>, shown: fn(f64) -> String| Text {
            value: value.map_or(MISSING.to_string(), shown),
            ..Text::default()
        };
        let percent = |share: f64| format!("{:.2}", 100.0 * share);
        let tokens = |tokens: f64| count(tokens.round() as u64);
        let seconds = |seconds: f64| format!("{seconds:.2}");
        let ratio = |ratio: f64| format!("{:+.1} %", 100.0 * ratio);
        let Self { run, printed, difference, .. } = self;
        vec![
            text(run.accuracy, percent),
            text(printed.accuracy, percent),
            text(difference.accuracy, |share| format!("{:+.2}", 100.0 * share)),
            text(run.tokens, tokens),
            text(printed.tokens, tokens),
            text(difference.tokens, ratio),
            text(run.seconds, seconds),
            text(printed.seconds, seconds),
            text(difference.seconds, ratio),
        ]
    }
}

impl Published {
    /// A table for each benchmark and budget that has printed values.
    fn grids(&self) -> Vec<Grid> {
        let mut keys: Vec<(&str, i64)> = Vec::new();
        for row in self.rows.iter().filter(|row| !row.printed.is_missing()) {
            if !keys.contains(&(&row.bench, row.budget)) {
                keys.push((&row.bench, row.budget));
            }
        }
        let names = vec!["run", "printed", "difference"];
        let groups = ["accuracy", "tokens", "seconds"].map(|head| (head.to_string(), names.clone())).to_vec();
        let grid = |(bench, budget): (&str, i64)| {
            let rows = self.rows.iter().filter(|row| row.bench == bench && row.budget == budget);
            Grid {
                title: format!("{}, next to printed values", at(bench, budget)),
                groups: groups.clone(),
                rows: rows.map(|row| (row.method.clone(), row.texts())).collect(),
            }
        };
        keys.into_iter().map(grid).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let Self { source, model, rows } = self;
        let mut remarks = vec![format!(
            "Printed values: {model}, from {source}. Differences: points of accuracy, percent of tokens and seconds. {MISSING}: \
             missing."
        )];
        let printed: BTreeSet<_> =
            rows.iter().filter(|row| !row.printed.is_missing()).map(|row| (&row.bench, row.budget)).collect();
        let lacks = |row: &&PrintedRow| !printed.contains(&(&row.bench, row.budget));
        let mut lacking: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for row in rows.iter().filter(lacks) {
            let budgets = lacking.entry(title(&row.bench)).or_default();
            if !budgets.contains(&shown(row.budget)) {
                budgets.push(shown(row.budget));
            }
        }
        if !lacking.is_empty() {
            let lacking = lacking.iter().map(|(bench, budgets)| format!("{bench} at {}", budgets.join(", ")));
            remarks.push(format!("Without printed values: {}.", lacking.collect::<Vec<_>>().join("; ")));
        }
        remarks
    }
}

fn shown(budget: i64) -> String {
    count(budget.unsigned_abs())
}

fn accuracy(cell: &Cell) -> Option<(f64, Text)> {
    let accuracy = cell.accuracy?;
    let deviation = cell.deviation.map_or(String::new(), |deviation| format!(" ± {:.2}", 100.0 * deviation));
    let change = cell.change.as_ref().filter(|change| change.accuracy.is_some());
    let is_significant = change.and_then(|change| change.p_holm).is_some_and(|p_value| p_value < SIGNIFICANT);
    let [change, interval] = change.and_then(|change| change.accuracy).map(signed).unwrap_or_default();
    let mark = if is_significant { SIGNIFICANT_MARK } else { "" };
    let value = format!("{:.2}", 100.0 * accuracy.value);
    Some((accuracy.value, Text { value, deviation, change, interval, mark, ..Text::default() }))
}

fn tokens(cell: &Cell) -> Option<(f64, Text)> {
    let [change, interval] = cell.change.as_ref().map(|change| signed(change.tokens)).unwrap_or_default();
    let value = count(cell.tokens.round() as u64);
    (cell.problems > 0).then(|| (-cell.tokens, Text { value, change, interval, unit: " %", ..Text::default() }))
}

fn seconds(cell: &Cell) -> Option<(f64, Text)> {
    let change = cell.change.as_ref().and_then(|change| change.seconds);
    let change = change.map_or(String::new(), |change| format!("{:+.1}", 100.0 * change));
    let seconds = cell.seconds_per_problem?;
    Some((-seconds, Text { value: format!("{seconds:.2}"), change, unit: " %", ..Text::default() }))
}

/// A change in percent or points, and its interval.
fn signed(change: Estimate) -> [String; 2] {
    // Adding 0 removes the sign of a zero.
    let [value, low, high] = [change.value, change.low, change.high].map(|each| (1000.0 * each).round() / 10.0 + 0.0);
    [format!("{value:+.1}"), format!("[{low:+.1}, {high:+.1}]")]
}

/// The texts of values that compete with each other. Values that print alike are equal, and the last one has no mark.
fn texts(cells: &[Option<&Cell>], show: Show) -> Vec<Text> {
    let mut found: Vec<Option<(f64, Text)>> = cells.iter().map(|cell| cell.and_then(show)).collect();
    let mut values: Vec<(f64, String)> =
        found.iter().flatten().map(|(value, text)| (*value, text.value.clone())).collect();
    values.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    values.dedup_by(|a, b| a.1 == b.1);
    for (_, text) in found.iter_mut().flatten() {
        let place = values.iter().position(|(_, held)| *held == text.value);
        text.rank = match place.filter(|place| place + 1 < values.len()) {
            Some(0) => Rank::Best,
            Some(1) => Rank::Second,
            _ => Rank::Other,
        };
    }
    let missing = || Text { value: MISSING.to_string(), ..Text::default() };
    found.into_iter().map(|found| found.map_or_else(missing, |(_, text)| text)).collect()
}
