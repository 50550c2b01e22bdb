//! The benchmarks: their published files, prompts and budgets.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use asap_programs::{Problem as Program, Tests, humaneval_plus, leetcode, livecodebench};
use clap::ValueEnum;
use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::failure::Failure;

const MATH: &str = include_str!("prompts/math.md");
const COMPLETION: &str = include_str!("prompts/completion.md");
const METHOD: &str = include_str!("prompts/method.md");
const STDIN: &str = include_str!("prompts/stdin.md");

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bench {
    /// Grade-school mathematics: test.jsonl of openai/grade-school-math
    Gsm8k,
    /// Competition mathematics: test.jsonl of MATH-500
    Math500,
    /// AIME 2024
    Aime24,
    /// AIME 2025
    Aime25,
    /// Functions with the tests of EvalPlus: HumanEvalPlus.jsonl.gz of evalplus/humanevalplus_release
    #[value(name = "humaneval+")]
    HumanevalPlus,
    /// LeetCodeDataset: the test split, version 0.3.1
    Leetcode,
    /// LiveCodeBench, releases v1 to v3: test.jsonl, test2.jsonl and test3.jsonl of code_generation_lite
    #[value(name = "livecodebench-v1-v3")]
    LivecodebenchV1V3,
    /// LiveCodeBench, releases v4 and v5: test4.jsonl and test5.jsonl
    #[value(name = "livecodebench-v4-v5")]
    LivecodebenchV4V5,
}

/// A problem as it is asked and graded.
#[derive(Debug)]
pub(crate) struct Problem {
    pub id: String,
    /// What is asked, without the words of the prompt. Empty for programs.
    pub question: String,
    /// The message to the model.
    pub prompt: String,
    pub check: Check,
}

#[derive(Debug)]
pub(crate) enum Check {
    /// The expected answer, or a solution that states it.
    Answer(String),
    Program(Box<Program>),
}

impl Problem {
    pub(crate) fn program(&self) -> Option<&Program> {
        match &self.check {
            Check::Program(program) => Some(program),
            Check::Answer(_) => None,
        }
    }
}

impl Bench {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }

    /// The name in the spelling of its authors.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Gsm8k => "GSM8K",
            Self::Math500 => "MATH500",
            Self::Aime24 => "AIME24",
            Self::Aime25 => "AIME25",
            Self::HumanevalPlus => "HumanEval+",
            Self::Leetcode => "LeetCodeDataset",
            Self::LivecodebenchV1V3 => "LiveCodeBench v1–v3",
            Self::LivecodebenchV4V5 => "LiveCodeBench v4–v5",
        }
    }

    /// The token budget of the paper's main table.
    pub(crate) fn budget(self) -> u32 {
        1024 * match self {
            Self::Gsm8k => 2,
            Self::Math500 => 4,
            Self::HumanevalPlus => 6,
            _ => 10,
        }
    }

    /// The number of problems that were published.
    pub(crate) fn problems(self) -> usize {
        match self {
            Self::Gsm8k => 1319,
            Self::Math500 => 500,
            Self::Aime24 | Self::Aime25 => 30,
            Self::HumanevalPlus => 164,
            Self::Leetcode => 228,
            Self::LivecodebenchV1V3 => 612,
            Self::LivecodebenchV4V5 => 268,
        }
    }

    pub(crate) fn runs_programs(self) -> bool {
        !matches!(self, Self::Gsm8k | Self::Math500 | Self::Aime24 | Self::Aime25)
    }

    /// Reads the problems of the files, at most `limit`, with prompts in this wording.
    ///
    /// # Errors
    /// If a file cannot be read or is not of this bench. The error names the file, the line and the missing fields.
    pub(crate) fn read(
        self,
        files: &[String],
        limit: Option<usize>,
        wording: &Wording,
    ) -> Result<Vec<Problem>, Failure> {
        let (mut problems, mut ids) = (Vec::new(), HashSet::new());
        for file in files {
            let unreadable = |error: std::io::Error| match error.kind() {
                std::io::ErrorKind::InvalidData => Failure::Usage(format!("{file} is no text: expected JSON lines")),
                _ => Failure::Usage(format!("cannot read {file}: {error}")),
            };
            if Path::new(file).is_dir() {
                let title = self.title();
                return Err(Failure::Usage(format!(
                    "{file} is a folder: name the file of JSON lines in which {title} is published"
                )));
            }
            for (index, line) in lines(Path::new(file)).map_err(unreadable)?.enumerate() {
                let line = line.map_err(unreadable)?;
                if line.trim().is_empty() {
                    continue;
                }
                let wrong = |why: String| {
                    let name = self.name();
                    Failure::Usage(format!("{file}, line {}: expected a problem of {name}, {why}", index + 1))
                };
                let problem = self.problem(&line, problems.len(), wording).map_err(wrong)?;
                if !ids.insert(problem.id.clone()) {
                    return Err(wrong(format!("found {} for the second time", problem.id)));
                }
                problems.push(problem);
                if limit == Some(problems.len()) {
                    return Ok(problems);
                }
            }
        }
        match problems.is_empty() {
            true => Err(Failure::Usage(format!("{} has no problems", files.join(", ")))),
            false => Ok(problems),
        }
    }

    fn problem(self, line: &str, index: usize, wording: &Wording) -> Result<Problem, String> {
        match self {
            Self::HumanevalPlus => return programmed(humaneval_plus(line)?, wording),
            Self::Leetcode => return programmed(leetcode(line)?, wording),
            Self::LivecodebenchV1V3 | Self::LivecodebenchV4V5 => return programmed(livecodebench(line)?, wording),
            Self::Gsm8k | Self::Math500 | Self::Aime24 | Self::Aime25 => {}
        }
        let row: Value = serde_json::from_str(line).map_err(|error| format!("found no JSON ({error})"))?;
        let numbered = || format!("{}/{index}", self.name());
        let (id, question, prompt, check) = match self {
            Self::Gsm8k => {
                let [question, answer] = fields(&row, ["question", "answer"])?;
                let Some((_, gold)) = answer.rsplit_once("####") else {
                    return Err("found no final answer after #### in the field answer".to_string());
                };
                let prompt = wording.prompt(MATH, &question, None);
                (numbered(), question, prompt, Check::Answer(gold.trim().to_string()))
            }
            Self::Math500 => {
                let [question, answer] = fields(&row, ["problem", "answer"])?;
                let id = row["unique_id"].as_str().map_or_else(numbered, str::to_string);
                let prompt = wording.prompt(MATH, &question, None);
                (id, question, prompt, Check::Answer(answer))
            }
            // The published prompt already asks for a box.
            _ if row["prompt"].is_string() => {
                let [question, answer] = fields(&row, ["prompt", "answer"])?;
                let prompt = wording.prompt("{question}", &question, None);
                (numbered(), question, prompt, Check::Answer(answer))
            }
            _ => {
                let [question, answer] = fields(&row, ["problem", "answer"])?;
                let prompt = wording.prompt(MATH, &question, None);
                (numbered(), question, prompt, Check::Answer(answer))
            }
        };
        Ok(Problem { id, question, prompt, check })
    }
}

/// How a problem is put to the model.
#[derive(Debug)]
pub(crate) struct Wording {
    /// Replaces the prompt of the bench. It holds `{question}`, and `{starter}` for the code to start from.
    pub template: Option<String>,
    /// Follows the prompt.
    pub suffix: String,
}

impl Wording {
    /// # Errors
    /// If the file cannot be read or has no `{question}`.
    pub(crate) fn new(file: Option<&str>, suffix: &str) -> Result<Self, Failure> {
        let read = |file: &str| {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::Usage(format!("--prompt takes a file, and cannot read {file}: {error}")))?;
            match text.contains("{question}") {
                true => Ok(text),
                false => {
                    Err(Failure::Usage(format!("--prompt: expected {{question}} somewhere in {file}, found none")))
                }
            }
        };
        let suffix = suffix.replace("\\n", "\n").replace("\\t", "\t");
        Ok(Self { template: file.map(read).transpose()?, suffix })
    }

    fn prompt(&self, own: &str, question: &str, starter: Option<&str>) -> String {
        filled(self.template.as_deref().unwrap_or(own), question, starter) + &self.suffix
    }
}

fn programmed(program: Program, wording: &Wording) -> Result<Problem, String> {
    if let Tests::Method { tests } | Tests::Stdin { tests } = &program.tests
        && tests.is_empty()
    {
        return Err("found no tests in public_test_cases and private_test_cases".to_string());
    }
    let template = match (&program.prompt, &program.starter) {
        (Some(_), _) => COMPLETION,
        (None, Some(_)) => METHOD,
        (None, None) => STDIN,
    };
    let prompt = wording.prompt(template, &program.question, program.starter.as_deref());
    Ok(Problem { id: program.id.clone(), question: String::new(), prompt, check: Check::Program(Box::new(program)) })
}

/// Fills a template. A text that looks like a field is not filled again.
fn filled(template: &str, question: &str, starter: Option<&str>) -> String {
    let (before, after) = template.trim_end().split_once("{question}").unwrap_or((template, ""));
    let [before, after] = [before, after].map(|text| text.replace("{starter}", starter.unwrap_or_default().trim_end()));
    [&before, question.trim_end(), &after].concat()
}

/// The texts of fields; numbers as they are written.
fn fields<const N: usize>(row: &Value, names: [&str; N]) -> Result<[String; N], String> {
    let missing: Vec<_> = names.into_iter().filter(|name| row[name].is_null()).collect();
    if !missing.is_empty() {
        let found = row.as_object().map(|row| row.keys().map(String::as_str).collect::<Vec<_>>().join(", "));
        let found = found.unwrap_or_else(|| "no object".to_string());
        return Err(format!("found no field {}; it has {found}", missing.join(" and ")));
    }
    Ok(names.map(|name| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_string)))
}

/// The lines of a file, decompressed if it is gzip.
fn lines(path: &Path) -> std::io::Result<impl Iterator<Item = std::io::Result<String>>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let mut file = BufReader::new(File::open(path)?);
    let is_gzip = file.fill_buf()?.starts_with(&GZIP);
    let reader: Box<dyn Read> = if is_gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    Ok(BufReader::new(reader).lines())
}
