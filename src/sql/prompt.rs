//! The prompt of `asap sql`: a line editor with completion, and commands that begin with a backslash.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use asap_llm::Llm;
use asap_pipelines::corpus::Corpus;
use clap::ValueEnum;
use console::style;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::print::{Print, RowFormat};
use super::watch::{Watch, end};
use super::{Session, execute};
use crate::failure::Failure;
use crate::output::{complain, error_line, note, print};
use crate::terminal::is_hidden;

const COMMANDS: &str = "\
\\d            list tables
\\d NAME       list the columns of a table
\\h            list the functions of asap
\\h NAME       describe a function, with an example
\\x            show rows column by column, with whole texts, on or off
\\pset NAME V  set format to table, csv, tsv, json, nd-json, automatic
\\quiet on     show rows only
\\?            show this help
\\q            quit, like Ctrl-D";

const HELP: &str = " \\? for help, \\q to quit";
/// The hint on an empty line that continues a statement.
const CONTINUED: &str = "  … a semicolon ends the statement, Ctrl-C drops it";

const KEYWORDS: &str = "AND, AS, BETWEEN, CASE, COPY, CREATE EXTERNAL TABLE, CROSS JOIN, DESCRIBE, DISTINCT, EXCEPT, \
                        EXPLAIN, FROM, GROUP BY, HAVING, IS NOT NULL, JOIN, LEFT JOIN, LIMIT, LOCATION, ORDER BY, OVER, \
                        PARTITION BY, SELECT, SHOW TABLES, STORED AS, UNION ALL, VALUES, WHERE, WITH";
const TABLES: &str = "SELECT table_name, table_type FROM information_schema.tables \
                      WHERE table_schema <> 'information_schema' ORDER BY table_name";

pub(super) struct Prompt<'a> {
    pub session: &'a Session,
    pub print: Print,
    pub llm: &'a Llm,
    pub watch: &'a Watch,
    pub has_color: bool,
}

impl Prompt<'_> {
    pub(super) async fn run(mut self) -> std::result::Result<(), Failure> {
        let failed = |error: ReadlineError| Failure::Failed(format!("the terminal failed: {error}"));
        let config = Config::builder().completion_type(CompletionType::List).build();
        let mut editor: Editor<Names, FileHistory> = Editor::with_config(config).map_err(failed)?;
        let history = history();
        // The first session has none.
        history.iter().for_each(|file| drop(editor.load_history(file)));
        loop {
            editor.set_helper(Some(self.names()));
            match editor.readline("> ") {
                Ok(line) => {
                    editor.add_history_entry(line.trim_end()).map_err(failed)?;
                    // A line that cannot be kept still runs.
                    history.iter().for_each(|file| drop(editor.append_history(file)));
                    if !self.line(line.trim()).await? {
                        break;
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    async fn line(&mut self, line: &str) -> std::result::Result<bool, Failure> {
        let line = command_of(line).unwrap_or(line);
        let line = match line.trim_end_matches(';') {
            "exit" | "quit" => "\\q",
            "help" => "\\?",
            _ => line,
        };
        let Some(command) = line.strip_prefix('\\') else {
            if !line.is_empty() {
                self.statements(line).await;
            }
            return Ok(true);
        };
        let command = command.trim_end_matches(';').trim();
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, argument.trim()) {
            ("q", _) => return Ok(false),
            ("?", _) => print(COMMANDS)?,
            ("d", "") => self.statements(TABLES).await,
            ("d", table) => self.statements(&format!("DESCRIBE {table}")).await,
            ("h", "") => print(&self.functions())?,
            ("h", function) => print(&self.function(function))?,
            ("x", _) => {
                self.print.is_expanded = !self.print.is_expanded;
                print(if self.print.is_expanded { "rows are listed column by column" } else { "rows are a table" })?;
            }
            ("quiet", "on" | "true") => self.print.quiet = true,
            ("quiet", "off" | "false") => self.print.quiet = false,
            ("pset", setting) => {
                match setting.strip_prefix("format").map(|format| RowFormat::from_str(format.trim(), true)) {
                    Some(Ok(format)) => self.print.format = format,
                    _ => complain("expected \\pset format table, csv, tsv, json, nd-json or automatic"),
                }
            }
            _ => complain(&format!("there is no command \\{command}; \\? lists them")),
        }
        Ok(true)
    }

    /// Runs statements and reports what fails. Ctrl-C ends the statements, not the session.
    async fn statements(&self, sql: &str) {
        let commands = [sql.to_string()];
        let work = execute(self.session, &commands, &self.print);
        let reporting = self.watch.report(self.llm, self.print.quiet);
        let done = tokio::select! {
            done = work => Some(done),
            _ = tokio::signal::ctrl_c() => None,
        };
        end(reporting).await;
        match done {
            Some(Ok(())) => (),
            Some(Err(error)) => complain(&format!("error: {}", error_line(&error))),
            None => complain("interrupted"),
        }
    }

    fn functions(&self) -> String {
        let state = self.session.context.state();
        let functions = state.scalar_functions().iter();
        let own = functions.filter(|(name, _)| name.starts_with("cot_") || name.starts_with("ai_"));
        let line = |(name, function): (&String, &Arc<ScalarUDF>)| {
            let about = function.documentation()?.description.split(". ").next()?.trim_end_matches('.');
            Some(format!("{name:<24}  {about}"))
        };
        let mut lines: Vec<String> = own.filter_map(line).collect();
        lines.sort();
        lines.join("\n")
    }

    fn function(&self, name: &str) -> String {
        let name = name.trim_end_matches("()").to_lowercase();
        let state = self.session.context.state();
        let scalar = state.scalar_functions().get(&name).and_then(|function| function.documentation());
        let aggregate = || state.aggregate_functions().get(&name)?.documentation();
        let window = || state.window_functions().get(&name)?.documentation();
        let Some(documentation) = scalar.or_else(aggregate).or_else(window) else {
            return format!("there is no function {name}; \\h lists those of asap");
        };
        let mut lines = vec![documentation.syntax_example.clone(), documentation.description.clone()];
        let arguments = documentation.arguments.iter().flatten();
        lines.extend(arguments.map(|(argument, about)| format!("  {argument}: {about}")));
        lines.extend(documentation.sql_example.clone());
        lines.join("\n")
    }

    fn names(&self) -> Names {
        let state = self.session.context.state();
        let mut names: Vec<String> = state.udfs().into_iter().chain(state.udafs()).chain(state.udwfs()).collect();
        names.extend(state.table_functions().keys().cloned());
        names.extend(self.session.table_names());
        names.extend(KEYWORDS.split(", ").map(str::to_string));
        let schema = self.session.corpus.as_ref().map(Corpus::schema);
        names.extend(schema.iter().flat_map(|schema| schema.fields()).map(|field| field.name().clone()));
        // A name that says something to the terminal is not offered.
        names.retain(|name| !name.contains(is_hidden));
        names.sort();
        names.dedup();
        Names { files: FilenameCompleter::new(), names, has_color: self.has_color }
    }
}

/// Whether the typed text can run: a command, or statements that end with a semicolon. Their errors are reported when
/// they run, so that the next line is a new statement.
fn is_whole(typed: &str) -> bool {
    if command_of(typed).is_some() || typed.trim().is_empty() {
        return true;
    }
    // A quote or a comment that is still open is an error here.
    let Ok(tokens) = Tokenizer::new(&GenericDialect, typed).tokenize() else { return false };
    let last = tokens.into_iter().rfind(|token| !matches!(token, Token::Whitespace(_)));
    last == Some(Token::SemiColon)
}

/// Returns a command on the last typed line, which drops an unfinished statement.
fn command_of(typed: &str) -> Option<&str> {
    let last = typed.lines().last()?.trim();
    (last.starts_with('\\') || matches!(last, "exit" | "quit" | "help")).then_some(last)
}

/// The history of typed lines, in the user's state folder. Concurrent sessions append to it.
fn history() -> Option<PathBuf> {
    let folder = Xdg::new().ok()?.state_dir()?.join("asap");
    match std::fs::create_dir_all(&folder) {
        Ok(()) => Some(folder.join("history")),
        Err(error) => {
            note(format!("the history is not kept: {error}"));
            None
        }
    }
}

struct Names {
    files: FilenameCompleter,
    names: Vec<String>,
    has_color: bool,
}

impl Helper for Names {}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, place: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        // Inside open quotes is a location.
        if line[..place].matches('\'').count() % 2 == 1 {
            let (start, found) = self.files.complete(line, place, context)?;
            return Ok((start, found.into_iter().filter(|pair| !pair.replacement.contains(is_hidden)).collect()));
        }
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let before = line[..place].char_indices().rev().find(|(_, character)| !is_word(*character));
        let start = before.map_or(0, |(last, character)| last + character.len_utf8());
        let word = line[start..place].to_lowercase();
        let found = self.names.iter().filter(|name| !word.is_empty() && name.to_lowercase().starts_with(&word));
        Ok((start, found.map(|name| Pair { display: name.clone(), replacement: name.clone() }).collect()))
    }
}

impl Hinter for Names {
    type Hint = String;

    fn hint(&self, line: &str, place: usize, _: &Context<'_>) -> Option<String> {
        match line {
            "" => Some(HELP.to_string()),
            line if line.ends_with('\n') && place == line.len() => Some(CONTINUED.to_string()),
            _ => None,
        }
    }
}

impl Highlighter for Names {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        let tokens = Tokenizer::new(&GenericDialect, line).with_unescape(false).tokenize();
        let Some(tokens) = tokens.ok().filter(|_| self.has_color) else { return Cow::Borrowed(line) };
        let colored = tokens.iter().map(|token| match token {
            Token::Word(word) if word.keyword != Keyword::NoKeyword => style(token).red().bright().to_string(),
            Token::SingleQuotedString(_) => style(token).green().bright().to_string(),
            _ => token.to_string(),
        });
        Cow::Owned(colored.collect())
    }

    fn highlight_char(&self, line: &str, _: usize, _: CmdKind) -> bool {
        self.has_color && !line.is_empty()
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(style(hint).black().bright().force_styling(true).to_string())
    }
}

impl Validator for Names {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        let is_whole = is_whole(context.input());
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}
