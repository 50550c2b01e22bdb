//! Prints the rows of statements.

use std::io::Write;
use std::time::Instant;

use clap::ValueEnum;
use console::{measure_text_width, truncate_str};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::WriterBuilder as CsvWriterBuilder;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::WriterBuilder as JsonWriterBuilder;
use datafusion::arrow::json::writer::{JsonArray, JsonFormat, LineDelimited};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::error::Result;

use crate::output::{complain, fit, width, write_out};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    Csv,
    Tsv,
    Table,
    Json,
    NdJson,
    Automatic,
}

impl RowFormat {
    pub(crate) fn is_flat(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }
}

pub(super) fn max_rows(text: &str) -> std::result::Result<usize, String> {
    match text.to_lowercase().as_str() {
        "inf" | "infinite" | "none" => Ok(usize::MAX),
        number => number.parse().map_err(|_| "expected a number, or inf".to_string()),
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Print {
    pub format: RowFormat,
    pub max_rows: usize,
    pub quiet: bool,
    pub is_expanded: bool,
    /// Whether a table may be wider than the terminal.
    pub is_whole: bool,
}

pub(super) struct ResultRows {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
    pub count: usize,
    pub begun: Instant,
}

impl Print {
    /// How many rows of a result are shown. Formats for programs show all.
    pub(crate) fn shown(&self) -> usize {
        if self.is_for_people() { self.max_rows } else { usize::MAX }
    }

    fn is_for_people(&self) -> bool {
        matches!(self.format, RowFormat::Table | RowFormat::Automatic)
    }

    pub(crate) fn print(&self, rows: &ResultRows, options: &FormatOptions) -> Result<()> {
        let mut text = Vec::new();
        let mut is_cut = false;
        match self.format {
            RowFormat::Csv => delimited(rows, b',', &mut text)?,
            RowFormat::Tsv => delimited(rows, b'\t', &mut text)?,
            RowFormat::Json => json::<JsonArray>(rows, &mut text)?,
            RowFormat::NdJson => json::<LineDelimited>(rows, &mut text)?,
            RowFormat::Table | RowFormat::Automatic if self.is_expanded => self.expanded(rows, None, &mut text)?,
            RowFormat::Table | RowFormat::Automatic => is_cut = self.table(rows, options, &mut text)?,
        }
        if !self.quiet {
            let seconds = rows.begun.elapsed().as_secs_f64();
            let mut cut = match rows.count > self.shown() {
                true => format!("(First {} displayed. Use --maxrows to adjust)", self.shown()),
                false => String::new(),
            };
            if is_cut {
                cut += "(Cut at the width of the terminal. Use --wide to show all)";
            }
            let count = format!("{} row(s) fetched. {cut}\nElapsed {seconds:.3} seconds.\n", rows.count);
            // Only rows may be on stdout in a format for programs.
            if self.is_for_people() { writeln!(text, "{count}")? } else { complain(&count) }
        }
        Ok(write_out(&String::from_utf8_lossy(&text))?)
    }

    fn first(&self, rows: &ResultRows) -> Vec<RecordBatch> {
        let mut left = self.shown();
        let cut = rows.batches.iter().map(|batch| {
            let cut = batch.slice(0, batch.num_rows().min(left));
            left -= cut.num_rows();
            cut
        });
        cut.filter(|batch| batch.num_rows() > 0).collect()
    }

    /// Prints a table, and returns whether it was cut to fit the terminal.
    fn table(&self, rows: &ResultRows, options: &FormatOptions, text: &mut Vec<u8>) -> Result<bool> {
        if rows.schema.fields().is_empty() || self.shown() == 0 && rows.count > 0 {
            return Ok(false);
        }
        let mut shown = self.first(rows);
        if shown.is_empty() {
            shown.push(RecordBatch::new_empty(rows.schema.clone()));
        }
        let mut table = pretty_format_batches_with_options(&shown, options)?.to_string();
        let is_wider = |width: &usize| table.lines().any(|line| measure_text_width(line) > *width);
        let width = width().filter(|width| !self.is_whole && is_wider(width));
        match width {
            Some(width) if rows.schema.fields().len() * NARROWEST > width => {
                self.expanded(rows, Some(width), text)?;
                return Ok(true);
            }
            Some(width) => table = cut(&shown, rows, options, width)?,
            None => {}
        }
        match table.rsplit_once('\n') {
            Some((above, border)) if rows.count > self.shown() => {
                let dots = format!("| .{}|", " ".repeat(border.len().saturating_sub(4)));
                writeln!(text, "{above}\n{dots}\n{dots}\n{dots}\n{border}")?;
            }
            _ => writeln!(text, "{table}")?,
        }
        Ok(width.is_some())
    }

    /// Prints rows column by column. If there is a width, each value takes one line, which is cut to the width.
    fn expanded(&self, rows: &ResultRows, width: Option<usize>, text: &mut Vec<u8>) -> Result<()> {
        let options = FormatOptions::new().with_null("NULL");
        let names: Vec<&String> = rows.schema.fields().iter().map(|field| field.name()).collect();
        let indent = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut row = 0;
        for batch in self.first(rows) {
            let columns = formatters(&batch, &options)?;
            for index in 0..batch.num_rows() {
                row += 1;
                writeln!(text, "-[ row {row} ]-")?;
                for (name, column) in names.iter().zip(&columns) {
                    let value = column.value(index).to_string();
                    // Further lines of a value are indented to its column.
                    let indented = || value.replace('\n', &format!("\n{:indent$}   ", ""));
                    let value = if width.is_some() { one_line(&value) } else { indented() };
                    let line = format!("{name:<indent$} | {value}");
                    writeln!(text, "{}", truncate_str(&line, width.unwrap_or(usize::MAX), "…"))?;
                }
            }
        }
        Ok(())
    }
}

/// The fewest characters of a column, with its border. A terminal with less room shows rows column by column.
const NARROWEST: usize = 10;

fn formatters<'a>(batch: &'a RecordBatch, options: &FormatOptions<'a>) -> Result<Vec<ArrayFormatter<'a>>> {
    batch.columns().iter().map(|column| Ok(ArrayFormatter::try_new(column, options)?)).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats rows as a table of this width, with one line for each row.
fn cut(batches: &[RecordBatch], rows: &ResultRows, options: &FormatOptions, width: usize) -> Result<String> {
    let mut table = comfy_table::Table::new();
    // The borders of Arrow's tables.
    table.load_preset("||--+-++|    ++++++").set_header(rows.schema.fields().iter().map(|field| field.name()));
    for batch in batches {
        let columns = formatters(batch, options)?;
        for index in 0..batch.num_rows() {
            table.add_row(columns.iter().map(|column| one_line(&column.value(index).to_string())));
        }
    }
    fit(&mut table, width, |index| rows.schema.field(index).data_type().is_numeric());
    Ok(table.to_string())
}

fn delimited(rows: &ResultRows, delimiter: u8, text: &mut Vec<u8>) -> Result<()> {
    let mut writer = CsvWriterBuilder::new().with_header(true).with_delimiter(delimiter).build(text);
    // An empty result has a header too.
    if rows.batches.is_empty() && !rows.schema.fields().is_empty() {
        writer.write(&RecordBatch::new_empty(rows.schema.clone()))?;
    }
    for batch in &rows.batches {
        writer.write(batch)?;
    }
    Ok(())
}

/// Writes rows as JSON with explicit nulls: otherwise a column without values would be missing.
fn json<F: JsonFormat>(rows: &ResultRows, text: &mut Vec<u8>) -> Result<()> {
    // A statement without columns, such as SET, prints nothing.
    if rows.batches.is_empty() && rows.schema.fields().is_empty() {
        return Ok(());
    }
    let mut writer = JsonWriterBuilder::new().with_explicit_nulls(true).build::<_, F>(&mut *text);
    for batch in &rows.batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    drop(writer);
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    Ok(())
}
