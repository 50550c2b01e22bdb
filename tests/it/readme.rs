//! Checks the README and `docs/`: their commands run, the real job runs against servers, their tables match the program, and
//! their links lead somewhere. `UPDATE=1 cargo test --test it readme` writes the tables.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use crate::common::{Finished, Workplace, check_section, root};
use crate::support::s3::{point, serve};
use asap_kernels::health::{End, finish_reasons};
use asap_test_support::{Call, Reply, Server};
use asap_view::faults::{KINDS, Kind};
use serde_json::{Value, json};

const TESTS: &str = "cargo test --workspace";
/// The only file of rows of a small export.
const EXPORTED: &str = "pruned/train-00000-of-00001.parquet";

fn blocks(file: &str, language: &str) -> Vec<String> {
    let readme = fs::read_to_string(root().join(file)).unwrap();
    let begin = format!("```{language}\n");
    readme.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

fn write_files(workplace: &Workplace, file: &str) {
    for (language, comment) in [("sql", "-- "), ("toml", "# ")] {
        for block in blocks(file, language) {
            let name = block.lines().next().unwrap().strip_prefix(comment).unwrap();
            workplace.write(name, &block);
        }
    }
}

/// A workplace with a fifth of `data/sample`, so that runs do not take minutes.
fn workplace_of_small_sample() -> Workplace {
    let workplace = Workplace::new();
    fs::remove_file(workplace.path("data")).unwrap();
    fs::create_dir(workplace.path("data")).unwrap();
    for name in ["data/model", "data/trace.jsonl"] {
        std::os::unix::fs::symlink(root().join(name), workplace.path(name)).unwrap();
    }
    workplace.traces(1, 400, "data/sample");
    workplace
}

/// Runs the shell commands of a README in order, except those of cargo.
fn run_commands(file: &str) {
    let workplace = workplace_of_small_sample();
    if file != "README.md" {
        write_files(&workplace, file);
    }
    let commands = blocks(file, "sh").concat();
    assert!(commands.lines().count() > 0, "{file} has no command");
    let is_run = |command: &&str| !command.starts_with("cargo") || command.starts_with("cargo run -- ");
    for command in commands.lines().filter(is_run) {
        let finished = workplace.shell(&command.replacen("cargo run -- ", "asap ", 1));
        assert_eq!(finished.code, 0, "{file}: {command}\n{}{}", finished.stdout, finished.stderr);
        assert!(!finished.stdout.trim().is_empty(), "{file}: {command} prints nothing");
    }
}

#[test]
fn the_front_page_names_the_check_command_of_the_project() {
    let check = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(check.contains(TESTS) && blocks("README.md", "sh").iter().any(|block| block.trim() == TESTS));
}

#[test]
fn every_command_of_every_page_runs_in_order() {
    let pages = pages();
    let names = pages.iter().map(|page| page.strip_prefix(root()).unwrap().to_str().unwrap());
    let names: Vec<&str> = names.filter(|name| !blocks(name, "sh").is_empty()).collect();
    assert!(names.len() >= 9, "only {names:?} have commands");
    std::thread::scope(|scope| {
        for names in names.chunks(3) {
            scope.spawn(move || names.iter().for_each(|name| run_commands(name)));
        }
    });
}

/// The README, the pages of `docs/` and the READMEs of folders.
fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|file| file.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let folders =
        ["src", "pipelines", "udfs", "data", "benches", "tests/goldens"].map(|folder| format!("{folder}/README.md"));
    let others = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_string).into_iter().chain(folders);
    docs.chain(others.map(|path| root().join(path))).collect()
}

/// A model served like vLLM's, which keeps every other step of a chain.
fn served(call: &Call) -> Reply {
    let steps: Vec<&str> = call.between("chain_of_thought").split("\n\n").collect();
    match steps.as_slice() {
        [""] | [] => Reply::text("Go through the given numbers, one after the other, to the answer."),
        steps => Reply::text(&steps.iter().step_by(2).copied().collect::<Vec<_>>().join("\n\n")),
    }
}

/// Runs each line of the real job, with test servers for AWS and vLLM, and a small model for the large one.
#[test]
fn the_real_job_runs_from_end_to_end() {
    let workplace = Workplace::new();
    fs::create_dir_all(workplace.path("s3/lake")).unwrap();
    workplace.traces(5, 12, "s3/lake/traces");
    let (s3, vllm) = (serve(&workplace.path("s3")), Server::start(served));
    write_files(&workplace, "README.md");
    let settings = fs::read_to_string(workplace.path("asap.toml")).unwrap();
    assert!(settings.contains("http://localhost:8000/v1"));
    // The tests have no GPU.
    let settings = settings.replace("\"cuda\"", "\"cpu\"").replace("http://localhost:8000/v1", &vllm.base_url());
    workplace.write("asap.toml", &settings);

    workplace.hub_model("hf", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "data/model");
    let job = blocks("README.md", "bash").concat();
    let mut printed = Vec::new();
    for line in job.lines() {
        let run = |words: &str| {
            let mut shell = workplace.shell_command(words);
            point(&mut shell, s3);
            Finished::of(shell.env("HF_HOME", workplace.path("hf")))
        };
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["cargo", "install", "--locked", "--path", "."] => {}
            // The test server is already running.
            ["until", "curl", ..] | ["kill", "%1", ..] => {}
            ["vllm", "serve", model, ..] => assert!(settings.contains(&format!("model = \"{model}\""))),
            ["asap", ..] => printed.push(run(line).ok().to_string()),
            ["export", ..] => assert_eq!(run(&format!("{line}\nenv | grep AWS_SECRET")).code, 0),
            // tests/readers/run runs it.
            ["python", "-c", ..] => assert!(line.contains("load_dataset('pruned'")),
            other => panic!("no test runs this line of the job: {other:?}"),
        }
    }
    let [inspected, model, estimate, run, exported] = printed.as_slice() else { panic!("{printed:?}") };
    assert!(inspected.contains("read as generations") && inspected.contains("read as generation\n"), "{inspected}");
    assert!(model.contains("f32 on cpu") && model.contains("100,000,000 tokens take"), "{model}");
    assert!(estimate.contains("calls"), "{estimate}");
    assert!(run.contains("12 in, 12 out, 0 rejected"), "{run}");
    assert!(exported.contains("12"), "{exported}");
    assert!(vllm.count() >= 24, "{} calls", vllm.count());
    let rows = format!("SELECT count(*) AS n, min(completion[1]['role']) AS role FROM '{}'", EXPORTED);
    assert_eq!(workplace.csv(&[&rows]), "n,role\n12,assistant\n");
}

fn rows(sql: &str) -> Vec<Value> {
    Workplace::new().rows(sql)
}

/// Compares a table of a page with these rows.
#[track_caller]
fn check_table<const N: usize>(file: &str, name: &str, header: &str, rows: impl IntoIterator<Item = [String; N]>) {
    let lines: String = rows.into_iter().map(|cells| format!("| {} |\n", cells.join(" | "))).collect();
    check_section(file, name, &format!("| {header} |\n|{}\n{lines}", "---|".repeat(N)));
}

#[test]
fn the_table_of_shapes_is_what_is_recognized() {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_string();
    let quoted = |row: &Value, key: &str| match text(row, key).as_str() {
        "" => String::new(),
        names => format!("`{}`", names.replace(", ", "`, `")),
    };
    // A long cell is written once.
    let mut written = HashMap::new();
    let cells = |row: Value| {
        let shape = text(&row, "shape");
        let [question, cot, answer] = ["question", "cot", "answer"].map(|key| quoted(&row, key));
        let mut once = |cell: String| {
            let first = written.entry(cell.clone()).or_insert_with(|| shape.clone());
            if cell.len() > 40 && *first != shape { format!("as for {first}") } else { cell }
        };
        let [question, cot, answer, read_as] = [question, cot, answer, text(&row, "read_as")].map(&mut once);
        [shape, question, cot, answer, read_as]
    };
    let shapes = rows("SELECT * FROM corpus_shapes() ORDER BY place").into_iter().map(cells);
    let header = "shape | question | chain, or what holds it | answer, or flags | read as";
    check_table("docs/layouts.md", "shapes", header, shapes);
}

#[test]
fn the_table_of_finish_reasons_is_what_is_counted() {
    let cells = |(end, values, who): (End, &str, &str)| {
        let how = if end == End::Finished { "finished" } else { "cut off" };
        [format!("`{}`", values.replace(' ', "`, `")), how.to_string(), who.to_string()]
    };
    check_table("docs/layouts.md", "finish", "value | the generation | written by", finish_reasons().map(cells));
}

#[test]
fn the_table_of_faults_is_what_is_counted() {
    let cells = |kind: &Kind| {
        let command = match (kind.in_inspect, kind.in_view) {
            (true, Some(_)) => "`inspect --health`, `view`",
            (true, None) => "`inspect --health`",
            (false, _) => "`view`",
        };
        [format!("`{}`", kind.name), kind.rows.to_string(), format!("`{}`", kind.sql), command.to_string()]
    };
    check_table("docs/inspect.md", "faults", "fault | the rows | in SQL | command", KINDS.iter().map(cells));
}

#[test]
fn the_functions_are_described_as_they_say_of_themselves() {
    let sql = "SELECT DISTINCT syntax_example, description FROM information_schema.routines \
               WHERE syntax_example LIKE 'cot\\_%' OR syntax_example LIKE 'ai\\_%' ORDER BY 1";
    let all = rows(sql);
    let page = fs::read_to_string(root().join("docs/sql.md")).unwrap();
    let section = |row: &Value| {
        let [syntax, description] = ["syntax_example", "description"].map(|key| row[key].as_str().unwrap());
        let name = syntax.split('(').next().unwrap();
        assert!(page.contains(&format!("[`{name}`](#{name})")), "the table of tasks in docs/sql.md has no {name}");
        format!("### {name}\n\n`{syntax}`\n\n{description}\n")
    };
    check_section("docs/sql.md", "functions", &all.iter().map(section).collect::<Vec<_>>().join("\n"));
    let front = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(front.contains(&format!("{} functions", all.len())), "{} functions", all.len());
}

/// The page on the paper names functions, settings, pipelines, commands and flags: each must exist.
#[test]
fn the_page_on_the_paper_names_what_is_here() {
    let names =
        |sql: &str| -> Vec<String> { rows(sql).iter().map(|row| row["name"].as_str().unwrap().to_string()).collect() };
    let functions = names("SELECT DISTINCT routine_name AS name FROM information_schema.routines");
    let settings = names("SELECT name FROM information_schema.df_settings");
    let mut declared: HashMap<String, String> =
        asap_pipelines::builtin::described().into_iter().map(|(name, about)| (name.to_string(), about)).collect();
    for row in rows("SELECT DISTINCT routine_name, description FROM information_schema.routines") {
        let [name, about] = ["routine_name", "description"].map(|key| row[key].as_str().unwrap_or_default());
        declared.insert(name.to_string(), about.to_string());
    }
    declared.retain(|_, about| about.contains("As published") || about.contains("Differs from"));
    let mut differ: HashMap<&str, bool> = HashMap::new();
    let workplace = Workplace::new();
    let help = |command: &str| workplace.shell(&format!("{command} --help")).ok().to_string();
    let page = fs::read_to_string(root().join("docs/paper.md")).unwrap();
    let (mut items, mut found) = (0, [0; 4]);
    for line in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| paper |")) {
        items += 1;
        let quoted = line.split('`').collect::<Vec<_>>();
        let cells = line.split(" | ").collect::<Vec<_>>();
        for (name, _) in declared.iter().filter(|(name, _)| cells[1].contains(&format!("`{name}`"))) {
            *differ.entry(name).or_default() |= cells[2].starts_with("differs");
        }
        for pair in quoted.chunks_exact(2) {
            let (before, name) = (pair[0], pair[1]);
            let (kind, is_here) = match name.split(' ').next().unwrap() {
                _ if before.ends_with("pipeline ") => (0, asap_pipelines::builtin::names().contains(&name)),
                word if word.starts_with("cot_") => (1, functions.iter().any(|function| function == word)),
                word if word.starts_with("asap.") => (2, settings.iter().any(|setting| setting == word)),
                "asap" => (3, help(name).contains("Usage: asap")),
                word if word.starts_with("--") => {
                    let helps = help("asap run") + &help("asap eval") + &help("asap train");
                    (3, name.split(' ').filter(|word| word.starts_with("--")).all(|flag| helps.contains(flag)))
                }
                _ => continue,
            };
            assert!(is_here, "`{name}` is not in the program: {line}");
            found[kind] += 1;
        }
    }
    for (name, differs) in &differ {
        assert_eq!(declared[*name].contains("Differs from"), *differs, "{name}: {}", declared[*name]);
    }
    assert!(differ.len() > 15, "{differ:?}");
    assert!(items > 50 && found.iter().all(|number| *number > 5), "{items} items, {found:?}");
}

#[test]
fn the_table_of_publications_is_what_pipelines_say_of_themselves() {
    let cells = |(name, about): (&str, String)| {
        let at = about.find("As published").or_else(|| about.find("Differs from"))?;
        Some([format!("`{name}`"), about[at..].to_string()])
    };
    let publications = asap_pipelines::builtin::described().into_iter().filter_map(cells);
    check_table("docs/pipelines.md", "publications", "pipeline | its publication", publications);
}

const SETTINGS: &str = "SELECT name, value, description FROM information_schema.df_settings WHERE name LIKE 'asap.%'";

#[test]
fn the_table_of_settings_is_what_they_say_of_themselves() {
    let cells = |row: Value| {
        let [name, value, description] =
            ["name", "value", "description"].map(|key| row[key].as_str().unwrap_or_default());
        let value = if value.is_empty() { String::new() } else { format!("`{value}`") };
        [format!("`{name}`"), value, description.replace('|', "\\|")]
    };
    let settings = rows(SETTINGS).into_iter().map(cells);
    check_table("docs/sql.md", "settings", "setting | default | description", settings);
}

/// `docs/asap.schema.json` is the JSON schema of `asap.toml`.
#[test]
fn the_schema_of_settings_is_what_they_say_of_themselves() {
    let mut properties = serde_json::Map::new();
    for row in rows(SETTINGS) {
        let name = row["name"].as_str().unwrap().trim_start_matches("asap.");
        // Each value is parsed from its text, so TOML may write it as any scalar or list.
        let mut property = json!({
            "description": row["description"], "type": ["string", "number", "boolean", "array"],
        });
        if let Some(value) = row["value"].as_str().filter(|value| !value.is_empty()) {
            property["default"] = value.into();
        }
        match name.split_once('.') {
            None => drop(properties.insert(name.to_string(), property)),
            Some((group, key)) => {
                let group = properties
                    .entry(group)
                    .or_insert_with(|| json!({ "type": "object", "additionalProperties": false, "properties": {} }));
                group["properties"][key] = property;
            }
        }
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "asap.toml",
        "description": "Settings of asap",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path = root().join("docs/asap.schema.json");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), text, "docs/asap.schema.json is out of date");
}

/// Items that the pages name in a file, as [`Type::function`](file.rs), exist.
#[test]
fn what_is_named_in_a_file_is_there() {
    let named = regex::Regex::new(r"\[`([^`]+)`\]\(([^)]+\.rs)\)").unwrap();
    let mut found = 0;
    for readme in pages() {
        let text = fs::read_to_string(&readme).unwrap();
        for [name, file] in named.captures_iter(&text).map(|captures| captures.extract().1) {
            let path = readme.parent().unwrap().join(file);
            let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let last = name.rsplit("::").next().unwrap();
            let is_named = regex::Regex::new(&format!(r"\b{last}\b")).unwrap().is_match(&source);
            assert!(is_named, "{} names {name}, which is not in {file}", readme.display());
            found += 1;
        }
    }
    assert!(found > 10, "{found} names");
}

/// Each file of `pipelines/sql` contains only its method, and is in the program and in the table of the docs.
#[test]
fn pipelines_that_are_included_are_short_and_named() {
    let readme = fs::read_to_string(root().join("docs/pipelines.md")).unwrap();
    let (_, table) = readme.split_once("| pipeline | what goes first").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let workplace = Workplace::new();
    for file in fs::read_dir(root().join("pipelines/sql")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let sql = fs::read_to_string(&path).unwrap();
        let lines = sql.lines().filter(|line| !line.starts_with("--")).count();
        assert!(lines <= 20, "{name} has {lines} lines without its comment: move shared code into pruned");
        assert_eq!(
            workplace.run(["run", name, "--print"]).ok(),
            sql,
            "pipelines/src/builtin.rs has no line for {name}"
        );
        assert!(table.contains(&format!("`{name}`")), "the table of docs/pipelines.md has no line for {name}");
    }
}

/// The columns that the docs name for trainers are in an export.
#[test]
fn trainers_find_their_columns() {
    let workplace = Workplace::new();
    workplace.run(["run", "truncate", "--from", "data/sample", "--to", "out", "--limit", "20"]).ok();
    workplace.run(["export", "out", "--to", "pruned"]).ok();
    let described = workplace.rows(&format!("DESCRIBE '{EXPORTED}'"));
    let held: Vec<&str> = described.iter().map(|row| row["column_name"].as_str().unwrap()).collect();
    let readme = fs::read_to_string(root().join("docs/training.md")).unwrap();
    let (_, table) = readme.split_once("## Into a trainer").unwrap();
    let line = |name: &str| table.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
    let factory = line("LLaMA-Factory");
    let json = &factory[factory.find("`{\"pruned").unwrap() + 1..factory.rfind('`').unwrap()];
    let factory: Value = serde_json::from_str(json).unwrap();
    let columns = [factory["pruned"]["columns"]["messages"].as_str().unwrap(), "messages", "prompt", "completion"];
    assert!(columns.iter().all(|column| held.contains(column)), "{held:?}");
    assert!(
        line("axolotl").contains("field_messages: messages") && line("TRL").contains(r#"["prompt", "completion"]"#)
    );
    // Each line sets a length, not the trainer's default. `tests/readers/trainers` trains with these lines.
    for (trainer, length) in [
        ("TRL", "SFTConfig(max_length=None)"),
        ("TRL, tokens", "SFTConfig(max_length=None)"),
        ("unsloth", "max_seq_length=32768"),
        ("axolotl", "sequence_len: 32768, excess_length_strategy: raise"),
        ("axolotl, tokens", "sequence_len: 32768, excess_length_strategy: raise"),
        ("LLaMA-Factory", "cutoff_len: 32768"),
    ] {
        assert!(line(trainer).contains(length), "{trainer}: {}", line(trainer));
    }
    let tags = &factory["pruned"]["tags"];
    let sql = format!("SELECT messages[1]['role'] AS first, messages[2]['role'] AS second FROM '{EXPORTED}' LIMIT 1");
    let row = workplace.rows(&sql);
    assert_eq!((&row[0]["first"], &row[0]["second"]), (&tags["user_tag"], &tags["assistant_tag"]));
}
