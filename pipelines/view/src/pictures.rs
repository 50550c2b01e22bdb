//! How the rows of each query become a picture.

use maud::{Markup, html};

use super::chain::{stage, stage_class};
use super::choices;
use super::queries::Picture;
use super::source::QueryRow;
use super::svg::{Bar, Columns, Line, Points, bars, columns, lines, scatter};
use crate::output::{count, percent};
use crate::terminal::visible;

/// Draws a picture; the numbers of the others are enough.
pub(crate) fn picture(of: &Picture, edge: i64, stages: &[&str]) -> Markup {
    match of.name {
        "tokens" => tokens(of, stages),
        "scatter" => kept_tokens(of, edge),
        "chosen" => kept_tokens(of, 1),
        "correct" => choices::correct(of),
        "ratios" => choices::ratios(of),
        "tenths" => tenths(of),
        "lengths" => lengths(of, edge),
        "survival" if of.rows.iter().all(|row| row.count("questions") == 0) => {
            html! { p { "No question of this exam counts." } }
        }
        "survival" => survival(of),
        "scores" => scores(of),
        "reasons" => counted(of, |row| fate(row.text("fate")), "tokens"),
        "fates" => counted(
            of,
            |row| (row.text("fate").to_string(), if row.text("fate") == "pruned" { "k" } else { "u" }),
            "rows",
        ),
        "rungs" => counted(of, |row| (format!("{:.0} %", 100.0 * row.number("rung")), "k"), "chains"),
        "words" => words(of),
        _ => html! {},
    }
}

/// How to read a picture.
pub(crate) fn reading(name: &str) -> &'static str {
    match name {
        "survival" => " Across: the share of tokens kept.",
        "tenths" => {
            " The dashed line is an even cut: random steps keep the same share everywhere on average. A fall to zero shows \
             that the end of the chains was cut."
        }
        "scatter" => " Across: before. Up: after. A chain on the dashed line is whole. Both scales are logarithmic.",
        "chosen" => " Across: the correct samples. Up: the chosen one. Both scales are logarithmic.",
        "ratios" => " The scale is logarithmic: eight columns double the ratio.",
        "lengths" => " The scale is logarithmic: two columns double the length.",
        "scores" => " A column is half a nat wide.",
        _ => "",
    }
}

/// The steps of a chain by what happened to them, with colors.
pub(crate) fn legend(kept: &str, stages: &[&str]) -> Markup {
    html! {
        ul.legend {
            li.k { (kept) }
            @for name in stages { li class=(stage_class(name)) { "dropped by " (stage(name)) } }
        }
    }
}

/// What happened to a step, with its class.
fn fate(fate: &str) -> (String, &'static str) {
    match fate {
        "kept" => ("kept".to_string(), "k"),
        name => (format!("dropped by {}", stage(name)), stage_class(name)),
    }
}

fn tokens(of: &Picture, stages: &[&str]) -> Markup {
    let several = of.rows.rows.len() > 1;
    // A pipeline without stage 1 has no bar for it.
    let staged = |row: &QueryRow<'_>| row.count("after_stage_1") < row.count("original");
    html! {
        @for row in of.rows.iter() {
            @if several { p.facts { (visible(row.text("output"))) } }
            @let most = row.number("original").max(1.0);
            @let [original, coarse, pruned] = ["original", "after_stage_1", "pruned"].map(|name| row.number(name) / most);
            @let stage_1 = bar("after stage 1", row, "after_stage_1", vec![(coarse, "k"), (original - coarse, "a")]);
            (bars(of.title, &[bar("original", row, "original", vec![(original, "k")])].into_iter()
                .chain(staged(&row).then_some(stage_1))
                .chain([bar("pruned", row, "pruned", vec![(pruned, "k"), (coarse - pruned, "r")])]).collect::<Vec<_>>()))
        }
        (legend("left", stages))
    }
}

fn bar(label: &str, row: QueryRow<'_>, column: &str, parts: Vec<(f64, &'static str)>) -> Bar {
    let value = format!("{} ({})", count(row.count(column)), percent(row.number(column), row.number("original")));
    Bar { label: label.to_string(), value, parts }
}

/// A bar per row, as long as the number in `column`.
fn counted(of: &Picture, named: impl Fn(QueryRow<'_>) -> (String, &'static str), column: &str) -> Markup {
    let total: f64 = of.rows.iter().map(|row| row.number(column)).sum();
    let bar = |row: QueryRow<'_>| {
        let (label, class) = named(row);
        let value = format!("{} ({})", count(row.count(column)), percent(row.number(column), total));
        Bar { label, value, parts: vec![(row.number(column) / total.max(1.0), class)] }
    };
    bars(of.title, &of.rows.iter().map(bar).collect::<Vec<_>>())
}

fn tenths(of: &Picture) -> Markup {
    let mut outputs: Vec<(&str, Vec<QueryRow<'_>>)> = Vec::new();
    for row in of.rows.iter() {
        match outputs.iter_mut().find(|(output, _)| *output == row.text("output")) {
            Some((_, rows)) => rows.push(row),
            None => outputs.push((row.text("output"), vec![row])),
        }
    }
    let several = outputs.len() > 1;
    let series: Vec<_> = outputs
        .iter()
        .map(|(output, rows)| {
            let mut heights = vec![0.0; 10];
            for row in rows {
                if let Some(height) = heights.get_mut((row.count("tenth") as usize).saturating_sub(1)) {
                    *height = row.number("kept") / row.number("tokens").max(1.0);
                }
            }
            let sum = |name: &str| rows.iter().map(|row| row.number(name)).sum::<f64>();
            let line = sum("kept") / sum("tokens").max(1.0);
            let name = if several { format!("{}: ", visible(output)) } else { String::new() };
            let most = heights.iter().copied().fold(0.0, f64::max);
            Columns {
                label: format!("{name}even cut {:.1} %, highest {:.1} %", 100.0 * line, 100.0 * most),
                class: "k",
                heights,
                line: Some(line),
            }
        })
        .collect();
    let highest = series.iter().flat_map(|series| &series.heights).copied().fold(f64::MIN_POSITIVE, f64::max);
    let ticks = [(0.0, "first tenth".to_string()), (1.0, "last tenth".to_string())];
    columns(of.title, &series, Some(highest), &ticks, None)
}

fn lengths(of: &Picture, edge: i64) -> Markup {
    let bin = |row: QueryRow<'_>| (2.0 * (row.number("at_most") / edge as f64).log2()).round() as i64;
    let (Some(least), Some(most)) = (of.rows.iter().map(bin).min(), of.rows.iter().map(bin).max()) else {
        return html! {};
    };
    let width = (most + 1 - least) as f64;
    // A bin ends at its number, and bin 0 at the edge.
    let place = |tokens: f64| (2.0 * (tokens / edge as f64).log2() + 1.0 - least as f64) / width;
    let series = [("original", "before"), ("coarse", "after stage 1"), ("pruned", "after pruning")];
    let series = series.map(|(name, label)| {
        let mut heights = vec![0.0; (most + 1 - least) as usize];
        for row in of.rows.iter().filter(|row| row.text("series") == name) {
            heights[(bin(row) - least) as usize] = row.number("chains");
        }
        Columns { label: label.to_string(), class: "k", heights, line: None }
    });
    // Without stage 1, its chains are those before.
    let mut series = Vec::from(series);
    series.dedup_by(|one, before| one.label == "after stage 1" && one.heights == before.heights);
    // A tick for each power of four.
    let ticks = (0..16).map(|power| 4u64.pow(power)).map(|tokens| (place(tokens as f64), count(tokens)));
    let is_inside = |(x, _): &(f64, String)| (0.0..=1.0).contains(x);
    let ticks: Vec<_> = ticks.filter(is_inside).collect();
    // Without a budget, the edge is 1 token.
    let budget = (edge > 1).then(|| (place(edge as f64), format!("budget {}", count(edge as u64))));
    columns(of.title, &series, None, &ticks, budget.filter(is_inside))
}

fn kept_tokens(of: &Picture, edge: i64) -> Markup {
    let log = |tokens: f64| tokens.max(1.0).log2();
    let tokens = || of.rows.iter().flat_map(|row| [row.number("original"), row.number("kept")]);
    let (least, most) = (tokens().map(log).fold(f64::MAX, f64::min), tokens().map(log).fold(1.0, f64::max));
    let (least, most) = (least.floor(), most.ceil());
    let place = |tokens: f64| (log(tokens) - least) / (most - least).max(1.0);
    let mut series: Vec<Points> = Vec::new();
    for row in of.rows.iter() {
        let (original, kept) = (row.count("original"), row.count("kept"));
        let what = format!("{}:{}: {} of {} tokens", row.text("file"), row.count("row"), count(kept), count(original));
        let point = (place(original as f64), place(kept as f64), visible(&what).into_owned());
        let output = visible(row.text("output"));
        match series.iter_mut().find(|series| series.label == output) {
            Some(series) => series.points.push(point),
            None => {
                let class = if series.is_empty() { "k" } else { "s" };
                series.push(Points { label: output.into_owned(), class, points: vec![point] });
            }
        }
    }
    // A tick for each power of four.
    let ticks = (0..16).map(|power| 4u64.pow(power)).map(|tokens| (place(tokens as f64), count(tokens)));
    let is_inside = |(at, _): &(f64, String)| (0.0..=1.0).contains(at);
    let budget = (edge > 1).then(|| (place(edge as f64), format!("budget {}", count(edge as u64))));
    scatter(of.title, &series, &ticks.filter(is_inside).collect::<Vec<_>>(), budget.filter(is_inside))
}

fn scores(of: &Picture) -> Markup {
    let bin = |row: QueryRow<'_>| (2.0 * row.number("score")).round() as i64;
    let (Some(least), Some(most)) = (of.rows.iter().map(bin).min(), of.rows.iter().map(bin).max()) else {
        return html! {};
    };
    let series = [("kept", "kept", "k"), ("dropped", "dropped", "r")].map(|(name, label, class)| {
        let mut heights = vec![0.0; (most + 1 - least) as usize];
        of.rows.iter().for_each(|row| heights[(bin(row) - least) as usize] = row.number(name));
        Columns { label: label.to_string(), class, heights, line: None }
    });
    let ticks = [(0.0, format!("{} nats", least as f64 / 2.0)), (1.0, format!("{} nats", (most + 1) as f64 / 2.0))];
    columns(of.title, &series, None, &ticks, None)
}

fn survival(of: &Picture) -> Markup {
    let mut pipelines: Vec<(&str, Vec<_>)> = Vec::new();
    for row in of.rows.iter().filter(|row| row.count("questions") > 0) {
        let point = (row.number("share"), row.number("survives"), row.number("plus_minus"));
        match pipelines.iter_mut().find(|(name, _)| *name == row.text("pipeline")) {
            Some((_, points)) => points.push(point),
            None => pipelines.push((row.text("pipeline"), vec![point])),
        }
    }
    let mut classes = ["k", "s", "t", "u"].into_iter().cycle();
    let line = |(name, points): (&str, Vec<_>)| {
        let class = match name {
            "random_steps" => "a",
            "block" => "r",
            _ => classes.next().unwrap_or("k"),
        };
        Line { label: visible(name).into_owned(), class, points }
    };
    lines(of.title, &pipelines.into_iter().map(line).collect::<Vec<_>>())
}

fn words(of: &Picture) -> Markup {
    let most = of.rows.iter().map(|row| row.number("dropped") + row.number("kept")).fold(1.0, f64::max);
    let bar = |row: QueryRow<'_>| Bar {
        label: visible(row.text("words")).into_owned(),
        value: format!("{} dropped, {} kept", count(row.count("dropped")), count(row.count("kept"))),
        parts: vec![(row.number("dropped") / most, "u"), (row.number("kept") / most, "k")],
    };
    bars(of.title, &of.rows.iter().map(bar).collect::<Vec<_>>())
}
