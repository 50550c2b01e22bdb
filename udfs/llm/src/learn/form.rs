//! What an endpoint accepts of a request, learnt from its refusals. [`refusal`](crate::learn::refusal) reads a refusal.

use std::array;
use std::collections::HashMap;

use parking_lot::Mutex;

use crate::request::ChatRequest;

/// The changes that an endpoint may ask for, in words.
const CHANGES: [&str; 3] = ["max_completion_tokens in place of max_tokens", "no temperature", "no top_p"];
pub(crate) const COMPLETION_LIMIT: usize = 0;
pub(crate) const NO_TEMPERATURE: usize = 1;
pub(crate) const NO_TOP_P: usize = 2;

/// What an endpoint accepts of all requests for one model. The default is what a pipeline asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Form {
    pub changes: [bool; 3],
    /// Most tokens of a prompt with its answer.
    pub window: Option<u64>,
    /// Highest limit on an answer's tokens.
    pub most: Option<u32>,
}

/// How one request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub form: Form,
    /// The limit on the answer's tokens. None: the endpoint ends the answer at its window.
    pub tokens: Option<u32>,
}

/// What settings force, in place of what is learnt.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Forced {
    /// Whether requests name their limit `max_completion_tokens`, leave out the temperature, and leave out `top_p`.
    pub changes: [Option<bool>; 3],
    /// Most tokens of a prompt with its answer.
    pub window: Option<u64>,
}

/// The forms of an endpoint, by the names of its models.
#[derive(Debug, Default)]
pub(crate) struct Forms(Mutex<HashMap<String, Form>>);

impl Forms {
    /// Returns how a request is sent, by the settings and by what is known of the endpoint.
    pub(crate) fn of(&self, request: &ChatRequest, forced: Forced) -> Sent {
        let known = self.0.lock().get(&request.model).copied().unwrap_or_default();
        let changes = array::from_fn(|at| forced.changes[at].unwrap_or(known.changes[at]));
        let form = Form { changes, window: forced.window.or(known.window), ..known };
        let fits = form.window.map_or(u64::MAX, |window| window.saturating_sub(1).max(1));
        let tokens = u64::from(request.max_tokens).min(fits).min(form.most.map_or(u64::MAX, u64::from));
        Sent { form, tokens: u32::try_from(tokens).ok() }
    }

    /// Keeps the form of a request that the endpoint accepted. Returns in words what is new.
    pub(crate) fn keep(&self, model: &str, accepted: Form, forced: Forced) -> Option<String> {
        let mut forms = self.0.lock();
        let known = forms.entry(model.to_string()).or_default();
        let mut news = Vec::new();
        for (at, change) in CHANGES.iter().enumerate() {
            if accepted.changes[at] && !known.changes[at] && forced.changes[at].is_none() {
                known.changes[at] = true;
                news.push((*change).to_string());
            }
        }
        if accepted.most != known.most && accepted.most.is_some() {
            known.most = accepted.most;
            news.extend(known.most.map(|most| format!("limits of at most {most} tokens")));
        }
        if accepted.window != known.window && accepted.window.is_some() && forced.window.is_none() {
            known.window = accepted.window;
            news.extend(known.window.map(|window| format!("limits below its window of {window} tokens")));
        }
        (!news.is_empty()).then(|| news.join(", "))
    }
}
