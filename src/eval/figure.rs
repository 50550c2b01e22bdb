//! A picture of accuracy against tokens, one panel for each benchmark.

use super::table::{Cell, Tables};
use crate::output::count;

const PANEL: [f64; 2] = [320.0, 240.0];
/// Space for numbers and titles: left, top, right, bottom.
const MARGIN: [f64; 4] = [52.0, 34.0, 14.0, 44.0];
const PANELS_IN_A_ROW: usize = 3;
/// Colours that readers with colour blindness can tell apart (Okabe and Ito 2008).
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a00"];

impl Tables {
    /// An SVG. A method is a line through its budgets.
    pub(super) fn svg(&self) -> String {
        let benches = self.benches();
        let columns = benches.len().clamp(1, PANELS_IN_A_ROW);
        let width = columns as f64 * PANEL[0];
        let height = benches.len().div_ceil(columns) as f64 * PANEL[1];
        let legend = 24.0 * self.methods.len().div_ceil(columns * 2) as f64 + 12.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            height + legend
        );
        for (index, (bench, _)) in benches.iter().enumerate() {
            let (x, y) = ((index % columns) as f64 * PANEL[0], (index / columns) as f64 * PANEL[1]);
            svg += &format!("<g transform=\"translate({x} {y})\">\n{}</g>\n", self.panel(bench));
        }
        for (index, method) in self.methods.iter().enumerate() {
            let at = |part: usize, step: f64| part as f64 * step;
            let (x, y) =
                (16.0 + at(index % (columns * 2), PANEL[0] / 2.0), height + 18.0 + at(index / (columns * 2), 24.0));
            svg += &format!(
                "<circle cx=\"{x}\" cy=\"{}\" r=\"4\" fill=\"{}\"/><text x=\"{}\" y=\"{y}\">{}</text>\n",
                y - 4.0,
                colour(index),
                x + 9.0,
                escaped(method)
            );
        }
        svg + "</svg>\n"
    }

    fn panel(&self, bench: &str) -> String {
        let points = |method: &str| {
            let own = self.cells.iter().filter(move |cell| cell.bench == bench && cell.method == method);
            own.filter_map(|cell| Some((cell, cell.tokens, 100.0 * cell.accuracy?.value))).collect::<Vec<_>>()
        };
        let all: Vec<(&Cell, f64, f64)> = self.methods.iter().flat_map(|method| points(method)).collect();
        let most = |value: fn(&(&Cell, f64, f64)) -> f64| all.iter().map(value).fold(0.0, f64::max);
        let (right, top) = (nice(most(|point| point.1)), nice(most(|point| point.2)).min(100.0));
        let x = |tokens: f64| MARGIN[0] + tokens / right * (PANEL[0] - MARGIN[0] - MARGIN[2]);
        let y = |points: f64| PANEL[1] - MARGIN[3] - points / top * (PANEL[1] - MARGIN[1] - MARGIN[3]);
        let mut drawn = format!("<text x=\"{}\" y=\"20\" font-weight=\"bold\">{}</text>\n", MARGIN[0], escaped(bench));
        for part in 0..=4 {
            let (tokens, accuracy) = (right * f64::from(part) / 4.0, top * f64::from(part) / 4.0);
            let (at_x, at_y) = (x(tokens), y(accuracy));
            drawn += &format!(
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{at_y:.1}\" y2=\"{at_y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{accuracy:.0}</text>\
                 <text x=\"{at_x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                x(0.0),
                x(right),
                x(0.0) - 6.0,
                at_y + 4.0,
                y(0.0) + 16.0,
                count(tokens.round() as u64)
            );
        }
        drawn += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">mean tokens of a response</text>\
             <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">accuracy, %</text>\n",
            x(right / 2.0),
            y(0.0) + 34.0,
            y(top / 2.0)
        );
        for (index, method) in self.methods.iter().enumerate() {
            let points = points(method);
            let line: Vec<String> = points.iter().map(|(_, a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
            drawn += &format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
                line.join(" "),
                colour(index)
            );
            for (cell, tokens, accuracy) in points {
                drawn += &format!(
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{}\"><title>{}, budget {}: {accuracy:.1} %, {tokens:.0} \
                     tokens</title></circle>\n",
                    x(tokens),
                    y(accuracy),
                    colour(index),
                    escaped(method),
                    count(cell.budget.unsigned_abs())
                );
            }
        }
        drawn
    }
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
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
