//! Pages of the server: the list of chains, a chain, and the rejects.

use datafusion::common::{DFSchema, Result};
use maud::{Markup, html};

use super::asked::{Asked, address};
use super::chain::{self, On, steps};
use super::filter::{Condition, OtherMeaning};
use super::list::{self, COLUMNS, Column, Entry, QUESTION};
use super::page::search;
use super::place::{BY_PLACE, InputRow, PLACE};
use super::reject;
use super::report::{Report, SEARCHED};
use super::source::{Listing, QueryRow, QueryRows};
use super::text::beginning;
use crate::output::{count, quoted, several};
use crate::terminal::visible;

/// Rows of a list.
const PAGE: u64 = 50;

/// Where a row is in its list.
struct Position {
    place: Option<InputRow>,
    at: u64,
    /// The rows of the list.
    of: u64,
}

/// The address of the page of a row.
pub(super) fn row_address(place: &InputRow) -> String {
    address("chain", &[("file", &place.file), ("row", &place.row.to_string())])
}

impl Report {
    pub(super) async fn chains_page(&self, asked: &Asked) -> Result<Markup> {
        let source = &self.source;
        let has_other = source.against.is_some();
        let filter = asked.condition(source, &source.location, &source.schema).await?;
        let counted = ["original_tokens", "pruned_tokens", "other_tokens"];
        let (by, is_largest_first) = asked.sorted(has_other);
        let listing = Listing {
            table: source.chains(),
            columns: &[&PLACE[..], &counted[..2 + usize::from(has_other)]].concat(),
            condition: filter.as_ref(),
            order: &by.order(is_largest_first),
            first: asked.from,
            rows: Some(PAGE),
        };
        let (rows, total) = source.counted(&listing, source.status.rows).await?;
        let texts = self.texts(&rows).await?;
        let entry = |(index, row): (usize, QueryRow<'_>)| {
            let place = InputRow::of(row);
            let text = texts.iter().find(|text| InputRow::of(*text) == place);
            Entry {
                link: asked.link("chain", &[("at", &(asked.from + index as u64).to_string())]),
                original: row.count("original_tokens"),
                pruned: row.count("pruned_tokens"),
                other: row.get("other_tokens").as_u64(),
                steps: text.map(steps).unwrap_or_default(),
                question: text.map_or(String::new(), |text| beginning(text.text("question"), QUESTION)),
                place,
            }
        };
        let entries: Vec<_> = rows.iter().enumerate().map(entry).collect();
        let head = |column: &Column| {
            let is_first = by.name == column.name;
            let next = if is_first { !is_largest_first } else { column.is_number() };
            let order = format!("{}{}", if next { "-" } else { "" }, column.name);
            let (arrow, sorted) = match (is_first, is_largest_first) {
                (false, _) => ("", None),
                (true, true) => (" ↓", Some("descending")),
                (true, false) => (" ↑", Some("ascending")),
            };
            (html! { a href=(asked.link("chains", &[("sort", &order)])) { (column.head) (arrow) } }, sorted)
        };
        Ok(html! {
            h1 { (self.of_output("Chains")) }
            (form("chains", asked))
            (self.found(asked, "chain", filter.as_ref(), total, &source.schema))
            @if let Some(rejects) = self.rejects_found(asked, filter.as_ref()).await? { p { (rejects) } }
            @else if let (0, Some(place)) = (total, InputRow::parse(&asked.filter)) {
                p { (visible(&place.to_string())) ": " (visible(&place.missing(source).await?)) "." }
            }
            @if !entries.is_empty() {
                (self.stages().legend(true))
                (list::table("Chains", &entries, has_other, &head))
            }
            (pager(asked, "chains", total))
            (self.shown(&listing))
        })
    }

    /// The steps of rows and the beginnings of their questions, so that only these rows' texts are read.
    async fn texts(&self, rows: &QueryRows) -> Result<QueryRows> {
        if rows.rows.is_empty() {
            return Ok(QueryRows::default());
        }
        let places: Vec<_> = rows.iter().map(InputRow::of).collect();
        let (source, condition) = (&self.source, chain::at(&places));
        let columns = &[PLACE[0], PLACE[1], "left(question, 300) AS question", "steps"];
        source.listed(&Listing { columns, ..chain::query(source, &source.location, &condition) }).await
    }

    /// None if there is no such chain.
    pub(super) async fn chain_page(&self, asked: &Asked) -> Result<Option<Markup>> {
        let source = &self.source;
        let filter = asked.condition(source, &source.location, &source.schema).await?;
        // A row that an address names has its place in the order of places.
        let place = asked.place.as_ref();
        let (by, is_largest_first) =
            if place.is_some() { (&COLUMNS[0], false) } else { asked.sorted(source.against.is_some()) };
        let order = by.order(is_largest_first);
        let position = self.position(source.chains(), filter.as_ref(), &order, asked).await?;
        let Some(place) = place.or(position.place.as_ref()) else { return Ok(None) };
        let Some(chain) = chain::read(source, &source.location, std::slice::from_ref(place)).await?.pop() else {
            return self.reject_page(asked).await;
        };
        let other = self.other(std::slice::from_ref(place)).await?;
        let own = row_address(place);
        Ok(Some(html! {
            article {
                h1 { (self.of_output(&format!("Chain {place}"))) }
                (around(asked, "chain", place, &position, html! {
                    a href=(own) { "link" }
                    @if !asked.is_whole { a href={ (own) "&whole=1" } { "all text" } }
                    a href=(asked.link("chains", &[])) { "list" }
                }))
                (chain.html(source.against.as_deref().zip(other.first()), if asked.is_whole { On::WholePage } else { On::Page }, &self.stages()))
            }
            (self.shown(&chain::query(source, &source.location, &chain::at(std::slice::from_ref(place)))))
        }))
    }

    /// The page of a rejected row. None if the row was not rejected.
    pub(super) async fn reject_page(&self, asked: &Asked) -> Result<Option<Markup>> {
        if self.source.status.rejects.is_empty() {
            return Ok(None);
        }
        let (rejects, order) = (self.source.rejects(), COLUMNS[0].order(false));
        let filter = self.of_rejects(asked).await?;
        let position = self.position(&rejects, filter.as_ref(), &order, asked).await?;
        let Some(place) = asked.place.as_ref().or(position.place.as_ref()) else { return Ok(None) };
        let Some(row) = reject::read(&self.source, place).await? else { return Ok(None) };
        Ok(Some(html! {
            article {
                h1 { (self.of_output(&format!("Reject {place}"))) }
                (around(asked, "reject", place, &position, html! { a href=(asked.link("rejects", &[])) { "list" } }))
                (reject::html(&row))
            }
        }))
    }

    /// The filter over rejects.
    async fn of_rejects(&self, asked: &Asked) -> Result<Option<Condition>> {
        let (source, schema) = (&self.source, self.source.columns_of_rejects().await?);
        let mut filter = asked.condition(source, &source.rejects(), &schema).await?;
        // A status is a word too.
        let status = asked.filter.trim().strip_prefix("NOT ").or(asked.filter.trim().strip_prefix('-'));
        if let Some(not_sql) = filter.as_mut().and_then(|filter| filter.not_sql.as_mut())
            && let Some(status) = status.map(str::trim).filter(|status| source.status.rejects.contains_key(*status))
        {
            not_sql.meant = Some(format!("status <> {}", quoted(status)));
        }
        Ok(filter)
    }

    /// The heading of a page, with the output: a browser may show pages of several.
    fn of_output(&self, what: &str) -> String {
        visible(&format!("{what} of {}", self.source.location)).into_owned()
    }

    /// The rejects that a text finds which is no condition of chains.
    async fn rejects_found(&self, asked: &Asked, chains: Option<&Condition>) -> Result<Option<Markup>> {
        let is_words = chains.is_some_and(|chains| chains.not_sql.is_some());
        if !is_words || self.source.status.rejects.is_empty() {
            return Ok(None);
        }
        let Some(filter) = self.of_rejects(asked).await? else { return Ok(None) };
        let rejects = self.source.passed(&self.source.rejects(), &filter).await?;
        let meant = filter.not_sql.and_then(|not_sql| not_sql.meant).filter(|_| rejects == 0);
        let link = |filter: &str| address("rejects", &[("where", filter)]);
        Ok(match meant {
            Some(meant) => {
                Some(html! { "Of rejects, did you mean " a href=(link(&meant)) { code { (visible(&meant)) } } "?" })
            }
            None => (rejects > 0)
                .then(|| html! { "It finds " a href=(link(&asked.filter)) { (several(rejects, "reject")) } "." }),
        })
    }

    /// Why there is no row that was asked for. `thing` is a chain or a reject.
    pub(super) async fn missing(&self, asked: &Asked, thing: &str) -> Result<String> {
        let source = &self.source;
        if let Some(place) = &asked.place {
            return Ok(format!("{} has no row {place}: {}.", source.location, place.missing(source).await?));
        }
        let rows = if thing == "chain" {
            let filter = asked.condition(source, &source.location, &source.schema).await?;
            source.selected(filter.as_ref()).await?
        } else {
            match self.of_rejects(asked).await? {
                Some(filter) => source.passed(&source.rejects(), &filter).await?,
                None => source.status.rejects.values().sum(),
            }
        };
        Ok(format!("The list has {}, and at counts them from 0.", several(rows, thing)))
    }

    /// Where the row is that was asked for, and the row there.
    async fn position(
        &self,
        table: &str,
        condition: Option<&Condition>,
        order: &[(&str, bool)],
        asked: &Asked,
    ) -> Result<Position> {
        let at = match &asked.place {
            Some(place) => self.source.passed(table, &place.before().and(condition)).await?,
            None => asked.at.unwrap_or(0),
        };
        let listing = Listing { table, columns: &PLACE, condition, order, first: at, rows: Some(1) };
        let status = &self.source.status;
        let all = if table == self.source.rejects() { status.rejects.values().sum() } else { status.rows };
        let (rows, of) = self.source.counted(&listing, all).await?;
        Ok(Position { place: rows.first().map(InputRow::of), at, of })
    }

    pub(super) async fn rejects_page(&self, asked: &Asked) -> Result<Markup> {
        let source = &self.source;
        let rejects = &source.status.rejects;
        if rejects.is_empty() {
            return Ok(html! { h1 { (self.of_output("Rejects")) } p { "No row was rejected." } });
        }
        let filter = self.of_rejects(asked).await?;
        let schema = source.columns_of_rejects().await?;
        let listing = Listing {
            table: &source.rejects(),
            columns: &["status", PLACE[0], PLACE[1], "error"],
            condition: filter.as_ref(),
            order: &BY_PLACE,
            first: asked.from,
            rows: Some(PAGE),
        };
        let (rows, total) = source.counted(&listing, rejects.values().sum()).await?;
        let of_status = |status: &String| format!("status = {}", quoted(status));
        let is_chosen = |filter: &str| (asked.filter.trim() == filter).then_some("page");
        let cell = |row: QueryRow<'_>, column| visible(row.text(column)).into_owned();
        let row_link =
            |place: &InputRow| asked.link("reject", &[("file", &place.file), ("row", &place.row.to_string())]);
        Ok(html! {
            h1 { (self.of_output("Rejects")) }
            (form("rejects", asked))
            p {
                a href="rejects" aria-current=[is_chosen("")] { "all" }
                @for (status, rows) in rejects {
                    @let filter = of_status(status);
                    " · " a href=(address("rejects", &[("where", &filter)])) aria-current=[is_chosen(&filter)] { (visible(status)) " (" (count(*rows)) ")" }
                }
            }
            (self.found(asked, "reject", filter.as_ref(), total, &schema))
            @if let (0, Some(place)) = (total, InputRow::parse(&asked.filter)) {
                p { a href=(row_address(&place)) { (visible(&place.to_string())) } ": " (visible(&place.missing(source).await?)) "." }
            }
            @if !rows.rows.is_empty() { div.scroll role="region" aria-label="Rejects" tabindex="0" {
                table.list {
                    thead { tr { @for head in ["row", "status", "error"] { th scope="col" { (head) } } } }
                    tbody {
                        @for row in rows.iter() {
                            @let place = InputRow::of(row);
                            tr { td { a href=(row_link(&place)) { (visible(&place.to_string())) } } td { (cell(row, "status")) } td.long { (cell(row, "error")) } }
                        }
                    }
                }
            } }
            (pager(asked, "rejects", total))
            (self.shown(&listing))
        })
    }

    fn shown(&self, listing: &Listing<'_>) -> Markup {
        html! { details { summary { "SQL" } pre.sql tabindex="0" { code { (visible(&listing.sql(&self.source))) } } } }
    }
}

pub(super) fn form(page: &str, asked: &Asked) -> Markup {
    let label = if page == "rejects" { "Search the texts, or filter by a condition in SQL" } else { SEARCHED };
    search(page, label, &asked.filter, &asked.order)
}

impl Report {
    /// How many chains or rejects a filter found, and as what it was read.
    fn found(&self, asked: &Asked, thing: &str, filter: Option<&Condition>, total: u64, schema: &DFSchema) -> Markup {
        let not_sql = filter.and_then(|filter| filter.not_sql.as_ref());
        let looser = filter.filter(|_| total == 0).and_then(|filter| filter.looser(schema));
        let others = filter.and_then(|filter| filter.other.clone()).into_iter().chain(looser);
        let page = format!("{thing}s");
        html! {
            div.facts {
                @match (total, not_sql) {
                    (0, _) if filter.is_none() => { "There is no " (thing) ": all rows were rejected." },
                    (0, None) => { "No " (thing) " matches the filter." },
                    (0, Some(not_sql)) if thing == "chain" => {
                        "No question, chain or answer contains these words."
                        @if !not_sql.is_like_sql { " An id, or a row such as math.jsonl:7, finds its chain." }
                    }
                    (0, Some(_)) => "No reject contains these words.",
                    (total, None) => (several(total, thing)),
                    (total, Some(_)) => { (several(total, thing)) ", searched for these words" }
                }
                @for OtherMeaning { said, filter } in others {
                    p { (visible(&said)) @if let Some(filter) = &filter { " " a href=(address(&page, &[("where", filter)])) { code { (visible(filter)) } } } }
                }
                @if let Some(not_sql) = not_sql {
                    @if let Some(meant) = &not_sql.meant {
                        p { @if not_sql.is_like_sql { "This is nearly a condition. " } "Did you mean " a href=(address(&page, &[("where", meant)])) { code { (visible(meant)) } } "?" }
                    }
                    @if let Some(advice) = not_sql.advice.as_ref().filter(|_| total == 0 || not_sql.is_like_sql) { p { "Not read as SQL: " (visible(advice)) "." } }
                    @else if not_sql.is_like_sql {
                        details open[not_sql.meant.is_none()] { summary { "Not read as SQL" } p { (visible(&not_sql.why)) } }
                    }
                }
                @if asked.from >= total && asked.from > 0 && total > 0 {
                    p { "This page begins after the last " (thing) ". " a href=(asked.link(&page, &[])) { "To the first" } }
                }
            }
        }
    }
}

/// Links to the rows around a row of a list. `page` is the page of each.
fn around(asked: &Asked, page: &str, place: &InputRow, position: &Position, more: Markup) -> Markup {
    // The filter may exclude the row.
    let is_here = position.place.as_ref() == Some(place);
    let sort = if asked.place.is_some() && page == "chain" { "chain" } else { asked.order.as_str() };
    let order: &[_] = if sort.is_empty() { &[] } else { &[("sort", sort)] };
    let link = |at: u64| asked.link(page, &[&[("at", at.to_string().as_str())][..], order].concat());
    html! {
        nav.around aria-label="Around this row" {
            @if is_here && position.at > 0 { a rel="prev" href=(link(position.at - 1)) { "← previous" } }
            @if is_here && position.at + 1 < position.of { a rel="next" href=(link(position.at + 1)) { "next →" } }
            @if is_here { span { (page) " " (count(position.at + 1)) " of " (count(position.of)) } }
            (more)
        }
    }
}

fn pager(asked: &Asked, page: &str, total: u64) -> Markup {
    let link = |from: u64| asked.link(page, &[("from", &from.to_string())]);
    html! {
        p {
            @if (asked.from > 0 || total > PAGE) && asked.from < total {
                (count(asked.from + 1)) " to " (count(total.min(asked.from.saturating_add(PAGE)))) " of " (count(total)) " "
            }
            @if asked.from > 0 { a rel="prev" href=(link(asked.from.saturating_sub(PAGE))) { "← previous" } " " }
            @if asked.from.saturating_add(PAGE) < total { a rel="next" href=(link(asked.from.saturating_add(PAGE))) { "next →" } }
        }
    }
}
