//! How the rows of each query become a picture.

use maud::{Markup, html};

use super::choices;
use super::place::InputRow;
use super::queries::edge;
use super::source::{Picture, QueryRow, Source};
use super::stages::{Stages, stage};
use super::svg::{Axis, Bar, Columns, Line, Points, bars, columns, lines, scatter};
use super::text::{cell, head};
use crate::output::{count, percent, several};
use crate::terminal::visible;

/// The address of a page with arguments.
pub(crate) type Link<'a> = &'a dyn Fn(&str, &[(&str, &str)]) -> String;

/// Draws a picture; the numbers of the others are enough.
pub(crate) fn picture(of: &Picture, source: &Source, stages: &Stages<'_>) -> Markup {
    let edge = edge(source);
    match of.name {
        "tokens" => tokens(of, source, stages),
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
        "reasons" => reasons(of, source, stages),
        "fates" => counted(
            of.title,
            of.rows.iter(),
            |row| (row.text("fate").to_string(), if row.text("fate") == "pruned" { "k" } else { "u" }),
            "rows",
        ),
        "rungs" => {
            counted(of.title, of.rows.iter(), |row| (format!("{:.0} %", 100.0 * row.number("rung")), "k"), "chains")
        }
        "words" => words(of, stages),
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
        "scatter" => " A chain on the dashed line lost nothing. Both scales are logarithmic.",
        "lengths" => " The scale is logarithmic: every second column, the length doubles.",
        "chosen" => " Both scales are logarithmic.",
        "ratios" => " The scale is logarithmic: eight columns double the ratio.",
        "scores" => " A column is half a nat wide.",
        _ => "",
    }
}

/// The most numbers of an axis, so that their texts fit a phone.
const TICKS: usize = 7;

/// Round numbers on a logarithmic axis, from 0 to 1.
fn ticks(place: impl Fn(f64) -> f64) -> Vec<(f64, String)> {
    let of = |firsts: &[u64]| -> Vec<_> {
        let numbers = (0..9).flat_map(|power| firsts.iter().map(move |first| first * 10_u64.pow(power)));
        let placed = numbers.map(|number| (place(number as f64), count(number)));
        placed.filter(|(at, _)| (0.0..=1.0).contains(at)).collect()
    };
    let firsts: [&[u64]; 4] = [&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[1, 2, 5], &[1, 5], &[1]];
    firsts.into_iter().map(of).find(|ticks| ticks.len() <= TICKS).unwrap_or_default()
}

/// Series of columns, each with its name and the chains or steps of its highest column.
fn with_highest(mut series: Vec<Columns>, thing: &str) -> Vec<Columns> {
    for columns in &mut series {
        let most = columns.heights.iter().copied().fold(0.0, f64::max);
        columns.value = format!("highest column: {}", several(most as u64, thing));
    }
    series
}

/// The rows of each output.
fn by_output(of: &Picture) -> Vec<(&str, Vec<QueryRow<'_>>)> {
    let mut outputs: Vec<(&str, Vec<QueryRow<'_>>)> = Vec::new();
    for row in of.rows.iter() {
        match outputs.iter_mut().find(|(output, _)| *output == row.text("output")) {
            Some((_, rows)) => rows.push(row),
            None => outputs.push((row.text("output"), vec![row])),
        }
    }
    outputs
}

fn reasons(of: &Picture, source: &Source, stages: &Stages<'_>) -> Markup {
    let outputs = by_output(of);
    html! {
        @for (output, rows) in &outputs {
            @if outputs.len() > 1 { p.facts { (visible(output)) } }
            @let named = |row: QueryRow<'_>| match row.text("fate") {
                "kept" => ("kept".to_string(), "k"),
                // Next to its value, there is room for no more words.
                name => (stage(name), stages.class(name, *output == source.location)),
            };
            (counted(of.title, rows.iter().copied(), named, "tokens"))
        }
    }
}

fn tokens(of: &Picture, source: &Source, stages: &Stages<'_>) -> Markup {
    let several = of.rows.rows.len() > 1;
    // A pipeline without stage 1 has no bar for it.
    let staged = |row: &QueryRow<'_>| row.count("after_stage_1") < row.count("original");
    html! {
        @for row in of.rows.iter() {
            @if several { p.facts { (visible(row.text("output"))) } }
            @let is_own = row.text("output") == source.location;
            @let last = stages.of(is_own).map(|(_, class)| class).find(|class| *class != "a").unwrap_or("r");
            @let most = row.number("original").max(1.0);
            @let [original, coarse, pruned] = ["original", "after_stage_1", "pruned"].map(|name| row.number(name) / most);
            @let stage_1 = bar("after stage 1", row, "after_stage_1", vec![(coarse, "k"), (original - coarse, "a")]);
            (bars(of.title, &[bar("original", row, "original", vec![(original, "k")])].into_iter()
                .chain(staged(&row).then_some(stage_1))
                .chain([bar("pruned", row, "pruned", vec![(pruned, "k"), (coarse - pruned, last)])]).collect::<Vec<_>>()))
            (stages.legend(is_own))
        }
    }
}

/// The numbers of a picture and its query. Both are folded, except the numbers of one that has no picture. Rows of the
/// input are links to their pages.
pub(crate) fn numbers(of: &Picture, is_drawn: bool, link: Option<Link<'_>>) -> Markup {
    let page = if of.name == "rejects" { "reject" } else { "chain" };
    let address = |row: QueryRow<'_>, column: &str| {
        let (place, link) = (InputRow::of(row), link.filter(|_| column == "row" && !row.get("file").is_null())?);
        Some(link(page, &[("file", &place.file), ("row", &place.row.to_string())]))
    };
    let table = html! {
        @if of.rows.rows.is_empty() { p.about { "No rows." } }
        @else { div.scroll.list[!is_drawn] role="region" aria-label={ "Numbers: " (of.title) } tabindex="0" {
            table id={ "numbers-" (of.name) } {
                thead { tr { @for column in &of.rows.columns { th.n[of.rows.is_number(column)] scope="col" { (head(column)) } } } }
                tbody {
                    @for row in of.rows.iter() {
                        tr { @for column in &of.rows.columns { td.n[of.rows.is_number(column)] data-head=[(!is_drawn).then(|| head(column))] {
                            @let shown = cell(column, row.get(column));
                            @if let Some(address) = address(row, column) { a href=(address) { (shown) } } @else { (visible(&shown)) }
                        } } }
                    }
                }
            }
        } }
    };
    html! {
        @if !is_drawn { (table) }
        details {
            summary { @if is_drawn { "Numbers and SQL" } @else { "SQL" } }
            @if is_drawn { (table) }
            pre.sql tabindex="0" { code { (of.sql) } }
        }
    }
}

fn bar(label: &str, row: QueryRow<'_>, column: &str, parts: Vec<(f64, &'static str)>) -> Bar {
    let value = format!("{} ({})", count(row.count(column)), percent(row.number(column), row.number("original")));
    Bar { label: label.to_string(), value, parts }
}

/// A bar per row, as long as the number in `column`.
fn counted<'a>(
    title: &str,
    rows: impl Iterator<Item = QueryRow<'a>> + Clone,
    named: impl Fn(QueryRow<'_>) -> (String, &'static str),
    column: &str,
) -> Markup {
    let total: f64 = rows.clone().map(|row| row.number(column)).sum();
    let bar = |row: QueryRow<'_>| {
        let (label, class) = named(row);
        let value = format!("{} ({})", count(row.count(column)), percent(row.number(column), total));
        Bar { label, value, parts: vec![(row.number(column) / total.max(1.0), class)] }
    };
    bars(title, &rows.map(bar).collect::<Vec<_>>())
}

fn tenths(of: &Picture) -> Markup {
    let outputs = by_output(of);
    let several = outputs.len() > 1;
    let series: Vec<_> = outputs
        .iter()
        .map(|(output, rows)| {
            let mut heights = vec![0.0; 10];
            for row in rows {
                if let Some(height) = heights.get_mut((row.count("tenth") as usize).saturating_sub(1)) {
                    *height = row.number("kept") / row.number("tokens").max(f64::MIN_POSITIVE);
                }
            }
            let sum = |name: &str| rows.iter().map(|row| row.number(name)).sum::<f64>();
            let line = sum("kept") / sum("tokens").max(f64::MIN_POSITIVE);
            let most = heights.iter().copied().fold(0.0, f64::max);
            let shares = format!("even cut {:.1} %, at most {:.1} %", 100.0 * line, 100.0 * most);
            let (label, value) = if several { (visible(output).to_string(), shares) } else { (shares, String::new()) };
            Columns { label, value, class: "k", heights, line: Some(line) }
        })
        .collect();
    let highest = series.iter().flat_map(|series| &series.heights).copied().fold(f64::MIN_POSITIVE, f64::max);
    let ticks = vec![(0.0, "first tenth".to_string()), (1.0, "last tenth".to_string())];
    columns(of.title, &series, Some(highest), &Axis { ticks, unit: "" }, None)
}

fn lengths(of: &Picture, edge: i64) -> Markup {
    let bin = |row: QueryRow<'_>| (2.0 * (row.number("at_most") / edge as f64).log2()).round() as i64;
    let (Some(least), Some(most)) = (of.rows.iter().map(bin).min(), of.rows.iter().map(bin).max()) else {
        return html! {};
    };
    let width = (most + 1 - least) as f64;
    // A bin ends at its number, and bin 0 at the edge.
    let place = |tokens: f64| (2.0 * (tokens / edge as f64).log2() + 1.0 - least as f64) / width;
    let series = [("original", "before"), ("after_stage_1", "after stage 1"), ("pruned", "after pruning")];
    let series = series.map(|(name, label)| {
        let mut heights = vec![0.0; (most + 1 - least) as usize];
        for row in of.rows.iter().filter(|row| row.text("series") == name) {
            heights[(bin(row) - least) as usize] = row.number("chains");
        }
        Columns { label: label.to_string(), class: "k", heights, ..Columns::default() }
    });
    // Without stage 1, its chains are those before.
    let mut series = Vec::from(series);
    series.dedup_by(|one, before| one.label == "after stage 1" && one.heights == before.heights);
    let series = with_highest(series, "chain");
    let axis = Axis { ticks: ticks(place), unit: "tokens" };
    columns(of.title, &series, None, &axis, budget(edge, place))
}

/// The place of the budget on an axis. Without a budget, the edge is 1 token.
fn budget(edge: i64, place: impl Fn(f64) -> f64) -> Option<(f64, String)> {
    let at = place(edge as f64);
    (edge > 1 && (0.0..=1.0).contains(&at)).then(|| (at, format!("budget {}", count(edge as u64))))
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
            None => series.push(Points { label: output.into_owned(), points: vec![point] }),
        }
    }
    scatter(of.title, &series, &ticks(place), budget(edge, place))
}

fn scores(of: &Picture) -> Markup {
    let bin = |row: QueryRow<'_>| (2.0 * row.number("score")).round() as i64;
    let (Some(least), Some(most)) = (of.rows.iter().map(bin).min(), of.rows.iter().map(bin).max()) else {
        return html! {};
    };
    let series = [("kept", "kept", "k"), ("dropped", "dropped", "r")].map(|(name, label, class)| {
        let mut heights = vec![0.0; (most + 1 - least) as usize];
        of.rows.iter().for_each(|row| heights[(bin(row) - least) as usize] = row.number(name));
        Columns { label: label.to_string(), class, heights, ..Columns::default() }
    });
    let series = with_highest(Vec::from(series), "step");
    // Each nat is two columns.
    let (first, last) = ((least + 1).div_euclid(2), (most + 1).div_euclid(2));
    let each = [1, 2, 5].into_iter().find(|each| (last - first) / each < TICKS as i64).unwrap_or(10);
    let nats = (first..=last).filter(|nat| nat % each == 0);
    let ticks = nats.map(|nat| ((2 * nat - least) as f64 / (most + 1 - least) as f64, nat.to_string())).collect();
    columns(of.title, &series, None, &Axis { ticks, unit: "nats" }, None)
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

fn words(of: &Picture, stages: &Stages<'_>) -> Markup {
    // Several stages share a color that none of them has.
    let (dropped, class) = match stages.own.as_slice() {
        [one] => (format!("dropped by {}", stage(one)), stages.class(one, true)),
        _ => ("dropped".to_string(), "u"),
    };
    let most = of.rows.iter().map(|row| row.number("dropped") + row.number("kept")).fold(1.0, f64::max);
    let bar = |row: QueryRow<'_>| Bar {
        label: visible(row.text("words")).into_owned(),
        value: format!("{} dropped, {} kept", count(row.count("dropped")), count(row.count("kept"))),
        parts: vec![(row.number("dropped") / most, class), (row.number("kept") / most, "k")],
    };
    html! {
        (bars(of.title, &of.rows.iter().map(bar).collect::<Vec<_>>()))
        ul.legend { li class=(class) { (dropped) } li.k { "kept" } }
    }
}
