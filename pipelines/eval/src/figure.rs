//! Pictures of accuracy against tokens or under token budgets, one panel for each benchmark.

use super::table::{Tables, title};
use crate::output::count;

const PANEL: [f64; 2] = [320.0, 240.0];
/// Space for numbers and titles: left, top, right, bottom.
const MARGIN: [f64; 4] = [52.0, 34.0, 24.0, 44.0];
const PANELS_IN_A_ROW: usize = 3;
/// The height of a row of the legend, and the width of a letter and of the rest of an entry.
const LEGEND: [f64; 3] = [20.0, 6.2, 40.0];
const RADIUS: f64 = 3.5;
/// The least space from the middle of a number below a panel to that of the next.
const BETWEEN_TICKS: f64 = 32.0;
/// Colors that readers with color blindness can tell apart: first those of Okabe and Ito (2008).
const COLORS: [&str; 10] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a00", "#882255", "#888888"];

/// What the horizontal axis shows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Axis {
    /// The mean tokens of a response.
    Tokens,
    /// The most tokens of a response.
    Budget,
}

impl Axis {
    fn title(self) -> &'static str {
        if self == Self::Tokens { "mean tokens of a response" } else { "token budget" }
    }
}

/// A value in a panel, with the accuracy in percent.
struct Point {
    x: f64,
    accuracy: f64,
    words: String,
    is_printed: bool,
}

impl Tables {
    /// An SVG. A method is a line through its budgets; printed values are circles.
    pub(super) fn svg(&self, axis: Axis) -> String {
        let mut methods: Vec<&str> = self.methods.iter().map(String::as_str).collect();
        let mut benches: Vec<&str> = self.benches.iter().map(String::as_str).collect();
        for row in self.published.iter().flat_map(|published| &published.rows) {
            for (names, name) in [(&mut methods, &row.method), (&mut benches, &row.bench)] {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        let columns = benches.len().clamp(1, PANELS_IN_A_ROW);
        let mut legend: Vec<(String, &str, &str)> = Vec::new();
        legend.extend(methods.iter().enumerate().map(|(index, name)| (escaped(name), color(index), color(index))));
        legend.extend(self.published.iter().map(|_| ("printed value".to_string(), "#555", "white")));
        let letters = legend.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
        let entry = letters as f64 * LEGEND[1] + LEGEND[2];
        let width = (columns as f64 * PANEL[0]).max(entry);
        let height = benches.len().div_ceil(columns) as f64 * PANEL[1];
        let in_a_row = ((width / entry) as usize).max(1);
        let whole = height + LEGEND[0] * legend.len().div_ceil(in_a_row) as f64 + 8.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width} {whole}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <title>Accuracy by {}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            axis.title()
        );
        for (index, bench) in benches.iter().enumerate() {
            let (x, y) = ((index % columns) as f64 * PANEL[0], (index / columns) as f64 * PANEL[1]);
            svg += &format!("<g transform=\"translate({x} {y})\">\n{}</g>\n", self.panel(bench, &methods, axis));
        }
        for (index, (name, stroke, fill)) in legend.iter().enumerate() {
            let x = 16.0 + (index % in_a_row) as f64 * entry;
            let y = height + 8.0 + (index / in_a_row) as f64 * LEGEND[0];
            svg += &circle([x, y], RADIUS, stroke, fill, "");
            svg += &format!("<text x=\"{}\" y=\"{}\">{name}</text>\n", x + 9.0, y + 4.0);
        }
        svg + "</svg>\n"
    }

    /// The values of a method, first those of the run by budget.
    fn points(&self, method: &str, bench: &str, axis: Axis) -> Vec<Point> {
        let cells = self.cells.iter().filter(|cell| cell.bench == bench && cell.method == method);
        let rows = self.published.iter().flat_map(|published| &published.rows);
        let rows = rows.filter(|row| row.bench == bench && row.method == method);
        let own = cells.map(|cell| (cell.budget, Some(cell.tokens), cell.accuracy.map(|found| found.value), false));
        let printed = rows.map(|row| (row.budget, row.printed.tokens, row.printed.accuracy, true));
        let point = |(budget, tokens, accuracy, is_printed): (i64, Option<f64>, Option<f64>, bool)| {
            let x = if axis == Axis::Tokens { tokens? } else { budget as f64 };
            let accuracy = 100.0 * accuracy?;
            let tokens = tokens.map_or(String::new(), |tokens| format!(", {tokens:.0} tokens"));
            let what = if is_printed { ", printed" } else { "" };
            let budget = count(budget.unsigned_abs());
            Some(Point {
                x,
                accuracy,
                words: format!("{method}{what}, budget {budget}: {accuracy:.1} %{tokens}"),
                is_printed,
            })
        };
        own.chain(printed).filter_map(point).collect()
    }

    fn panel(&self, bench: &str, methods: &[&str], axis: Axis) -> String {
        let lines: Vec<Vec<Point>> = methods.iter().map(|method| self.points(method, bench, axis)).collect();
        let scale = Scale::of(lines.iter().flatten(), axis);
        let mut drawn = scale.frame(title(bench), axis);
        let mut places = Vec::new();
        for (index, points) in lines.iter().enumerate() {
            let own = points.iter().filter(|point| !point.is_printed);
            let line: Vec<String> =
                own.map(|point| format!("{:.1},{:.1}", scale.x(point.x), scale.y(point.accuracy))).collect();
            drawn += &format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
                line.join(" "),
                color(index)
            );
            for Point { x, accuracy, words, is_printed } in points {
                let place = [scale.x(*x), scale.y(*accuracy)];
                // A point where others are is a ring around them.
                let others = places.iter().filter(|other| **other == place).count();
                places.push(place);
                let fill = match (others, *is_printed) {
                    (0, true) => "white",
                    (0, false) => color(index),
                    _ => "none",
                };
                drawn += &circle(place, RADIUS + 3.0 * others as f64, color(index), fill, words);
            }
        }
        drawn
    }
}

/// The ranges of a panel. The accuracy need not begin at 0, so that lines are apart.
struct Scale {
    left: f64,
    right: f64,
    bottom: f64,
    top: f64,
    /// From one line of the grid to the next.
    step: f64,
    /// The numbers below the panel.
    ticks: Vec<f64>,
}

impl Scale {
    fn of<'a>(points: impl Iterator<Item = &'a Point> + Clone, axis: Axis) -> Self {
        let mut ticks: Vec<f64> = points.clone().map(|point| point.x).collect();
        ticks.sort_unstable_by(f64::total_cmp);
        ticks.dedup();
        let (left, right) = match (axis, ticks.as_slice()) {
            (Axis::Budget, [first, .., last]) => (first - 0.05 * (last - first), *last),
            (Axis::Budget, [only]) => (0.0, 2.0 * only),
            _ => (0.0, nice(ticks.last().copied().unwrap_or(1.0))),
        };
        if axis == Axis::Tokens {
            ticks = (0..=4).map(|part| right * f64::from(part) / 4.0).collect();
        }
        let low = points.clone().map(|point| point.accuracy).fold(100.0, f64::min);
        let high = points.map(|point| point.accuracy).fold(low, f64::max);
        let step = nice((high - low) / 4.0).clamp(1.0, 25.0);
        let bottom = (low / step).floor() * step;
        let top = ((high / step).ceil() * step).max(bottom + 2.0 * step);
        Self { left, right, bottom, top, step, ticks }
    }

    fn x(&self, value: f64) -> f64 {
        MARGIN[0] + (value - self.left) / (self.right - self.left) * (PANEL[0] - MARGIN[0] - MARGIN[2])
    }

    fn y(&self, value: f64) -> f64 {
        PANEL[1] - MARGIN[3] - (value - self.bottom) / (self.top - self.bottom) * (PANEL[1] - MARGIN[1] - MARGIN[3])
    }

    fn frame(&self, title: &str, axis: Axis) -> String {
        let (from, to, down) = (self.x(self.left), self.x(self.right), self.y(self.bottom));
        let mut drawn = format!("<text x=\"{from}\" y=\"20\" font-weight=\"bold\">{}</text>\n", escaped(title));
        for part in 0..=((self.top - self.bottom) / self.step).round() as u32 {
            let accuracy = self.bottom + self.step * f64::from(part);
            let at = self.y(accuracy);
            drawn += &format!(
                "<path d=\"M{from:.1},{at:.1}H{to:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{accuracy:.0}</text>\n",
                from - 6.0,
                at + 4.0
            );
        }
        let mut free = f64::MIN;
        for tick in self.ticks.iter().filter(|tick| {
            let is_free = self.x(**tick) >= free;
            free = if is_free { self.x(**tick) + BETWEEN_TICKS } else { free };
            is_free
        }) {
            let words = match tick % 1024.0 == 0.0 && axis == Axis::Budget {
                true => format!("{}K", tick / 1024.0),
                false => count(tick.round() as u64),
            };
            drawn += &label(self.x(*tick), down + 16.0, &words);
        }
        drawn += &label((from + to) / 2.0, down + 34.0, axis.title());
        let middle = self.y((self.top + self.bottom) / 2.0);
        drawn
            + &format!(
                "<text transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">accuracy, %</text>\n"
            )
    }
}

fn circle([x, y]: [f64; 2], radius: f64, stroke: &str, fill: &str, words: &str) -> String {
    format!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" stroke=\"{stroke}\" stroke-width=\"1.5\" fill=\"{fill}\"><title>{}</title></circle>\n",
        escaped(words)
    )
}

fn label(x: f64, y: f64, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{words}</text>\n")
}

fn color(index: usize) -> &'static str {
    COLORS[index % COLORS.len()]
}

/// The smallest of 1, 2, 4, 5 and 8, times a power of ten, that is at least `most`.
fn nice(most: f64) -> f64 {
    let power = 10_f64.powf(most.max(1e-9).log10().floor());
    let digit = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0].into_iter().find(|digit| digit * power >= most);
    digit.unwrap_or(10.0) * power
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
