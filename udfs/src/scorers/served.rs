//! A server that has the model: it gets token ids, and returns their log-probabilities.
//!
//! One row is asked before all others. It shows which server it is ([`Form`]), that the server reads the same tokens, and
//! that its values are log-probabilities of the right places. The row is asked again after each batch: another server
//! may have answered it.

mod replies;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use asap_kernels::front_end::Setting;
use asap_llm::chat::{CallError, FailureKind, Served as Listed};
use asap_llm::config::{Config, Owner};
use asap_llm::posts::{Post, Posts, Unread};
use asap_llm::{LlmError, json};
use asap_lm::backend::{Backend, Continuation, Continued, Fork, IsWanted, Packed, Target, TokenScore, whole};
use asap_lm::{LmError, LoadedModel, Result, STATED, Tokenizer, stated};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use self::replies::{Asked, Form};
use super::kind::{Fit, Kind, Opening, Runs, Settled};
use super::{BACKEND, DEVICE, DTYPE, misfit};
use crate::interrupt;
use crate::settings::Settings;

/// Batches that are asked at the same time, so that the server has rows while the slowest of one batch ends.
const BATCHES: usize = 2;
/// A batch is one call of a query; the limits of calls decide how many rows are in flight.
const TOKENS_PER_BATCH: usize = 1 << 20;
/// vLLM's replies take 82 bytes per position.
const BYTES_PER_TOKEN: usize = 512;
/// Words, numbers and characters of several bytes. Other tokenizers divide or number them otherwise.
const PROBE: &str = "Let x be 3. Then 2x + 1 = 7, so f(x) is odd.\n\nÜber 12345.67 naïve cafés: 你好, \\boxed{7}";
/// The same for servers that echo texts of tokens: those show no parts of characters.
const PROBE_IN_ASCII: &str = "Let x be 3. Then 2x + 1 = 7, so f(x) is odd.\n\n12345.67 cafes: \\boxed{7}";
/// The mean difference, in nats, between two readings of that row by one server. bf16 stays far below.
const SAME_MODEL: f32 = 0.5;
const NO_TEXT: &str = "asap.scorer.model cannot restore a text from its tokens";
const LOOKS: Duration = Duration::from_millis(200);

/// A server of the model at `asap.scorer.base_url`.
pub(super) struct ServedKind;

impl Kind for ServedKind {
    fn name(&self) -> &'static str {
        "served"
    }

    fn settled(&self, _: &Settings) -> Settled {
        Settled { devices: None, dtype: None, computes_in: None, runs: Runs::Elsewhere }
    }

    fn fits(&self, _: &Path, settings: &Settings) -> Fit {
        let device = settings.scorer_device.as_ref().map(|devices| misfit([DEVICE, BACKEND], devices, "served"));
        let dtype = settings.scorer_dtype.map(|dtype| misfit([DTYPE, BACKEND], dtype.name(), "served"));
        let address = settings.scorer_base_url.is_none().then(|| {
            LmError::Backend(format!(
                "{} = 'served' needs a server of the model: set {}, such as http://localhost:8000/v1",
                Setting(BACKEND),
                Setting("asap.scorer.base_url")
            ))
        });
        let wrong: Vec<LmError> = [device, dtype, address].into_iter().flatten().collect();
        if wrong.is_empty() { Ok(self.settled(settings)) } else { Err(wrong) }
    }

    /// Finds the server, and opens a model that asks it.
    fn open(&self, _: &Settled, opening: &Opening) -> Result<LoadedModel> {
        let Opening { folder, settings, tokenizer, memory } = *opening;
        let config = Config {
            owner: Owner::Scores,
            base_url: settings.scorer_base_url.clone(),
            api_key_env: settings.scorer_api_key_env.clone(),
            prices: Default::default(),
            budget: Default::default(),
            ..settings.language_model()
        };
        let tasks = Arc::new(Tasks::new()?);
        let (named, reading) = (settings.scorer_served_model.clone(), Arc::clone(tokenizer));
        let finding = async move { Server::find(&config, named, reading).await };
        let (server, window) = tasks.wait(finding, &|| !interrupt::is_asked())??;
        tracing::warn!("{}", server.described());
        let server = Arc::new(server);
        let backend =
            |_| -> Box<dyn Backend> { Box::new(Served { server: Arc::clone(&server), tasks: Arc::clone(&tasks) }) };
        let model = LoadedModel::with_backends((0..BATCHES).map(backend).collect(), folder, tokenizer, memory)?;
        // A chain as long as the server's window leaves no room for the token that servers always write.
        Ok(model.with_window(window.map_or(usize::MAX, |window| window.saturating_sub(1))))
    }
}

/// Runs requests on another thread than the one that waits for them.
struct Tasks(Option<Runtime>);

impl Tasks {
    fn new() -> Result<Self> {
        let built = Builder::new_multi_thread().worker_threads(1).thread_name("asap-served").enable_all().build();
        built.map(|runtime| Self(Some(runtime))).map_err(|error| LmError::Thread(format!("cannot start it: {error}")))
    }

    /// Blocks until the work is done, or no caller waits for it.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        is_wanted: &IsWanted,
    ) -> Result<T> {
        let (sender, done) = channel();
        let Some(runtime) = &self.0 else { return Err(LmError::Abandoned) };
        let task = runtime.spawn(async move { drop(sender.send(work.await)) });
        loop {
            match done.recv_timeout(LOOKS) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Disconnected) => return Err(LmError::Thread("a request panicked".to_string())),
                Err(RecvTimeoutError::Timeout) if !is_wanted() => {
                    task.abort();
                    return Err(LmError::Abandoned);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // This may run where no thread may block.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

struct Served {
    server: Arc<Server>,
    tasks: Arc<Tasks>,
}

impl Served {
    /// Scores targets. With `prefix_first`, the other chains are sent once the server has read the first.
    fn ask(
        &self,
        Packed { ids, lengths }: Packed,
        targets: &[Target],
        prefix_first: bool,
        is_wanted: &IsWanted,
    ) -> Result<Vec<TokenScore>> {
        let mut starts = Vec::with_capacity(lengths.len());
        let mut end = 0;
        for length in lengths {
            starts.push(end);
            end += length;
        }
        let of = |target: &Target| starts.partition_point(|start| *start <= target.row as usize).saturating_sub(1);
        let row =
            |(start, length): (&usize, &usize)| SentRow { ids: ids[*start..start + length].to_vec(), from: *length };
        let mut rows: Vec<SentRow> = starts.iter().zip(lengths).map(row).collect();
        for target in targets {
            let (row, place) = (&mut rows[of(target)], target.row as usize + 1 - starts[of(target)]);
            row.from = row.from.min(place);
        }
        let server = Arc::clone(&self.server);
        let values = self.tasks.wait(async move { server.rows(rows, prefix_first).await }, is_wanted)??;
        let score = |target: &Target| {
            let (chain, row) = (of(target), target.row as usize);
            let is_sent = ids.get(row + 1) == Some(&target.id);
            let score = values[chain].get(row + 1 - starts[chain]).filter(|_| is_sent);
            score.copied().unwrap_or(TokenScore::NONE)
        };
        Ok(targets.iter().map(score).collect())
    }
}

impl Backend for Served {
    fn name(&self) -> &'static str {
        "served"
    }

    fn has_entropies(&self) -> bool {
        false
    }

    fn has_ranks(&self) -> bool {
        self.server.found.iter().skip(1).all(|token| token.rank > 0)
    }

    fn continues(&self) -> bool {
        true
    }

    fn tokens_per_batch(&self) -> usize {
        TOKENS_PER_BATCH
    }

    fn score(&mut self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        self.ask(chains, targets, false, is_wanted)
    }

    fn score_forks(&mut self, texts: &[Fork], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let (ids, lengths, targets) = whole(texts);
        self.ask(Packed { ids: &ids, lengths: &lengths }, &targets, self.server.keeps_prefixes(), is_wanted)
    }

    fn continue_greedily(&mut self, texts: &[&Continuation], is_wanted: &IsWanted) -> Result<Vec<Continued>> {
        let (server, texts) = (Arc::clone(&self.server), texts.iter().map(|text| (*text).clone()).collect::<Vec<_>>());
        self.tasks.wait(async move { server.continued(&texts).await }, is_wanted)?
    }
}

/// A chain, and the first position whose value is needed: its length if no value is needed.
struct SentRow {
    ids: Vec<u32>,
    from: usize,
}

struct Server {
    completions: Posts,
    generate: Posts,
    form: Form,
    model: String,
    tokenizer: Arc<Tokenizer>,
    probe: Vec<u32>,
    /// What the server found of the probe at first.
    found: Vec<TokenScore>,
}

impl Server {
    /// Finds out which server it is, and proves that it has the model. Returns it with its window.
    async fn find(config: &Config, named: Option<String>, tokenizer: Arc<Tokenizer>) -> Result<(Self, Option<usize>)> {
        let setting = |error: LlmError| LmError::Backend(error.to_string());
        let completions = Posts::new(config, "/completions", false).map_err(setting)?;
        let generate = Posts::new(config, "/generate", true).map_err(setting)?;
        let listed = completions.served().await.map_err(|error| {
            let advice = "start the server, or set asap.scorer.base_url to its address";
            LmError::Unavailable(format!("{}; {advice}", error.message))
        })?;
        let Listed { id: model, window } = chosen(listed.unwrap_or_default(), named, completions.base_url())?;
        let shortest = tokenizer.encode(PROBE_IN_ASCII, false)?.ids.len();
        if let Some(window) = window.filter(|window| *window <= shortest as u64) {
            return Err(LmError::Backend(format!(
                "asap.scorer.base_url = '{}': expected a window for chains, found max_model_len = {window} in its list of \
                 models",
                completions.base_url()
            )));
        }
        let mut server =
            Self { completions, generate, form: Form::ALL[0], model, tokenizer, probe: vec![], found: vec![] };
        let mut tried = Vec::new();
        for form in Form::ALL {
            server.form = form;
            let text = if form == Form::EchoTexts { PROBE_IN_ASCII } else { PROBE };
            server.probe = server.tokenizer.encode(text, false)?.ids;
            match server.probed().await? {
                Ok(found) => {
                    server.found = found;
                    server.prove_places().await?;
                    return Ok((server, window.and_then(|window| usize::try_from(window).ok())));
                }
                Err(why) => tried.push(format!("{}: {why}", form.name())),
            }
        }
        let url = server.completions.base_url();
        let expected = "expected a server that returns the log-probabilities of given tokens";
        Err(LmError::Backend(format!("asap.scorer.base_url = '{url}': {expected}, found none ({})", tried.join("; "))))
    }

    /// What a user should know of the server.
    fn described(&self) -> String {
        let forks = if self.keeps_prefixes() { "once" } else { "again for each text" };
        let (url, model, form) = (self.completions.base_url(), &self.model, self.form.name());
        format!("scores come from {model} at {url} (by {form}); the server reads a beginning that texts share {forks}")
    }

    fn keeps_prefixes(&self) -> bool {
        self.form == Form::Generate
    }

    /// Asks the row that proves the server. The inner error says that the server does not answer requests of this form.
    async fn probed(&self) -> Result<std::result::Result<Vec<TokenScore>, String>> {
        let asked = Asked { ids: &self.probe, from: 1, is_probe: true };
        // A whole reply of another kind is an answer here: no retry changes it.
        let read = |text: &str| match json::parse::<Value>(text) {
            Ok(_) => Ok(replies::read(self.form, text, asked, &self.tokenizer)),
            Err(error) => Err(Unread::Garbled(format!("expected JSON, found {error}"))),
        };
        let Some(body) = replies::body(self.form, &self.model, asked, &self.tokenizer) else {
            return Ok(Err(NO_TEXT.to_string()));
        };
        match self.post(self.scores(), &body, self.probe.len(), read).await {
            Ok(Ok(found)) => Ok(Ok(found)),
            Ok(Err(Unread::Garbled(why))) => Ok(Err(why)),
            Ok(Err(Unread::Wrong(why))) => {
                Err(LmError::Backend(format!("asap.scorer.base_url = '{}': {why}", self.completions.base_url())))
            }
            Err(CallError { kind: FailureKind::Denied | FailureKind::Refused, message, .. }) => Ok(Err(message)),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Fails if the server shifted the log-probabilities by one token, as `echo` of llama-cpp-python does: what a model
    /// expects at a place does not depend on the token there.
    async fn prove_places(&self) -> Result<()> {
        let other = self.tokenizer.encode(&PROBE_IN_ASCII.replace("(x)", ""), false)?.ids;
        let place = self.probe.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let mut expected = Vec::new();
        for ids in [&self.probe, &other] {
            let asked = Asked { ids, from: 1, is_probe: true };
            let body = replies::body(self.form, &self.model, asked, &self.tokenizer);
            let body = body.ok_or_else(|| LmError::Backend(NO_TEXT.to_string()))?;
            let read = |text: &str| replies::likeliest(self.form, text, place);
            let found = self.post(self.scores(), &body, ids.len(), read).await;
            expected.push(found.map_err(|error| self.failed(error))?);
        }
        let is_same = |(token, value): &(&String, &f64)| {
            expected[1].get(*token).is_some_and(|other| (**value - other).abs() < f64::from(SAME_MODEL))
        };
        let same = expected[0].iter().filter(is_same).count();
        // A reply may have the token that is there too, and rounding moves the last of the others.
        if same * 2 >= expected[0].len().saturating_sub(1).max(1) {
            return Ok(());
        }
        Err(LmError::Backend(format!(
            "asap.scorer.base_url = '{}': expected the log-probability of each token given those before it, found values \
             that are given the token itself too (llama-cpp-python returns such values): use another server",
            self.completions.base_url()
        )))
    }

    fn scores(&self) -> &Posts {
        if self.form == Form::Generate { &self.generate } else { &self.completions }
    }

    async fn post<T: Send>(
        &self,
        to: &Posts,
        body: &Value,
        tokens: usize,
        read: impl Fn(&str) -> std::result::Result<T, Unread> + Send + Sync,
    ) -> std::result::Result<T, CallError> {
        let body = body.to_string();
        to.ask(Post { body: body.as_bytes(), tokens, bytes_per_token: BYTES_PER_TOKEN }, read).await
    }

    /// Returns the scores of the tokens of each row from its first needed one on.
    async fn rows(&self, rows: Vec<SentRow>, prefix_first: bool) -> Result<Vec<Vec<TokenScore>>> {
        let (first, others) = rows.split_at(usize::from(prefix_first).min(rows.len()));
        let mut found = try_join_all(first.iter().map(|row| self.row(row))).await?;
        found.extend(try_join_all(others.iter().map(|row| self.row(row))).await?);
        // Rows that the server refused have no values at all.
        let answered = found.iter().filter(|row| row.iter().any(|token| !token.surprisal.is_nan()));
        let (broken, sound): (Vec<_>, Vec<_>) = answered.partition(|row| is_broken(row));
        if broken.len() > 1 && sound.is_empty() {
            return Err(self.broke());
        }
        self.checked(found).await
    }

    /// The error of a server that broke after it had worked.
    fn broke(&self) -> LmError {
        let url = self.completions.base_url();
        LmError::Unavailable(format!(
            "the server of the scoring model: {url} returns no finite log-probabilities any longer; the same command asks \
             again what was in flight"
        ))
    }

    /// Returns values that may be used: the same server must still be there.
    async fn checked<T>(&self, found: Vec<T>) -> Result<Vec<T>> {
        let now = self.probed().await?.map_err(LmError::Backend)?;
        let pairs = || now.iter().zip(&self.found).map(|(now, before)| (now.surprisal, before.surprisal));
        if pairs().any(|(now, before)| before.is_finite() && !now.is_finite()) {
            return Err(self.broke());
        }
        let apart = pairs().map(|(now, before)| (now - before).abs());
        let (sum, all) = apart.filter(|nats| nats.is_finite()).fold((0.0, 0), |(s, n), x| (s + x, n + 1));
        if sum <= SAME_MODEL * all as f32 {
            return Ok(found);
        }
        let (url, nats) = (self.completions.base_url(), sum / all as f32);
        Err(LmError::Backend(format!(
            "{url}: the server has another model than when the command began: the same tokens are {nats:.2} nats apart"
        )))
    }

    /// Returns the scores of a row's tokens: NaN if the server refuses the row, which fails alone.
    async fn row(&self, SentRow { ids, from }: &SentRow) -> Result<Vec<TokenScore>> {
        let none = || Ok(vec![TokenScore::NONE; ids.len()]);
        if *from >= ids.len() {
            return none();
        }
        let asked = Asked { ids, from: *from, is_probe: false };
        let Some(body) = replies::body(self.form, &self.model, asked, &self.tokenizer) else {
            tracing::warn!("a chain has no scores: no text gives its tokens, and the server takes only text");
            return none();
        };
        let read = |text: &str| replies::read(self.form, text, asked, &self.tokenizer);
        let ask = || self.post(self.scores(), &body, ids.len(), read);
        let found = match ask().await {
            // Of several servers at one address, one may be broken.
            Ok(found) if is_broken(&found) => ask().await,
            found => found,
        };
        match found {
            Ok(found) => {
                if found.iter().all(|token| token.surprisal.is_nan()) {
                    tracing::warn!("a chain has no scores: the server, which takes only text, divides it otherwise");
                }
                Ok(found)
            }
            Err(CallError { kind: FailureKind::Refused | FailureKind::TooLong, message, .. }) => {
                tracing::warn!("a chain of {} tokens has no scores: the server refuses it: {message}", ids.len());
                none()
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn continued(&self, texts: &[Continuation]) -> Result<Vec<Continued>> {
        let found = try_join_all(texts.iter().map(|text| self.continued_one(text))).await?;
        self.checked(found).await
    }

    async fn continued_one(&self, text: &Continuation) -> Result<Continued> {
        let row = SentRow { from: text.shared.len() + text.answer, ids: [&*text.shared, &*text.with_answer].concat() };
        let scores = self.row(&row).await?;
        let own = &scores[row.from..];
        let log_probability = -own.iter().map(|token| f64::from(token.surprisal)).sum::<f64>() / own.len() as f64;
        let mut found = Continued { log_probability, stated: None, tokens_read: scores.len(), tokens_written: 0 };
        if text.states {
            let before = [&*text.shared, &*text.before_answer].concat();
            let written = self.written(&before).await?;
            found.stated = Some(stated(&written).to_string());
            (found.tokens_read, found.tokens_written) = (found.tokens_read + before.len(), STATED);
        }
        Ok(found)
    }

    /// Returns what the model writes after the tokens, greedily.
    async fn written(&self, ids: &[u32]) -> Result<String> {
        let prompt = match self.form {
            Form::EchoTexts => json!(self.tokenizer.text(ids)?),
            _ => json!(ids),
        };
        // Servers take penalties from the model's folder if a request has none.
        let body = json!({ "model": self.model, "prompt": prompt, "max_tokens": STATED, "temperature": 0, "top_p": 1,
            "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "stream": false });
        let written = self.post(&self.completions, &body, ids.len() + STATED, replies::written).await;
        written.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: CallError) -> LmError {
        let url = self.completions.base_url();
        match error.kind {
            FailureKind::Denied | FailureKind::Refused | FailureKind::TooLong | FailureKind::Budget => {
                LmError::Backend(format!("{url}: {}", error.message))
            }
            _ => {
                // What follows is true of answers, which are kept.
                let what = error.message.split(". Answers received").next().unwrap_or_default().trim_end_matches('.');
                let advice = "the same command asks again what was in flight";
                LmError::Unavailable(format!("the server of the scoring model: {what}; {advice}"))
            }
        }
    }
}

/// Whether a server returned values of several tokens, and all of them are infinite.
fn is_broken(scores: &[TokenScore]) -> bool {
    let values = || scores.iter().map(|token| token.surprisal).filter(|nats| !nats.is_nan());
    values().count() > 1 && values().all(|nats| nats.is_infinite())
}

/// Returns the model to ask for: the one of the settings, or the only one.
fn chosen(mut listed: Vec<Listed>, named: Option<String>, url: &str) -> Result<Listed> {
    let setting = "asap.scorer.served_model";
    let names = listed.iter().map(|model| model.id.as_str()).collect::<Vec<_>>().join(", ");
    match named {
        Some(named) if listed.is_empty() => Ok(Listed { id: named, window: None }),
        Some(named) => {
            let found = listed.iter().position(|model| model.id == named);
            let error = || LmError::Backend(format!("{setting} = '{named}': the server at {url} has {names}"));
            found.map(|place| listed.swap_remove(place)).ok_or_else(error)
        }
        None if listed.len() == 1 => Ok(listed.swap_remove(0)),
        None if listed.is_empty() => {
            Err(LmError::Backend(format!("the server at {url} lists no model: set {setting} to its name")))
        }
        None => Err(LmError::Backend(format!("set {setting} to one of the models at {url}: {names}"))),
    }
}
