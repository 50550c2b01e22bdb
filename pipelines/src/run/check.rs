//! Checks of a run for a schedule: all that can be checked before the first row.

use datafusion::common::{DataFusionError, Result};
use url::Url;

use asap_llm::Llm;
use asap_llm::provider::Provider;
use asap_udfs::{Models, Settings};

use super::job::{Effort, Job};
use super::request::Request;
use super::request_checks::{check_sql, locations, planned};
use crate::corpus::{Corpus, Fit, Source};
use crate::pipeline_session::pipeline_session;
use crate::{builtin, location};

/// Checks a run as [`run`](super::run) does before it reads a row. Nothing is written, downloaded or asked. If a location or a
/// model is not on this machine, checks only the locations, the settings and the pipeline, and returns what is missing.
///
/// # Errors
/// As a run does before it reads a row, and if a file of the input fails.
pub async fn check(mut request: Request) -> Result<Option<String>> {
    let (sources, to) = locations(&request)?;
    check_sql(&request.sql)?;
    if let Some(missing) = missing(&request, &sources, &to) {
        sketch(request).await?;
        return Ok(Some(missing));
    }
    let mut job = Job::open(&mut request, Effort::Estimate).await?;
    if let Some(failure) = job.summary.files_failed.first() {
        return Err(failure.clone().into());
    }
    let Some(group) = job.slices.first().map(|slice| slice.group) else { return Ok(None) };
    let pipeline = job.pipeline(&request).await?;
    let template = job.template(&pipeline, group).await?;
    job.writing(&pipeline, template.as_ref(), &request)?;
    Ok(None)
}

/// What a run needs that is not on this machine.
fn missing(request: &Request, sources: &[Source], to: &Url) -> Option<String> {
    let settings = &request.settings;
    for source in sources {
        match location::local_path(&source.url) {
            None => return Some(format!("{} is not on this machine", location::redact(&source.typed))),
            Some(path) if !path.exists() => return Some(format!("there is no file or folder {} yet", source.typed)),
            Some(_) => {}
        }
    }
    if location::local_path(to).is_none() {
        return Some(format!("{} is not on this machine", location::display(to)));
    }
    if settings.scorer_base_url.is_some() {
        return Some("a server has the scoring model".to_string());
    }
    let asked = settings.anchor_model.as_ref().filter(|_| settings.anchor_provider == Provider::Local);
    let mut models = std::iter::once(&settings.scorer_model).chain(&settings.compressor_model).chain(asked);
    models.find(|model| asap_lm::find(model).is_none()).map(|model| format!("the model {model} is not on this machine"))
}

/// Plans the pipeline over a corpus without columns of its own, and without the models.
async fn sketch(mut request: Request) -> Result<()> {
    if builtin::chooses(&request.name) {
        return Ok(());
    }
    let has_encoder = request.settings.compressor_model.as_ref().is_none_or(|model| asap_lm::find(model).is_some());
    let Settings { scorer_model, scorer_backend, scorer_device, scorer_base_url, .. } = Settings::default();
    request.settings =
        Settings { scorer_model, scorer_backend, scorer_device, scorer_base_url, ..request.settings.clone() };
    let context = pipeline_session(request.settings.clone(), &Llm::estimate(None), &Models::counting())?;
    let corpus = Corpus::recognize(&context.state(), vec![], None, Fit::Query).await?;
    match planned(&context, &corpus, &request).await {
        // The input may have the column.
        Err(error) if matches!(error.find_root(), DataFusionError::SchemaError(..)) => Ok(()),
        Ok(pipeline) if has_encoder && request.settings.anchor_provider != Provider::Local => {
            context.state().optimize(&pipeline).map(drop)
        }
        planned => planned.map(drop),
    }
}
