//! What an endpoint accepts of a request, learnt from its refusals: the name of the limit on answers, the sampling, and
//! the window. [`read`](super::refusal) reads a refusal.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::chat::Defaults;
use super::request::ChatRequest;
use crate::settings::{LimitField, Settings};

/// What an endpoint accepts of all requests for one model. The default is what a pipeline asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Form {
    /// The name of the limit on an answer's tokens.
    pub limit: LimitField,
    /// What is left out, so that the endpoint's default applies.
    pub defaults: Defaults,
    /// Most tokens of a prompt with its answer.
    pub window: Option<u64>,
    /// Highest limit on an answer's tokens.
    pub most: Option<u32>,
}

/// How one request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    pub form: Form,
    /// The limit on the answer's tokens. None: the endpoint ends the answer at its window.
    pub tokens: Option<u32>,
}

/// What settings force, in place of what is learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Forced {
    pub limit: Option<LimitField>,
    /// Whether the temperature is sent.
    pub temperature: Option<bool>,
    /// Whether `top_p` is sent.
    pub top_p: Option<bool>,
    pub window: Option<u64>,
}

/// The forms of an endpoint, by the names of its models.
#[derive(Debug, Default)]
pub(super) struct Forms(Mutex<HashMap<String, Form>>);

impl Forced {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            limit: settings.anchor_limit_field,
            temperature: settings.anchor_send_temperature,
            top_p: settings.anchor_send_top_p,
            window: settings.anchor_window.map(|tokens| tokens.0.into()),
        }
    }
}

impl Forms {
    /// Returns how a request is sent, by the settings and by what is known of the endpoint.
    pub(super) fn of(&self, request: &ChatRequest, forced: Forced) -> Sent {
        let known = self.0.lock().get(&request.model).copied().unwrap_or_default();
        let form = Form {
            limit: forced.limit.unwrap_or(known.limit),
            defaults: Defaults {
                temperature: forced.temperature.map_or(known.defaults.temperature, |sends| !sends),
                top_p: forced.top_p.map_or(known.defaults.top_p, |sends| !sends),
            },
            window: forced.window.or(known.window),
            most: known.most,
        };
        let fits = form.window.map_or(u64::MAX, |window| window.saturating_sub(1).max(1));
        let most = form.most.map_or(u64::MAX, u64::from);
        let tokens = u64::from(request.max_tokens).min(fits).min(most);
        Sent { form, tokens: u32::try_from(tokens).ok() }
    }

    /// Keeps the form of a request that the endpoint accepted. Returns in words what is new.
    pub(super) fn keep(&self, model: &str, accepted: Form, forced: Forced) -> Option<String> {
        let mut forms = self.0.lock();
        let known = forms.entry(model.to_string()).or_default();
        let mut news = Vec::new();
        if forced.limit.is_none() && known.limit != accepted.limit {
            news.push(format!("{} in place of {}", accepted.limit.name(), known.limit.name()));
            known.limit = accepted.limit;
        }
        let Defaults { temperature, top_p } = accepted.defaults;
        if forced.temperature.is_none() && temperature && !known.defaults.temperature {
            news.push("no temperature".to_string());
            known.defaults.temperature = true;
        }
        if forced.top_p.is_none() && top_p && !known.defaults.top_p {
            news.push("no top_p".to_string());
            known.defaults.top_p = true;
        }
        if let Some(most) = accepted.most.filter(|most| known.most.is_none_or(|known| known > *most)) {
            news.push(format!("limits of at most {most} tokens"));
            known.most = Some(most);
        }
        if let Some(window) = accepted.window.filter(|window| forced.window.is_none() && known.window != Some(*window))
        {
            news.push(format!("limits below its window of {window} tokens"));
            known.window = Some(window);
        }
        (!news.is_empty()).then(|| news.join(", "))
    }
}
