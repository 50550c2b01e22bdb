//! Asks the model, at an endpoint or in a folder, for the responses that are not stored yet.

use std::collections::HashMap;
use std::sync::Arc;

use asap_llm::chat::{CallError, ChatResponse};
use asap_llm::completions::{Completions, Options};
use asap_llm::config::Owner;
use asap_llm::provider::Provider;
use asap_llm::request::Message;
use asap_llm::{Config, FailureKind, Llm};
use asap_lm::config::ModelConfig;
use asap_lm::locate;
use asap_pipelines::answers::{AnswerFolder, of_output};
use asap_pipelines::run::Observer;
use asap_pipelines::whole_table;
use asap_udfs::Settings;
use asap_udfs::settings::Positive;
use futures::{StreamExt, TryStreamExt};
use url::Url;

use super::Request;
use super::bench::Problem;
use super::clock::Clock;
use crate::failure::Failure;
use crate::output::{calls, count, note, several};
use crate::progress::Bar;

/// What tells a response from the others of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ResponseKey {
    pub problem: usize,
    pub sample: u32,
    pub budget: u32,
}

/// A response, with its chain in think tags.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub text: String,
    pub is_cut_off: bool,
    pub finish_reason: Option<String>,
    pub tokens: u64,
    pub seconds: f64,
}

/// Each response, or why the call failed.
pub(crate) type Found = HashMap<ResponseKey, Result<Response, CallError>>;

/// Returns the responses, and why calls were no longer sent (a limit of calls or cost), if they were not. Budgets are in
/// ascending order.
///
/// # Errors
/// Before any call: if a setting is wrong, the model cannot be opened, or a budget exceeds its window. After the first
/// response: if the endpoint serves another model, or does not report its tokens. Later: if the endpoint is down or
/// responses cannot be stored.
pub(crate) async fn ask(
    args: &Request,
    model: &str,
    problems: &[Problem],
    budgets: &[u32],
    url: &Url,
) -> Result<(Found, Option<String>), Failure> {
    let mut settings = settings(args, model)?;
    let most = budgets.last().copied().unwrap_or(0);
    let answers = AnswerFolder::open(&of_output(url)?).await?;
    let llm = Llm::new(Some(Arc::new(answers)));
    if args.endpoint.is_none() {
        let window = ModelConfig::load(&locate(model)?)?.max_position_embeddings;
        fits(most, window as u64, model)?;
    }
    let mut completions = Completions::new(&language_model(&settings), &llm)?;
    let mut down = None;
    if let Some(endpoint) = &args.endpoint {
        match check_served(&completions, endpoint, model, most).await {
            // Stored responses are graded without the endpoint. A missing one fails at once.
            Err(Failure::TryLater(why)) => {
                settings.anchor_max_retries = 0;
                completions = Completions::new(&language_model(&settings), &llm)?;
                down = Some(why);
            }
            checked => checked?,
        }
    }
    whole_table::check_writable(url).await?;
    let asking = Asking { completions: &completions, problems, args, budgets, model };
    let mut places = (0..problems.len()).flat_map(|problem| (0..args.samples).map(move |sample| (problem, sample)));
    let bar = Bar::new("asking", false);
    bar.begin(problems.len() as u64 * u64::from(args.samples), 1);
    let each = |(problem, sample)| {
        let (asking, bar, llm) = (&asking, &bar, &llm);
        async move {
            let found = asking.budgets(problem, sample).await?;
            let tokens = found.iter().filter_map(|(_, found)| found.as_ref().ok()).map(|found| found.tokens).sum();
            bar.advance(1, tokens);
            bar.slices(0, 0, llm.usage());
            Ok::<_, Failure>(found)
        }
    };
    let (mut clock, mut asked) = (Clock::start(url, args.concurrency).await?, Found::new());
    // A wrong endpoint shows in one response, so the first is awaited before the others are paid.
    if let Some(first) = places.next() {
        let first = each(first).await?;
        if let Some((_, Err(error))) = first.first().filter(|(_, found)| found.as_ref().is_err_and(is_of_endpoint)) {
            return Err(match down {
                Some(why) => Failure::TryLater(why),
                None => Failure::Failed(format!("the first request failed ({error}); no other problem was asked")),
            });
        }
        asked.extend(first);
        clock.tick(llm.usage().calls).await?;
    }
    let mut found = futures::stream::iter(places.map(each)).buffer_unordered(args.concurrency as usize);
    while let Some(found) = found.try_next().await? {
        asked.extend(found);
        clock.tick(llm.usage().calls).await?;
    }
    drop(found);
    clock.save().await?;
    bar.finish();
    if let Some(calls) = calls(&llm.usage()) {
        note(calls);
    }
    note_endpoint(&asked, &llm);
    Ok((asked, llm.budget_refusal()))
}

/// Says how responses differ from what was asked for.
fn note_endpoint(found: &Found, llm: &Llm) {
    let is_short =
        |(key, response): &(&ResponseKey, &Response)| response.is_cut_off && response.tokens < u64::from(key.budget);
    let responses = found.iter().filter_map(|(key, found)| found.as_ref().ok().map(|response| (key, response)));
    let short = responses.filter(is_short).count() as u64;
    if short > 0 {
        let what = several(short, "response");
        note(format!("{what} cut off before --budget, by the endpoint's window or own limit: set a smaller --budget"));
    }
    let defaults: Vec<_> = llm.defaults().names().collect();
    if !defaults.is_empty() {
        note(format!("responses have the endpoint's default {}, not that of the flags", defaults.join(" and ")));
    }
}

/// Whether no other request would fare better.
fn is_of_endpoint(error: &CallError) -> bool {
    matches!(error.kind, FailureKind::Denied | FailureKind::Unavailable | FailureKind::Timeout)
}

fn settings(args: &Request, model: &str) -> Result<Settings, Failure> {
    let mut settings = args.settings.clone();
    settings.anchor_model = Some(match args.endpoint {
        Some(_) => model.to_string(),
        None => locate(model)?.to_string_lossy().into_owned(),
    });
    settings.anchor_provider = if args.endpoint.is_some() { Provider::Openai } else { Provider::Local };
    settings.anchor_base_url.clone_from(&args.endpoint);
    settings.anchor_max_concurrent_requests = Positive(args.concurrency);
    Ok(settings)
}

fn language_model(settings: &Settings) -> Config {
    Config { owner: Owner::Evaluations, ..settings.language_model() }
}

fn fits(budget: u32, window: u64, model: &str) -> Result<(), Failure> {
    if u64::from(budget) < window {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "--budget {budget} does not fit the window of {model}, {} tokens for problem and response: set a smaller budget",
        count(window)
    )))
}

/// Asks the endpoint for its list of models, which costs nothing. An endpoint without a list is not an error.
async fn check_served(completions: &Completions, endpoint: &str, model: &str, most: u32) -> Result<(), Failure> {
    let not_there =
        |error: CallError| Failure::TryLater(format!("{error}; start the endpoint, or set --endpoint to its address"));
    let Some(served) = completions.served().await.map_err(not_there)? else {
        return Ok(());
    };
    match served.iter().find(|served| served.id == model) {
        Some(served) => served.window.map_or(Ok(()), |window| fits(most, window, model)),
        None if served.is_empty() => Ok(()),
        None => {
            let ids = served.iter().map(|served| served.id.as_str()).collect::<Vec<_>>().join(", ");
            Err(Failure::Usage(format!("{endpoint} serves no model {model}; it serves {ids}")))
        }
    }
}

struct Asking<'a> {
    completions: &'a Completions,
    problems: &'a [Problem],
    args: &'a Request,
    budgets: &'a [u32],
    model: &'a str,
}

impl Asking<'_> {
    /// Asks for a response at each budget, the largest first. A greedy response that ends within a smaller budget is also
    /// the response at that budget, so it is paid once.
    async fn budgets(
        &self,
        problem: usize,
        sample: u32,
    ) -> Result<Vec<(ResponseKey, Result<Response, CallError>)>, Failure> {
        let mut found: Vec<(ResponseKey, Result<Response, CallError>)> = Vec::new();
        for &budget in self.budgets.iter().rev() {
            let longer = found.last().and_then(|(_, response)| response.as_ref().ok());
            let ends_earlier = |response: &&Response| !response.is_cut_off && response.tokens <= u64::from(budget);
            let response = match longer.filter(|_| self.args.temperature == 0.0).filter(ends_earlier) {
                Some(response) => Ok(response.clone()),
                None => self.respond(problem, sample, budget).await?,
            };
            found.push((ResponseKey { problem, sample, budget }, response));
        }
        Ok(found)
    }

    async fn respond(&self, problem: usize, sample: u32, budget: u32) -> Result<Result<Response, CallError>, Failure> {
        let Request { temperature, top_p, ref stop, .. } = *self.args;
        let options = Options { max_tokens: budget, temperature, top_p, stop: stop.clone(), seed: None };
        let message = Message { role: "user", content: self.problems[problem].prompt.clone() };
        match self.completions.respond(vec![message], sample, &options).await? {
            Ok(response) => Ok(Ok(self.checked(response)?)),
            Err(error) => Ok(Err(error)),
        }
    }

    fn checked(&self, response: ChatResponse) -> Result<Response, Failure> {
        let is_other = |served: &&str| self.args.endpoint.is_some() && !is_same(served, self.model);
        if let Some(served) = response.model.as_deref().filter(is_other) {
            return Err(Failure::Failed(format!(
                "the endpoint answers with the model {served}, not {}: name it in --model",
                self.model
            )));
        }
        let Some(tokens) = response.completion_tokens else {
            return Err(Failure::Failed(
                "the endpoint reports no usage.completion_tokens, so tokens cannot be counted: use an endpoint that \
                 reports usage"
                    .to_string(),
            ));
        };
        let (text, is_cut_off) = (response.generation().into_owned(), response.is_cut_off());
        Ok(Response { text, is_cut_off, finish_reason: response.finish_reason, tokens, seconds: response.seconds })
    }
}

/// Whether two names are of one model. Endpoints add versions, such as `gpt-4o-2024-08-06`, and folders.
fn is_same(served: &str, asked: &str) -> bool {
    let last = |name: &str| name.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_lowercase();
    let (served, asked) = (last(served), last(asked));
    served.starts_with(&asked) || asked.starts_with(&served)
}
