//! The README is true: its commands run, and its table of functions is what the functions say of themselves.

use std::fs;
use std::path::Path;

use crate::common::{Workplace, check_section};

const TESTS: &str = "cargo test --workspace";

/// All blocks in a language.
fn blocks(language: &str) -> Vec<String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let begin = format!("```{language}\n");
    readme.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

/// The lines of all blocks of shell commands.
fn commands() -> Vec<String> {
    blocks("sh").iter().flat_map(|block| block.lines()).map(str::to_string).collect()
}

#[test]
fn every_command_runs_in_order() {
    let workplace = Workplace::new();
    let commands = commands();
    assert!(commands.len() > 8 && commands.iter().any(|command| command == TESTS), "{commands:?}");
    // The line that runs this test is the one that the project is checked with.
    let check = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/run")).unwrap();
    assert!(check.contains(TESTS));
    // A block of SQL is the file that its first line names.
    for pipeline in blocks("sql") {
        let file = pipeline.lines().next().unwrap().strip_prefix("-- ").unwrap();
        fs::write(workplace.path(file), &pipeline).unwrap();
    }
    for command in
        commands.iter().filter(|command| !command.starts_with("cargo") || command.starts_with("cargo run -- "))
    {
        let finished = workplace.shell(&command.replacen("cargo run -- ", "asap ", 1));
        assert_eq!(finished.code, 0, "{command}\n{}{}", finished.stdout, finished.stderr);
        assert!(!finished.stdout.trim().is_empty(), "{command} prints nothing");
    }
}

/// `UPDATE=1 cargo test --test it readme` writes the table.
#[test]
fn the_table_of_functions_is_what_they_say_of_themselves() {
    let sql = "SELECT DISTINCT syntax_example, description FROM information_schema.routines \
               WHERE syntax_example LIKE 'cot\\_%' OR syntax_example LIKE 'ai\\_%' ORDER BY 1";
    let rows = Workplace::new().run(&["sql", "-q", "--format", "json", "-c", sql]).json();
    let line = |row: &serde_json::Value| {
        let [syntax, description] = ["syntax_example", "description"].map(|key| row[key].as_str().unwrap());
        // The first sentence says what it computes.
        let what = description.split_once(". ").map_or(description, |(first, _)| first);
        format!("| `{syntax}` | {} |\n", what.trim_end_matches('.').replace('|', "\\|"))
    };
    let lines: String = rows.as_array().unwrap().iter().map(line).collect();
    check_section("functions", &format!("| function | what it computes |\n|---|---|\n{lines}"));
}
