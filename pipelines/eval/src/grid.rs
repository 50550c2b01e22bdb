//! A table as texts, in Markdown and LaTeX.

/// A table as texts, with a row for each method.
pub(super) struct Grid {
    pub title: String,
    /// Heads, each over the columns of its group.
    pub groups: Vec<(String, Vec<&'static str>)>,
    pub rows: Vec<(String, Vec<Text>)>,
}

/// A value and its rank among the values that it competes with.
#[derive(Clone, Default)]
pub(super) struct Text {
    pub value: String,
    pub deviation: String,
    pub change: String,
    /// The interval of the change.
    pub interval: String,
    pub unit: &'static str,
    pub mark: &'static str,
    pub rank: Rank,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum Rank {
    Best,
    Second,
    #[default]
    Other,
}

impl Text {
    fn markdown(&self, intervals: bool) -> String {
        let Self { value, deviation, change, interval, unit, mark, rank } = self;
        let value = match rank {
            Rank::Best => format!("**{value}**"),
            Rank::Second => format!("<u>{value}</u>"),
            Rank::Other => value.clone(),
        };
        let interval = if intervals && !interval.is_empty() { format!(" {interval}") } else { String::new() };
        let change = if change.is_empty() { String::new() } else { format!(" ({change}{interval}{unit})") };
        format!("{value}{deviation}{change}{mark}")
    }

    fn latex(&self) -> String {
        let value = number(&self.value);
        let value = match self.rank {
            Rank::Best => format!("\\textbf{{{value}}}"),
            Rank::Second => format!("\\underline{{{value}}}"),
            Rank::Other => value,
        };
        // A mark takes no room, so that numbers stay aligned.
        let mark = if self.mark.is_empty() { String::new() } else { format!("\\rlap{{{}}}", number(self.mark)) };
        value + &number(&self.deviation) + &mark
    }
}

impl Grid {
    pub(super) fn markdown(&self, intervals: bool) -> String {
        let Self { title, groups, rows } = self;
        let heads = groups.iter().flat_map(|(head, names)| {
            let first = names.iter().take(1).map(move |name| format!("{head}: {name}"));
            first.chain(names.iter().skip(1).map(ToString::to_string))
        });
        let heads: Vec<String> = std::iter::once("method".to_string()).chain(heads).collect();
        let rule = (0..heads.len()).map(|place| if place == 0 { "---" } else { "--:" }.to_string()).collect();
        let mut lines = vec![heads, rule];
        lines.extend(rows.iter().map(|(name, texts)| {
            let shown = texts.iter().map(|text| text.markdown(intervals));
            std::iter::once(name.replace('|', "\\|")).chain(shown).collect()
        }));
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
        let padded = |line: &Vec<String>| {
            let cells = line.iter().zip(&widths).map(|(cell, width)| match cell.starts_with("--") {
                true => format!("{:->width$}", if cell.ends_with(':') { ":" } else { "-" }),
                false => format!("{cell:<width$}"),
            });
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        format!("{title}\n\n{}", lines.iter().map(padded).collect::<Vec<_>>().join("\n"))
    }

    /// The change to the base and its interval have lines of their own, so that columns stay narrow.
    pub(super) fn latex(&self, intervals: bool) -> String {
        let line = |first: &str, cells: Vec<String>| format!("{first} & {} \\\\", cells.join(" & "));
        let (mut heads, mut rules, mut place, mut spec) = (Vec::new(), Vec::new(), 2, "l".to_string());
        for (head, names) in &self.groups {
            heads.push(format!("\\multicolumn{{{}}}{{c}}{{{}}}", names.len(), escaped(head)));
            rules.push(format!("\\cmidrule(lr){{{place}-{}}}", place + names.len() - 1));
            place += names.len();
            spec += &format!("@{{\\hspace{{9pt}}}}{}", "r".repeat(names.len()));
        }
        let names = self.groups.iter().flat_map(|(_, names)| names.iter().map(|name| escaped(name))).collect();
        let mut lines = vec![
            "\\begin{table*}[t]\n\\centering\\footnotesize\n\\setlength{\\tabcolsep}{3pt}".to_string(),
            format!("\\caption{{{}}}", escaped(&self.title)),
            "\\resizebox{\\ifdim\\width>\\textwidth\\textwidth\\else\\width\\fi}{!}{%".to_string(),
            format!("\\begin{{tabular}}{{{spec}}}\n\\toprule"),
            line("", heads),
            rules.join(" "),
            line("method", names),
            "\\midrule".to_string(),
        ];
        let has_change = |texts: &[Text]| texts.iter().any(|text| !text.change.is_empty());
        for (name, texts) in &self.rows {
            lines.push(line(&escaped(name), texts.iter().map(Text::latex).collect()));
            let small = |part: fn(&Text) -> String| {
                let shown = |text: &Text| format!("{{\\scriptsize {}}}", number(&part(text)));
                let cells = texts.iter().map(|text| if text.change.is_empty() { String::new() } else { shown(text) });
                line("", cells.collect())
            };
            if has_change(texts) {
                lines.push(small(|text| text.change.clone() + text.unit));
                lines.extend(intervals.then(|| small(|text| text.interval.clone())));
            }
            if self.rows.iter().any(|(_, texts)| has_change(texts)) {
                lines.push("\\addlinespace[2pt]".to_string());
            }
        }
        lines.push("\\bottomrule\n\\end{tabular}}\n\\end{table*}".to_string());
        lines.join("\n")
    }
}

/// A number in LaTeX, with minus signs.
fn number(text: &str) -> String {
    escaped(text).replace('-', "$-$").replace("$-$$-$", "--")
}

fn escaped(text: &str) -> String {
    let special = |character: char| match character {
        '%' | '_' | '&' | '#' | '$' | '{' | '}' => format!("\\{character}"),
        '−' => "$-$".to_string(),
        '–' => "--".to_string(),
        '±' => "$\\pm$".to_string(),
        '†' => "$^\\dagger$".to_string(),
        '↑' => "$\\uparrow$".to_string(),
        '↓' => "$\\downarrow$".to_string(),
        '^' => "\\textasciicircum{}".to_string(),
        '~' => "\\textasciitilde{}".to_string(),
        '\\' => "\\textbackslash{}".to_string(),
        other => other.to_string(),
    };
    text.chars().map(special).collect()
}
