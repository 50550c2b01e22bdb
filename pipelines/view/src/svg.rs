//! Pictures as SVG. Positions along the x axis are percentages, so that a picture fits any width and its text stays
//! readable.

use maud::{Markup, html};

use super::text::beginning;

/// Characters of the label and the value of a bar, which share a line that fits a phone.
const LINE: usize = 44;

/// A horizontal bar with its label above it.
pub(crate) struct Bar {
    pub label: String,
    pub value: String,
    /// Shares of the full width, with their classes.
    pub parts: Vec<(f64, &'static str)>,
}

pub(crate) fn bars(label: &str, bars: &[Bar]) -> Markup {
    const ROW: usize = 36;
    html! {
        svg role="img" aria-label=(label) width="100%" height=(bars.len() * ROW) {
            @for (index, bar) in bars.iter().enumerate() {
                @let y = index * ROW;
                (heading(&bar.label, &bar.value, (y + 13) as f64))
                @for (x, width, class) in placed(&bar.parts) {
                    rect class=(class) x=(share(x)) y=(y + 18) width=(share(width)) height="12" {}
                }
            }
        }
    }
}

/// A label and a value on one line, with the whole label where it is cut.
fn heading(label: &str, value: &str, y: f64) -> Markup {
    let shown = beginning(label, LINE.saturating_sub(value.chars().count()));
    html! {
        text x="0" y=(px(y)) { (shown) @if shown != label { title { (label) } } }
        @if !value.is_empty() { text x="100%" y=(px(y)) text-anchor="end" { (value) } }
    }
}

/// The parts of a bar one after another: where each begins, its width and its class.
fn placed<'a>(parts: &'a [(f64, &'static str)]) -> impl Iterator<Item = (f64, f64, &'static str)> + 'a {
    parts.iter().scan(0.0, |x, (width, class)| {
        let begin = *x;
        *x += width;
        Some((begin, *width, *class))
    })
}

/// Columns of one series over an axis, with a label and a value above them.
#[derive(Default)]
pub(crate) struct Columns {
    pub label: String,
    pub value: String,
    pub class: &'static str,
    /// The height of each column.
    pub heights: Vec<f64>,
    /// A horizontal line, such as what a control gives.
    pub line: Option<f64>,
}

/// An axis: places along it, from 0 to 1, and what its numbers count.
pub(crate) struct Axis {
    pub ticks: Vec<(f64, String)>,
    pub unit: &'static str,
}

/// Series one below another over the same axis. A mark is a vertical line. The highest column has the full height, or
/// `full` has.
pub(crate) fn columns(
    label: &str,
    series: &[Columns],
    full: Option<f64>,
    axis: &Axis,
    mark: Option<(f64, String)>,
) -> Markup {
    const HEIGHT: f64 = 56.0;
    const ROW: f64 = HEIGHT + 22.0;
    let bottom = series.len() as f64 * ROW;
    let unit = if axis.unit.is_empty() { 0.0 } else { 16.0 };
    let top = if mark.is_some() { 16.0 } else { 0.0 };
    let bottom = bottom + top;
    html! {
        svg role="img" aria-label=(label) width="100%" height=(bottom + 20.0 + unit) {
            @if let Some((x, mark)) = &mark {
                @let x = *x;
                text class="tick" x=(share(x)) y="13" text-anchor=(if x > 0.5 { "end" } else { "start" }) { (mark) }
            }
            @for (index, columns) in series.iter().enumerate() {
                @let full = full.unwrap_or_else(|| columns.heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max));
                @let base = top + index as f64 * ROW + ROW - 2.0;
                @let width = 1.0 / columns.heights.len().max(1) as f64;
                (heading(&columns.label, &columns.value, base - HEIGHT - 6.0))
                @if let Some((x, _)) = &mark { line class="mark" x1=(share(*x)) x2=(share(*x)) y1=(px(base - HEIGHT)) y2=(px(base)) {} }
                @for (place, height) in columns.heights.iter().enumerate() {
                    @if *height > 0.0 {
                        // A column that is not empty is never invisible.
                        @let height = (height / full * HEIGHT).max(1.0);
                        rect class=(columns.class) x=(share((place as f64 + 0.06) * width)) y=(px(base - height)) width=(share(width * 0.88)) height=(px(height)) {}
                    }
                }
                @if let Some(line) = columns.line {
                    line class="control" x1="0" x2="100%" y1=(px(base - line / full * HEIGHT)) y2=(px(base - line / full * HEIGHT)) {}
                }
                line class="axis" x1="0" x2="100%" y1=(px(base + 0.5)) y2=(px(base + 0.5)) {}
            }
            @for (x, tick) in &axis.ticks { text class="tick" x=(share(*x)) y=(px(bottom + 14.0)) text-anchor=(anchor(*x)) { (tick) } }
            @if unit > 0.0 { text class="tick" x="50%" y=(px(bottom + 30.0)) text-anchor="middle" { (axis.unit) } }
        }
    }
}

/// A line through points, with the half of an interval at each.
pub(crate) struct Line {
    pub label: String,
    pub class: &'static str,
    /// x and y from 0 to 1, and the half of an interval.
    pub points: Vec<(f64, f64, f64)>,
}

pub(crate) fn lines(label: &str, lines: &[Line]) -> Markup {
    const HEIGHT: f64 = 170.0;
    const TOP: f64 = 8.0;
    let y = |value: f64| px(TOP + (1.0 - value.clamp(0.0, 1.0)) * HEIGHT);
    // Room for labels at both ends.
    let x = |value: f64| share(0.08 + 0.84 * value);
    html! {
        svg role="img" aria-label=(label) width="100%" height=(HEIGHT + TOP + 22.0) {
            @for level in [0.0, 0.5, 1.0] {
                line class="axis" x1=(x(0.0)) x2="100%" y1=(y(level)) y2=(y(level)) {}
                text class="tick" x="0" y=(px(TOP + (1.0 - level) * HEIGHT + 4.0)) { (format!("{:.0} %", 100.0 * level)) }
            }
            @for level in [0.25, 0.5, 0.75, 1.0] {
                text class="tick" x=(x(level)) y=(px(HEIGHT + TOP + 18.0)) text-anchor="middle" { (format!("{:.0} %", 100.0 * level)) }
            }
            @for (index, line) in lines.iter().enumerate() {
                // Next to each other, so that no interval hides another.
                @let x = |value: f64| x(value + 0.014 * (index as f64 - (lines.len() - 1) as f64 / 2.0));
                g class=(line.class) {
                    @for pair in line.points.windows(2) {
                        line x1=(x(pair[0].0)) y1=(y(pair[0].1)) x2=(x(pair[1].0)) y2=(y(pair[1].1)) {}
                    }
                    @for (at, value, half) in &line.points {
                        line class="interval" x1=(x(*at)) x2=(x(*at)) y1=(y(value - half)) y2=(y(value + half)) {}
                        circle cx=(x(*at)) cy=(y(*value)) r="4" {}
                    }
                }
            }
        }
        ul class="legend" { @for line in lines { li class=(line.class) { (line.label) } } }
    }
}

/// Cells next to each other, with the height of kept steps. Dropped steps are lower, so that color is not needed.
pub(crate) fn strip(label: &str, cells: &[(f64, &'static str)], height: usize) -> Markup {
    let total = cells.iter().map(|(width, _)| width).sum::<f64>().max(1.0);
    let widths: Vec<_> = cells.iter().map(|(width, class)| (width / total, *class)).collect();
    html! {
        svg class="strip" role="img" aria-label=(label) width="100%" height=(height) {
            @for (x, width, class) in placed(&widths) {
                @let own = match class { "k" => height, "r" | "o" => height * 7 / 12, _ => height * 7 / 24 };
                rect class=(class) x=(share(x)) y=(height - own) width=(share(width)) height=(own) {}
            }
        }
    }
}

/// Points of the same series.
pub(crate) struct Points {
    pub label: String,
    /// x and y from 0 to 1, and what each point is.
    pub points: Vec<(f64, f64, String)>,
}

/// Points over two equal axes, on whose diagonal x is y. Each series has a picture of its own, so that none hides another.
/// A mark is a horizontal line at a height.
pub(crate) fn scatter(label: &str, series: &[Points], ticks: &[(f64, String)], mark: Option<(f64, String)>) -> Markup {
    const SIDE: f64 = 220.0;
    const TOP: f64 = 28.0;
    let y = |value: f64| px(TOP + (1.0 - value) * SIDE);
    let x = |value: f64| share(0.12 + 0.86 * value);
    let points = |series: &Points| {
        html! {
            svg role="img" aria-label={ (label) ": " (series.label) } width="100%" height=(px(TOP + SIDE + 40.0)) {
                text class="tick" x="0" y="12" { "↑ tokens after" }
                text class="tick" x=(x(1.0)) y=(px(TOP + SIDE + 34.0)) text-anchor="end" { "tokens before →" }
                @for (at, tick) in ticks {
                    line class="axis" x1=(x(0.0)) x2=(x(1.0)) y1=(y(*at)) y2=(y(*at)) {}
                    text class="tick" x=(share(0.11)) y=(px(TOP + 4.0 + (1.0 - at) * SIDE)) text-anchor="end" { (tick) }
                    text class="tick" x=(x(*at)) y=(px(TOP + SIDE + 18.0)) text-anchor=(anchor(*at)) { (tick) }
                }
                line class="control" x1=(x(0.0)) y1=(y(0.0)) x2=(x(1.0)) y2=(y(1.0)) {}
                @if let Some((at, _)) = &mark { line class="mark" x1=(x(0.0)) x2=(x(1.0)) y1=(y(*at)) y2=(y(*at)) {} }
                g class="k" {
                    @for (at, value, what) in &series.points { circle cx=(x(*at)) cy=(y(*value)) r="3" { title { (what) } } }
                }
                @if let Some((at, mark)) = &mark {
                    text class="tick" x=(x(1.0)) y=(px(TOP - 4.0 + (1.0 - at) * SIDE)) text-anchor="end" { (mark) }
                }
            }
        }
    };
    match series {
        [one] => points(one),
        series => html! { div.pair { @for each in series { div { p.facts { (each.label) } (points(each)) } } } },
    }
}

fn anchor(x: f64) -> &'static str {
    match x {
        x if x < 0.05 => "start",
        x if x > 0.95 => "end",
        _ => "middle",
    }
}

/// A share as percent with two digits, so that long chains stay small.
fn share(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn px(number: f64) -> String {
    format!("{number:.1}")
}
