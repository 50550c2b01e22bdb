//! A request to a language model, and the key of its answer.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// The key of an answer: the SHA-256 of the whole request.
pub type RequestKey = [u8; 32];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The speaker: `system`, `user` or `assistant`; always `user` in anchoring.
    pub role: &'static str,
    pub content: String,
}

/// One request for one answer. Equal requests may share their answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ChatRequest {
    pub model: String,
    pub messages: Vec<Message>,
    pub temperature: f64,
    pub top_p: f64,
    pub max_tokens: u32,
    /// Number of the sample among equal requests, from 1. It is not sent.
    pub attempt: u32,
    /// SHA-256 of the prompt's template in hexadecimal digits; empty if the prompt is the row's own.
    #[serde(rename = "prompt")]
    pub template_hash: String,
    /// Texts that end an answer before them; none is empty. This field and those after it are part of the key only if
    /// they are set, so that earlier answers keep their keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Seed of the sampling; an endpoint may ignore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether the answer is the whole response: its text is a [`ChatResponse`](super::chat::ChatResponse) in JSON, also
    /// if it was cut off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
}

impl ChatRequest {
    /// Returns the SHA-256 of the request as JSON, with its fields in the order above. The endpoint is not part of it,
    /// so answers stay valid when the same model moves to another address.
    /// Returns the hash that identifies the request.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn key(&self) -> serde_json::Result<RequestKey> {
        Ok(Sha256::digest(serde_json::to_vec(self)?).into())
    }

    /// Returns the length of all messages.
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.content.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn request() -> ChatRequest {
        ChatRequest {
            model: "m".to_string(),
            messages: vec![Message { role: "user", content: "q".to_string() }],
            temperature: 1.0,
            top_p: 1.0,
            max_tokens: 10,
            attempt: 1,
            template_hash: "ab".to_string(),
            ..ChatRequest::default()
        }
    }

    #[test]
    fn every_field_is_part_of_the_key() {
        let asked = request();
        let said = |content: &str| vec![Message { role: "user", content: content.to_string() }];
        let others = [
            asked.clone(),
            ChatRequest { model: "n".to_string(), ..asked.clone() },
            ChatRequest { messages: said("p"), ..asked.clone() },
            ChatRequest { messages: [said("q"), said("")].concat(), ..asked.clone() },
            ChatRequest { temperature: 0.0, ..asked.clone() },
            ChatRequest { top_p: 0.9, ..asked.clone() },
            ChatRequest { max_tokens: 11, ..asked.clone() },
            ChatRequest { attempt: 2, ..asked.clone() },
            ChatRequest { template_hash: "ac".to_string(), ..asked.clone() },
            ChatRequest { stop: vec!["s".to_string()], ..asked.clone() },
            ChatRequest { seed: Some(0), ..asked.clone() },
            ChatRequest { is_whole: true, ..asked.clone() },
        ];
        let keys: HashSet<RequestKey> = others.iter().map(|other| other.key().unwrap()).collect();
        assert_eq!(keys.len(), others.len());
        assert!(keys.contains(&request().key().unwrap()));
    }

    #[test]
    fn a_key_does_not_change_from_version_to_version() {
        let json = r#"{"model":"m","messages":[{"role":"user","content":"q"}],"temperature":1.0,"top_p":1.0,"max_tokens":10,"attempt":1,"prompt":"ab"}"#;
        assert_eq!(request().key().unwrap(), <[u8; 32]>::from(Sha256::digest(json)));
    }
}
