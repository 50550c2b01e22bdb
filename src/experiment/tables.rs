//! The report as Markdown.

use super::preset::Preset;
use super::report::{Line, Report};
use crate::output::count;
use crate::statistics::Estimate;

const ABLATION: [&str; 4] = ["asap", "without_anchor", "without_surprisal", "random"];

impl Report {
    pub(super) fn markdown(&self) -> String {
        let mut text = vec!["# Experiment".to_string(), String::new(), self.design(), String::new()];
        for (title, table) in [("Main", self.main()), ("Ablation", self.ablation()), ("Budgets", self.budgets())] {
            text.extend([format!("## {title}"), String::new(), table, String::new()]);
        }
        text.push(NOTES.to_string());
        text.join("\n")
    }

    fn design(&self) -> String {
        let bases = self.bases.iter().map(|base| {
            let (accuracy, tokens) = (percent(base.accuracy), count(base.trained_tokens));
            format!("seed {}: {accuracy} after {tokens} tokens", base.seed)
        });
        let bases = bases.collect::<Vec<_>>().join("; ");
        let parameters = self.bases.first().map_or(0, |base| base.parameters);
        let sizes = self.preset.sizes();
        let caution = match self.preset {
            Preset::Smoke => " Models of the preset smoke learn nothing: its figures compare no methods.",
            Preset::Mini => "",
        };
        format!(
            "A model with {} parameters learns {} short sums, is trained on {} others, pruned to {} of their tokens, and \
             answers {} held-out ones (greedy). Accuracy of the base model: {bases}.{caution}",
            count(parameters),
            count(sizes.concise + sizes.mixed),
            count(sizes.pruned),
            percent(self.share),
            count(sizes.held_out),
        )
    }

    fn main(&self) -> String {
        let header = [
            "arm",
            "role",
            "examples",
            "tokens kept",
            "accuracy",
            "tokens generated",
            "cut off",
            "− random steps",
            "− random block",
            "tokens − random",
            "verdict",
        ];
        table(
            header,
            self.lines.iter().map(|line| {
                [
                    line.arm.clone(),
                    line.role.to_string(),
                    or_dash(line.examples, |examples| format!("{examples:.0}")),
                    or_dash(line.kept, percent),
                    or_dash(line.accuracy, |found| {
                        let [value, low, high] = [found.value, found.low, found.high].map(|share| 100.0 * share);
                        format!("{value:.1} [{low:.1}, {high:.1}]")
                    }),
                    or_dash(line.tokens, |tokens| format!("{tokens:.0}")),
                    or_dash(line.cut_off, percent),
                    or_dash(line.over_random, points),
                    or_dash(line.over_block, points),
                    or_dash(line.tokens_over_random, |found| found.signed(1.0, 0)),
                    line.verdict.clone(),
                ]
            }),
        )
    }

    fn ablation(&self) -> String {
        let lines = ABLATION.iter().filter_map(|arm| self.lines.iter().find(|line| line.arm == *arm));
        table(
            ["arm", "accuracy", "tokens generated"],
            lines.map(|line| {
                let accuracy = or_dash(line.accuracy, |found| percent(found.value));
                [line.arm.clone(), accuracy, or_dash(line.tokens, |tokens| format!("{tokens:.0}"))]
            }),
        )
    }

    fn budgets(&self) -> String {
        let row = |line: &Line| {
            let at = |place: usize| or_dash(line.accuracy.map(|_| line.at_budgets[place]), percent);
            [line.arm.clone(), at(0), at(1), at(2)]
        };
        table(["arm", "a quarter of the budget", "half", "all"], self.lines.iter().map(row))
    }
}

const NOTES: &str = "\
Differences of accuracy are in points. Intervals of 95 % are bootstraps over seeds, and over the problems of each seed. \
Verdicts are on the accuracy, at 5 % over all comparisons (Holm). *Tokens kept* is the share of the tokens of an original \
chain that the arm trained on. The budget leaves room for the longest chain.";

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn points(found: Estimate) -> String {
    found.signed(100.0, 1)
}

fn or_dash<T>(value: Option<T>, shown: impl Fn(T) -> String) -> String {
    value.map_or("-".to_string(), shown)
}

/// A table of Markdown.
fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let mut lines = vec![line(&header.map(str::to_string)), format!("|{}", "---|".repeat(N))];
    lines.extend(rows.map(|row| line(&row)));
    lines.join("\n")
}
