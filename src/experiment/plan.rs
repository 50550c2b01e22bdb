//! The commands of one seed.

use serde::Deserialize;
use serde_json::Value;

use super::arms::{Arm, SHORTEST_CORRECT};
use super::parts::{Part, Parts};
use super::preset::{Preset, Sizes};
use super::report::{Base, Found, Row};
use crate::eval;
use crate::failure::Failure;

/// The config of the models, below the folder of the experiment.
pub(super) const CONFIG: &str = "config.json";
/// The verbose chains that each arm prunes, below the folder of a seed.
const ORIGINAL: &str = "data/original.parquet";
/// Of every `MIX` chains in the second part of the base model's training, `CONCISE` are concise, so that it does not forget
/// them. In the first part all are: a model of this size learns arithmetic from concise chains in a minute, and from
/// verbose ones not in time.
const MIX: u64 = 5;
const CONCISE: u64 = 2;
/// The generations of the base model for each question, of which the shortest correct one is kept.
const GENERATIONS: u64 = 4;
const TEMPERATURE: f64 = 0.8;
/// Tokens of a response beyond the longest chain: tags, answer, and a margin.
const MARGIN: u64 = 32;
const BASE_RATE: &str = "6e-4";
const ARM_RATE: &str = "3e-4";
/// Eight examples in a step.
const STEP: [&str; 4] = ["--micro-batch", "8", "--accumulate", "1"];

pub(super) struct Seed {
    pub number: u64,
    pub preset: Preset,
    pub share: f64,
}

/// The chains that a model learns from.
#[derive(Deserialize)]
struct Chains {
    rows: u64,
    /// The mean tokens of a chain.
    tokens: f64,
    longest: u64,
}

impl Seed {
    /// A path of this seed, from the folder of the experiment.
    fn path(&self, name: &str) -> String {
        format!("seed-{}/{name}", self.number)
    }

    fn part(&self, name: &str, arguments: &[&str]) -> Part {
        Part::new(format!("seed-{}-{name}", self.number), arguments)
    }

    fn scorer(&self) -> String {
        format!("asap.scorer.model={}", self.path("base"))
    }

    /// Generates the samples and trains the base model.
    pub(super) fn base(&self, parts: &mut Parts) -> Result<Base, Failure> {
        let Sizes { concise, mixed, pruned, held_out, .. } = self.preset.sizes();
        let (rows, number) = ((concise + mixed + pruned + held_out).to_string(), self.number.to_string());
        let (sample, data) = (self.path("sample"), self.path("data"));
        let sampled = ["sample", "--family", "sums", "--rows", &rows, "--seed", &number, "--to", &sample];
        parts.run(&self.part("sample.txt", &sampled).fresh(&sample))?;
        let copies = self.copies([concise, concise + mixed, concise + mixed + pruned]);
        let copy: Vec<&str> = ["sql", "-q"].into_iter().chain(copies.iter().flat_map(|copy| ["-c", copy])).collect();
        parts.run(&self.part("data.txt", &copy).fresh(&data))?;
        let (first, model) = (self.path("concise"), self.path("base"));
        let concise = self.train(["--init", CONFIG], &self.path("data/concise.parquet"), &first, "1", BASE_RATE);
        let mixed = self.train(["--model", &first], &self.path("data/mixed.parquet"), &model, "1", BASE_RATE);
        let [begun, trained] = [parts.json(&concise)?, parts.json(&mixed)?];
        let tokens = |summary: &Value| summary["tokens"].as_u64().unwrap_or_default();
        let budget = self.budget(parts)?;
        let rows = self.evaluate("base", &model, budget, parts)?;
        let correct = rows.iter().filter(|row| row.budget == budget && row.correct == Some(true)).count() as u64;
        Ok(Base {
            seed: self.number,
            accuracy: correct as f64 / held_out as f64,
            trained_tokens: tokens(&begun) + tokens(&trained),
            parameters: trained["parameters"].as_u64().unwrap_or_default(),
        })
    }

    /// Queries that split the sample. Questions get the prompt that the evaluation asks with.
    fn copies(&self, [concise, mixed, pruned]: [u64; 3]) -> [String; 5] {
        let (before, sample) = (eval::math_prompt(""), self.path("sample/sums.parquet"));
        let question = format!("'{}' || question AS question", before.replace('\'', "''"));
        let copy = |columns: &str, rows: &str, to: &str| {
            let to = self.path(&format!("data/{to}"));
            format!("COPY (SELECT {columns} FROM '{sample}' WHERE {rows} ORDER BY id) TO '{to}'")
        };
        let mix = format!("CASE WHEN id % {MIX} < {CONCISE} THEN concise ELSE cot END AS cot");
        let learned = format!("id >= {concise} AND id < {mixed}");
        let between = format!("id >= {mixed} AND id < {pruned}");
        [
            copy(&format!("id, {question}, concise AS cot, answer"), &format!("id < {concise}"), "concise.parquet"),
            copy(&format!("id, {question}, {mix}, answer"), &learned, "mixed.parquet"),
            copy(&format!("id, {question}, cot, answer"), &between, "original.parquet"),
            copy(&format!("id, {question}, concise AS cot, answer"), &between, "core.parquet"),
            copy("question, '#### ' || cot_answer(answer) AS answer", &format!("id >= {pruned}"), "held-out.json"),
        ]
    }

    fn train(&self, base: [&str; 2], data: &str, out: &str, epochs: &str, rate: &str) -> Part {
        let name = format!("train-{}.json", out.rsplit('/').next().unwrap_or(out));
        let seed = self.number.to_string();
        let more = ["--data", data, "--out", out, "--epochs", epochs, "--learning-rate", rate, "--seed", &seed];
        let most = ["--clip", "1", "--max-length", "1024", "--checkpoint-every", "200", "--format", "json"];
        self.part(&name, &[&["train"], &base[..], &more[..], &STEP, &most].concat())
    }

    /// The most tokens of a response: room for the longest chain.
    pub(super) fn budget(&self, parts: &mut Parts) -> Result<u64, Failure> {
        Ok(self.chains("original", &self.path(ORIGINAL), parts)?.longest + MARGIN)
    }

    /// The number and the tokens of the chains that an arm trains on.
    fn chains(&self, name: &str, location: &str, parts: &mut Parts) -> Result<Chains, Failure> {
        let tokens = "coalesce(avg(cot_tokens(cot)), 0) AS tokens, coalesce(max(cot_tokens(cot)), 0) AS longest";
        let sql = format!("SELECT count(*) AS rows, {tokens} FROM '{location}'");
        let found = self.query(&format!("chains-{name}.json"), &sql, parts)?;
        Ok(serde_json::from_value(found.into_iter().next().unwrap_or_default())?)
    }

    /// The rows of a query, in tokens of the base model.
    fn query(&self, name: &str, sql: &str, parts: &mut Parts) -> Result<Vec<Value>, Failure> {
        let arguments = ["sql", "-q", "--format", "nd-json", "--set", &self.scorer(), "-c", sql];
        let text = parts.run(&self.part(name, &arguments))?;
        Ok(text.lines().filter(|line| !line.is_empty()).map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    /// Prunes, trains and evaluates an arm.
    pub(super) fn run(&self, arm: &Arm, budget: u64, parts: &mut Parts) -> Result<Found, Failure> {
        let name = arm.name();
        let mut found = Found { seed: self.number, budget, ..Found::default() };
        let mut model = self.path("base");
        if *arm != Arm::Base {
            let Some(location) = self.pruned(arm, budget, parts)? else {
                found.examples = Some(0);
                return Ok(found);
            };
            let original = self.chains("original", &self.path(ORIGINAL), parts)?;
            let chains = self.chains(&name, &location, parts)?;
            (found.examples, found.kept) = (Some(chains.rows), Some(chains.tokens / original.tokens));
            let epochs = self.preset.sizes().arm_epochs.to_string();
            let base = std::mem::replace(&mut model, self.path(&format!("models/{name}")));
            parts.run(&self.train(["--model", &base], &location, &model, &epochs, ARM_RATE))?;
        }
        found.rows = self.evaluate(&name, &model, budget, parts)?;
        Ok(found)
    }

    /// Where the chains of an arm are. None if there is nothing to prune.
    fn pruned(&self, arm: &Arm, budget: u64, parts: &mut Parts) -> Result<Option<String>, Failure> {
        let name = match arm {
            Arm::Base | Arm::Original => return Ok(Some(self.path(ORIGINAL))),
            Arm::Core => return Ok(Some(self.path("data/core.parquet"))),
            Arm::Pipeline(name) => name,
        };
        let from = match &**name {
            SHORTEST_CORRECT => self.generations(budget, parts)?,
            _ => Some(self.path(ORIGINAL)),
        };
        let Some(from) = from else { return Ok(None) };
        let to = self.path(&format!("pruned/{name}"));
        let (scorer, share) = (self.scorer(), format!("asap.refine.ratio={}", self.share));
        let run = ["run", name, "--from", &from, "--to", &to, "--originals", "none", "--format", "json"];
        let settings = ["--set", &scorer, "--set", &share];
        parts.run(&self.part(&format!("prune-{name}.json"), &[&run[..], &settings].concat()))?;
        Ok(Some(to))
    }

    /// Lets the base model answer the questions several times. Returns where its correct generations are, if any.
    fn generations(&self, budget: u64, parts: &mut Parts) -> Result<Option<String>, Failure> {
        let (model, original, to) = (self.path("base"), self.path(ORIGINAL), self.path("generations/correct.parquet"));
        let [samples, temperature, budget, seed] =
            [GENERATIONS.to_string(), TEMPERATURE.to_string(), budget.to_string(), self.number.to_string()];
        let generate = ["generate", "--model", &model, "--data", &original, "--samples", &samples];
        let how = ["--temperature", &temperature, "--max-tokens", &budget, "--seed", &seed];
        let answers = self.part("generations.json", &[&generate[..], &how].concat());
        parts.run(&answers)?;
        // Without flags, asap would not know which generations are correct, and reject the rows.
        let copy = format!(
            "COPY (SELECT question.id, question.question AS problem, cot_answer(question.answer) AS answer, \
             array_agg(generation.text ORDER BY generation.sample) AS generations, \
             array_agg(true) AS correctness_math_verify FROM '{original}' question \
             JOIN '{}' generation ON generation.question = question.question \
             WHERE generation.finish = 'stop' AND cot_verify(cot_answer(question.answer), generation.text) \
             GROUP BY question.id, question.question, question.answer ORDER BY question.id) TO '{to}'",
            Parts::output(&answers.name)
        );
        parts.run(&self.part("correct.txt", &["sql", "-q", "-c", &copy]).fresh(&self.path("generations")))?;
        let found = self.query("correct.json", &format!("SELECT count(*) AS rows FROM '{to}'"), parts)?;
        Ok((found[0]["rows"] != 0).then_some(to))
    }

    /// Evaluates a model on the held-out problems, at the budget, half and a quarter of it.
    fn evaluate(&self, name: &str, model: &str, budget: u64, parts: &mut Parts) -> Result<Vec<Row>, Failure> {
        let (data, to) = (self.path("data/held-out.json"), self.path(&format!("eval/{name}")));
        let budgets = format!("{},{},{budget}", budget.div_ceil(4), budget.div_ceil(2));
        let asked = ["eval", "--bench", "gsm8k", "--data", &data, "--model", model, "--budget", &budgets];
        parts.run(
            &self.part(&format!("eval-{name}.json"), &[&asked[..], &["--to", &to, "--format", "json"]].concat()),
        )?;
        let sql = format!("SELECT id, budget, correct, tokens, finish_reason FROM '{to}' ORDER BY id, budget");
        let rows = self.query(&format!("rows-{name}.json"), &sql, parts)?;
        Ok(rows.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?)
    }
}
