//! The overview of an output: as a part of a page, as Markdown and as JSON.

use std::collections::HashSet;

use asap_pipelines::location::command;
use asap_pipelines::run::output::provenance::Provenance;
use datafusion::common::Result;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::chain::{self, COUNTED_ALONE, Chain, On};
use super::choices;
use super::faults::{self, Kind};
use super::filter::Condition;
use super::list::{self, Entry, QUESTION};
use super::page::{page, search};
use super::pictures::{Link, numbers, picture, reading};
use super::place::InputRow;
use super::queries::{Overview, drawn, example, overview, said};
use super::source::{Picture, QueryRow, QueryRows, Source};
use super::stages::Stages;
use super::text::{beginning, cell, head};
use crate::output::{count, percent, several};
use crate::terminal::visible;

/// What a search reads.
pub(crate) const SEARCHED: &str = "Search question, chain and answer, or filter by a condition in SQL";

pub(crate) struct Report {
    pub source: Source,
    pub overview: Overview,
    /// A chain for the first screen, and that of the other output.
    pub example: Option<(Chain, Option<Chain>)>,
    /// The filter of the chains, and their number.
    pub selected: Option<(Condition, u64)>,
}

impl Report {
    pub(crate) async fn of(source: Source) -> Result<Self> {
        let overview = overview(&source).await?;
        let example = example(&source).await?;
        let mut report = Self { source, overview, example: None, selected: None };
        let chain = chain::read(&report.source, &report.source.location, example.as_slice()).await?.pop();
        let other = report.other(example.as_slice()).await?.pop();
        report.example = chain.map(|chain| (chain, other));
        Ok(report)
    }

    /// Chains drawn with a seed among those that pass the filter, each with that of the other output. Without a filter, the
    /// chains that the overview names come first.
    pub(crate) async fn drawn(&self, chains: usize) -> Result<Vec<(Chain, Option<Chain>)>> {
        let filter = self.selected.as_ref().map(|(filter, _)| filter);
        let source = &self.source;
        let mut places: Vec<_> = match filter {
            Some(_) => vec![],
            None => {
                let things = self.things().into_iter().filter_map(|(_, example, _)| InputRow::parse(&example));
                self.example.iter().map(|(chain, _)| chain.place.clone()).chain(things).collect()
            }
        };
        places.extend(drawn(source, filter, chains).await?);
        let mut seen = HashSet::new();
        places.retain(|place| seen.insert(place.clone()));
        places.truncate(chains);
        let mut others = self.other(&places).await?;
        let own = chain::read(source, &source.location, &places).await?.into_iter();
        let pair = |chain: Chain| {
            let other =
                others.iter().position(|other| other.place == chain.place).map(|index| others.swap_remove(index));
            (chain, other)
        };
        Ok(own.map(pair).collect())
    }

    /// The same chains of the other output, if there is one.
    pub(crate) async fn other(&self, places: &[InputRow]) -> Result<Vec<Chain>> {
        match &self.source.against {
            Some(against) => chain::read(&self.source, against, places).await,
            None => Ok(vec![]),
        }
    }

    /// The report as one page.
    pub(crate) fn file(&self, chains: &[(Chain, Option<Chain>)]) -> String {
        let entry = |(index, (chain, other)): (usize, &(Chain, Option<Chain>))| Entry {
            place: chain.place.clone(),
            link: format!("#chain-{}", index + 1),
            original: chain.original_tokens,
            pruned: chain.pruned_tokens,
            other: other.as_ref().map(|other| other.pruned_tokens),
            steps: chain.steps.clone(),
            question: beginning(&chain.question, QUESTION),
        };
        let entries: Vec<_> = chains.iter().enumerate().map(entry).collect();
        let (against, stages) = (self.source.against.as_deref(), self.stages());
        let nav = html! {
            nav aria-label="Contents" { a href="#things" { "Things to look at" } a href="#numbers" { "Numbers" } a href="#chains" { "Chains" } }
        };
        let body = html! {
            (self.html(None, chains))
            section id="chains" {
                h2.chains { "Chains" }
                @if entries.is_empty() { p { (self.no_chains()) } }
                @else {
                    p.about { (self.chosen(chains.len() as u64)) ". Each bar shows the steps of a chain, as wide as their tokens; kept steps have the full height. " (COUNTED_ALONE) }
                    (stages.legend(true))
                    (list::table("Chains of this report", &entries, against.is_some(), &|column| (html! { (column.head) }, None)))
                }
                @for (index, (chain, other)) in chains.iter().enumerate() {
                    article id={ "chain-" (index + 1) } { h3 { (visible(&chain.place.to_string())) } (chain.html(against.zip(other.as_ref()), On::Report, &stages)) }
                }
            }
        };
        page(html! { "asap view " (visible(&self.title())) }, "'none'", nav, body, true)
    }

    /// Why the report shows no chains.
    fn no_chains(&self) -> String {
        match &self.selected {
            Some((filter, _)) => visible(&format!("No chain matches --where: {}.", filter.text)).into_owned(),
            None => "There is no chain: all rows were rejected.".to_string(),
        }
    }

    /// Which chains the report shows.
    fn chosen(&self, shown: u64) -> String {
        let (all, of) = match &self.selected {
            Some((_, selected)) => (*selected, " that --where selects"),
            None => (self.source.status.rows, ""),
        };
        match shown == all {
            true => format!("All chains{of}"),
            false if of.is_empty() => {
                format!("{shown} of {} chains: those that this page names, and random ones", count(all))
            }
            false => format!("{shown} random chains of the {}{of}", count(all)),
        }
    }

    /// The stages that dropped steps.
    pub(crate) fn stages(&self) -> Stages<'_> {
        let of = |is_own: bool| {
            let fates = self.overview.pictures.iter().filter(|picture| picture.name == "reasons");
            let fates = fates.flat_map(|picture| picture.rows.iter());
            let fates = fates.filter(|row| (row.text("output") == self.source.location) == is_own);
            let mut stages: Vec<_> = fates.map(|row| row.text("fate")).filter(|fate| *fate != "kept").collect();
            stages.sort_by_key(|stage| *stage != "anchor");
            stages
        };
        Stages { own: of(true), other: of(false) }
    }

    /// A title of something that is about one of two outputs.
    fn of_this(&self, title: &str) -> String {
        match self.source.against {
            Some(_) => format!("{title}: {}", self.source.location),
            None => title.to_string(),
        }
    }

    /// The title of a picture. Those of an exam are about a pipeline.
    fn title_of(&self, of: &Picture) -> String {
        let is_of_both = of.rows.iter().any(|row| Some(row.text("output")) == self.source.against.as_deref());
        if is_of_both || of.name == "survival" { of.title.to_string() } else { self.of_this(of.title) }
    }

    pub(crate) fn title(&self) -> String {
        let pipeline = self.provenance().map_or(String::new(), |made| format!(", by the pipeline {}", made.pipeline));
        format!("{}, version {}{pipeline}", self.source.location, self.source.status.table_version)
    }

    fn provenance(&self) -> Option<&Provenance> {
        self.source.status.made_by.as_ref()
    }

    fn warning(&self) -> Option<String> {
        self.provenance().and_then(Provenance::warning)
    }

    fn tokens(&self) -> Option<QueryRow<'_>> {
        let is_this = |row: &QueryRow<'_>| row.text("output") == self.source.location;
        self.overview.tokens.rows.iter().find(is_this)
    }

    /// What the run did, in a few sentences. Then the command that measures what was not measured.
    pub(crate) fn sentences(&self) -> (Vec<String>, Option<String>) {
        let mut said = Vec::new();
        let mut to_measure = None;
        let all = several(self.source.status.rows, "chain");
        if self.source.status.rows == 0 {
            let rejects = self.source.status.rejects.values().sum();
            return (vec![format!("All rows that were read are rejects: {}.", count(rejects))], None);
        }
        if let Some(row) = self.tokens() {
            let kept = |row: QueryRow<'_>| percent(row.number("pruned"), row.number("original"));
            let own = kept(row);
            let both = match row.count("rows") {
                rows if rows == self.source.status.rows => format!("all {all}"),
                rows => format!("{} of the {all}", count(rows)),
            };
            let is_other = |row: &QueryRow<'_>| row.text("output") != self.source.location;
            said.push(match self.overview.tokens.rows.iter().find(is_other) {
                None => format!("This run kept {own} of the tokens of {all}."),
                Some(other) => format!(
                    "Both outputs have {both} of this run. Of their tokens, this run kept {own}, and {} kept {}.",
                    other.text("output"),
                    kept(other)
                ),
            });
        }
        said.extend(choices::sentence(&self.source));
        if let Some((filter, selected)) = &self.selected {
            let chains = several(*selected, "chain");
            said.push(format!("These numbers are about all rows; --where selects {chains}: {}.", filter.text));
        }
        match self.survival() {
            Some(survival) => said.extend(survival),
            None => {
                let (from, pipeline) = self.provenance().map_or(("LOC", "PIPELINE"), |made| {
                    (made.input.first().map_or("LOC", String::as_str), made.pipeline.as_str())
                });
                let (why, scorer) = match self.provenance() {
                    Some(made) if !made.is_by_small() => ("", made.tokens_of.as_str()),
                    _ => (" asap's small model states almost no answer: name another model in place of DIR.", "DIR"),
                };
                said.push(format!("Whether the answers survive was not measured.{why}"));
                let model = format!("asap.scorer.model={scorer}");
                let to = ["--to", "out/exam", "--set", &model];
                to_measure =
                    Some(command(&[&["asap", "exam", "--from", from, "--pipelines", pipeline], &to[..]].concat()));
            }
        }
        let sum = |name: &str| self.overview.runs.rows.iter().map(|run| run.number(name)).sum::<f64>();
        said.push(match sum("calls") {
            0.0 => "No language model was called.".to_string(),
            calls => format!("{} calls to language models cost {:.2}.", count(calls as u64), sum("cost")),
        });
        if !self.source.status.finished {
            said.push("The output is not finished: asap table status shows which rows are missing.".to_string());
        }
        (said, to_measure)
    }

    /// The survival of this pipeline's answers, at the share of the exam that is nearest to this output's, and the
    /// questions that do not count.
    fn survival(&self) -> Option<Vec<String>> {
        let exam = self.overview.pictures.iter().find(|picture| picture.name == "survival")?;
        let named = self.provenance().map_or("", |made| made.pipeline.as_str());
        let is_control = |row: &QueryRow<'_>| matches!(row.text("pipeline"), "random_steps" | "block");
        // An output of unknown origin has the first pipeline.
        let pipeline =
            if named.is_empty() { exam.rows.iter().find(|row| !is_control(row))?.text("pipeline") } else { named };
        let tokens = self.tokens()?;
        let kept = tokens.number("pruned") / tokens.number("original").max(1.0);
        let distance = |row: &QueryRow<'_>| (row.number("share") - kept).abs();
        let own = exam.rows.iter().filter(|row| row.text("pipeline") == pipeline);
        let own = own.min_by(|one, other| distance(one).total_cmp(&distance(other)))?;
        let value = |row: QueryRow<'_>| {
            format!("{:.0} ± {:.0} %", 100.0 * row.number("survives"), 100.0 * row.number("plus_minus"))
        };
        let controls = exam.rows.iter().filter(|row| is_control(row) && row.number("share") == own.number("share"));
        let controls: Vec<_> =
            controls.map(|row| format!("{} {}", row.text("pipeline").replace('_', " "), value(row))).collect();
        let counted = match own.count("questions") {
            0 => "The exam cannot tell whether the answers survive: no question counts.".to_string(),
            questions => format!(
                "In the exam, the answer survives {pipeline} at {:.0} % of the tokens in {} of {} ({}).",
                100.0 * own.number("share"),
                value(own),
                several(questions, "question"),
                controls.join(", ")
            ),
        };
        let others = [
            ("not_answered", "that the model does not answer after the whole chain"),
            ("not_comparable", "without an answer that can be compared"),
        ];
        let others = others.into_iter().filter(|(name, _)| own.count(name) > 0);
        let others: Vec<_> =
            others.map(|(name, why)| format!("{} {why}", several(own.count(name), "question"))).collect();
        let left_out = (!others.is_empty()).then(|| format!("Not counted: {}.", others.join(", ")));
        Some([Some(counted), left_out].into_iter().flatten().collect())
    }

    /// The chains to look at: a sentence and the filter that finds them.
    fn things(&self) -> Vec<(String, String, &'static str)> {
        let found = self.overview.things.rows.iter().filter(|row| row.count("chains") > 0);
        let thing = |row: QueryRow<'_>| {
            let (Kind { sql: filter, .. }, about) =
                faults::in_view().find(|(kind, _)| kind.name == row.text("thing"))?;
            Some((
                format!("{} {about}", several(row.count("chains"), "chain")),
                row.text("example").to_string(),
                *filter,
            ))
        };
        found.filter_map(thing).collect()
    }

    /// What the checks looked for, if they found nothing.
    fn no_things(&self) -> String {
        let kinds: Vec<_> = faults::in_view().map(|(_, about)| about).collect();
        format!("Nothing found in {}. asap looked for chains {}.", said(&self.source), kinds.join(", or "))
    }

    /// The command that shows a chain.
    fn reading(&self, example: &str) -> String {
        command(&["asap", "inspect", &self.source.location, "--chain", example])
    }

    /// The overview as a page within a frame: a notebook and the page cannot change each other's style.
    pub(crate) fn frame(&self) -> Markup {
        let page =
            page(html! { "asap view " (visible(&self.title())) }, "'none'", html! {}, self.html(None, &[]), false);
        html! { iframe title="What pruning did" srcdoc=(page) sandbox="" style="width: 100%; height: 640px; border: 0; resize: vertical" {} }
    }

    /// The overview as a part of a page. `link` gives the address of a page of the server with these arguments, and
    /// `chains` are those on the same page.
    pub(crate) fn html(&self, link: Option<Link<'_>>, chains: &[(Chain, Option<Chain>)]) -> Markup {
        let (sentences, command) = self.sentences();
        let things = self.things();
        // What happened to the rows is on the first screen, if there is one.
        let is_first = |picture: &&Picture| picture.name == "fates" && self.source.status.rows > 0;
        let (rows, pictures): (Vec<_>, Vec<_>) = self.overview.pictures.iter().partition(is_first);
        let named = |name: &str| {
            let place = InputRow::parse(name);
            let index = chains.iter().position(|(chain, _)| Some(&chain.place) == place.as_ref());
            let address = match (link, place) {
                (Some(link), Some(place)) => {
                    Some(link("chain", &[("file", &place.file), ("row", &place.row.to_string())]))
                }
                _ => index.map(|index| format!("#chain-{}", index + 1)),
            };
            html! { @if let Some(address) = address { a href=(address) { (visible(name)) } } @else { code { (visible(name)) } } }
        };
        html! {
            h1 { (visible(&self.title())) }
            div.lead {
                p { @for sentence in &sentences { (visible(sentence)) " " } }
                @if let Some(command) = command { p { "To measure it: " code { (visible(&command)) } } }
            }
            @if let Some(warning) = self.warning() { p.warning { "Note: " (visible(&warning)) "." } }
            @if link.is_some() { (search("chains", SEARCHED, "", "")) }
            @if self.source.status.rows > 0 { div.first {
                div {
                    (self.picture(&self.overview.tokens, link))
                    section.things.warning[!things.is_empty()] id="things" {
                        h2 { (visible(&self.of_this("Things to look at"))) }
                        @if things.is_empty() { p { (self.no_things()) } }
                        @else {
                            p.about { "In " (said(&self.source)) ":" }
                            ul {
                                @for (what, example, filter) in &things {
                                    li {
                                        @if let Some(link) = link { a href=(link("chains", &[("where", filter)])) { (what) } } @else { (what) }
                                        ", such as " (named(example))
                                    }
                                }
                            }
                            @if link.is_none() { p.about { "To read the first: " code { (visible(&self.reading(&things[0].1))) } } }
                        }
                        (numbers(&self.overview.things, true, link))
                    }
                    @for each in &rows { (self.picture(each, link)) }
                }
                @if let Some((chain, other)) = &self.example {
                    section.picture {
                        h2 { (visible(&self.of_this("A chain"))) }
                        p.about { (named(&chain.place.to_string())) ": " (chain.summary()) }
                        (chain.preview(self.source.against.as_deref().zip(other.as_ref()), &self.stages()))
                    }
                }
            } }
            div.pictures id="numbers" {
                @for each in &pictures { (self.picture(each, link)) }
                (self.picture(&self.overview.runs, link))
            }
        }
    }

    fn picture(&self, of: &Picture, link: Option<Link<'_>>) -> Markup {
        let drawn = picture(of, &self.source, &self.stages());
        html! {
            section.picture.wide[drawn.0.is_empty()] id=(of.name) {
                h2 { (visible(&self.title_of(of))) }
                p.about { (of.about) (reading(of.name)) }
                (drawn)
                (numbers(of, !drawn.0.is_empty(), link))
            }
        }
    }

    /// The overview for a dataset card, without the queries: its readers do not have the table.
    pub(crate) fn card(&self) -> String {
        self.written(false)
    }

    fn written(&self, with_sql: bool) -> String {
        let (sentences, command) = self.sentences();
        let mut lines = vec![markdown(&sentences.join(" "))];
        lines.extend(command.map(|command| format!("\nTo measure it: {}", code(&command))));
        lines.extend(self.warning().map(|warning| format!("\nNote: {}.", markdown(&warning))));
        let things = self.things();
        if !things.is_empty() {
            lines.push(format!(
                "\n### {}\n\nIn {}:\n",
                markdown(&self.of_this("Things to look at")),
                said(&self.source)
            ));
            lines.extend(things.iter().map(|(what, example, _)| format!("- {what}, such as {}", markdown(example))));
            lines.extend(with_sql.then(|| format!("\nTo read the first: {}", code(&self.reading(&things[0].1)))));
        }
        let tokens = (self.source.status.rows > 0).then_some(&self.overview.tokens);
        let all = tokens.into_iter().chain(&self.overview.pictures).chain([&self.overview.runs]);
        let is_written =
            |name| !matches!(name, "scatter" | "chosen") && (with_sql || !matches!(name, "rejects" | "runs"));
        for each in all.filter(|each| is_written(each.name)) {
            lines.push(format!("\n### {}\n\n{}\n", markdown(&self.title_of(each)), markdown(&each.about)));
            lines.push(table(&each.rows));
            lines.extend(with_sql.then(|| format!("\n```sql\n{}\n```", each.sql)));
        }
        lines.join("\n") + "\n"
    }

    pub(crate) fn markdown(&self, chains: &[(Chain, Option<Chain>)]) -> String {
        let mut lines = vec![format!("# {}\n", markdown(&self.title())), self.written(true)];
        for (chain, _) in chains {
            let text = chain.terminal(false);
            // A fence longer than any in the text.
            let ticks = text.lines().map(|line| line.chars().filter(|scalar| *scalar == '`').count()).max();
            let fence = "`".repeat(ticks.unwrap_or(0).max(2) + 1);
            lines.push(format!("### Chain {}\n\n{fence}diff\n{text}\n{fence}\n", markdown(&chain.place.to_string())));
        }
        lines.join("\n")
    }

    pub(crate) fn json(&self, chains: &[(Chain, Option<Chain>)]) -> Value {
        let (sentences, command) = self.sentences();
        let Overview { tokens, runs, things, pictures, sampled } = &self.overview;
        let all: Vec<_> = [tokens, things].into_iter().chain(pictures).chain([runs]).collect();
        json!({
            "output": self.source.location, "table_version": self.source.status.table_version, "made_by": self.provenance(),
            "rows": self.source.status.rows, "rejects": self.source.status.rejects, "sampled": sampled,
            "sentences": sentences, "warning": self.warning(), "to_measure": command, "pictures": all,
            "chains": chains.iter().map(|(chain, _)| chain).collect::<Vec<_>>(),
        })
    }
}

fn table(rows: &QueryRows) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let heads = rows.columns.iter().map(|column| head(column).to_string()).collect();
    let mut lines = vec![line(heads), format!("|{}", "---|".repeat(rows.columns.len()))];
    lines.extend(
        rows.iter()
            .map(|row| line(rows.columns.iter().map(|column| markdown(&cell(column, row.get(column)))).collect())),
    );
    lines.join("\n")
}

/// A command in Markdown, between more backticks than it has.
fn code(command: &str) -> String {
    let command = visible(command).replace(['\n', '\t'], " ");
    match command.matches('`').count() {
        0 => format!("`{command}`"),
        ticks => format!("{0} {command} {0}", "`".repeat(ticks + 1)),
    }
}

/// A text without effect in Markdown.
fn markdown(text: &str) -> String {
    let mut shown = String::new();
    for scalar in visible(text).chars() {
        match scalar {
            '\n' => shown.push(' '),
            '<' => shown += "&lt;",
            '&' => shown += "&amp;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => shown.extend(['\\', scalar]),
            scalar => shown.push(scalar),
        }
    }
    shown
}
