//! Tables of evaluations as Markdown, LaTeX and CSV.

use std::collections::BTreeSet;

use super::table::{Cell, Tables};
use crate::output::count;
use crate::statistics::{Estimate, SIGNIFICANT};

/// A table as texts. The first column and the first row hold names.
struct Grid {
    title: String,
    header: Vec<String>,
    rows: Vec<(String, Vec<Text>)>,
}

/// A value and its rank among the values that it competes with.
#[derive(Clone, Default)]
struct Text {
    value: String,
    change: String,
    rank: Rank,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Rank {
    Best,
    Second,
    #[default]
    Other,
}

const MISSING: &str = "–";
const SIGNIFICANT_MARK: char = '†';

impl Tables {
    fn at(&self, method: &str, bench: &str, budget: i64) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.method == method && cell.bench == bench && cell.budget == budget)
    }

    /// The benchmarks, each with its budgets in ascending order.
    pub(super) fn benches(&self) -> Vec<(String, Vec<i64>)> {
        let mut benches: Vec<(String, BTreeSet<i64>)> = Vec::new();
        for cell in &self.cells {
            match benches.iter_mut().find(|(bench, _)| *bench == cell.bench) {
                Some((_, budgets)) => drop(budgets.insert(cell.budget)),
                None => benches.push((cell.bench.clone(), BTreeSet::from([cell.budget]))),
            }
        }
        benches.into_iter().map(|(bench, budgets)| (bench, budgets.into_iter().collect())).collect()
    }

    /// Methods by benchmarks, each at its main budget, then a table of budgets by methods for each benchmark with several budgets.
    fn grids(&self) -> Vec<Grid> {
        let mut grids = Vec::new();
        let mut header = vec!["method".to_string()];
        let mut columns: Vec<Vec<Text>> = Vec::new();
        for (bench, _) in self.benches() {
            let Some(budget) = self.main_budget(&bench) else { continue };
            let cells: Vec<_> = self.methods.iter().map(|method| self.at(method, &bench, budget)).collect();
            let name = format!("{bench} at {}", count(budget.unsigned_abs()));
            header.extend([format!("{name}: accuracy"), "tokens".to_string(), "seconds".to_string()]);
            columns.extend([texts(&cells, accuracy), texts(&cells, tokens), texts(&cells, seconds)]);
        }
        let of_method = |index: usize| columns.iter().map(|column| column[index].clone()).collect();
        let rows = self.methods.iter().enumerate().map(|(index, method)| (method.clone(), of_method(index))).collect();
        grids.push(Grid { title: "Methods by benchmarks".to_string(), header, rows });
        for (bench, budgets) in self.benches().into_iter().filter(|(_, budgets)| budgets.len() > 1) {
            let mut header = vec!["budget".to_string()];
            header.extend(self.methods.iter().flat_map(|method| [format!("{method}: accuracy"), "tokens".to_string()]));
            let row = |budget: &i64| {
                let cells: Vec<_> = self.methods.iter().map(|method| self.at(method, &bench, *budget)).collect();
                let pairs = texts(&cells, accuracy).into_iter().zip(texts(&cells, tokens));
                (count(budget.unsigned_abs()), pairs.flat_map(|(a, b)| [a, b]).collect())
            };
            let rows = budgets.iter().map(row).collect();
            grids.push(Grid { title: format!("{bench}: budgets by methods"), header, rows });
        }
        grids
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
                "In parentheses, the change to {base} with its 95 % interval: points of accuracy, percent of tokens and seconds. \
                 {SIGNIFICANT_MARK}: p < 0.05 by McNemar's exact test, or the bootstrap with several responses, with Holm's \
                 correction for the table of methods by benchmarks."
            ));
        }
        let failed = self.cells.iter().filter(|cell| cell.failed > 0);
        remarks.extend(failed.map(|cell| {
            let Cell { method, bench, failed, budget, .. } = cell;
            format!("{method} lacks {failed} responses on {bench} at {}.", count(budget.unsigned_abs()))
        }));
        remarks.extend(self.left_out.iter().cloned());
        if !self.missing.is_empty() {
            remarks.push(format!("Missing: {}.", self.missing.join("; ")));
        }
        remarks
    }

    pub(super) fn markdown(&self) -> String {
        let mut blocks = Vec::new();
        for Grid { title, header, rows } in self.grids() {
            let mut lines = vec![header.clone(), header.iter().enumerate().map(|(place, _)| rule(place)).collect()];
            lines.extend(rows.iter().map(|(name, texts)| {
                let shown = texts.iter().map(|text| match text.rank {
                    Rank::Best => format!("**{}**{}", text.value, text.change),
                    Rank::Second => format!("<u>{}</u>{}", text.value, text.change),
                    Rank::Other => format!("{}{}", text.value, text.change),
                });
                std::iter::once(name.replace('|', "\\|")).chain(shown).collect::<Vec<_>>()
            }));
            let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
            let widths: Vec<usize> = (0..header.len()).map(width).collect();
            let padded = |line: &Vec<String>| {
                let cells = line.iter().zip(&widths).map(|(cell, width)| match cell.starts_with("--") {
                    true => format!("{:->width$}", if cell.ends_with(':') { ":" } else { "-" }),
                    false => format!("{cell:<width$}"),
                });
                format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
            };
            blocks.push(format!("{title}\n\n{}", lines.iter().map(padded).collect::<Vec<_>>().join("\n")));
        }
        blocks.push(self.remarks().join("\n"));
        blocks.join("\n\n")
    }

    /// One `tabular` a table, for the package booktabs.
    pub(super) fn latex(&self) -> String {
        let mut blocks = Vec::new();
        for Grid { title, header, rows } in self.grids() {
            let line = |cells: Vec<String>| format!("{} \\\\", cells.join(" & "));
            let mut lines = vec![
                format!("% {title}"),
                format!("\\begin{{tabular}}{{l{}}}", "r".repeat(header.len() - 1)),
                "\\toprule".to_string(),
                line(header.iter().map(|name| escaped(name)).collect()),
                "\\midrule".to_string(),
            ];
            lines.extend(rows.into_iter().map(|(name, texts)| {
                let shown = texts.into_iter().map(|Text { value, change, rank }| match rank {
                    Rank::Best => format!("\\textbf{{{}}}{}", escaped(&value), escaped(&change)),
                    Rank::Second => format!("\\underline{{{}}}{}", escaped(&value), escaped(&change)),
                    Rank::Other => escaped(&(value + &change)),
                });
                line(std::iter::once(escaped(&name)).chain(shown).collect())
            }));
            lines.extend(["\\bottomrule".to_string(), "\\end{tabular}".to_string()]);
            blocks.push(lines.join("\n"));
        }
        blocks.extend(self.remarks().into_iter().map(|remark| format!("% {remark}")));
        blocks.join("\n\n")
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
            let numbers = numbers.concat().into_iter().map(|number| number.map_or(String::new(), |n| n.to_string()));
            let names = [quoted(&cell.method), quoted(&cell.bench), cell.budget.to_string()];
            let counts = [cell.problems.to_string(), cell.failed.to_string()];
            lines.push(names.into_iter().chain(counts).chain(numbers).collect::<Vec<_>>().join(","));
        }
        lines.join("\n")
    }
}

fn rule(place: usize) -> String {
    if place == 0 { "---" } else { "--:" }.to_string()
}

fn escaped(text: &str) -> String {
    let special = |character: char| match character {
        '%' | '_' | '&' | '#' | '$' | '{' | '}' => format!("\\{character}"),
        '−' => "$-$".to_string(),
        '–' => "--".to_string(),
        '±' => "$\\pm$".to_string(),
        '†' => "\\textdagger{}".to_string(),
        '\\' => "\\textbackslash{}".to_string(),
        other => other.to_string(),
    };
    text.chars().map(special).collect()
}

/// A value to compare, where more is better, with its text and the text of its change.
type Shown = (f64, String, String);

fn accuracy(cell: &Cell) -> Option<Shown> {
    let accuracy = cell.accuracy?;
    let deviation = cell.deviation.map_or(String::new(), |deviation| format!(" ± {:.2}", 100.0 * deviation));
    let change = cell.change.as_ref().and_then(|change| {
        let is_significant = change.p_holm.is_some_and(|p_value| p_value < SIGNIFICANT);
        let mark = if is_significant { String::from(SIGNIFICANT_MARK) } else { String::new() };
        Some(format!(" ({}){mark}", change.accuracy?.signed(100.0, 1)))
    });
    Some((accuracy.value, format!("{:.2}", 100.0 * accuracy.value), deviation + &change.unwrap_or_default()))
}

fn tokens(cell: &Cell) -> Option<Shown> {
    let change = cell.change.as_ref().map(|change| format!(" ({} %)", change.tokens.signed(100.0, 1)));
    if cell.problems == 0 {
        return None;
    }
    Some((-cell.tokens, count(cell.tokens.round() as u64), change.unwrap_or_default()))
}

fn seconds(cell: &Cell) -> Option<Shown> {
    let change = cell.change.as_ref().and_then(|change| change.seconds);
    let change = change.map_or(String::new(), |change| format!(" ({:+.1} %)", 100.0 * change));
    cell.seconds_per_problem.map(|seconds| (-seconds, format!("{seconds:.2}"), change))
}

/// The texts of values that compete with each other.
fn texts(cells: &[Option<&Cell>], shown: fn(&Cell) -> Option<Shown>) -> Vec<Text> {
    let shown: Vec<Option<Shown>> = cells.iter().map(|cell| cell.and_then(shown)).collect();
    let mut values: Vec<f64> = shown.iter().flatten().map(|(value, _, _)| *value).collect();
    values.sort_unstable_by(|a, b| b.total_cmp(a));
    values.dedup();
    let text = |found: Option<Shown>| match found {
        None => Text { value: MISSING.to_string(), ..Text::default() },
        // A value without a competitor is not the best of anything.
        Some((value, text, change)) => {
            let rank = match values.iter().position(|held| *held == value) {
                Some(0) if cells.len() > 1 => Rank::Best,
                Some(1) => Rank::Second,
                _ => Rank::Other,
            };
            Text { value: text, change, rank }
        }
    };
    shown.into_iter().map(text).collect()
}
