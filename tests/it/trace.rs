//! The pruned trace of the front page and `docs/pipelines.md`.
//!
//! A model that is not part of the project gave the recorded scores. `UPDATE=1 SCORER=FOLDER cargo test --test it trace`
//! records them again with the model of a folder. Without `SCORER`, the same commands run with the small model, and only
//! the texts of the steps are compared.

use std::{env, fs};

use crate::common::{Workplace, check_section, root};

const PAGE: &str = "docs/pipelines.md";
const MODEL: &str = "HuggingFaceTB/SmolLM2-135M-Instruct";
const SHOWN: usize = 9;

/// Returns the columns verdict, nats and text of each step of a record.
fn steps(record: &str) -> Vec<Vec<&str>> {
    let (_, steps) = record.split_once("verdict\tnats\ttext\n").unwrap();
    steps.lines().take_while(|line| line.contains('\t')).map(|line| line.splitn(3, '\t').collect()).collect()
}

#[test]
fn the_recorded_trace_is_what_its_commands_print() {
    let workplace = Workplace::new();
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (_, example) = page.split_once("## Example of a pruned chain").unwrap();
    let commands = example.split("```bash\n").nth(1).unwrap().split("```").next().unwrap();
    let scorer = env::var("SCORER").ok();
    let printed = workplace.shell(&commands.replace(MODEL, scorer.as_deref().unwrap_or("data/model")));
    let (_, printed) = printed.ok().split_once("slices    1 committed\n\n").unwrap();
    let (stages, rest) = printed.split_once("\n\ntime ").unwrap();
    let record = format!("```text\n{stages}\n\n{}```\n", rest.split_once('\n').unwrap().1);
    if scorer.is_some() {
        check_section(PAGE, "trace", &record);
    }
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let held = steps(page.split_once("<!-- trace").unwrap().1);
    let texts = |steps: &[Vec<&str>]| steps.iter().map(|step| step[2].to_string()).collect::<Vec<_>>();
    assert_eq!(texts(&held), texts(&steps(&record)));
    let line = |step: &Vec<&str>| format!("{} {}\n", if step[0] == "keep" { ' ' } else { '-' }, step[2]);
    let shown = format!("```diff\n{}```\n", held.iter().take(SHOWN).map(line).collect::<String>());
    check_section("README.md", "diff", &shown);
}
